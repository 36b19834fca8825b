//! The FS and GS bases, and what the processor can do.
//!
//! # Safety
//! Changing FS swaps the C library whose thread-local state is current. Every caller does so
//! only around code that uses no TLS, or to enter the half whose FS it sets. GS is used by neither
//! C library; in threads of the upper half it always points to their `Thread`, elsewhere it is 0, or
//! (in threads that the MPI library makes) it is that of the creator and must not be trusted.
#![allow(unsafe_code)]

use crate::raw;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

const ARCH_SET_GS: usize = 0x1001;
const ARCH_SET_FS: usize = 0x1002;
const ARCH_GET_FS: usize = 0x1003;
const ARCH_GET_GS: usize = 0x1004;
/// Bit of AT_HWCAP2 that says that user code may use `wrfsbase`.
pub const HWCAP2_FSGSBASE: u64 = 2;

static FSGSBASE: AtomicBool = AtomicBool::new(false);

/// Finds out whether `wrfsbase` works here (`STASIS_NO_FSGSBASE=1` says no, for tests).
pub fn detect() {
    let forced_off = std::env::var_os("STASIS_NO_FSGSBASE").is_some_and(|v| v == "1");
    // SAFETY: getauxval only reads the auxiliary vector.
    let hwcap2 = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    FSGSBASE.store(
        hwcap2 & HWCAP2_FSGSBASE != 0 && !forced_off,
        Ordering::Relaxed,
    );
}

/// Whether `wrfsbase` and its kin are in use.
#[inline(always)]
pub fn fsgsbase() -> bool {
    FSGSBASE.load(Ordering::Relaxed)
}

fn arch_prctl_get(code: usize) -> usize {
    let mut value = 0usize;
    // SAFETY: the kernel writes the one word that is passed.
    unsafe {
        raw::syscall(
            libc::SYS_arch_prctl as usize,
            [code, &raw mut value as usize, 0, 0, 0, 0],
        )
    };
    value
}

/// The FS base.
#[inline(always)]
pub fn fs() -> usize {
    if fsgsbase() {
        let value;
        // SAFETY: `detect` saw that the instruction may be used.
        unsafe { asm!("rdfsbase {}", out(reg) value, options(nomem, nostack)) };
        value
    } else {
        arch_prctl_get(ARCH_GET_FS)
    }
}

/// Sets the FS base.
///
/// # Safety
/// See the module's head.
#[inline(always)]
pub unsafe fn set_fs(value: usize) {
    if fsgsbase() {
        // SAFETY: `detect` saw that the instruction may be used; the caller answers for the rest.
        unsafe { asm!("wrfsbase {}", in(reg) value, options(nostack)) };
    } else {
        raw::plain(libc::SYS_arch_prctl, [ARCH_SET_FS, value, 0, 0, 0, 0]);
    }
}

/// The GS base; see the module's head.
#[inline(always)]
pub fn gs() -> usize {
    if fsgsbase() {
        let value;
        // SAFETY: `detect` saw that the instruction may be used.
        unsafe { asm!("rdgsbase {}", out(reg) value, options(nomem, nostack)) };
        value
    } else {
        arch_prctl_get(ARCH_GET_GS)
    }
}

/// Sets the GS base.
///
/// # Safety
/// See the module's head.
pub unsafe fn set_gs(value: usize) {
    raw::plain(libc::SYS_arch_prctl, [ARCH_SET_GS, value, 0, 0, 0, 0]);
}
