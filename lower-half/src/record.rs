//! The record of this rank's run (docs/internals/record.md): the upper half writes it through [`contract::record`], and
//! asks it through services while it replays one. The record begins when MPI is initialised, or after a restart at the
//! place that the image holds.
//!
//! Its file is open in the lower half's table of descriptors, and its memory is mapped above the arena: no image holds
//! it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ::record::{
    file_name, table, Answer, Bound, Difference, Divergence, Event, Header, Log, Place, Position,
    Replay, Stream, Summary, Turn, Writer,
};
use anyhow::{bail, Context, Result};
use ckpt_image::{kind, Section, SetId};
use contract::gate;
use contract::record::{
    Binding, Call, Outcome, RecordMode, ENDED, LAST, MISS, NO_COMM, TURN_LATER, TURN_MISS,
};
use coordinator::net::contact::random_token;
use job_spec::{Digests, ExitCode, Record, Tools};

use crate::mpi::{self, world};
use crate::{agent, clocks, console};

/// The part that the upper half sees.
static SHARED: contract::record::Record = contract::record::Record {
    mode: AtomicU32::new(RecordMode::Off as u32),
    cancels: AtomicU32::new(0),
    digests: AtomicU64::new(0),
    sends: AtomicU32::new(0),
    end: AtomicUsize::new(0),
    window: AtomicUsize::new(0),
    window_begin: AtomicU64::new(0),
    window_end: AtomicU64::new(0),
    calls: AtomicUsize::new(0),
    sealed: AtomicU64::new(0),
    threads: AtomicU32::new(0),
};

/// Address of the table of calls, which the upper half writes.
static CALLS: OnceLock<usize> = OnceLock::new();

/// The record that is written or replayed.
enum State {
    Off,
    Writing(Header, Writer),
    Replaying(Box<Replay>),
}

static STATE: Mutex<State> = Mutex::new(State::Off);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The use of a record in a run that begins, or goes on from a checkpoint.
#[derive(Default)]
pub enum Plan {
    /// Nothing.
    #[default]
    Off,
    /// A new record is written.
    New(Settings),
    /// A record is written on from an offset.
    GoOn(Header, PathBuf, u64),
    /// A record is replayed.
    Replay(Box<Replay>),
    /// A rank of a recorded run runs alone: the same is recorded again, to be compared.
    Again(Box<Log>),
}

/// The content of a new record.
pub struct Settings {
    directory: PathBuf,
    follows: [u8; 16],
    digests: u64,
    sends: bool,
}

impl Settings {
    fn new(directory: &Path, follows: [u8; 16], digests: Digests, sends: bool) -> Settings {
        Settings {
            directory: directory.to_owned(),
            follows,
            digests: digests.limit(),
            sends,
        }
    }
}

/// The plan of a restart, made before anything is restored.
static PLAN: Mutex<Option<Plan>> = Mutex::new(None);

impl Plan {
    /// For a program that begins.
    fn of_launch(record: &Record, rank: u32, size: u32) -> Result<Plan> {
        let dir = match record {
            Record::Write {
                dir,
                digests,
                sends,
                ..
            } => return Ok(Plan::New(Settings::new(dir, [0; 16], *digests, *sends))),
            Record::Solo { dir, .. } => {
                let log = Log::of_rank(dir, rank, size, mpi::TABLE_HASH)?;
                return Ok(Plan::Again(Box::new(log)));
            }
            Record::Replay { dir } => dir,
        };
        let log = Log::of_rank(dir, rank, size, mpi::TABLE_HASH)?;
        if log.header.follows != [0; 16] {
            bail!(
                "{} begins at a checkpoint: replay it with `stasis restart --replay`",
                dir.display()
            );
        }
        Ok(Plan::Replay(Box::new(Replay::begin(log))))
    }

