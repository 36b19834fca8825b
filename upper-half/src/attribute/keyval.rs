//! MPI's functions that create and free keyvals.
//!
//! # Safety
//! A function that creates a keyval is unsafe, since the callbacks are called later, by functions that are safe.
#![allow(unsafe_code)]

use crate::argument::Out;
use crate::object::attributes::{index, refer, Keyval, KeyvalKind, Proxies, FIRST_KEYVAL, KEYVALS};
use contract::abi::*;
use core::ffi::c_void;

fn create(
    used_for: KeyvalKind,
    copy: *const c_void,
    delete: *const c_void,
    extra: *const c_void,
) -> i32 {
    let keyval = Keyval {
        used_for,
        copy: copy as usize,
        delete: delete as usize,
        proxies: None,
        extra: extra as usize,
        references: 1,
        freed: false,
    };
    let mut all = KEYVALS.lock();
    let at = match all.iter().position(Option::is_none) {
        Some(at) => at,
        None => {
            all.push(None);
            all.len() - 1
        }
    };
    all[at] = Some(keyval);
    FIRST_KEYVAL + at as i32
}

fn free(used_for: KeyvalKind, keyval: &mut i32) -> i32 {
    let given = *keyval;
    let first = {
        let mut all = KEYVALS.lock();
        let entry = index(given).and_then(|index| all.get_mut(index));
        match entry {
            Some(Some(found)) if found.used_for == used_for => {
                !core::mem::replace(&mut found.freed, true)
            }
            _ => return ERR_KEYVAL,
        }
    };
    // A copy of the handle may be freed as well, for instance by a delete callback, for as long as attributes keep the
    // keyval.
    if first {
        refer(given, -1);
    }
    *keyval = KEYVAL_INVALID;
    SUCCESS
}

/// MPI_Comm_create_keyval.
///
/// # Safety
/// The callbacks are functions of the standard's types for this keyval, or predefined ones, for as long as it lives.
pub unsafe fn comm_create_keyval(
    copy: *const c_void,
    delete: *const c_void,
    mut keyval: Out<'_, i32>,
    extra: *const c_void,
) -> i32 {
    keyval.set(create(KeyvalKind::Comm, copy, delete, extra));
    SUCCESS
}

/// MPI_Type_create_keyval.
///
/// # Safety
/// The callbacks are functions of the standard's types for this keyval, or predefined ones, for as long as it lives.
pub unsafe fn type_create_keyval(
    copy: *const c_void,
    delete: *const c_void,
    mut keyval: Out<'_, i32>,
    extra: *const c_void,
) -> i32 {
    keyval.set(create(KeyvalKind::Type, copy, delete, extra));
    SUCCESS
}

/// MPI_Win_create_keyval.
///
/// # Safety
/// The callbacks are functions of the standard's types for this keyval, or predefined ones, for as long as it lives.
pub unsafe fn win_create_keyval(
    copy: *const c_void,
    delete: *const c_void,
    mut keyval: Out<'_, i32>,
    extra: *const c_void,
) -> i32 {
    keyval.set(create(KeyvalKind::Win, copy, delete, extra));
    SUCCESS
}

/// MPI_Keyval_create, the deprecated form.
///
/// # Safety
/// The callbacks are functions of the standard's types for this keyval, or predefined ones, for as long as it lives.
pub unsafe fn keyval_create(
    copy: *const c_void,
    delete: *const c_void,
    keyval: Out<'_, i32>,
    extra: *const c_void,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { comm_create_keyval(copy, delete, keyval, extra) }
}

/// MPI_Comm_free_keyval.
pub fn comm_free_keyval(keyval: &mut i32) -> i32 {
    free(KeyvalKind::Comm, keyval)
}

/// MPI_Type_free_keyval.
pub fn type_free_keyval(keyval: &mut i32) -> i32 {
    free(KeyvalKind::Type, keyval)
}

/// MPI_Win_free_keyval.
pub fn win_free_keyval(keyval: &mut i32) -> i32 {
    free(KeyvalKind::Win, keyval)
}

/// MPI_Keyval_free, the deprecated form.
pub fn keyval_free(keyval: &mut i32) -> i32 {
    free(KeyvalKind::Comm, keyval)
}

/// Makes proxies call the callbacks of a keyval.
pub fn set_proxies(keyval: i32, proxies: Proxies) {
    let mut all = KEYVALS.lock();
    if let Some(Some(found)) = index(keyval).and_then(|index| all.get_mut(index)) {
        found.proxies = Some(proxies);
    }
}
