//! The replay of a rank's record: answers from it in the order in which the run asks.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use contract::record::{Call, CallTable, Outcome, Turn};
use serde::{Deserialize, Serialize};

use crate::divergence::{Divergence, Doing};
use crate::event::Event;
use crate::log::{Events, Log};
use crate::table;

/// Calls before a divergence that are told.
const BEFORE: usize = 12;
/// Steps of the recorded run after it that are told.
const AFTER: usize = 3;

/// A place in a record. An image of a run that is recorded or replayed holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Id of the record.
    pub id: [u8; 16],
    /// Offset of an event.
    pub offset: u64,
    /// How many of the misses that begin there are over.
    pub misses: u32,
}

/// A place in a record of calls, with what a replay has read before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The next event.
    pub position: Position,
    /// Threads that have misses left, and how many, where the next event is behind these. Sorted by thread.
    pub left: Vec<(u32, u32)>,
    /// Threads of the replayed run that have ended. Sorted.
    pub ended: Vec<u32>,
}

impl From<Position> for Place {
    fn from(position: Position) -> Place {
        Place {
            position,
            left: Vec::new(),
            ended: Vec::new(),
        }
    }
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The message that a probe found.
    Found(i32, i32),
    /// An index, or how many follow.
    Number(i32),
    /// A test or probe finds nothing.
    Miss,
    /// The record ends here.
    Ended,
}

/// The fate of a posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It got a message of this source with this tag.
    To(i32, i32),
    /// It was cancelled.
    Cancelled,
}

/// The fate of receives, read ahead of the calls.
struct Ahead {
    at: usize,
    bound: HashMap<u64, Bound>,
}

impl Ahead {
    /// Reads on until `found` is true of what has been read, or to the end.
    fn until(&mut self, bytes: &[u8], found: impl Fn(&Ahead) -> bool) {
        while !found(self) {
            let mut events = Events::from(bytes, self.at);
            let Some((_, event)) = events.next() else {
                return;
            };
            self.at = events.at;
            match event {
                Event::Bound {
                    posting,
                    source,
                    tag,
                } => drop(self.bound.insert(posting, Bound::To(source, tag))),
                Event::Cancelled { posting } => {
                    self.bound.insert(posting, Bound::Cancelled);
                }
                _ => {}
            }
        }
    }
}

/// Tests and probes in a row that may find nothing where the recorded run did something else. A program that polls for
/// something outside of MPI does so at other moments in each run.
const MORE_MISSES: u64 = if cfg!(test) { 100 } else { 1 << 22 };

/// A record that is replayed.
pub struct Replay {
    log: Log,
    table: Box<CallTable>,
    /// Offset of the next event.
    at: usize,
    /// How many of the misses there are over.
    misses: u32,
    /// The thread whose events follow.
    thread: u32,
    /// Misses of threads that are left, where the next event is behind them.
    left: BTreeMap<u32, u32>,
    /// Threads that have ended.
    ended: BTreeSet<u32>,
    /// Misses in a row that the recorded run did not have.
    more_misses: u64,
    calls: u64,
    last: VecDeque<Call>,
    ahead: Ahead,
}

impl Replay {
    /// Begins with the first event.
    pub fn begin(log: Log) -> Replay {
        Replay {
            log,
            table: table::empty(),
            at: 0,
            misses: 0,
            thread: 0,
            left: BTreeMap::new(),
            ended: BTreeSet::new(),
            more_misses: 0,
            calls: 0,
            last: VecDeque::new(),
            ahead: Ahead {
                at: 0,
                bound: HashMap::new(),
            },
        }
    }

    /// Begins at a place, which lies in this record.
    pub fn begin_at(log: Log, place: &Place) -> Replay {
        let mut replay = Replay::begin(log);
        let offset = usize::try_from(place.position.offset).unwrap_or(usize::MAX);
        while replay.at < offset {
            let mut events = Events::from(replay.log.bytes(), replay.at);
            let Some((_, event)) = events.next() else {
                break;
            };
            replay.at = events.at;
            replay.passes(&event);
            if let Some(call) = table::read(&mut replay.table, &event) {
                replay.made(call);
            }
        }
        replay.misses = place.position.misses;
        replay.left = place.left.iter().copied().collect();
        replay.ended = place.ended.iter().copied().collect();
        replay.ahead.at = replay.at;
        replay
    }

    /// Where the run is.
    pub fn place(&self) -> Place {
        let left = self.left.iter().map(|(thread, left)| (*thread, *left));
        Place {
            position: Position {
                id: self.log.header.id,
                offset: self.at as u64,
                misses: self.misses,
            },
            left: left.filter(|(_, left)| *left > 0).collect(),
            ended: self.ended.iter().copied().collect(),
        }
    }

