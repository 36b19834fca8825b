//! The flight recorder: a ring with the last events of a rank, in memory that both halves and every signal handler
//! may write without a lock.
//!
//! The lower half owns the memory and stores its address in [`crate::Gate::recorder`]. Images do not hold it: the
//! address is zero while memory is copied, so that an upper half which wakes up under another lower half never writes
//! through an old one. Nothing is recorded while the address is zero.
//!
//! A writer takes a ticket, marks the slot as busy, writes the slot and stores its ticket last. An event is being
//! written while its slot has another ticket, or while the ticket changes. Readers drop such a slot. While a writer is
//! held up until others have filled the whole ring, those of them that come to its slot leave their events out.
//!
//! To add an event: a variant of [`Event`] at the end, a line in [`EVENTS`], and a call of [`record`].

use core::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

/// Events that the ring holds.
pub const SLOTS: usize = 4096;

/// Kind of an event. The comment of each names its arguments.
#[repr(u16)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The agent entered a phase: a [`crate::Phase`].
    Phase = 1,
    /// A thread parked before a collective operation: the communicator's id, the operation's number.
    Parked = 2,
    /// It goes on: the same.
    Unparked = 3,
    /// A wait has yielded its processor many times in vain: the yields.
    Blocked = 4,
    /// Such a wait ended: its yields.
    Unblocked = 5,
    /// The drain began: messages in the queue of unexpected messages.
    DrainBegan = 6,
    /// The drain ended: the error class (0 for success), messages in the queue.
    DrainEnded = 7,
    /// A message was pulled out of the library: the source (its rank in the communicator), bytes.
    Pulled = 8,
    /// A signal of the application is delivered: its number.
    Signal = 9,
    /// The signal that stops threads came: 1 if the thread stops later, because it is in an MPI call.
    StopSignal = 10,
    /// The agent asked all threads to stop.
    StopBegan = 11,
    /// All threads are stopped: 1, or 0 if that failed.
    Stopped = 12,
    /// The memory is copied, and threads may go on.
    Copied = 13,
    /// The image is written: bytes.
    Saved = 14,
    /// The checkpoint is over: 1 if it was committed.
    Over = 15,
    /// The objects of MPI are created again after a restart: 0 at the beginning, 1 at the end.
    Restored = 16,
    /// `MPI_Init` returned (1), or `MPI_Finalize` began (2).
    Mpi = 17,
}

/// All events, with the name that people see and those of the arguments.
pub const EVENTS: &[(Event, &str, [&str; 2])] = &[
    (Event::Phase, "phase", ["phase", ""]),
    (Event::Parked, "parked", ["communicator", "operation"]),
    (Event::Unparked, "unparked", ["communicator", "operation"]),
    (Event::Blocked, "blocked", ["yields", ""]),
    (Event::Unblocked, "unblocked", ["yields", ""]),
    (Event::DrainBegan, "drain-began", ["queued", ""]),
    (Event::DrainEnded, "drain-ended", ["error", "queued"]),
    (Event::Pulled, "pulled", ["source", "bytes"]),
    (Event::Signal, "signal", ["number", ""]),
    (Event::StopSignal, "stop-signal", ["in-call", ""]),
    (Event::StopBegan, "stop-began", ["", ""]),
    (Event::Stopped, "stopped", ["done", ""]),
    (Event::Copied, "copied", ["", ""]),
    (Event::Saved, "saved", ["bytes", ""]),
    (Event::Over, "over", ["committed", ""]),
    (Event::Restored, "restored", ["done", ""]),
    (Event::Mpi, "mpi", ["state", ""]),
];

/// One event, as it lies in the ring.
#[repr(C)]
pub struct Slot {
    /// The event's number, counted from 1; [`BUSY`] while it is written.
    pub ticket: AtomicU64,
    /// Time stamp counter of the processor.
    pub time: AtomicU64,
    /// Low half: an [`Event`]. High half: the thread's id; 0 for the agent.
    pub what: AtomicU64,
    /// Its arguments.
    pub arguments: [AtomicU64; 2],
}

/// Ticket of a slot that is being written.
const BUSY: u64 = u64::MAX;

/// The ring. Zeroed memory is an empty one.
#[repr(C)]
pub struct Recorder {
    /// [`MAGIC`], once it may be read.
    pub magic: AtomicU64,
    /// The rank; `u32::MAX` before MPI has told.
    pub rank: AtomicU32,
    /// The process.
    pub process: AtomicU32,
    /// Two moments by the time stamp counter, and by the clock (nanoseconds since 1970): they tell its speed.
    pub moments: [[AtomicU64; 2]; 2],
    /// Tickets given out.
    pub next: AtomicU64,
    /// The events.
    pub slots: [Slot; SLOTS],
}

/// `b"STASISR1"` as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"STASISR1");

const _: () = assert!(core::mem::size_of::<Slot>() == 40);
const _: () = assert!(core::mem::offset_of!(Recorder, moments) == 16);
const _: () = assert!(core::mem::offset_of!(Recorder, next) == 48);
const _: () = assert!(core::mem::offset_of!(Recorder, slots) == 56);

/// One event, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Its number, counted from 1.
    pub ticket: u64,
    /// Time stamp counter.
    pub time: u64,
    /// The number of the [`Event`]: a newer build may have written one that this build does not know.
    pub event: u16,
    /// The thread's id; 0 for the agent.
    pub thread: u32,
    /// Its arguments.
    pub arguments: [u64; 2],
}

