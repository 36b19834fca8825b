//! Services: functions of the lower half that are not MPI functions. They have the first slots of the gate's table.
//! Those that came when these were full have the last ones, downwards.
//!
//! All are `extern "C"`, and the upper half calls them by a crossing. A *lower handle* is a handle of the lower half,
//! zero-extended to 64 bits.

use crate::abi::Status;
use crate::record::Call;
use crate::SLOTS;

/// First slot of an MPI function.
pub const FIRST_MPI_SLOT: usize = 32;
/// First slot behind those of MPI functions.
pub const END_OF_MPI_SLOTS: usize = SLOTS - 32;

/// Result of a service that stops waiting because a checkpoint is pending. MPI's error classes are not negative, so it
/// is none of them.
pub const INTERRUPTED: i32 = -1;

/// Slots of the services. The type of each has the same name.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// [`Predefined`]
    Predefined = 0,
    /// [`Init`]
    Init = 1,
    /// [`Finalize`]
    Finalize = 2,
    /// [`Recv`]
    Recv = 3,
    /// [`Probe`]
    Probe = 4,
    /// [`Mprobe`]
    Mprobe = 5,
    /// [`WaitOne`]
    WaitOne = 6,
    /// [`WaitAll`]
    WaitAll = 7,
    /// [`WaitAny`]
    WaitAny = 8,
    /// [`WaitSome`]
    WaitSome = 9,
    /// [`Notify`]
    Notify = 10,
    /// [`ClockTarget`]
    ClockTarget = 11,
    /// [`Fatal`]
    Fatal = 12,
    /// [`OpCreate`]
    OpCreate = 13,
    /// [`OpRelease`]
    OpRelease = 14,
    /// [`Yield`]
    Yield = 15,
    /// [`Message`]
    Message = 16,
    /// [`ErrorString`]
    ErrorString = 17,
    /// [`CallEnded`]
    CallEnded = 18,
    /// [`Synchronize`]
    Synchronize = 19,
    /// [`MapPeer`]
    MapPeer = 20,
    /// [`UnmapPeer`]
    UnmapPeer = 21,
    /// [`StagesBegin`]
    StagesBegin = 22,
    /// [`StagesWrite`]
    StagesWrite = 23,
    /// [`StagesRead`]
    StagesRead = 24,
    /// [`SendReceive`]
    SendReceive = 25,
    /// [`RecordRoom`]
    RecordRoom = 26,
    /// [`ReplayCall`]
    ReplayCall = 27,
    /// [`ReplayOutcome`]
    ReplayOutcome = 28,
    /// [`ReplayBinding`]
    ReplayBinding = 29,
    /// [`ReplayDigest`]
    ReplayDigest = 30,
    /// [`ToolOptions`]
    ToolOptions = 31,
    /// [`ReplayTurn`]
    ReplayTurn = SLOTS - 1,
}

/// Kind of an MPI object.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum HandleKind {
    Comm = 0,
    Group = 1,
    Datatype = 2,
    Op = 3,
    Errhandler = 4,
    Info = 5,
    Request = 6,
    Message = 7,
    Win = 8,
    File = 9,
    Session = 10,
}

/// `(kind, standard value) -> lower handle`: returns the library's handle of a predefined object, or `usize::MAX` if
/// the library does not have the object.
pub type Predefined = unsafe extern "C" fn(kind: u32, standard: usize) -> usize;

/// `(required level, provided out, tag_ub out) -> error class`: calls MPI_Init_thread with a standard thread level. It
/// sets `gate.lower.{rank,size}`, sets MPI_ERRORS_RETURN on MPI_COMM_WORLD and MPI_COMM_SELF, and connects the rank's
/// agent to the coordinator.
pub type Init = unsafe extern "C" fn(required: i32, provided: *mut i32, tag_ub: *mut i32) -> i32;

/// `() -> error class`: calls MPI_Finalize.
pub type Finalize = unsafe extern "C" fn() -> i32;

/// `(buf, count, datatype, source, tag, comm, status, request) -> error class`: receives a message. After
/// [`INTERRUPTED`] the receive is still posted, and `*request` is its lower handle.
pub type Recv =
    unsafe extern "C" fn(*mut u8, i32, usize, i32, i32, usize, *mut Status, *mut usize) -> i32;