    /// For a job that goes on from a set, whose image holds this place in a record.
    pub fn of_restart(
        tools: &Tools,
        set: SetId,
        place: Option<&Place>,
        rank: u32,
        size: u32,
    ) -> Result<Plan> {
        let (directory, replay) = match &tools.record {
            None | Some(Record::Solo { .. }) => return Ok(Plan::Off),
            Some(Record::Write {
                dir,
                digests,
                sends,
                ..
            }) => {
                if !dir.join(file_name(rank)).exists() {
                    return Ok(Plan::New(Settings::new(dir, set.0, *digests, *sends)));
                }
                (dir, false)
            }
            Some(Record::Replay { dir }) => (dir, true),
        };
        let log = Log::of_rank(directory, rank, size, mpi::TABLE_HASH)?;
        let place = place
            .filter(|place| place.position.id == log.header.id)
            .cloned();
        let begins = Position {
            id: log.header.id,
            offset: 0,
        };
        let place = place.or((log.header.follows == set.0).then(|| begins.into()));
        let place = place.ok_or_else(|| ::record::Error::OtherRun(directory.clone()))?;
        Ok(match replay {
            true => Plan::Replay(Box::new(Replay::begin_at(log, &place))),
            false => Plan::GoOn(log.header, log.path, place.position.offset),
        })
    }

    /// To be carried out when the rank is restored.
    pub fn keep(self) {
        *PLAN.lock().unwrap_or_else(PoisonError::into_inner) = Some(self);
    }

    fn is_new(&self) -> bool {
        matches!(self, Plan::New(_))
    }

    fn is_written(&self) -> bool {
        matches!(self, Plan::New(_) | Plan::GoOn(..))
    }

    fn carry_out(self, id: [u8; 16], rank: u32, size: u32) -> Result<State> {
        Ok(match self {
            Plan::Off => State::Off,
            Plan::Replay(replay) => State::Replaying(replay),
            Plan::New(settings) => {
                let header = Header {
                    rank,
                    size,
                    table_hash: mpi::TABLE_HASH,
                    id,
                    follows: settings.follows,
                    digests: settings.digests,
                    sends: settings.sends,
                    stream: Stream::Calls,
                    library: world::library(),
                };
                let path = settings.directory.join(file_name(rank));
                let writer = outside(|| Writer::create(&path, &header))??;
                clocks::write(&settings.directory, &header);
                State::Writing(header, writer)
            }
            Plan::Again(log) => {
                let header = log.header.clone();
                let writer = outside(|| nameless(&header))?.context("nothing can be compared")?;
                RECORDED.get_or_init(|| *log);
                State::Writing(header, writer)
            }
            Plan::GoOn(header, path, offset) => {
                let writer = outside(|| Writer::go_on(&path, offset))??;
                State::Writing(header, writer)
            }
        })
    }
}

/// The record to which the calls of a rank that runs alone are compared.
static RECORDED: OnceLock<Log> = OnceLock::new();

/// A new record, whose file has no name. Its first name is random, since a process that is killed here leaves the file.
fn nameless(header: &Header) -> Result<Writer> {
    let path = std::env::temp_dir().join(format!("stasis-solo-{}", random_token()?));
    let writer = Writer::create(&path, header)?;
    std::fs::remove_file(&path)?;
    Ok(writer)
}

/// For a rank that runs alone: number of its last call, and its first difference from the recorded run, if it has any.
pub fn compared() -> (u64, Option<Difference>) {
    let state = state();
    let (State::Writing(_, writer), Some(recorded)) = (&*state, RECORDED.get()) else {
        return (0, None);
    };
    match outside(|| writer.log()) {
        Ok(Ok(log)) => (Summary::of(&log).calls, ::record::compare(recorded, &log)),
        _ => (0, None),
    }
}

/// Runs `work` where the record's file is open.
fn outside<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    loader::on_own_fd_table(work).context("no thread could be made")
}

/// MPI is initialised on all ranks: the record begins, or goes on.
pub fn begin(rank: u32, size: u32) {
    let planned = PLAN.lock().unwrap_or_else(PoisonError::into_inner).take();
    let plan = planned.map_or_else(|| of_launch(rank, size), Ok);
    // Nothing can be replayed from a record that cannot be read.
    let plan = plan.unwrap_or_else(|why| {
        console::tell(&why);
        world::abort(ExitCode::Image.number())
    });
    if let Err(why) = try_begin(plan, rank, size) {
        console::tell(&why.context("this run is not recorded"));
    }
    clocks::connected(calls);
}

