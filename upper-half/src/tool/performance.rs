//! Performance variables, their sessions and handles.
//!
//! # Safety
//! As for `mod.rs`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see there

use super::{
    below, bound, code, known, make, put, put_datatype, put_enumeration, put_none, put_value,
    ready, Handle, Kind,
};
use crate::abi::{abi, ToolValue};
use crate::lower;
use contract::abi::{SUCCESS, T_ERR_INVALID_HANDLE, T_ERR_PVAR_NO_STARTSTOP, T_ERR_PVAR_NO_WRITE};
use core::ffi::{c_char, c_void};
use core::ptr::null_mut;

/// MPI_T_pvar_get_info.
#[allow(clippy::too_many_arguments)] // MPI's own
pub unsafe fn t_pvar_get_info(
    index: i32,
    name: *mut c_char,
    name_len: *mut i32,
    verbosity: *mut i32,
    class: *mut i32,
    datatype: *mut c_void,
    enumeration: *mut c_void,
    desc: *mut c_char,
    desc_len: *mut i32,
    bind: *mut i32,
    readonly: *mut i32,
    continuous: *mut i32,
    atomic: *mut i32,
) -> i32 {
    if let Err(code) = ready("MPI_T_pvar_get_info") {
        return code;
    }
    let (mut its_verbosity, mut its_class, mut its_bind) = (0, 0, 0);
    let (mut its_type, mut its_enum) = (0_usize, null_mut::<c_void>());
    let (mut is_readonly, mut is_continuous, mut is_atomic) = (0, 0, 0);
    // SAFETY: see the module's head.
    unsafe {
        let code = lower::MPI_T_pvar_get_info(
            index,
            name,
            name_len,
            &raw mut its_verbosity,
            &raw mut its_class,
            (&raw mut its_type).cast(),
            (&raw mut its_enum).cast(),
            desc,
            desc_len,
            &raw mut its_bind,
            &raw mut is_readonly,
            &raw mut is_continuous,
            &raw mut is_atomic,
        );
        if code == SUCCESS {
            put_value(verbosity, ToolValue::Verbosity, its_verbosity);
            put_value(class, ToolValue::PvarClass, its_class);
            put_datatype(datatype, its_type);
            put_enumeration(enumeration, its_enum);
            put_value(bind, ToolValue::Bind, its_bind);
            put(readonly, is_readonly);
            put(continuous, is_continuous);
            put(atomic, is_atomic);
        }
        code
    }
}

/// To what a performance variable is to be bound.
unsafe fn bind_of_performance(index: i32) -> Result<i32, i32> {
    let mut ints = [0; 6];
    let [verbosity, class, bind, readonly, continuous, atomic] = &mut ints;
    let (mut datatype, mut enumeration) = (0_usize, 0_usize);
    // SAFETY: see the module's head.
    let code = unsafe {
        lower::MPI_T_pvar_get_info(
            index,
            null_mut(),
            null_mut(),
            verbosity,
            class,
            (&raw mut datatype).cast(),
            (&raw mut enumeration).cast(),
            null_mut(),
            null_mut(),
            bind,
            readonly,
            continuous,
            atomic,
        )
    };
    match code {
        SUCCESS => Ok(*bind),
        code => Err(code),
    }
}

/// MPI_T_pvar_get_index.
pub unsafe fn t_pvar_get_index(name: *const c_char, class: i32, index: *mut i32) -> i32 {
    if let Err(code) = ready("MPI_T_pvar_get_index") {
        return code;
    }
    let class = (abi().tool.class_in)(class);
    // SAFETY: see the module's head.
    unsafe { lower::MPI_T_pvar_get_index(name, class, index) }
}

/// MPI_T_pvar_session_create.
pub unsafe fn t_pvar_session_create(session: *mut c_void) -> i32 {
    if let Err(code) = ready("MPI_T_pvar_session_create") {
        // SAFETY: see the module's head.
        unsafe { put_none(session, null_mut()) };
        return code;
    }
    let mut made = null_mut::<c_void>();
    // SAFETY: see the module's head.
    unsafe {
        let code = lower::MPI_T_pvar_session_create((&raw mut made).cast());
        if code == SUCCESS {
            put(session.cast::<*mut Handle>(), make(Kind::Session, made));
        }
        code
    }
}

/// MPI_T_pvar_session_free.
pub unsafe fn t_pvar_session_free(session: *mut c_void) -> i32 {
    let place = session.cast::<*mut Handle>();
    // SAFETY: see the module's head; the application gives the session up, and with it its handles.
    code((|| unsafe {
        let known = known(place.read().cast(), Kind::Session)?;
        if !known.is_former() {
            let mut below = known.below;
            let code = lower::MPI_T_pvar_session_free((&raw mut below).cast());
            if code != SUCCESS {
                return Err(code);
            }
        }
        for member in known.members.lock().drain(..) {
            drop(Box::from_raw(member));
        }
        drop(Box::from_raw(place.replace(null_mut())));
        Ok(SUCCESS)
    })())
}

