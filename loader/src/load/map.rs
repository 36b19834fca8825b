//! Maps ELF files and plain memory into the upper half.
//!
//! # Safety
//! Every mapping is made with MAP_FIXED_NOREPLACE, so no existing mapping can be replaced.
#![allow(unsafe_code)]

use super::elf::Elf;
use super::va_allocator::{self, PAGE};
use crate::error::LoadError;
use crate::sys::syscall;
use goblin::elf64::program_header::{ProgramHeader, PF_R, PF_W, PF_X, PT_LOAD};
use std::os::fd::AsRawFd;

fn mmap(at: usize, len: usize, prot: i32, flags: i32, fd: i32, offset: usize) -> isize {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: MAP_FIXED_NOREPLACE replaces no existing mapping.
    unsafe {
        syscall::raw(
            libc::SYS_mmap as usize,
            [at, len, prot as usize, flags as usize, fd as usize, offset],
        )
    }
}

fn check(result: isize, what: &str, address: usize) -> Result<(), LoadError> {
    if syscall::is_err(result) {
        let source = syscall::io_error(result);
        return Err(LoadError::Map {
            what: what.to_owned(),
            address,
            source,
        });
    }
    Ok(())
}

/// Maps zeroed memory at a fixed address.
pub fn anonymous(
    what: &str,
    at: usize,
    len: usize,
    prot: i32,
    flags: i32,
) -> Result<(), LoadError> {
    check(
        mmap(at, len, prot, flags | libc::MAP_ANONYMOUS, -1, 0),
        what,
        at,
    )?;
    va_allocator::take(at, at + len);
    Ok(())
}

/// A mapped ELF file.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    /// Offset from the file's addresses to those in memory.
    pub bias: usize,
    /// First address.
    pub start: usize,
    /// One past the last address.
    pub end: usize,
    /// Entry point.
    pub entry: usize,
    /// Address of its program headers.
    pub headers: usize,
}

fn down(n: usize) -> usize {
    n & !(PAGE - 1)
}

fn up(n: usize) -> usize {
    down(n + PAGE - 1)
}

/// Maps all PT_LOAD segments: at the file's own addresses, or in free addresses of the arena.
pub fn elf(elf: &Elf) -> Result<Mapped, LoadError> {
    let bad = |what: &str| LoadError::BadElf {
        path: elf.path.clone(),
        what: what.to_owned(),
    };
    let loads: Vec<&ProgramHeader> = elf
        .segments
        .iter()
        .filter(|s| s.p_type == PT_LOAD && s.p_memsz != 0)
        .collect();
    let sane = |s: &&ProgramHeader| {
        s.p_filesz <= s.p_memsz
            && s.p_vaddr < 1 << 46
            && s.p_memsz < 1 << 40
            && s.p_vaddr % PAGE as u64 == s.p_offset % PAGE as u64
    };
    if loads.is_empty() || !loads.iter().all(sane) {
        return Err(bad("its segments are inconsistent"));
    }
    let low = loads
        .iter()
        .map(|s| down(s.p_vaddr as usize))
        .min()
        .unwrap_or_default();
    let high = loads
        .iter()
        .map(|s| up((s.p_vaddr + s.p_memsz) as usize))
        .max()
        .unwrap_or_default();
    let bias = if elf.is_fixed() {
        if high > va_allocator::BRK_START {
            return Err(bad(
                "it is linked for addresses at which Stasis cannot put it",
            ));
        }
        0
    } else {
        let align = loads
            .iter()
            .map(|s| s.p_align as usize)
            .filter(|a| a.is_power_of_two())
            .max();
        let place = va_allocator::find(high - low, align.unwrap_or(PAGE).clamp(PAGE, 1 << 30));
        place
            .ok_or_else(|| bad("it is too large"))?
            .wrapping_sub(low)
    };
    for segment in &loads {
        map_segment(elf, segment, bias)?;
    }
    let in_file = |offset: u64| {
        loads
            .iter()
            .find(|s| (s.p_offset..s.p_offset + s.p_filesz).contains(&offset))
            .map(|s| (s.p_vaddr + offset - s.p_offset) as usize)
    };
    let headers = in_file(elf.header.e_phoff).ok_or_else(|| bad("its headers are not mapped"))?;
    Ok(Mapped {
        bias,
        start: low.wrapping_add(bias),
        end: high.wrapping_add(bias),
        entry: bias.wrapping_add(elf.header.e_entry as usize),
        headers: bias.wrapping_add(headers),
    })
}

fn map_segment(elf: &Elf, s: &ProgramHeader, bias: usize) -> Result<(), LoadError> {
    let what = elf.path.display().to_string();
    let prot = [
        (PF_R, libc::PROT_READ),
        (PF_W, libc::PROT_WRITE),
        (PF_X, libc::PROT_EXEC),
    ]
    .iter()
    .filter(|(flag, _)| s.p_flags & flag != 0)
    .fold(0, |all, (_, prot)| all | prot);
    let start = bias.wrapping_add(s.p_vaddr as usize);
    let (file_end, end) = (start + s.p_filesz as usize, start + s.p_memsz as usize);
    let mut zero_from = down(start);
    if s.p_filesz != 0 {
        let (at, len) = (down(start), up(file_end) - down(start));
        let offset = down(s.p_offset as usize);
        check(
            mmap(at, len, prot, 0, elf.file.as_raw_fd(), offset),
            &what,
            at,
        )?;
        va_allocator::take(at, at + len);
        zero_from = up(file_end);
        if end > file_end && s.p_flags & PF_W != 0 {
            let tail = zero_from - file_end;
            // The whole rest of the page is cleared: ld.so relies on zeros after its own end. SAFETY: it belongs to the
            // writable mapping made just now.
            unsafe { core::ptr::write_bytes(file_end as *mut u8, 0, tail) };
        }
    }
    if up(end) > zero_from {
        anonymous(&what, zero_from, up(end) - zero_from, prot, 0)?;
    }
    Ok(())
}
