//! The way in which a patched system call is served, by its number (`interpose/sites/`).

use super::{memory, NUMBERS, TOPICS};
use crate::interpose::sites::kind::SiteKind;

/// Numbers in [`SITE_KINDS`]: the entry finds out whether a number is less by instructions that change no flags.
const COUNT: usize = 1 << 16;

/// Calls whose handlers use the mask, the alternate stack, the FP state or the whole of the kernel's frame, or do not
/// return; and calls that are rare and slow.
const TRAPPED: &[i64] = &[
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_sigaltstack,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_arch_prctl,
    libc::SYS_prctl,
];

/// Handlers of kind [`SiteKind::Full`]. `style/vector-registers` checks the code of all others.
const FULL: &[i64] = &[libc::SYS_wait4, libc::SYS_waitid, libc::SYS_timerfd_settime];

const fn build() -> [u8; COUNT] {
    let mut kinds = [SiteKind::Trap as u8; COUNT];
    let mut nr = 0;
    while nr < NUMBERS {
        // Calls that change mappings are counted, and the trampolines know of them.
        kinds[nr] = match memory::remaps(nr) {
            true => SiteKind::Light as u8,
            false => SiteKind::Pass as u8,
        };
        nr += 1;
    }
    let mut topic = 0;
    while topic < TOPICS.len() {
        let mut i = 0;
        while i < TOPICS[topic].len() {
            kinds[TOPICS[topic][i].0 as usize] = SiteKind::Light as u8;
            i += 1;
        }
        topic += 1;
    }
    let mut i = 0;
    while i < FULL.len() {
        kinds[FULL[i] as usize] = SiteKind::Full as u8;
        i += 1;
    }
    i = 0;
    while i < TRAPPED.len() {
        kinds[TRAPPED[i] as usize] = SiteKind::Trap as u8;
        i += 1;
    }
    kinds
}

/// A [`SiteKind`] for each number. The entry of patched calls reads it.
#[no_mangle]
pub static SITE_KINDS: [u8; COUNT] = build();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_passed_served_or_trapped() {
        let kind = |nr: i64| SITE_KINDS[nr as usize];
        assert_eq!(kind(libc::SYS_getppid), SiteKind::Pass as u8);
        assert_eq!(kind(libc::SYS_read), SiteKind::Pass as u8);
        assert_eq!(kind(libc::SYS_pwrite64), SiteKind::Light as u8);
        assert_eq!(kind(libc::SYS_madvise), SiteKind::Light as u8);
        assert_eq!(kind(libc::SYS_wait4), SiteKind::Full as u8);
        assert_eq!(kind(libc::SYS_fork), SiteKind::Trap as u8);
        assert_eq!(kind(NUMBERS as i64), SiteKind::Trap as u8);
    }
}