    /// A thread of this run ends.
    pub fn ends(&mut self, thread: u32) {
        self.ended.insert(thread);
    }

    /// The record.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Whether it has a cancelled receive.
    pub fn has_cancels(&self) -> bool {
        let mut events = Events::from(self.log.bytes(), self.at);
        events.any(|(_, event)| matches!(event, Event::Cancelled { .. }))
    }

    /// Whether several threads made its calls.
    pub fn has_threads(&self) -> bool {
        let mut events = Events::from(self.log.bytes(), 0);
        events.any(|(_, event)| matches!(event, Event::Thread(_)))
    }

    /// Whether it is the turn of a thread to ask for an event. `looks` is whether it asks for the outcome of a test or
    /// probe. The misses of other threads do not keep it waiting.
    ///
    /// # Errors
    /// The turn is that of a thread that has ended.
    pub fn turn(&mut self, thread: u32, looks: bool) -> Result<Turn, Divergence> {
        let is_mine = loop {
            match self.next() {
                None => break true,
                Some((Event::Misses(number), after)) if self.thread != thread => {
                    let left = self.left.entry(self.thread).or_default();
                    *left = left.saturating_add(number - self.misses);
                    (self.at, self.misses) = (after, 0);
                }
                // Counted here, since another thread may pass them before this one asks.
                Some((Event::Misses(_), _)) if looks => {
                    self.misses += 1;
                    return Ok(Turn::Miss);
                }
                // The thread has done with its tests earlier than in the recorded run.
                Some((Event::Misses(_), after)) => {
                    (self.at, self.misses) = (after, 0);
                }
                Some(_) => break self.thread == thread,
            }
        };
        match self.left.get_mut(&thread) {
            Some(left) if looks && *left > 0 => {
                *left -= 1;
                return Ok(Turn::Miss);
            }
            Some(left) => *left = 0,
            None => {}
        }
        match is_mine {
            true => Ok(Turn::Now),
            false if self.ended.contains(&self.thread) => {
                Err(self.divergence(Doing::End(self.thread)))
            }
            false => Ok(Turn::Later),
        }
    }

    /// The thread that makes the events behind this one.
    fn passes(&mut self, event: &Event) {
        match event {
            Event::Thread(number) => self.thread = *number,
            Event::Anew => self.thread = 0,
            _ => {}
        }
    }

    fn made(&mut self, call: Call) {
        self.more_misses = 0;
        self.calls += 1;
        if self.last.len() == BEFORE {
            self.last.pop_front();
        }
        self.last.push_back(call);
    }

    /// The next ordered event, and the offset behind it. `at` moves to it.
    fn next(&mut self) -> Option<(Event, usize)> {
        loop {
            let mut events = Events::from(self.log.bytes(), self.at);
            let (_, event) = events.next()?;
            let after = events.at;
            match event {
                Event::Misses(number) if number <= self.misses => self.misses = 0,
                Event::Anew | Event::Thread(_) => {
                    table::read(&mut self.table, &event);
                    self.passes(&event);
                }
                Event::Bound { .. } | Event::Cancelled { .. } | Event::Mark(_) => {}
                _ => return Some((event, after)),
            }
            self.at = after;
        }
    }

    /// The next ordered event that is no miss.
    fn next_but_misses(&mut self) -> Option<(Event, usize)> {
        loop {
            let (event, after) = self.next()?;
            let Event::Misses(_) = event else {
                return Some((event, after));
            };
            (self.at, self.misses) = (after, 0);
        }
    }

    /// The next event, and the offset behind it, if it is this call. `Err` where it is something else, `None` where the
    /// record ends.
    fn next_if(&mut self, call: &Call) -> Option<Result<(Event, usize), ()>> {
        let (event, after) = self.next_but_misses()?;
        let recorded = match event {
            Event::NewCall(_, recorded) => Some(recorded),
            Event::Call(_) => table::read(&mut self.table, &event),
            _ => None,
        };
        let is_it = recorded.as_ref() == Some(call);
        Some(is_it.then_some((event, after)).ok_or(()))
    }

    /// The run makes a call. False where the record ends.
    ///
    /// # Errors
    /// The run makes another call than the recorded one.
    pub fn call(&mut self, call: &Call) -> Result<bool, Divergence> {
        match self.next_if(call) {
            None => Ok(false),
            Some(Err(())) => Err(self.divergence(Doing::Call(*call))),
            Some(Ok((event, after))) => {
                table::read(&mut self.table, &event);
                self.at = after;
                self.made(*call);
                Ok(true)
            }
        }
    }

