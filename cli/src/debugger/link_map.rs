//! The files of a rank's program and where they are in its memory. A debugger sees the executable of the process, the
//! lower half, and asks its dynamic linker. The program has been loaded beside it and has a dynamic linker of its own,
//! whose list is read here. After a restart the kernel does not know the files any more; this list does.

use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs};

use anyhow::{Context, Result};
use contract::ARENA_END;
use linked::mpi::Abi;
use proc_maps::{parse_line, Mapping};

/// Bytes of an object that are compared with its file: the header, and program headers.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

const PT_DYNAMIC: u32 = 2;
const PT_LOAD: u32 = 1;
const DT_DEBUG: u64 = 21;

/// Longest list and longest name that are read.
const MOST_OBJECTS: usize = 4096;
const LONGEST_NAME: u64 = 4096;

/// An object of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its file.
    pub file: PathBuf,
    /// Difference between its addresses in memory and in the file.
    pub bias: u64,
}

/// The memory of a process.
struct Memory(File);

impl Memory {
    fn read<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }

    fn word(&self, at: u64) -> Option<u64> {
        self.read(at).map(u64::from_le_bytes)
    }

    fn text(&self, at: u64) -> Option<OsString> {
        let mut bytes = vec![];
        for at in at..at + LONGEST_NAME {
            match self.read(at)? {
                [0] => return Some(OsString::from_vec(bytes)),
                [byte] => bytes.push(byte),
            }
        }
        None
    }

    /// The header and the program headers of an object whose first page is there.
    fn headers(&self, at: u64) -> Option<Vec<u8>> {
        let header: [u8; HEADER] = self.read(at)?;
        let number = usize::from(u16::from_le_bytes([header[56], header[57]]));
        let follow = header[32..40] == (HEADER as u64).to_le_bytes();
        if header[..4] != *b"\x7fELF" || !follow {
            return None;
        }
        let mut headers = vec![0; HEADER + number * PROGRAM_HEADER];
        self.0.read_exact_at(&mut headers, at).ok()?;
        Some(headers)
    }
}

/// A program header: its type, and the address of the segment.
fn segments(headers: &[u8]) -> impl Iterator<Item = (u32, u64)> + '_ {
    headers[HEADER..]
        .chunks_exact(PROGRAM_HEADER)
        .filter_map(|segment| {
            let kind = segment[..4].try_into().ok()?;
            let address = segment[16..24].try_into().ok()?;
            Some((u32::from_le_bytes(kind), u64::from_le_bytes(address)))
        })
}

/// The objects of the program in a process, the program first. `program` is its file.
pub fn objects(process: i32, program: &Path) -> Result<Vec<Object>> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let maps = folder.join("maps");
    let maps = fs::read(&maps).with_context(|| format!("cannot read {}", maps.display()))?;
    let memory = folder.join("mem");
    let memory = File::open(&memory).map(Memory);
    let memory = memory.with_context(|| {
        format!("cannot read the memory of process {process}, as a debugger would have to")
    })?;
    let lower = fs::read_link(folder.join("exe")).unwrap_or_default();
    let mappings: Vec<Mapping> = maps
        .split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .filter(|mapping| mapping.start < ARENA_END as u64 && mapping.prot & 1 != 0)
        .collect();
    let begins = mappings.iter().filter_map(|mapping| {
        let headers = memory.headers(mapping.start)?;
        Some((bias_of(mapping.start, &headers)?, headers))
    });
    let begins: Vec<(u64, Vec<u8>)> = begins.collect();
    let list = begins
        .iter()
        .find_map(|(bias, headers)| link_map_of(&memory, *bias, headers));
    let list = list.with_context(|| {
        format!("no program with a dynamic linker was found in process {process}: it has not begun yet, or has ended")
    })?;
    let fronts = Abi::ALL.map(|abi| lower.with_file_name(abi.front()));
    let mut objects = vec![];
    let mut next = list;
    while next != 0 && objects.len() < MOST_OBJECTS {
        let read = || Some((memory.word(next)?, memory.text(memory.word(next + 8)?)?));
        let Some((bias, name)) = read() else { break };
        // Mappings are in ascending order, so the first is the beginning.
        if let Some((_, headers)) = begins.iter().find(|(its, _)| *its == bias) {
            let first = objects.is_empty();
            let named = if first { program } else { Path::new(&name) };
            // The program's MPI library is one of Stasis, which has the name of the usual one.
            let candidates = std::iter::once(named).chain(fronts.iter().map(PathBuf::as_path));
            let mut candidates = candidates.filter(|file| is_same(file, headers));
            objects.extend(candidates.next().map(|file| Object {
                file: file.to_owned(),
                bias,
            }));
        }
        next = memory.word(next + 24).unwrap_or(0);
    }
    Ok(objects)
}

/// Difference between the addresses of the object that begins there and those in its file.
fn bias_of(start: u64, headers: &[u8]) -> Option<u64> {
    let mut loaded = segments(headers).filter(|(kind, _)| *kind == PT_LOAD);
    let first = loaded.next()?.1 & !0xfff;
    Some(start.wrapping_sub(first))
}

/// The first entry of the list of the dynamic linker, if the object is a program. Of all objects only a program has the
/// address of the list.
fn link_map_of(memory: &Memory, bias: u64, headers: &[u8]) -> Option<u64> {
    let (_, dynamic) = segments(headers).find(|(kind, _)| *kind == PT_DYNAMIC)?;
    let mut at = dynamic.wrapping_add(bias);
    loop {
        match (memory.word(at)?, memory.word(at + 8)?) {
            (0, _) => return None,
            (DT_DEBUG, debug) if debug != 0 => return memory.word(debug + 8),
            _ => at += 16,
        }
    }
}

/// Whether a file has these headers.
fn is_same(file: &Path, headers: &[u8]) -> bool {
    let read = || {
        let mut begin = vec![0; headers.len()];
        File::open(file)?.read_exact_at(&mut begin, 0)?;
        Ok::<_, std::io::Error>(begin)
    };
    read().is_ok_and(|begin| begin == headers)
}
