//! When checkpoints are taken that no command asks for: the options for it.

use std::ffi::{OsStr, OsString};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use coordinator::schedule::{Interval, Last, Plan};
use loader::Asked;

/// What is written for a checkpoint with which the job ends, and for one after which it goes on.
const STOP: &str = "stop";
const GO_ON: &str = "go-on";

/// When checkpoints are taken that no command asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// So often.
    pub interval: Option<Interval>,
    /// Before the end: when, in seconds since 1970, and whether the job ends with it.
    pub last: Option<(u64, bool)>,
    /// Signals that ask for one.
    pub signals: Vec<Asking>,
}

/// A signal that asks for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Its number.
    pub signal: i32,
    /// The job ends with the checkpoint.
    pub stop: bool,
}

impl Schedule {
    const INTERVAL: &'static str = "--interval";
    const MTBF: &'static str = "--mtbf";
    const LAST: &'static str = "--last";
    const SIGNAL: &'static str = "--signal";

    /// Whether it is one of these options.
    pub fn takes(&self, option: &str) -> bool {
        [Self::INTERVAL, Self::MTBF, Self::LAST, Self::SIGNAL].contains(&option)
    }

    /// Reads one of them: `--interval SECONDS`; `--mtbf SECONDS`; `--last SECONDS:stop` and
    /// `--signal NUMBER:stop`, or `go-on`.
    pub fn read(&mut self, option: &str, value: &OsStr) -> Result<()> {
        let read = value.to_str().and_then(|value| match option {
            Self::INTERVAL => {
                self.interval = Some(Interval::Fixed(seconds(value)?));
                Some(())
            }
            Self::MTBF => {
                self.interval = Some(Interval::Best(seconds(value)?));
                Some(())
            }
            Self::LAST => {
                self.last = Some(and_then(value)?);
                Some(())
            }
            _ => {
                let (signal, stop) = and_then(value)?;
                self.signals.push(Asking { signal, stop });
                Some(())
            }
        });
        read.with_context(|| format!("{option} {} cannot be understood", value.display()))
    }

    /// The options as they are written.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<String> = Vec::new();
        let mut add = |option: &str, value: String| words.extend([option.into(), value]);
        match self.interval {
            Some(Interval::Fixed(every)) => add(Self::INTERVAL, every.as_secs().to_string()),
            Some(Interval::Best(mean)) => add(Self::MTBF, mean.as_secs().to_string()),
            None => {}
        }
        let then = |stop: bool| if stop { STOP } else { GO_ON };
        if let Some((at, stop)) = self.last {
            add(Self::LAST, format!("{at}:{}", then(stop)));
        }
        for Asking { signal, stop } in &self.signals {
            add(Self::SIGNAL, format!("{signal}:{}", then(*stop)));
        }
        words.into_iter().map(OsString::from).collect()
    }

    /// For the coordinator of a job that starts at `now`.
    pub fn plan(&self, now: SystemTime) -> Plan {
        let last = self.last.map(|(at, stop)| {
            let at = UNIX_EPOCH + Duration::from_secs(at);
            let after = at.duration_since(now).unwrap_or_default();
            Last { after, stop }
        });
        Plan {
            interval: self.interval,
            last,
        }
    }

    /// Whether the job ends with the checkpoint that is asked for so.
    pub fn ends_with(&self, asked: Asked) -> bool {
        let by = |asking: &&Asking| asked == Asked::BySignal(asking.signal);
        self.signals
            .iter()
            .find(by)
            .is_some_and(|asking| asking.stop)
    }
}

fn seconds(value: &str) -> Option<Duration> {
    let seconds = value.parse().ok().filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds))
}

fn and_then<T: std::str::FromStr>(value: &str) -> Option<(T, bool)> {
    let (number, then) = value.split_once(':')?;
    let stop = match then {
        STOP => true,
        GO_ON => false,
        _ => return None,
    };
    Some((number.parse().ok()?, stop))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[OsString]) -> Result<Schedule> {
        let mut schedule = Schedule::default();
        for pair in words.chunks(2) {
            let option = pair[0].to_str().unwrap();
            assert!(schedule.takes(option));
            schedule.read(option, &pair[1])?;
        }
        Ok(schedule)
    }

    #[test]
    fn what_is_written_is_read() {
        let every = Some(Interval::Fixed(Duration::from_secs(60)));
        let best = Some(Interval::Best(Duration::from_secs(86_400)));
        for interval in [None, every, best] {
            let asking = |signal, stop| Asking { signal, stop };
            let schedule = Schedule {
                interval,
                last: Some((1_700_000_000, true)),
                signals: vec![asking(10, false), asking(15, true)],
            };
            assert_eq!(read(&schedule.words()).unwrap(), schedule);
            assert!(schedule.ends_with(Asked::BySignal(15)));
            assert!(!schedule.ends_with(Asked::BySignal(10)));
            assert!(!schedule.ends_with(Asked::ByProgram));
        }
        for wrong in ["--interval 0", "--last 5", "--signal 10:maybe", "--mtbf x"] {
            let words: Vec<OsString> = wrong.split(' ').map(OsString::from).collect();
            assert!(read(&words).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_that_is_past_is_now() {
        let schedule = Schedule {
            last: Some((100, true)),
            ..Schedule::default()
        };
        let after = |now| {
            let plan = schedule.plan(UNIX_EPOCH + Duration::from_secs(now));
            plan.last.map(|last| last.after.as_secs())
        };
        assert_eq!((after(40), after(200)), (Some(60), Some(0)));
    }
}
