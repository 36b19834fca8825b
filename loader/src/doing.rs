//! What the application is doing, as far as that can be seen without its telling: nothing is noted for
//! it when an MPI function is called.
//!
//! # Safety
//! Blocks of threads lie in slots that are never unmapped; their words are read as they happen to be
//! while the thread runs, and believed only as far as they make sense.
#![allow(unsafe_code)]

use crate::thread::{self, Thread, JOB, PARKED, RUNNING};
use contract::ThreadBlock;
use core::sync::atomic::Ordering;

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// In code of its own.
    Computing,
    /// In an MPI function, on this side of the MPI library.
    InMpi,
    /// In the MPI library, which will come back to this address.
    Below(usize),
}

/// Where the initial thread is; if it is in no MPI function, where another is that is in one.
pub fn doing() -> Doing {
    // The blocks of others are not ready yet, or no more.
    let lives = |t: &&Thread| matches!(t.state.load(Ordering::Acquire), RUNNING | PARKED | JOB);
    let threads = thread::main().into_iter().chain(thread::all());
    let mut places = threads.filter(lives).map(place);
    let in_mpi = places.find(|place| *place != Doing::Computing);
    in_mpi.unwrap_or(Doing::Computing)
}

fn place(thread: &Thread) -> Doing {
    let block: *mut ThreadBlock = thread.block.get();
    // SAFETY: see the head of this file. An entry below the top is a return address, or was one.
    let back = unsafe {
        let side = &raw const (*block).side;
        let top = (&raw const (*block).side_top).read_volatile();
        let depth = top.wrapping_sub(side as usize) / size_of::<usize>();
        let innermost = (1..=contract::SIDE_STACK_DEPTH).contains(&depth);
        innermost.then(|| side.cast::<usize>().add(depth - 1).read_volatile())
    };
    match back {
        Some(back) => Doing::Below(back),
        None if thread.in_lower() => Doing::InMpi,
        None => Doing::Computing,
    }
}