/// The same for a rank that runs alone, without an agent.
pub fn begin_again(record: &Record, rank: u32, size: u32) {
    let begun = outside(|| Plan::of_launch(record, rank, size))
        .and_then(|plan| try_begin(plan?, rank, size));
    if let Err(why) = begun {
        console::tell(&why);
        world::leave_at_once(ExitCode::Image.number());
    }
    clocks::connected(calls);
}

fn of_launch(rank: u32, size: u32) -> Result<Plan> {
    match &agent::tools()?.record {
        None => Ok(Plan::Off),
        Some(record) => outside(|| Plan::of_launch(record, rank, size))?,
    }
}

fn try_begin(plan: Plan, rank: u32, size: u32) -> Result<()> {
    let mut id = [0; 16];
    if plan.is_written() {
        if rank == 0 {
            id = SetId::random().context("a record cannot be given an id")?.0;
        }
        world::broadcast(&mut id, 0)?;
        let (one, all) = world::extremes(i64::from(plan.is_new()))?;
        if one != all {
            bail!("some ranks have a record to go on with, and others have none: give another directory");
        }
    }
    let begun = plan.carry_out(id, rank, size)?;
    publish(&begun);
    *state() = begun;
    Ok(())
}

/// Shows the upper half what it needs.
fn publish(state: &State) {
    let (mode, header) = match state {
        State::Off => return,
        State::Writing(header, writer) => {
            let calls = CALLS.get_or_init(|| Box::into_raw(table::empty()) as usize);
            SHARED.calls.store(*calls, Ordering::Relaxed);
            SHARED.end.store(writer.end_address(), Ordering::Relaxed);
            SHARED.sealed.store(writer.end(), Ordering::Relaxed);
            show_window(writer);
            (RecordMode::Record, header)
        }
        State::Replaying(replay) => {
            let cancels = u32::from(replay.has_cancels());
            SHARED.cancels.store(cancels, Ordering::Relaxed);
            let threads = u32::from(replay.has_threads());
            SHARED.threads.store(threads, Ordering::Relaxed);
            (RecordMode::Replay, &replay.log().header)
        }
    };
    SHARED.digests.store(header.digests, Ordering::Relaxed);
    SHARED
        .sends
        .store(u32::from(header.sends), Ordering::Relaxed);
    SHARED.mode.store(mode as u32, Ordering::Relaxed);
    let address = std::ptr::from_ref(&SHARED) as usize;
    gate().record.store(address, Ordering::Release);
}

fn show_window(writer: &Writer) {
    let window = &writer.window;
    SHARED.window.store(window.address(), Ordering::Relaxed);
    SHARED.window_begin.store(window.begin, Ordering::Relaxed);
    SHARED.window_end.store(window.end(), Ordering::Relaxed);
}

/// Takes the record away from the upper half.
fn hide() {
    gate().record.store(0, Ordering::Release);
}

/// Makes room for events; whether there is any.
pub fn make_room() -> bool {
    write(Writer::make_room)
}

/// The threads stand still for the checkpoint with this number.
pub fn mark(set: u64) {
    write(|writer| {
        writer.append(Event::Mark(set))?;
        SHARED.sealed.store(writer.end(), Ordering::Relaxed);
        Ok(())
    });
}

/// Changes the record that is written. If that fails, nothing is recorded any more. Whether a record is written.
fn write(change: impl FnOnce(&mut Writer) -> ::record::Result<()> + Send) -> bool {
    let mut state = state();
    let State::Writing(_, writer) = &mut *state else {
        return false;
    };
    match outside(|| change(writer)).and_then(|changed| Ok(changed?)) {
        Ok(()) => {
            show_window(writer);
            true
        }
        Err(why) => {
            console::tell(&why.context("nothing is recorded from here on"));
            hide();
            *state = State::Off;
            false
        }
    }
}

