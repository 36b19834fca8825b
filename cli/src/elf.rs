//! What this command wants to know of an ELF file. Only the few tables that hold it are read, so
//! that large programs cost nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use goblin::elf::dynamic::{DT_NEEDED, DT_RPATH, DT_RUNPATH};
use goblin::elf::header::{ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_X86_64, ET_DYN, ET_EXEC};
use goblin::elf::program_header::PT_INTERP;
use goblin::elf::section_header::{SHN_UNDEF, SHT_DYNAMIC, SHT_DYNSYM};
use goblin::elf::sym::STB_WEAK;

const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const SYMBOL_BYTES: usize = 24;
/// No table that is read is longer.
const LONGEST: u64 = 256 << 20;

/// What a file turned out to be.
pub enum Kind {
    /// A 64-bit x86 program or library.
    Elf(Elf),
    /// An ELF file that is none: says what it is.
    Foreign(String),
    /// Begins with `#!`: the interpreter and its argument.
    Script(String),
    /// Anything else.
    Other,
}

/// What an ELF file says of itself.
#[derive(Default)]
pub struct Elf {
    /// It names a dynamic linker.
    pub interpreted: bool,
    /// Libraries that it needs.
    pub needed: Vec<String>,
    /// Where it says to look for them (DT_RPATH and DT_RUNPATH).
    pub paths: Vec<String>,
    /// Names that it wants from others, weak ones left out.
    pub wants: Vec<String>,
    /// Names that it offers.
    pub offers: Vec<String>,
}

/// Reads what `interesting` picks of the symbols, and everything else.
pub fn read(path: &Path, interesting: impl Fn(&str) -> bool) -> io::Result<Kind> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let mut start = [0; 256];
    let length = file.read_at(&mut start, 0)?;
    let start = &start[..length];
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
        return Ok(Kind::Script(
            String::from_utf8_lossy(line).trim().to_owned(),
        ));
    }
    if !start.starts_with(ELFMAG) {
        return Ok(Kind::Other);
    }
    if length > 4 && start[4] != ELFCLASS64 {
        return Ok(Kind::Foreign(
            "a 32-bit program; Stasis serves 64-bit ones only".into(),
        ));
    }
    let broken = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "it is a damaged or truncated ELF file",
        )
    };
    if length < HEADER_BYTES {
        return Err(broken());
    }
    if start[5] != ELFDATA2LSB || u16_at(start, 18) != EM_X86_64 {
        return Ok(Kind::Foreign("for another processor than x86-64".into()));
    }
    if ![ET_EXEC, ET_DYN].contains(&u16_at(start, 16)) {
        return Ok(Kind::Foreign(
            "an ELF file, but neither a program nor a library".into(),
        ));
    }
    let table = |offset: u64, bytes: u64| -> io::Result<Vec<u8>> {
        if bytes > LONGEST {
            return Err(broken());
        }
        let mut table = vec![0; bytes as usize];
        file.read_exact_at(&mut table, offset)
            .map_err(|_| broken())?;
        Ok(table)
    };
    let mut elf = Elf::default();
    let segments = table(
        u64_at(start, 32),
        u64::from(u16_at(start, 56)) * SEGMENT_BYTES as u64,
    )?;
    elf.interpreted = segments
        .chunks_exact(SEGMENT_BYTES)
        .any(|s| u32_at(s, 0) == PT_INTERP);
    let sections = table(
        u64_at(start, 40),
        u64::from(u16_at(start, 60)) * SECTION_BYTES as u64,
    )?;
    let sections: Vec<&[u8]> = sections.chunks_exact(SECTION_BYTES).collect();
    for section in &sections {
        let kind = u32_at(section, 4);
        if kind != SHT_DYNAMIC && kind != SHT_DYNSYM {
            continue;
        }
        let content = |s: &[u8]| table(u64_at(s, 24), u64_at(s, 32));
        let names = sections
            .get(u32_at(section, 40) as usize)
            .ok_or_else(broken)?;
        let (entries, names) = (content(section)?, content(names)?);
        let name = |at: u64| {
            let text = names.get(at as usize..).unwrap_or_default();
            let text = text.split(|b| *b == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text)
        };
        if kind == SHT_DYNAMIC {
            for entry in entries.chunks_exact(16) {
                match u64_at(entry, 0) {
                    DT_NEEDED => elf.needed.push(name(u64_at(entry, 8)).into_owned()),
                    DT_RPATH | DT_RUNPATH => {
                        elf.paths
                            .extend(name(u64_at(entry, 8)).split(':').map(str::to_owned));
                    }
                    _ => {}
                }
            }
        } else {
            for symbol in entries.chunks_exact(SYMBOL_BYTES) {
                let defined = u32::from(u16_at(symbol, 6)) != SHN_UNDEF;
                let weak = symbol[4] >> 4 == STB_WEAK;
                let name = name(u64::from(u32_at(symbol, 0)));
                if name.is_empty() || !interesting(&name) {
                    continue;
                }
                match (defined, weak) {
                    (true, _) => elf.offers.push(name.into_owned()),
                    (false, false) => elf.wants.push(name.into_owned()),
                    (false, true) => {}
                }
            }
        }
    }
    Ok(Kind::Elf(elf))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_very_program() {
        let Kind::Elf(elf) = read(&std::env::current_exe().unwrap(), |_| true)
            .ok()
            .unwrap()
        else {
            panic!("not an ELF file")
        };
        assert!(elf.interpreted);
        assert!(
            elf.needed.iter().any(|n| n == "libc.so.6"),
            "{:?}",
            elf.needed
        );
        assert!(elf.wants.iter().any(|n| n == "read"), "{:?}", elf.wants);
    }

    #[test]
    fn no_damage_makes_it_panic() {
        let whole = std::fs::read("/bin/true").unwrap();
        let path = std::env::temp_dir().join(format!("stasis-elf-{}", std::process::id()));
        let mut seed = 1_u32;
        for round in 0..400 {
            let mut bytes = whole.clone();
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (seed >> 8) as usize % if round % 2 == 0 { 64 } else { bytes.len() };
                bytes[at] = seed as u8;
            }
            if round % 5 == 0 {
                bytes.truncate((seed >> 8) as usize % whole.len());
            }
            std::fs::write(&path, &bytes).unwrap();
            let _ = read(&path, |_| true);
        }
        std::fs::remove_file(path).unwrap();
    }
}
