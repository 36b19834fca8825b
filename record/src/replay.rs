//! The replay of a rank's record: answers from it in the order in which the run asks.
//!
//! Each thread makes its own events in their order. Those over one communicator have one order among all threads,
//! because messages are matched there. Events of different threads over different communicators have none: a thread
//! that waits for another process keeps nobody waiting who has nothing to do with that.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use contract::record::{Call, CallTable, Outcome, EVERY_COMM, NO_COMM};
use serde::{Deserialize, Serialize};

use crate::divergence::{Divergence, Doing};
use crate::event::Event;
use crate::log::{Events, Log};
use crate::table;

/// Calls before a divergence that are told.
const BEFORE: usize = 12;
/// Steps of the recorded run after it that are told.
const AFTER: usize = 3;

/// A place in a record. An image of a run that is recorded holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Id of the record.
    pub id: [u8; 16],
    /// Offset of an event.
    pub offset: u64,
}

/// A place in a record of calls, with what a replay has done behind it. An image of a run that is recorded or replayed
/// holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// All events before it are done.
    pub position: Position,
    /// The threads of the record, as far as they are known. Sorted.
    pub threads: Vec<ThreadPlace>,
    /// Threads of the replayed run that have ended. Sorted.
    pub ended: Vec<u32>,
}

/// The place of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPlace {
    /// Its number.
    pub thread: u32,
    /// Offset: its events before it are done.
    pub offset: u64,
    /// How many of the misses there are over, if its next event is misses.
    pub misses: u32,
}

impl From<Position> for Place {
    fn from(position: Position) -> Place {
        Place {
            position,
            threads: Vec::new(),
            ended: Vec::new(),
        }
    }
}

/// The turn of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It asks for its next event, which has its order among those over this communicator, or the record ends.
    Now(u64),
    /// Its test or probe finds nothing.
    Miss,
    /// An event of another thread comes before.
    Later,
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

/// Most steps that are read ahead to find the next one of a thread. A thread whose next one is further away waits: the
/// first step of all can always be done.
const MOST_AHEAD: usize = if cfg!(test) { 8 } else { 1 << 16 };

/// An ordered event that is not done.
struct Step {
    /// Its offset.
    at: usize,
    /// The communicator among whose events it has its order.
    comm: u64,
    doing: Doing,
}

/// A thread of the record.
#[derive(Default)]
struct Thread {
    /// Its next steps, as far as they are read.
    steps: VecDeque<Step>,
    /// How many of the misses that are its next step are over.
    misses: u32,
    /// The communicator of the last call that was read.
    comm: u64,
}

/// The next step of a thread.
enum Next {
    Is(Doing),
    /// It is far away.
    Far,
    /// The record has none.
    None,
}

/// A record that is replayed.
pub struct Replay {
    log: Log,
    /// Whether several threads made its calls.
    has_threads: bool,
    table: Box<CallTable>,
    /// Offset of the next event that is to be read.
    at: usize,
    /// The thread whose events follow there.
    thread: u32,
    threads: BTreeMap<u32, Thread>,
    /// How many steps are read and not done.
    ahead_steps: usize,
    /// Those over each communicator, and over all: offsets and threads.
    orders: HashMap<u64, VecDeque<(usize, u32)>>,
    /// Threads that have ended.
    ended: BTreeSet<u32>,
    /// Misses in a row that the recorded run did not have.
    more_misses: u64,
    calls: u64,
    last: VecDeque<Call>,
    /// Offset of the last call that was made, and of the last event of a receive that was read.
    made_at: usize,
    receive_at: usize,
    ahead: Ahead,
}

