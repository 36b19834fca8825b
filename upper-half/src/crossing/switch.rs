//! The crossing from the upper to the lower half.
//!
//! A generated stub loads the lower function's address from its slot of the gate into `rax` and
//! jumps to `stasis_cross`. All argument registers and the stacked arguments are the callee's
//! already; only the return address is in the way, so it moves to the thread's side stack, and the
//! callee returns to the middle of `stasis_cross`. No argument is ever copied.
//!
//! Where `wrfsbase` may not be used, `stasis_cross` tail-jumps to `gate.lower.cross_slow` with
//! everything as it found it (`rax` = function, return address at `[rsp]`): that routine does the
//! whole crossing with `arch_prctl` and returns with the upper FS in place.
//!
//! A signal handler of the application that runs between two instructions here may cross as well:
//! the side stack's top moves before the entry is written, and back after it was read.
//!
//! # Safety
//! The assembly uses the offsets that `contract` asserts. It clobbers r10 and r11 only, which the
//! System V ABI leaves to the callee. At `call`, rsp is 16-byte aligned: at entry it was 8 off, and
//! the return address was popped.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.stasis_cross,\"ax\",@progbits",
    ".globl stasis_cross",
    ".hidden stasis_cross",
    ".type stasis_cross,@function",
    ".p2align 5",
    "stasis_cross:",
    "inc qword ptr gs:[576]",
    "cmp dword ptr gs:[40], 0",
    "je 2f",
    "pop r11",
    "mov r10, gs:[24]",
    "add qword ptr gs:[24], 8",
    "mov [r10], r11",
    "mov r11, gs:[8]",
    "wrfsbase r11",
    "call rax",
    "mov r11, gs:[16]",
    "wrfsbase r11",
    "mov r10, gs:[24]",
    "push qword ptr [r10 - 8]",
    "sub qword ptr gs:[24], 8",
    "ret",
    "2:",
    "movabs r10, {cross_slow}",
    "jmp qword ptr [r10]",
    ".size stasis_cross, . - stasis_cross",
    ".popsection",
    cross_slow = const contract::GATE_ADDRESS
        + core::mem::offset_of!(contract::Gate, lower)
        + core::mem::offset_of!(contract::LowerInfo, cross_slow),
);

/// Number of crossings that the calling thread has begun, modulo its size.
#[inline(always)]
pub(crate) fn crossings() -> usize {
    block_word::<{ contract::ThreadBlock::CROSSINGS }>()
}

/// A word of the calling thread's block, of which this is the offset.
#[inline(always)]
pub(crate) fn block_word<const OFFSET: usize>() -> usize {
    let word: usize;
    // SAFETY: the block is there before a thread runs upper-half code. A read does no harm.
    unsafe {
        core::arch::asm!(
            "mov {}, gs:[{offset}]",
            out(reg) word,
            offset = const OFFSET,
            options(nostack, readonly)
        );
    }
    word
}
