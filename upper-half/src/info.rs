//! Info objects: ordered dictionaries, wholly in the upper half. Where one must cross, a lower
//! info object with the same entries is made for the length of the call.
//!
//! # Safety
//! Strings and out parameters are the application's, as MPI prescribes them.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::object::{Body, Info};
use crate::sync::Lock;
use crate::{code, lower, object_table};
use contract::abi::*;
use contract::HandleKind;
use core::ffi::{c_char, c_void, CStr};
use std::ffi::CString;

/// One entry: key and value.
pub(crate) type Entry = (CString, CString);

/// Body of an info object.
pub struct InfoBody {
    entries: Lock<Vec<Entry>>,
}

impl Body for InfoBody {
    const KIND: HandleKind = HandleKind::Info;
    const CAPACITY: u32 = 1 << 20;
    const NULL: usize = info::INFO_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = info::ALL;
    object_table!(InfoBody);

    fn predefined(_index: u32) -> Self {
        InfoBody::with(Vec::new())
    }
}

impl InfoBody {
    pub(crate) fn with(entries: Vec<Entry>) -> InfoBody {
        InfoBody {
            entries: Lock::new(entries),
        }
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &CStr) -> Option<CString> {
        let entries = self.entries.lock();
        let entry = entries.iter().find(|entry| entry.0.as_c_str() == key)?;
        Some(entry.1.clone())
    }

    /// A copy of all entries, in order.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    fn set(&self, key: &CStr, value: &CStr) {
        let entry = (key.to_owned(), value.to_owned());
        update(&mut self.entries.lock(), entry);
    }

    fn delete(&self, key: &CStr) -> bool {
        let mut entries = self.entries.lock();
        let before = entries.len();
        entries.retain(|entry| entry.0.as_c_str() != key);
        entries.len() != before
    }
}

/// Gives a key its value, in its old place or as the last.
pub(crate) fn update(entries: &mut Vec<Entry>, (key, value): Entry) {
    match entries.iter_mut().find(|entry| entry.0 == key) {
        Some(entry) => entry.1 = value,
        None => entries.push((key, value)),
    }
}

/// A lower info object for one crossing.
pub struct CrossingInfo(usize);

impl CrossingInfo {
    /// The lower word.
    ///
    /// # Safety
    /// It is used in the expression of a crossing.
    pub unsafe fn word(&self) -> usize {
        self.0
    }
}

impl Drop for CrossingInfo {
    fn drop(&mut self) {
        if self.0 != Info::null_word() {
            // SAFETY: made by `crossing_info`, freed once.
            unsafe { lower::MPI_Info_free(&raw mut self.0) };
        }
    }
}

/// Makes a lower info object with the entries of `info`. Hints are only hints: where the lower
/// library does not take one (a key that is too long for it, say), the crossing goes without it.
pub fn crossing_info(info: &'static Info) -> CrossingInfo {
    crossing_entries(&info.body.entries())
}

/// The same for entries that an object keeps.
pub(crate) fn crossing_entries(entries: &[Entry]) -> CrossingInfo {
    let null = Info::null_word();
    if entries.is_empty() {
        return CrossingInfo(null);
    }
    let mut word = null;
    // SAFETY: crossings with locals and NUL-terminated strings.
    unsafe {
        if lower::MPI_Info_create(&raw mut word) != SUCCESS {
            return CrossingInfo(null);
        }
        for (key, value) in entries {
            lower::MPI_Info_set(word, key.as_ptr(), value.as_ptr());
        }
    }
    CrossingInfo(word)
}

/// A new info object with these entries, as a handle for the application.
pub(crate) fn make(entries: Vec<Entry>) -> Result<&'static Info, i32> {
    Info::make(0, InfoBody::with(entries))
}

unsafe fn key<'a>(key: *const c_char) -> Result<&'a CStr, i32> {
    if key.is_null() {
        return Err(ERR_INFO_KEY);
    }
    // SAFETY: MPI's contract: a NUL-terminated string.
    let key = unsafe { CStr::from_ptr(key) };
    if key.is_empty() || key.count_bytes() >= MAX_INFO_KEY {
        return Err(ERR_INFO_KEY);
    }
    Ok(key)
}