impl Recorder {
    /// Adds an event, unless another writer has been held up in its slot.
    pub fn add(&self, time: u64, thread: u32, event: Event, arguments: [u64; 2]) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = &self.slots[ticket as usize % SLOTS];
        // Acquire: the stores below come after those of the slot's last writer.
        if slot.ticket.swap(BUSY, Ordering::Acquire) == BUSY {
            return;
        }
        // No part of the event may be seen with the ticket of the one before.
        fence(Ordering::Release);
        slot.time.store(time, Ordering::Relaxed);
        let what = event as u64 | u64::from(thread) << 32;
        slot.what.store(what, Ordering::Relaxed);
        slot.arguments[0].store(arguments[0], Ordering::Relaxed);
        slot.arguments[1].store(arguments[1], Ordering::Relaxed);
        slot.ticket.store(ticket + 1, Ordering::Release);
    }

    /// The last events, at most `most`, oldest first.
    pub fn last(&self, most: usize) -> impl Iterator<Item = Read> + '_ {
        let end = self.next.load(Ordering::Acquire);
        let begin = end.saturating_sub(most.min(SLOTS) as u64);
        (begin..end).filter_map(|index| self.read(index))
    }

    fn read(&self, index: u64) -> Option<Read> {
        let slot = &self.slots[index as usize % SLOTS];
        let ticket = slot.ticket.load(Ordering::Acquire);
        let what = slot.what.load(Ordering::Relaxed);
        let read = Read {
            ticket,
            time: slot.time.load(Ordering::Relaxed),
            event: what as u16,
            thread: (what >> 32) as u32,
            arguments: [
                slot.arguments[0].load(Ordering::Relaxed),
                slot.arguments[1].load(Ordering::Relaxed),
            ],
        };
        fence(Ordering::Acquire);
        let same = slot.ticket.load(Ordering::Relaxed) == ticket;
        (same && ticket == index + 1).then_some(read)
    }
}

/// The processor's time stamp counter: the one clock that needs no call, from any half and any handler.
pub fn now() -> u64 {
    #[allow(
        unsafe_code,
        reason = "reads a register; every processor with a time stamp counter lets programs do so"
    )]
    // SAFETY: no memory is involved. PR_SET_TSC, which forbids it, is refused to the application.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

/// Records an event of thread `thread` (0 for the agent) of this process, if there is a recorder.
pub fn record(thread: u32, event: Event, arguments: [u64; 2]) {
    let address = crate::gate().recorder.load(Ordering::Acquire);
    if address == 0 {
        return;
    }
    #[allow(
        unsafe_code,
        reason = "the recorder is found by its address, as the gate is"
    )]
    // SAFETY: the lower half stores the address of a Recorder that it never unmaps, and zero before the memory that
    // holds the address is copied: see this file's head.
    let recorder = unsafe { &*(address as *const Recorder) };
    recorder.add(now(), thread, event, arguments);
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;
    use std::vec::Vec;

    fn empty() -> Box<Recorder> {
        #[allow(
            unsafe_code,
            reason = "zero is valid for all of its fields, which are atomics"
        )]
        // SAFETY: see the reason.
        unsafe {
            Box::new_zeroed().assume_init()
        }
    }

    #[test]
    fn every_event_is_listed_once_in_order() {
        for (index, (event, name, _)) in EVENTS.iter().enumerate() {
            assert_eq!(*event as usize, index + 1, "{name}");
        }
    }

    #[test]
    fn the_last_events_come_back_in_order() {
        let recorder = empty();
        assert_eq!(recorder.last(10).count(), 0);
        let events = SLOTS as u64 + 10;
        for number in 0..events {
            recorder.add(number, 7, Event::Pulled, [number, 2 * number]);
        }
        let read: Vec<Read> = recorder.last(SLOTS).collect();
        assert_eq!(read.len(), SLOTS);
        for (read, number) in read.iter().zip(10..) {
            let expected = Read {
                ticket: number + 1,
                time: number,
                event: Event::Pulled as u16,
                thread: 7,
                arguments: [number, 2 * number],
            };
            assert_eq!(*read, expected);
        }
        assert_eq!(
            recorder.last(3).map(|read| read.time).min(),
            Some(events - 3)
        );
    }

    #[test]
    fn an_event_that_is_being_written_is_left_out() {
        let recorder = empty();
        recorder.add(1, 0, Event::Phase, [1, 0]);
        recorder.add(2, 0, Event::Phase, [2, 0]);
        recorder.slots[0].ticket.store(BUSY, Ordering::Relaxed);
        let times = || recorder.last(SLOTS).map(|read| read.time);
        assert_eq!(times().collect::<Vec<_>>(), [2]);
        // A round later its writer has not come to an end.
        let last = SLOTS as u64 + 2;
        for number in 3..=last {
            recorder.add(number, 0, Event::Phase, [number, 0]);
        }
        let without = last - 1;
        assert!(times().eq((3..=last).filter(|number| *number != without)));
    }

    #[test]
    fn no_event_is_torn_while_threads_write() {
        let recorder: &'static Recorder = Box::leak(empty());
        let writers: Vec<_> = (1..=4)
            .map(|thread| {
                std::thread::spawn(move || {
                    for number in 0..50_000 {
                        recorder.add(
                            number,
                            thread,
                            Event::Signal,
                            [number, number ^ u64::from(thread)],
                        );
                    }
                })
            })
            .collect();
        let check = || {
            for read in recorder.last(SLOTS) {
                assert_eq!(read.arguments[0], read.time);
                assert_eq!(read.arguments[1], read.time ^ u64::from(read.thread));
            }
        };
        while writers.iter().any(|writer| !writer.is_finished()) {
            check();
        }
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        check();
        assert_eq!(recorder.next.load(Ordering::Relaxed), 200_000);
    }
}
