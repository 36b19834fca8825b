//! Early messages: those that were pulled out of the lower half while a checkpoint was pending and
//! that no receive of the application had asked for. They are kept as packed bytes with their
//! envelope, in the order of their arrival, and are matched before anything in the lower half:
//! whatever a later receive could match there was sent after them.
//!
//! A pulled message may still be arriving: the drain waits for its bytes, others look now and then.
//! To its sender it is received: a synchronous send completes a little earlier than the receiver
//! asks for it, which only a program could tell that relies on being blocked.
//!
//! # Safety
//! `Entry` owns the memory into which the lower half receives, and does not move it: entries are
//! boxed, and one is dropped only when its bytes have arrived and were delivered.
#![allow(unsafe_code)]

use super::{counts, sweep, words};
use crate::lower;
use crate::object::{Comm, Datatype};
use crate::sync::{Guard, Lock};
use contract::abi::{Status, ANY_SOURCE, ANY_TAG, ERR_NO_MEM, ERR_TRUNCATE, ERR_TYPE, SUCCESS};
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;

/// Whom a message is from, as receives match it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    /// Index of the communicator.
    pub(super) comm: u32,
    pub(super) source: i32,
    pub(super) tag: i32,
}

impl Envelope {
    /// Whether a receive with these arguments (wildcards allowed) takes the message.
    pub(super) fn matches(&self, comm: u32, source: i32, tag: i32) -> bool {
        self.comm == comm
            && (source == ANY_SOURCE || source == self.source)
            && (tag == ANY_TAG || tag == self.tag)
    }
}

/// One early message.
pub(super) struct Entry {
    pub(super) envelope: Envelope,
    comm: &'static Comm,
    bytes: Vec<u8>,
    /// Word of the receive that fills `bytes`, while it is under way.
    arriving: Option<usize>,
    error: i32,
}

/// Where a message's bytes are. An empty vector's pointer is not null but 1, MPI_IN_PLACE.
fn address(bytes: *mut u8, length: usize) -> *mut c_void {
    if length == 0 {
        core::ptr::null_mut()
    } else {
        bytes.cast()
    }
}

