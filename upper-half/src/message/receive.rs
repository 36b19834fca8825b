//! Receiving. A receive looks among the early messages first, which costs one load while there are
//! none. A blocking receive is one call of the lower half's receive service; when a checkpoint
//! interrupts that, its posted receive becomes a request of ours and the wait goes on here.
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; handles are descriptors.
//! With several threads in MPI, the queue of early messages is locked while a receive is posted.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::counts::{self, peer_of, NOBODY};
use super::request::{self, Args, Kind, State};
use super::unexpected::{self, to_ourselves, Entry};
use super::{sweep, wait};
use crate::lower::{self, service};
use crate::object::{Comm, Datatype, Request};
use crate::sync::multiple;
use crate::system;
use contract::abi::{Status, ERR_TRUNCATE, PROC_NULL, SUCCESS};
use contract::INTERRUPTED;
use core::ffi::c_void;

/// World rank that a receive from `source` waits for, if it is one.
#[inline(always)]
pub(super) fn peer_for(comm: &'static Comm, source: i32) -> u32 {
    if source < 0 {
        NOBODY
    } else {
        peer_of(comm, source)
    }
}

/// Whether a receive call that returned `error` took a message (if not from MPI_PROC_NULL).
#[inline(always)]
pub(super) fn took_message(error: i32) -> bool {
    error == SUCCESS || error == ERR_TRUNCATE
}

/// MPI_Recv
#[inline]
pub unsafe fn recv(
    buf: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
    source: i32,
    tag: i32,
    comm: &'static Comm,
    status: *mut Status,
) -> i32 {
    let args = Args {
        buffer: buf as usize,
        count,
        peer: source,
        tag,
        datatype,
        comm,
    };
    let mut own = Status::EMPTY;
    // SAFETY: a place for a status if it is not null.
    let status = unsafe { status.as_mut() }.unwrap_or(&mut own);
    if unexpected::any() || multiple() {
        // SAFETY: as promised by the caller.
        return unsafe { posted_and_waited_for(args, status) };
    }
    let mut word = 0;
    // SAFETY: the application's arguments, and places for a status and a word.
    let error = unsafe {
        service::recv(
            buf.cast(),
            count,
            datatype.lower(),
            source,
            tag,
            comm.lower(),
            status,
            &raw mut word,
        )
    };
    if error == INTERRUPTED {
        // SAFETY: the word is that of the posted receive.
        return unsafe { interrupted(args, word, status) };
    }
    if took_message(error) {
        counts::received_by(comm, source, status);
    }
    error
}

#[cold]
unsafe fn posted_and_waited_for(args: Args, status: &mut Status) -> i32 {
    // SAFETY: as promised by the caller.
    match unsafe { post(args) } {
        // SAFETY: as above.
        Ok(mut request) => unsafe { wait::one(&mut request, status) },
        Err(error) => error,
    }
}

/// A receive that is posted below under `word` is waited for here.
#[cold]
pub(super) unsafe fn interrupted(args: Args, word: usize, status: &mut Status) -> i32 {
    let peer = peer_for(args.comm, args.peer);
    match request::acquire(Kind::Receive, peer, args.comm) {
        Ok(mut request) => {
            request.keep(args);
            request.posted();
            request.started(word);
            // SAFETY: as promised by the caller.
            unsafe { wait::one(&mut request, status) }
        }
        Err(error) => error,
    }
}

/// MPI_Irecv
#[inline]
pub unsafe fn irecv(
    buf: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
    source: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    let args = Args {
        buffer: buf as usize,
        count,
        peer: source,
        tag,
        datatype,
        comm,
    };
    // SAFETY: as promised by the caller.
    match unsafe { post(args) } {
        Ok(new) => {
            // SAFETY: the caller's place for a request.
            unsafe { request.write(new) };
            SUCCESS
        }
        Err(error) => error,
    }
}

