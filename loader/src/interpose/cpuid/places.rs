//! The `cpuid` instructions of a file that is being mapped: finds and replaces them.
//!
//! Two bytes that look like the instruction may be part of another one. The file's unwind table names the function that
//! they are in, and the function's instructions, decoded one after the other from its first, lead to the place or past
//! it: a compiler puts no data between the instructions of a function. Bytes outside of any known function, or behind
//! an instruction that `length.rs` does not know, stay as they are, and [`left`] tells of them.

use super::functions::Functions;
use super::{CPUID, TRAP};
use crate::interpose::sites::length::decode;
use crate::interpose::sites::Writable;
use crate::load::va_allocator::PAGE;
use crate::sys::spin_lock::Spin;
use crate::sys::syscall;
use core::ops::Range;
use goblin::elf64::program_header::ProgramHeader;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Bytes that are searched at a time.
const PIECE: usize = 1 << 20;
/// Bytes of the largest function that is decoded.
const LONGEST: u64 = 1 << 20;

/// Numbers of places that may be `cpuid` instructions and were left, by file.
static LEFT: Spin<BTreeMap<PathBuf, usize>> = Spin::new(BTreeMap::new());

fn read(fd: i32, offset: u64, bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    let got = syscall::read_at(fd, &mut all, offset);
    all.truncate(usize::try_from(got).unwrap_or(0));
    all
}

/// Offsets of bytes that look like the instruction.
fn candidates(fd: i32, range: Range<u64>) -> Vec<u64> {
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end {
        // The last byte of a piece may be the first of the two.
        let bytes = read(fd, at, PIECE.min((range.end - at) as usize));
        let here = bytes.windows(CPUID.len()).enumerate();
        let here = here.filter(|(_, window)| *window == CPUID);
        found.extend(here.map(|(offset, _)| at + offset as u64));
        if bytes.len() < PIECE {
            break;
        }
        at += (PIECE - 1) as u64;
    }
    found
}

/// Whether the function's instructions lead to `place`; None if one of them is not known.
fn leads_to(place: usize, function: &[u8]) -> Option<bool> {
    let mut at = 0;
    while at < place {
        at += decode(&function[at..])?.len;
    }
    Some(at == place)
}

/// Replaces the instructions in a new mapping of a file's code. Call it with the lower half's FS.
pub fn replace(fd: i32, mapping: [usize; 2], offset: u64) {
    let bytes = (mapping[1] - mapping[0]) as u64;
    let candidates = candidates(fd, offset..offset + bytes);
    if candidates.is_empty() {
        return;
    }
    let exactly = |offset: u64, bytes: usize| {
        let all = read(fd, offset, bytes);
        (all.len() == bytes).then_some(all)
    };
    let functions = Functions::of(&exactly);
    let certain = |place: &u64| {
        let function = functions.as_ref()?.around(*place, &exactly)?;
        let bytes = function.end - function.start;
        let code = exactly(function.start, bytes.min(LONGEST) as usize)?;
        leads_to((place - function.start) as usize, &code)
    };
    let mut places = Vec::new();
    let mut unknown = 0;
    for place in &candidates {
        match certain(place) {
            Some(true) => places.push(mapping[0] + (place - offset) as usize),
            Some(false) => {}
            None => unknown += 1,
        }
    }
    if !places.is_empty() {
        // Nothing executes a mapping that is new.
        match Writable::make(mapping, true) {
            Some(code) => places.iter().for_each(|at| code.store_unused(*at, &TRAP)),
            None => unknown += places.len(),
        }
    }
    if unknown > 0 {
        let name = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
        *LEFT.lock().entry(name).or_default() += unknown;
    }
}

/// Replaces the instructions in segments of a file that the loader itself has mapped.
pub fn replace_in<'a>(file: &File, code: impl Iterator<Item = &'a ProgramHeader>, bias: usize) {
    for segment in code.filter(|_| super::hides()) {
        let (first, offset) = (segment.p_vaddr as usize, segment.p_offset);
        let before = first % PAGE;
        let start = bias.wrapping_add(first - before);
        let end = (start + before + segment.p_filesz as usize).next_multiple_of(PAGE);
        replace(file.as_raw_fd(), [start, end], offset - before as u64);
    }
}

/// Notes about code that may see the whole processor, for a report.
pub fn left() -> Vec<String> {
    let left = LEFT.lock();
    let note = |(file, count): (&PathBuf, &usize)| {
        format!(
            "{} has code without a description for unwinding in which {count} cpuid instructions may be; they would \
             show the program the whole processor",
            file.display()
        )
    };
    left.iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_told_from_bytes_in_another() {
        // xor eax, eax; cpuid; mov eax, 0xa20f; ret
        let code = [0x31, 0xc0, 0x0f, 0xa2, 0xb8, 0x0f, 0xa2, 0, 0, 0xc3];
        assert_eq!(leads_to(2, &code), Some(true));
        assert_eq!(leads_to(5, &code), Some(false));
        assert_eq!(leads_to(2, &[0x06, 0x90, 0x0f, 0xa2]), None);
    }
}