impl Replay {
    /// Begins with the first event.
    pub fn begin(log: Log) -> Replay {
        let mut events = Events::from(log.bytes(), 0);
        let has_threads = events.any(|(_, event)| matches!(event, Event::Thread(_)));
        Replay {
            log,
            has_threads,
            table: table::empty(),
            at: 0,
            thread: 0,
            threads: BTreeMap::new(),
            ahead_steps: 0,
            orders: HashMap::new(),
            ended: BTreeSet::new(),
            more_misses: 0,
            calls: 0,
            last: VecDeque::new(),
            made_at: 0,
            receive_at: 0,
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
        while replay.at < offset && replay.read() {
            replay.ahead.at = replay.at;
            replay.pass(replay.thread, offset);
        }
        for there in &place.threads {
            let offset = usize::try_from(there.offset).unwrap_or(usize::MAX);
            while replay.at < offset && replay.read() {}
            replay.pass(there.thread, offset);
            replay.threads.entry(there.thread).or_default().misses = there.misses;
        }
        replay.ended = place.ended.iter().copied().collect();
        replay
    }

    /// Does the steps of a thread before an offset.
    fn pass(&mut self, thread: u32, offset: usize) {
        while let Some(step) = self.first(thread).filter(|step| step.at < offset) {
            let doing = step.doing;
            self.done(thread);
            if let Doing::Call(call) = doing {
                self.made(call);
            }
        }
    }

    /// Where the run is.
    pub fn place(&self) -> Place {
        let of = |(thread, state): (&u32, &Thread)| ThreadPlace {
            thread: *thread,
            offset: state.steps.front().map_or(self.at, |step| step.at) as u64,
            misses: state.misses,
        };
        let threads: Vec<_> = self.threads.iter().map(of).collect();
        let offsets = threads.iter().map(|thread| thread.offset);
        Place {
            position: Position {
                id: self.log.header.id,
                offset: offsets.min().unwrap_or(self.at as u64),
            },
            threads,
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

    /// Whether it has a cancelled receive behind the place where it begins.
    pub fn has_cancels(&self) -> bool {
        // Where it begins, events of receives are not read ahead.
        let mut events = Events::from(self.log.bytes(), self.ahead.at);
        events.any(|(_, event)| matches!(event, Event::Cancelled { .. }))
    }

    /// Whether several threads made its calls.
    pub fn has_threads(&self) -> bool {
        self.has_threads
    }

    /// Whether it is the turn of a thread to ask for an event. `looks` is whether it asks for the outcome of a test or
    /// probe.
    ///
    /// # Errors
    /// The turn is that of a thread that has ended.
    pub fn turn(&mut self, thread: u32, looks: bool) -> Result<Turn, Divergence> {
        let first = loop {
            match self.next(thread) {
                // Counted here, since the thread does not ask then.
                Next::Is(Doing::Outcome(Event::Misses(_))) if looks => {
                    self.miss(thread);
                    return Ok(Turn::Miss);
                }
                // The thread has done with its tests earlier than in the recorded run.
                Next::Is(Doing::Outcome(Event::Misses(_))) => self.done(thread),
                Next::Is(_) => match self.blocking(thread) {
                    None => return Ok(Turn::Now(self.comm_of(thread))),
                    Some(other) => break other,
                },
                Next::None => match self.first_of_all() {
                    None => return Ok(Turn::Now(NO_COMM)),
                    Some(other) => break other,
                },
                Next::Far => match self.first_of_all() {
                    None => return Ok(Turn::Later),
                    Some(other) => break other,
                },
            }
        };
        match self.ended.contains(&first) {
            true => Err(self.divergence(first, Doing::End(first))),
            false => Ok(Turn::Later),
        }
    }

    /// The thread whose step must be done before the next one of this thread.
    fn blocking(&self, thread: u32) -> Option<u32> {
        let step = self.first(thread)?;
        let first = |comm: &u64| self.orders.get(comm)?.front().copied();
        let first = match step.comm {
            NO_COMM => None,
            EVERY_COMM => self.orders.keys().filter_map(first).min(),
            comm => [comm, EVERY_COMM].iter().filter_map(first).min(),
        };
        let (_, other) = first.filter(|(at, _)| *at < step.at)?;
        Some(other)
    }

    /// The thread of the first step that is no misses.
    fn first_of_all(&self) -> Option<u32> {
        let first = |(thread, state): (&u32, &Thread)| {
            let mut steps = state.steps.iter();
            let step = steps.find(|step| !matches!(step.doing, Doing::Outcome(Event::Misses(_))));
            step.map(|step| (step.at, *thread))
        };
        let (_, thread) = self.threads.iter().filter_map(first).min()?;
        Some(thread)
    }

    fn first(&self, thread: u32) -> Option<&Step> {
        self.threads.get(&thread)?.steps.front()
    }

    fn comm_of(&self, thread: u32) -> u64 {
        self.first(thread).map_or(NO_COMM, |step| step.comm)
    }

    fn made(&mut self, call: Call) {
        self.more_misses = 0;
        self.calls += 1;
        if self.last.len() == BEFORE {
            self.last.pop_front();
        }
        self.last.push_back(call);
    }

    /// Reads the next event. False if there is none.
    fn read(&mut self) -> bool {
        let mut events = Events::from(self.log.bytes(), self.at);
        let Some((at, event)) = events.next() else {
            return false;
        };
        self.at = events.at;
        let call = table::read(&mut self.table, &event);
        let doing = match (call, event) {
            (Some(call), _) => Doing::Call(call),
            (None, Event::Thread(number)) => {
                self.thread = number;
                return true;
            }
            (None, Event::Anew) => {
                self.thread = 0;
                return true;
            }
            (None, Event::Bound { .. } | Event::Cancelled { .. }) => {
                self.receive_at = at;
                return true;
            }
            // A call that is not in the table is that of a damaged record.
            (None, Event::Mark(_) | Event::Call(_) | Event::NewCall(..)) => return true,
            (None, outcome) => Doing::Outcome(outcome),
        };
        let thread = self.threads.entry(self.thread).or_default();
        let comm = match doing {
            Doing::Call(call) => {
                thread.comm = call.comm;
                call.comm
            }
            Doing::Outcome(Event::Found { .. }) => thread.comm,
            Doing::Outcome(_) | Doing::End(_) => NO_COMM,
        };
        // One thread needs no order.
        let comm = if self.has_threads { comm } else { NO_COMM };
        if comm != NO_COMM {
            let order = self.orders.entry(comm).or_default();
            order.push_back((at, self.thread));
        }
        thread.steps.push_back(Step { at, comm, doing });
        self.ahead_steps += 1;
        true
    }

    /// The next step of a thread is done.
    fn done(&mut self, thread: u32) {
        let Some(state) = self.threads.get_mut(&thread) else {
            return;
        };
        state.misses = 0;
        let Some(step) = state.steps.pop_front() else {
            return;
        };
        self.ahead_steps -= 1;
        if let Some(order) = self.orders.get_mut(&step.comm) {
            match order.front() {
                Some((at, _)) if *at == step.at => drop(order.pop_front()),
                // A replay that begins does the steps of one thread after the other.
                _ => order.retain(|(at, _)| *at != step.at),
            }
            if order.is_empty() {
                self.orders.remove(&step.comm);
            }
        }
    }

    /// A test or probe finds nothing, as the next step of the thread says.
    fn miss(&mut self, thread: u32) {
        let Some(state) = self.threads.get_mut(&thread) else {
            return;
        };
        state.misses += 1;
        let over = |step: &Step| matches!(step.doing, Doing::Outcome(Event::Misses(number)) if number <= state.misses);
        if state.steps.front().is_some_and(over) {
            self.done(thread);
        }
    }

    /// The next step of a thread.
    fn next(&mut self, thread: u32) -> Next {
        loop {
            if let Some(step) = self.first(thread) {
                return Next::Is(step.doing);
            }
            if self.ahead_steps >= MOST_AHEAD {
                return Next::Far;
            }
            if !self.read() {
                return Next::None;
            }
        }
    }

    /// The next step of a thread that is no misses. `None` where the record ends.
    fn next_but_misses(&mut self, thread: u32) -> Option<Doing> {
        loop {
            match self.next(thread) {
                Next::Is(Doing::Outcome(Event::Misses(_))) => self.done(thread),
                Next::Is(doing) => return Some(doing),
                Next::Far | Next::None => return None,
            }
        }
    }

    /// The thread whose steps a thread makes.
    fn of(&self, thread: u32) -> u32 {
        match self.has_threads {
            true => thread,
            false => 0,
        }
    }

    /// The run makes a call. False where the record ends.
    ///
    /// # Errors
    /// The run makes another call than the recorded one.
    pub fn call(&mut self, thread: u32, call: &Call) -> Result<bool, Divergence> {
        let thread = self.of(thread);
        match self.next_but_misses(thread) {
            None => Ok(false),
            Some(doing) if doing == Doing::Call(*call) => {
                self.made_at = self.first(thread).map_or(0, |step| step.at);
                self.done(thread);
                self.made(*call);
                Ok(true)
            }
            Some(_) => Err(self.divergence(thread, Doing::Call(*call))),
        }
    }

    /// The outcome of a call. `call` is that call where it is written only if it finds something.
    ///
    /// # Errors
    /// The record has something else than an outcome of this kind there.
    pub fn outcome(
        &mut self,
        thread: u32,
        call: Option<&Call>,
        what: Outcome,
    ) -> Result<Answer, Divergence> {
        let thread = self.of(thread);
        if let Some(call) = call {
            match self.next(thread) {
                Next::Is(Doing::Outcome(Event::Misses(_))) => {
                    self.miss(thread);
                    return Ok(Answer::Miss);
                }
                Next::Is(doing) if doing == Doing::Call(*call) => {}
                Next::Is(_) if self.more_misses < MORE_MISSES => {
                    self.more_misses += 1;
                    return Ok(Answer::Miss);
                }
                Next::Is(_) => {}
                Next::Far | Next::None => return Ok(Answer::Ended),
            }
            self.call(thread, call)?;
        }
        let answer = match (what, self.next(thread)) {
            (_, Next::Far | Next::None) => return Ok(Answer::Ended),
            (Outcome::Found, Next::Is(Doing::Outcome(Event::Found { source, tag }))) => {
                Answer::Found(source, tag)
            }
            (Outcome::Index, Next::Is(Doing::Outcome(Event::Index(number))))
            | (Outcome::Some, Next::Is(Doing::Outcome(Event::Some(number)))) => {
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
                return Err(self.divergence(thread, Doing::Outcome(asked)));
            }
        };
        self.done(thread);
        Ok(answer)
    }

    /// Whether the record has nothing behind the last call. So that call had no effect that is known.
    pub fn is_over(&self) -> bool {
        let mut events = Events::from(self.log.bytes(), self.at);
        self.ahead_steps == 0
            && self.receive_at <= self.made_at
            && events.all(|(_, event)| matches!(event, Event::Mark(_)))
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
    pub fn digest(
        &mut self,
        thread: u32,
        bytes: u64,
        crc: u32,
    ) -> Result<Option<Divergence>, Divergence> {
        let thread = self.of(thread);
        let now = |message| {
            Doing::Outcome(Event::Digest {
                bytes,
                crc,
                message,
            })
        };
        match self.next(thread) {
            Next::Far | Next::None => Ok(None),
            Next::Is(Doing::Outcome(Event::Digest {
                bytes: then,
                crc: recorded,
                message,
            })) => {
                let differs = (then, recorded) != (bytes, crc);
                let difference = differs.then(|| self.divergence(thread, now(message)));
                self.done(thread);
                Ok(difference)
            }
            Next::Is(_) => Err(self.divergence(thread, now(None))),
        }
    }

    /// The next steps of a thread in the recorded run, and what the run does instead.
    fn divergence(&mut self, thread: u32, now: Doing) -> Divergence {
        let steps = |replay: &Replay| replay.threads.get(&thread).map_or(0, |it| it.steps.len());
        while steps(self) < AFTER && self.ahead_steps < MOST_AHEAD && self.read() {}
        let state = self.threads.get(&thread);
        let steps = state.iter().flat_map(|state| &state.steps);
        Divergence {
            number: self.calls + 1,
            before: self.last.iter().copied().collect(),
            recorded: steps.map(|step| step.doing).take(AFTER).collect(),
            now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::log_of;

    /// A call over a communicator.
    fn over(comm: u64, function: u32) -> Call {
        Call {
            function,
            comm,
            ..Call::default()
        }
    }

    fn turn(replay: &mut Replay, thread: u32, looks: bool) -> Turn {
        replay.turn(thread, looks).unwrap()
    }

    fn is_now(turn: Turn) -> bool {
        matches!(turn, Turn::Now(_))
    }

    /// Events of the initial thread and thread 1, whose tests find nothing meanwhile.
    #[test]
    fn a_thread_waits_for_its_turn_but_not_for_the_tests_of_others() {
        let (_dir, log) = log_of(&[
            Event::NewCall(0, over(7, 0)),
            Event::Thread(1),
            Event::Misses(2),
            Event::Thread(0),
            Event::NewCall(1, over(7, 1)),
            Event::Thread(1),
            Event::NewCall(2, over(7, 2)),
            Event::Found { source: 3, tag: 4 },
        ]);
        let mut replay = Replay::begin(log);
        assert!(replay.has_threads());
        assert_eq!(replay.turn(0, false), Ok(Turn::Now(7)));
        assert_eq!(replay.call(0, &over(7, 0)), Ok(true));
        // The initial thread passes the tests of the other one, which has them left.
        assert!(is_now(turn(&mut replay, 0, false)));
        assert_eq!(turn(&mut replay, 1, true), Turn::Miss);
        assert_eq!(turn(&mut replay, 1, true), Turn::Miss);
        assert_eq!(turn(&mut replay, 1, true), Turn::Later);
        assert_eq!(replay.call(0, &over(7, 1)), Ok(true));
        assert_eq!(turn(&mut replay, 0, false), Turn::Later);
        assert_eq!(replay.turn(1, true), Ok(Turn::Now(7)));
        let found = replay.outcome(1, Some(&over(7, 2)), Outcome::Found);
        assert_eq!(found, Ok(Answer::Found(3, 4)));
        assert!(is_now(turn(&mut replay, 0, false)));
    }

    /// A thread that waits inside of its call for another process holds up nobody who uses other communicators.
    #[test]
    fn threads_wait_for_each_other_over_one_communicator_only() {
        let (_dir, log) = log_of(&[
            Event::NewCall(0, over(7, 0)),
            Event::NewCall(1, over(8, 1)),
            Event::Thread(1),
            Event::NewCall(2, over(9, 2)),
            Event::NewCall(3, over(8, 3)),
            Event::NewCall(4, over(EVERY_COMM, 4)),
            Event::Thread(0),
            Event::NewCall(5, over(7, 5)),
        ]);
        let mut replay = Replay::begin(log);
        assert_eq!(replay.turn(1, false), Ok(Turn::Now(9)));
        assert_eq!(replay.call(1, &over(9, 2)), Ok(true));
        assert_eq!(turn(&mut replay, 1, false), Turn::Later);
        assert_eq!(replay.turn(0, false), Ok(Turn::Now(7)));
        let place = replay.place();
        let mut again = Replay::begin_at(Log::open(&replay.log.path).unwrap(), &place);
        assert_eq!(again.place(), place);
        assert_eq!(
            (again.calls(), turn(&mut again, 1, false)),
            (1, Turn::Later)
        );
        assert_eq!(again.call(0, &over(7, 0)), Ok(true));
        assert_eq!(again.call(0, &over(8, 1)), Ok(true));
        // A call over every communicator has its order among the calls over all of them.
        assert_eq!(turn(&mut again, 0, false), Turn::Later);
        assert_eq!(again.call(1, &over(8, 3)), Ok(true));
        assert_eq!(turn(&mut again, 0, false), Turn::Later);
        assert_eq!(again.turn(1, false), Ok(Turn::Now(EVERY_COMM)));
        assert_eq!(again.call(1, &over(EVERY_COMM, 4)), Ok(true));
        assert!(is_now(turn(&mut again, 0, false)));
        assert_eq!(turn(&mut again, 1, false), Turn::Later);
        assert_eq!(again.call(0, &over(7, 5)), Ok(true));
        assert_eq!(
            (turn(&mut again, 1, false), again.is_over()),
            (Turn::Now(NO_COMM), true)
        );
        assert_eq!(again.call(1, &over(7, 5)), Ok(false));
    }

    #[test]
    fn a_replay_knows_of_cancelled_receives_that_another_thread_has_passed() {
        let (_dir, log) = log_of(&[
            Event::NewCall(0, over(7, 0)),
            Event::Cancelled { posting: 3 },
            Event::Thread(1),
            Event::NewCall(1, over(8, 1)),
        ]);
        let mut replay = Replay::begin(log);
        assert_eq!(replay.call(1, &over(8, 1)), Ok(true));
        let place = replay.place();
        let mut again = Replay::begin_at(Log::open(&replay.log.path).unwrap(), &place);
        assert!(again.has_cancels());
        assert_eq!(again.binding(3), Some(Bound::Cancelled));
    }

    #[test]
    fn a_thread_whose_next_step_is_far_away_waits() {
        let mut events = vec![Event::NewCall(0, over(7, 0)); MOST_AHEAD];
        events.extend([Event::Thread(1), Event::NewCall(1, over(8, 1))]);
        let (_dir, log) = log_of(&events);
        let mut replay = Replay::begin(log);
        assert_eq!(turn(&mut replay, 1, false), Turn::Later);
        assert_eq!(replay.call(0, &over(7, 0)), Ok(true));
        assert!(is_now(turn(&mut replay, 1, false)));
        assert_eq!(replay.call(1, &over(8, 1)), Ok(true));
    }

    #[test]
    fn a_thread_that_tests_less_often_passes_its_own_tests() {
        let (_dir, log) = log_of(&[
            Event::Misses(9),
            Event::Thread(1),
            Event::NewCall(0, over(7, 0)),
            Event::Thread(0),
            Event::NewCall(0, over(7, 0)),
        ]);
        let mut replay = Replay::begin(log);
        assert_eq!(turn(&mut replay, 0, true), Turn::Miss);
        assert_eq!(turn(&mut replay, 0, false), Turn::Later);
        assert!(is_now(turn(&mut replay, 1, false)));
        assert_eq!(replay.call(1, &over(7, 0)), Ok(true));
        assert!(is_now(turn(&mut replay, 0, false)));
    }

    #[test]
    fn a_place_has_the_misses_that_are_over() {
        let (_dir, log) = log_of(&[
            Event::Thread(1),
            Event::Misses(2),
            Event::Thread(0),
            Event::NewCall(0, call(0)),
        ]);
        let mut replay = Replay::begin(log);
        assert!(is_now(turn(&mut replay, 0, false)));
        assert_eq!(replay.call(0, &call(0)), Ok(true));
        assert_eq!(turn(&mut replay, 1, true), Turn::Miss);
        let place = replay.place();
        let mut again = Replay::begin_at(Log::open(&replay.log.path).unwrap(), &place);
        assert_eq!((again.place(), again.calls()), (place, 1));
        assert_eq!(turn(&mut again, 1, true), Turn::Miss);
        assert!(is_now(turn(&mut again, 1, true)));
    }

    #[test]
    fn a_thread_that_has_ended_keeps_no_other_waiting() {
        let (_dir, log) = log_of(&[
            Event::NewCall(0, over(7, 0)),
            Event::Thread(1),
            Event::Misses(2),
            Event::NewCall(1, over(7, 1)),
            Event::Thread(0),
            Event::NewCall(2, over(7, 2)),
        ]);
        let mut replay = Replay::begin(log);
        replay.ends(2);
        replay.call(0, &over(7, 0)).unwrap();
        assert_eq!(turn(&mut replay, 0, false), Turn::Later);
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
        assert_eq!(replay.call(0, &call(40)), Ok(true));
        assert_eq!(
            replay.outcome(0, None, Outcome::Index),
            Ok(Answer::Number(2))
        );
        for _ in 0..3 {
            let miss = replay.outcome(0, Some(&call(99)), Outcome::Index);
            assert_eq!(miss, Ok(Answer::Miss));
        }
        let found = replay.outcome(0, Some(&call(40)), Outcome::Found);
        assert_eq!(found, Ok(Answer::Found(5, 6)));
        assert_eq!(
            replay.outcome(0, Some(&call(40)), Outcome::Found),
            Ok(Answer::Ended)
        );
        assert_eq!((replay.call(0, &call(1)), replay.calls()), (Ok(false), 2));
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
            assert_eq!(replay.call(0, &call(0)), Ok(true));
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
        let miss = replay.outcome(0, Some(&call(99)), Outcome::Index);
        assert_eq!(miss, Ok(Answer::Miss));
        assert_eq!(replay.call(0, &call(40)), Ok(true));
        for _ in 0..MORE_MISSES {
            let miss = replay.outcome(0, Some(&call(99)), Outcome::Index);
            assert_eq!(miss, Ok(Answer::Miss));
        }
        assert!(replay.outcome(0, Some(&call(99)), Outcome::Index).is_err());
        assert_eq!(replay.call(0, &call(41)), Ok(true));
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
        assert_eq!(replay.digest(0, 8, 1), Ok(None));
        let why = replay.digest(0, 8, 1).unwrap().unwrap();
        assert_eq!(why.recorded[0], Doing::Outcome(digest(8, 2)));
        assert_eq!(why.now, Doing::Outcome(digest(8, 1)));
        assert!(replay.digest(0, 8, 1).is_err());
    }

    #[test]
    fn a_replay_goes_on_from_any_position() {
        let (_dir, mut replay) = replay();
        replay.call(0, &call(40)).unwrap();
        replay.outcome(0, None, Outcome::Index).unwrap();
        replay.outcome(0, Some(&call(40)), Outcome::Index).unwrap();
        let place = replay.place();
        let mut again = Replay::begin_at(Log::open(&replay.log.path).unwrap(), &place);
        assert_eq!(again.place(), place);
        for _ in 0..2 {
            let miss = again.outcome(0, Some(&call(40)), Outcome::Index);
            assert_eq!(miss, Ok(Answer::Miss));
        }
        let found = again.outcome(0, Some(&call(40)), Outcome::Found);
        assert_eq!(found, Ok(Answer::Found(5, 6)));
    }

    #[test]
    fn a_divergence_tells_both_sides() {
        let (_dir, mut replay) = replay();
        replay.call(0, &call(40)).unwrap();
        let why = replay.call(0, &call(41)).unwrap_err();
        assert_eq!((why.number, why.before.len()), (2, 1));
        let text = why.text(|function| format!("F{function}"));
        assert!(text.contains("call 1, both:  F40"), "{text}");
        assert!(
            text.contains("recorded: the operation with index 2 complete"),
            "{text}"
        );
        assert!(text.contains("but now:       F41"), "{text}");
        let why = replay.outcome(0, None, Outcome::Found).unwrap_err();
        assert_eq!(why.recorded.first(), Some(&Doing::Outcome(Event::Index(2))));
    }
}