/// MPI_Info_create.
pub unsafe fn info_create(out: *mut &'static Info) -> i32 {
    // SAFETY: passed on.
    unsafe { give(Vec::new(), out) }
}

/// MPI_Info_dup.
pub unsafe fn info_dup(info: &'static Info, out: *mut &'static Info) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    // SAFETY: passed on.
    unsafe { give(info.body.entries(), out) }
}

/// Gives the application a new info object.
///
/// # Safety
/// `out` must be valid for a write.
pub(crate) unsafe fn give(entries: Vec<Entry>, out: *mut &'static Info) -> i32 {
    // SAFETY: passed on.
    unsafe { code::give(make(entries), out) }
}

/// MPI_Info_create_env: what MPI_INFO_ENV says.
pub unsafe fn info_create_env(_argc: i32, _argv: *mut c_void, out: *mut &'static Info) -> i32 {
    let env = Info::at(info::INFO_ENV as u32);
    // SAFETY: passed on.
    unsafe { give(env.body.entries(), out) }
}

/// MPI_Info_free.
pub unsafe fn info_free(info: *mut &'static Info) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *info };
    if given.is_predefined() {
        return ERR_INFO;
    }
    given.release();
    // SAFETY: as above.
    unsafe { *info = Info::null() };
    SUCCESS
}

/// MPI_Info_set.
pub unsafe fn info_set(info: &'static Info, name: *const c_char, value: *const c_char) -> i32 {
    if info.is_predefined() {
        return ERR_INFO;
    }
    // SAFETY: passed on.
    let name = match unsafe { key(name) } {
        Ok(name) => name,
        Err(code) => return code,
    };
    if value.is_null() {
        return ERR_INFO_VALUE;
    }
    // SAFETY: MPI's contract: a NUL-terminated string.
    let value = unsafe { CStr::from_ptr(value) };
    if value.count_bytes() >= MAX_INFO_VAL {
        return ERR_INFO_VALUE;
    }
    info.body.set(name, value);
    SUCCESS
}

/// MPI_Info_delete.
pub unsafe fn info_delete(info: &'static Info, name: *const c_char) -> i32 {
    if info.is_predefined() {
        return ERR_INFO;
    }
    // SAFETY: passed on.
    match unsafe { key(name) } {
        Ok(name) if info.body.delete(name) => SUCCESS,
        Ok(_) => ERR_INFO_NOKEY,
        Err(code) => code,
    }
}

/// The value of a key, and in `flag` whether there is one.
///
/// # Safety
/// MPI's contract: a NUL-terminated key, and a place for the flag.
unsafe fn look_up(
    info: &'static Info,
    name: *const c_char,
    flag: *mut i32,
) -> Result<Option<CString>, i32> {
    // SAFETY: this function's contract.
    unsafe {
        let found = info.body.value(key(name)?);
        *flag = i32::from(found.is_some());
        Ok(found)
    }
}

/// MPI_Info_get.
pub unsafe fn info_get(
    info: &'static Info,
    name: *const c_char,
    valuelen: i32,
    value: *mut c_char,
    flag: *mut i32,
) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    let Ok(capacity) = usize::try_from(valuelen) else {
        return ERR_ARG;
    };
    // SAFETY: MPI's contract: a NUL-terminated key; `value` holds valuelen + 1 characters.
    unsafe {
        let found = match look_up(info, name, flag) {
            Ok(found) => found,
            Err(code) => return code,
        };
        if let Some(found) = found {
            let mut length = 0;
            crate::error::write_string(found.as_bytes(), value, capacity + 1, &raw mut length);
        }
    }
    SUCCESS
}

/// MPI_Info_get_string: `buflen` is the buffer's size, and then what the value needs, both with the NUL.
pub unsafe fn info_get_string(
    info: &'static Info,
    name: *const c_char,
    buflen: *mut i32,
    value: *mut c_char,
    flag: *mut i32,
) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    // SAFETY: MPI's contract: a NUL-terminated key; `value` holds buflen characters.
    unsafe {
        let Ok(room) = usize::try_from(*buflen) else {
            return ERR_ARG;
        };
        let found = match look_up(info, name, flag) {
            Ok(found) => found,
            Err(code) => return code,
        };
        if let Some(found) = found {
            if room > 0 {
                let mut length = 0;
                crate::error::write_string(found.as_bytes(), value, room, &raw mut length);
            }
            *buflen = found.as_bytes_with_nul().len() as i32;
        }
    }
    SUCCESS
}