    /// The outcome of a call. `call` is that call where it is written only if it finds something.
    ///
    /// # Errors
    /// The record has something else than an outcome of this kind there.
    pub fn outcome(&mut self, call: Option<&Call>, what: Outcome) -> Result<Answer, Divergence> {
        if let Some(call) = call {
            match self.next() {
                Some((Event::Misses(_), _)) => {
                    self.misses += 1;
                    return Ok(Answer::Miss);
                }
                None => return Ok(Answer::Ended),
                Some(_) => {}
            }
            if self.more_misses < MORE_MISSES && self.next_if(call) == Some(Err(())) {
                self.more_misses += 1;
                return Ok(Answer::Miss);
            }
            if !self.call(call)? {
                return Ok(Answer::Ended);
            }
        }
        let Some((event, after)) = self.next() else {
            return Ok(Answer::Ended);
        };
        let answer = match (what, event) {
            (Outcome::Found, Event::Found { source, tag }) => Answer::Found(source, tag),
            (Outcome::Index, Event::Index(number)) | (Outcome::Some, Event::Some(number)) => {
                Answer::Number(number)
            }
            _ => {
                let asked = match what {
                    Outcome::Found => Event::Found {
                        source: -1,
                        tag: -1,
                    },
                    Outcome::Index => Event::Index(-1),
                    Outcome::Some => Event::Some(-1),
                };
                return Err(self.divergence(Doing::Outcome(asked)));
            }
        };
        self.at = after;
        Ok(answer)
    }

    /// Whether the record has nothing behind the last call. So that call had no effect that is known.
    pub fn is_over(&self) -> bool {
        let mut events = Events::from(self.log.bytes(), self.at);
        events.all(|(_, event)| matches!(event, Event::Mark(_)))
    }

    /// The fate of a posted receive, if the record has it.
    pub fn binding(&mut self, posting: u64) -> Option<Bound> {
        let found = |ahead: &Ahead| ahead.bound.contains_key(&posting);
        self.ahead.until(self.log.bytes(), found);
        self.ahead.bound.remove(&posting)
    }

    /// The last call sends data with this digest, or has received it. The result is the difference if the record has
    /// another one.
    ///
    /// # Errors
    /// The record has something else than a digest there.
    pub fn digest(&mut self, bytes: u64, crc: u32) -> Result<Option<Divergence>, Divergence> {
        let now = |message| {
            Doing::Outcome(Event::Digest {
                bytes,
                crc,
                message,
            })
        };
        match self.next() {
            None => Ok(None),
            Some((
                Event::Digest {
                    bytes: then,
                    crc: recorded,
                    message,
                },
                after,
            )) => {
                let differs = (then, recorded) != (bytes, crc);
                let difference = differs.then(|| self.divergence(now(message)));
                self.at = after;
                Ok(difference)
            }
            Some(_) => Err(self.divergence(now(None))),
        }
    }

