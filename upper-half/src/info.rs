//! MPI's functions for info objects, which never cross.
//!
//! # Safety
//! The application's room for a string is as long as MPI requires it of the function.
#![allow(unsafe_code)]

use crate::argument::{InOut, Out, Text};
use crate::object::info::{make_info, Entry};
use crate::object::Info;
use contract::abi::*;
use core::ffi::{c_void, CStr};
use std::ffi::CString;

/// A key that is valid.
fn key(key: Option<&CStr>) -> Result<&CStr, i32> {
    key.filter(|key| !key.is_empty() && key.count_bytes() < MAX_INFO_KEY)
        .ok_or(ERR_INFO_KEY)
}

/// MPI_Info_create.
pub fn info_create(out: &mut &'static Info) -> i32 {
    give_info(Vec::new(), out)
}

/// MPI_Info_dup.
pub fn info_dup(info: &'static Info, out: &mut &'static Info) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    give_info(info.body.entries(), out)
}

/// Gives the application a new info object.
pub(crate) fn give_info(entries: Vec<Entry>, out: &mut &'static Info) -> i32 {
    Out::from(out).give(make_info(entries))
}

/// MPI_Info_create_env: what MPI_INFO_ENV says.
pub fn info_create_env(_argc: i32, _argv: *mut c_void, out: &mut &'static Info) -> i32 {
    let env = Info::at(info::INFO_ENV as u32);
    give_info(env.body.entries(), out)
}

/// MPI_Info_free.
pub fn info_free(info: &mut &'static Info) -> i32 {
    let given = *info;
    if given.is_predefined() {
        return ERR_INFO;
    }
    given.release();
    *info = Info::null();
    SUCCESS
}

/// MPI_Info_set.
pub fn info_set(info: &'static Info, name: Option<&CStr>, value: Option<&CStr>) -> i32 {
    if info.is_predefined() {
        return ERR_INFO;
    }
    let name = match key(name) {
        Ok(name) => name,
        Err(code) => return code,
    };
    let Some(value) = value.filter(|value| value.count_bytes() < MAX_INFO_VAL) else {
        return ERR_INFO_VALUE;
    };
    info.body.set(name, value);
    SUCCESS
}

/// MPI_Info_delete.
pub fn info_delete(info: &'static Info, name: Option<&CStr>) -> i32 {
    if info.is_predefined() {
        return ERR_INFO;
    }
    match key(name) {
        Ok(name) if info.body.delete(name) => SUCCESS,
        Ok(_) => ERR_INFO_NOKEY,
        Err(code) => code,
    }
}

/// The value of a key, and in `flag` whether there is one.
fn look_up(
    info: &'static Info,
    name: Option<&CStr>,
    mut flag: Out<'_, i32>,
) -> Result<Option<CString>, i32> {
    let found = info.body.value(key(name)?);
    flag.set(i32::from(found.is_some()));
    Ok(found)
}

/// MPI_Info_get.
pub fn info_get(
    info: &'static Info,
    name: Option<&CStr>,
    valuelen: i32,
    mut value: Text<'_>,
    flag: Out<'_, i32>,
) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    let Ok(capacity) = usize::try_from(valuelen) else {
        return ERR_ARG;
    };
    let found = match look_up(info, name, flag) {
        Ok(found) => found,
        Err(code) => return code,
    };
    if let Some(found) = found {
        // SAFETY: the application has room for `valuelen` characters and a NUL.
        unsafe { value.room(capacity + 1) }.text(found.as_bytes());
    }
    SUCCESS
}

/// MPI_Info_get_string: `buflen` is the buffer's size, and then what the value needs, both with the NUL.
pub fn info_get_string(
    info: &'static Info,
    name: Option<&CStr>,
    mut buflen: InOut<'_, i32>,
    mut value: Text<'_>,
    flag: Out<'_, i32>,
) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    let Ok(room) = usize::try_from(buflen.get()) else {
        return ERR_ARG;
    };
    let found = match look_up(info, name, flag) {
        Ok(found) => found,
        Err(code) => return code,
    };
    if let Some(found) = found {
        // SAFETY: the application has room for `buflen` characters, which may be none.
        unsafe { value.room(room) }.text(found.as_bytes());
        buflen.set(found.as_bytes_with_nul().len() as i32);
    }
    SUCCESS
}

