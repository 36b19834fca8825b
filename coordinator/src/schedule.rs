//! Times of the checkpoints that no command requests: at an interval, before the end of the job's time, and
//! at the request of ranks. A pure state machine, which gets the time in microseconds.

use std::collections::BTreeSet;
use std::time::Duration;

use job_spec::Interval;

use crate::protocol::coordinator::Time;
use crate::protocol::messages::{Next, Report};

/// Time to the first checkpoint, whose cost determines the next.
const FIRST: Duration = Duration::from_secs(60);
/// Time to the next attempt of the checkpoint that ends the job, if it was abandoned.
const AGAIN: Duration = Duration::from_secs(60);
/// Time to the first repetition of a checkpoint that stuck ranks have prevented. Each further one waits twice as long
/// as the one before.
const SOON: Duration = Duration::from_secs(10);
/// Longest time to such a repetition.
const SELDOM: Duration = Duration::from_secs(600);
/// The same if the job is to end with the checkpoint: its time may be nearly over.
const SELDOM_AT_END: Duration = Duration::from_secs(60);
/// Time in which the requests of different ranks count as one. A launcher sends a signal to all ranks, and
/// all run the same program.
const TOGETHER: Duration = Duration::from_secs(10);

/// The checkpoint before the end of the job's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Time since the start of the job.
    pub after: Duration,
    /// Whether the job ends with it.
    pub stop: bool,
}

/// Schedule that was requested at the start of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Interval of checkpoints; none without one.
    pub interval: Option<Interval>,
    /// Interval of checkpoints in memory; none without one.
    pub memory: Option<Duration>,
    /// Checkpoint before the end, if the end is known.
    pub last: Option<Last>,
}

/// A checkpoint that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// By the interval; a checkpoint in progress serves for it.
    Interval,
    /// One in memory; any other in progress serves for it.
    Memory,
    /// Before the end of the job's time.
    Last {
        /// Whether the job ends with it.
        stop: bool,
    },
    /// One that was given up, because ranks were stuck.
    Again {
        /// Whether the job ends with it.
        stop: bool,
    },
}

/// Times of all due checkpoints.
#[derive(Debug)]
pub struct Schedule {
    interval: Option<Interval>,
    /// Time of the next by the interval; none while that checkpoint is being taken.
    due: Option<Time>,
    /// Time from the last checkpoint to the next.
    waiting: Duration,
    /// Time of the next checkpoint in memory, and the time between two of them.
    memory: Option<(Time, Duration)>,
    /// Time of the checkpoint before the end, and whether the job ends with it.
    last: Option<(Time, bool)>,
    /// Whether the job ends, if the checkpoint before the end is being taken.
    ending: Option<bool>,
    /// Whether that time is one at which it is tried again.
    last_again: bool,
    /// Time at which a checkpoint that was given up is tried again, and whether the job ends with it.
    again: Option<(Time, bool)>,
    /// Number of times in a row that one was given up because ranks were stuck.
    given_up: u32,
    /// Time of the first of several joined requests of ranks, and these ranks.
    asked: (Time, BTreeSet<u32>),
}

fn micros(duration: Duration) -> Time {
    Time::try_from(duration.as_micros()).unwrap_or(Time::MAX)
}

impl Schedule {
    /// The schedule of a job that starts at `now`.
    pub fn new(plan: Plan, now: Time) -> Self {
        let waiting = match plan.interval {
            Some(Interval::Seconds(interval)) => Duration::from_secs(interval),
            Some(Interval::Mtbf(mean)) => FIRST.min(Duration::from_secs(mean)),
            None => Duration::ZERO,
        };
        Schedule {
            interval: plan.interval,
            due: plan.interval.map(|_| now.saturating_add(micros(waiting))),
            waiting,
            memory: plan
                .memory
                .map(|every| (now.saturating_add(micros(every)), every)),
            last: plan
                .last
                .map(|last| (now.saturating_add(micros(last.after)), last.stop)),
            ending: None,
            last_again: false,
            again: None,
            given_up: 0,
            asked: (0, BTreeSet::new()),
        }
    }

