//! The room for registers in the program's dynamic linker.
//!
//! glibc binds a function at its first call, and saves the caller's registers on the stack for that. It has measured
//! the room for them when it started (`xsave_state_size`, sysdeps/x86/cpu-features.c). The XSAVE instructions write
//! what the present processor has in use. A program that is restarted on a processor with larger registers (AVX-512
//! after AVX2) would overwrite its own stack. So a restart enlarges the number.
//!
//! The number has no symbol. It is found by the instructions that use it (sysdeps/x86_64/dl-trampoline.h). In a dynamic
//! linker that has others it is not found. Then a restart with larger registers is refused, unless all functions are
//! bound.
//!
//! # Safety
//! The code and the number are in the program's dynamic linker, whose mappings are read from `/proc/self/maps`. No
//! thread of the program runs.
#![allow(unsafe_code)]

use crate::error::RestoreError;
use crate::load::program_info;
use crate::sys::fp_state::{Layout, LEGACY_AND_HEADER};
use crate::sys::proc_maps::{self, Mapping};
use std::io;

/// `push %rbx; mov %rsp,%rbx; and $-64,%rsp; sub number(%rip),%rsp`, without the last operand.
const RESERVES: [u8; 11] = [
    0x53, 0x48, 0x89, 0xe3, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x2b, 0x25,
];

/// Protection of code.
const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;
/// Bytes of general registers below the area (`STATE_SAVE_OFFSET`).
const GENERAL: usize = 8 * 7 + 8;
/// Alignment of the area.
const ALIGNMENT: usize = 64;
/// The state components that glibc never saves: the tiles of AMX.
const TILES: u64 = 1 << 17 | 1 << 18;

/// Enlarges the room, if it is too small for this processor. `smallest` is the room for the registers of the least
/// processor that the program has been on, if the image tells.
///
/// # Errors
/// [`RestoreError::LazyBinding`] if it is too small, and not found.
pub fn fit(smallest: Option<usize>) -> Result<(), RestoreError> {
    let needed = needed(&Layout::here());
    let failed = RestoreError::system("enlarging the dynamic linker's room for registers");
    let maps = proc_maps::read().map_err(&failed)?;
    let mut found = false;
    for number in places(&maps) {
        // SAFETY: it was found in a readable mapping.
        let room = unsafe { number.read_unaligned() };
        // Another number would be found if ld.so were another one.
        found |= room >= LEGACY_AND_HEADER;
        if (LEGACY_AND_HEADER..needed).contains(&room) {
            write(number, needed, &maps).map_err(&failed)?;
        }
    }
    match smallest {
        Some(measured) if !found && measured < needed && may_bind_later(&maps) => {
            Err(RestoreError::LazyBinding { measured, needed })
        }
        _ => Ok(()),
    }
}

/// Whether the dynamic linker may bind functions while the program runs. musl's never does.
fn may_bind_later(maps: &[Mapping]) -> bool {
    let [start, end] = program_info::interpreter();
    let mut of_linker = maps
        .iter()
        .filter(|map| start <= map.start && map.end <= end);
    let binds_now = std::env::var_os("LD_BIND_NOW").is_some_and(|now| !now.is_empty());
    !binds_now && start < end && !of_linker.any(|map| map.name.contains("musl"))
}

/// Bytes for all registers that a processor has and the kernel lets programs use, in the standard format. The compacted
/// one is not larger.
pub fn needed(layout: &Layout) -> usize {
    let bytes = layout.bytes_of(layout.components() & !TILES);
    (bytes + GENERAL).next_multiple_of(ALIGNMENT)
}

/// Addresses of the number, as the dynamic linker's code gives them.
fn places(maps: &[Mapping]) -> Vec<*mut usize> {
    let [start, end] = program_info::interpreter();
    let is_code = |map: &&Mapping| i32::from(map.prot) & CODE == CODE;
    let of_linker = maps
        .iter()
        .filter(|map| start <= map.start && map.end <= end);
    let mut found = Vec::new();
    for map in of_linker.filter(is_code) {
        // SAFETY: a readable mapping, which nothing changes.
        let code =
            unsafe { std::slice::from_raw_parts(map.start as *const u8, map.end - map.start) };
        for at in operands(code) {
            let address = map.start.wrapping_add(at);
            let inside = maps.iter().any(|map| {
                map.start <= address
                    && address + size_of::<usize>() <= map.end
                    && i32::from(map.prot) & libc::PROT_READ != 0
            });
            if inside && (start..end).contains(&address) && !found.contains(&(address as *mut _)) {
                found.push(address as *mut usize);
            }
        }
    }
    found
}

/// Addresses that the instructions name, relative to the code.
fn operands(code: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let length = RESERVES.len() + 4;
    code.windows(length)
        .enumerate()
        .filter_map(move |(at, window)| {
            let displacement = window.strip_prefix(&RESERVES)?;
            let displacement = i32::from_le_bytes(displacement.try_into().ok()?);
            Some((at + length).wrapping_add_signed(displacement as isize))
        })
}

/// Writes the number, whose page is read-only after the start of the program.
fn write(number: *mut usize, value: usize, maps: &[Mapping]) -> io::Result<()> {
    let address = number as usize;
    let holds = |map: &&Mapping| (map.start..map.end).contains(&address);
    let map = maps.iter().find(holds).ok_or(io::ErrorKind::NotFound)?;
    let before = i32::from(map.prot);
    protect(address, before | libc::PROT_WRITE)?;
    // SAFETY: it is mapped, and may be written now.
    unsafe { number.write_unaligned(value) };
    protect(address, before)
}

fn protect(number: usize, prot: i32) -> io::Result<()> {
    let page = number & !0xfff;
    let bytes = number - page + size_of::<usize>();
    // SAFETY: the page of the number, in whose mapping no thread of the program runs.
    match unsafe { libc::mprotect(page as *mut libc::c_void, bytes, prot) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_name_one_number() {
        let mut code = vec![0x90; 16];
        code.extend(RESERVES);
        code.extend(256i32.to_le_bytes());
        code.extend([0x90; 16]);
        assert_eq!(operands(&code).collect::<Vec<_>>(), [16 + 15 + 256]);
    }

    #[test]
    fn larger_registers_are_refused_where_the_number_is_not_found() {
        // This process is no application: its dynamic linker is unknown here.
        let here = needed(&Layout::here());
        assert!(fit(Some(here - ALIGNMENT)).is_ok());
        let maps = proc_maps::read().unwrap();
        let stack = maps.iter().find(|map| map.name == "[stack]").unwrap();
        program_info::set_interpreter(stack.start, stack.end);
        assert!(fit(Some(here)).is_ok() && fit(None).is_ok());
        let refused = fit(Some(here - ALIGNMENT)).map_err(|why| why.to_string());
        program_info::set_interpreter(0, 0);
        assert!(refused.unwrap_err().contains("LD_BIND_NOW=1"));
    }

    #[test]
    fn the_room_holds_the_registers_of_this_processor() {
        let bytes = needed(&Layout::here());
        assert!(
            bytes > LEGACY_AND_HEADER && bytes.is_multiple_of(ALIGNMENT),
            "{bytes}"
        );
        assert!(bytes < 8192, "the tiles are not saved: {bytes}");
    }
}
