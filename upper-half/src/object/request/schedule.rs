//! A collective operation that is reduced to messages: rounds of sends and receives, and what is done with the data
//! when those of a round are complete.

use crate::argument::Buffer;
use crate::crossing::namespace::Namespace;
use crate::object::request::Request;
use crate::object::table::ObjectRef;
use crate::object::Comm;
use crate::object::{CommBody, Datatype, DatatypeBody, Op, OpBody};
use std::collections::VecDeque;

/// Elements of a datatype in a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Data {
    pub(crate) buffer: Buffer<'static>,
    pub(crate) count: i64,
    pub(crate) datatype: &'static Datatype,
}

/// A message of a round.
pub(crate) enum Message {
    Send(Data, i32),
    Receive(Data, i32),
}

/// Work on the data of a round.
pub(crate) enum Step {
    Copy {
        from: Data,
        into: Data,
    },
    /// `into` becomes `from` OP `into`.
    Combine {
        from: Data,
        into: Data,
        op: &'static Op,
    },
}

/// Messages that are under way together, and what follows.
#[derive(Default)]
pub(crate) struct Round {
    pub(crate) messages: Vec<Message>,
    pub(crate) steps: Vec<Step>,
}

/// The objects that a schedule keeps alive: the application may free its objects before the operation ends.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) _comm: Option<ObjectRef<CommBody>>,
    pub(crate) datatypes: Vec<ObjectRef<DatatypeBody>>,
    pub(crate) op: Option<ObjectRef<OpBody>>,
    /// Memory of intermediate results.
    pub(crate) rooms: Vec<Box<[u128]>>,
}

/// An operation: its rounds that have not begun, and the messages of the one that is under way.
pub struct Schedule {
    /// Where the messages go, and their tag; no communicator if there are none.
    pub(crate) channel: Option<&'static Comm>,
    pub(crate) tag: i32,
    pub(crate) rounds: VecDeque<Round>,
    pub(crate) under_way: Vec<&'static Request>,
    /// The rounds after the messages under way.
    pub(crate) steps: Vec<Step>,
    pub(crate) kept: Kept,
    /// The functions by which its messages are made, if a profiler is to see them. They may not be called by a sweep.
    pub(crate) visible: Option<&'static Namespace>,
    /// Brings the operation forward if its messages are complete; its error code when it is over.
    pub(crate) advance: fn(&mut Schedule) -> Option<i32>,
}
