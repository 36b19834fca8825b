//! The FS and GS bases, and what the processor can do.
//!
//! # Safety
//! Changing FS swaps the C library whose thread-local state is current. Every caller does so
//! only around code that uses no TLS, or to enter the half whose FS it sets. GS is used by neither
//! C library; in threads of the upper half it always points to their `Thread`, elsewhere it is 0, or
//! (in threads that the MPI library makes) it is that of the creator and must not be trusted.
#![allow(unsafe_code)]

use super::{c_library, syscall, vectors};
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

const ARCH_SET_GS: usize = 0x1001;
const ARCH_SET_FS: usize = 0x1002;
const ARCH_GET_FS: usize = 0x1003;
const ARCH_GET_GS: usize = 0x1004;
const ARCH_GET_XCOMP_PERM: usize = 0x1022;
const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
/// Bit of AT_HWCAP2 that allows `wrfsbase` in user code.
pub const HWCAP2_FSGSBASE: u64 = 2;

static FSGSBASE: AtomicBool = AtomicBool::new(false);

/// Detects whether `wrfsbase` works (`STASIS_NO_FSGSBASE=1` disables it, for tests), and how vector registers are kept.
pub fn detect() {
    vectors::detect();
    let forced_off = std::env::var_os("STASIS_NO_FSGSBASE").is_some_and(|v| v == "1");
    let hwcap2 = c_library::getauxval(libc::AT_HWCAP2);
    FSGSBASE.store(
        hwcap2 & HWCAP2_FSGSBASE != 0 && !forced_off,
        Ordering::Relaxed,
    );
}

/// Whether `wrfsbase` and the related instructions are in use.
#[inline(always)]
pub fn fsgsbase() -> bool {
    FSGSBASE.load(Ordering::Relaxed)
}

fn arch_prctl_get(code: usize) -> usize {
    let mut value = 0usize;
    // SAFETY: the kernel writes only the word whose address is given.
    unsafe {
        syscall::raw(
            libc::SYS_arch_prctl as usize,
            [code, &raw mut value as usize, 0, 0, 0, 0],
        )
    };
    value
}

/// State components of XSAVE that the process may use, with those that it has asked for (the tiles of AMX); 0 if the
/// kernel does not tell.
pub fn permitted_components() -> u64 {
    arch_prctl_get(ARCH_GET_XCOMP_PERM) as u64
}

/// Asks the kernel for components that the process may not use yet.
///
/// # Errors
/// The kernel refuses one of them.
pub fn permit_components(components: u64) -> std::io::Result<()> {
    let missing = components & !permitted_components();
    for component in (0..64).filter(|component| missing & 1 << component != 0) {
        let result = syscall::plain(
            libc::SYS_arch_prctl,
            [ARCH_REQ_XCOMP_PERM, component, 0, 0, 0, 0],
        );
        if syscall::is_err(result) {
            return Err(std::io::Error::from_raw_os_error(-result as i32));
        }
    }
    Ok(())
}

/// Component of XSAVE with the content of AMX's tiles.
pub const TILES: u32 = 18;

/// Uses a tile, for which the kernel enlarges the calling thread's room for registers. `rt_sigreturn` refuses larger
/// registers than there is room for. The process must be permitted [`TILES`].
pub fn use_tiles() {
    /// Palette 1, with one row of eight bytes in the first tile.
    #[repr(C, align(64))]
    struct Configuration([u8; 64]);
    let mut configuration = Configuration([0; 64]);
    configuration.0[0] = 1;
    configuration.0[16] = 8;
    configuration.0[48] = 1;
    // SAFETY: the kernel serves these instructions to a permitted process; the tiles are afterwards as at its start.
    unsafe {
        asm!("ldtilecfg [{}]", "tilezero tmm0", "tilerelease", in(reg) &raw const configuration);
    }
}

/// The FS base.
#[inline(always)]
pub fn fs() -> usize {
    if fsgsbase() {
        let value;
        // SAFETY: `detect` has found the instruction to be enabled.
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
        // SAFETY: `detect` has found the instruction to be enabled; the caller runs no code that uses the other half's
        // TLS.
        unsafe { asm!("wrfsbase {}", in(reg) value, options(nostack)) };
    } else {
        syscall::plain(libc::SYS_arch_prctl, [ARCH_SET_FS, value, 0, 0, 0, 0]);
    }
}

/// The GS base; see the module's head.
#[inline(always)]
pub fn gs() -> usize {
    if fsgsbase() {
        let value;
        // SAFETY: `detect` has found the instruction to be enabled.
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
    syscall::plain(libc::SYS_arch_prctl, [ARCH_SET_GS, value, 0, 0, 0, 0]);
}

/// Set once a thread of the application may not read the time stamp counter any more.
static TIME_STAMPS_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Switches the flight recorder off for good: the calling thread asks for a signal at each read of the time stamp
/// counter (prctl(2): PR_TSC_SIGSEGV).
pub fn forbid_time_stamps() {
    TIME_STAMPS_FORBIDDEN.store(true, Ordering::Release);
    contract::gate().recorder.store(0, Ordering::Release);
}

/// Whether every thread may read the time stamp counter.
pub fn time_stamps_allowed() -> bool {
    !TIME_STAMPS_FORBIDDEN.load(Ordering::Acquire)
}
