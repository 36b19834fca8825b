//! Synchronous sends at the cut. A drain pulls every message, and to the sender's library a pulled message is received.
//! For the application its send is complete only when a receive has asked for it (MPI 4.0, section 3.4): a program may
//! take the completion of its synchronous sends for the end of its messages (Hoefler et al., *Scalable communication
//! protocols for dynamic sparse data exchange*, PPoPP 2010).
//!
//! So no message of a rank that sends synchronously is pulled before all ranks have stopped
//! (`pt2pt/synchronous_sends.rs`). A send that ends before that is complete. One that ends later is *settled* when all
//! messages are there: its sender asks the receiver. If the message is an early message there, the receiver gives a
//! receipt when a receive asks for it (`pt2pt/receipts.rs`). Otherwise the send is complete.
//!
//! # Safety
//! The lower half reads and writes the boxes of [`Part`] until their operations are over. They are leaked where a drain
//! is given up before that.
#![allow(unsafe_code)]

use crate::object::comm::internal::internal_world;
use crate::object::comm::peer_of;
use crate::object::lower_handle::{named, Slot};
use crate::object::request::synchronous::{self, Question};
use crate::object::unexpected::{self, Queue};
use crate::object::RequestBody;
use crate::quiesce::internal_handles::as_bytes;
use crate::request::lifecycle::finish_send;
use contract::abi::{Status, SUCCESS};
use core::ffi::c_void;
use std::collections::BTreeMap;

/// Tags of two drains in a row differ, so that nothing that one has left behind is taken for a message of another.
const DRAINS: u64 = 0x1000;

/// A message of the settlement.
struct Part<T> {
    rank: u32,
    data: Box<[T]>,
    request: Slot<RequestBody>,
}

impl<T: Copy> Part<T> {
    /// Starts to send `data` to a world rank.
    fn send(rank: u32, tag: i32, data: Box<[T]>) -> Result<Part<T>, i32> {
        Part::start(rank, tag, data, true)
    }

    /// Starts to receive `number` of them from a world rank.
    fn receive(rank: u32, tag: i32, number: usize, blank: T) -> Result<Part<T>, i32> {
        Part::start(rank, tag, vec![blank; number].into(), false)
    }

    fn start(rank: u32, tag: i32, data: Box<[T]>, sends: bool) -> Result<Part<T>, i32> {
        let mut part = Part {
            rank,
            data,
            request: Slot::empty(),
        };
        let (data, comm) = (part.data.as_mut_ptr().cast::<c_void>(), internal_world());
        let (peer, place) = (rank as i32, part.request.place());
        let error = as_bytes(size_of_val(&*part.data), |count, datatype| {
            // SAFETY: the box has that many bytes, and nobody else uses it meanwhile, see the module's head.
            unsafe {
                match sends {
                    true => named::MPI_Isend(data, count, datatype, peer, tag, comm, place),
                    false => named::MPI_Irecv(data, count, datatype, peer, tag, comm, place),
                }
            }
        });
        match error {
            SUCCESS => Ok(part),
            error => Err(error),
        }
    }
}

/// Parts whose operations may be under way. They are leaked if they are not over.
struct Parts<T>(Vec<Part<T>>);

impl<T> Parts<T> {
    /// Waits for all of them.
    fn finish(&mut self, look: &mut impl FnMut() -> Result<(), i32>) -> Result<Vec<Part<T>>, i32> {
        for part in &mut self.0 {
            loop {
                let (mut flag, mut status) = (0, Status::EMPTY);
                let error = named::MPI_Test(&mut part.request, &mut flag, Some(&mut status));
                if error != SUCCESS {
                    return Err(error);
                }
                if flag != 0 {
                    break;
                }
                look()?;
            }
        }
        Ok(core::mem::take(&mut self.0))
    }
}

impl<T> Drop for Parts<T> {
    fn drop(&mut self) {
        core::mem::forget(core::mem::take(&mut self.0));
    }
}

fn parts<T>(made: impl Iterator<Item = Result<Part<T>, i32>>) -> Result<Parts<T>, i32> {
    let mut parts = Parts(Vec::new());
    for part in made {
        parts.0.push(part?);
    }
    Ok(parts)
}

/// Numbers of questions that this rank has for each rank.
pub(crate) fn questions_for(ranks: usize) -> Vec<u64> {
    let questions = synchronous::questions();
    let number = |rank| questions.get(&rank).map_or(0, Vec::len) as u64;
    (0..ranks as u32).map(number).collect()
}

/// Settles the sends of this rank, and answers the questions of others: `asked` has for each rank how many it has. All
/// messages are here. `look` lets other ranks go on, and says when to give up. `number` is that of the drain.
pub(crate) fn settle(
    asked: &[u64],
    number: u64,
    mut look: impl FnMut() -> Result<(), i32>,
) -> Result<(), i32> {
    let blank = Question {
        comm: 0,
        tag: 0,
        later: 0,
        send: 0,
    };
    let tag = ((number % DRAINS) * 2) as i32;
    let own = synchronous::questions();
    let numbers = asked.iter().enumerate().filter(|(_, number)| **number > 0);
    let mut from_others = parts(
        numbers.map(|(rank, number)| Part::receive(rank as u32, tag, *number as usize, blank)),
    )?;
    let answers = own
        .iter()
        .map(|(rank, questions)| Part::receive(*rank, tag + 1, questions.len(), 0_u8));
    let mut answers = parts(answers)?;
    let to_others = own
        .iter()
        .map(|(rank, questions)| Part::send(*rank, tag, questions.as_slice().into()));
    let mut to_others = parts(to_others)?;
    let from_others = from_others.finish(&mut look)?;
    let mut queue = unexpected::queue();
    let given = from_others
        .iter()
        .map(|part| Part::send(part.rank, tag + 1, answers_to(part, &mut queue)));
    let mut given = parts(given)?;
    drop(queue);
    to_others.finish(&mut look)?;
    given.finish(&mut look)?;
    let answers: BTreeMap<u32, Box<[u8]>> = answers
        .finish(&mut look)?
        .into_iter()
        .map(|part| (part.rank, part.data))
        .collect();
    for (rank, questions) in own {
        let answers = answers.get(&rank).map_or(&[][..], |answers| answers);
        for (question, answer) in questions.iter().zip(answers) {
            if let Some(request) = synchronous::answered(question.send, *answer != 0) {
                finish_send(request);
            }
        }
    }
    Ok(())
}

/// The drain is given up: sends that the library has finished are complete.
pub(crate) fn give_up() {
    for request in synchronous::unanswered() {
        finish_send(request);
    }
}

/// The answers to a rank's questions: 1 for an early message, for which a receipt is due from now on.
fn answers_to(questions: &Part<Question>, queue: &mut Queue) -> Box<[u8]> {
    let asker = questions.rank;
    let mut answer = |question: &Question| {
        let entries = queue.entries.iter_mut().filter(|entry| {
            let envelope = entry.envelope;
            entry.comm().body.id == question.comm
                && i64::from(envelope.tag) == question.tag
                && peer_of(entry.comm(), envelope.source) == asker
        });
        // The latest first: all that were sent later over the route are early messages, too.
        let asked_for = usize::try_from(question.later).ok();
        match asked_for.and_then(|later| entries.rev().nth(later)) {
            Some(entry) => {
                entry.receipt = Some((asker, question.send));
                1
            }
            None => 0,
        }
    };
    questions.data.iter().map(&mut answer).collect()
}
