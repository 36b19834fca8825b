//! When checkpoints are taken that no command asks for: what is meant by the flags for it, and what the
//! lower half is told.

use std::ffi::OsString;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{bail, Result};
use clap::ValueEnum;
use launcher::allocation;

use crate::arguments::Schedule;

/// What follows a checkpoint that a signal or the end of the job's time asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Then {
    /// The job ends
    Stop,
    /// The job goes on
    GoOn,
}

/// From one checkpoint to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// So many seconds.
    Seconds(u64),
    /// What follows from the cost of a checkpoint and the time between failures.
    Auto,
}

/// Between failures of the job, where nobody says: a day.
const MTBF: u64 = 86_400;

/// For [`Schedule::interval`].
pub fn interval(text: &str) -> Result<Interval, String> {
    match text {
        "auto" => Ok(Interval::Auto),
        text => Ok(Interval::Seconds(seconds(text)?)),
    }
}

/// A time in seconds, or with its unit: `90`, `90s`, `30m`, `12h`, `7d`.
pub fn seconds(text: &str) -> Result<u64, String> {
    duration(text, 1)
}

/// A time in minutes, or with its unit.
pub fn minutes(text: &str) -> Result<u64, String> {
    duration(text, 60)
}

fn duration(text: &str, default_unit: u64) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => Some(default_unit),
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        _ => None,
    };
    let number = digits.parse::<u64>().ok().filter(|number| *number > 0);
    let seconds = number.zip(unit).and_then(|(n, unit)| n.checked_mul(unit));
    seconds
        .ok_or_else(|| "it must be like 90, 90s, 30m, 12h or 7d, and more than nothing".to_owned())
}

/// A signal that can ask for checkpoints, and whether it asks for the end of the job when nothing else
/// is said. Those that are not here are faults, cannot be caught, or are sent by terminals and kernels
/// for reasons of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    name: &'static str,
    number: i32,
    ends: bool,
}

const SIGNALS: [Signal; 7] = [
    Signal::new("USR1", libc::SIGUSR1, false),
    Signal::new("USR2", libc::SIGUSR2, false),
    Signal::new("TERM", libc::SIGTERM, true),
    Signal::new("INT", libc::SIGINT, true),
    Signal::new("QUIT", libc::SIGQUIT, true),
    Signal::new("HUP", libc::SIGHUP, true),
    Signal::new("XCPU", libc::SIGXCPU, true),
];

impl Signal {
    const fn new(name: &'static str, number: i32, ends: bool) -> Signal {
        Signal { name, number, ends }
    }
}

/// For [`Schedule::signal`]: `USR1` or `SIGUSR1`.
pub fn signal(text: &str) -> Result<Signal, String> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let found = SIGNALS.iter().find(|signal| signal.name == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = SIGNALS.iter().map(|signal| signal.name).collect();
        format!("it must be one of {}", names.join(", "))
    })
}

impl Schedule {
    /// As the lower half is told.
    pub fn words(&self) -> Result<Vec<OsString>> {
        let mut words: Vec<String> = Vec::new();
        let mut add = |option: &str, value: String| words.extend([option.into(), value]);
        match self.interval {
            Some(Interval::Seconds(seconds)) => add("--interval", seconds.to_string()),
            Some(Interval::Auto) => add("--mtbf", self.mtbf.unwrap_or(MTBF).to_string()),
            None => {}
        }
        // It is the first rank that takes it, and one that asks Slurm is enough.
        if let (Some(margin), true) = (self.before_end, launcher::is_first()) {
            if let Some(left) = self.time_left()? {
                let at = SystemTime::now() + left.saturating_sub(Duration::from_secs(margin));
                let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                add("--last", format!("{at}:{}", self.then(true)));
            }
        }
        for signal in &self.signal {
            add(
                "--signal",
                format!("{}:{}", signal.number, self.then(signal.ends)),
            );
        }
        Ok(words.into_iter().map(OsString::from).collect())
    }

    /// How long the job may still run; none if for ever.
    fn time_left(&self) -> Result<Option<Duration>> {
        if let Some(limit) = self.time_limit {
            return Ok(Some(Duration::from_secs(limit)));
        }
        match allocation::time_left() {
            Ok(left) => Ok(left),
            Err(why) => bail!(
                "nothing tells when the job's time is over, so --before-end has no meaning: {why}; give \
                 --time-limit, or leave --before-end away"
            ),
        }
    }

    fn then(&self, ends: bool) -> &'static str {
        match self.then {
            Some(Then::Stop) => "stop",
            Some(Then::GoOn) => "go-on",
            None if ends => "stop",
            None => "go-on",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::tests::running;

    fn words(flags: &[&str]) -> Option<Vec<OsString>> {
        Some(running(flags)?.checkpoints.schedule.words().unwrap())
    }

    #[test]
    fn intervals_have_units() {
        for (flag, told) in [
            ("90", "90"),
            ("90s", "90"),
            ("30m", "1800"),
            ("12h", "43200"),
            ("7d", "604800"),
        ] {
            assert_eq!(
                words(&["-i", flag]).unwrap(),
                ["--interval", told],
                "{flag}"
            );
        }
        for wrong in ["0", "-1", "1.5", "m", "1w", "1 h", "", "99999999999999999d"] {
            assert_eq!(words(&["-i", wrong]), None, "{wrong}");
        }
        assert_eq!(words(&["-i", "auto"]).unwrap(), ["--mtbf", "86400"]);
        let auto = words(&["-i", "auto", "--mtbf", "6h"]).unwrap();
        assert_eq!(auto, ["--mtbf", "21600"]);
    }

    #[test]
    fn signals_that_ask_for_an_end_end_the_job() {
        let told = words(&["--signal", "USR1,SIGTERM"]).unwrap();
        let told_of = |usr1: &str, term: &str| {
            [
                "--signal".into(),
                usr1.into(),
                "--signal".into(),
                term.into(),
            ] as [OsString; 4]
        };
        assert_eq!(told[..], told_of("10:go-on", "15:stop"));
        let told = words(&["--signal", "USR1,TERM", "--then", "stop"]).unwrap();
        assert_eq!(told[..], told_of("10:stop", "15:stop"));
        for wrong in ["KILL", "SEGV", "10", "usr1", ""] {
            assert_eq!(words(&["--signal", wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn the_last_one_falls_before_the_end() {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let told = words(&["--before-end", "10", "--time-limit", "2h"]).unwrap();
        let (at, then) = told[1].to_str().unwrap().split_once(':').unwrap();
        let after = at.parse::<u64>().unwrap() - now;
        assert!((6600..6660).contains(&after), "{after}");
        assert_eq!((told[0].to_str(), then), (Some("--last"), "stop"));
    }
}
