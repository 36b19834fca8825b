//! Numbers of the kernel's interface that `libc` does not have for this platform.

/// Option of `prctl`: system calls outside a range of addresses raise SIGSYS. From `<linux/prctl.h>`.
pub const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;

/// Advice of `madvise`: an access to these pages raises SIGSEGV (Linux 6.13). From `<asm-generic/mman-common.h>`.
pub const MADV_GUARD_INSTALL: i32 = 102;

/// Code of `arch_prctl`: set the GS base. From `<asm/prctl.h>`, as the next three.
pub const ARCH_SET_GS: i32 = 0x1001;
/// Code of `arch_prctl`: set the FS base.
pub const ARCH_SET_FS: i32 = 0x1002;
/// Code of `arch_prctl`: store the FS base at an address.
pub const ARCH_GET_FS: i32 = 0x1003;
/// Code of `arch_prctl`: store the GS base at an address.
pub const ARCH_GET_GS: i32 = 0x1004;
