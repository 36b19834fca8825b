//! Digests of pages, by which a page is compared with its content at an older cut.
//!
//! A digest has 128 bits of HighwayHash, a keyed function. Each process draws its key when it starts, and no
//! image holds a digest. So a page that has changed passes for unchanged with a probability of 2^-128: a million ranks
//! with 1 TiB each that compare all of it once a minute meet one such page in 10^18 years. The faster XXH3 will not
//! do. It adds products of 32 bits, and pages of counters that differ by one here and there have equal digests of
//! 128 bits. BLAKE3 takes five times as long.

use std::iter::Peekable;
use std::ops::Range;
use std::vec;

use ckpt_image::PAGE;
use highway::{HighwayHash, HighwayHasher, Key};

/// Pages of a block: 2 MiB of addresses.
const BLOCK_PAGES: u64 = 512;

/// Digest of a page's content.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageDigest(pub [u64; 2]);

impl PageDigest {
    /// The digest as that of a page of private memory of a file. An image inherits a page only from memory of the same
    /// kind, so equal content in memory of different kinds must not compare equal.
    pub fn of_file(self) -> PageDigest {
        PageDigest([!self.0[0], self.0[1]])
    }
}

/// The key of the digests of a process.
#[derive(Clone, Copy, Debug)]
pub struct DigestKey(pub [u64; 4]);

impl DigestKey {
    pub fn random() -> Result<DigestKey, getrandom::Error> {
        let mut key = [0; 4];
        for word in &mut key {
            *word = getrandom::u64()?;
        }
        Ok(DigestKey(key))
    }

    /// The digest of a page. It allocates nothing and takes no lock.
    pub fn digest(&self, page: &[u8]) -> PageDigest {
        PageDigest(HighwayHasher::new(Key(self.0)).hash128(page))
    }
}

/// The digests of some of a block's pages.
#[derive(Debug)]
struct Block {
    number: u64,
    /// A bit for each page that has a digest.
    pages: [u64; (BLOCK_PAGES / 64) as usize],
    /// In the order of the pages.
    digests: Vec<PageDigest>,
}

impl Block {
    fn get(&self, page: u64) -> Option<PageDigest> {
        let (word, bit) = ((page % BLOCK_PAGES / 64) as usize, page % 64);
        if self.pages[word] >> bit & 1 == 0 {
            return None;
        }
        let before = self.pages[..word].iter().map(|pages| pages.count_ones());
        let below = self.pages[word] & ((1 << bit) - 1);
        let index = before.sum::<u32>() + below.count_ones();
        self.digests.get(index as usize).copied()
    }

    /// Adds a page that follows all others. Returns whether there was memory for it.
    fn push(&mut self, page: u64, digest: PageDigest) -> bool {
        let room = self.digests.try_reserve(1).is_ok();
        if room {
            self.pages[(page % BLOCK_PAGES / 64) as usize] |= 1 << (page % 64);
            self.digests.push(digest);
        }
        room
    }
}

/// The digests of pages at their last comparison: 16 bytes and a fraction for each.
#[derive(Debug, Default)]
pub struct DigestTable(Vec<Block>);

impl DigestTable {
    /// Whether it may have digests of pages in this range.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        let block = PAGE * BLOCK_PAGES;
        let first = (self.0).partition_point(|known| (known.number + 1) * block <= range.start);
        let next = self.0.get(first);
        next.is_some_and(|known| known.number * block < range.end)
    }

    /// Begins to replace all digests. Each block goes when the next one is reached, so that there are never two tables.
    pub fn replace(self) -> Replacement {
        Replacement {
            before: self.0.into_iter().peekable(),
            after: Vec::new(),
            scarce: false,
        }
    }
}

/// A table that is being replaced, in ascending order of pages.
#[derive(Debug)]
pub struct Replacement {
    before: Peekable<vec::IntoIter<Block>>,
    after: Vec<Block>,
    /// Memory has run out: there are no digests any more.
    scarce: bool,
}

impl Replacement {
    /// Records the digest of the page at this address. Returns whether it had the same digest before.
    pub fn exchange(&mut self, address: u64, digest: PageDigest) -> bool {
        let page = address / PAGE;
        let number = page / BLOCK_PAGES;
        while self.before.next_if(|block| block.number < number).is_some() {}
        let before = self.before.peek().filter(|block| block.number == number);
        let same = before.and_then(|block| block.get(page)) == Some(digest);
        if !self.scarce && !self.push(page, number, digest) {
            self.scarce = true;
            self.after = Vec::new();
        }
        same
    }

