//! Queries about the pages of a mapping: the pages that hold something which is not in the mapped file, and those
//! of them that have been written since the last query. Guard pages have a query of their own.
//!
//! # Safety
//! The only unsafe operation is the ioctl that asks the kernel; its argument points to local buffers that outlive the
//! call, with their true lengths. Write-protecting pages for ourselves changes nothing for the program: the kernel lets
//! every write through, and records it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use crate::advice::advise;
use crate::anonymous::AnonymousMapping;
use crate::ranges::push;

const PAGE: u64 = 4096;

/// Was written since it was write-protected by [`Pagemap::mark`], or never was.
const WRITTEN: u64 = 1 << 1;
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO_PAGE: u64 = 1 << 5;
/// Guard markers look like swapped pages and may not be read. Kernels that do not know this
/// category have no guard markers, or cannot tell.
const GUARD: u64 = 1 << 8;

/// `struct pm_scan_arg` of the kernel.
#[repr(C)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

impl PageRegion {
    fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

const _: () = assert!(size_of::<ScanArgument>() == 96 && size_of::<PageRegion>() == 24);

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 3 << 30 | 96 << 16 | (b'f' as libc::c_ulong) << 8 | 16;

/// Flags of the scan: write-protect what is found; fail where that cannot be undone by a mere write.
const PROTECT: u64 = 1 << 0;
const ONLY_WATCHED: u64 = 1 << 1;

/// The pages that a scan finds: in none of the first categories, and in one of the second.
#[derive(Clone, Copy)]
struct Wanted {
    without: u64,
    of: u64,
}

impl Wanted {
    /// Those that hold something, and are in none of these categories.
    const fn held(without: u64) -> Wanted {
        Wanted {
            without,
            of: PRESENT | SWAPPED,
        }
    }

    const GUARDS: Wanted = Wanted {
        without: 0,
        of: GUARD,
    };
}

/// The interface of the kernel that is used.
#[derive(Clone, Copy)]
enum Interface {
    /// PAGEMAP_SCAN without pages of these categories.
    Scan(u64),
    /// One entry per page (kernels before 6.7).
    Entries,
}

/// Pages that belong to the process alone, in ascending order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MarkedPages {
    /// All of them.
    pub own: Vec<Range<u64>>,
    /// Those that were not written since the last time.
    pub unchanged: Vec<Range<u64>>,
}

/// The kernel's page map of this process.
pub struct Pagemap {
    pagemap: File,
    interface: Interface,
}

impl Pagemap {
    pub fn open() -> io::Result<Pagemap> {
        let pagemap = File::open("/proc/self/pagemap")?;
        let mut pages = Pagemap {
            pagemap,
            interface: Interface::Entries,
        };
        for without in [FILE | ZERO_PAGE | GUARD, FILE | ZERO_PAGE] {
            if pages.scan(0..PAGE, Wanted::held(without), 0, 0).is_ok() {
                pages.interface = Interface::Scan(without);
                break;
            }
        }
        Ok(pages)
    }

    /// The runs of pages in `range` that belong to the process alone: touched anonymous memory,
    /// and the modified pages of a private file mapping.
    ///
    /// `anonymous` says that no page of the mapping belongs to a file. Otherwise the kernel must examine each page,
    /// which takes ten times as long.
    pub fn own(&self, range: Range<u64>, anonymous: bool) -> io::Result<Vec<Range<u64>>> {
        match self.interface {
            Interface::Scan(without) => {
                let found = self.scan(range, held_in(without, anonymous), 0, 0)?;
                Ok(merged(found.iter().map(PageRegion::range)))
            }
            Interface::Entries => self.entries(range, Entry::is_own),
        }
    }