/// A message that [`SendReceive`] sends or receives.
#[repr(C)]
#[allow(missing_docs)] // parameters of MPI_Send and MPI_Recv
pub struct ExchangedMessage {
    pub buffer: *mut u8,
    pub datatype: usize,
    pub count: i32,
    pub peer: i32,
    pub tag: i32,
}

/// Argument of [`SendReceive`].
#[repr(C)]
pub struct Exchange {
    /// The message to send.
    pub sent: ExchangedMessage,
    /// The message to receive.
    pub received: ExchangedMessage,
    /// Communicator of both.
    pub comm: usize,
    /// Lower handle of the receive, written when the service returns [`INTERRUPTED`].
    pub request: usize,
    /// Error class of the send, written when it has returned.
    pub send_error: i32,
}

const _: () = assert!(core::mem::size_of::<ExchangedMessage>() == 32);
const _: () = assert!(core::mem::size_of::<Exchange>() == 88);
const _: () = assert!(core::mem::offset_of!(ExchangedMessage, tag) == 24);
const _: () = assert!(core::mem::offset_of!(Exchange, comm) == 64);
const _: () = assert!(core::mem::offset_of!(Exchange, send_error) == 80);

/// `(messages, status) -> error class`: posts a receive, sends a message, and waits for the receive. After
/// [`INTERRUPTED`] the receive is still posted. A send that fails interrupts the service, too.
pub type SendReceive = unsafe extern "C" fn(*mut Exchange, *mut Status) -> i32;

/// `(source, tag, comm, status) -> error class`: waits until a message matches, or returns [`INTERRUPTED`].
pub type Probe = unsafe extern "C" fn(i32, i32, usize, *mut Status) -> i32;

/// `(source, tag, comm, message out, status) -> error class`: matched probe. It waits until a message matches, or
/// returns [`INTERRUPTED`].
pub type Mprobe = unsafe extern "C" fn(i32, i32, usize, *mut usize, *mut Status) -> i32;

/// `(request, status) -> error class`: waits for one request. A completed request becomes the null handle, unless it is
/// persistent.
pub type WaitOne = unsafe extern "C" fn(*mut usize, *mut Status) -> i32;

/// `(n, requests, statuses) -> error class`: waits for `n` requests. After [`INTERRUPTED`] no request has been
/// completed.
pub type WaitAll = unsafe extern "C" fn(i32, *mut usize, *mut Status) -> i32;

/// `(n, requests, index out, status) -> error class`: waits for one of `n` requests. The index is the standard's
/// MPI_UNDEFINED if no request is active.
pub type WaitAny = unsafe extern "C" fn(i32, *mut usize, *mut i32, *mut Status) -> i32;

/// `(n, requests, outcount out, indices out, statuses) -> error class`: waits for at least one of `n` requests.
pub type WaitSome = unsafe extern "C" fn(i32, *mut usize, *mut i32, *mut i32, *mut Status) -> i32;

/// Notifies the agent that clocks or the activity report have changed.
pub type Notify = unsafe extern "C" fn();

/// `(clock id) -> target`: returns the target of a communicator that was created while a checkpoint is pending, or 0 if
/// it has none. It may block until the targets of the pending checkpoint are known. With the id 0 it only waits for
/// them, and returns 0. In the phase `Run` and for the id [`crate::TARGETS_ARE_KNOWN`] it returns at once.
pub type ClockTarget = unsafe extern "C" fn(u64) -> u64;

/// `(text, length, exit code)`: prints the text with the rank and the program on standard error, and calls MPI_Abort.
pub type Fatal = unsafe extern "C" fn(*const u8, usize, i32) -> !;

/// `(callback, data, commute) -> lower handle`: makes an MPI_Op whose function calls `callback(data, invec, inoutvec,
/// len, lower handle of the datatype)` in the upper half. `usize::MAX` means that there are too many.
pub type OpCreate = unsafe extern "C" fn(OpCallback, usize, i32) -> usize;

/// Upper-half function that applies a user-defined operation.
pub type OpCallback = unsafe extern "C" fn(usize, *mut u8, *mut u8, i32, usize);