/// The section of the image with the place in the record.
pub fn section() -> Option<Section> {
    let place = match &*state() {
        State::Off => return None,
        State::Writing(header, writer) => Place::from(Position {
            id: header.id,
            offset: writer.end(),
        }),
        State::Replaying(replay) => replay.place(),
    };
    // Numbers in memory always encode.
    kind::RECORD.encode(&place).ok()
}

/// Calls of the run that is replayed, or of the rank that runs alone, which are over.
pub fn calls() -> u64 {
    match &*state() {
        State::Replaying(replay) => return replay.calls(),
        State::Off => return 0,
        State::Writing(..) => {}
    }
    compared().0
}

/// MPI is about to be finalised: nothing more is recorded.
pub fn finish() {
    hide();
    let ended = std::mem::replace(&mut *state(), State::Off);
    if let State::Writing(_, writer) = ended {
        // The record is whole; only space that it does not need stays allocated.
        let _ = outside(|| writer.close());
    }
}

/// Calls `ask` on the record that is replayed. `ended` is the answer where there is none.
fn ask<T>(ended: T, ask: impl FnOnce(&mut Replay) -> Result<T, Divergence>) -> T {
    let mut state = state();
    let State::Replaying(replay) = &mut *state else {
        return ended;
    };
    match ask(replay) {
        Ok(answer) => answer,
        Err(why) => {
            say(&why.text(name));
            drop(state);
            world::abort(ExitCode::Diverged.number())
        }
    }
}

/// The name of the function with this slot.
pub fn name(function: u32) -> String {
    let name = mpi::name_of(function as usize);
    name.map_or_else(|| format!("function {function}"), str::to_owned)
}

fn say(text: &str) {
    console::say(world::rank().unwrap_or(0), text);
}

/// The record ends: the rank goes on without it.
fn tell_end(replay: &Replay) {
    say(&format!(
        "the record ends after call {}; the rank goes on without it",
        replay.calls()
    ));
}

/// Whether it is the turn of a thread to ask, as for `contract::service::ReplayTurn`.
pub fn turn(thread: u32, looks: bool) -> u64 {
    ask(NO_COMM, |replay| {
        Ok(match replay.turn(thread, looks)? {
            Turn::Now(comm) => comm,
            Turn::Miss => TURN_MISS,
            Turn::Later => TURN_LATER,
        })
    })
}

/// A thread of the application ends.
pub fn thread_ends(thread: u32) {
    if let State::Replaying(replay) = &mut *state() {
        replay.ends(thread);
    }
}

/// The run makes a call: `ENDED` where the record ends, and `LAST` where it has nothing behind the call.
pub fn call(thread: u32, call: &Call) -> i32 {
    ask(ENDED, |replay| {
        Ok(match replay.call(thread, call)? {
            true if replay.is_over() => LAST,
            true => 0,
            false => {
                tell_end(replay);
                ENDED
            }
        })
    })
}

/// The outcome of a call.
pub fn outcome(thread: u32, call: Option<&Call>, what: Outcome) -> (i32, [i32; 2]) {
    ask((ENDED, [0; 2]), |replay| {
        Ok(match replay.outcome(thread, call, what)? {
            Answer::Found(source, tag) => (0, [source, tag]),
            Answer::Number(number) => (0, [number, 0]),
            Answer::Miss => (MISS, [0; 2]),
            Answer::Ended => {
                tell_end(replay);
                (ENDED, [0; 2])
            }
        })
    })
}

/// The message that a posted receive got.
pub fn binding(posting: u64) -> (Binding, [i32; 2]) {
    ask((Binding::Unbound, [0; 2]), |replay| {
        Ok(match replay.binding(posting) {
            Some(Bound::To(source, tag)) => (Binding::Bound, [source, tag]),
            Some(Bound::Cancelled) => (Binding::Cancelled, [0; 2]),
            None => (Binding::Unbound, [0; 2]),
        })
    })
}

/// Compares the data that the last call sends, or has received, with the record.
pub fn digest(thread: u32, bytes: u64, crc: u32) {
    static TOLD: OnceLock<()> = OnceLock::new();
    if let Some(difference) = ask(None, |replay| replay.digest(thread, bytes, crc)) {
        TOLD.get_or_init(|| say(&difference.text_of_data(name)));
    }
}