/// MPI_T_pvar_handle_alloc.
pub unsafe fn t_pvar_handle_alloc(
    session: *const c_void,
    index: i32,
    object: *const c_void,
    handle: *mut c_void,
    count: *mut i32,
) -> i32 {
    const NAME: &str = "MPI_T_pvar_handle_alloc";
    // SAFETY: see the module's head.
    let result = ready(NAME).and_then(|()| unsafe {
        let its_session = below(session, Kind::Session, NAME)?;
        let word = bound(bind_of_performance(index)?, object)?;
        let mut made = null_mut::<c_void>();
        let code = lower::MPI_T_pvar_handle_alloc(
            its_session,
            index,
            (&raw const word).cast(),
            (&raw mut made).cast(),
            count,
        );
        if code == SUCCESS {
            let made = make(Kind::Performance, made);
            known(session, Kind::Session)?.members.lock().push(made);
            put(handle.cast::<*mut Handle>(), made);
        }
        Ok(code)
    });
    // SAFETY: as above.
    code(result.inspect_err(|_| unsafe { put_none(handle, count) }))
}

/// MPI_T_pvar_handle_free.
pub unsafe fn t_pvar_handle_free(session: *const c_void, handle: *mut c_void) -> i32 {
    let place = handle.cast::<*mut Handle>();
    // SAFETY: see the module's head; the application gives the handle up.
    code((|| unsafe {
        let session = known(session, Kind::Session)?;
        let member = place.read();
        let known = known(member.cast(), Kind::Performance)?;
        if !session.members.lock().contains(&member) {
            return Err(T_ERR_INVALID_HANDLE);
        }
        if !known.is_former() {
            let mut below = known.below;
            let code = lower::MPI_T_pvar_handle_free(session.below, (&raw mut below).cast());
            if code != SUCCESS {
                return Err(code);
            }
        }
        session.members.lock().retain(|other| *other != member);
        drop(Box::from_raw(place.replace(null_mut())));
        Ok(SUCCESS)
    })())
}

/// Does something to one handle of a session, or to all of them that let it be done
/// (MPI_T_PVAR_ALL_HANDLES).
unsafe fn on_handles(
    session: *const c_void,
    handle: *const c_void,
    function: &str,
    act: unsafe extern "C" fn(*const c_void, *const c_void) -> i32,
) -> i32 {
    // SAFETY: see the module's head; `act` is a crossing.
    code(ready(function).and_then(|()| unsafe {
        let its_session = below(session, Kind::Session, function)?;
        if handle as usize != (abi().tool.all_handles)() {
            return Ok(act(
                its_session,
                below(handle, Kind::Performance, function)?,
            ));
        }
        let members = known(session, Kind::Session)?.members.lock().clone();
        for member in members {
            match act(its_session, (*member).below) {
                SUCCESS | T_ERR_PVAR_NO_STARTSTOP | T_ERR_PVAR_NO_WRITE => {}
                code => return Err(code),
            }
        }
        Ok(SUCCESS)
    }))
}

/// MPI_T_pvar_start.
pub unsafe fn t_pvar_start(session: *const c_void, handle: *const c_void) -> i32 {
    // SAFETY: passed on.
    unsafe { on_handles(session, handle, "MPI_T_pvar_start", lower::MPI_T_pvar_start) }
}

/// MPI_T_pvar_stop.
pub unsafe fn t_pvar_stop(session: *const c_void, handle: *const c_void) -> i32 {
    // SAFETY: passed on.
    unsafe { on_handles(session, handle, "MPI_T_pvar_stop", lower::MPI_T_pvar_stop) }
}

/// MPI_T_pvar_reset.
pub unsafe fn t_pvar_reset(session: *const c_void, handle: *const c_void) -> i32 {
    // SAFETY: passed on.
    unsafe { on_handles(session, handle, "MPI_T_pvar_reset", lower::MPI_T_pvar_reset) }
}

/// Both library's handles of a session and of one of its variables.
unsafe fn pair(
    session: *const c_void,
    handle: *const c_void,
    function: &str,
) -> Result<(*mut c_void, *mut c_void), i32> {
    ready(function)?;
    // SAFETY: passed on.
    unsafe {
        Ok((
            below(session, Kind::Session, function)?,
            below(handle, Kind::Performance, function)?,
        ))
    }
}

/// MPI_T_pvar_read.
pub unsafe fn t_pvar_read(session: *const c_void, handle: *const c_void, buf: *mut c_void) -> i32 {
    // SAFETY: see the module's head.
    code(unsafe {
        pair(session, handle, "MPI_T_pvar_read")
            .map(|(session, handle)| lower::MPI_T_pvar_read(session, handle, buf))
    })
}

/// MPI_T_pvar_write.
pub unsafe fn t_pvar_write(
    session: *const c_void,
    handle: *const c_void,
    buf: *const c_void,
) -> i32 {
    // SAFETY: see the module's head.
    code(unsafe {
        pair(session, handle, "MPI_T_pvar_write")
            .map(|(session, handle)| lower::MPI_T_pvar_write(session, handle, buf))
    })
}

/// MPI_T_pvar_readreset.
pub unsafe fn t_pvar_readreset(
    session: *const c_void,
    handle: *const c_void,
    buf: *mut c_void,
) -> i32 {
    // SAFETY: see the module's head.
    code(unsafe {
        pair(session, handle, "MPI_T_pvar_readreset")
            .map(|(session, handle)| lower::MPI_T_pvar_readreset(session, handle, buf))
    })
}
