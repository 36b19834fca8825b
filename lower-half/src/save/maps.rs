//! The upper half's mappings, as the kernel lists them.
//!
//! The list that tells everything (/proc/self/smaps) also tells how much of each mapping is there, for
//! which the kernel looks at every page: 30 ms for a GiB. The short one (/proc/self/maps) costs nothing. So
//! the long one is read while the threads still run, and the short one again when they stand still.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// PROT_READ (1), PROT_WRITE (2), PROT_EXEC (4).
    pub prot: u8,
    pub shared: bool,
    pub offset: u64,
    /// `major:minor` in hexadecimal, as it is printed.
    pub device: String,
    pub inode: u64,
    /// The name in the last column; empty for unnamed memory.
    pub path: Vec<u8>,
    /// The two-letter flags of /proc/self/smaps.
    pub flags: Vec<[u8; 2]>,
    /// A protection key (pkeys(7)) says who may read it, beside `prot`.
    pub keyed: bool,
}

impl Mapping {
    pub fn has(&self, flag: &[u8; 2]) -> bool {
        self.flags.contains(flag)
    }
}

/// All mappings below `end`. The list is in ascending order and made as it is read, so the lower
/// half's part of it costs nothing.
pub fn below(end: u64) -> io::Result<Vec<Mapping>> {
    parse(
        BufReader::with_capacity(64 << 10, File::open("/proc/self/smaps")?),
        end,
    )
}

/// Whether the short list still says what `before`, the list of all mappings below
/// `end`, does.
pub fn still(before: &[Mapping], end: u64) -> io::Result<bool> {
    let short = short("self", end)?;
    let same = |(now, before): (&Mapping, &Mapping)| {
        Mapping {
            flags: before.flags.clone(),
            keyed: before.keyed,
            ..now.clone()
        } == *before
    };
    Ok(short.len() == before.len() && short.iter().zip(before).all(same))
}

/// All mappings below `end` of a process, without their flags and keys.
pub fn short(process: &str, end: u64) -> io::Result<Vec<Mapping>> {
    let maps = File::open(format!("/proc/{process}/maps"))?;
    parse(BufReader::with_capacity(64 << 10, maps), end)
}

fn parse(mut smaps: impl BufRead, end: u64) -> io::Result<Vec<Mapping>> {
    let mut mappings: Vec<Mapping> = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if smaps.read_until(b'\n', &mut line)? == 0 {
            return Ok(mappings);
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if let Some(flags) = text.strip_prefix(b"VmFlags:") {
            if let Some(mapping) = mappings.last_mut() {
                mapping.flags = flags
                    .split(|byte| *byte == b' ')
                    .filter_map(|flag| flag.try_into().ok())
                    .collect();
            }
        } else if let Some(key) = text.strip_prefix(b"ProtectionKey:") {
            if let Some(mapping) = mappings.last_mut() {
                mapping.keyed = key.trim_ascii() != b"0";
            }
        } else if !text.first().is_some_and(u8::is_ascii_uppercase) {
            let mapping = mapping(text).ok_or_else(|| {
                let line = String::from_utf8_lossy(text);
                io::Error::other(format!(
                    "/proc/self/smaps has a line of unknown form: {line}"
                ))
            })?;
            if mapping.start >= end {
                return Ok(mappings);
            }
            mappings.push(mapping);
        }
    }
}

/// `start-end rwxp offset major:minor inode   path`.
fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut field = || std::str::from_utf8(fields.next()?).ok();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = field()?.split_once('-')?;
    let permissions = field()?.as_bytes();
    let offset = hex(field()?)?;
    let device = field()?.to_owned();
    let inode = field()?.parse().ok()?;
    let may = |at: usize, letter| permissions.get(at) == Some(&letter);
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        prot: u8::from(may(0, b'r')) | u8::from(may(1, b'w')) << 1 | u8::from(may(2, b'x')) << 2,
        shared: may(3, b's'),
        offset,
        device,
        inode,
        path: newlines_back(path),
        flags: Vec::new(),
        keyed: false,
    })
}

/// The kernel writes a newline in a path as `\012` and leaves everything else as it is.
fn newlines_back(path: &[u8]) -> Vec<u8> {
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

    const SMAPS: &str = "\
00400000-00401000 r-xp 00002000 fe:01 123                                /opt/a b\\012c
Size:                  4 kB
ProtectionKey:         0
VmFlags: rd ex mr mw me sd
10000000000-10000010000 rw-s 00000000 00:01 9        /dev/zero (deleted)
ProtectionKey:        12
VmFlags: rd wr sh mr mw me ms sd
7f0000000000-7f0000001000 ---p 00000000 00:00 0
";

    #[test]
    fn lines_are_read_up_to_the_end_of_the_upper_half() {
        let maps = parse(SMAPS.as_bytes(), 16 << 40).unwrap();
        assert_eq!(maps.len(), 2);
        assert_eq!(maps[0].path, b"/opt/a b\nc");
        assert_eq!(
            (maps[0].prot, maps[0].offset, maps[0].inode),
            (5, 0x2000, 123)
        );
        assert!(maps[0].has(b"mw") && !maps[0].has(b"sh") && !maps[0].shared);
        assert!(maps[1].shared && maps[1].prot == 3);
        assert!(maps[1].keyed && !maps[0].keyed);
        assert_eq!(parse(SMAPS.as_bytes(), u64::MAX).unwrap()[2].path, b"");
        assert!(parse(&b"nonsense\n"[..], 1).is_err());
    }
}