    fn divergence(&self, now: Doing) -> Divergence {
        let mut table = self.table.clone();
        let events = Events::from(self.log.bytes(), self.at).filter_map(|(_, event)| {
            match (table::read(&mut table, &event), event) {
                (Some(call), _) => Some(Doing::Call(call)),
                (
                    None,
                    Event::Misses(_)
                    | Event::Found { .. }
                    | Event::Index(_)
                    | Event::Some(_)
                    | Event::Digest { .. },
                ) => Some(Doing::Outcome(event)),
                _ => None,
            }
        });
        Divergence {
            number: self.calls + 1,
            before: self.last.iter().copied().collect(),
            recorded: events.take(AFTER).collect(),
            now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::log_of;

    /// Events of the initial thread and thread 1, whose tests find nothing meanwhile.
    #[test]
    fn a_thread_waits_for_its_turn_but_not_for_the_tests_of_others() {
        let call = |function| Call {
            function,
            ..Call::default()
        };
        let (_dir, log) = log_of(&[
            Event::NewCall(0, call(0)),
            Event::Thread(1),
            Event::Misses(2),
            Event::Thread(0),
            Event::NewCall(1, call(1)),
            Event::Thread(1),
            Event::NewCall(2, call(2)),
            Event::Index(0),
        ]);
        let mut replay = Replay::begin(log);
        assert!(replay.has_threads());
        assert_eq!(replay.turn(1, true), Ok(Turn::Later));
        assert_eq!(replay.turn(0, false), Ok(Turn::Now));
        assert_eq!(replay.call(&call(0)), Ok(true));
        // The initial thread passes the tests of the other one, which has them left.
        assert_eq!(replay.turn(0, false), Ok(Turn::Now));
        assert_eq!(replay.turn(1, true), Ok(Turn::Miss));
        assert_eq!(replay.turn(1, true), Ok(Turn::Miss));
        assert_eq!(replay.turn(1, true), Ok(Turn::Later));
        assert_eq!(replay.call(&call(1)), Ok(true));
        assert_eq!(replay.turn(0, false), Ok(Turn::Later));
        assert_eq!(replay.turn(1, true), Ok(Turn::Now));
        let found = replay.outcome(Some(&call(2)), Outcome::Index);
        assert_eq!(found, Ok(Answer::Number(0)));
        assert_eq!(replay.turn(0, false), Ok(Turn::Now));
    }

    #[test]
    fn a_thread_that_tests_less_often_passes_its_own_tests() {
        let (_dir, log) = log_of(&[
            Event::Misses(9),
            Event::Thread(1),
            Event::NewCall(0, Call::default()),
            Event::Thread(0),
            Event::NewCall(0, Call::default()),
        ]);
        let mut replay = Replay::begin(log);
        assert_eq!(replay.turn(0, true), Ok(Turn::Miss));
        assert_eq!(replay.turn(0, false), Ok(Turn::Later));
        assert_eq!(replay.turn(1, false), Ok(Turn::Now));
        assert_eq!(replay.call(&Call::default()), Ok(true));
        assert_eq!(replay.turn(0, false), Ok(Turn::Now));
    }

    /// The initial thread has passed a test of thread 1, which a checkpoint finds before its test.
    #[test]
    fn a_place_has_the_misses_that_threads_have_left() {
        let (_dir, log) = log_of(&[
            Event::Thread(1),
            Event::Misses(2),
            Event::Thread(0),
            Event::NewCall(0, call(0)),
        ]);
        let mut replay = Replay::begin(log);
        assert_eq!(replay.turn(0, false), Ok(Turn::Now));
        assert_eq!(replay.turn(1, true), Ok(Turn::Miss));
        let place = replay.place();
        assert_eq!(place.left, [(1, 1)]);
        let mut again = Replay::begin_at(Log::open(&replay.log.path).unwrap(), &place);
        assert_eq!(again.place(), place);
        assert_eq!(again.turn(1, true), Ok(Turn::Miss));
        assert_eq!(again.turn(1, true), Ok(Turn::Later));
        assert_eq!(again.place().left, []);
    }

    #[test]
    fn a_thread_that_has_ended_keeps_no_other_waiting() {
        let (_dir, log) = log_of(&[
            Event::NewCall(0, call(0)),
            Event::Thread(1),
            Event::Misses(2),
            Event::NewCall(1, call(1)),
            Event::Thread(0),
            Event::NewCall(2, call(2)),
        ]);
        let mut replay = Replay::begin(log);
        replay.ends(2);
        replay.call(&call(0)).unwrap();
        assert_eq!(replay.turn(0, false), Ok(Turn::Later));
        replay.ends(1);
        let place = replay.place();
        let again = Replay::begin_at(Log::open(&replay.log.path).unwrap(), &place);
        for mut replay in [replay, again] {
            let why = replay.turn(0, false).unwrap_err();
            assert_eq!((why.number, why.before.len()), (2, 1));
            let text = why.text(|function| format!("F{function}"));
            assert!(text.contains("then recorded: F1"), "{text}");
            assert!(
                text.ends_with("but now:       thread 1, which made that call, has ended"),
                "{text}"
            );
        }
    }

    fn call(function: u32) -> Call {
        Call {
            function,
            ..Call::default()
        }
    }

    /// Two calls with outcomes, misses between them, and keyed events anywhere.
    fn replay() -> (tempfile::TempDir, Replay) {
        let mut table = table::empty();
        let (dir, log) = log_of(&[
            table::write(&mut table, &call(40)),
            Event::Bound {
                posting: 1,
                source: 3,
                tag: 4,
            },
            Event::Index(2),
            Event::Misses(2),
            Event::Mark(1),
            Event::Misses(1),
            table::write(&mut table, &call(40)),
            Event::Found { source: 5, tag: 6 },
            Event::Cancelled { posting: 2 },
        ]);
        (dir, Replay::begin(log))
    }

    #[test]
    fn a_run_gets_the_outcomes_that_were_recorded() {
        let (_dir, mut replay) = replay();
        assert_eq!(replay.binding(2), Some(Bound::Cancelled));
        assert_eq!(replay.binding(1), Some(Bound::To(3, 4)));
        assert_eq!(replay.binding(3), None);
        assert_eq!(replay.call(&call(40)), Ok(true));
        assert_eq!(replay.outcome(None, Outcome::Index), Ok(Answer::Number(2)));
        for _ in 0..3 {
            let miss = replay.outcome(Some(&call(99)), Outcome::Index);
            assert_eq!(miss, Ok(Answer::Miss));
        }
        let found = replay.outcome(Some(&call(40)), Outcome::Found);
        assert_eq!(found, Ok(Answer::Found(5, 6)));
        assert_eq!(
            replay.outcome(Some(&call(40)), Outcome::Found),
            Ok(Answer::Ended)
        );
        assert_eq!((replay.call(&call(1)), replay.calls()), (Ok(false), 2));
    }

    #[test]
    fn a_record_is_over_where_no_event_follows_but_marks() {
        let bound = Event::Bound {
            posting: 1,
            source: 0,
            tag: 0,
        };
        for (events, over) in [
            (vec![], true),
            (vec![Event::Mark(1)], true),
            (vec![bound], false),
        ] {
            let all = [vec![Event::NewCall(0, call(0))], events].concat();
            let (_dir, log) = log_of(&all);
            let mut replay = Replay::begin(log);
            assert!(!replay.is_over());
            assert_eq!(replay.call(&call(0)), Ok(true));
            assert_eq!(replay.is_over(), over, "{all:?}");
        }
    }

    #[test]
    fn the_number_of_misses_may_differ() {
        let mut table = table::empty();
        let (_dir, log) = log_of(&[
            Event::Misses(3),
            table::write(&mut table, &call(40)),
            table::write(&mut table, &call(41)),
        ]);
        let mut replay = Replay::begin(log);
        let miss = replay.outcome(Some(&call(99)), Outcome::Index);
        assert_eq!(miss, Ok(Answer::Miss));
        assert_eq!(replay.call(&call(40)), Ok(true));
        for _ in 0..MORE_MISSES {
            let miss = replay.outcome(Some(&call(99)), Outcome::Index);
            assert_eq!(miss, Ok(Answer::Miss));
        }
        assert!(replay.outcome(Some(&call(99)), Outcome::Index).is_err());
        assert_eq!(replay.call(&call(41)), Ok(true));
    }

    #[test]
    fn digests_are_compared_in_their_order() {
        let digest = |bytes, crc| Event::Digest {
            bytes,
            crc,
            message: None,
        };
        let (_dir, log) = log_of(&[digest(8, 1), digest(8, 2), Event::Index(0)]);
        let mut replay = Replay::begin(log);
        assert_eq!(replay.digest(8, 1), Ok(None));
        let why = replay.digest(8, 1).unwrap().unwrap();
        assert_eq!(why.recorded[0], Doing::Outcome(digest(8, 2)));
        assert_eq!(why.now, Doing::Outcome(digest(8, 1)));
        assert!(replay.digest(8, 1).is_err());
    }

    #[test]
    fn a_replay_goes_on_from_any_position() {
        let (_dir, mut replay) = replay();
        replay.call(&call(40)).unwrap();
        replay.outcome(None, Outcome::Index).unwrap();
        replay.outcome(Some(&call(40)), Outcome::Index).unwrap();
        let place = replay.place();
        let mut again = Replay::begin_at(Log::open(&replay.log.path).unwrap(), &place);
        assert_eq!(again.place(), place);
        for _ in 0..2 {
            let miss = again.outcome(Some(&call(40)), Outcome::Index);
            assert_eq!(miss, Ok(Answer::Miss));
        }
        let found = again.outcome(Some(&call(40)), Outcome::Found);
        assert_eq!(found, Ok(Answer::Found(5, 6)));
    }

    #[test]
    fn a_divergence_tells_both_sides() {
        let (_dir, mut replay) = replay();
        replay.call(&call(40)).unwrap();
        let why = replay.call(&call(41)).unwrap_err();
        assert_eq!((why.number, why.before.len()), (2, 1));
        let text = why.text(|function| format!("F{function}"));
        assert!(text.contains("call 1, both:  F40"), "{text}");
        assert!(
            text.contains("recorded: the operation with index 2 complete"),
            "{text}"
        );
        assert!(text.contains("but now:       F41"), "{text}");
        let why = replay.outcome(None, Outcome::Found).unwrap_err();
        assert_eq!(why.recorded.first(), Some(&Doing::Outcome(Event::Index(2))));
    }
}
