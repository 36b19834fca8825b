//! Finds the program and checks that it is supported.

use crate::error::LoadError;
use goblin::elf::header::{EM_X86_64, ET_DYN, ET_EXEC};
use goblin::elf64::header::Header;
use goblin::elf64::program_header::{ProgramHeader, PF_X, PT_GNU_STACK, PT_INTERP, PT_LOAD};
use linked::script::{self, Script, Step};
use linked::search;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

const HEAD: usize = 4096;

/// An ELF file that can be mapped.
#[derive(Debug)]
pub struct Elf {
    /// Absolute path.
    pub path: PathBuf,
    /// Open for reading.
    pub file: File,
    /// The ELF header.
    pub header: Header,
    /// The program headers.
    pub segments: Vec<ProgramHeader>,
}

impl Elf {
    /// Whether it has fixed addresses (not position-independent).
    pub fn is_fixed(&self) -> bool {
        self.header.e_type == ET_EXEC
    }

    /// Whether it requests an executable stack.
    pub fn wants_executable_stack(&self) -> bool {
        self.segments
            .iter()
            .any(|s| s.p_type == PT_GNU_STACK && s.p_flags & PF_X != 0)
    }

    /// Its segments with code.
    pub fn code(&self) -> impl Iterator<Item = &ProgramHeader> {
        let is_code = |s: &&ProgramHeader| s.p_type == PT_LOAD && s.p_flags & PF_X != 0;
        self.segments.iter().filter(is_code)
    }

    fn bad(&self, what: &str) -> LoadError {
        LoadError::BadElf {
            path: self.path.clone(),
            what: what.to_owned(),
        }
    }

    /// Its dynamic linker.
    pub fn interpreter(&self) -> Result<PathBuf, LoadError> {
        let Some(segment) = self.segments.iter().find(|s| s.p_type == PT_INTERP) else {
            return Err(LoadError::Static {
                path: self.path.clone(),
            });
        };
        let mut bytes = vec![0; segment.p_filesz.min(HEAD as u64) as usize];
        self.file
            .read_exact_at(&mut bytes, segment.p_offset)
            .map_err(|_| self.bad("PT_INTERP is outside the file"))?;
        if bytes.pop() != Some(0) || bytes.is_empty() {
            return Err(self.bad("PT_INTERP is not a path"));
        }
        Ok(PathBuf::from(OsString::from_vec(bytes)))
    }
}

/// Looks the program up in PATH unless it contains a slash.
pub fn find(program: &OsStr, search: Option<&OsStr>) -> Result<PathBuf, LoadError> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let search = search.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    search::in_path(program, search, Path::new("")).ok_or_else(|| LoadError::NotFound {
        program: program.to_string_lossy().into_owned(),
    })
}

fn open(path: &Path) -> Result<(File, Vec<u8>), LoadError> {
    let unreadable = |source| LoadError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut head = vec![0; HEAD];
    let mut got = 0;
    while got < HEAD {
        match file
            .read_at(&mut head[got..], got as u64)
            .map_err(unreadable)?
        {
            0 => break,
            n => got += n,
        }
    }
    head.truncate(got);
    Ok((file, head))
}

/// Opens an ELF file for this machine.
pub fn open_elf(path: &Path) -> Result<Elf, LoadError> {
    let (file, head) = open(path)?;
    parse(path, file, &head)
}

fn parse(path: &Path, file: File, head: &[u8]) -> Result<Elf, LoadError> {
    let bad = |what: &str| LoadError::BadElf {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    if !head.starts_with(b"\x7fELF") {
        return Err(LoadError::NotElf {
            path: path.to_owned(),
        });
    }
    if head.get(4) == Some(&1) {
        return Err(LoadError::Bits32 {
            path: path.to_owned(),
        });
    }
    let bytes: &[u8; 64] = head
        .first_chunk()
        .ok_or_else(|| bad("the header is cut off"))?;
    let header = *Header::from_bytes(bytes);
    if header.e_machine != EM_X86_64 {
        return Err(LoadError::WrongMachine {
            path: path.to_owned(),
            machine: header.e_machine,
        });
    }
    if header.e_type != ET_EXEC && header.e_type != ET_DYN {
        return Err(bad("it is neither an executable nor a shared object"));
    }
    let (size, count) = (usize::from(header.e_phentsize), usize::from(header.e_phnum));
    if size != 56 || count == 0 {
        return Err(bad("it has no usable program headers"));
    }
    let mut table = vec![0; size * count];
    file.read_exact_at(&mut table, header.e_phoff)
        .map_err(|_| bad("its program headers are cut off"))?;
    let segments = ProgramHeader::from_bytes(&table, count);
    Ok(Elf {
        path: path.to_owned(),
        file,
        header,
        segments,
    })
}

/// The program and its arguments, after `#!` lines are resolved.
#[derive(Debug)]
pub struct Resolved {
    /// The ELF program.
    pub elf: Elf,
    /// All arguments, `argv[0]` first.
    pub args: Vec<OsString>,
}

/// Opens the program at `path`, following `#!` lines.
pub fn resolve(path: &Path, mut args: Vec<OsString>) -> Result<Resolved, LoadError> {
    let found = script::follow(path, |path| {
        let (file, head) = open(path)?;
        let unreadable = |source| LoadError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let not_elf = || LoadError::NotElf {
            path: path.to_owned(),
        };
        let facts = file.metadata().map_err(unreadable)?;
        if !facts.is_file() {
            return Err(not_elf());
        }
        if facts.permissions().mode() & 0o111 == 0 {
            return Err(LoadError::NotExecutable {
                path: path.to_owned(),
            });
        }
        let Some(script) = Script::read(&head) else {
            let absolute = std::fs::canonicalize(path).map_err(unreadable)?;
            return parse(&absolute, file, &head).map(Step::Program);
        };
        if script.interpreter.is_empty() {
            return Err(not_elf());
        }
        let interpreter = PathBuf::from(&script.interpreter);
        let mut new = vec![script.interpreter];
        new.extend(script.argument);
        new.push(path.into());
        new.extend(args.drain(..).skip(1));
        args = new;
        Ok(Step::Script(interpreter))
    })?;
    match found {
        Some(elf) => Ok(Resolved { elf, args }),
        None => Err(LoadError::ScriptLoop {
            path: path.to_owned(),
        }),
    }
}
