//! Calls whose effect no image holds. The first one is recorded and refuses all later checkpoints.

use super::{Call, Handler, Outcome};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Calls, with their names for messages.
const CALLS: [(i64, &str); 17] = [
    // Passed, but no image holds its effect: later checkpoints are refused, with the name of the call.
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

pub const HANDLERS: &[(i64, Handler)] = &{
    let mut handlers = [(0, note as Handler); CALLS.len()];
    let mut i = 0;
    while i < CALLS.len() {
        handlers[i].0 = CALLS[i].0;
        i += 1;
    }
    handlers
};

/// Options of `prctl` whose setting is not saved.
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

/// Index of the first one, from 1, in `CALLS` and then `OPTIONS`; 0 if there was none.
static NOTED: AtomicUsize = AtomicUsize::new(0);

fn remember(call: &Call, index: Option<usize>, outcome: &Outcome) {
    if let (Some(index), Outcome::Value(result)) = (index, outcome) {
        let first = NOTED.load(Ordering::Relaxed) == 0;
        if *result >= 0 && first && call.in_rank() {
            NOTED.store(index + 1, Ordering::Relaxed);
        }
    }
}

fn note(call: &mut Call) -> Outcome {
    let nr = call.nr() as i64;
    let outcome = call.pass();
    let index = CALLS.iter().position(|(number, _)| *number == nr);
    remember(call, index, &outcome);
    outcome
}

/// Records a `prctl` that the kernel has served.
pub fn note_prctl(call: &Call, option: i32, outcome: &Outcome) {
    let index = OPTIONS.iter().position(|(number, _)| *number == option);
    remember(call, index.map(|i| CALLS.len() + i), outcome);
}

/// Call of the application whose effect no image can hold, if any.
pub fn noted() -> Option<&'static str> {
    let index = NOTED.load(Ordering::Relaxed).checked_sub(1)?;
    let calls = CALLS.iter().map(|(_, name)| *name);
    let options = OPTIONS.iter().map(|(_, name)| *name);
    calls.chain(options).nth(index)
}