impl Entry {
    /// Takes the message that the lower half's `message` stands for, of which `status` tells.
    ///
    /// # Safety
    /// `message` is a matched message in the lower half; it is used up.
    pub(super) unsafe fn pull(
        comm: &'static Comm,
        status: &Status,
        message: &mut usize,
    ) -> Result<Box<Entry>, i32> {
        let length = usize::try_from(status.count).map_err(|_| ERR_NO_MEM)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| ERR_NO_MEM)?;
        let mut word = 0;
        let buffer = address(bytes.as_mut_ptr(), length);
        // SAFETY: room for `length` bytes, which stays until the receive is finished.
        let error = unsafe {
            words::as_bytes(length, |count, datatype| {
                lower::MPI_Imrecv(buffer, count, datatype, message, &raw mut word)
            })
        };
        if error != SUCCESS {
            return Err(error);
        }
        comm.retain();
        let envelope = Envelope {
            comm: comm.index(),
            source: status.source,
            tag: status.tag,
        };
        let mut entry = Box::new(Entry {
            envelope,
            comm,
            bytes,
            arriving: Some(word),
            error: SUCCESS,
        });
        // SAFETY: the word is that of the receive just posted.
        unsafe { entry.look() };
        Ok(entry)
    }

    /// Whether all bytes are there.
    ///
    /// # Safety
    /// Crosses.
    pub(super) unsafe fn look(&mut self) -> bool {
        let Some(word) = &mut self.arriving else {
            return true;
        };
        let (mut flag, mut status) = (0, Status::EMPTY);
        // SAFETY: the word of our own receive.
        let error = unsafe { lower::MPI_Test(word, &raw mut flag, &raw mut status) };
        if flag == 0 && error == SUCCESS {
            return false;
        }
        self.arriving = None;
        self.error = error;
        let received = usize::try_from(status.count).unwrap_or(0);
        // SAFETY: the lower half wrote that many bytes; capacity is the message's length.
        unsafe { self.bytes.set_len(received.min(self.bytes.capacity())) };
        true
    }

    /// What a probe tells of it.
    pub(super) fn status(&self) -> Status {
        let length = match self.arriving {
            Some(_) => self.bytes.capacity(),
            None => self.bytes.len(),
        };
        Status {
            source: self.envelope.source,
            tag: self.envelope.tag,
            error: SUCCESS,
            cancelled: 0,
            count: length as u64,
            reserved: 0,
        }
    }

    /// Puts the arrived message into a buffer of the application. Any datatype will do, since the
    /// lower half does it: a message to ourselves, sent as bytes.
    ///
    /// # Safety
    /// The buffer is one that MPI may receive `count` of `datatype` into. Crosses.
    pub(super) unsafe fn deliver(
        &self,
        buffer: *mut c_void,
        count: i32,
        datatype: &'static Datatype,
        status: &mut Status,
    ) -> i32 {
        *status = self.status();
        if self.error != SUCCESS {
            return self.error;
        }
        let Ok(size) = usize::try_from(datatype.body.size()) else {
            return ERR_TYPE;
        };
        let room = usize::try_from(count).unwrap_or(0).saturating_mul(size);
        let length = self.bytes.len().min(room);
        // SAFETY: sends `length` bytes of ours to ourselves, into room for as many.
        let error = unsafe {
            words::as_bytes(length, |number, bytes| {
                let from = address(self.bytes.as_ptr().cast_mut(), length);
                to_ourselves((from, number, bytes), (buffer, count, datatype.lower()))
            })
        };
        status.count = length as u64;
        if error == SUCCESS && length < self.bytes.len() {
            return ERR_TRUNCATE;
        }
        error
    }
}

/// Data below: where, how many elements, and the word of their datatype.
pub(super) type Data = (*mut c_void, i32, usize);

/// Copies data, whatever their datatypes: by a message to ourselves.
///
/// # Safety
/// As much may be read from the one as the other is, which may be written. Crosses.
pub(super) unsafe fn to_ourselves(from: Data, to: Data) -> i32 {
    static ALONE: Lock<()> = Lock::new(());
    let _alone = ALONE.lock();
    let mut below = Status::EMPTY;
    // SAFETY: the caller's promise, and a place for a status.
    unsafe {
        lower::MPI_Sendrecv(
            from.0,
            from.1,
            from.2,
            0,
            0,
            to.0,
            to.1,
            to.2,
            0,
            0,
            words::internal_self(),
            &raw mut below,
        )
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.comm.release();
    }
}

/// The early messages, oldest first.
pub(super) struct Queue {
    entries: VecDeque<Box<Entry>>,
}

static QUEUE: Lock<Queue> = Lock::new(Queue {
    entries: VecDeque::new(),
});
static QUEUED: AtomicUsize = AtomicUsize::new(0);

/// Whether there are early messages at all: the one question on the hot path.
#[inline(always)]
pub(super) fn any() -> bool {
    QUEUED.load(Ordering::Relaxed) != 0
}

/// The queue. Whoever may receive in several threads holds it while posting a receive, so that no
/// message is pulled between the look into the queue and the posting.
pub(super) fn queue() -> Guard<'static, Queue> {
    QUEUE.lock()
}

/// Takes the word of a communicator away whose last reference is gone. No thread pulls from it
/// afterwards, nor is one doing so.
pub(crate) fn leave(comm: &'static Comm) -> usize {
    let _nobody_pulls = queue();
    // SAFETY: the caller frees it at once.
    let word = unsafe { comm.lower() };
    comm.clear_lower();
    word
}

impl Queue {
    fn position(&self, comm: &'static Comm, source: i32, tag: i32) -> Option<usize> {
        first_match(
            self.entries.iter().map(|entry| entry.envelope),
            comm.index(),
            source,
            tag,
        )
    }

