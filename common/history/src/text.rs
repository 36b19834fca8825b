//! Sizes, durations and times as users read them.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

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

/// Formats a duration in seconds, which may be long, such as `350 ms`, `2.4 s` or `3h 12m`.
pub fn span(seconds: f64) -> String {
    let micros = (seconds * 1e6) as u64;
    if seconds < 60.0 {
        return duration(micros);
    }
    // Three digits or so, as in the shorter ones.
    let unit = if seconds < 3600.0 { 1 } else { 60 };
    let whole = (seconds / f64::from(unit)).round() as i64 * i64::from(unit);
    format!("{:#}", SignedDuration::from_secs(whole))
}

/// Formats a time in seconds since 1970 in the user's time zone, such as `2026-11-26T17:16:19+01:00`; none for a time
/// that no calendar has.
pub fn moment(seconds: u64) -> Option<String> {
    let moment = i64::try_from(seconds).ok();
    let moment = moment.and_then(|seconds| Timestamp::from_second(seconds).ok())?;
    let here = moment.to_zoned(TimeZone::system());
    Some(here.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
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
        assert_eq!(
            (span(0.35), span(125.4), span(11_529.0)),
            ("350 ms".into(), "2m 5s".into(), "3h 12m".into())
        );
        let moment = moment(1_800_000_000).unwrap();
        assert!(
            moment.starts_with("2027-01-1") && moment.len() == 25,
            "{moment}"
        );
        assert_eq!(super::moment(u64::MAX), None);
    }
}
