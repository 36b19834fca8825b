//! Performance variables, their sessions and handles.
//!
//! # Safety
//! As for `mod.rs`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see there

use crate::argument::{InOut, Out};
use crate::crossing::app_abi::{abi, ToolValue};
use crate::crossing::stubs;
use crate::mpi_t::{
    bound, code, known, make, put, put_datatype, put_enumeration, put_value, ready, Handle, Kind,
    Raw,
};
use contract::abi::{SUCCESS, T_ERR_INVALID_HANDLE, T_ERR_PVAR_NO_STARTSTOP, T_ERR_PVAR_NO_WRITE};
use core::ffi::{c_char, c_void, CStr};
use core::ptr::null_mut;

/// MPI_T_pvar_get_info.
#[allow(clippy::too_many_arguments)] // MPI's own
pub unsafe fn t_pvar_get_info(
    index: i32,
    name: *mut c_char,
    name_len: *mut i32,
    mut verbosity: Option<Out<'_, i32>>,
    mut class: Option<Out<'_, i32>>,
    datatype: *mut c_void,
    mut enumeration: Option<Out<'_, *mut c_void>>,
    desc: *mut c_char,
    desc_len: *mut i32,
    mut bind: Option<Out<'_, i32>>,
    mut readonly: Option<Out<'_, i32>>,
    mut continuous: Option<Out<'_, i32>>,
    mut atomic: Option<Out<'_, i32>>,
) -> i32 {
    if let Err(code) = ready("MPI_T_pvar_get_info") {
        return code;
    }
    let (mut its_verbosity, mut its_class, mut its_bind) = (0, 0, 0);
    let (mut its_type, mut its_enum) = (0_usize, null_mut::<c_void>());
    let (mut is_readonly, mut is_continuous, mut is_atomic) = (0, 0, 0);
    // SAFETY: the strings have the lengths beside them, and `datatype` is the place of a handle, see the module's head.
    unsafe {
        let code = stubs::MPI_T_pvar_get_info(
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
            put_value(&mut verbosity, ToolValue::Verbosity, its_verbosity);
            put_value(&mut class, ToolValue::PvarClass, its_class);
            put_datatype(datatype, its_type);
            put_enumeration(&mut enumeration, its_enum);
            put_value(&mut bind, ToolValue::Bind, its_bind);
            put(&mut readonly, is_readonly);
            put(&mut continuous, is_continuous);
            put(&mut atomic, is_atomic);
        }
        code
    }
}

