//! Calls that change what no image holds. The first of them is remembered, and a checkpoint refused.

use super::{Call, Handler, Outcome};
use core::sync::atomic::{AtomicUsize, Ordering};

pub const HANDLERS: &[(i64, Handler)] = &[
    (libc::SYS_seccomp, note),
    (libc::SYS_ptrace, note),
    (libc::SYS_unshare, note),
    (libc::SYS_setns, note),
    (libc::SYS_chroot, note),
    (libc::SYS_pivot_root, note),
    (libc::SYS_capset, note),
    (libc::SYS_setuid, note),
    (libc::SYS_setgid, note),
    (libc::SYS_setreuid, note),
    (libc::SYS_setregid, note),
    (libc::SYS_setresuid, note),
    (libc::SYS_setresgid, note),
    (libc::SYS_setfsuid, note),
    (libc::SYS_setfsgid, note),
    (libc::SYS_setgroups, note),
    (libc::SYS_landlock_restrict_self, note),
];

/// Names, for messages, in the order of the numbers that `NOTED` holds (from 1).
const NAMES: [(i64, &str); 17] = [
    (libc::SYS_seccomp, "seccomp"),
    (libc::SYS_ptrace, "ptrace"),
    (libc::SYS_unshare, "unshare"),
    (libc::SYS_setns, "setns"),
    (libc::SYS_chroot, "chroot"),
    (libc::SYS_pivot_root, "pivot_root"),
    (libc::SYS_capset, "capset"),
    (libc::SYS_setuid, "setuid"),
    (libc::SYS_setgid, "setgid"),
    (libc::SYS_setreuid, "setreuid"),
    (libc::SYS_setregid, "setregid"),
    (libc::SYS_setresuid, "setresuid"),
    (libc::SYS_setresgid, "setresgid"),
    (libc::SYS_setfsuid, "setfsuid"),
    (libc::SYS_setfsgid, "setfsgid"),
    (libc::SYS_setgroups, "setgroups"),
    (libc::SYS_landlock_restrict_self, "landlock_restrict_self"),
];

/// Options of `prctl` that set something which is not saved.
const OPTIONS: [(i32, &str); 13] = [
    (libc::PR_SET_KEEPCAPS, "prctl(PR_SET_KEEPCAPS)"),
    (libc::PR_SET_FPEMU, "prctl(PR_SET_FPEMU)"),
    (libc::PR_SET_SECCOMP, "prctl(PR_SET_SECCOMP)"),
    (libc::PR_CAPBSET_DROP, "prctl(PR_CAPBSET_DROP)"),
    (libc::PR_SET_TSC, "prctl(PR_SET_TSC)"),
    (libc::PR_SET_SECUREBITS, "prctl(PR_SET_SECUREBITS)"),
    (libc::PR_MCE_KILL, "prctl(PR_MCE_KILL)"),
    (libc::PR_CAP_AMBIENT, "prctl(PR_CAP_AMBIENT)"),
    (53, "prctl(PR_SET_SPECULATION_CTRL)"),
    (57, "prctl(PR_SET_IO_FLUSHER)"),
    (62, "prctl(PR_SCHED_CORE)"),
    (65, "prctl(PR_SET_MDWE)"),
    (71, "prctl(PR_SET_SHADOW_STACK_STATUS)"),
];

static NOTED: AtomicUsize = AtomicUsize::new(0);

fn remember(call: &Call, index: Option<usize>, outcome: &Outcome) {
    if let (Some(index), Outcome::Value(result)) = (index, outcome) {
        if *result >= 0 && call.in_rank() {
            let first = NOTED.load(Ordering::Relaxed) == 0;
            if first {
                NOTED.store(index + 1, Ordering::Relaxed);
            }
        }
    }
}

fn note(call: &mut Call) -> Outcome {
    let nr = call.nr() as i64;
    let outcome = call.pass();
    let index = NAMES.iter().position(|(number, _)| *number == nr);
    remember(call, index, &outcome);
    outcome
}

/// A `prctl` that the kernel has served.
pub fn note_prctl(call: &Call, option: i32, outcome: &Outcome) {
    let index = OPTIONS.iter().position(|(number, _)| *number == option);
    remember(call, index.map(|i| NAMES.len() + i), outcome);
}

/// What the application has called and no image could hold the effect of.
pub fn noted() -> Option<&'static str> {
    let index = NOTED.load(Ordering::Relaxed).checked_sub(1)?;
    let names = NAMES.iter().map(|(_, name)| *name);
    names
        .chain(OPTIONS.iter().map(|(_, name)| *name))
        .nth(index)
}