/// `(lower handle)`: frees an operation that [`OpCreate`] made.
pub type OpRelease = unsafe extern "C" fn(usize);

/// Yields the processor once, so that a parked rank does not starve the others on its node.
pub type Yield = unsafe extern "C" fn();

/// `(text, length)`: prints a line with the rank on standard error.
pub type Message = unsafe extern "C" fn(*const u8, usize);

/// `(buf, len) -> length`: writes the library's text for the last call that failed on this thread, and returns its
/// length.
pub type ErrorString = unsafe extern "C" fn(*mut u8, usize) -> usize;

/// Called at the end of the application's call of an MPI function on this thread, if the thread block has
/// [`crate::TELL_CALLS`].
pub type CallEnded = unsafe extern "C" fn();

/// `() -> number of threads`: waits until each other thread has been outside of MPI, parked, or in a function of the
/// lower half that waits. It returns the number of threads that were in MPI when the wait began.
pub type Synchronize = unsafe extern "C" fn() -> u32;

/// `(process, descriptor, bytes, mark) -> address`: maps shared memory that another process on this node holds under a
/// descriptor. The mapping is in the lower half, so no image contains it. Returns 0 if the memory cannot be mapped, or
/// if its first eight bytes are not the mark. The slot is 0 in lower halves that are older than this service.
pub type MapPeer = unsafe extern "C" fn(i32, i32, usize, u64) -> usize;

/// `(address, bytes)`: removes a mapping of [`MapPeer`].
pub type UnmapPeer = unsafe extern "C" fn(usize, usize);

/// `(epoch out, incarnation out) -> whether the job runs under MPI Stages`: the epoch from which the ranks go on (0 for
/// none), and the number of the job's start.
pub type StagesBegin = unsafe extern "C" fn(*mut u64, *mut u32) -> i32;

/// `(epoch, bytes, length) -> 0 or an error class`: keeps the state of MPI in this rank at the end of an epoch. A
/// failure is printed.
pub type StagesWrite = unsafe extern "C" fn(u64, *const u8, usize) -> i32;

/// `(epoch, buf, len) -> length`: reads that state, as much as the buffer holds. `usize::MAX` if it cannot be read,
/// which is printed.
pub type StagesRead = unsafe extern "C" fn(u64, *mut u8, usize) -> usize;

/// `(tool, buf, len) -> length`: reads the options of a tool, as much as the buffer holds. The
/// tool is its bit of [`crate::TOOLS`].
pub type ToolOptions = unsafe extern "C" fn(u32, *mut u8, usize) -> usize;
/// `() -> whether there is room`: moves the window of [`crate::record::Record`] to the end of the record, with room for
/// events. If there is none, nothing is recorded any more, which is printed.
pub type RecordRoom = unsafe extern "C" fn() -> i32;

/// `(number of the thread, whether its call is a test or probe) -> `[`crate::record::TURN_MISS`]`, or
/// `[`crate::record::TURN_LATER`]`, or a communicator`: whether it is the turn of a thread to ask for its next event.
/// That has its order among the events over this communicator (see [`crate::record::Call::comm`]).
pub type ReplayTurn = extern "C" fn(u32, i32) -> u64;

/// `(number of the thread, call) -> 0, `[`crate::record::LAST`]` or `[`crate::record::ENDED`]: the thread makes a call.
/// If the record has another one, the job ends.
pub type ReplayCall = unsafe extern "C" fn(u32, *const Call) -> i32;

/// `(number of the thread, call or null, a `[`crate::record::Outcome`]`, two numbers out) -> 0,
/// `[`crate::record::MISS`]` or `[`crate::record::ENDED`]: the outcome of a call. The call is not null where it was
/// recorded with an outcome only.
pub type ReplayOutcome = unsafe extern "C" fn(u32, *const Call, u32, *mut i32) -> i32;

/// `(number of a posted receive, two numbers out) -> a `[`crate::record::Binding`]: what it got, by source and tag.
pub type ReplayBinding = unsafe extern "C" fn(u64, *mut i32) -> i32;

/// `(number of the thread, bytes, CRC-32)`: compares the data that the thread's last call sends, or a message that it
/// completes, with the record. The first difference is printed.
pub type ReplayDigest = unsafe extern "C" fn(u32, u64, u32);
