//! The functions and services that complete requests or receive messages, and the other services whose results are
//! recorded. They are written by hand: which memory they fill depends on the requests. Other services concern this
//! process alone, or have no results.
//!
//! # Safety
//! As for the services (`service.rs`, `polling_services.rs`), which they call with the same arguments.
#![allow(unsafe_code, non_snake_case)]
#![allow(clippy::missing_safety_doc)]

use core::cell::Cell;
use core::sync::atomic::Ordering;

use contract::abi::{self, Status};
use contract::service::{self, Exchange, Service};
use contract::{Gate, HandleKind};

use super::io::{null, Io};
use super::region::Region;
use super::run::{crossing, finish};
use crate::mpi::convert::array;
use crate::mpi::service::{self as services, fill_slot};
use crate::mpi::{adapter, polling_services};

/// Writes the addresses of the services into the gate.
pub fn fill(gate: &Gate) {
    fill_slot!(gate, Recv, recv);
    fill_slot!(gate, SendReceive, send_receive);
    fill_slot!(gate, Probe, probe);
    fill_slot!(gate, Mprobe, mprobe);
    fill_slot!(gate, WaitOne, wait_one);
    fill_slot!(gate, WaitAll, wait_all);
    fill_slot!(gate, WaitAny, wait_any);
    fill_slot!(gate, WaitSome, wait_some);
    fill_slot!(gate, ErrorString, error_string);
    fill_slot!(gate, Finalize, finalize);
}

unsafe extern "C" fn recv(
    buf: *mut u8,
    count: i32,
    datatype: usize,
    source: i32,
    tag: i32,
    comm: usize,
    status: *mut Status,
    request: *mut usize,
) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let key = [count, source, tag].map(i64::from);
        let mut own = Status::EMPTY;
        let status = or_own(status, &mut own);
        let real =
            || polling_services::recv(buf, count, datatype, source, tag, comm, status, request);
        crossing(Service::Recv as usize, &key, real, |io| {
            io.array(status, 1);
            io.received(Region::of(buf.cast(), count.into(), datatype), status);
        })
    }
}

unsafe extern "C" fn send_receive(messages: *mut Exchange, status: *mut Status) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let exchange = &mut *messages;
        let (sent, received) = (&exchange.sent, &exchange.received);
        let key = [
            sent.count,
            sent.peer,
            sent.tag,
            received.count,
            received.peer,
            received.tag,
        ];
        let region = Region::of(
            received.buffer.cast(),
            received.count.into(),
            received.datatype,
        );
        let mut own = Status::EMPTY;
        let status = or_own(status, &mut own);
        let error = &raw mut exchange.send_error;
        let real = || polling_services::send_receive(messages, status);
        crossing(
            Service::SendReceive as usize,
            &key.map(i64::from),
            real,
            |io| {
                io.array(error, 1);
                io.array(status, 1);
                io.received(region, status);
            },
        )
    }
}

unsafe extern "C" fn probe(source: i32, tag: i32, comm: usize, status: *mut Status) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let key = [source, tag].map(i64::from);
        let real = || polling_services::probe(source, tag, comm, status);
        crossing(Service::Probe as usize, &key, real, |io| {
            io.array(status, 1)
        })
    }
}

unsafe extern "C" fn mprobe(
    source: i32,
    tag: i32,
    comm: usize,
    message: *mut usize,
    status: *mut Status,
) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let key = [source, tag].map(i64::from);
        let real = || polling_services::mprobe(source, tag, comm, message, status);
        crossing(Service::Mprobe as usize, &key, real, |io| {
            io.made(message, HandleKind::Message);
            io.array(status, 1);
        })
    }
}

/// The caller's status, or one of ours if it wants none: the length of a message is in it.
fn or_own(status: *mut Status, own: &mut Status) -> *mut Status {
    match status.is_null() {
        true => own,
        false => status,
    }
}

/// The requests of a call.
struct Requests {
    place: *mut usize,
    /// Their handles before the call.
    before: Vec<usize>,
    /// The caller's statuses, or ours.
    statuses: *mut Status,
    own: Vec<Status>,
}

impl Requests {
    /// Some requests, and as many statuses, which may be null.
    ///
    /// # Safety
    /// The places are valid as long as this lives.
    unsafe fn new(place: *mut usize, count: i32, statuses: *mut Status) -> Requests {
        let n = array::length(count);
        // SAFETY: as many handles.
        let before = unsafe { array::entries(place, n) }.to_vec();
        let mut own = vec![Status::EMPTY; if statuses.is_null() { n } else { 0 }];
        let statuses = match statuses.is_null() {
            true => own.as_mut_ptr(),
            false => statuses,
        };
        Requests {
            place,
            before,
            statuses,
            own,
        }
    }

    /// The call has written this: for each pair, the request with that index has the status with that number.
    fn are(&self, io: &mut Io, complete: impl Iterator<Item = (usize, usize)>) {
        let null = null(HandleKind::Request);
        for (request, at) in complete {
            let Some(&before) = self.before.get(request) else {
                continue;
            };
            let handle = self.place.wrapping_add(request);
            let status = self.statuses.wrapping_add(at);
            // SAFETY: within the caller's requests and the statuses.
            unsafe {
                if self.own.is_empty() {
                    io.array(status, 1);
                }
                io.changed(handle, HandleKind::Request);
                let persists = io.succeeded() && *handle == before && before != null;
                let is_complete = persists || before != null && *handle == null;
                io.completed(before, is_complete, Some(&*status));
            }
        }
    }

    /// All requests, each with its own status.
    fn all(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.before.len()).map(|i| (i, i))
    }

    fn key(&self) -> [i64; 1] {
        [self.before.len() as i64]
    }
}

