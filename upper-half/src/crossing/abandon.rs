//! A call that can be abandoned: a thread that is below it, in a function that the lower half has called, goes back to
//! where the call began. After a restart the lower half's frames in between are those of another process.
//!
//! # Safety
//! The assembly follows the System V ABI: six registers are the callee's to keep, and rsp is 16-byte aligned at the
//! call. The frames that are abandoned own nothing: those of the lower half are of another process, and those of the
//! upper half between the call and the crossing, and in [`crate::quiesce::retractable`], drop nothing.
#![allow(unsafe_code)]

use core::ffi::c_void;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .text.stasis_abandonable,\"ax\",@progbits",
    ".globl stasis_abandonable",
    ".hidden stasis_abandonable",
    ".type stasis_abandonable,@function",
    ".p2align 4",
    // (the function, its argument, the place for the stack pointer): whether it was abandoned.
    // The directives let a stack trace pass these frames.
    "stasis_abandonable:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    ".cfi_def_cfa_offset 64",
    "mov [rdx], rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "xor eax, eax",
    "2:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size stasis_abandonable, . - stasis_abandonable",
    ".globl stasis_abandon",
    ".hidden stasis_abandon",
    ".type stasis_abandon,@function",
    ".p2align 4",
    // (the stack pointer)
    "stasis_abandon:",
    "mov rsp, rdi",
    "mov eax, 1",
    "jmp 2b",
    ".size stasis_abandon, . - stasis_abandon",
    ".popsection",
);

extern "C" {
    fn stasis_abandonable(
        call: extern "C" fn(*mut c_void),
        data: *mut c_void,
        place: *mut usize,
    ) -> u32;
    fn stasis_abandon(place: usize) -> !;
}

/// Calls `call` with `data`; whether it was abandoned. Until then `place` is what [`abandon`] takes.
///
/// # Safety
/// `data` is what `call` expects. Nothing between `call` and a function that abandons it has a destructor.
#[inline(always)]
pub(crate) unsafe fn abandonable(
    call: extern "C" fn(*mut c_void),
    data: *mut c_void,
    place: *mut usize,
) -> bool {
    // SAFETY: the caller's promises.
    unsafe { stasis_abandonable(call, data, place) != 0 }
}

/// Abandons the call that has set `place`.
///
/// # Safety
/// The call is under way on this thread, and was made in this process or in the one whose memory this is.
pub(crate) unsafe fn abandon(place: usize) -> ! {
    // SAFETY: the caller's promises.
    unsafe { stasis_abandon(place) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Calls {
        place: usize,
        abandons: bool,
        made: u32,
    }

    extern "C" fn call(calls: *mut c_void) {
        // SAFETY: the test's own.
        let calls = unsafe { &mut *calls.cast::<Calls>() };
        calls.made += 1;
        if core::mem::take(&mut calls.abandons) {
            // SAFETY: the call is under way.
            unsafe { abandon(calls.place) };
        }
    }

    #[test]
    fn an_abandoned_call_is_made_again() {
        let mut calls = Calls {
            place: 0,
            abandons: true,
            made: 0,
        };
        let kept = core::hint::black_box([1_u64, 2, 3, 4, 5, 6, 7, 8]);
        let all = &raw mut calls;
        let mut abandoned = 0;
        // SAFETY: `call` takes such a value; nothing has a destructor.
        while unsafe { abandonable(call, all.cast(), &raw mut (*all).place) } {
            abandoned += 1;
        }
        assert_eq!((abandoned, calls.made), (1, 2));
        assert_eq!(kept.iter().sum::<u64>(), 36);
    }
}
