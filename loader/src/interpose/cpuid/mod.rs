//! The processor that the application sees, if it is a lesser one than the machine's (`launch --for-cpu`).
//!
//! The application's `cpuid` instructions are replaced by an instruction of the same length that only the kernel may
//! execute (`places.rs`). It raises SIGSEGV, and [`answer`] answers it like `cpuid`, without the features that the
//! program is not to see. The lower half and the loader see the processor as it is. The kernel's own way (CPUID
//! faulting, arch_prctl(2)) exists on some processors only, and would hold for the lower half's code in the same
//! threads.
//!
//! The registers that only hidden features have are never the application's, and no frame keeps them (`registers.rs`).

pub mod functions;
pub mod places;
pub mod registers;

use crate::sys::context::{Context, SigInfo};
use crate::sys::user_copy;
use contract::ARENA_END;
use core::arch::x86_64::__cpuid_count;
use processor::{Answer, Mask};
use std::sync::OnceLock;

/// The instruction `cpuid`.
pub const CPUID: [u8; 2] = [0x0f, 0xa2];
/// `rdmsr`, which no program can execute.
pub const TRAP: [u8; 2] = [0x0f, 0x32];
/// `si_code` of a fault for which the kernel knows no address.
const SI_KERNEL: i32 = 0x80;

static MASK: OnceLock<Mask> = OnceLock::new();

/// Hides all other features from the application. Only the first call counts.
pub fn show_only(features: &[String]) {
    MASK.get_or_init(|| Mask::of(features));
    registers::know(features);
}

/// Whether features are hidden.
pub fn hides() -> bool {
    MASK.get().is_some()
}

/// Whether this signal answers `cpuid`: it is never blocked then, and always has a handler.
pub fn takes(signal: i32) -> bool {
    signal == libc::SIGSEGV && hides()
}

/// Answers `cpuid`, if this signal comes from an instruction in its place.
pub fn answer(signal: i32, info: &SigInfo, frame: &mut Context) -> bool {
    let regs = &mut frame.regs;
    let raised = takes(signal) && info.code == SI_KERNEL && regs.rip < ARENA_END;
    if !raised || user_copy::read(regs.rip) != Ok(TRAP) {
        return false;
    }
    let Some(mask) = MASK.get() else {
        return false;
    };
    let (leaf, subleaf) = (regs.rax as u32, regs.rcx as u32);
    let native = __cpuid_count(leaf, subleaf);
    let native = Answer {
        eax: native.eax,
        ebx: native.ebx,
        ecx: native.ecx,
        edx: native.edx,
    };
    let answer = mask.apply(leaf, subleaf, native);
    regs.rax = answer.eax as usize;
    regs.rbx = answer.ebx as usize;
    regs.rcx = answer.ecx as usize;
    regs.rdx = answer.edx as usize;
    regs.rip += CPUID.len();
    true
}
