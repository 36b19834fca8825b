//! Control variables.
//!
//! # Safety
//! As for `mod.rs`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see there

use super::{
    below, bound, code, known, make, put, put_datatype, put_enumeration, put_none, put_value,
    ready, Handle, Kind,
};
use crate::abi::ToolValue;
use crate::lower;
use contract::abi::SUCCESS;
use core::ffi::{c_char, c_void};
use core::ptr::null_mut;

/// MPI_T_cvar_get_info.
#[allow(clippy::too_many_arguments)] // MPI's own
pub unsafe fn t_cvar_get_info(
    index: i32,
    name: *mut c_char,
    name_len: *mut i32,
    verbosity: *mut i32,
    datatype: *mut c_void,
    enumeration: *mut c_void,
    desc: *mut c_char,
    desc_len: *mut i32,
    bind: *mut i32,
    scope: *mut i32,
) -> i32 {
    if let Err(code) = ready("MPI_T_cvar_get_info") {
        return code;
    }
    let (mut its_verbosity, mut its_bind, mut its_scope) = (0, 0, 0);
    let (mut its_type, mut its_enum) = (0_usize, null_mut::<c_void>());
    // SAFETY: see the module's head.
    unsafe {
        let code = lower::MPI_T_cvar_get_info(
            index,
            name,
            name_len,
            &raw mut its_verbosity,
            (&raw mut its_type).cast(),
            (&raw mut its_enum).cast(),
            desc,
            desc_len,
            &raw mut its_bind,
            &raw mut its_scope,
        );
        if code == SUCCESS {
            put_value(verbosity, ToolValue::Verbosity, its_verbosity);
            put_datatype(datatype, its_type);
            put_enumeration(enumeration, its_enum);
            put_value(bind, ToolValue::Bind, its_bind);
            put_value(scope, ToolValue::Scope, its_scope);
        }
        code
    }
}

/// To what a control variable is to be bound.
unsafe fn bind_of_control(index: i32) -> Result<i32, i32> {
    let (mut verbosity, mut bind, mut scope) = (0, 0, 0);
    let (mut datatype, mut enumeration) = (0_usize, 0_usize);
    // SAFETY: see the module's head.
    let code = unsafe {
        lower::MPI_T_cvar_get_info(
            index,
            null_mut(),
            null_mut(),
            &raw mut verbosity,
            (&raw mut datatype).cast(),
            (&raw mut enumeration).cast(),
            null_mut(),
            null_mut(),
            &raw mut bind,
            &raw mut scope,
        )
    };
    match code {
        SUCCESS => Ok(bind),
        code => Err(code),
    }
}

/// MPI_T_cvar_handle_alloc.
pub unsafe fn t_cvar_handle_alloc(
    index: i32,
    object: *const c_void,
    handle: *mut c_void,
    count: *mut i32,
) -> i32 {
    // SAFETY: see the module's head.
    let result = ready("MPI_T_cvar_handle_alloc").and_then(|()| unsafe {
        let word = bound(bind_of_control(index)?, object)?;
        let mut made = null_mut::<c_void>();
        let code = lower::MPI_T_cvar_handle_alloc(
            index,
            (&raw const word).cast(),
            (&raw mut made).cast(),
            count,
        );
        if code == SUCCESS {
            put(handle.cast::<*mut Handle>(), make(Kind::Control, made));
        }
        Ok(code)
    });
    // SAFETY: as above.
    code(result.inspect_err(|_| unsafe { put_none(handle, count) }))
}

/// MPI_T_cvar_handle_free.
pub unsafe fn t_cvar_handle_free(handle: *mut c_void) -> i32 {
    let place = handle.cast::<*mut Handle>();
    // SAFETY: see the module's head; the application gives the handle up.
    code((|| unsafe {
        let known = known(place.read().cast(), Kind::Control)?;
        if !known.is_former() {
            let mut below = known.below;
            let code = lower::MPI_T_cvar_handle_free((&raw mut below).cast());
            if code != SUCCESS {
                return Err(code);
            }
        }
        drop(Box::from_raw(place.replace(null_mut())));
        Ok(SUCCESS)
    })())
}

/// MPI_T_cvar_read.
pub unsafe fn t_cvar_read(handle: *const c_void, buf: *mut c_void) -> i32 {
    const NAME: &str = "MPI_T_cvar_read";
    // SAFETY: see the module's head.
    code(ready(NAME).and_then(|()| unsafe {
        Ok(lower::MPI_T_cvar_read(
            below(handle, Kind::Control, NAME)?,
            buf,
        ))
    }))
}

/// MPI_T_cvar_write.
pub unsafe fn t_cvar_write(handle: *const c_void, buf: *const c_void) -> i32 {
    const NAME: &str = "MPI_T_cvar_write";
    // SAFETY: see the module's head.
    code(ready(NAME).and_then(|()| unsafe {
        Ok(lower::MPI_T_cvar_write(
            below(handle, Kind::Control, NAME)?,
            buf,
        ))
    }))
}