/// To what a performance variable is to be bound.
fn bind_of_performance(index: i32) -> Result<i32, i32> {
    let mut ints = [0; 6];
    let [verbosity, class, bind, readonly, continuous, atomic] = &mut ints;
    let (mut datatype, mut enumeration) = (0_usize, 0_usize);
    // SAFETY: the results are locals, and no string is asked for.
    let code = unsafe {
        stubs::MPI_T_pvar_get_info(
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
pub fn t_pvar_get_index(
    mut name: Option<&CStr>,
    class: i32,
    mut index: Option<Out<'_, i32>>,
) -> i32 {
    if let Err(code) = ready("MPI_T_pvar_get_index") {
        return code;
    }
    let class = (abi().tool.class_in)(class);
    // SAFETY: the library reads a string and writes one number to the place of a result. It checks for NULL.
    unsafe { stubs::MPI_T_pvar_get_index(name.raw(), class, index.raw()) }
}

/// MPI_T_pvar_session_create.
pub fn t_pvar_session_create(mut session: Option<Out<'_, *mut c_void>>) -> i32 {
    if let Err(code) = ready("MPI_T_pvar_session_create") {
        put(&mut session, null_mut());
        return code;
    }
    let mut made = null_mut::<c_void>();
    // SAFETY: the result is a local.
    let code = unsafe { stubs::MPI_T_pvar_session_create((&raw mut made).cast()) };
    if code == SUCCESS {
        let made = Box::into_raw(make(Kind::Session, made));
        put(&mut session, made.cast());
    }
    code
}

/// MPI_T_pvar_session_free.
pub unsafe fn t_pvar_session_free(mut session: InOut<'_, *mut c_void>) -> i32 {
    // SAFETY: the session and its handles are boxes of ours, see the module's head. The application gives them up.
    code((|| unsafe {
        let known = known(session.get(), Kind::Session)?;
        if !known.is_former() {
            let mut below = known.below;
            let code = stubs::MPI_T_pvar_session_free((&raw mut below).cast());
            if code != SUCCESS {
                return Err(code);
            }
        }
        for member in known.members.lock().drain(..) {
            drop(Box::from_raw(member));
        }
        drop(Box::from_raw(session.get().cast::<Handle>()));
        session.set(null_mut());
        Ok(SUCCESS)
    })())
}

/// MPI_T_pvar_handle_alloc.
pub unsafe fn t_pvar_handle_alloc(
    session: *const c_void,
    index: i32,
    object: *const c_void,
    mut handle: Option<Out<'_, *mut c_void>>,
    mut count: Option<Out<'_, i32>>,
) -> i32 {
    const NAME: &str = "MPI_T_pvar_handle_alloc";
    // SAFETY: the session is one of ours and `object` is the address of a handle, see the module's head. The results
    // are locals and one number.
    let result = ready(NAME).and_then(|()| unsafe {
        let session = known(session, Kind::Session)?;
        let its_session = session.below(NAME)?;
        let lower_handle = bound(bind_of_performance(index)?, object)?;
        let mut made = null_mut::<c_void>();
        let code = stubs::MPI_T_pvar_handle_alloc(
            its_session,
            index,
            (&raw const lower_handle).cast(),
            (&raw mut made).cast(),
            count.raw(),
        );
        if code == SUCCESS {
            let made = Box::into_raw(make(Kind::Performance, made));
            session.members.lock().push(made);
            put(&mut handle, made.cast());
        }
        Ok(code)
    });
    code(result.inspect_err(|_| {
        put(&mut handle, null_mut());
        put(&mut count, 0);
    }))
}

/// MPI_T_pvar_handle_free.
pub unsafe fn t_pvar_handle_free(
    session: *const c_void,
    mut handle: InOut<'_, *mut c_void>,
) -> i32 {
    // SAFETY: the handle is a box of ours, see the module's head. The application gives it up.
    code((|| unsafe {
        let session = known(session, Kind::Session)?;
        let member = handle.get().cast::<Handle>();
        let known = known(member.cast(), Kind::Performance)?;
        if !session.members.lock().contains(&member) {
            return Err(T_ERR_INVALID_HANDLE);
        }
        if !known.is_former() {
            let mut below = known.below;
            let code = stubs::MPI_T_pvar_handle_free(session.below, (&raw mut below).cast());
            if code != SUCCESS {
                return Err(code);
            }
        }
        session.members.lock().retain(|other| *other != member);
        drop(Box::from_raw(member));
        handle.set(null_mut());
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
    // SAFETY: the handles are ours, see the module's head, and `act` is a crossing that takes them.
    code(ready(function).and_then(|()| unsafe {
        let session = known(session, Kind::Session)?;
        let its_session = session.below(function)?;
        if handle as usize != (abi().tool.all_handles)() {
            let handle = known(handle, Kind::Performance)?;
            return Ok(act(its_session, handle.below(function)?));
        }
        let members = session.members.lock().clone();
        for member in members {
            match act(its_session, (*member).below) {
                SUCCESS | T_ERR_PVAR_NO_STARTSTOP | T_ERR_PVAR_NO_WRITE => {}
                code => return Err(code),
            }
        }
        Ok(SUCCESS)
    }))
}

/// Functions that act on a handle of a session, or on all of them.
macro_rules! acting {
    ($($name:ident = $lower:ident;)*) => {$(
        #[doc = concat!(stringify!($lower), ".")]
        pub unsafe fn $name(session: *const c_void, handle: *const c_void) -> i32 {
            // SAFETY: the handles are ours, see the module's head.
            unsafe { on_handles(session, handle, stringify!($lower), stubs::$lower) }
        }
    )*};
}

acting! {
    t_pvar_start = MPI_T_pvar_start;
    t_pvar_stop = MPI_T_pvar_stop;
    t_pvar_reset = MPI_T_pvar_reset;
}

/// Functions that copy the value of a variable.
macro_rules! copying {
    ($($name:ident = $lower:ident($buffer:ty);)*) => {$(
        #[doc = concat!(stringify!($lower), ".")]
        pub unsafe fn $name(session: *const c_void, handle: *const c_void, buf: $buffer) -> i32 {
            const NAME: &str = stringify!($lower);
            // SAFETY: the handles are ours and the buffer fits the variable, see the module's head.
            code(ready(NAME).and_then(|()| unsafe {
                let session = known(session, Kind::Session)?.below(NAME)?;
                let handle = known(handle, Kind::Performance)?.below(NAME)?;
                Ok(stubs::$lower(session, handle, buf))
            }))
        }
    )*};
}

copying! {
    t_pvar_read = MPI_T_pvar_read(*mut c_void);
    t_pvar_write = MPI_T_pvar_write(*const c_void);
    t_pvar_readreset = MPI_T_pvar_readreset(*mut c_void);
}
