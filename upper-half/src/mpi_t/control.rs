//! Control variables.
//!
//! # Safety
//! As for `mod.rs`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see there

use crate::argument::{InOut, Out};
use crate::crossing::app_abi::ToolValue;
use crate::crossing::stubs;
use crate::mpi_t::{
    bound, code, known, make, put, put_datatype, put_enumeration, put_value, ready, Handle, Kind,
    Raw,
};
use contract::abi::SUCCESS;
use core::ffi::{c_char, c_void};
use core::ptr::null_mut;

/// MPI_T_cvar_get_info.
#[allow(clippy::too_many_arguments)] // MPI's own
pub unsafe fn t_cvar_get_info(
    index: i32,
    name: *mut c_char,
    name_len: *mut i32,
    mut verbosity: Option<Out<'_, i32>>,
    datatype: *mut c_void,
    mut enumeration: Option<Out<'_, *mut c_void>>,
    desc: *mut c_char,
    desc_len: *mut i32,
    mut bind: Option<Out<'_, i32>>,
    mut scope: Option<Out<'_, i32>>,
) -> i32 {
    if let Err(code) = ready("MPI_T_cvar_get_info") {
        return code;
    }
    let (mut its_verbosity, mut its_bind, mut its_scope) = (0, 0, 0);
    let (mut its_type, mut its_enum) = (0_usize, null_mut::<c_void>());
    // SAFETY: the strings have the lengths beside them, and `datatype` is the place of a handle, see the module's head.
    unsafe {
        let code = stubs::MPI_T_cvar_get_info(
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
            put_value(&mut verbosity, ToolValue::Verbosity, its_verbosity);
            put_datatype(datatype, its_type);
            put_enumeration(&mut enumeration, its_enum);
            put_value(&mut bind, ToolValue::Bind, its_bind);
            put_value(&mut scope, ToolValue::Scope, its_scope);
        }
        code
    }
}

/// To what a control variable is to be bound.
fn bind_of_control(index: i32) -> Result<i32, i32> {
    let (mut verbosity, mut bind, mut scope) = (0, 0, 0);
    let (mut datatype, mut enumeration) = (0_usize, 0_usize);
    // SAFETY: the results are locals, and no string is asked for.
    let code = unsafe {
        stubs::MPI_T_cvar_get_info(
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
    mut handle: Option<Out<'_, *mut c_void>>,
    mut count: Option<Out<'_, i32>>,
) -> i32 {
    // SAFETY: `object` is the address of a handle, see the module's head. The results are locals and one number.
    let result = ready("MPI_T_cvar_handle_alloc").and_then(|()| unsafe {
        let lower_handle = bound(bind_of_control(index)?, object)?;
        let mut made = null_mut::<c_void>();
        let code = stubs::MPI_T_cvar_handle_alloc(
            index,
            (&raw const lower_handle).cast(),
            (&raw mut made).cast(),
            count.raw(),
        );
        if code == SUCCESS {
            let made = Box::into_raw(make(Kind::Control, made));
            put(&mut handle, made.cast());
        }
        Ok(code)
    });
    code(result.inspect_err(|_| {
        put(&mut handle, null_mut());
        put(&mut count, 0);
    }))
}

/// MPI_T_cvar_handle_free.
pub unsafe fn t_cvar_handle_free(mut handle: InOut<'_, *mut c_void>) -> i32 {
    // SAFETY: the handle is a box of ours, see the module's head. The application gives it up.
    code((|| unsafe {
        let known = known(handle.get(), Kind::Control)?;
        if !known.is_former() {
            let mut below = known.below;
            let code = stubs::MPI_T_cvar_handle_free((&raw mut below).cast());
            if code != SUCCESS {
                return Err(code);
            }
        }
        drop(Box::from_raw(handle.get().cast::<Handle>()));
        handle.set(null_mut());
        Ok(SUCCESS)
    })())
}

/// MPI_T_cvar_read.
pub unsafe fn t_cvar_read(handle: *const c_void, buf: *mut c_void) -> i32 {
    const NAME: &str = "MPI_T_cvar_read";
    // SAFETY: the handle is one of ours and the buffer fits its variable, see the module's head.
    code(ready(NAME).and_then(|()| unsafe {
        Ok(stubs::MPI_T_cvar_read(
            known(handle, Kind::Control)?.below(NAME)?,
            buf,
        ))
    }))
}

/// MPI_T_cvar_write.
pub unsafe fn t_cvar_write(handle: *const c_void, buf: *const c_void) -> i32 {
    const NAME: &str = "MPI_T_cvar_write";
    // SAFETY: the handle is one of ours and the buffer fits its variable, see the module's head.
    code(ready(NAME).and_then(|()| unsafe {
        Ok(stubs::MPI_T_cvar_write(
            known(handle, Kind::Control)?.below(NAME)?,
            buf,
        ))
    }))
}