    /// Time of the next checkpoint.
    pub fn next(&self) -> Option<Time> {
        let in_memory = self.memory.map(|(due, _)| due);
        self.next_written().into_iter().chain(in_memory).min()
    }

    /// Time of the next checkpoint that is written.
    fn next_written(&self) -> Option<Time> {
        let requested = [self.last, self.again].into_iter().flatten();
        let requested = requested.map(|(time, _)| time);
        self.due.into_iter().chain(requested).min()
    }

    /// The next checkpoint that is written and its reason, for the user.
    pub fn describe(&self, now: Time) -> Option<Next> {
        let next = self.next_written()?;
        let why = match (self.last, self.interval) {
            (Some((last, true)), _) if last == next => {
                "the job's time is nearly over then: it ends with this checkpoint".to_owned()
            }
            (Some((last, false)), _) if last == next => {
                "the job's time is nearly over then".to_owned()
            }
            _ if self.again.is_some_and(|(again, _)| again == next) => {
                "the last one was given up".to_owned()
            }
            (_, Some(Interval::Mtbf(_))) if self.waiting == FIRST => {
                "to measure what one costs".to_owned()
            }
            _ => format!("one every {} s", self.waiting.as_secs_f64().round()),
        };
        Some(Next {
            after: next.saturating_sub(now),
            why,
        })
    }

    /// A checkpoint that is due by now, if there is one. Called until it returns none.
    pub fn due(&mut self, now: Time) -> Option<Due> {
        if let Some((_, stop)) = self.last.take_if(|(last, _)| *last <= now) {
            self.ending = Some(stop);
            return Some(Due::Last { stop });
        }
        if let Some((_, stop)) = self.again.take_if(|(again, _)| *again <= now) {
            return Some(Due::Again { stop });
        }
        if self.due.take_if(|due| *due <= now).is_some() {
            if let Some(Interval::Seconds(_)) = self.interval {
                self.due = Some(now.saturating_add(micros(self.waiting)));
            }
            return Some(Due::Interval);
        }
        let (due, every) = self.memory.as_mut().filter(|(due, _)| *due <= now)?;
        *due = now.saturating_add(micros(*every));
        Some(Due::Memory)
    }

    /// Records the end of a checkpoint that is written, of any origin.
    pub fn over(&mut self, now: Time, report: Option<&Report>) {
        if report.is_some() {
            (self.again, self.given_up) = (None, 0);
        }
        let ending = self.ending.take();
        self.last_again |= ending.is_some() && report.is_none();
        if let (Some(stop), None) = (ending, report) {
            self.last = Some((now.saturating_add(micros(AGAIN)), stop));
        }
        let Some(Interval::Mtbf(mean)) = self.interval else {
            return;
        };
        if let Some(report) = report {
            let cost = Duration::from_micros(report.pause);
            // Images that are written while the job runs cost something too, which is not measured. So they
            // are being written for at most half of the time.
            let written = Duration::from_micros(report.total);
            self.waiting = best(cost, Duration::from_secs(mean)).max(written);
        }
        self.due = Some(now.saturating_add(micros(self.waiting)));
    }

    /// Handles the end of a checkpoint that stuck ranks have prevented, after [`Schedule::over`]. Returns the time
    /// after which it is tried again.
    pub fn again(&mut self, now: Time, stop: bool) -> Duration {
        let stop = stop || self.again.is_some_and(|(_, stop)| stop);
        let longest = if stop { SELDOM_AT_END } else { SELDOM };
        let after = SOON.saturating_mul(1 << self.given_up.min(16)).min(longest);
        self.given_up += 1;
        let again = now.saturating_add(micros(after));
        // The checkpoint before the end has its own next time already.
        if let Some((last, _)) = self.last.as_mut().filter(|_| self.last_again) {
            *last = again.min(*last);
            return after;
        }
        self.again = Some((again, stop));
        after
    }

    /// Handles a request of a rank. Returns whether it is separate from the recent requests of other ranks.
    pub fn asks(&mut self, now: Time, rank: u32) -> bool {
        let (since, ranks) = &mut self.asked;
        let together = !ranks.is_empty() && now.saturating_sub(*since) < micros(TOGETHER);
        if together && ranks.insert(rank) {
            return false;
        }
        self.asked = (now, BTreeSet::from([rank]));
        true
    }
}

