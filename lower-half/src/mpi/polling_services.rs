//! The services that wait. Each polls until it is done or a checkpoint is pending, so that no thread has a frame in the
//! lower half when the upper half stops.
//!
//! # Safety
//! As for the generated adapters (`adapter.rs`): called only by their stubs, with pointers that the upper half
//! guarantees.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use contract::abi::{self, Status};
use contract::service::{Exchange, ExchangedMessage, Service};
use contract::{gate, Phase, INTERRUPTED};
use mpi_sys::MPI_Request;

use super::backoff::Backoff;
use super::convert::handle::{handle, lower};
use super::convert::value_map::{self, NATIVE_SUCCESS};
use super::convert::{array, error, status};
use super::thread_turns;

/// The services of this file.
pub const ALL: [Service; 8] = [
    Service::Recv,
    Service::SendReceive,
    Service::Probe,
    Service::Mprobe,
    Service::WaitOne,
    Service::WaitAll,
    Service::WaitAny,
    Service::WaitSome,
];

/// Whether a slot is that of a service of this file that returns as soon as the phase is another one than
/// [`Phase::Run`]. The one that sends before it receives may wait in the library for its receiver.
pub fn returns_at_once(slot: usize) -> bool {
    let mut services = ALL.iter().map(|service| *service as usize);
    slot != Service::SendReceive as usize && services.any(|service| service == slot)
}

/// Calls `test` until it has a result. After a checkpoint has become pending, calls it one last time.
#[inline(always)]
fn poll(mut test: impl FnMut() -> Option<i32>) -> i32 {
    let mut backoff = Backoff::default();
    loop {
        let pending = gate().phase.load(Ordering::Acquire) != Phase::Run as u32;
        let turn = thread_turns::turn();
        let result = test();
        drop(turn);
        if let Some(result) = result {
            backoff.end();
            return result;
        }
        if pending {
            return INTERRUPTED;
        }
        backoff.next_turn();
    }
}

/// [`contract::service::Recv`]
pub unsafe extern "C" fn recv(
    buf: *mut u8,
    count: i32,
    datatype: usize,
    source: i32,
    tag: i32,
    comm: usize,
    status: *mut Status,
    request: *mut usize,
) -> i32 {
    if source == abi::PROC_NULL {
        // SAFETY: as for this function.
        return unsafe { recv_proc_null(buf, count, datatype, tag, comm, status) };
    }
    let message = ExchangedMessage {
        buffer: buf,
        datatype,
        count,
        peer: source,
        tag,
    };
    // SAFETY: the application's arguments.
    let mut native = match unsafe { post(&message, comm) } {
        Ok(native) => native,
        Err(error) => return error,
    };
    // SAFETY: the request was made just now; `status` is null or the caller's.
    let result = poll(|| unsafe { test(&mut native, status) });
    if result == INTERRUPTED {
        // SAFETY: the caller's, valid for a write.
        unsafe { *request = lower(native) };
    }
    result
}

/// Posts a receive.
///
/// # Safety
/// The message's buffer must be valid for its receive, until that ends.
#[inline(always)]
unsafe fn post(message: &ExchangedMessage, comm: usize) -> Result<MPI_Request, i32> {
    let mut native: MPI_Request = handle(0);
    let turn = thread_turns::turn();
    // SAFETY: as for this function.
    let code = unsafe {
        mpi_sys::MPI_Irecv(
            message.buffer.cast(),
            message.count,
            handle(message.datatype),
            value_map::rank_native(message.peer),
            value_map::tag_native(message.tag),
            handle(comm),
            &mut native,
        )
    };
    drop(turn);
    match code {
        NATIVE_SUCCESS => Ok(native),
        code => Err(error::standard(code)),
    }
}

