//! The flags that schedule checkpoints, and the [`Schedule`] that the lower half gets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{bail, Result};
use job_spec::{LastCheckpoint, SignalRequest, Then};
use launcher::allocation;

use crate::args::Schedule;

/// Value of `--interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// Fixed, in seconds.
    Seconds(u64),
    /// The interval with the least loss, from the cost of a checkpoint and the time between failures.
    Auto,
}

/// Default of `--mtbf`: one day, in seconds.
const MTBF: u64 = 86_400;

/// Parses [`Schedule::interval`].
pub fn interval(text: &str) -> Result<Interval, String> {
    match text {
        "auto" => Ok(Interval::Auto),
        text => Ok(Interval::Seconds(seconds(text)?)),
    }
}

/// Parses a time in seconds, or with its unit: `90`, `90s`, `30m`, `12h`, `7d`.
pub fn seconds(text: &str) -> Result<u64, String> {
    duration(text, 1)
}

/// Parses `--patience`.
pub fn patience(text: &str) -> Result<u32, String> {
    u32::try_from(seconds(text)?).map_err(|_| "expected at most 136 years".to_owned())
}

/// Parses a time in minutes, or with its unit.
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
    seconds.ok_or_else(|| "expected a positive duration such as 90, 90s, 30m, 12h or 7d".to_owned())
}

/// Parses a time in seconds, which may have a fraction.
pub fn fraction(text: &str) -> Result<std::time::Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds >= 0.01);
    let time = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| "expected seconds, such as 3 or 0.25, and at least 0.01".to_owned())
}

/// A signal that can request checkpoints, and whether it ends the job by default. The other signals are faults,
/// cannot be caught, or are sent by terminals and the kernel for other purposes.
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

/// Names of the signals that can request checkpoints.
pub fn signals() -> impl Iterator<Item = &'static str> {
    SIGNALS.iter().map(|signal| signal.name)
}

/// Parses [`Schedule::signal`]: `USR1` or `SIGUSR1`.
pub fn signal(text: &str) -> Result<Signal, String> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let found = SIGNALS.iter().find(|signal| signal.name == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = signals().collect();
        format!("expected one of {}", names.join(", "))
    })
}

impl Schedule {
    /// Whether checkpoints are kept in memory.
    pub fn in_memory(&self) -> bool {
        self.memory_interval.is_some()
    }

    /// The schedule for the lower half.
    pub fn spec(&self) -> Result<job_spec::Schedule> {
        let interval = self.interval.map(|interval| match interval {
            Interval::Seconds(seconds) => job_spec::Interval::Seconds(seconds),
            Interval::Auto => job_spec::Interval::Mtbf(self.mtbf.unwrap_or(MTBF)),
        });
        let signals = self.signal.iter().map(|signal| SignalRequest {
            signal: signal.number,
            then: self.then(signal.ends),
        });
        Ok(job_spec::Schedule {
            interval,
            memory: self.memory_interval,
            last: self.last()?,
            signals: signals.collect(),
        })
    }

    /// The checkpoint before the end. Only the first rank gets one, so that one rank queries Slurm.
    fn last(&self) -> Result<Option<LastCheckpoint>> {
        let Some(margin) = self.before_end.filter(|_| launcher::is_first()) else {
            return Ok(None);
        };
        let last = |left: Duration| {
            let at = SystemTime::now() + left.saturating_sub(Duration::from_secs(margin));
            LastCheckpoint {
                at: at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
                then: self.then(true),
            }
        };
        Ok(self.time_left()?.map(last))
    }

    /// Remaining time of the job; none without a limit.
    fn time_left(&self) -> Result<Option<Duration>> {
        if let Some(limit) = self.time_limit {
            return Ok(Some(Duration::from_secs(limit)));
        }
        match allocation::time_left() {
            Ok(left) => Ok(left),
            Err(why) => bail!(
                "--before-end needs the end of the allocation, which is unknown: {why}. Pass --time-limit, or drop \
                 --before-end"
            ),
        }
    }

    fn then(&self, ends: bool) -> Then {
        self.then
            .unwrap_or(if ends { Then::Stop } else { Then::GoOn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::tests::spec;

    fn schedule(flags: &[&str]) -> Option<job_spec::Schedule> {
        Some(spec(flags)?.schedule)
    }

    #[test]
    fn intervals_take_units() {
        let interval = |flags: &[&str]| schedule(flags).unwrap().interval.unwrap();
        for (flag, seconds) in [
            ("90", 90),
            ("90s", 90),
            ("30m", 1800),
            ("12h", 43_200),
            ("7d", 604_800),
        ] {
            let told = job_spec::Interval::Seconds(seconds);
            assert_eq!(interval(&["-i", flag]), told, "{flag}");
        }
        for wrong in ["0", "-1", "1.5", "m", "1w", "1 h", "", "99999999999999999d"] {
            assert_eq!(schedule(&["-i", wrong]), None, "{wrong}");
        }
        let mtbf = job_spec::Interval::Mtbf;
        assert_eq!(interval(&["-i", "auto"]), mtbf(86_400));
        assert_eq!(interval(&["-i", "auto", "--mtbf", "6h"]), mtbf(21_600));
    }

    #[test]
    fn terminating_signals_end_the_job() {
        let signals = |flags: &[&str]| {
            let signals = schedule(flags).unwrap().signals;
            let pairs = signals.iter().map(|request| (request.signal, request.then));
            pairs.collect::<Vec<_>>()
        };
        let told = signals(&["--signal", "USR1,SIGTERM"]);
        assert_eq!(told, [(10, Then::GoOn), (15, Then::Stop)]);
        let told = signals(&["--signal", "USR1,TERM", "--then", "stop"]);
        assert_eq!(told, [(10, Then::Stop), (15, Then::Stop)]);
        let told = signals(&["--signal", "TERM", "--then", "go-on"]);
        assert_eq!(told, [(15, Then::GoOn)]);
        for wrong in ["KILL", "SEGV", "10", "usr1", ""] {
            assert_eq!(schedule(&["--signal", wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn the_last_checkpoint_precedes_the_time_limit() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let told = schedule(&["--before-end", "10", "--time-limit", "2h"]).unwrap();
        let last = told.last.unwrap();
        let after = last.at - now.as_secs();
        assert!((6600..6660).contains(&after), "{after}");
        assert_eq!(last.then, Then::Stop);
    }
}
