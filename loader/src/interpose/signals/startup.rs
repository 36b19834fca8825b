//! Signal actions at the start of a program.

use super::{actions, library_handlers};
use super::{ignored_or_default, kernel_action, Action, SIGNALS};

/// Removes the crash handlers of Rust's start-up, which are not the application's. Call it first of all, before an MPI
/// library checks for handlers of crashes.
pub fn forget_rust() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        kernel_action(signal, libc::SIG_DFL, 0, 0);
        library_handlers::forget(signal);
    }
}

/// Sets the actions as exec leaves them before the program starts: ignored ones stay ignored. Handlers of the lower
/// half's libraries stay, too, until the application sets an action.
pub fn start() {
    for signal in 1..=SIGNALS as i32 {
        let mut action = ignored_or_default(signal);
        if signal == libc::SIGPIPE && action != Action::default() {
            // Rust's start-up ignores it; no program expects that.
            action = Action::default();
            actions::install(signal, &action);
            library_handlers::forget(signal);
        }
        actions::note(signal, &action);
    }
}
