//! Early messages: pulling them out of the lower half while a checkpoint is pending, and delivering them to receives.
//! The queue is in `object/unexpected.rs`.
//!
//! A pulled message may still be arriving: the drain waits for its bytes, others look now and then. To its sender's
//! library it is received. `settlement.rs` has what that means for synchronous sends.
//!
//! # Safety
//! `Entry` owns the memory into which the lower half receives, and does not move it: entries are boxed, and one is
//! dropped only when its bytes have arrived and were delivered.
#![allow(unsafe_code)]

use crate::crossing::call_guard::record;
use crate::crossing::stubs::service;
use crate::object::comm::internal::internal_self;
use crate::object::comm::peer_of;
use crate::object::lower_handle::{named, Below, Slot};
use crate::object::unexpected::{Entry, Queue, Stage, QUEUED};
use crate::object::{Comm, Datatype, DatatypeBody};
use crate::quiesce::{bookmarks, internal_handles};
use crate::runtime::lock::Lock;
use contract::abi::{Status, ANY_SOURCE, ANY_TAG, ERR_NO_MEM, ERR_TRUNCATE, ERR_TYPE, SUCCESS};
use contract::recorder::Event;
use contract::synchronous_sends_clock;
use core::ffi::c_void;
use core::sync::atomic::Ordering;

/// Where a message's bytes are. An empty vector's pointer is not null but 1, MPI_IN_PLACE.
fn address(bytes: *mut u8, length: usize) -> *mut c_void {
    if length == 0 {
        core::ptr::null_mut()
    } else {
        bytes.cast()
    }
}

impl Entry {
    /// Begins to receive into `bytes`, if memory for them is to be had.
    fn begin(&mut self, mut message: usize, length: usize) -> Result<(), i32> {
        let room = self.bytes.try_reserve_exact(length);
        room.map_err(|_| ERR_NO_MEM)?;
        let receive = Slot::empty();
        let buffer = address(self.bytes.as_mut_ptr(), length);
        let error = internal_handles::as_bytes(length, |count, datatype| {
            // SAFETY: room for `length` bytes, which stays until the receive is finished; the message is used up.
            unsafe { named::MPI_Imrecv(buffer, count, datatype, &raw mut message, receive.place()) }
        });
        if error != SUCCESS {
            return Err(error);
        }
        self.stage = Stage::Arriving(receive);
        Ok(())
    }

    /// Whether all bytes are there. An error if they have no place: the message waits, and is asked for again.
    pub(crate) fn look(&mut self) -> Result<bool, i32> {
        if let Stage::Matched { message, length } = self.stage {
            self.begin(message, length)?;
        }
        let (Stage::Arriving(receive) | Stage::Direct(receive)) = &mut self.stage else {
            return Ok(true);
        };
        let (mut flag, mut status) = (0, Status::EMPTY);
        let error = named::MPI_Test(receive, &mut flag, Some(&mut status));
        if flag == 0 && error == SUCCESS {
            return Ok(false);
        }
        self.error = error;
        if let Stage::Direct(_) = self.stage {
            self.stage = Stage::Delivered(status);
            return Ok(true);
        }
        self.stage = Stage::Here;
        let received = usize::try_from(status.count).unwrap_or(0);
        // SAFETY: the lower half wrote that many bytes; capacity is the message's length.
        unsafe { self.bytes.set_len(received.min(self.bytes.capacity())) };
        Ok(true)
    }

    /// Tells it the buffer that it is for; whether [`Self::deliver`] may be called.
    ///
    /// # Safety
    /// The buffer is one that MPI may receive into until then.
    pub(crate) unsafe fn is_for(
        &mut self,
        buffer: *mut c_void,
        count: i32,
        datatype: &'static Datatype,
    ) -> bool {
        if let Stage::Matched { mut message, .. } = self.stage {
            let receive = Slot::empty();
            // SAFETY: the message is ours and used up; the caller's buffer.
            self.error = unsafe {
                named::MPI_Imrecv(buffer, count, datatype, &raw mut message, receive.place())
            };
            self.stage = match self.error {
                SUCCESS => Stage::Direct(receive),
                _ => Stage::Here,
            };
        }
        self.look() == Ok(true)
    }

    /// Puts the arrived message into a buffer of the application. The lower half does it, since any datatype will
    /// do.
    ///
    /// # Safety
    /// The buffer is the one of [`Self::is_for`].
    pub(crate) unsafe fn deliver(
        &self,
        buffer: *mut c_void,
        count: i32,
        datatype: &'static Datatype,
        status: &mut Status,
    ) -> i32 {
        *status = self.status();
        if self.error != SUCCESS || matches!(self.stage, Stage::Delivered(_)) {
            return self.error;
        }
        let Ok(size) = usize::try_from(datatype.body.size()) else {
            return ERR_TYPE;
        };
        let room = usize::try_from(count).unwrap_or(0).saturating_mul(size);
        let length = self.bytes.len().min(room);
        // SAFETY: room for `length` bytes.
        let error = unsafe { self.put(length, size, buffer, count, datatype) };
        status.count = length as u64;
        if error == SUCCESS && length < self.bytes.len() {
            return ERR_TRUNCATE;
        }
        error
    }

