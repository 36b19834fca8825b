//! The kernel's signal frame on x86-64, in which a thread's state is saved.
//!
//! A frame is `pretcode, Context, SigInfo, padding, extended FP state`. `rt_sigreturn` takes the address of the Context
//! as its stack pointer, so "resume a thread" is `resume(context)`, for a thread that was stopped, for one that starts,
//! and for one that was mapped from an image.
//!
//! # Safety
//! Contexts are made by the kernel, or copied whole by [`copy_below`]. Jumping into one abandons all frames of the
//! handler that does it, which therefore must hold no lock and own nothing.
#![allow(unsafe_code)]

use core::arch::global_asm;

/// General registers, in the order of the kernel's `struct sigcontext`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Registers {
    pub r8: usize,
    pub r9: usize,
    pub r10: usize,
    pub r11: usize,
    pub r12: usize,
    pub r13: usize,
    pub r14: usize,
    pub r15: usize,
    pub rdi: usize,
    pub rsi: usize,
    pub rbp: usize,
    pub rbx: usize,
    pub rdx: usize,
    pub rax: usize,
    pub rcx: usize,
    pub rsp: usize,
    pub rip: usize,
    pub eflags: usize,
    pub segments: u64,
    pub err: usize,
    pub trapno: usize,
    pub oldmask: usize,
    pub cr2: usize,
}

/// The alternate signal stack (`stack_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct AltStack {
    pub base: usize,
    pub flags: i32,
    pub pad: i32,
    pub size: usize,
}

/// The kernel's `struct ucontext`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Context {
    pub flags: u64,
    pub link: usize,
    pub stack: AltStack,
    pub regs: Registers,
    pub fpstate: usize,
    pub reserved: [u64; 8],
    pub mask: u64,
}

/// Value of [`Context::flags`] of one that holds registers alone: no mask, no alternate stack, no FP state. The kernel
/// knows other flags.
pub const REGISTERS_ONLY: u64 = u64::from_le_bytes(*b"OF\0SITE\0");

impl Context {
    /// Sets the general registers. Those of the segments, and what the kernel tells about a fault, stay as they are.
    pub fn set_registers(&mut self, regs: &Registers) {
        self.regs = Registers {
            segments: self.regs.segments,
            err: self.regs.err,
            trapno: self.regs.trapno,
            oldmask: self.regs.oldmask,
            cr2: self.regs.cr2,
            ..*regs
        };
    }
}

/// `siginfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SigInfo {
    /// Signal number.
    pub signo: i32,
    /// Not used on this machine.
    pub errno: i32,
    /// Source of the signal (`si_code`).
    pub code: i32,
    /// Not used.
    pub pad: i32,
    /// Sending process, or the timer.
    pub sender: i32,
    /// Other fields.
    pub rest: [i32; 27],
}

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<Registers>() == 184);
    assert!(offset_of!(Context, regs) == 40);
    assert!(offset_of!(Context, fpstate) == 224);
    assert!(offset_of!(Context, mask) == 296);
    assert!(size_of::<Context>() == 304);
    assert!(size_of::<SigInfo>() == 128);
};

/// Bytes below the stack pointer that belong to the interrupted function.
const RED_ZONE: usize = 128;
/// Length of a `syscall` instruction.
pub const SYSCALL_LEN: usize = 2;

/// Bytes of the registers of FXSAVE, with which an FP state begins.
pub const LEGACY: usize = 512;
/// Offset of the kernel's words about an FP state, and the first of them (`fp_state.rs`).
pub const WORDS: usize = 464;
pub const MAGIC1: u32 = 0x4650_5853;

/// Bytes of the FP state at `fpstate`, from the size that the kernel stores inside it.
///
/// # Safety
/// `fpstate` must be the address of an FP state in a frame or of its copy, or 0.
unsafe fn fp_bytes(fpstate: usize) -> usize {
    if fpstate == 0 {
        return 0;
    }
    // SAFETY: every FP state in a 64-bit frame has at least 512 bytes.
    let (magic, size) = unsafe {
        let sw = (fpstate + WORDS) as *const u32;
        (sw.read(), sw.add(1).read())
    };
    if magic == MAGIC1 {
        size as usize
    } else {
        LEGACY
    }
}

/// Copies a frame (context and FP state) to below `top`, leaving a red zone, and returns the copy.
///
/// # Safety
/// `from` must be a frame; there must be writable memory for it below `top`, which nothing else uses while the result
/// exists.
pub unsafe fn copy_below<'a>(top: usize, from: &Context) -> &'a mut Context {
    // SAFETY: both pieces lie below `top`, which the caller guarantees to be writable; the source is a frame.
    unsafe {
        let bytes = fp_bytes(from.fpstate);
        let fp = (top - RED_ZONE - bytes) & !63;
        let at = ((fp - size_of::<Context>()) & !15) as *mut Context;
        core::ptr::copy_nonoverlapping(from.fpstate as *const u8, fp as *mut u8, bytes);
        at.write(*from);
        (*at).fpstate = if bytes == 0 { 0 } else { fp };
        &mut *at
    }
}

/// Bytes that hold a frame for [`Saved::put_back`].
pub const SAVED_BYTES: usize = 16 * 1024;

/// A copy of a frame in other memory.
#[repr(C, align(64))]
pub struct Saved {
    fp: [u8; SAVED_BYTES],
    context: core::mem::MaybeUninit<Context>,
}

impl Saved {
    /// Copies the frame; false if the FP state is too large for the copy.
    ///
    /// # Safety
    /// `from` must be a frame.
    pub unsafe fn keep(&mut self, from: &Context) -> bool {
        // SAFETY: the source is a frame with that many bytes.
        unsafe {
            let bytes = fp_bytes(from.fpstate);
            if bytes > SAVED_BYTES {
                return false;
            }
            core::ptr::copy_nonoverlapping(from.fpstate as *const u8, self.fp.as_mut_ptr(), bytes);
        }
        self.context.write(*from);
        true
    }

    /// Copies the frame back to its old address.
    ///
    /// # Safety
    /// `keep` must have succeeded for a frame at `to`, whose memory is still mapped.
    pub unsafe fn put_back(&self, to: *mut Context) {
        // SAFETY: `keep` has copied this number of bytes from `to`, which is still mapped.
        unsafe {
            let context = self.context.assume_init_ref();
            let bytes = fp_bytes(self.fp.as_ptr() as usize).min(SAVED_BYTES);
            to.write(*context);
            if context.fpstate != 0 {
                core::ptr::copy_nonoverlapping(self.fp.as_ptr(), context.fpstate as *mut u8, bytes);
            }
        }
    }
}

global_asm!(
    // Restorer of the loader's own handlers. Applications keep their own restorer, whose rt_sigreturn is trapped and
    // forwarded: its address must survive a restart, this one does not. An unwinder looks up the instruction before a
    // return address, which must not be the last one of another function: hence the nop.
    "nop",
    ".globl stasis_restorer",
    "stasis_restorer:",
    "mov rax, 15",
    "syscall",
);

extern "C" {
    fn stasis_restorer();
}

/// Address of the restorer for the loader's own handlers.
pub fn restorer() -> usize {
    stasis_restorer as *const () as usize
}