/// MPI_Info_get_valuelen.
pub fn info_get_valuelen(
    info: &'static Info,
    name: Option<&CStr>,
    mut valuelen: Out<'_, i32>,
    flag: Out<'_, i32>,
) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    let found = match look_up(info, name, flag) {
        Ok(found) => found,
        Err(code) => return code,
    };
    if let Some(found) = found {
        valuelen.set(found.count_bytes() as i32);
    }
    SUCCESS
}

/// MPI_Info_get_nkeys.
pub fn info_get_nkeys(info: &'static Info, mut nkeys: Out<'_, i32>) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    nkeys.set(info.body.entries.lock().len() as i32);
    SUCCESS
}

/// MPI_Info_get_nthkey.
pub fn info_get_nthkey(info: &'static Info, n: i32, mut out: Text<'_>) -> i32 {
    if info.is_null() {
        return ERR_INFO;
    }
    let entries = info.body.entries.lock();
    let Some((name, _)) = usize::try_from(n).ok().and_then(|n| entries.get(n)) else {
        return ERR_ARG;
    };
    // SAFETY: the application has room for MPI_MAX_INFO_KEY characters, and the key was checked when it was set.
    unsafe { out.room(name.count_bytes() + 1) }.text(name.as_bytes());
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argument::{pass, App};
    use crate::object::init;
    use core::ffi::c_char;

    /// The room of an application that is at least as long as the function's other arguments say.
    fn text(room: &mut [c_char; 16]) -> Text<'_> {
        // SAFETY: a local. No test says that it is longer.
        unsafe { pass(App(room.as_mut_ptr())) }
    }

    fn bytes(room: &[c_char; 16]) -> Vec<u8> {
        let bytes = room.iter().map(|&byte| byte as u8);
        bytes.take_while(|&byte| byte != 0).collect()
    }

    #[test]
    fn keeps_order_and_replaces_values() {
        init();
        let mut handle = Info::null();
        let mut room = [0 as c_char; 16];
        let (mut n, mut flag) = (0, 0);
        assert_eq!(info_create(&mut handle), SUCCESS);
        assert_eq!(info_set(handle, Some(c"b"), Some(c"1")), SUCCESS);
        assert_eq!(info_set(handle, Some(c"a"), Some(c"22")), SUCCESS);
        assert_eq!(info_set(handle, Some(c"b"), Some(c"threethree")), SUCCESS);
        assert_eq!(info_set(handle, None, Some(c"1")), ERR_INFO_KEY);
        assert_eq!(info_set(handle, Some(c""), Some(c"1")), ERR_INFO_KEY);
        assert_eq!(info_set(handle, Some(c"c"), None), ERR_INFO_VALUE);
        assert_eq!(info_get_nkeys(handle, (&mut n).into()), SUCCESS);
        assert_eq!(n, 2);
        assert_eq!(info_get_nthkey(handle, 0, text(&mut room)), SUCCESS);
        assert_eq!(bytes(&room), b"b");
        let b = Some(c"b");
        let code = info_get(handle, b, 5, text(&mut room), (&mut flag).into());
        assert_eq!((code, flag), (SUCCESS, 1));
        assert_eq!(bytes(&room), b"three");
        let code = info_get_valuelen(handle, b, (&mut n).into(), (&mut flag).into());
        assert_eq!((code, n), (SUCCESS, 10));
        for (len, expected) in [(0, &b"three"[..]), (5, b"thre"), (16, b"threethree")] {
            n = len;
            let (place, flag_out) = ((&mut n).into(), (&mut flag).into());
            let code = info_get_string(handle, b, place, text(&mut room), flag_out);
            assert_eq!((code, n, flag), (SUCCESS, 11, 1));
            assert_eq!(bytes(&room), expected, "room for {len}");
        }
        assert_eq!(info_delete(handle, b), SUCCESS);
        assert_eq!(info_delete(handle, b), ERR_INFO_NOKEY);
        let code = info_get(handle, b, 5, text(&mut room), (&mut flag).into());
        assert_eq!((code, flag), (SUCCESS, 0));
        assert_eq!(info_free(&mut handle), SUCCESS);
        assert!(handle.is_null());
    }
}
