//! Readable formats: bytes, durations, names of libraries.

use std::time::{SystemTime, UNIX_EPOCH};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use history::text;
pub use history::text::{bytes, duration};
use launcher::message;

/// Name and version of an MPI library, without the rest of its version string.
pub fn library(name: &str) -> &str {
    name.split([',', '\n']).next().unwrap_or_default().trim()
}

/// Formats a time in seconds since 1970, such as `3 min ago`.
pub fn ago(then: u64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    match now.saturating_sub(then) {
        s @ 0..60 => format!("{s} s ago"),
        s @ 60..3_600 => format!("{} min ago", s / 60),
        s @ 3_600..86_400 => format!("{} h ago", s / 3_600),
        s => format!("{} ago", counted((s / 86_400) as usize, "day")),
    }
}

/// Formats a time in seconds since 1970 in the user's time zone, such as `2026-11-26T17:16:19+01:00, 3 min ago`.
pub fn when(then: u64) -> String {
    let shown = text::moment(then).map(|moment| format!("{moment}, "));
    format!("{}{}", shown.unwrap_or_default(), ago(then))
}

/// Formats a number of things, such as `1 rank` or `2 ranks`.
pub fn counted(n: usize, one: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{n} {one}s"),
    }
}

/// Formats a number of ranks.
pub fn ranks(n: u32) -> String {
    counted(n as usize, "rank")
}

/// Formats a number of restarts, such as `1 restart`.
pub fn restarts(n: u64) -> String {
    match n {
        0 => "no restart".to_owned(),
        1 => "1 restart".to_owned(),
        n => format!("{n} restarts"),
    }
}

/// Marks a text that says that something is wrong, where standard output is a terminal with colours.
pub fn bad(text: &str) -> String {
    let style = match AutoStream::choice(&std::io::stdout()) {
        ColorChoice::Never => Style::new(),
        _ => AnsiColor::Red.on_default().bold(),
    };
    format!("{style}{text}{style:#}")
}

/// Prints an error and its rank.
pub fn tell(error: &anyhow::Error) {
    message::say(format_args!(
        "{}{}",
        launcher::rank_label(),
        message::reasons(error.as_ref())
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_iso_8601() {
        let shown = when(1_700_000_000);
        let (moment, ago) = shown.split_once(", ").unwrap();
        let moment: jiff::Timestamp = moment.parse().unwrap();
        assert_eq!(moment.as_second(), 1_700_000_000);
        assert!(ago.ends_with(" days ago"), "{shown}");
    }

    #[test]
    fn formats_are_short() {
        assert!(ago(0).ends_with("days ago"));
        let now = history::event::now() as u64;
        assert_eq!(ago(now - 90_000), "1 day ago");
        assert_eq!((ranks(1), ranks(2)), ("1 rank".into(), "2 ranks".into()));
    }
}
