//! The trampolines. They have a fixed address at which no image holds anything, near the C library of the application.
//!
//! The code is written once; each trampoline reads its slot, which lies at a fixed distance behind it:
//!
//! ```text
//!  0  mov eax, [slot.number]       patched: `mov $number, %eax; syscall`
//!  6  lea rcx, [slot]              patched: `syscall`
//! 13  jmp [slot.entry]
//! 24  syscall                      raises SIGSYS, for a call that is served by the handler of trapped calls
//! ```
//!
//! # Safety
//! The memory is mapped once, at its fixed address, and never unmapped. A slot consists of atomics.
#![allow(unsafe_code)]

use super::shape::SYSCALL;
use crate::load::map;
use crate::sys::context::{Context, SYSCALL_LEN};
use crate::sys::{syscall, user_copy};
use contract::{SITES_ADDRESS, SITES_CODE_BYTES};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Bytes of a trampoline, and of a slot.
const BYTES: usize = 32;
/// Number of trampolines.
pub const COUNT: usize = SITES_CODE_BYTES / BYTES;
/// Distance from a trampoline to its slot.
pub const DISTANCE: usize = SITES_CODE_BYTES;
/// Offset of the entry for calls whose number is in `eax` already.
pub const WITH_NUMBER: usize = 6;
/// Offset of the instruction that raises SIGSYS.
pub const TRAP: usize = 24;

/// Instruction that raises SIGSYS at the end of a handler for which something waits: that of the first trampoline,
/// which no call has.
pub const END: usize = SITES_ADDRESS + TRAP;

/// Data of a trampoline.
#[repr(C, align(32))]
pub struct Slot {
    /// Address behind the `syscall` instruction; 0 if the slot is free.
    pub back: AtomicUsize,
    /// Address of the code that serves the call.
    pub entry: AtomicUsize,
    /// Address of the jump to the trampoline from beside the function, or 0.
    pub pad: AtomicUsize,
    /// Number of the call.
    pub number: AtomicU32,
}

const _: () = assert!(size_of::<Slot>() == BYTES);

/// One past the highest slot that was ever used.
static USED: AtomicUsize = AtomicUsize::new(1);

/// Maps the trampolines; false where that is impossible.
pub fn map() -> bool {
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    let what = "the trampolines";
    let data = SITES_ADDRESS + DISTANCE;
    if map::anonymous(what, SITES_ADDRESS, SITES_CODE_BYTES, read_write, 0).is_err()
        || map::anonymous(what, data, SITES_CODE_BYTES, read_write, 0).is_err()
    {
        return false;
    }
    for n in 0..COUNT {
        let at = SITES_ADDRESS + n * BYTES;
        // SAFETY: the memory was mapped just now, and nothing else refers to it.
        unsafe { (at as *mut [u8; BYTES]).write(code()) };
    }
    let prot = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    let args = [SITES_ADDRESS, SITES_CODE_BYTES, prot, 0, 0, 0];
    !syscall::is_err(syscall::plain(libc::SYS_mprotect, args))
}

/// A trampoline: the distances in it are the same for all.
fn code() -> [u8; BYTES] {
    let to = |field: usize, end: usize| ((DISTANCE + field - end) as u32).to_le_bytes();
    let mut code = [0xcc; BYTES];
    code[..2].copy_from_slice(&[0x8b, 0x05]);
    code[2..6].copy_from_slice(&to(offset_of!(Slot, number), 6));
    code[6..9].copy_from_slice(&[0x48, 0x8d, 0x0d]);
    code[9..13].copy_from_slice(&to(0, 13));
    code[13..15].copy_from_slice(&[0xff, 0x25]);
    code[15..19].copy_from_slice(&to(offset_of!(Slot, entry), 19));
    code[TRAP..TRAP + SYSCALL_LEN].copy_from_slice(&[0x0f, 0x05]);
    code
}

/// Address of a trampoline.
pub fn code_of(index: usize) -> usize {
    SITES_ADDRESS + index * BYTES
}

/// Slot of a trampoline.
pub fn get(index: usize) -> &'static Slot {
    let at = SITES_ADDRESS + DISTANCE + index % COUNT * BYTES;
    // SAFETY: the slots are mapped before any is used, and never unmapped.
    unsafe { &*(at as *const Slot) }
}

/// Index of the trampoline at an address, and the offset in it.
pub fn find(address: usize) -> Option<(usize, usize)> {
    let offset = address.checked_sub(SITES_ADDRESS)?;
    (offset < SITES_CODE_BYTES).then_some((offset / BYTES, offset % BYTES))
}

/// All slots that were ever used, with their indices.
pub fn used() -> impl Iterator<Item = (usize, &'static Slot)> {
    (1..USED.load(Ordering::Acquire)).map(|index| (index, get(index)))
}

/// A free slot; it is filled in by the caller, who holds the lock of the table.
pub fn allocate() -> Option<usize> {
    let count = USED.load(Ordering::Relaxed);
    let free = used().find(|(_, slot)| slot.back.load(Ordering::Relaxed) == 0);
    let index = free.map_or(count, |(index, _)| index);
    if index == COUNT {
        return None;
    }
    USED.fetch_max(index + 1, Ordering::AcqRel);
    Some(index)
}

/// Address of the `syscall` instruction of the patched call through whose trampoline the address leads, or itself.
pub fn instruction_of(address: usize) -> usize {
    match find(address) {
        Some((index, _)) => get(index).back.load(Ordering::Relaxed) - SYSCALL_LEN,
        None => address,
    }
}

/// Whether there is a system call instruction at an address, or a patch in its place.
pub fn is_call(address: usize) -> bool {
    match user_copy::read::<[u8; SYSCALL_LEN]>(address) {
        Ok(SYSCALL) => true,
        Ok([0xeb, _]) => {
            let back = address + SYSCALL_LEN;
            used().any(|(_, slot)| slot.back.load(Ordering::Relaxed) == back)
        }
        _ => false,
    }
}

/// Turns the frame of a thread in a trampoline, or at a jump to one, into the state at the application's `syscall`
/// instruction. Returns whether it was there.
pub fn leave(frame: &mut Context) -> bool {
    let rip = frame.regs.rip;
    let (index, offset) = match find(rip) {
        Some(found) => found,
        None => {
            let at_pad = |(_, slot): &(usize, &Slot)| slot.pad.load(Ordering::Relaxed) == rip;
            match used().find(at_pad) {
                Some((index, _)) => (index, WITH_NUMBER),
                None => return false,
            }
        }
    };
    let slot = get(index);
    if offset < WITH_NUMBER {
        frame.regs.rax = slot.number.load(Ordering::Relaxed) as usize;
    }
    frame.regs.rip = slot.back.load(Ordering::Relaxed) - SYSCALL_LEN;
    true
}