/// The time from the end of one checkpoint to the start of the next that loses the least time, for a
/// checkpoint of cost `cost`. It is equation 37 of J. T. Daly, "A higher order estimate of the optimum
/// checkpoint interval for restart dumps" (2006).
fn best(cost: Duration, between_failures: Duration) -> Duration {
    let (cost, mean) = (cost.as_secs_f64(), between_failures.as_secs_f64());
    if cost >= 2.0 * mean {
        return between_failures;
    }
    let share = cost / (2.0 * mean);
    let work = (2.0 * cost * mean).sqrt() * (1.0 + share.sqrt() / 3.0 + share / 9.0) - cost;
    Duration::from_secs_f64(work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::messages::{Level, Times};

    const SECOND: Time = 1_000_000;
    const DAY: Duration = Duration::from_secs(86_400);

    fn report(pause: Time, total: Time) -> Report {
        Report {
            set: "ckpt-1".into(),
            increment_of: None,
            bytes: 0,
            memory: 0,
            total,
            approach: 0,
            pause,
            slowest: Times::default(),
            stood: None,
            level: Level::Shared,
            stop: false,
            asked_by: Vec::new(),
            since_cut: 0,
        }
    }

    fn every(interval: Interval) -> Schedule {
        let plan = Plan {
            interval: Some(interval),
            ..Plan::default()
        };
        Schedule::new(plan, 0)
    }

    /// Calculated by hand: sqrt(2 * 300 * 86400) = 7200. The root of the share is 1/24, so the result is 1
    /// + 1/72 + 1/5184 times that, less 300.
    #[test]
    fn the_formula_gives_the_values_of_the_paper() {
        let found = best(Duration::from_secs(300), DAY).as_secs_f64();
        assert!((found - 7_001.388_889).abs() < 1e-3, "{found}");
        let rare = best(2 * DAY, DAY);
        assert_eq!(rare, DAY, "longer than the job lasts: as rare as failures");
    }

    /// Lost time of a job whose work equals the mean time between failures, by Daly's equation 20.
    fn lost(interval: Duration, cost: Duration, mean: Duration) -> f64 {
        let (interval, cost, mean) = (
            interval.as_secs_f64(),
            cost.as_secs_f64(),
            mean.as_secs_f64(),
        );
        mean * (((interval + cost) / mean).exp() - 1.0) / interval
    }

    #[test]
    fn neither_shorter_nor_longer_intervals_lose_less() {
        for (cost, mean) in [(1, 3600), (30, 86_400), (300, 86_400), (600, 3600)] {
            let (cost, mean) = (Duration::from_secs(cost), Duration::from_secs(mean));
            let found = best(cost, mean);
            let least = lost(found, cost, mean);
            for other in [found.mul_f64(0.9), found.mul_f64(1.1)] {
                assert!(
                    lost(other, cost, mean) > least,
                    "{cost:?} {mean:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn the_interval_follows_from_the_last_cost() {
        let mut schedule = every(Interval::Mtbf(DAY.as_secs()));
        assert_eq!(schedule.next(), Some(60 * SECOND));
        assert_eq!(schedule.due(60 * SECOND), Some(Due::Interval));
        assert_eq!((schedule.next(), schedule.due(61 * SECOND)), (None, None));
        schedule.over(100 * SECOND, Some(&report(300 * SECOND, 400 * SECOND)));
        let next = schedule.next().unwrap();
        assert_eq!(next / SECOND, 100 + 7001);
        // A requested checkpoint counts as well; an abandoned one gives no cost.
        schedule.over(200 * SECOND, None);
        assert_eq!(schedule.next().unwrap() / SECOND, 200 + 7001);
        schedule.over(300 * SECOND, Some(&report(0, 500 * SECOND)));
        assert_eq!(
            schedule.next(),
            Some(800 * SECOND),
            "not written all the time"
        );
    }

    #[test]
    fn a_fixed_interval_stays() {
        let mut schedule = every(Interval::Seconds(10));
        assert_eq!(schedule.due(10 * SECOND - 1), None);
        assert_eq!(schedule.due(10 * SECOND), Some(Due::Interval));
        schedule.over(13 * SECOND, Some(&report(SECOND, SECOND)));
        assert_eq!(schedule.next(), Some(20 * SECOND));
        let told = schedule.describe(13 * SECOND).unwrap();
        assert_eq!((told.after, &*told.why), (7 * SECOND, "one every 10 s"));
    }

    #[test]
    fn those_in_memory_come_between_those_that_are_written() {
        let plan = Plan {
            interval: Some(Interval::Seconds(10)),
            memory: Some(Duration::from_secs(4)),
            last: None,
        };
        let mut schedule = Schedule::new(plan, 0);
        let mut taken = Vec::new();
        while let Some(now) = schedule.next().filter(|now| *now <= 20 * SECOND) {
            let due = schedule.due(now).unwrap();
            taken.push((now / SECOND, due));
        }
        let (memory, interval) = (Due::Memory, Due::Interval);
        let wanted = [4, 8, 10, 12, 16, 20, 20].into_iter();
        let dues = [memory, memory, interval, memory, memory, interval, memory];
        assert_eq!(taken, wanted.zip(dues).collect::<Vec<_>>());
        let told = schedule.describe(20 * SECOND).unwrap();
        assert_eq!((told.after, &*told.why), (10 * SECOND, "one every 10 s"));
    }

    #[test]
    fn the_last_one_is_tried_until_it_succeeds() {
        let last = Last {
            after: Duration::from_secs(100),
            stop: true,
        };
        let plan = Plan {
            last: Some(last),
            ..Plan::default()
        };
        let mut schedule = Schedule::new(plan, 0);
        assert_eq!(schedule.due(99 * SECOND), None);
        // An earlier failure does not affect it.
        schedule.over(99 * SECOND, None);
        assert_eq!(schedule.next(), Some(100 * SECOND));
        let due = Some(Due::Last { stop: true });
        assert_eq!(schedule.due(100 * SECOND), due);
        schedule.over(101 * SECOND, None);
        assert_eq!(schedule.due(160 * SECOND), None);
        assert_eq!(schedule.due(161 * SECOND), due);
        schedule.over(162 * SECOND, Some(&report(SECOND, SECOND)));
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn what_stuck_ranks_prevent_is_tried_again_more_and_more_seldom() {
        let mut schedule = every(Interval::Seconds(3600));
        let mut now = 0;
        for wanted in [10, 20, 40, 80, 160, 320, 600, 600] {
            schedule.over(now, None);
            let after = schedule.again(now, false);
            assert_eq!(after.as_secs(), wanted);
            assert_eq!(schedule.due(now + micros(after) - 1), None);
            let told = schedule.describe(now).unwrap();
            assert_eq!(
                (told.after, &*told.why),
                (micros(after), "the last one was given up")
            );
            now += micros(after);
            assert_eq!(schedule.due(now), Some(Due::Again { stop: false }));
        }
        assert_eq!(schedule.again(now, true).as_secs(), 60, "the job is to end");
        assert_eq!(
            schedule.due(now + 60 * SECOND),
            Some(Due::Again { stop: true })
        );
        schedule.over(now, Some(&report(SECOND, SECOND)));
        assert_eq!(
            schedule.next(),
            Some(3600 * SECOND),
            "it was tried often enough"
        );
        assert_eq!(schedule.again(now, false).as_secs(), 10, "a new obstacle");
        schedule.over(now, Some(&report(SECOND, SECOND)));
        assert_eq!(
            schedule.next(),
            Some(3600 * SECOND),
            "another one served for it"
        );
    }

    #[test]
    fn joined_requests_of_ranks_count_once() {
        let mut schedule = Schedule::new(Plan::default(), 0);
        assert!(schedule.asks(0, 0), "even at the very start");
        assert!(!schedule.asks(5, 1));
        assert!(schedule.asks(6, 1), "the same rank again is another one");
        assert!(!schedule.asks(7, 0));
        assert!(schedule.asks(20 * SECOND, 2), "so is a later one");
    }
}
