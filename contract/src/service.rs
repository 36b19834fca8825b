//! The lower half's services beside the MPI functions: the first slots of the gate's table.
//! All are `extern "C"` and are called through a crossing; words are lower handles.

use crate::abi::Status;

/// First slot that belongs to an MPI function of the table.
pub const FIRST_MPI_SLOT: usize = 32;

/// Returned by a waiting service that came back because a checkpoint is pending (never an MPI
/// error class: those are not negative).
pub const INTERRUPTED: i32 = -1;

/// Slot numbers of the services, with the type of each.
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
    /// [`Settle`]
    Settle = 19,
}

/// Kind of a predefined object, for [`Predefined`].
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

/// `(kind, standard value) -> word`: the lower library's handle for a predefined object, or
/// `usize::MAX` where that library has none.
pub type Predefined = unsafe extern "C" fn(kind: u32, standard: usize) -> usize;

/// `(required level, provided out, tag_ub out) -> error class`: MPI_Init_thread with a standard
/// thread level; sets `gate.lower.{rank,size}`, MPI_ERRORS_RETURN on world and self, and connects
/// the rank's agent to the coordinator.
pub type Init = unsafe extern "C" fn(required: i32, provided: *mut i32, tag_ub: *mut i32) -> i32;

/// `() -> error class`: MPI_Finalize.
pub type Finalize = unsafe extern "C" fn() -> i32;

/// Receive until done or interrupted. On [`INTERRUPTED`] the receive is still posted and `*request`
/// is its word. Arguments: buf, count, datatype, source, tag, comm, status, request.
pub type Recv =
    unsafe extern "C" fn(*mut u8, i32, usize, i32, i32, usize, *mut Status, *mut usize) -> i32;

/// Probe until a message matches or interrupted. Arguments: source, tag, comm, status.
pub type Probe = unsafe extern "C" fn(i32, i32, usize, *mut Status) -> i32;

/// Matched probe until a message matches or interrupted: source, tag, comm, message, status.
pub type Mprobe = unsafe extern "C" fn(i32, i32, usize, *mut usize, *mut Status) -> i32;

/// Wait for one request: request (becomes the null word when done, unless persistent), status.
pub type WaitOne = unsafe extern "C" fn(*mut usize, *mut Status) -> i32;

/// Wait for all: n, requests, statuses (n entries). On [`INTERRUPTED`] none has been completed.
pub type WaitAll = unsafe extern "C" fn(i32, *mut usize, *mut Status) -> i32;

/// Wait for any: n, requests, index out (standard MPI_UNDEFINED if none active), status.
pub type WaitAny = unsafe extern "C" fn(i32, *mut usize, *mut i32, *mut Status) -> i32;

/// Wait for some: n, requests, outcount, indices, statuses.
pub type WaitSome = unsafe extern "C" fn(i32, *mut usize, *mut i32, *mut i32, *mut Status) -> i32;

/// Tell the agent that clocks or activity changed.
pub type Notify = unsafe extern "C" fn();

/// `(clock id) -> target` for a communicator made while a checkpoint is pending (0 if none is
/// known). May block until the targets of the pending checkpoint are known; id 0 only waits for
/// that and returns 0. Returns at once when the phase is Run.
pub type ClockTarget = unsafe extern "C" fn(u64) -> u64;

/// `(text, length, exit code)`: print the text with rank and program on stderr, MPI_Abort.
pub type Fatal = unsafe extern "C" fn(*const u8, usize, i32) -> !;

/// `(upper callback, its data, commute, index out) -> word`: an MPI_Op whose function calls
/// `callback(data, invec, inoutvec, len, datatype word)` in the upper half. `usize::MAX` when there
/// are too many.
pub type OpCreate = unsafe extern "C" fn(OpCallback, usize, i32) -> usize;

/// Upper-half function that applies a user-defined operation.
pub type OpCallback = unsafe extern "C" fn(usize, *mut u8, *mut u8, i32, usize);

/// `(word)`: free what [`OpCreate`] made.
pub type OpRelease = unsafe extern "C" fn(usize);

/// Give the processor away once (a rank that is parked must not starve the others).
pub type Yield = unsafe extern "C" fn();

/// `(text, length)`: print a line on stderr with the rank.
pub type Message = unsafe extern "C" fn(*const u8, usize);

/// `(buf, len) -> length`: the lower library's own text for its last failing call on this thread.
pub type ErrorString = unsafe extern "C" fn(*mut u8, usize) -> usize;

/// The application's call of an MPI function is over on this thread. Only called where the thread's
/// block says [`crate::TELL_CALLS`].
pub type CallEnded = unsafe extern "C" fn();

/// Returns when whatever other threads were doing in the upper half's MPI library is done: each has been seen
/// outside of MPI, parked, or in a call of the lower half that waits. How many were in MPI when it began.
pub type Settle = unsafe extern "C" fn() -> u32;
