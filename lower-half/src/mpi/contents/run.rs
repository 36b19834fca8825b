//! The recorded run, and the run that is answered from its record. A crossing of the recorded run is written when the
//! library has returned. A run of one rank alone takes the crossings in order, and ends where it makes another one.
//!
//! Only one thread is recorded: with several, the order of their calls would have to be enforced. A run whose crossings
//! a checkpoint may change is recorded up to there.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use ::record::contents::{Reader, Writer, CALLBACK, END};
use contract::{abi, gate, HandleKind, FREED_RECEIVE, INTERRUPTED};

use super::callback;
use super::io::{take, Io, Trouble};
use super::pending::Pendings;
use crate::mpi::hooks::{hooks, Ending};
use crate::mpi::user_op::Applied;
use crate::mpi::{predefined, slot_name};

/// Bit of an event's slot: the call looked for something and found nothing.
const MISS: u32 = 1 << 30;

/// Most looks that found nothing and that the record does not have which are answered in a row.
const MOST_MISSES: u32 = 4 << 20;

#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off = 0,
    Record = 1,
    Answer = 2,
}

static MODE: AtomicU32 = AtomicU32::new(Mode::Off as u32);
/// Whether a checkpoint, or `stasis explain`, has begun.
static DISTURBED: AtomicBool = AtomicBool::new(false);
/// Whether the recorded thread is in the library.
static INSIDE: AtomicBool = AtomicBool::new(false);

fn is(mode: Mode) -> bool {
    MODE.load(Ordering::Acquire) == mode as u32
}

fn set(mode: Mode) {
    MODE.store(mode as u32, Ordering::Release);
}

/// The recorded run.
struct Recorded {
    writer: Writer,
    thread: ThreadId,
    pendings: Pendings,
    made: usize,
}

/// The run that is answered.
struct Answered {
    reader: Reader,
    /// How often the next event was taken.
    taken: u32,
    /// The event that was taken last, if it was a look in vain, and how often it was taken beyond the record.
    last_miss: Option<(u32, Vec<u8>, u32)>,
    pendings: Pendings,
    made: usize,
}

static RECORDED: Mutex<Option<Recorded>> = Mutex::new(None);
static ANSWERED: Mutex<Option<Answered>> = Mutex::new(None);

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records crossings of this thread from now on.
pub fn record(writer: Writer) {
    *lock(&RECORDED) = Some(Recorded {
        writer,
        thread: thread::current().id(),
        pendings: Pendings::default(),
        made: 0,
    });
    set(Mode::Record);
}

/// Answers crossings from a record from now on.
pub fn answer(reader: Reader) {
    *lock(&ANSWERED) = Some(Answered {
        reader,
        taken: 0,
        last_miss: None,
        pendings: Pendings::default(),
        made: 0,
    });
    set(Mode::Answer);
}

/// A checkpoint begins, or a question of the agent. To be called before the upper half can see it.
pub fn disturb() {
    DISTURBED.store(true, Ordering::SeqCst);
}

/// A crossing: with arguments that must be those of the recorded run, the call of the library, and what that writes.
pub fn crossing(
    slot: usize,
    key: &[i64],
    real: impl FnOnce() -> i32,
    outs: impl FnOnce(&mut Io),
) -> i32 {
    if is(Mode::Off) {
        real()
    } else if is(Mode::Answer) {
        answered(slot as u32, key, outs)
    } else if let Some(why) = hindrance() {
        end(why);
        real()
    } else {
        recorded(slot as u32, key, real, outs)
    }
}

/// A call whose results cannot be recorded.
pub fn refused(slot: usize, real: impl FnOnce() -> i32) -> i32 {
    if is(Mode::Answer) {
        return answered(slot as u32, &[], |_| ());
    }
    if is(Mode::Record) {
        end(&format!(
            "the program called {}, which is not recorded",
            name(slot as u32)
        ));
    }
    real()
}

/// The communicator that the library has in the place of one that was answered from the record.
pub fn live_comm(comm: usize) -> usize {
    match is(Mode::Answer) {
        true => predefined::lower(HandleKind::Comm as u32, abi::comm::COMM_WORLD),
        false => comm,
    }
}

