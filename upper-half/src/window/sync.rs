//! Active target synchronisation, MPI-3.1 §11.5.1 and §11.5.2. An origin's operations are complete at
//! the target when the origin has flushed them; all that is left to do is to tell the target, and a
//! message, or a barrier, does. What a rank tells itself is a mark: to wait for a message before it is
//! received is what a library may do with one to ourselves (MPICH 4.0, over one process).
//!
//! # Safety
//! As for `window`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use super::below;
use crate::code::{check, code_of};
use crate::group;
use crate::message::{self, collective_begin, collective_end};
use crate::object::{Comm, Datatype, Group, Win};
use contract::abi::*;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// What ranks tell each other: the tag of the message.
#[derive(Clone, Copy)]
enum Word {
    /// From a target: its exposure epoch has begun.
    Posted,
    /// From an origin: its operations are complete.
    Completed,
}

/// What this rank has told itself and not yet heard, by [`Word`].
#[derive(Default)]
pub(super) struct Marks([AtomicBool; 2]);

impl Marks {
    fn set(&self, word: Word) {
        self.0[word as usize].store(true, Ordering::Release);
    }

    fn take(&self, word: Word) -> bool {
        self.0[word as usize].swap(false, Ordering::AcqRel)
    }
}

/// MPI_Win_fence.
pub unsafe fn win_fence(assert: i32, win: &'static Win) -> i32 {
    let comm = win.body.comm;
    let token = collective_begin(comm);
    // SAFETY: live objects' words, read after the point where a restart may have changed them.
    let result = unsafe { fence(assert, win, comm) };
    collective_end(token);
    code_of(result)
}

unsafe fn fence(assert: i32, win: &'static Win, comm: &'static Comm) -> Result<(), i32> {
    // SAFETY: passed on.
    unsafe {
        if assert & MODE_NOPRECEDE == 0 {
            below::flush_all(win)?;
        }
        below::sync(win)?;
        below::barrier(comm)?;
        below::sync(win)
    }
}

/// MPI_Win_post.
pub unsafe fn win_post(group: &'static Group, assert: i32, win: &'static Win) -> i32 {
    let mut exposure = win.body.exposure.lock();
    if exposure.is_some() {
        return ERR_RMA_SYNC;
    }
    let origins = match ranks(group, win) {
        Ok(origins) => origins,
        Err(code) => return code,
    };
    *exposure = Some(origins.to_vec());
    drop(exposure);
    // SAFETY: passed on.
    unsafe {
        let mut result = below::sync(win);
        if assert & MODE_NOCHECK == 0 {
            result = result.and_then(|()| tell(&origins, Word::Posted, win));
        }
        code_of(result)
    }
}

/// MPI_Win_start: waits until every target has posted.
pub unsafe fn win_start(group: &'static Group, assert: i32, win: &'static Win) -> i32 {
    let mut access = win.body.access.lock();
    if access.is_some() {
        return ERR_RMA_SYNC;
    }
    let targets = match ranks(group, win) {
        Ok(targets) => targets,
        Err(code) => return code,
    };
    *access = Some(targets.clone());
    drop(access);
    if assert & MODE_NOCHECK != 0 {
        return SUCCESS;
    }
    // SAFETY: passed on.
    code_of(unsafe { hear(&targets, Word::Posted, win) })
}

/// MPI_Win_complete.
pub unsafe fn win_complete(win: &'static Win) -> i32 {
    let Some(targets) = win.body.access.lock().take() else {
        return ERR_RMA_SYNC;
    };
    // SAFETY: passed on.
    code_of(unsafe { below::flush_all(win).and_then(|()| tell(&targets, Word::Completed, win)) })
}

/// MPI_Win_wait: waits until every origin has completed.
pub unsafe fn win_wait(win: &'static Win) -> i32 {
    let Some(origins) = win.body.exposure.lock().take() else {
        return ERR_RMA_SYNC;
    };
    // SAFETY: passed on.
    code_of(unsafe { hear(&origins, Word::Completed, win).and_then(|()| below::sync(win)) })
}

/// MPI_Win_test.
pub unsafe fn win_test(win: &'static Win, flag: *mut i32) -> i32 {
    let Some(mut origins) = win.body.exposure.lock().take() else {
        return ERR_RMA_SYNC;
    };
    // SAFETY: passed on; MPI's contract for an out parameter.
    unsafe {
        let result = hear_who_speaks(&mut origins, win);
        *flag = i32::from(origins.is_empty());
        if !origins.is_empty() {
            *win.body.exposure.lock() = Some(origins);
            return code_of(result);
        }
        code_of(result.and_then(|()| below::sync(win)))
    }
}

/// Takes those out of `origins` whose message is here.
unsafe fn hear_who_speaks(origins: &mut Vec<i32>, win: &'static Win) -> Result<(), i32> {
    let mut waiting = Vec::new();
    for &origin in origins.iter() {
        // SAFETY: passed on.
        if unsafe { !has_spoken(origin, win)? } {
            waiting.push(origin);
        }
    }
    *origins = waiting;
    Ok(())
}

/// Whether `origin` has completed, which is heard then.
unsafe fn has_spoken(origin: i32, win: &'static Win) -> Result<bool, i32> {
    let (comm, tag) = (win.body.comm, Word::Completed as i32);
    if origin == comm.body.rank {
        return Ok(win.body.marks.take(Word::Completed));
    }
    let (mut here, status) = (0, null_mut());
    // SAFETY: locals.
    unsafe {
        check(message::iprobe(origin, tag, comm, &raw mut here, status))?;
        if here != 0 {
            hear(&[origin], Word::Completed, win)?;
        }
    }
    Ok(here != 0)
}

/// The members of `group` as ranks in the window's communicator.
fn ranks(group: &'static Group, win: &'static Win) -> Result<Arc<[i32]>, i32> {
    if group.is_null() {
        return Err(ERR_GROUP);
    }
    let members = win.body.members();
    let in_window = |&rank| group::rank_in(members, rank).ok_or(ERR_RANK);
    group.body.ranks.iter().map(in_window).collect()
}

/// Tells each of `ranks`, by an empty message.
unsafe fn tell(ranks: &[i32], word: Word, win: &'static Win) -> Result<(), i32> {
    let (comm, byte) = (win.body.comm, Datatype::at(datatype::BYTE as u32));
    let to = |&rank: &i32| {
        if rank == comm.body.rank {
            win.body.marks.set(word);
            return Ok(());
        }
        // SAFETY: nothing is sent from memory.
        check(unsafe { message::send(null(), 0, byte, rank, word as i32, comm) })
    };
    ranks.iter().try_for_each(to)
}

/// Waits for what each of `ranks` tells.
unsafe fn hear(ranks: &[i32], word: Word, win: &'static Win) -> Result<(), i32> {
    let (comm, byte) = (win.body.comm, Datatype::at(datatype::BYTE as u32));
    let from = |&rank: &i32| {
        if rank == comm.body.rank {
            // SAFETY: no lock of this library is held.
            unsafe { message::wait_until(|| win.body.marks.take(word)) };
            return Ok(());
        }
        let mut status = Status::EMPTY;
        let (status, tag) = (&raw mut status, word as i32);
        // SAFETY: nothing is received into memory; a local.
        check(unsafe { message::recv(null_mut(), 0, byte, rank, tag, comm, status) })
    };
    ranks.iter().try_for_each(from)
}
