//! Sending. A send goes straight down once it is counted. One that blocks below while a checkpoint
//! is pending gets free when its receiver, waiting or draining, pulls the message.
//!
//! Ready mode goes down as standard mode, which MPI allows: after a restart a receive that was
//! posted before the cut is posted again on its rank, but maybe not yet when the sender goes on.
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; handles are descriptors.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::counts::{self, peer_of};
use super::request::{self, Args, Kind, Mode};
use super::wait;
use crate::lower;
use crate::object::{Comm, Datatype, Request};
use crate::threads;
use contract::abi::{Status, SUCCESS};
use core::ffi::c_void;

/// A blocking send of the lower half.
type Blocking = unsafe extern "C" fn(*const c_void, i32, usize, i32, i32, usize) -> i32;

/// A non-blocking or persistent send of the lower half.
pub(super) type Starting =
    unsafe extern "C" fn(*const c_void, i32, usize, i32, i32, usize, *mut usize) -> i32;

#[inline(always)]
unsafe fn blocking(
    (call, starts): (Blocking, Starting),
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    if threads::take_turns() {
        // SAFETY: as promised by the caller.
        return unsafe { by_turns(starts, buf, count, datatype, dest, tag, comm) };
    }
    let peer = peer_of(comm, dest);
    counts::sent(peer);
    // SAFETY: the application's arguments.
    let error = unsafe { call(buf, count, datatype.lower(), dest, tag, comm.lower()) };
    if error != SUCCESS {
        counts::unsent(peer);
    }
    error
}

/// A blocking send where threads take turns: inside the library it would wait in the face of the others.
#[cold]
unsafe fn by_turns(
    starts: Starting,
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    let mut request = Request::null();
    // SAFETY: as promised by the caller; a place for a request.
    let error = unsafe {
        starting(
            starts,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            &raw mut request,
        )
    };
    if error != SUCCESS {
        return error;
    }
    // SAFETY: our own request; nobody else knows of it.
    unsafe { wait::one(&mut request, &mut Status { ..Status::EMPTY }) }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)] // those of MPI_Isend
unsafe fn starting(
    call: Starting,
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    let peer = peer_of(comm, dest);
    let new = match request::acquire(Kind::Send, peer, comm) {
        Ok(new) => new,
        Err(error) => return error,
    };
    counts::sent(peer);
    let mut word = Request::null().lower();
    // SAFETY: the application's arguments, and a place for the word.
    let error = unsafe {
        call(
            buf,
            count,
            datatype.lower(),
            dest,
            tag,
            comm.lower(),
            &raw mut word,
        )
    };
    if error != SUCCESS {
        counts::unsent(peer);
        new.abandon();
        return error;
    }
    new.started(word);
    // SAFETY: the caller's place for a request.
    unsafe { request.write(new) };
    SUCCESS
}

#[allow(clippy::too_many_arguments)] // those of MPI_Send_init
unsafe fn persistent(
    mode: Mode,
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    let args = Args {
        buffer: buf as usize,
        count,
        peer: dest,
        tag,
        datatype,
        comm,
    };
    // SAFETY: the application's arguments.
    unsafe { super::persistent::make(Kind::PersistentSend, mode, args, request) }
}

/// MPI_Send
#[inline]
pub unsafe fn send(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        blocking(
            (lower::MPI_Send, lower::MPI_Isend),
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
        )
    }
}

/// MPI_Ssend
pub unsafe fn ssend(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        blocking(
            (lower::MPI_Ssend, lower::MPI_Issend),
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
        )
    }
}

/// MPI_Bsend
pub unsafe fn bsend(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        blocking(
            (lower::MPI_Bsend, lower::MPI_Ibsend),
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
        )
    }
}

/// MPI_Rsend
pub unsafe fn rsend(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        blocking(
            (lower::MPI_Send, lower::MPI_Isend),
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
        )
    }
}

/// MPI_Isend
#[inline]
pub unsafe fn isend(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        starting(
            lower::MPI_Isend,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// MPI_Issend
pub unsafe fn issend(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        starting(
            lower::MPI_Issend,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// MPI_Ibsend
pub unsafe fn ibsend(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        starting(
            lower::MPI_Ibsend,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// MPI_Irsend
pub unsafe fn irsend(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        starting(
            lower::MPI_Isend,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// MPI_Send_init
pub unsafe fn send_init(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        persistent(
            Mode::Standard,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// MPI_Ssend_init
pub unsafe fn ssend_init(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        persistent(
            Mode::Synchronous,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// MPI_Bsend_init
pub unsafe fn bsend_init(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        persistent(
            Mode::Buffered,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}

/// MPI_Rsend_init
pub unsafe fn rsend_init(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        persistent(
            Mode::Standard,
            buf,
            count,
            datatype,
            dest,
            tag,
            comm,
            request,
        )
    }
}
