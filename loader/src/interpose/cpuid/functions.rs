//! Functions of an ELF file, by its unwind table (`.eh_frame_hdr`), which compilers make for all code on x86-64.

use core::ops::Range;
use goblin::elf64::header::Header;
use goblin::elf64::program_header::{ProgramHeader, PT_GNU_EH_FRAME, PT_LOAD};

/// Reads bytes of the file: offset, number.
pub type Read<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

/// Encodings of the numbers in the table: signed, of 32 bits, relative to the table or to the number itself.
const RELATIVE_TO_TABLE: u8 = 0x3b;
const RELATIVE_TO_PLACE: u8 = 0x1b;
/// An unsigned number of 32 bits.
const UNSIGNED: u8 = 0x03;
/// Bytes of the table before its entries.
const HEAD: usize = 12;

/// The functions of a file.
pub struct Functions {
    loads: Vec<ProgramHeader>,
    /// Address of the table.
    table: u64,
    /// First address of a function, and of its description, relative to the table. Sorted.
    entries: Vec<[i32; 2]>,
}

fn number(bytes: &[u8], at: usize) -> Option<i32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(i32::from_le_bytes(bytes.try_into().ok()?))
}

impl Functions {
    /// Reads the table; None if the file has none, or one of another form.
    pub fn of(read: Read) -> Option<Functions> {
        let head = read(0, size_of::<Header>())?;
        let header = Header::from_bytes(head.first_chunk()?);
        let count = usize::from(header.e_phnum);
        let fits = head.starts_with(b"\x7fELF")
            && usize::from(header.e_phentsize) == size_of::<ProgramHeader>();
        let headers = read(header.e_phoff, count * size_of::<ProgramHeader>()).filter(|_| fits)?;
        let segments = ProgramHeader::from_bytes(&headers, count);
        let found = segments
            .iter()
            .find(|segment| segment.p_type == PT_GNU_EH_FRAME)?;
        let bytes = read(found.p_offset, found.p_filesz as usize)?;
        let [1, _, UNSIGNED, RELATIVE_TO_TABLE] = *bytes.first_chunk::<4>()? else {
            return None;
        };
        let entries = bytes[HEAD.min(bytes.len())..].chunks_exact(8);
        let entries = entries.filter_map(|entry| Some([number(entry, 0)?, number(entry, 4)?]));
        Some(Functions {
            table: found.p_vaddr,
            entries: entries.take(number(&bytes, HEAD - 4)? as usize).collect(),
            loads: segments
                .into_iter()
                .filter(|segment| segment.p_type == PT_LOAD)
                .collect(),
        })
    }

    fn address(&self, offset: u64) -> Option<u64> {
        let holds = |s: &&ProgramHeader| (s.p_offset..s.p_offset + s.p_filesz).contains(&offset);
        self.loads
            .iter()
            .find(holds)
            .map(|s| s.p_vaddr + offset - s.p_offset)
    }

    fn offset(&self, address: u64) -> Option<u64> {
        let holds = |s: &&ProgramHeader| (s.p_vaddr..s.p_vaddr + s.p_filesz).contains(&address);
        self.loads
            .iter()
            .find(holds)
            .map(|s| s.p_offset + address - s.p_vaddr)
    }

    /// The function around an offset in the file, as offsets in the file.
    pub fn around(&self, offset: u64, read: Read) -> Option<Range<u64>> {
        let relative = i32::try_from(self.address(offset)? as i64 - self.table as i64).ok()?;
        let behind = self
            .entries
            .partition_point(|[start, _]| *start <= relative);
        let [start, description] = *self.entries.get(behind.checked_sub(1)?)?;
        let place = self.offset(self.table.wrapping_add_signed(description.into()))?;
        // Length, distance to the description that it shares with others, first address, number of bytes.
        let bytes = read(place, 16)?;
        let shared = place
            .checked_add(4)?
            .checked_sub(number(&bytes, 4)? as u32 as u64)?;
        if encoding(&read(shared, 64)?)? != RELATIVE_TO_PLACE {
            return None;
        }
        let length = number(&bytes, 12)? as u32;
        let start = self.offset(self.table.wrapping_add_signed(start.into()))?;
        let function = start..start + u64::from(length);
        function.contains(&offset).then_some(function)
    }
}

/// Encoding of the addresses of functions that share a description (a "common information entry").
fn encoding(shared: &[u8]) -> Option<u8> {
    const BEFORE_AUGMENTATION: usize = 9;
    let text = shared.get(BEFORE_AUGMENTATION..)?;
    let end = text.iter().position(|byte| *byte == 0)?;
    let (letters, rest) = text.split_at(end);
    let mut rest = rest.get(1..)?;
    let skip_number = |rest: &mut &[u8]| -> Option<()> {
        let last = rest.iter().position(|byte| byte & 0x80 == 0)?;
        *rest = &rest[last + 1..];
        Some(())
    };
    // Alignments of code and of data, the register of the return address, and the length of what follows.
    for _ in 0..4 {
        skip_number(&mut rest)?;
    }
    for letter in letters.strip_prefix(b"z")? {
        let (first, behind) = rest.split_first()?;
        let bytes = match (letter, first & 0xf) {
            (b'R', _) => return Some(*first),
            (b'L', _) => 0,
            // The personality: a pointer of this encoding.
            (b'P', 0x3 | 0xb) => 4,
            (b'P', 0x0 | 0x4 | 0xc) => 8,
            (b'S' | b'B', _) => continue,
            _ => return None,
        };
        rest = behind.get(bytes..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn functions_of_this_program_are_found() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let read = |offset: u64, bytes: usize| {
            let mut all = vec![0; bytes];
            file.read_exact_at(&mut all, offset).ok()?;
            Some(all)
        };
        let functions = Functions::of(&read).unwrap();
        assert!(functions.entries.len() > 1000 && functions.entries.is_sorted());
        for [start, _] in functions.entries.iter().step_by(100) {
            let address = functions.table.wrapping_add_signed((*start).into());
            let offset = functions.offset(address).unwrap();
            let found = functions.around(offset, &read).unwrap();
            assert_eq!(found.start, offset);
            assert!(functions.around(found.end - 1, &read) == Some(found.clone()));
            assert!(functions.around(found.end, &read) != Some(found));
        }
        assert_eq!(functions.around(0, &read), None);
    }
}
