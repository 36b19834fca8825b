//! Reading the parts of an ELF file that Stasis needs.
//!
//! # Safety
//! A file is mapped while it is read. It is a program or a library that is about to be run, which the
//! kernel maps in the same way. Truncating it meanwhile would end the running program too.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::Path;

use goblin::elf::header::{Header, ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_X86_64, ET_DYN, ET_EXEC};
use goblin::elf::section_header::SHN_UNDEF;
use goblin::elf::sym::STB_WEAK;
use memmap2::Mmap;

use crate::script::Script;

/// Bytes that are searched for `#!` and its line, as in the kernel (BINPRM_BUF_SIZE).
const SCRIPT_LINE: usize = 256;

/// Kind of a file.
pub enum Kind {
    /// A 64-bit x86 program or library.
    Elf(Elf),
    /// An ELF file of another kind, with a description.
    Foreign(String),
    /// A file that begins with `#!`.
    Script(Script),
    /// Any other file.
    Other,
}

/// Content of an ELF file.
#[derive(Default)]
pub struct Elf {
    /// Whether it names a dynamic linker.
    pub interpreted: bool,
    /// Libraries that it needs (DT_NEEDED).
    pub needed: Vec<String>,
    /// Search paths for libraries (DT_RPATH and DT_RUNPATH).
    pub paths: Vec<String>,
    /// Undefined symbols, without weak ones.
    pub wants: Vec<String>,
    /// Defined symbols.
    pub offers: Vec<String>,
}

/// Reads an ELF file; of the symbols, only those that `interesting` selects.
///
/// # Errors
/// If the file cannot be opened or read.
pub fn read(path: &Path, interesting: impl Fn(&str) -> bool) -> io::Result<Kind> {
    let file = File::open(path)?;
    let facts = file.metadata()?;
    if facts.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !facts.is_file() {
        return Ok(Kind::Other);
    }
    // SAFETY: the map is read-only, and its file is an executable that is not truncated meanwhile (see the
    // head of this file).
    let bytes = unsafe { Mmap::map(&file)? };
    let start = &bytes[..bytes.len().min(SCRIPT_LINE)];
    if let Some(script) = Script::read(start) {
        return Ok(Kind::Script(script));
    }
    if !start.starts_with(ELFMAG) {
        return Ok(Kind::Other);
    }
    if start.get(4).is_some_and(|class| *class != ELFCLASS64) {
        return Ok(Kind::Foreign(
            "a 32-bit program; Stasis serves 64-bit ones only".into(),
        ));
    }
    if start.get(5).is_some_and(|order| *order != ELFDATA2LSB) {
        return Ok(another_processor());
    }
    match read_elf(&bytes, interesting) {
        Ok(kind) => Ok(kind),
        Err(_) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is a damaged or truncated ELF file",
        )),
    }
}

fn another_processor() -> Kind {
    Kind::Foreign("for another processor than x86-64".into())
}

fn read_elf(bytes: &[u8], interesting: impl Fn(&str) -> bool) -> goblin::error::Result<Kind> {
    let header: Header = goblin::elf::Elf::parse_header(bytes)?;
    if header.e_machine != EM_X86_64 {
        return Ok(another_processor());
    }
    if ![ET_EXEC, ET_DYN].contains(&header.e_type) {
        return Ok(Kind::Foreign(
            "an ELF file, but neither a program nor a library".into(),
        ));
    }
    let file = goblin::elf::Elf::parse(bytes)?;
    let split = |paths: &[&str]| -> Vec<String> {
        let each = paths.iter().flat_map(|path| path.split(':'));
        each.map(str::to_owned).collect()
    };
    let mut elf = Elf {
        interpreted: file.interpreter.is_some(),
        needed: file.libraries.iter().map(|&name| name.to_owned()).collect(),
        paths: split(&file.rpaths),
        ..Elf::default()
    };
    elf.paths.extend(split(&file.runpaths));
    for symbol in file.dynsyms.iter() {
        let name = file.dynstrtab.get_at(symbol.st_name).unwrap_or_default();
        if name.is_empty() || !interesting(name) {
            continue;
        }
        let defined = symbol.st_shndx != SHN_UNDEF as usize;
        match (defined, symbol.st_bind() == STB_WEAK) {
            (true, _) => elf.offers.push(name.to_owned()),
            (false, false) => elf.wants.push(name.to_owned()),
            (false, true) => {}
        }
    }
    Ok(Kind::Elf(elf))
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
    fn damage_does_not_cause_a_panic() {
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
