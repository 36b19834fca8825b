//! Windows. They work, but their state across a checkpoint is not built yet: while one is open,
//! checkpoints are refused (`latch.rs`).
//!
//! # Safety
//! Strings and out parameters are the application's, as MPI prescribes them; crossings pass words
//! of live windows.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::attribute::Attributes;
use crate::comm::NAME_BYTES;
use crate::comm_create::{check, group_below};
use crate::errhandler::{Current, Handler};
use crate::object::{Body, Info, Win};
use crate::sync::Lock;
use crate::{info, lower, object_table};
use contract::abi::*;
use contract::HandleKind;
use core::ffi::{c_char, c_void, CStr};
use core::sync::atomic::{AtomicI32, Ordering};
use std::ffi::CString;
use std::sync::Arc;

/// Body of a window.
pub struct WinBody {
    errhandler: Current,
    pub(crate) attributes: Attributes,
    name: Lock<CString>,
    info: Lock<Vec<(CString, CString)>>,
    /// Standard values of MPI_WIN_CREATE_FLAVOR and MPI_WIN_MODEL, whose addresses are given out.
    flavor: AtomicI32,
    model: AtomicI32,
}

impl Body for WinBody {
    const KIND: HandleKind = HandleKind::Win;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = win::WIN_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = win::ALL;
    object_table!(WinBody);

    fn predefined(_index: u32) -> Self {
        WinBody::new()
    }
}

impl WinBody {
    pub(crate) fn new() -> WinBody {
        WinBody {
            errhandler: Current::predefined(errhandler::ERRORS_ARE_FATAL),
            attributes: Attributes::new(),
            name: Lock::new(CString::default()),
            info: Lock::new(Vec::new()),
            flavor: AtomicI32::new(0),
            model: AtomicI32::new(0),
        }
    }

    /// What is to be done on an error.
    pub fn handler(&self) -> Handler {
        self.errhandler.handler()
    }

    pub(crate) fn errhandler(&self) -> &Current {
        &self.errhandler
    }
}

/// World ranks of the window's group.
pub(crate) unsafe fn members(win: &'static Win) -> Result<Arc<[u32]>, i32> {
    let mut group = 0;
    // SAFETY: a local, and a live window's word.
    unsafe {
        check(lower::MPI_Win_get_group(win.lower(), &raw mut group))?;
        group_below(group)
    }
}

/// Standard value of a library's MPI_WIN_FLAVOR_*: before MPI 5.0 they were 1 to 4 in this order.
fn standard_flavor(native: i32) -> i32 {
    match native {
        1..=4 => WIN_FLAVOR_CREATE + native - 1,
        other => other,
    }
}

/// Standard value of a library's MPI_WIN_SEPARATE or MPI_WIN_UNIFIED: before MPI 5.0, 1 was
/// "separate" everywhere, and "unified" 0 or 2.
fn standard_model(native: i32) -> i32 {
    match native {
        0 | 2 => WIN_UNIFIED,
        1 => WIN_SEPARATE,
        other => other,
    }
}

/// MPI_Win_get_attr for what the library itself caches on a window.
pub(crate) unsafe fn own_attribute(
    win: &'static Win,
    keyval: i32,
    value: *mut c_void,
    flag: *mut i32,
) -> i32 {
    // SAFETY: MPI's contract: `value` is a `void **`; these two attributes are pointers to int.
    unsafe {
        let code = lower::MPI_Win_get_attr(win.lower(), keyval, value, flag);
        if code != SUCCESS || *flag == 0 {
            return code;
        }
        let place = value.cast::<*const i32>();
        let kept = match keyval {
            WIN_CREATE_FLAVOR => {
                win.body
                    .flavor
                    .store(standard_flavor(**place), Ordering::Relaxed);
                &win.body.flavor
            }
            WIN_MODEL => {
                win.body
                    .model
                    .store(standard_model(**place), Ordering::Relaxed);
                &win.body.model
            }
            _ => return SUCCESS,
        };
        *place = kept.as_ptr();
    }
    SUCCESS
}

/// MPI_Win_set_name.
pub unsafe fn win_set_name(win: &'static Win, name: *const c_char) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    // SAFETY: MPI's contract: a NUL-terminated string.
    *win.body.name.lock() = unsafe { CStr::from_ptr(name) }.to_owned();
    SUCCESS
}

/// MPI_Win_get_name.
pub unsafe fn win_get_name(win: &'static Win, name: *mut c_char, length: *mut i32) -> i32 {
    let known = win.body.name.lock();
    // SAFETY: MPI's contract: MPI_MAX_OBJECT_NAME bytes.
    unsafe { crate::error::write_string(known.as_bytes(), name, NAME_BYTES, length) };
    SUCCESS
}

/// MPI_Win_set_info. Hints are kept for MPI_Win_get_info; the library below is not told.
pub fn win_set_info(win: &'static Win, info: &'static Info) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    *win.body.info.lock() = info.body.entries();
    SUCCESS
}

/// MPI_Win_get_info.
pub unsafe fn win_get_info(win: &'static Win, out: *mut &'static Info) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    let entries = win.body.info.lock().clone();
    // SAFETY: passed on.
    unsafe { info::give(entries, out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_libraries_become_the_standards() {
        assert_eq!(standard_flavor(4), WIN_FLAVOR_SHARED);
        assert_eq!(standard_flavor(WIN_FLAVOR_DYNAMIC), WIN_FLAVOR_DYNAMIC);
        assert_eq!(
            [0, 1, 2].map(standard_model),
            [WIN_UNIFIED, WIN_SEPARATE, WIN_UNIFIED]
        );
        assert_eq!(standard_model(WIN_SEPARATE), WIN_SEPARATE);
    }
}
