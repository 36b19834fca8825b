//! The clocks of the program of this rank, recorded or replayed (docs/internals/record.md). The loader serves the reads
//! (`loader::clock_log`); here are the files.
//!
//! A record begins with the program, and gets its file when MPI is initialised: until then the events are in memory. So
//! a program that only starts another one leaves no file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ::record::clocks::{path, Clock, Reads, Values};
use ::record::{Error, Header, Log, Position, Stream, Writer};
use anyhow::{bail, Context, Result};
use ckpt_image::{kind, Section, SetId};
use job_spec::Record;
use loader::clock_log::{self, Difference, Window};

use crate::console;
use crate::mpi::world;

/// Bytes of events in memory at first.
const EARLY: usize = 1 << 20;

/// Where the events are.
enum Place {
    None,
    /// In memory, because MPI is not initialised yet.
    Early(Vec<u8>),
    /// In a file, of the record with this id.
    File([u8; 16], Writer),
    /// In the record that is replayed.
    Replayed([u8; 16]),
}

static PLACE: Mutex<Place> = Mutex::new(Place::None);
/// Number of bytes of events in memory.
static COUNTED: AtomicU64 = AtomicU64::new(0);
/// In an image of before MPI_Init: the record has no id yet.
const EARLY_ID: [u8; 16] = [0; 16];

/// The number of calls of MPI that are over, once it is initialised.
static CALLS: OnceLock<fn() -> u64> = OnceLock::new();
/// A message that waits for MPI to be initialised.
static EARLY_MESSAGE: Mutex<Option<String>> = Mutex::new(None);

fn place() -> MutexGuard<'static, Place> {
    PLACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The use of the clocks of a record in a program that begins, or goes on from a checkpoint.
#[derive(Default)]
pub enum Plan {
    /// Nothing.
    #[default]
    Off,
    /// They are recorded.
    New,
    /// They are recorded on, in a file from an offset.
    GoOn(Log, u64),
    /// They are replayed, from an offset.
    Replay(Log, u64),
}

impl Plan {
    /// For a program that begins.
    pub fn of_launch(record: Option<&Record>) -> Result<Plan> {
        let (dir, rank) = match record {
            Some(Record::Write { time: true, .. }) => return Ok(Plan::New),
            None | Some(Record::Write { .. }) => return Ok(Plan::Off),
            Some(Record::Solo { dir, rank }) => (dir, *rank),
            Some(Record::Replay { dir }) => (dir, launcher::rank().unwrap_or(0)),
        };
        let log = loader::on_own_fd_table(|| Log::of_clocks(dir, rank));
        // Whether the record begins at a checkpoint is told when MPI is initialised.
        let log = log.context("no thread could be made")??;
        let log = log.filter(|log| log.header.follows == [0; 16]);
        Ok(log.map_or(Plan::Off, |log| Plan::Replay(log, 0)))
    }

    /// For a rank that goes on from a set, whose image holds this place in a record.
    pub fn of_restart(
        record: Option<&Record>,
        set: SetId,
        place: Option<&Position>,
        rank: u32,
    ) -> Result<Plan> {
        let (dir, written, time) = match record {
            None | Some(Record::Solo { .. }) => return Ok(Plan::Off),
            Some(Record::Write { dir, time, .. }) => {
                let goes_on = dir.join(::record::file_name(rank)).exists();
                (dir, Some(goes_on), *time)
            }
            Some(Record::Replay { dir }) => (dir, None, false),
        };
        let Some(log) = Log::of_clocks(dir, rank)? else {
            let lost = place.is_some_and(|place| place.id == EARLY_ID && place.offset > 0);
            return match written {
                Some(goes_on) if time && (goes_on || lost) => bail!(
                    "{} has no clocks up to this checkpoint: record them in another directory, or leave --time out",
                    dir.display()
                ),
                Some(_) if time => Ok(Plan::New),
                _ => Ok(Plan::Off),
            };
        };
        if written == Some(false) {
            bail!(Error::Exists(log.path));
        }
        let early = place.is_some_and(|place| place.id == EARLY_ID);
        if early && written.is_some() {
            // The record may be another run's. MPI_Init tells that this run has none.
            return Ok(Plan::Off);
        }
        let place = place.filter(|place| match early {
            true => log.header.follows == [0; 16],
            false => place.id == log.header.id,
        });
        let begins = (log.header.follows == set.0).then_some(0);
        let offset = place.map(|place| place.offset).or(begins);
        let offset = offset.ok_or_else(|| Error::OtherRun(dir.clone()))?;
        Ok(match written {
            Some(_) => Plan::GoOn(log, offset),
            None => Plan::Replay(log, offset),
        })
    }

