//! Active target synchronisation, MPI-3.1 §11.5.1 and §11.5.2. An origin's operations are complete at the target when
//! the origin has flushed them; then a message, or a barrier, tells the target. A rank tells itself by a mark: with a
//! message to itself, a library may wait until it is received (MPICH 4.0, over one process).

use crate::argument::{Buffer, Out};
use crate::crossing::mpi_result::{check, code_of};
use crate::object::group::rank_in;
use crate::object::lower_handle::named;
use crate::object::win::Word;
use crate::object::{Datatype, Group, Win};
use crate::pt2pt::{probe, receive, send};
use crate::quiesce::{collective, wait_loop, Inputs};
use crate::rma::lower_window;
use contract::abi::*;
use std::sync::Arc;

/// MPI_Win_fence. Only the barrier waits for other members to come, and only it counts.
pub fn win_fence(assert: i32, win: &'static Win) -> i32 {
    code_of(fence(assert, win))
}

fn fence(assert: i32, win: &'static Win) -> Result<(), i32> {
    let comm = win.body.comm;
    if assert & MODE_NOPRECEDE == 0 {
        lower_window::flush_all(win)?;
    }
    lower_window::sync(win)?;
    check(collective(comm, Inputs::Stay, &mut |code| {
        *code = named::MPI_Barrier(comm);
    }))?;
    lower_window::sync(win)
}

/// MPI_Win_post.
pub fn win_post(group: &'static Group, assert: i32, win: &'static Win) -> i32 {
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
    let mut result = lower_window::sync(win);
    if assert & MODE_NOCHECK == 0 {
        result = result.and_then(|()| tell(&origins, Word::Posted, win));
    }
    code_of(result)
}

/// MPI_Win_start: waits until every target has posted.
pub fn win_start(group: &'static Group, assert: i32, win: &'static Win) -> i32 {
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
    code_of(hear(&targets, Word::Posted, win))
}

/// MPI_Win_complete.
pub fn win_complete(win: &'static Win) -> i32 {
    let Some(targets) = win.body.access.lock().take() else {
        return ERR_RMA_SYNC;
    };
    code_of(lower_window::flush_all(win).and_then(|()| tell(&targets, Word::Completed, win)))
}

/// MPI_Win_wait: waits until every origin has completed.
pub fn win_wait(win: &'static Win) -> i32 {
    let Some(origins) = win.body.exposure.lock().take() else {
        return ERR_RMA_SYNC;
    };
    code_of(hear(&origins, Word::Completed, win).and_then(|()| lower_window::sync(win)))
}

/// MPI_Win_test.
pub fn win_test(win: &'static Win, mut flag: Out<'_, i32>) -> i32 {
    let Some(mut origins) = win.body.exposure.lock().take() else {
        return ERR_RMA_SYNC;
    };
    let result = hear_who_speaks(&mut origins, win);
    flag.set(i32::from(origins.is_empty()));
    if !origins.is_empty() {
        *win.body.exposure.lock() = Some(origins);
        return code_of(result);
    }
    code_of(result.and_then(|()| lower_window::sync(win)))
}

/// Takes those out of `origins` whose message is here.
fn hear_who_speaks(origins: &mut Vec<i32>, win: &'static Win) -> Result<(), i32> {
    let mut waiting = Vec::new();
    for &origin in origins.iter() {
        if !has_spoken(origin, win)? {
            waiting.push(origin);
        }
    }
    *origins = waiting;
    Ok(())
}

/// Whether `origin` has completed, which is heard then.
fn has_spoken(origin: i32, win: &'static Win) -> Result<bool, i32> {
    let (comm, tag) = (win.body.comm, Word::Completed as i32);
    if origin == comm.body.rank {
        return Ok(win.body.marks.take(Word::Completed));
    }
    let mut here = 0;
    check(probe::iprobe(origin, tag, comm, (&mut here).into(), None))?;
    if here != 0 {
        hear(&[origin], Word::Completed, win)?;
    }
    Ok(here != 0)
}

/// The members of `group` as ranks in the window's communicator.
fn ranks(group: &'static Group, win: &'static Win) -> Result<Arc<[i32]>, i32> {
    if group.is_null() {
        return Err(ERR_GROUP);
    }
    let members = win.body.members();
    let in_window = |&rank| rank_in(members, rank).ok_or(ERR_RANK);
    group.body.ranks.iter().map(in_window).collect()
}

/// Tells each of `ranks`, by an empty message.
fn tell(ranks: &[i32], word: Word, win: &'static Win) -> Result<(), i32> {
    let (comm, byte) = (win.body.comm, Datatype::at(datatype::BYTE as u32));
    let to = |&rank: &i32| {
        if rank == comm.body.rank {
            win.body.marks.set(word);
            return Ok(());
        }
        let tag = word as i32;
        check(send::send(Buffer::NONE, 0, byte, rank, tag, comm))
    };
    ranks.iter().try_for_each(to)
}

/// Waits for what each of `ranks` tells.
fn hear(ranks: &[i32], word: Word, win: &'static Win) -> Result<(), i32> {
    let (comm, byte) = (win.body.comm, Datatype::at(datatype::BYTE as u32));
    let from = |&rank: &i32| {
        if rank == comm.body.rank {
            wait_loop::wait_until(|| win.body.marks.take(word));
            return Ok(());
        }
        let tag = word as i32;
        check(receive::recv(Buffer::NONE, 0, byte, rank, tag, comm, None))
    };
    ranks.iter().try_for_each(from)
}
