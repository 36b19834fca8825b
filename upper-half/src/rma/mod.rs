//! Windows (one-sided communication).
//!
//! The library below only moves data. Each window has one window below, made over the same memory, on which every rank
//! holds `MPI_Win_lock_all` for as long as it lives. All synchronisation that the application asks for is built up here
//! from what a checkpoint can look into, so that no rank ever blocks below for what another rank's program has yet to
//! do:
//!
//! | the application calls | here |
//! |---|---|
//! | fence | flush all, a counted barrier ([`active_target`]) |
//! | post, start, complete, wait | flushes and empty messages ([`active_target`]) |
//! | lock, unlock, lock_all | words in memory of ours, changed by atomic operations ([`passive_target`]) |
//! | put, get, flush | the same below |
//! | accumulate ... | the same below, or, over a library that does them wrong, here ([`accumulate`]) |
//!
//! A direct window has no window below: each member reaches the memory of all ([`direct_window`]).
//!
//! The memory of a window and the words of its locks are in the upper half. So a lock that is held at the cut is held
//! after a restart. At the cut every operation is flushed ([`create::flush`]). A restart creates the windows of the
//! lower half again over the same memory.

pub mod accumulate;
mod active_target;
pub(crate) mod create;
pub mod direct_window;
mod disp_unit;
mod large;
mod lower_window;
mod node_parts;
mod passive_target;
mod shm_window;
mod typed_copy;

pub use active_target::{win_complete, win_fence, win_post, win_start, win_test, win_wait};
pub use create::{
    win_allocate, win_allocate_shared, win_attach, win_create, win_create_dynamic, win_detach,
    win_free, win_shared_query,
};
pub use large::{win_allocate_c, win_allocate_shared_c, win_create_c, win_shared_query_c};
pub use passive_target::{win_lock, win_lock_all, win_unlock, win_unlock_all};

use crate::argument::{Out, Output};
use crate::object::info::make_info;
use crate::object::info_hints::OF_WINDOWS;
use crate::object::{Info, Win};
use contract::abi::*;
use core::ffi::{c_char, CStr};

/// MPI_Win_set_name.
pub fn win_set_name(win: &'static Win, name: &CStr) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    *win.body.name.lock() = name.to_owned();
    SUCCESS
}

/// MPI_Win_get_name.
pub fn win_get_name(
    win: &'static Win,
    mut name: Output<'_, c_char>,
    mut length: Out<'_, i32>,
) -> i32 {
    length.set(name.text(win.body.name.lock().as_bytes()));
    SUCCESS
}

/// MPI_Win_set_info. Hints are kept for MPI_Win_get_info; the library below is not told.
pub fn win_set_info(win: &'static Win, info: &'static Info) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    OF_WINDOWS.take(&mut win.body.info.lock(), info.body.entries());
    SUCCESS
}

/// MPI_Win_get_info.
pub fn win_get_info(win: &'static Win, out: &mut &'static Info) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    let entries = win.body.info.lock().clone();
    Out::from(out).give(make_info(entries))
}
