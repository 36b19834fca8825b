//! The content of a record, in numbers.

use std::collections::{BTreeMap, BTreeSet};

use contract::record::Call;

use crate::event::Event;
use crate::log::{Events, Log};
use crate::table;

/// The content of the record of a rank.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Calls, without tests and probes that found nothing.
    pub calls: u64,
    /// Tests and probes that found nothing.
    pub misses: u64,
    /// Receives with wildcards that got a message.
    pub wildcards: u64,
    /// How many messages such receives and probes got from each source.
    pub sources: BTreeMap<i32, u64>,
    /// How often such a receive or probe got a message of another source than the one before: the places at which
    /// another run may differ.
    pub races: u64,
    /// Probes that found a message.
    pub probes: u64,
    /// Outcomes of calls that choose among several operations.
    pub choices: u64,
    /// Cancelled receives.
    pub cancelled: u64,
    /// Digests.
    pub digests: u64,
    /// Threads that called MPI.
    pub threads: BTreeSet<u32>,
    /// Checkpoints that were taken.
    pub marks: Vec<u64>,
    /// Bytes of events.
    pub bytes: u64,
    /// Bytes behind the last event that can be read: a damaged tail.
    pub damaged: u64,
    /// The last call.
    pub last: Option<Call>,
}

impl Summary {
    /// Reads a whole record.
    pub fn of(log: &Log) -> Summary {
        let mut summary = Summary {
            bytes: log.bytes().len() as u64,
            ..Summary::default()
        };
        let mut table = table::empty();
        let mut events = Events::from(log.bytes(), 0);
        let mut before = None;
        let mut thread = 0;
        for (_, event) in events.by_ref() {
            if let Some(call) = table::read(&mut table, &event) {
                summary.calls += 1;
                summary.threads.insert(thread);
                summary.last = Some(call);
            }
            match event {
                Event::Bound { source, .. } => {
                    summary.wildcards += 1;
                    summary.got(source, &mut before);
                }
                Event::Found { source, .. } => {
                    summary.probes += 1;
                    summary.got(source, &mut before);
                }
                Event::Misses(number) => summary.misses += u64::from(number),
                Event::Index(_) | Event::Some(_) => summary.choices += 1,
                Event::Cancelled { .. } => summary.cancelled += 1,
                Event::Digest { .. } => summary.digests += 1,
                Event::Mark(set) => summary.marks.push(set),
                Event::Thread(number) => thread = number,
                Event::Anew => thread = 0,
                Event::Call(_) | Event::NewCall(..) => {}
            }
        }
        summary.damaged = summary.bytes - events.at as u64;
        summary
    }

    fn got(&mut self, source: i32, before: &mut Option<i32>) {
        *self.sources.entry(source).or_default() += 1;
        let last = before.replace(source);
        self.races += u64::from(last.is_some_and(|last| last != source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::log_of;

    #[test]
    fn everything_is_counted() {
        let bound = |posting, source| Event::Bound {
            posting,
            source,
            tag: 1,
        };
        let call = Call {
            function: 9,
            ..Call::default()
        };
        let (_dir, log) = log_of(&[
            Event::NewCall(0, call),
            bound(1, 2),
            bound(2, 2),
            bound(3, 0),
            Event::Misses(5),
            Event::Index(0),
            Event::Mark(3),
            Event::Thread(2),
            Event::Call(0),
        ]);
        let summary = Summary::of(&log);
        assert_eq!((summary.calls, summary.wildcards, summary.races), (2, 3, 1));
        assert_eq!(summary.threads, BTreeSet::from([0, 2]));
        assert_eq!((summary.misses, summary.choices), (5, 1));
        assert_eq!(summary.sources, BTreeMap::from([(0, 1), (2, 2)]));
        assert_eq!((summary.marks, summary.damaged), (vec![3], 0));
        assert_eq!(summary.last, Some(call));
    }
}
