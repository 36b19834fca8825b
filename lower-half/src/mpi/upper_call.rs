//! Calls of functions of the upper half (user-defined operations).
//!
//! # Safety
//! The routine only switches the thread pointer. The offsets in the thread block, at GS base, are asserted in
//! `contract`. No code that uses thread-local storage runs between the switch and the call. Number 158 is `arch_prctl`,
//! 0x1002 is ARCH_SET_FS; the kernel changes rax, rcx and r11, so arguments are saved on the stack around it. The stack
//! is 16-byte aligned at each call.
#![allow(unsafe_code)]

use contract::ThreadBlock;

core::arch::global_asm!(
    // (five arguments of the callee, any, the callee): its rax.
    ".pushsection .text.stasis_upcall,\"ax\",@progbits",
    ".p2align 4",
    ".globl stasis_upcall",
    ".hidden stasis_upcall",
    ".type stasis_upcall,@function",
    "stasis_upcall:",
    "push rbx",
    "mov rbx, gs:[8]",
    "mov r11, gs:[16]",
    "cmp dword ptr gs:[40], 0",
    "je 2f",
    "wrfsbase r11",
    "call r9",
    "wrfsbase rbx",
    "pop rbx",
    "ret",
    "2:",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push r8",
    "push r9",
    "mov edi, 0x1002",
    "mov rsi, r11",
    "mov eax, 158",
    "syscall",
    "pop r9",
    "pop r8",
    "pop rcx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "call r9",
    "push rax",
    "mov edi, 0x1002",
    "mov rsi, rbx",
    "mov eax, 158",
    "syscall",
    "pop rax",
    "pop rbx",
    "ret",
    ".size stasis_upcall, . - stasis_upcall",
    ".popsection",
);

extern "C" {
    fn stasis_upcall(a: usize, b: usize, c: usize, d: usize, e: usize, callee: usize) -> usize;
}

/// Whether this thread has a thread block, and so an upper half.
pub fn has_thread_block() -> bool {
    // 0 on threads of the lower half alone.
    let block = loader::thread_address();
    if block == 0 {
        return false;
    }
    // SAFETY: only the loader sets GS base, to the address of a thread block.
    unsafe { (*(block as *const ThreadBlock)).this == block }
}

/// Calls a function of the upper half with the upper thread pointer. On a thread without an upper half, only calls it.
///
/// # Safety
/// `callee` must be an `extern "C"` function of up to five integer or pointer arguments, and `arguments` must be valid
/// for it.
pub unsafe fn call_upper(callee: usize, arguments: [usize; 5]) -> usize {
    type Callee = unsafe extern "C" fn(usize, usize, usize, usize, usize) -> usize;
    let [a, b, c, d, e] = arguments;
    if has_thread_block() {
        // SAFETY: the thread block holds both thread pointers; the rest is this function's
        // contract.
        return unsafe { stasis_upcall(a, b, c, d, e, callee) };
    }
    // SAFETY: this function's contract.
    unsafe { core::mem::transmute::<usize, Callee>(callee)(a, b, c, d, e) }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn digits(a: usize, b: usize, c: usize, d: usize, e: usize) -> usize {
        a * 10_000 + b * 1000 + c * 100 + d * 10 + e
    }

    #[test]
    fn a_thread_without_upper_half_calls_directly() {
        // SAFETY: a function of five integers.
        let result = unsafe { call_upper(digits as *const () as usize, [1, 2, 3, 4, 5]) };
        assert_eq!(result, 12345);
    }

    /// Runs `test` with a thread block whose two thread pointers are the thread's own.
    fn with_thread_block(fsgsbase: u32, test: fn()) {
        const ARCH_SET_GS: libc::c_int = 0x1001;
        const ARCH_GET_FS: libc::c_int = 0x1003;
        let mut fs = 0_usize;
        let mut block: Box<ThreadBlock> = Box::new(ThreadBlock {
            this: 0,
            lower_fs: 0,
            upper_fs: 0,
            side_top: 0,
            in_wrapper: 0,
            on_leaving: 0,
            fsgsbase,
            tid: 0,
            vdso_sp: 0,
            side: [0; contract::SIDE_STACK_DEPTH],
            inside: 0,
            crossings: 0,
            number: 0,
            births: 0,
        });
        // SAFETY: stores FS base in a local.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_FS, &mut fs) };
        block.this = &raw const *block as usize;
        block.lower_fs = fs;
        block.upper_fs = fs;
        block.side_top = block.side.as_ptr() as usize;
        // SAFETY: nothing else uses GS; it is reset before the block goes.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, block.this) };
        test();
        assert_eq!(block.side_top, block.side.as_ptr() as usize);
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, 0) };
    }

    fn upcall() {
        assert!(has_thread_block());
        // SAFETY: a function of five integers.
        let result = unsafe { call_upper(digits as *const () as usize, [9, 8, 7, 6, 5]) };
        assert_eq!(result, 98765);
    }

    #[test]
    fn an_upcall_passes_arguments_and_result() {
        with_thread_block(0, upcall);
        const HWCAP2_FSGSBASE: u64 = 2;
        // SAFETY: reads the auxiliary vector.
        if unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE != 0 {
            with_thread_block(1, upcall);
        }
    }
}
