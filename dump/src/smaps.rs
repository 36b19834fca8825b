//! The upper half's mappings, as the kernel lists them.
//!
//! The long list (/proc/self/smaps) also has the resident size of each mapping, for which the kernel examines every
//! page. This takes 30 ms for 1 GiB. The short list (/proc/self/maps) costs almost nothing. So the long list is read
//! while the threads still run, and the short one when they are stopped.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use proc_maps::Mapping;

/// One mapping, with fields that only the long list has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmapsEntry {
    pub mapping: Mapping,
    /// The two-letter flags (`VmFlags`).
    pub flags: Vec<[u8; 2]>,
    /// A protection key (pkeys(7)) restricts access, in addition to `mapping.prot`.
    pub keyed: bool,
}

impl SmapsEntry {
    pub fn has(&self, flag: &[u8; 2]) -> bool {
        self.flags.contains(flag)
    }
}

/// All mappings below `end`. The kernel makes the list as it is read, in ascending order, so the lower half's part
/// of it costs nothing.
pub fn below(end: u64) -> io::Result<Vec<SmapsEntry>> {
    parse(
        BufReader::with_capacity(64 << 10, File::open("/proc/self/smaps")?),
        end,
    )
}

/// Whether the short list is still equal to `before`, the list of all mappings below `end`.
pub fn still_same(before: &[SmapsEntry], end: u64) -> io::Result<bool> {
    let now = short("self", end)?;
    let before = before.iter().map(|entry| &entry.mapping);
    Ok(now.iter().eq(before))
}

/// All mappings below `end` of a process, from the short list.
pub fn short(process: &str, end: u64) -> io::Result<Vec<Mapping>> {
    let maps = File::open(format!("/proc/{process}/maps"))?;
    let entries = parse(BufReader::with_capacity(64 << 10, maps), end)?;
    Ok(entries.into_iter().map(|entry| entry.mapping).collect())
}

fn parse(mut smaps: impl BufRead, end: u64) -> io::Result<Vec<SmapsEntry>> {
    let mut entries: Vec<SmapsEntry> = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if smaps.read_until(b'\n', &mut line)? == 0 {
            return Ok(upper(entries));
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if let Some(flags) = text.strip_prefix(b"VmFlags:") {
            if let Some(entry) = entries.last_mut() {
                entry.flags = flags
                    .split(|byte| *byte == b' ')
                    .filter_map(|flag| flag.try_into().ok())
                    .collect();
            }
        } else if let Some(key) = text.strip_prefix(b"ProtectionKey:") {
            if let Some(entry) = entries.last_mut() {
                entry.keyed = key.trim_ascii() != b"0";
            }
        } else if !text.first().is_some_and(u8::is_ascii_uppercase) {
            let mapping = proc_maps::parse_line(text).ok_or_else(|| {
                let line = String::from_utf8_lossy(text);
                io::Error::other(format!(
                    "/proc/self/smaps has a line of unknown form: {line}"
                ))
            })?;
            if mapping.start >= end {
                return Ok(upper(entries));
            }
            entries.push(SmapsEntry {
                mapping,
                flags: Vec::new(),
                keyed: false,
            });
        }
    }
}

/// Removes the mappings below the lower half that are its own.
fn upper(mut entries: Vec<SmapsEntry>) -> Vec<SmapsEntry> {
    entries.retain(|entry| !contract::is_of_sites(entry.mapping.start as usize));
    entries
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
10000900000-10000910000 r-xp 00000000 00:00 0
VmFlags: rd ex mr mw me sd
7f0000000000-7f0000001000 ---p 00000000 00:00 0
";

    #[test]
    fn lines_are_read_up_to_the_end_of_the_upper_half() {
        let maps = parse(SMAPS.as_bytes(), 16 << 40).unwrap();
        assert_eq!(maps.len(), 2);
        assert_eq!(maps[0].mapping.path, b"/opt/a b\nc");
        assert!(maps[0].has(b"mw") && !maps[0].has(b"sh") && !maps[0].mapping.shared);
        assert!(maps[1].mapping.shared && maps[1].mapping.prot == 3);
        assert!(maps[1].keyed && !maps[0].keyed);
        assert_eq!(
            parse(SMAPS.as_bytes(), u64::MAX).unwrap()[2].mapping.path,
            b""
        );
        assert!(parse(&b"nonsense\n"[..], 1).is_err());
    }
}
