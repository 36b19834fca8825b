//! The unexpected queue: early messages, which were pulled out of the lower half while a checkpoint was pending and
//! which no receive of the application had asked for. They are kept as packed bytes with their envelope, in the order
//! of their arrival. They are matched before anything in the lower half: all that a later receive could match there was
//! sent after them.
//!
//! `quiesce/unexpected.rs` pulls messages and delivers them.

use crate::object::comm::{Comm, CommBody};
use crate::object::lower_handle::Slot;
use crate::object::RequestBody;
use crate::runtime::lock::{Guard, Lock};
use contract::abi::{Status, ANY_SOURCE, ANY_TAG, SUCCESS};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;

/// Whom a message is from, as receives match it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// Index of the communicator.
    pub(crate) comm: u32,
    pub(crate) source: i32,
    pub(crate) tag: i32,
}

impl Envelope {
    /// Whether a receive with these arguments (wildcards allowed) takes the message.
    pub(crate) fn matches(&self, comm: u32, source: i32, tag: i32) -> bool {
        self.comm == comm
            && (source == ANY_SOURCE || source == self.source)
            && (tag == ANY_TAG || tag == self.tag)
    }
}

/// One early message.
pub(crate) struct Entry {
    pub(crate) envelope: Envelope,
    comm: &'static Comm,
    pub(crate) bytes: Vec<u8>,
    pub(crate) stage: Stage,
    pub(crate) error: i32,
    /// Of a synchronous message: the world rank of its sender, and the send. The sender is told when a receive has
    /// asked for the message.
    pub(crate) receipt: Option<(u32, u64)>,
}

/// How far an early message has come.
pub(crate) enum Stage {
    /// Nobody else can have it, and no memory was to be had for it.
    Matched { message: usize, length: usize },
    /// This receive fills `bytes`.
    Arriving(Slot<RequestBody>),
    /// This receive fills the buffer of the receive that the message is for.
    Direct(Slot<RequestBody>),
    /// In `bytes`.
    Here,
    /// In the buffer of the receive that it is for.
    Delivered(Status),
}

impl Entry {
    /// Takes what the lower half has matched as `message`, of which `status` tells, in hand.
    pub(crate) fn matched(comm: &'static Comm, status: &Status, message: usize) -> Box<Entry> {
        comm.retain();
        let envelope = Envelope {
            comm: comm.index(),
            source: status.source,
            tag: status.tag,
        };
        let length = usize::try_from(status.count).unwrap_or(usize::MAX);
        Box::new(Entry {
            envelope,
            comm,
            bytes: Vec::new(),
            stage: Stage::Matched { message, length },
            error: SUCCESS,
            receipt: None,
        })
    }

    /// The communicator that it came over.
    pub(crate) fn comm(&self) -> &'static Comm {
        self.comm
    }

    /// What a probe tells of it.
    pub(crate) fn status(&self) -> Status {
        let length = match self.stage {
            Stage::Matched { length, .. } => length,
            Stage::Arriving(_) => self.bytes.capacity(),
            Stage::Direct(_) | Stage::Here => self.bytes.len(),
            Stage::Delivered(status) => return status,
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
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.comm.release();
    }
}

/// The early messages, oldest first.
pub(crate) struct Queue {
    pub(crate) entries: VecDeque<Box<Entry>>,
}

static QUEUE: Lock<Queue> = Lock::new(Queue {
    entries: VecDeque::new(),
});

pub(crate) static QUEUED: AtomicUsize = AtomicUsize::new(0);

/// Number of messages in the queue.
pub(crate) fn queued() -> u64 {
    QUEUED.load(Ordering::Relaxed) as u64
}

/// Whether there are early messages at all: the one question on the hot path.
#[inline(always)]
pub(crate) fn any() -> bool {
    QUEUED.load(Ordering::Relaxed) != 0
}

/// The queue. A thread that is not the only one to receive holds it while posting a receive, so that no
/// message is pulled between the look into the queue and the posting.
pub(crate) fn queue() -> Guard<'static, Queue> {
    QUEUE.lock()
}

/// Takes away what is below a communicator whose last reference is gone. No thread pulls from it afterwards, nor is one
/// doing so.
pub(crate) fn leave(comm: &'static Comm) -> Slot<CommBody> {
    let _nobody_pulls = queue();
    comm.leave()
}

impl Queue {
    /// Drops all messages.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        QUEUED.store(0, Ordering::Relaxed);
    }

    /// The position of the first message that a receive takes which wants this. Source and tag may be wildcards.
    pub(crate) fn first(&self, wants: Envelope) -> Option<usize> {
        first_match(
            self.entries.iter().map(|entry| entry.envelope),
            wants.comm,
            wants.source,
            wants.tag,
        )
    }

    fn position(&self, comm: &'static Comm, source: i32, tag: i32) -> Option<usize> {
        self.first(Envelope {
            comm: comm.index(),
            source,
            tag,
        })
    }

    /// The first message that a receive with these arguments takes, left where it is.
    pub(crate) fn find(&self, comm: &'static Comm, source: i32, tag: i32) -> Option<&Entry> {
        let position = self.position(comm, source, tag)?;
        self.entries.get(position).map(|entry| &**entry)
    }

    /// Takes the first message that a receive with these arguments takes.
    pub(crate) fn take(
        &mut self,
        comm: &'static Comm,
        source: i32,
        tag: i32,
    ) -> Option<Box<Entry>> {
        let position = self.position(comm, source, tag)?;
        self.take_at(position)
    }

    /// Takes the message at a position.
    pub(crate) fn take_at(&mut self, position: usize) -> Option<Box<Entry>> {
        let entry = self.entries.remove(position);
        QUEUED.store(self.entries.len(), Ordering::Relaxed);
        entry
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
