//! The mappings of this process, from `/proc/self/maps`.

use std::ops::Range;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: usize,
    /// One past the last address.
    pub end: usize,
    /// PROT_READ (1), PROT_WRITE (2), PROT_EXEC (4).
    pub prot: u8,
    /// Path or `[name]`; empty for plain memory.
    pub name: String,
}

/// All mappings of this process, by address. The fixed `[vsyscall]` page is left out.
///
/// # Errors
/// If `/proc/self/maps` cannot be read.
pub fn read() -> std::io::Result<Vec<Mapping>> {
    let text = std::fs::read("/proc/self/maps")?;
    Ok(text
        .split(|byte| *byte == b'\n')
        .filter_map(proc_maps::parse_line)
        .filter(|mapping| mapping.start < 1 << 47)
        .map(|mapping| Mapping {
            start: mapping.start as usize,
            end: mapping.end as usize,
            prot: mapping.prot,
            name: String::from_utf8_lossy(&mapping.path).into_owned(),
        })
        .collect())
}

/// The mapping of this process at an address, with its file.
pub fn at(address: usize) -> Option<proc_maps::Mapping> {
    let found = inside(address..address + 1).ok()?;
    found.into_iter().next()
}

/// The mappings of this process that have addresses in a range, with their files.
///
/// # Errors
/// If `/proc/self/maps` cannot be read.
pub fn inside(range: Range<usize>) -> std::io::Result<Vec<proc_maps::Mapping>> {
    let text = std::fs::read("/proc/self/maps")?;
    let mappings = text
        .split(|byte| *byte == b'\n')
        .filter_map(proc_maps::parse_line);
    let is_inside = |mapping: &proc_maps::Mapping| {
        mapping.start < range.end as u64 && (range.start as u64) < mapping.end
    };
    Ok(mappings.filter(is_inside).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds_the_mapping_at_an_address() {
        let local = 0;
        let mapping = super::at(&raw const local as usize).expect("the stack");
        assert!(!mapping.shared && mapping.inode == 0);
    }

    #[test]
    fn reads_itself() {
        let maps = super::read().expect("maps");
        assert!(maps.iter().any(|m| m.name == "[stack]"));
        assert!(maps.windows(2).all(|w| w[0].end <= w[1].start));
    }
}
