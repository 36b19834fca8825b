//! Reads `/proc/self/maps`.

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: usize,
    /// One past the last address.
    pub end: usize,
    /// Protection as `rwxp`.
    pub perms: String,
    /// Offset in the file.
    pub offset: u64,
    /// Device and inode as printed.
    pub dev_inode: String,
    /// Path or `[name]`; empty for plain memory.
    pub name: String,
}

fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let perms = fields.next()?.to_owned();
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let device = fields.next()?;
    let inode = fields.next()?;
    Some(Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        perms,
        offset,
        dev_inode: format!("{device} {inode}"),
        name: fields.next().unwrap_or_default().trim_start().to_owned(),
    })
}

/// All mappings of this process, by address. The fixed `[vsyscall]` page is left out.
pub fn read() -> std::io::Result<Vec<Mapping>> {
    let text = std::fs::read("/proc/self/maps")?;
    let text = String::from_utf8_lossy(&text);
    Ok(text
        .lines()
        .filter_map(parse)
        .filter(|m| m.start < 1 << 47)
        .collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_itself() {
        let maps = super::read().expect("maps");
        assert!(maps.iter().any(|m| m.name == "[stack]"));
        assert!(maps.windows(2).all(|w| w[0].end <= w[1].start));
    }
}
