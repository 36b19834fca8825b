//! Readable formats: bytes, durations, names of libraries.

use std::ffi::OsString;
use std::time::{SystemTime, UNIX_EPOCH};

use launcher::message;

/// Formats bytes, such as `1.4 GiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// Formats microseconds, such as `350 ms` or `2.4 s`.
pub fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{} ms", micros / 1000),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

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
        s => format!("{} days ago", s / 86_400),
    }
}

/// Prints an error and its rank.
pub fn tell(error: &anyhow::Error) {
    message::say(format_args!(
        "{}{}",
        launcher::rank_label(),
        message::reasons(error.as_ref())
    ));
}

/// A command line as a shell reads it.
pub fn shell(words: &[OsString]) -> String {
    let word = |word: &OsString| {
        let word = word.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
        match !word.is_empty() && word.chars().all(is_plain) {
            true => word.into_owned(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_short() {
        assert_eq!(
            (bytes(17), bytes(1536), bytes(3 << 40)),
            ("17 B".into(), "1.5 KiB".into(), "3.0 TiB".into())
        );
        assert_eq!(
            (duration(900), duration(350_000), duration(2_400_000)),
            ("900 us".into(), "350 ms".into(), "2.4 s".into())
        );
        assert!(ago(0).ends_with("days ago"));
    }
}