/// MPI is about to be finalised.
pub fn finish(slot: usize) {
    crossing(slot, &[], || abi::SUCCESS, |_| ());
    set(Mode::Off);
    if let Some(recorded) = lock(&RECORDED).take() {
        // The record is whole; only space that it does not need stays allocated.
        let _ = outside(|| recorded.writer.close());
    }
}

/// The reason why the thread's next crossing cannot be recorded.
fn hindrance() -> Option<&'static str> {
    if DISTURBED.load(Ordering::SeqCst) {
        return Some("a checkpoint was taken, or `stasis explain` asked, which changes calls");
    }
    if gate().lower.features.load(Ordering::Relaxed) & FREED_RECEIVE != 0 {
        return Some("the program freed the request of a receive under way (MPI_Request_free), whose data come unseen");
    }
    let recorded = lock(&RECORDED);
    if recorded.as_ref()?.thread != thread::current().id() {
        return Some("a second thread called MPI, and only one can be run alone");
    }
    let nested = INSIDE.load(Ordering::Relaxed);
    nested.then_some("an operation of the program called MPI")
}

fn recorded(slot: u32, key: &[i64], real: impl FnOnce() -> i32, outs: impl FnOnce(&mut Io)) -> i32 {
    INSIDE.store(true, Ordering::Relaxed);
    let result = real();
    INSIDE.store(false, Ordering::Relaxed);
    if let Some(why) = hindrance() {
        end(why);
        return result;
    }
    if result == INTERRUPTED {
        end("a message could not be sent");
        return result;
    }
    let mut state = lock(&RECORDED);
    let Some(recorded) = state.as_mut() else {
        return result;
    };
    let mut io = Io::write(result, &mut recorded.pendings, &mut recorded.made);
    io.number(|| key.len() as i64);
    for number in key {
        io.number(|| *number);
    }
    io.result();
    outs(&mut io);
    let written = io.written();
    let told = match written {
        Ok((bytes, is_miss)) => {
            let slot = if is_miss { slot | MISS } else { slot };
            append(&mut recorded.writer, slot, &bytes)
        }
        Err(_) => Err(format!(
            "the MPI library does not pack the data of {}",
            name(slot)
        )),
    };
    drop(state);
    if let Err(why) = told {
        end(&why);
    }
    result
}

fn append(writer: &mut Writer, slot: u32, bytes: &[u8]) -> Result<(), String> {
    if !writer.fits(bytes.len()) {
        let made = outside(|| writer.make_room(bytes.len()));
        made.map_err(|why| why.to_string())?;
    }
    writer.append(slot, bytes);
    Ok(())
}

/// Runs `work` where the file is open.
fn outside(work: impl FnOnce() -> ::record::Result<()> + Send) -> anyhow::Result<()> {
    Ok(loader::on_own_fd_table(work)??)
}

/// Nothing is recorded any more, for this reason.
fn end(why: &str) {
    set(Mode::Off);
    let Some(mut recorded) = lock(&RECORDED).take() else {
        return;
    };
    let _ = append(&mut recorded.writer, END, why.as_bytes());
    let _ = outside(|| recorded.writer.close());
    (hooks().contents_end)(why);
}

/// A user-defined operation is about to be applied.
pub fn note_callback(applied: &Applied) {
    if !is(Mode::Record) || !INSIDE.load(Ordering::Relaxed) {
        return;
    }
    let mut state = lock(&RECORDED);
    let Some(recorded) = state.as_mut() else {
        return;
    };
    let written = callback::event(applied);
    let told = match written {
        Some(bytes) => append(&mut recorded.writer, CALLBACK, &bytes),
        None => Err(
            "an operation of the program was applied to data that cannot be recorded".to_owned(),
        ),
    };
    drop(state);
    if let Err(why) = told {
        end(&why);
    }
}