/// One index, unless it is MPI_UNDEFINED.
fn one(index: i32) -> impl Iterator<Item = (usize, usize)> {
    usize::try_from(index).into_iter().map(|index| (index, 0))
}

unsafe extern "C" fn wait_one(request: *mut usize, status: *mut Status) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let requests = Requests::new(request, 1, status);
        let real = || polling_services::wait_one(request, requests.statuses);
        crossing(Service::WaitOne as usize, &[], real, |io| {
            requests.are(io, requests.all());
        })
    }
}

unsafe extern "C" fn wait_all(count: i32, array: *mut usize, statuses: *mut Status) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let requests = Requests::new(array, count, statuses);
        let real = || polling_services::wait_all(count, array, requests.statuses);
        crossing(Service::WaitAll as usize, &requests.key(), real, |io| {
            requests.are(io, requests.all());
        })
    }
}

unsafe extern "C" fn wait_any(
    count: i32,
    array: *mut usize,
    index: *mut i32,
    status: *mut Status,
) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        // One status is enough.
        let requests = Requests::new(array, count, status);
        let real = || polling_services::wait_any(count, array, index, requests.statuses);
        crossing(Service::WaitAny as usize, &requests.key(), real, |io| {
            let index = {
                io.array(index, 1);
                *index
            };
            requests.are(io, one(index));
        })
    }
}

unsafe extern "C" fn wait_some(
    count: i32,
    array: *mut usize,
    outcount: *mut i32,
    indices: *mut i32,
    statuses: *mut Status,
) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let requests = Requests::new(array, count, statuses);
        let real =
            || polling_services::wait_some(count, array, outcount, indices, requests.statuses);
        crossing(Service::WaitSome as usize, &requests.key(), real, |io| {
            let some = some(io, outcount, indices);
            requests.are(io, some.into_iter());
        })
    }
}

/// The indices of complete requests, each with the number of its status.
///
/// # Safety
/// A number of indices, and as many of them.
unsafe fn some(io: &mut Io, outcount: *mut i32, indices: *mut i32) -> Vec<(usize, usize)> {
    // SAFETY: the caller's promise.
    let indices = unsafe {
        io.array(outcount, 1);
        let n = array::length(*outcount);
        io.array(indices, n);
        array::entries(indices, n)
    };
    let indices = indices.iter().map(|index| array::length(*index));
    indices.enumerate().map(|(at, index)| (index, at)).collect()
}

/// The function of the table.
pub unsafe extern "C" fn MPI_Test(request: *mut usize, flag: *mut i32, status: *mut Status) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let requests = Requests::new(request, 1, status);
        let real = || adapter::MPI_Test(request, flag, requests.statuses);
        crossing(adapter::slot::MPI_Test, &[], real, |io| {
            if io.looked(flag) {
                requests.are(io, requests.all());
            }
        })
    }
}

/// The function of the table.
pub unsafe extern "C" fn MPI_Testall(
    count: i32,
    array: *mut usize,
    flag: *mut i32,
    statuses: *mut Status,
) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let requests = Requests::new(array, count, statuses);
        let real = || adapter::MPI_Testall(count, array, flag, requests.statuses);
        crossing(adapter::slot::MPI_Testall, &requests.key(), real, |io| {
            if io.looked(flag) {
                requests.are(io, requests.all());
            }
        })
    }
}

/// The function of the table.
pub unsafe extern "C" fn MPI_Testany(
    count: i32,
    array: *mut usize,
    index: *mut i32,
    flag: *mut i32,
    status: *mut Status,
) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        // One status is enough.
        let requests = Requests::new(array, count, status);
        let real = || adapter::MPI_Testany(count, array, index, flag, requests.statuses);
        crossing(adapter::slot::MPI_Testany, &requests.key(), real, |io| {
            let index = {
                io.array(index, 1);
                match io.looked(flag) {
                    true => *index,
                    false => abi::UNDEFINED,
                }
            };
            requests.are(io, one(index));
        })
    }
}

/// The function of the table.
pub unsafe extern "C" fn MPI_Testsome(
    count: i32,
    array: *mut usize,
    outcount: *mut i32,
    indices: *mut i32,
    statuses: *mut Status,
) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let requests = Requests::new(array, count, statuses);
        let real = || adapter::MPI_Testsome(count, array, outcount, indices, requests.statuses);
        crossing(adapter::slot::MPI_Testsome, &requests.key(), real, |io| {
            let some = some(io, outcount, indices);
            if some.is_empty() {
                io.found_nothing();
            }
            requests.are(io, some.into_iter());
        })
    }
}

/// The function of the table.
pub unsafe extern "C" fn MPI_Start(request: *mut usize) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let real = || adapter::MPI_Start(request);
        crossing(adapter::slot::MPI_Start, &[], real, |io| {
            io.pendings().start(*request);
        })
    }
}

/// The function of the table. The upper half frees no receive that is under way.
pub unsafe extern "C" fn MPI_Request_free(request: *mut usize) -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let before = *request;
        let real = || adapter::MPI_Request_free(request);
        crossing(adapter::slot::MPI_Request_free, &[], real, |io| {
            io.changed(request, HandleKind::Request);
            io.pendings().free(before);
        })
    }
}

unsafe extern "C" fn error_string(buf: *mut u8, len: usize) -> usize {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        let length = Cell::new(0);
        let real = || {
            length.set(services::error_string(buf, len));
            abi::SUCCESS
        };
        crossing(Service::ErrorString as usize, &[], real, |io| {
            length.set(io.size(|| length.get()));
            io.array(buf, length.get().min(len));
        });
        length.get()
    }
}

unsafe extern "C" fn finalize() -> i32 {
    // SAFETY: the caller's arguments, which are passed on.
    unsafe {
        finish(Service::Finalize as usize);
        services::finalize()
    }
}