    fn push(&mut self, page: u64, number: u64, digest: PageDigest) -> bool {
        if self.after.last().is_none_or(|last| last.number != number) {
            if let Some(last) = self.after.last_mut() {
                last.digests.shrink_to_fit();
            }
            if self.after.try_reserve(1).is_err() {
                return false;
            }
            self.after.push(Block {
                number,
                pages: Default::default(),
                digests: Vec::new(),
            });
        }
        let last = self.after.last_mut();
        last.is_some_and(|last| last.push(page, digest))
    }

    /// The new table: pages that were not reached have no digest any more.
    pub fn complete(self) -> DigestTable {
        DigestTable(self.after)
    }

    /// The table if no more pages are reached: pages that were not reached keep their digests.
    pub fn give_up(self) -> DigestTable {
        if self.scarce {
            return DigestTable::default();
        }
        let last = self.after.last().map(|last| last.number);
        let rest = self.before.filter(|block| Some(block.number) > last);
        DigestTable(self.after.into_iter().chain(rest).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: DigestKey = DigestKey([1, 2, 3, 4]);

    #[test]
    fn counters_that_go_from_one_to_another_change_the_digest() {
        // XXH3 has equal digests of 128 bits for these two, with its own secret.
        let page = |mut code: u32| {
            let mut page = [0_u8; PAGE as usize];
            for counter in page.chunks_exact_mut(64).take(16) {
                let value = 999 + u64::from(code % 3);
                counter[..8].copy_from_slice(&value.to_le_bytes());
                code /= 3;
            }
            KEY.digest(&page)
        };
        assert_ne!(page(9_265_864), page(24_357_280));
        assert_eq!(page(9_265_864), page(9_265_864));
    }

    #[test]
    fn every_bit_of_page_and_key_counts() {
        let mut page = vec![7; PAGE as usize];
        let digest = KEY.digest(&page);
        for bit in (0..8 * PAGE as usize).step_by(101) {
            page[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(KEY.digest(&page), digest, "{bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(KEY.digest(&page), digest);
        assert_ne!(DigestKey([1, 2, 3, 5]).digest(&page), digest);
        assert_ne!(digest.of_file(), digest);
    }

    /// A table of these pages, each with the digest of this round.
    fn with(table: DigestTable, pages: &[(u64, u64)]) -> (Replacement, Vec<bool>) {
        let mut replacement = table.replace();
        let same = pages
            .iter()
            .map(|(page, round)| replacement.exchange(page * PAGE, PageDigest([*page, *round])));
        let same = same.collect();
        (replacement, same)
    }

    #[test]
    fn a_page_is_the_same_if_its_last_digest_is() {
        let first = [(0, 1), (63, 1), (64, 1), (511, 1), (512, 1), (9999, 1)];
        let (table, same) = with(DigestTable::default(), &first);
        assert_eq!(same, [false; 6]);
        let next = [(0, 1), (1, 1), (63, 2), (64, 1), (511, 1), (9999, 1)];
        let (table, same) = with(table.complete(), &next);
        assert_eq!(same, [true, false, false, true, true, true]);
        // Page 512 was not reached, so it is forgotten.
        let (table, same) = with(table.complete(), &[(63, 2), (512, 1), (9999, 2)]);
        assert_eq!(same, [true, false, false]);
        let table = table.complete();
        assert!(table.touches(&(63 * PAGE..64 * PAGE)));
        assert!(!table.touches(&(4096 * PAGE..5000 * PAGE)));
        assert!(!table.touches(&(20_000 * PAGE..30_000 * PAGE)));
    }

    #[test]
    fn what_was_not_reached_is_kept_if_it_is_given_up() {
        let first = [(0, 1), (1, 1), (600, 1), (9999, 1)];
        let (table, _) = with(DigestTable::default(), &first);
        let (table, _) = with(table.complete(), &[(0, 2), (600, 1)]);
        let table = table.give_up();
        let (_, same) = with(table, &[(0, 2), (1, 1), (600, 1), (9999, 1)]);
        // Of a block that was reached, only what was compared is known.
        assert_eq!(same, [true, false, true, true]);
    }
}
