//! Keeps the vector registers over code that may change them.
//!
//! The kernel keeps all registers over a system call, so a handler that is entered without a signal frame has to keep
//! them, too. The C library uses all vector registers that the processor has (`memcpy`).
//!
//! # Safety
//! The registers are saved on the stack of the code that uses the saved state. The function that is called in between
//! has the C calling convention.
#![allow(unsafe_code)]

use core::arch::{asm, global_asm};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

/// The state components that code of the lower half may change: SSE, AVX, and the three of AVX-512.
pub const COMPONENTS: u32 = 0xe6;
/// Bytes that `xsavec` writes for these at most: 512 and 64, then 256, 64, 512 and 1024, in whole cache lines.
pub const BYTES: usize = 2496;
/// Offset of the header, whose reserved part must be zero.
pub const HEADER: usize = 512;

const _: () = assert!(BYTES >= HEADER + 64 + 256 + 64 + 512 + 1024 && BYTES.is_multiple_of(64));

/// Assembly that saves [`COMPONENTS`] at rsp, where there are [`BYTES`] for them. It changes rax and rdx, and names the
/// operands `header` and `components`.
macro_rules! save_at_rsp {
    () => {
        concat!(
            "xor eax, eax\n",
            "mov [rsp + {header}], rax\n",
            "mov [rsp + {header} + 8], rax\n",
            "mov [rsp + {header} + 16], rax\n",
            "mov [rsp + {header} + 24], rax\n",
            "mov [rsp + {header} + 32], rax\n",
            "mov [rsp + {header} + 40], rax\n",
            "mov [rsp + {header} + 48], rax\n",
            "mov [rsp + {header} + 56], rax\n",
            "mov eax, {components}\n",
            "xor edx, edx\n",
            "xsavec [rsp]\n",
        )
    };
}
pub(crate) use save_at_rsp;

/// Not 0 if the processor has `xsavec`.
static AVAILABLE: AtomicU32 = AtomicU32::new(0);

global_asm!(
    // keeping_vectors(data, function): calls function(data).
    ".globl stasis_keeping_vectors",
    "stasis_keeping_vectors:",
    "push rbp",
    "mov rbp, rsp",
    "cmp dword ptr [rip + {available}], 0",
    "je 2f",
    "sub rsp, {bytes}",
    "and rsp, -64",
    save_at_rsp!(),
    "call rsi",
    "mov eax, {components}",
    "xor edx, edx",
    "xrstor [rsp]",
    "mov rsp, rbp",
    "pop rbp",
    "ret",
    "2:",
    "and rsp, -16",
    "call rsi",
    "mov rsp, rbp",
    "pop rbp",
    "ret",
    available = sym AVAILABLE,
    bytes = const BYTES,
    header = const HEADER,
    components = const COMPONENTS,
);

extern "C" {
    fn stasis_keeping_vectors(data: *mut (), function: unsafe extern "C" fn(*mut ()));
}

/// Detects whether the registers can be kept.
pub fn detect() {
    let available = std::arch::is_x86_feature_detected!("xsavec");
    AVAILABLE.store(u32::from(available), Ordering::Relaxed);
}

/// Whether [`kept`] keeps the registers.
pub fn can_be_kept() -> bool {
    AVAILABLE.load(Ordering::Relaxed) != 0
}

/// Runs `f`; all vector registers are afterwards as before, if [`can_be_kept`].
pub fn kept<R>(f: impl FnOnce() -> R) -> R {
    struct Work<F, R>(MaybeUninit<F>, MaybeUninit<R>);
    unsafe extern "C" fn run<F: FnOnce() -> R, R>(data: *mut ()) {
        // SAFETY: `data` is the work of the waiting `kept`, whose function is taken once.
        unsafe {
            let work = &mut *data.cast::<Work<F, R>>();
            work.1.write(work.0.assume_init_read()());
        }
    }
    fn code_of<F: FnOnce() -> R, R>(_: &Work<F, R>) -> unsafe extern "C" fn(*mut ()) {
        run::<F, R>
    }
    let mut work = Work(MaybeUninit::new(f), MaybeUninit::uninit());
    // SAFETY: the function has run when this returns, and has written the result.
    unsafe {
        stasis_keeping_vectors((&raw mut work).cast(), code_of(&work));
        work.1.assume_init()
    }
}

/// As `copy_within` of slices, without the C library.
pub fn copy_within<T: Copy>(values: &mut [T], from: Range<usize>, to: usize) {
    const { assert!(size_of::<T>().is_multiple_of(size_of::<u64>())) };
    let count = from.len();
    let (source, target) = (values[from].as_ptr(), values[to..to + count].as_mut_ptr());
    let words = count * (size_of::<T>() / size_of::<u64>());
    // SAFETY: both parts lie in the slice. The direction is the one in which no word is overwritten before it is read;
    // the direction flag is clear before and after.
    unsafe {
        if target.cast_const() <= source {
            asm!("rep movsq", inout("rsi") source => _, inout("rdi") target => _, inout("rcx") words => _,
                options(nostack, preserves_flags));
        } else {
            let last = |start: *const u64| start.wrapping_add(words).wrapping_sub(1);
            let (source, target) = (last(source.cast()), last(target.cast_const().cast()));
            asm!("std", "rep movsq", "cld", inout("rsi") source => _, inout("rdi") target => _,
                inout("rcx") words => _, options(nostack));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_parts_are_copied() {
        for (from, to) in [(2..6, 0), (0..4, 2), (1..1, 3), (0..6, 0)] {
            let (mut one, mut other) = ([1u64, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]);
            copy_within(&mut one, from.clone(), to);
            other.copy_within(from, to);
            assert_eq!(one, other);
        }
    }

    #[test]
    fn vector_registers_are_kept() {
        detect();
        if !can_be_kept() {
            return;
        }
        let mut found: u64;
        // SAFETY: the register is an output of each block.
        unsafe {
            asm!("movq xmm15, {}", in(reg) 0x1234_u64, out("xmm15") _);
        }
        let result = kept(|| {
            // SAFETY: as above.
            unsafe { asm!("pcmpeqd xmm15, xmm15", out("xmm15") _) };
            7
        });
        // SAFETY: as above.
        unsafe { asm!("movq {}, xmm15", out(reg) found) };
        assert_eq!((result, found), (7, 0x1234));
    }
}