/// [`contract::service::SendReceive`]
pub unsafe extern "C" fn send_receive(messages: *mut Exchange, status: *mut Status) -> i32 {
    // SAFETY: the caller's, which nothing else uses during the call, with the application's arguments.
    let (messages, posted) = unsafe {
        let messages = &mut *messages;
        let posted = post(&messages.received, messages.comm);
        (messages, posted)
    };
    let mut native = match posted {
        Ok(native) => native,
        Err(error) => return error,
    };
    let sent = &messages.sent;
    // SAFETY: the application's arguments.
    let code = unsafe {
        mpi_sys::MPI_Send(
            sent.buffer.cast(),
            sent.count,
            handle(sent.datatype),
            value_map::rank_native(sent.peer),
            value_map::tag_native(sent.tag),
            handle(messages.comm),
        )
    };
    messages.send_error = error::result(code);
    let result = match code {
        // SAFETY: the request was made just now; `status` is null or the caller's.
        NATIVE_SUCCESS => poll(|| unsafe { test(&mut native, status) }),
        _ => INTERRUPTED,
    };
    if result == INTERRUPTED {
        messages.request = lower(native);
    }
    result
}

/// A receive from MPI_PROC_NULL does not wait, and MPICH 4.0 gives only a blocking one its status.
///
/// # Safety
/// As for [`recv`].
#[cold]
unsafe fn recv_proc_null(
    buf: *mut u8,
    count: i32,
    datatype: usize,
    tag: i32,
    comm: usize,
    status: *mut Status,
) -> i32 {
    // SAFETY: the application's arguments; `status` is null or the caller's.
    unsafe {
        let mut filled = status::Out::new(status);
        let code = mpi_sys::MPI_Recv(
            buf.cast(),
            count,
            handle(datatype),
            mpi_sys::MPI_PROC_NULL,
            value_map::tag_native(tag),
            handle(comm),
            filled.pointer(),
        );
        filled.write_back();
        error::result(code)
    }
}

/// One MPI_Test: the result if the request is complete.
///
/// # Safety
/// `status` must be null or valid for a write.
#[inline(always)]
unsafe fn test(request: &mut MPI_Request, status: *mut Status) -> Option<i32> {
    let (mut flag, mut filled);
    // SAFETY: locals, and a request of this library; for the status this function's contract.
    let code = unsafe {
        (flag, filled) = (0, status::Out::new(status));
        mpi_sys::MPI_Test(request, &mut flag, filled.pointer())
    };
    if code == NATIVE_SUCCESS && flag == 0 {
        return None;
    }
    filled.write_back();
    Some(error::result(code))
}

/// [`contract::service::WaitOne`]
pub unsafe extern "C" fn wait_one(request: *mut usize, status: *mut Status) -> i32 {
    // SAFETY: the caller's, valid for a read.
    let mut native = handle(unsafe { *request });
    // SAFETY: a request of this library; `status` is null or the caller's.
    let result = poll(|| unsafe { test(&mut native, status) });
    // SAFETY: the caller's, valid for a write.
    unsafe { *request = lower(native) };
    result
}

/// [`contract::service::WaitAll`]
pub unsafe extern "C" fn wait_all(count: i32, requests: *mut usize, statuses: *mut Status) -> i32 {
    let n = array::length(count);
    let (mut natives_room, mut filled_room) = (array::Room::new(), array::Room::new());
    // SAFETY: n requests of the caller's; `statuses` is null or has n entries.
    let (mut natives, mut filled) = unsafe {
        (
            array::Handles::read(&mut natives_room, requests, n),
            array::Statuses::new(&mut filled_room, statuses, n),
        )
    };
    let result = poll(|| {
        let mut flag = 0;
        // SAFETY: n requests and room for n statuses.
        let code =
            unsafe { mpi_sys::MPI_Testall(count, natives.pointer(), &mut flag, filled.pointer()) };
        if code == NATIVE_SUCCESS && flag == 0 {
            return None;
        }
        filled.write_back(n, code);
        Some(error::result(code))
    });
    // SAFETY: the caller's array of n handles.
    unsafe { natives.write_back() };
    result
}