    /// Carries it out, before the program is prepared or restored.
    pub fn begin(self) -> Result<()> {
        *place() = match self {
            Plan::Off => Place::None,
            Plan::New => {
                let mut events = vec![0; EARLY];
                clock_log::record(in_memory(&mut events), Values::NONE, make_room);
                Place::Early(events)
            }
            Plan::GoOn(log, offset) => {
                let mut reads = Reads::of(log.bytes());
                reads.skip_to(offset);
                let (file, end) = (log.path.clone(), reads.at as u64);
                let writer = outside(move || Writer::cut(&file, end))?;
                clock_log::record(window(&writer), reads.values, make_room);
                Place::File(log.header.id, writer)
            }
            Plan::Replay(log, offset) => {
                static LOG: OnceLock<Log> = OnceLock::new();
                let log = LOG.get_or_init(|| log);
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                clock_log::replay(log.bytes(), offset, tell);
                Place::Replayed(log.header.id)
            }
        };
        Ok(())
    }
}

/// Runs `work` where the record's files are open.
fn outside<T: Send>(work: impl FnOnce() -> ::record::Result<T> + Send) -> Result<T> {
    let done = loader::on_own_fd_table(work).context("no thread could be made")?;
    Ok(done?)
}

fn in_memory(events: &mut [u8]) -> Window {
    Window {
        address: events.as_mut_ptr() as usize,
        begin: 0,
        end: events.len() as u64,
        counted: &COUNTED,
    }
}

fn window(writer: &Writer) -> Window {
    Window {
        address: writer.window.address(),
        begin: writer.window.begin,
        end: writer.window.end(),
        counted: writer.end_word(),
    }
}

/// Makes room for events; whether there is any.
fn make_room() -> bool {
    let moved = match &mut *place() {
        Place::Early(events) => {
            events.resize(2 * events.len(), 0);
            Ok(in_memory(events))
        }
        Place::File(_, writer) => outside(|| writer.make_room()).map(|()| window(writer)),
        Place::None | Place::Replayed(_) => return false,
    };
    match moved {
        Ok(window) => clock_log::move_window(window),
        Err(why) => return give_up(&why),
    }
    true
}

fn give_up(why: &anyhow::Error) -> bool {
    console::say(
        world::rank().unwrap_or(0),
        format_args!("the clocks are not recorded from here on: {why:#}"),
    );
    false
}

/// MPI is initialised, and a record with this header begins in a directory: it gets a file with the clocks, if these
/// are recorded.
pub fn write(directory: &Path, header: &Header) {
    let mut place = place();
    let Place::Early(events) = &*place else {
        return;
    };
    let header = Header {
        stream: Stream::Clocks,
        ..header.clone()
    };
    let file: PathBuf = path(directory, header.rank);
    let counted = usize::try_from(COUNTED.load(Ordering::Acquire)).unwrap_or_default();
    let written = outside(|| {
        let mut writer = Writer::create(&file, &header)?;
        writer.append_bytes(events.get(..counted).unwrap_or_default())?;
        Ok(writer)
    });
    *place = match written {
        Ok(writer) => {
            clock_log::move_window(window(&writer));
            Place::File(header.id, writer)
        }
        Err(why) => {
            clock_log::stop();
            give_up(&why);
            Place::None
        }
    };
}

/// MPI is initialised. `calls`: the number of calls that are over.
pub fn connected(calls: fn() -> u64) {
    CALLS.get_or_init(|| calls);
    if matches!(&*place(), Place::Early(_)) {
        // There is no record for them.
        clock_log::stop();
    }
    let mut message = EARLY_MESSAGE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(text) = message.take() {
        console::say(world::rank().unwrap_or(0), text);
    }
}

/// The section of the image with the place in the clocks.
pub fn section() -> Option<Section> {
    let (id, offset) = match &*place() {
        Place::None => return None,
        Place::Early(_) => (EARLY_ID, COUNTED.load(Ordering::Acquire)),
        Place::File(id, writer) => (*id, writer.end()),
        Place::Replayed(id) => (*id, clock_log::replayed()? as u64),
    };
    let position = Position { id, offset };
    // Numbers in memory always encode.
    kind::CLOCKS.encode(&position).ok()
}

/// The program ends.
pub fn close() {
    clock_log::stop();
    if let Place::File(_, writer) = std::mem::replace(&mut *place(), Place::None) {
        // The record is whole; only space that it does not need stays allocated.
        let _ = outside(|| writer.close());
    }
}

/// The replayed run does not read the clocks as the recorded one did.
fn tell(difference: Difference) {
    let Difference { number, then, now } = difference;
    let now = named(now);
    let what = match then {
        Some(then) => format!("{} was read then, and {now} is read now", named(then)),
        None => format!("the record of the clocks ends, and {now} is read"),
    };
    let after = match CALLS.get().map_or(0, |calls| calls()) {
        0 => "before the first call of MPI".to_owned(),
        calls => format!("after call {calls}"),
    };
    let text = format!(
        "the clocks differ from the record at read {number}, {after}: {what}; from here on they are the machine's, \
         and do not go back"
    );
    match world::rank() {
        Some(rank) => console::say(rank, text),
        None => *EARLY_MESSAGE.lock().unwrap_or_else(PoisonError::into_inner) = Some(text),
    }
}

fn named(clock: Clock) -> String {
    match clock.id() {
        Some(_) => format!("clock_gettime({clock})"),
        None => clock.to_string(),
    }
}
