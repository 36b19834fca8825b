//! The schedule of checkpoints as the coordinator and the agent use it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coordinator::schedule::{Last, Plan};
use job_spec::{Schedule, Then};
use loader::RequestSource;

/// Schedule for the coordinator of a job that starts at `now`.
pub fn plan(schedule: &Schedule, now: SystemTime) -> Plan {
    let last = schedule.last.map(|last| {
        let at = UNIX_EPOCH + Duration::from_secs(last.at);
        Last {
            after: at.duration_since(now).unwrap_or_default(),
            stop: last.then == Then::Stop,
        }
    });
    Plan {
        interval: schedule.interval,
        memory: schedule.memory.map(Duration::from_secs),
        last,
    }
}

/// Whether a job ends with a checkpoint that is requested in this way.
pub fn ends_with(schedule: &Schedule, asked: RequestSource) -> bool {
    let mut signals = schedule.signals.iter();
    let request = signals.find(|request| asked == RequestSource::BySignal(request.signal));
    request.is_some_and(|request| request.then == Then::Stop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use job_spec::{LastCheckpoint, SignalRequest};

    #[test]
    fn a_signal_may_end_the_job() {
        let schedule = Schedule {
            signals: vec![
                SignalRequest {
                    signal: 10,
                    then: Then::GoOn,
                },
                SignalRequest {
                    signal: 15,
                    then: Then::Stop,
                },
            ],
            ..Schedule::default()
        };
        assert!(ends_with(&schedule, RequestSource::BySignal(15)));
        assert!(!ends_with(&schedule, RequestSource::BySignal(10)));
        assert!(!ends_with(&schedule, RequestSource::ByProgram));
    }

    #[test]
    fn a_time_that_is_past_is_now() {
        let schedule = Schedule {
            last: Some(LastCheckpoint {
                at: 100,
                then: Then::Stop,
            }),
            ..Schedule::default()
        };
        let after = |now| {
            let plan = plan(&schedule, UNIX_EPOCH + Duration::from_secs(now));
            plan.last.map(|last| last.after.as_secs())
        };
        assert_eq!((after(40), after(200)), (Some(60), Some(0)));
    }
}
