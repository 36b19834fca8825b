//! Maps the gate and fills in the lower half's fields.
//!
//! # Safety
//! `stasis_cross_slow` is entered by a jump from the upper half's crossing stub with the stack and the argument
//! registers as at the call, and the target in rax. It keeps all argument registers; r10 and r11 are free. The entry on
//! the side stack is claimed before it is filled, so a crossing that interrupts it cannot overwrite it. After the call
//! rsp is 16-byte aligned. The result of the function is in rax, rdx and xmm0, which are kept over the hook's call.
#![allow(unsafe_code)]

use super::map;
use crate::error::LoadError;
use crate::sys::cpu;
use contract::{gate, CLOCKS_ADDRESS, CLOCKS_BYTES, GATE_ADDRESS, GATE_BYTES};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Value of `Gate::magic`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"STASIS\0\0");

global_asm!(
    ".globl stasis_cross_slow",
    "stasis_cross_slow:",
    "mov r11, gs:[{side_top}]",
    "add qword ptr gs:[{side_top}], 8",
    "pop qword ptr [r11]",
    "push rax",
    "push rdi",
    "push rsi",
    "push rcx",
    "mov edi, 0x1002",
    "mov rsi, gs:[{lower_fs}]",
    "mov eax, 158",
    "syscall",
    "pop rcx",
    "pop rsi",
    "pop rdi",
    "pop rax",
    "call rax",
    "push rax",
    "push rdx",
    "mov r11, [rip + {crossed}]",
    "test r11, r11",
    "jz 2f",
    "sub rsp, 16",
    "movups [rsp], xmm0",
    "mov rdi, gs:[{side_top}]",
    "mov rdi, [rdi - 8]",
    "call r11",
    "movups xmm0, [rsp]",
    "add rsp, 16",
    "2:",
    "mov edi, 0x1002",
    "mov rsi, gs:[{upper_fs}]",
    "mov eax, 158",
    "syscall",
    "pop rdx",
    "pop rax",
    "mov r11, gs:[{side_top}]",
    "push qword ptr [r11 - 8]",
    "sub qword ptr gs:[{side_top}], 8",
    "ret",
    side_top = const offset_of!(contract::ThreadBlock, side_top),
    lower_fs = const offset_of!(contract::ThreadBlock, lower_fs),
    upper_fs = const offset_of!(contract::ThreadBlock, upper_fs),
    crossed = sym CROSSED,
);

/// Function called at the end of each crossing, with the lower half's FS; 0 for none.
static CROSSED: AtomicUsize = AtomicUsize::new(0);

/// Calls `hook` at the end of every crossing from now on, for tests, with the address to which the crossing returns.
/// Threads created later cross by the slow path, which takes two system calls each.
pub fn tell_crossings(hook: extern "C" fn(usize)) {
    CROSSED.store(hook as *const () as usize, Ordering::Release);
}

/// Whether threads must cross by the slow path, although the processor has a faster one.
pub fn tells_crossings() -> bool {
    CROSSED.load(Ordering::Acquire) != 0
}

extern "C" {
    fn stasis_cross_slow();
}

/// Maps the gate and the clock table, zeroed.
pub fn map() -> Result<(), LoadError> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    map::anonymous("the gate", GATE_ADDRESS, GATE_BYTES, prot, 0)?;
    map::anonymous(
        "the clock table",
        CLOCKS_ADDRESS,
        CLOCKS_BYTES,
        prot,
        libc::MAP_NORESERVE,
    )?;
    gate().magic.store(MAGIC, Ordering::Relaxed);
    gate().version.store(contract::VERSION, Ordering::Relaxed);
    Ok(())
}

/// Fills in the loader's part of the lower half's fields in the gate.
pub fn fill() {
    let lower = &gate().lower;
    lower
        .features
        .store(u32::from(cpu::fsgsbase()), Ordering::Relaxed);
    lower
        .cross_slow
        .store(stasis_cross_slow as *const () as usize, Ordering::Release);
}
