//! The parts of a window's members on one node are shared by all of them. So locks are changed, and memory of
//! MPI_Win_allocate and MPI_Win_allocate_shared is read and written, without the library, as a library does in windows
//! of its own on one node.
//!
//! Each rank makes its part memory of a memfd, and the others map that in their lower halves. So an image contains the
//! rank's own part only, as ordinary shared memory, and a restart may place the ranks on other nodes. A restart shares
//! the parts anew.
//!
//! # Safety
//! The services get numbers that other ranks have given. The lower half checks what they lead to by the mark.
#![allow(unsafe_code)]

use crate::comm::numbers::{gather, greatest};
use crate::crossing::stubs::service;
use crate::object::win::parts::{Part, HEAD};
use crate::object::win::{Memory, WinBody};
use crate::runtime::syscall;
use contract::{gate, Service};
use core::sync::atomic::Ordering;

/// Maps the parts of all members, or none. All members call this, inside a counted collective operation or a restart.
/// `restarted` says whether the parts have content.
pub(crate) fn map(body: &WinBody, restarted: bool) -> Result<(), i32> {
    forget(body);
    let Some(part) = &body.part else {
        return Ok(());
    };
    let (comm, own) = (body.comm, part.mapping());
    if comm.body.size == 1 {
        let start = own.start() as usize;
        body.set_parts(Box::new([of_rank(body, 0, start, 0, body.bytes)]));
        return Ok(());
    }
    let mark = mark(comm.body.id, comm.body.rank);
    let shared = served()
        .then(|| syscall::share(own, contract::WINDOW_MEMORY, restarted))
        .flatten();
    part.head().mark.store(mark, Ordering::Release);
    let descriptor = shared.as_ref().map_or(-1, |fd| fd.number() as i64);
    let process = i64::from(syscall::process_id());
    let told = [process, descriptor, own.bytes() as i64, body.bytes as i64];
    let all = gather(comm, told)?;
    let mut mapped = Vec::with_capacity(all.len());
    for (rank, &[process, descriptor, bytes, size]) in (0..).zip(&all) {
        let (start, bytes) = match rank == comm.body.rank {
            true => (shared.as_ref().map(|_| own.start() as usize), 0),
            false => {
                let memory = (process as i32, descriptor as i32, bytes as usize);
                (peer(memory, self::mark(comm.body.id, rank)), memory.2)
            }
        };
        let Some(start) = start else { break };
        mapped.push(of_rank(body, rank, start, bytes, size as isize));
    }
    let lacks = mapped.len() < all.len();
    let lacking = greatest(comm, [i64::from(lacks)]);
    // Every member has opened the memory, or will not.
    drop(shared);
    match lacking? {
        [0] => body.set_parts(mapped.into()),
        _ => unmap(&mapped),
    }
    Ok(())
}

/// Removes the mappings of other members' parts. Nobody uses the window any more.
pub(crate) fn free(body: &WinBody) {
    unmap(&body.take_parts());
}

/// Those from before a restart are in no process any more.
fn forget(body: &WinBody) {
    drop(body.take_parts());
}

fn of_rank(body: &WinBody, rank: i32, start: usize, mapped: usize, bytes: isize) -> Part {
    let base = match &body.memory {
        Memory::Shared(segments) => segments.of(rank).start,
        Memory::Allocated => start + HEAD,
        Memory::Application if rank == body.comm.body.rank => body.base,
        Memory::Application => 0,
    };
    Part {
        head: start,
        mapped,
        base,
        bytes,
    }
}

/// A number that no other memory begins with: it is of this window and rank.
fn mark(window: u64, rank: i32) -> u64 {
    let number = (window ^ 0x5354_4153_4953_5749).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number.rotate_left(29).wrapping_add(rank as u64) | 1
}

/// Whether the lower half has the service: it may be older.
fn served() -> bool {
    gate().slots[Service::MapPeer as usize].load(Ordering::Relaxed) != 0
}

/// The address of another rank's memory, given by process, descriptor and bytes.
fn peer((process, descriptor, bytes): (i32, i32, usize), mark: u64) -> Option<usize> {
    if descriptor < 0 || !served() {
        return None;
    }
    // SAFETY: see the head.
    let address = unsafe { service::map_peer(process, descriptor, bytes, mark) };
    (address != 0).then_some(address)
}

fn unmap(parts: &[Part]) {
    for part in parts.iter().filter(|part| part.mapped > 0) {
        // SAFETY: a mapping of `peer`, which nothing uses any more.
        unsafe { service::unmap_peer(part.head, part.mapped) };
    }
}
