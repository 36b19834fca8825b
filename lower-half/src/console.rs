//! Messages of the lower half for people, on standard error.

use std::fmt::Display;

use launcher::message;

/// Prints a message of a rank.
pub fn say(rank: u32, text: impl Display) {
    message::say(format_args!("rank {rank}: {text}"));
}

/// Prints an error with its reasons, and the rank if the launcher gave this process one.
pub fn tell(error: &anyhow::Error) {
    message::say(format_args!(
        "{}{}",
        launcher::rank_label(),
        message::reasons(error.as_ref())
    ));
}