    /// Whether there are any.
    pub fn any(&self, range: Range<u64>, anonymous: bool) -> io::Result<bool> {
        match self.interface {
            Interface::Scan(without) => {
                let mut first = [PageRegion::default()];
                let wanted = held_in(without, anonymous);
                Ok(self.scan_once(range, wanted, 0, 0, 1, &mut first)? > 0)
            }
            Interface::Entries => Ok(!self.entries(range, Entry::is_own)?.is_empty()),
        }
    }

    /// The same for a range in which the kernel tracks writes, with the pages written since the last call. It starts
    /// the next interval at once. A page that is written meanwhile is reported by this call or by the next one.
    ///
    /// In memory that a file backs, a page that was given back to the kernel keeps its protection and looks like one
    /// that is swapped out. So there, swapped pages count as written.
    pub fn mark(&self, range: Range<u64>, anonymous: bool) -> io::Result<MarkedPages> {
        let Interface::Scan(without) = self.interface else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let there = if anonymous { 0 } else { PRESENT };
        let wanted = held_in(without, anonymous);
        let found = self.scan(range, wanted, PROTECT | ONLY_WATCHED, WRITTEN | there)?;
        let unchanged = found.iter().filter(|region| region.categories == there);
        Ok(MarkedPages {
            own: merged(found.iter().map(PageRegion::range)),
            unchanged: merged(unchanged.map(PageRegion::range)),
        })
    }

    /// The guard pages in `range`.
    pub fn guards(&self, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        match self.interface {
            Interface::Scan(without) if without & GUARD != 0 => {
                let found = self.scan(range, Wanted::GUARDS, 0, 0)?;
                Ok(merged(found.iter().map(PageRegion::range)))
            }
            _ => self.entries(range, Entry::is_guard),
        }
    }

    /// Whether the kernel tells guard pages from others, as far as it has any.
    pub fn tells_guards(&self) -> io::Result<bool> {
        let page = AnonymousMapping::new(PAGE as usize, libc::PROT_READ | libc::PROT_WRITE)?;
        let page = page.start as u64..(page.start + page.len) as u64;
        Ok(!advise(&page, contract::MADV_GUARD_INSTALL) || !self.guards(page)?.is_empty())
    }

    fn scan(
        &self,
        range: Range<u64>,
        wanted: Wanted,
        flags: u64,
        tell: u64,
    ) -> io::Result<Vec<PageRegion>> {
        let mut found = [PageRegion::default(); 512];
        let mut all: Vec<PageRegion> = Vec::new();
        let mut start = range.start;
        loop {
            let count = self.scan_once(start..range.end, wanted, flags, tell, 0, &mut found)?;
            all.extend_from_slice(&found[..count]);
            // `walk_end` is unreliable if there are many regions. After a full result the scan continues behind the
            // last region. Any other result is the end.
            match all.last() {
                Some(last) if count == found.len() && last.end < range.end => start = last.end,
                _ => return Ok(all),
            }
        }
    }

    /// Fills `found` with the first regions, of `most` pages altogether (0: any number). Returns the number of regions.
    fn scan_once(
        &self,
        range: Range<u64>,
        wanted: Wanted,
        flags: u64,
        tell: u64,
        most: u64,
        found: &mut [PageRegion],
    ) -> io::Result<usize> {
        let argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            flags,
            start: range.start,
            end: range.end,
            walk_end: 0,
            vec: found.as_mut_ptr() as u64,
            vec_len: found.len() as u64,
            max_pages: most,
            category_inverted: wanted.without,
            category_mask: wanted.without,
            category_anyof_mask: wanted.of,
            // Neighbouring pages with equal categories are returned as one range.
            return_mask: tell,
        };
        // SAFETY: `argument` and `found` live across the call and `vec_len` is the length of
        // `found`, which the kernel fills.
        let count = unsafe { libc::ioctl(self.pagemap.as_raw_fd(), PAGEMAP_SCAN, &argument) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn entries(
        &self,
        range: Range<u64>,
        wanted: impl Fn(Entry) -> bool,
    ) -> io::Result<Vec<Range<u64>>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut buffer = vec![0u8; 8 << 14];
        let mut page = range.start / PAGE;
        let end = range.end / PAGE;
        while page < end {
            let count = (end - page).min(buffer.len() as u64 / 8) as usize;
            let entries = &mut buffer[..8 * count];
            self.pagemap.read_exact_at(entries, page * 8)?;
            for entry in entries.chunks_exact(8) {
                let entry = Entry(u64::from_le_bytes(entry.try_into().unwrap_or_default()));
                if wanted(entry) {
                    push(&mut runs, page * PAGE..(page + 1) * PAGE);
                }
                page += 1;
            }
        }
        Ok(runs)
    }
}

