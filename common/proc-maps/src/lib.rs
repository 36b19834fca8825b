//! The parser of a line of `/proc/PID/maps`. The first line of each entry of `/proc/PID/smaps` has the same form.

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// PROT_READ (1), PROT_WRITE (2), PROT_EXEC (4).
    pub prot: u8,
    /// MAP_SHARED rather than MAP_PRIVATE.
    pub shared: bool,
    /// Offset in the file.
    pub offset: u64,
    /// Device of the file: `major:minor` in hexadecimal, as it is printed.
    pub device: String,
    /// Inode of the file; 0 for unnamed memory.
    pub inode: u64,
    /// Path of the file, or `[name]`; empty for unnamed memory.
    pub path: Vec<u8>,
}

/// Parses `start-end rwxp offset major:minor inode   path`. `None` for a line of another form.
///
/// # Examples
/// ```
/// let line = b"7f0000-7f2000 r-xp 00001000 fe:01 42    /usr/lib/libc.so.6";
/// let mapping = stasis_proc_maps::parse_line(line).unwrap();
/// assert_eq!(mapping.end - mapping.start, 0x2000);
/// assert_eq!((mapping.prot, mapping.shared), (5, false));
/// assert_eq!(mapping.path, b"/usr/lib/libc.so.6");
/// ```
pub fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = field()?.split_once('-')?;
    let permissions = field()?.as_bytes();
    let offset = hex(field()?)?;
    let device = field()?.to_owned();
    let inode = field()?.parse().ok()?;
    let has = |at: usize, letter| permissions.get(at) == Some(&letter);
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        prot: u8::from(has(0, b'r')) | u8::from(has(1, b'w')) << 1 | u8::from(has(2, b'x')) << 2,
        shared: has(3, b's'),
        offset,
        device,
        inode,
        path: unescape_newlines(path),
    })
}

/// The kernel writes a newline in a path as `\012` and leaves everything else as it is.
fn unescape_newlines(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(first) = rest.first() {
        match rest.strip_prefix(b"\\012") {
            Some(after) => {
                out.push(b'\n');
                rest = after;
            }
            None => {
                out.push(*first);
                rest = &rest[1..];
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_apart() {
        let file =
            parse_line(b"00400000-00401000 r-xp 00002000 fe:01 123           /opt/a b\\012c");
        let file = file.unwrap();
        assert_eq!((file.start, file.end, file.prot), (0x40_0000, 0x40_1000, 5));
        assert_eq!((file.offset, file.inode), (0x2000, 123));
        assert_eq!((file.device.as_str(), file.shared), ("fe:01", false));
        assert_eq!(file.path, b"/opt/a b\nc");
        let unnamed = parse_line(b"7f0000000000-7f0000001000 rw-s 00000000 00:00 0 ").unwrap();
        assert!(unnamed.shared && unnamed.path.is_empty() && unnamed.prot == 3);
        assert_eq!(parse_line(b"VmFlags: rd ex mr mw me sd"), None);
        assert_eq!(parse_line(b""), None);
    }

    #[test]
    fn every_line_of_this_process_is_understood() {
        let maps = std::fs::read("/proc/self/maps").unwrap();
        let lines = maps.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        let maps: Vec<_> = lines.map(|line| parse_line(line).unwrap()).collect();
        assert!(maps.iter().any(|mapping| mapping.path == b"[stack]"));
        assert!(maps.windows(2).all(|two| two[0].end <= two[1].start));
    }
}