/// The next crossing of the record must be this one.
fn answered(slot: u32, key: &[i64], outs: impl FnOnce(&mut Io)) -> i32 {
    loop {
        let mut state = lock(&ANSWERED);
        let Some(answered) = state.as_mut() else {
            return abi::ERR_INTERN;
        };
        match answered.turn(slot, key) {
            Turn::Callback(bytes) => {
                drop(state);
                if callback::apply(&bytes).is_none() {
                    ended(Ending::Damaged(
                        "an operation of the program cannot be applied as in the recorded run"
                            .to_owned(),
                    ));
                }
            }
            Turn::Crossing(bytes) => {
                let mut io = Io::read(&bytes, &mut answered.pendings, &mut answered.made);
                let numbers = io.number(|| 0);
                for _ in 0..numbers {
                    io.number(|| 0);
                }
                io.result();
                outs(&mut io);
                let read = io.was_read();
                drop(state);
                return read.unwrap_or_else(|trouble: Trouble| {
                    ended(Ending::Damaged(format!(
                        "{} cannot be answered from the record ({trouble:?})",
                        name(slot)
                    )))
                });
            }
            Turn::End(ending) => {
                drop(state);
                ended(ending)
            }
        }
    }
}

fn ended(ending: Ending) -> ! {
    (hooks().solo_ended)(ending)
}

/// The next thing to do.
enum Turn {
    Crossing(Vec<u8>),
    Callback(Vec<u8>),
    End(Ending),
}

impl Answered {
    fn turn(&mut self, slot: u32, key: &[i64]) -> Turn {
        loop {
            let event = match self.reader.peek() {
                Ok(Some(event)) => event,
                Ok(None) => {
                    let why = "the recorded run was ended there, and not by the program";
                    return Turn::End(Ending::Record(why.to_owned()));
                }
                Err(why) => return Turn::End(Ending::Damaged(why.to_string())),
            };
            let (its_slot, repeated) = (event.slot, event.repeated);
            if its_slot == END {
                let why = String::from_utf8_lossy(event.content).into_owned();
                return Turn::End(Ending::Record(why));
            }
            if its_slot == CALLBACK {
                let bytes = event.content.to_vec();
                self.take(repeated);
                return Turn::Callback(bytes);
            }
            if its_slot & !MISS == slot && key_of(event.content).as_deref() == Some(key) {
                let bytes = event.content.to_vec();
                let is_miss = its_slot & MISS != 0;
                self.last_miss = is_miss.then(|| (slot, bytes.clone(), 0));
                self.take(repeated);
                return Turn::Crossing(bytes);
            }
            // How often a program looks may depend on its time: fewer looks than recorded, and more, are right.
            if its_slot & MISS != 0 && self.taken > 0 {
                self.taken = 0;
                self.reader.advance();
                continue;
            }
            if let Some((last, bytes, more)) = &mut self.last_miss {
                if *last == slot && key_of(bytes).as_deref() == Some(key) && *more < MOST_MISSES {
                    *more += 1;
                    return Turn::Crossing(bytes.clone());
                }
            }
            let then = described(its_slot & !MISS, &key_of(event.content).unwrap_or_default());
            return Turn::End(Ending::Other(then, described(slot, key)));
        }
    }

    /// The next event is taken once.
    fn take(&mut self, repeated: u32) {
        self.taken += 1;
        if self.taken >= repeated {
            self.taken = 0;
            self.reader.advance();
        }
    }
}

/// The MPI function of a slot, for messages.
fn name(slot: u32) -> String {
    let name = slot_name::mpi_function(slot as usize);
    name.map_or_else(|| format!("function {slot}"), str::to_owned)
}

/// The arguments in an event.
fn key_of(mut content: &[u8]) -> Option<Vec<i64>> {
    let numbers = take(&mut content)?;
    (0..numbers).map(|_| take(&mut content)).collect()
}

fn described(slot: u32, key: &[i64]) -> String {
    let key: Vec<String> = key.iter().map(i64::to_string).collect();
    match key.is_empty() {
        true => name(slot),
        false => format!("{} with the arguments {}", name(slot), key.join(", ")),
    }
}
