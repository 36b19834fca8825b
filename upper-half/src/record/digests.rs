//! Digests of the data of messages. They are taken when the application learns that a message is complete, and before
//! one is sent: only then its buffer is defined.
//!
//! # Safety
//! The front promises that a buffer is valid, see [`Buffer`]; a complete message has filled as much as its status says.
#![allow(unsafe_code)]

use crate::argument::Buffer;
use crate::datatype::extent::is_contiguous;
use crate::object::comm::CommBody;
use crate::object::request::collective_result::CollectiveResult;
use crate::object::request::pair::SendCopy;
use crate::object::request::{Args, Kind, State};
use crate::object::{Comm, Datatype, DatatypeBody, ObjectRef, Request};
use crate::record::{log, turns};
use contract::abi::{Status, PROC_NULL};
use std::rc::Rc;

/// Whether the data of any message have a digest.
#[inline]
pub(super) fn are_taken() -> bool {
    log::digest_limit() != 0
}

/// Writes or compares the digest of data that is sent, or of the result of a collective operation.
pub(super) fn of_data(
    buffer: Buffer<'_>,
    count: i64,
    datatype: &'static Datatype,
    comm: &'static Comm,
) {
    if let Some((bytes, crc)) = digest(buffer, count, datatype, comm) {
        turns::digest(bytes, crc, None);
    }
}

/// Bytes and CRC-32 of data, unless they are too many. Data that cannot be packed have none, in any run.
fn digest(
    buffer: Buffer<'_>,
    count: i64,
    datatype: &'static Datatype,
    comm: &'static Comm,
) -> Option<(u64, u32)> {
    let bytes = count.saturating_mul(datatype.body.size());
    let bytes = u64::try_from(bytes).ok()?;
    if bytes >= log::digest_limit() {
        return None;
    }
    if bytes == 0 {
        return Some((0, crc32fast::hash(&[])));
    }
    if is_contiguous(datatype) {
        return Some((bytes, of_bytes(buffer, bytes as usize)));
    }
    let count = i32::try_from(count).ok()?;
    let args = Args::new(buffer_of(buffer), count, datatype, PROC_NULL, 0, comm);
    let packed = SendCopy::of(&args).ok()?;
    let length = usize::try_from(packed.count).unwrap_or(0);
    (packed.datatype.body.size() == 1).then(|| (bytes, of_bytes(packed.buffer, length)))
}

fn of_bytes(buffer: Buffer<'_>, length: usize) -> u32 {
    // SAFETY: see the head.
    let data = unsafe { core::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), length) };
    crc32fast::hash(data)
}

fn buffer_of(buffer: Buffer<'_>) -> Buffer<'static> {
    // SAFETY: the copy is used while the caller has the buffer.
    unsafe { crate::argument::pass(crate::argument::App(buffer.as_ptr())) }
}

/// Where an operation puts what it gets.
enum Place {
    /// A receive its message.
    Message {
        args: Args,
        /// The request may be gone by then.
        _kept: (ObjectRef<DatatypeBody>, ObjectRef<CommBody>),
    },
    /// A collective operation its result.
    Result(Rc<CollectiveResult>),
}

/// The places of receives and collective operations, noted before the call that completes them.
pub(super) struct Places(Vec<Option<Place>>);

impl Places {
    /// Of these requests; of none without digests.
    pub(super) fn of(requests: &[&'static Request]) -> Places {
        if !are_taken() {
            return Places(Vec::new());
        }
        Places(requests.iter().map(|request| place(request)).collect())
    }

    /// The request with this index is complete, with this status.
    pub(super) fn complete(&self, index: usize, status: &Status) {
        match self.0.get(index) {
            Some(Some(Place::Message { args, .. })) => {
                of_message(args.buffer, args.datatype, args.comm, status);
            }
            Some(Some(Place::Result(result))) => of_data(
                result.buffer,
                result.count,
                result.datatype.object(),
                result.comm.object(),
            ),
            _ => {}
        }
    }
}

/// Writes or compares the digest of what a receive got.
pub(super) fn of_message(
    buffer: Buffer<'_>,
    datatype: &'static Datatype,
    comm: &'static Comm,
    status: &Status,
) {
    if status.source == PROC_NULL || status.cancelled != 0 {
        return;
    }
    let size = u64::try_from(datatype.body.size()).unwrap_or(0);
    let count = status.count.checked_div(size).unwrap_or(0);
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    if let Some((bytes, crc)) = digest(buffer, count, datatype, comm) {
        turns::digest(bytes, crc, Some((status.source, status.tag)));
    }
}

fn place(request: &'static Request) -> Option<Place> {
    if let Some(pair) = request.pair() {
        return place(pair.main);
    }
    let body = &request.body;
    let kind = body.kind.get();
    if kind == Kind::Collective {
        return request.kept_result().map(Place::Result);
    }
    let receives = kind.is_receive() || kind == Kind::Matched;
    let is_receive = receives && body.state.get() != State::Inactive;
    is_receive.then(|| {
        let args = body.args.get();
        Place::Message {
            args,
            _kept: (ObjectRef::new(args.datatype), ObjectRef::new(args.comm)),
        }
    })
}