/// Posts a receive, or gives it the early message that it matches.
#[inline(always)]
unsafe fn post(args: Args) -> Result<&'static Request, i32> {
    let request = request::acquire(Kind::Receive, peer_for(args.comm, args.peer), args.comm)?;
    if args.peer == PROC_NULL {
        // Done here: not every library gives such a receive the status that MPI asks for.
        request.keep(args);
        request.settle(&Status::PROC_NULL, SUCCESS);
        return Ok(request);
    }
    if unexpected::any() || multiple() {
        // SAFETY: as promised by the caller.
        return unsafe { post_beside_queue(request, args) };
    }
    // SAFETY: as promised by the caller.
    unsafe { post_below(request, args) }
}

#[inline(always)]
unsafe fn post_below(request: &'static Request, args: Args) -> Result<&'static Request, i32> {
    let mut word = Request::null().lower();
    // SAFETY: the application's arguments, and a place for the word.
    let error = unsafe {
        lower::MPI_Irecv(
            args.buffer as *mut c_void,
            args.count,
            args.datatype.lower(),
            args.peer,
            args.tag,
            args.comm.lower(),
            &raw mut word,
        )
    };
    if error != SUCCESS {
        request.abandon();
        return Err(error);
    }
    request.keep(args);
    request.posted();
    request.started(word);
    Ok(request)
}

#[cold]
unsafe fn post_beside_queue(
    request: &'static Request,
    args: Args,
) -> Result<&'static Request, i32> {
    let mut queue = unexpected::queue();
    match queue.take(args.comm, args.peer, args.tag) {
        Some(entry) => {
            drop(queue);
            request.keep(args);
            // SAFETY: as promised by the caller.
            unsafe { give(request, entry) };
            Ok(request)
        }
        // SAFETY: as promised by the caller. The queue stays locked meanwhile.
        None => unsafe { post_below(request, args) },
    }
}

/// Gives a receive its early message; done at once if that has arrived.
pub(super) unsafe fn give(request: &'static Request, mut entry: Box<Entry>) {
    // SAFETY: looking crosses, which the caller allows.
    let arrived = unsafe { entry.look() };
    request.body.entry.set(Some(Box::into_raw(entry)));
    if arrived {
        // SAFETY: the entry has arrived, and the buffer is the application's for this receive. No
        // sweep delivers it too: the request is not yet one that sweeps look for.
        unsafe { sweep::deliver(request) };
    } else {
        request.body.state.set(State::Upper);
    }
}

/// MPI_Sendrecv
///
/// The receive is posted first and waited for last, so that the send in between is one that the
/// peer's own MPI_Sendrecv is ready for.
#[allow(clippy::too_many_arguments)] // those of MPI_Sendrecv
pub unsafe fn sendrecv(
    sendbuf: *const c_void,
    sendcount: i32,
    sendtype: &'static Datatype,
    dest: i32,
    sendtag: i32,
    recvbuf: *mut c_void,
    recvcount: i32,
    recvtype: &'static Datatype,
    source: i32,
    recvtag: i32,
    comm: &'static Comm,
    status: *mut Status,
) -> i32 {
    let args = Args {
        buffer: recvbuf as usize,
        count: recvcount,
        peer: source,
        tag: recvtag,
        datatype: recvtype,
        comm,
    };
    // SAFETY: as promised by the caller.
    let mut request = match unsafe { post(args) } {
        Ok(request) => request,
        Err(error) => return error,
    };
    // SAFETY: as promised by the caller.
    let error = unsafe { super::send::send(sendbuf, sendcount, sendtype, dest, sendtag, comm) };
    let mut own = Status::EMPTY;
    // SAFETY: a place for a status if it is not null.
    let status = unsafe { status.as_mut() }.unwrap_or(&mut own);
    if error != SUCCESS {
        // SAFETY: our own request; nobody else knows of it.
        unsafe { wait::cancel(&raw mut request) };
    }
    // SAFETY: as above.
    let received = unsafe { wait::one(&mut request, status) };
    if error == SUCCESS {
        received
    } else {
        error
    }
}