/// An entry of /proc/self/pagemap.
#[derive(Clone, Copy)]
struct Entry(u64);

impl Entry {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const FILE: u64 = 1 << 61;
    /// Linux 6.15.
    const GUARD: u64 = 1 << 58;

    fn is_own(self) -> bool {
        self.0 & (Entry::PRESENT | Entry::SWAPPED) != 0
            && self.0 & (Entry::FILE | Entry::GUARD) == 0
    }

    fn is_guard(self) -> bool {
        self.0 & Entry::GUARD != 0
    }
}

/// The pages that hold something, and are in none of these categories. Anonymous memory has no pages of files, so that
/// the kernel is not asked for these there.
fn held_in(without: u64, anonymous: bool) -> Wanted {
    Wanted::held(match anonymous {
        true => without & !FILE,
        false => without,
    })
}

/// Ascending runs, with neighbours joined.
fn merged(runs: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut out = Vec::new();
    for run in runs {
        push(&mut out, run);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_see_the_same_pages() {
        let pages = Pagemap::open().unwrap();
        let len = 5000 * PAGE as usize;
        // SAFETY: a fresh mapping at a place of the kernel's choice; only its own bytes are
        // written, and it is left to the end of the process.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(std::ptr::null_mut(), len, 3, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            libc::madvise(base, len, libc::MADV_NOHUGEPAGE);
            // Every third page, so that there are more runs than one answer holds.
            for page in (0..4000).step_by(3).chain(4500..4600) {
                *base.cast::<u8>().add(page * PAGE as usize) = 1;
            }
            base as u64
        };
        let expected: Vec<Range<u64>> = (0..4000)
            .step_by(3)
            .map(|page| page..page + 1)
            .chain(std::iter::once(4500..4600))
            .map(|run| base + run.start * PAGE..base + run.end * PAGE)
            .collect();
        let range = base..base + len as u64;
        assert!(pages.entries(range.clone(), Entry::is_own).unwrap() == expected);
        assert!(pages.any(range.clone(), true).unwrap());
        assert!(!pages.any(base + 4700 * PAGE..range.end, true).unwrap());
        assert!(pages.own(range.clone(), false).unwrap() == expected);
        assert!(pages.own(range.clone(), true).unwrap() == expected);
        assert!(pages.guards(range).unwrap().is_empty());
    }

    #[test]
    fn guard_pages_are_told_from_others() {
        let pages = Pagemap::open().unwrap();
        let memory = AnonymousMapping::new(9 * PAGE as usize, 3).unwrap();
        let page = |number: u64| memory.start as u64 + number * PAGE;
        let guards = vec![page(1)..page(3), page(8)..page(9)];
        if guards
            .iter()
            .any(|run| !advise(run, contract::MADV_GUARD_INSTALL))
        {
            skip::skip!("the kernel has no guard pages (Linux 6.13)");
        }
        assert!(pages.tells_guards().unwrap());
        assert_eq!(pages.guards(page(0)..page(9)).unwrap(), guards);
        assert!(pages.own(page(0)..page(9), true).unwrap().is_empty());
        let told = pages.entries(page(0)..page(9), Entry::is_guard);
        assert_eq!(told.unwrap(), guards);
    }
}
