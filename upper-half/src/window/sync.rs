//! Active target synchronisation, MPI-3.1 §11.5.1 and §11.5.2. An origin's operations are complete at
//! the target when the origin has flushed them; all that is left to do is to tell the target, and a
//! message, or a barrier, does.
//!
//! # Safety
//! As for `window`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::code::{check, code_of};
use crate::message::{self, collective_begin, collective_end};
use crate::object::{Comm, Datatype, Group, Win};
use crate::{group, lower};
use contract::abi::*;
use core::ptr::{null, null_mut};
use std::sync::Arc;

/// From a target: its exposure epoch has begun.
const POSTED: i32 = 1;
/// From an origin: its operations are complete.
const COMPLETED: i32 = 2;

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
            check(lower::MPI_Win_flush_all(win.lower()))?;
        }
        check(lower::MPI_Win_sync(win.lower()))?;
        check(lower::MPI_Barrier(comm.lower()))?;
        check(lower::MPI_Win_sync(win.lower()))
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
        let mut result = check(lower::MPI_Win_sync(win.lower()));
        if assert & MODE_NOCHECK == 0 {
            result = result.and_then(|()| tell(&origins, POSTED, win.body.comm));
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
    code_of(unsafe { hear(&targets, POSTED, win.body.comm) })
}

/// MPI_Win_complete.
pub unsafe fn win_complete(win: &'static Win) -> i32 {
    let Some(targets) = win.body.access.lock().take() else {
        return ERR_RMA_SYNC;
    };
    // SAFETY: passed on.
    code_of(unsafe {
        check(lower::MPI_Win_flush_all(win.lower()))
            .and_then(|()| tell(&targets, COMPLETED, win.body.comm))
    })
}

/// MPI_Win_wait: waits until every origin has completed.
pub unsafe fn win_wait(win: &'static Win) -> i32 {
    let Some(origins) = win.body.exposure.lock().take() else {
        return ERR_RMA_SYNC;
    };
    // SAFETY: passed on.
    code_of(unsafe {
        hear(&origins, COMPLETED, win.body.comm)
            .and_then(|()| check(lower::MPI_Win_sync(win.lower())))
    })
}

/// MPI_Win_test.
pub unsafe fn win_test(win: &'static Win, flag: *mut i32) -> i32 {
    let Some(mut origins) = win.body.exposure.lock().take() else {
        return ERR_RMA_SYNC;
    };
    // SAFETY: passed on; MPI's contract for an out parameter.
    unsafe {
        let result = hear_who_speaks(&mut origins, win.body.comm);
        *flag = i32::from(origins.is_empty());
        if !origins.is_empty() {
            *win.body.exposure.lock() = Some(origins);
            return code_of(result);
        }
        code_of(result.and_then(|()| check(lower::MPI_Win_sync(win.lower()))))
    }
}

/// Takes those out of `origins` whose message is here.
unsafe fn hear_who_speaks(origins: &mut Vec<i32>, comm: &'static Comm) -> Result<(), i32> {
    let mut waiting = Vec::new();
    for &origin in origins.iter() {
        let mut here = 0;
        // SAFETY: locals.
        unsafe {
            let status = null_mut();
            check(message::iprobe(
                origin,
                COMPLETED,
                comm,
                &raw mut here,
                status,
            ))?;
            match here {
                0 => waiting.push(origin),
                _ => hear(&[origin], COMPLETED, comm)?,
            }
        }
    }
    *origins = waiting;
    Ok(())
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

/// Sends an empty message to each of `ranks`.
unsafe fn tell(ranks: &[i32], tag: i32, comm: &'static Comm) -> Result<(), i32> {
    let byte = Datatype::at(datatype::BYTE as u32);
    // SAFETY: nothing is sent from memory.
    let to = |&rank| check(unsafe { message::send(null(), 0, byte, rank, tag, comm) });
    ranks.iter().try_for_each(to)
}

/// Waits for the empty message of each of `ranks`.
unsafe fn hear(ranks: &[i32], tag: i32, comm: &'static Comm) -> Result<(), i32> {
    let byte = Datatype::at(datatype::BYTE as u32);
    let from = |&rank| {
        let mut status = Status::EMPTY;
        let status = &raw mut status;
        // SAFETY: nothing is received into memory; a local.
        check(unsafe { message::recv(null_mut(), 0, byte, rank, tag, comm, status) })
    };
    ranks.iter().try_for_each(from)
}