/// MPI_Sendrecv_replace
#[allow(clippy::too_many_arguments)] // those of MPI_Sendrecv_replace
pub unsafe fn sendrecv_replace(
    buf: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    sendtag: i32,
    source: i32,
    recvtag: i32,
    comm: &'static Comm,
    status: *mut Status,
) -> i32 {
    if dest == PROC_NULL {
        // SAFETY: as promised by the caller.
        return unsafe { recv(buf, count, datatype, source, recvtag, comm, status) };
    }
    if i64::from(count).saturating_mul(datatype.body.size()) > i64::from(i32::MAX / 2) {
        // SAFETY: as promised by the caller.
        return unsafe {
            replace_large(
                buf, count, datatype, dest, sendtag, source, recvtag, comm, status,
            )
        };
    }
    let mut packed = Vec::new();
    // SAFETY: the application's buffer, which is read before it is received into.
    let error = unsafe { pack(buf, count, datatype, comm, &mut packed) };
    if error != SUCCESS {
        return error;
    }
    let packed_type = Datatype::at(contract::abi::datatype::PACKED as u32);
    // SAFETY: as promised by the caller; the copy lives until the send is over.
    unsafe {
        sendrecv(
            if packed.is_empty() {
                core::ptr::null()
            } else {
                packed.as_ptr().cast()
            },
            packed.len() as i32,
            packed_type,
            dest,
            sendtag,
            buf,
            count,
            datatype,
            source,
            recvtag,
            comm,
            status,
        )
    }
}

/// MPI_Sendrecv_replace of more than MPI_Pack can tell the size of: what is sent is copied to memory
/// of the same layout.
#[allow(clippy::too_many_arguments)] // those of MPI_Sendrecv_replace
unsafe fn replace_large(
    buf: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    sendtag: i32,
    source: i32,
    recvtag: i32,
    comm: &'static Comm,
    status: *mut Status,
) -> i32 {
    let (mut lower_bound, mut extent, mut true_lower, mut true_extent) = (0, 0, 0, 0);
    let word = datatype.lower();
    // SAFETY: a live datatype and places for its bounds.
    let error = unsafe {
        lower::MPI_Type_get_true_extent(word, &raw mut true_lower, &raw mut true_extent);
        lower::MPI_Type_get_extent(word, &raw mut lower_bound, &raw mut extent)
    };
    if error != SUCCESS {
        return error;
    }
    let last = (count as isize - 1).saturating_mul(extent);
    let start = true_lower.saturating_add(last.min(0));
    let bytes = true_extent.saturating_add(last.saturating_abs());
    let Some(copy) = usize::try_from(bytes).ok().and_then(system::map) else {
        return contract::abi::ERR_NO_MEM;
    };
    let at = copy.wrapping_offset(-start).cast::<c_void>();
    // SAFETY: the application's buffer, and memory that spans as much.
    let error = match unsafe { to_ourselves((buf, count, word), (at, count, word)) } {
        // SAFETY: as promised by the caller; the copy lives until the send is over.
        SUCCESS => unsafe {
            sendrecv(
                at, count, datatype, dest, sendtag, buf, count, datatype, source, recvtag, comm,
                status,
            )
        },
        error => error,
    };
    // SAFETY: our memory, which no operation uses any more.
    unsafe { system::unmap(copy, bytes as usize) };
    error
}

unsafe fn pack(
    buf: *const c_void,
    count: i32,
    datatype: &'static Datatype,
    comm: &'static Comm,
    packed: &mut Vec<u8>,
) -> i32 {
    let (mut size, mut position) = (0, 0);
    // SAFETY: the application's buffer, and room for as many bytes as MPI_Pack_size asks for.
    unsafe {
        let error = lower::MPI_Pack_size(count, datatype.lower(), comm.lower(), &raw mut size);
        if error != SUCCESS {
            return error;
        }
        let capacity = usize::try_from(size).unwrap_or(0);
        if packed.try_reserve_exact(capacity).is_err() {
            return contract::abi::ERR_NO_MEM;
        }
        let error = lower::MPI_Pack(
            buf,
            count,
            datatype.lower(),
            packed.as_mut_ptr().cast(),
            size,
            &raw mut position,
            comm.lower(),
        );
        if error == SUCCESS {
            packed.set_len(usize::try_from(position).unwrap_or(0).min(capacity));
        }
        error
    }
}