/// MPI_Info_get_valuelen.
pub unsafe fn info_get_valuelen(
    info: &'static Info,
    name: *const c_char,
    valuelen: *mut i32,
    flag: *mut i32,
) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    // SAFETY: MPI's contract for strings and out parameters.
    unsafe {
        let found = match look_up(info, name, flag) {
            Ok(found) => found,
            Err(code) => return code,
        };
        if let Some(found) = found {
            *valuelen = found.count_bytes() as i32;
        }
    }
    SUCCESS
}

/// MPI_Info_get_nkeys.
pub unsafe fn info_get_nkeys(info: &'static Info, nkeys: *mut i32) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *nkeys = info.body.entries.lock().len() as i32 };
    SUCCESS
}

/// MPI_Info_get_nthkey.
pub unsafe fn info_get_nthkey(info: &'static Info, n: i32, out: *mut c_char) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    let entries = info.body.entries.lock();
    let Some((name, _)) = usize::try_from(n).ok().and_then(|n| entries.get(n)) else {
        return ERR_ARG;
    };
    let mut length = 0;
    // SAFETY: MPI's contract: MPI_MAX_INFO_KEY characters, and the key was checked when it was set.
    unsafe {
        crate::error::write_string(
            name.as_bytes(),
            out,
            name.count_bytes() + 1,
            &raw mut length,
        );
    }
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_replaces_values() {
        crate::object::init();
        let mut handle = Info::null();
        let mut text = [0 as c_char; 16];
        let (mut n, mut flag) = (0, 0);
        // SAFETY: all pointers are to locals of the right size.
        unsafe {
            assert_eq!(info_create(&mut handle), SUCCESS);
            assert_eq!(info_set(handle, c"b".as_ptr(), c"1".as_ptr()), SUCCESS);
            assert_eq!(info_set(handle, c"a".as_ptr(), c"22".as_ptr()), SUCCESS);
            assert_eq!(
                info_set(handle, c"b".as_ptr(), c"threethree".as_ptr()),
                SUCCESS
            );
            assert_eq!(info_get_nkeys(handle, &mut n), SUCCESS);
            assert_eq!(n, 2);
            assert_eq!(info_get_nthkey(handle, 0, text.as_mut_ptr()), SUCCESS);
            assert_eq!(CStr::from_ptr(text.as_ptr()), c"b");
            let code = info_get(handle, c"b".as_ptr(), 5, text.as_mut_ptr(), &mut flag);
            assert_eq!(
                (code, flag, CStr::from_ptr(text.as_ptr())),
                (SUCCESS, 1, c"three")
            );
            assert_eq!(
                info_get_valuelen(handle, c"b".as_ptr(), &mut n, &mut flag),
                SUCCESS
            );
            assert_eq!(n, 10);
            for (room, text_of) in [(0, c"three"), (5, c"thre"), (16, c"threethree")] {
                n = room;
                let value = text.as_mut_ptr();
                let code = info_get_string(handle, c"b".as_ptr(), &mut n, value, &mut flag);
                assert_eq!((code, n, flag), (SUCCESS, 11, 1));
                assert_eq!(CStr::from_ptr(text.as_ptr()), text_of, "room for {room}");
            }
            assert_eq!(info_delete(handle, c"b".as_ptr()), SUCCESS);
            assert_eq!(info_delete(handle, c"b".as_ptr()), ERR_INFO_NOKEY);
            assert_eq!(
                info_get(handle, c"b".as_ptr(), 5, text.as_mut_ptr(), &mut flag),
                SUCCESS
            );
            assert_eq!(flag, 0);
            assert_eq!(info_free(&mut handle), SUCCESS);
            assert!(handle.is_null());
        }
    }
}