    /// Puts the first `length` bytes into elements of `size` bytes of data.
    unsafe fn put(
        &self,
        length: usize,
        size: usize,
        buffer: *mut c_void,
        count: i32,
        datatype: &'static Datatype,
    ) -> i32 {
        if length == 0 {
            return SUCCESS;
        }
        let from = address(self.bytes.as_ptr().cast_mut(), length);
        let bytes = i32::try_from(length)
            .ok()
            .filter(|_| length.is_multiple_of(size));
        if let Some(bytes) = bytes {
            let mut position = 0;
            // A message may be unpacked, whatever it was sent as (MPI 4.0, section 5.2). It needs none of what the
            // library has for messages, which a process at its limit of memory does not get.
            // SAFETY: reads `bytes` bytes of ours into as many of the caller's, in whole elements.
            return unsafe {
                named::MPI_Unpack(
                    from,
                    bytes,
                    &raw mut position,
                    buffer,
                    (length / size) as i32,
                    datatype,
                    internal_self(),
                )
            };
        }
        internal_handles::as_bytes(length, |number, bytes| {
            // SAFETY: sends `length` bytes of ours to ourselves, into room for as many.
            unsafe { to_ourselves((from, number, bytes), (buffer, count, datatype)) }
        })
    }
}

/// Data below: where, how many elements, and their datatype.
type Data<D> = (*mut c_void, i32, D);

/// Copies data, whatever their datatypes: by a message to ourselves.
///
/// # Safety
/// As much may be read from the one as the other is, which may be written.
pub(crate) unsafe fn to_ourselves(
    from: Data<impl Below<DatatypeBody>>,
    to: Data<impl Below<DatatypeBody>>,
) -> i32 {
    static ALONE: Lock<()> = Lock::new(());
    let _alone = ALONE.lock();
    let mut below = Status::EMPTY;
    // SAFETY: the caller's promise, and a place for a status.
    unsafe {
        named::MPI_Sendrecv(
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
            internal_self(),
            &raw mut below,
        )
    }
}

/// Whether a world rank has made a synchronous send before the pending checkpoint's targets.
fn sends_synchronously(rank: u32) -> bool {
    service::clock_target(synchronous_sends_clock(rank)) != 0
}

impl Queue {
    /// Pulls every message that can be pulled from `comm`; they count as received.
    pub(crate) fn pull(&mut self, comm: &'static Comm) -> Result<(), i32> {
        self.pull_from(ANY_SOURCE, comm)
    }

    fn pull_from(&mut self, source: i32, comm: &'static Comm) -> Result<(), i32> {
        while let Some(entry) = self.match_next(source, comm)? {
            entry.look()?;
        }
        Ok(())
    }

    /// The same for messages of ranks that do not send synchronously.
    pub(crate) fn pull_unsynchronous(&mut self, comm: &'static Comm) -> Result<(), i32> {
        loop {
            let (mut flag, mut status) = (0, Status::EMPTY);
            let error = named::MPI_Iprobe(ANY_SOURCE, ANY_TAG, comm, &mut flag, Some(&mut status));
            if error != SUCCESS {
                return Err(error);
            }
            if flag == 0 {
                return Ok(());
            }
            if sends_synchronously(peer_of(comm, status.source)) {
                break;
            }
            if let Some(entry) = self.match_next(status.source, comm)? {
                entry.look()?;
            }
        }
        // The first message stays, and hides those of other ranks.
        let others = (0..comm.body.peer_count())
            .filter(|source| !sends_synchronously(peer_of(comm, *source)));
        for source in others {
            self.pull_from(source, comm)?;
        }
        Ok(())
    }

    /// Takes the next message from `source` over `comm` in hand, if there is one; it counts as received. Its data stay
    /// where they are.
    pub(crate) fn match_next(
        &mut self,
        source: i32,
        comm: &'static Comm,
    ) -> Result<Option<&mut Entry>, i32> {
        let (mut flag, mut message, mut status) = (0, Slot::empty(), Status::EMPTY);
        let error = named::MPI_Improbe(
            source,
            ANY_TAG,
            comm,
            &mut flag,
            &mut message,
            Some(&mut status),
        );
        if error != SUCCESS {
            return Err(error);
        }
        if flag == 0 {
            return Ok(None);
        }
        record(Event::Pulled, [status.source as u64, status.count]);
        let entry = Entry::matched(comm, &status, message.into_word());
        bookmarks::received(peer_of(comm, status.source));
        bookmarks::count_progress();
        self.entries.push_back(entry);
        QUEUED.store(self.entries.len(), Ordering::Relaxed);
        Ok(self.entries.back_mut().map(|entry| &mut **entry))
    }

    /// Looks at messages that are still arriving; whether all have arrived.
    pub(crate) fn look(&mut self) -> Result<bool, i32> {
        let mut all = true;
        for entry in &mut self.entries {
            all &= entry.look()?;
        }
        Ok(all)
    }
}