    /// The first message that a receive with these arguments takes, left where it is.
    pub(super) fn find(&self, comm: &'static Comm, source: i32, tag: i32) -> Option<&Entry> {
        let position = self.position(comm, source, tag)?;
        self.entries.get(position).map(|entry| &**entry)
    }

    /// Takes the first message that a receive with these arguments takes.
    pub(super) fn take(
        &mut self,
        comm: &'static Comm,
        source: i32,
        tag: i32,
    ) -> Option<Box<Entry>> {
        let position = self.position(comm, source, tag)?;
        let entry = self.entries.remove(position);
        QUEUED.store(self.entries.len(), Ordering::Relaxed);
        entry
    }

    /// Pulls every message that can be pulled from `comm`; they count as received.
    ///
    /// # Safety
    /// Crosses.
    pub(super) unsafe fn pull(&mut self, comm: &'static Comm) -> Result<(), i32> {
        loop {
            let (mut flag, mut message, mut status) = (0, 0, Status::EMPTY);
            // SAFETY: writes the three variables.
            let error = unsafe {
                lower::MPI_Improbe(
                    ANY_SOURCE,
                    ANY_TAG,
                    comm.lower(),
                    &raw mut flag,
                    &raw mut message,
                    &raw mut status,
                )
            };
            if error != SUCCESS {
                return Err(error);
            }
            if flag == 0 {
                return Ok(());
            }
            // SAFETY: the message was matched just now.
            let entry = unsafe { Entry::pull(comm, &status, &mut message)? };
            counts::received(counts::peer_of(comm, status.source));
            sweep::news();
            self.entries.push_back(entry);
            QUEUED.store(self.entries.len(), Ordering::Relaxed);
        }
    }

    /// Looks at messages that are still arriving; whether all have arrived.
    ///
    /// # Safety
    /// Crosses.
    pub(super) unsafe fn look(&mut self) -> bool {
        let mut all = true;
        for entry in &mut self.entries {
            // SAFETY: passed on to the caller.
            all &= unsafe { entry.look() };
        }
        all
    }
}

/// Position of the first envelope that a receive with these arguments takes.
fn first_match(
    envelopes: impl Iterator<Item = Envelope>,
    comm: u32,
    source: i32,
    tag: i32,
) -> Option<usize> {
    envelopes
        .enumerate()
        .find(|(_, envelope)| envelope.matches(comm, source, tag))
        .map(|(position, _)| position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Vec<Envelope> {
        [(1, 0, 7), (1, 1, 7), (2, 0, 7), (1, 0, 8), (1, 1, 7)]
            .map(|(comm, source, tag)| Envelope { comm, source, tag })
            .to_vec()
    }

    fn first(comm: u32, source: i32, tag: i32) -> Option<usize> {
        first_match(queue().into_iter(), comm, source, tag)
    }

    #[test]
    fn the_oldest_match_wins() {
        assert_eq!(first(1, 1, 7), Some(1));
        assert_eq!(first(1, 0, 8), Some(3));
        assert_eq!(first(2, 0, 7), Some(2));
    }

    #[test]
    fn wildcards_take_what_came_first() {
        assert_eq!(first(1, ANY_SOURCE, ANY_TAG), Some(0));
        assert_eq!(first(1, 1, ANY_TAG), Some(1));
        assert_eq!(first(1, ANY_SOURCE, 8), Some(3));
        assert_eq!(first(2, ANY_SOURCE, ANY_TAG), Some(2));
    }

    #[test]
    fn nothing_matches_across_communicators_or_to_no_process() {
        assert_eq!(first(3, ANY_SOURCE, ANY_TAG), None);
        assert_eq!(first(2, 1, 7), None);
        assert_eq!(first(1, contract::abi::PROC_NULL, ANY_TAG), None);
    }
}