/// [`contract::service::WaitAny`]
pub unsafe extern "C" fn wait_any(
    count: i32,
    requests: *mut usize,
    index: *mut i32,
    status: *mut Status,
) -> i32 {
    let mut room = array::Room::new();
    // SAFETY: `count` requests of the caller's.
    let mut natives = unsafe { array::Handles::read(&mut room, requests, array::length(count)) };
    let result = poll(|| {
        let (mut flag, mut filled);
        // SAFETY: `count` requests, and pointers to locals or the caller's; `status` is null or the caller's.
        let code = unsafe {
            (flag, filled) = (0, status::Out::new(status));
            mpi_sys::MPI_Testany(count, natives.pointer(), index, &mut flag, filled.pointer())
        };
        if code == NATIVE_SUCCESS && flag == 0 {
            return None;
        }
        filled.write_back();
        Some(error::result(code))
    });
    // SAFETY: the caller's array.
    unsafe { natives.write_back() };
    result
}

/// [`contract::service::WaitSome`]
pub unsafe extern "C" fn wait_some(
    count: i32,
    requests: *mut usize,
    outcount: *mut i32,
    indices: *mut i32,
    statuses: *mut Status,
) -> i32 {
    let n = array::length(count);
    let (mut natives_room, mut filled_room) = (array::Room::new(), array::Room::new());
    // SAFETY: n requests of the caller's; `statuses` is null or has n entries.
    let (mut natives, mut filled) = unsafe {
        (
            array::Handles::read(&mut natives_room, requests, n),
            array::Statuses::new(&mut filled_room, statuses, n),
        )
    };
    let result = poll(|| {
        let mut done: c_int = 0;
        // SAFETY: n requests, room for n indices and n statuses.
        let code = unsafe {
            mpi_sys::MPI_Testsome(
                count,
                natives.pointer(),
                &mut done,
                indices,
                filled.pointer(),
            )
        };
        if code == NATIVE_SUCCESS && done == 0 {
            return None;
        }
        // SAFETY: the caller's, valid for a write.
        unsafe { *outcount = done };
        // At most n requests are done, none if the count is undefined.
        filled.write_back(array::length(done), code);
        Some(error::result(code))
    });
    // SAFETY: the caller's array of n handles.
    unsafe { natives.write_back() };
    result
}

/// [`contract::service::Probe`]
pub unsafe extern "C" fn probe(source: i32, tag: i32, comm: usize, status: *mut Status) -> i32 {
    let (source, tag) = (value_map::rank_native(source), value_map::tag_native(tag));
    poll(|| {
        let (mut flag, mut filled);
        // SAFETY: the application's arguments and locals; `status` is null or the caller's.
        let code = unsafe {
            (flag, filled) = (0, status::Out::new(status));
            mpi_sys::MPI_Iprobe(source, tag, handle(comm), &mut flag, filled.pointer())
        };
        if code == NATIVE_SUCCESS && flag == 0 {
            return None;
        }
        filled.write_back();
        Some(error::result(code))
    })
}

/// [`contract::service::Mprobe`]
pub unsafe extern "C" fn mprobe(
    source: i32,
    tag: i32,
    comm: usize,
    message: *mut usize,
    status: *mut Status,
) -> i32 {
    let (source, tag) = (value_map::rank_native(source), value_map::tag_native(tag));
    poll(|| {
        let mut native = handle(0);
        let (mut flag, mut filled);
        // SAFETY: the application's arguments and locals; `status` is null or the caller's.
        let code = unsafe {
            (flag, filled) = (0, status::Out::new(status));
            mpi_sys::MPI_Improbe(
                source,
                tag,
                handle(comm),
                &mut flag,
                &mut native,
                filled.pointer(),
            )
        };
        match error::result(code) {
            abi::SUCCESS if flag == 0 => None,
            abi::SUCCESS => {
                // SAFETY: the caller's, valid for a write.
                unsafe { *message = lower(native) };
                filled.write_back();
                Some(abi::SUCCESS)
            }
            class => Some(class),
        }
    })
}
