//! The tools interface (MPI_T): variables of the library below, passed through.
//!
//! What they are called, how many there are and what they count is that library's alone, and a restart
//! exchanges it, maybe for another one. So nothing that a program has learned of them holds after a
//! restart: until it initialises the interface again, every call but MPI_T_finalize (and freeing what
//! it holds) is refused, and afterwards every handle that it had is. Each refusal says so; a number of
//! another variable, or a counter that begins anew, would be silently wrong. To a program that looks at
//! no error, what is refused tells that there is nothing: counts are 0 and handles NULL, or it would go
//! through as many variables as lies in its memory by chance.
//!
//! Handles are therefore objects of the upper half that know when they were made. Values are
//! converted here and not by the front, because the standard allows NULL for whatever the caller does
//! not want to know. Errors are returned; no error handler is called.
//!
//! # Safety
//! The unsafe functions take pointers whose validity only MPI's contract states. A handle of the application was given
//! out here and is not freed. A string has as many bytes as the number beside it says, or is NULL. A buffer has room
//! for the elements of its variable. The address of an object is that of a handle of the kind to which the variable is
//! bound.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

mod control;
mod performance;

pub use control::*;
pub use performance::*;

use crate::argument::{Out, Output};
use crate::crossing::app_abi::{abi, ToolValue};
use crate::crossing::report::advise;
use crate::crossing::stubs;
use crate::init::predefined::word_of;
use crate::object::{Comm, Datatype, File, Win};
use crate::runtime::lock::Lock;
use contract::abi::*;
use contract::{gate, HandleKind};
use core::ffi::{c_char, c_void, CStr};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How often the application has initialised the interface of the library below, and not finalised.
static INITIALISED: AtomicU32 = AtomicU32::new(0);
/// The same of libraries that restarts have left behind.
static FORMERLY: AtomicU32 = AtomicU32::new(0);
/// The lower half that [`INITIALISED`] speaks of, by its epoch.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// The advice was given since the last restart.
static ADVISED: AtomicBool = AtomicBool::new(false);
/// Enumerations that the application was told of: the library has few, and they are never freed.
static ENUMERATIONS: Lock<Vec<&'static Handle>> = Lock::new(Vec::new());

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Enumeration,
    Control,
    Performance,
    Session,
}

impl Kind {
    /// What it is called, and what to do where it does not hold any more.
    fn lower_handles(self) -> (&'static str, &'static str) {
        const AGAIN: &str = "free it, and get another one";
        match self {
            Kind::Enumeration => ("enumeration", "look its variable up again"),
            Kind::Control => ("handle of a control variable", AGAIN),
            Kind::Performance => ("handle of a performance variable", AGAIN),
            Kind::Session => ("session", AGAIN),
        }
    }

    /// The error for one that does not hold.
    fn invalid(self) -> i32 {
        match self {
            Kind::Session => T_ERR_INVALID_SESSION,
            Kind::Enumeration | Kind::Control | Kind::Performance => T_ERR_INVALID_HANDLE,
        }
    }
}

/// What the application has for something of the library's.
pub(crate) struct Handle {
    kind: Kind,
    epoch: u32,
    /// The library's own handle.
    below: *mut c_void,
    /// That it is of a former library has been said.
    is_advised: AtomicBool,
    /// Of a session: its handles.
    members: Lock<Vec<*mut Handle>>,
}

// SAFETY: the library's handle is only ever given back to it, which serves all threads; the members
// are behind a lock.
unsafe impl Sync for Handle {}

/// The lower half that is there: every restart begins an epoch.
fn epoch() -> u32 {
    gate().lower.epoch.load(Ordering::Acquire)
}

/// After a restart nothing holds but that the application owes as many MPI_T_finalize.
fn settle() {
    let now = epoch();
    if EPOCH.swap(now, Ordering::Relaxed) != now {
        FORMERLY.fetch_add(INITIALISED.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        ADVISED.store(false, Ordering::Relaxed);
    }
}

/// Whether the interface that the application initialised is that of the library below. Where it never
/// did, that library finds the error.
pub(crate) fn ready(function: &str) -> Result<(), i32> {
    settle();
    let is_former =
        INITIALISED.load(Ordering::Relaxed) == 0 && FORMERLY.load(Ordering::Relaxed) > 0;
    if !is_former {
        return Ok(());
    }
    if !ADVISED.swap(true, Ordering::Relaxed) {
        advise(&format!(
            "{function}: the job was restarted from a checkpoint, and the MPI library whose tools \
             interface the program had initialised is gone; call MPI_T_init_thread again, then look \
             variables up and allocate handles anew"
        ));
    }
    Err(T_ERR_NOT_INITIALIZED)
}

pub(crate) fn make(kind: Kind, below: *mut c_void) -> Box<Handle> {
    Box::new(Handle {
        kind,
        epoch: epoch(),
        below,
        is_advised: AtomicBool::new(false),
        members: Lock::new(Vec::new()),
    })
}

/// The handle that the application means.
///
/// # Safety
/// The handle was given out here and is not freed, or it is null.
pub(crate) unsafe fn known<'a>(handle: *const c_void, kind: Kind) -> Result<&'a Handle, i32> {
    // SAFETY: the caller's promise.
    let handle = unsafe { handle.cast::<Handle>().as_ref() };
    handle
        .filter(|handle| handle.kind == kind)
        .ok_or(kind.invalid())
}

impl Handle {
    fn is_former(&self) -> bool {
        self.epoch != epoch()
    }

    /// The library's own handle. The error is that of a handle of a former library.
    pub(crate) fn below(&self, function: &str) -> Result<*mut c_void, i32> {
        if !self.is_former() {
            return Ok(self.below);
        }
        if !self.is_advised.swap(true, Ordering::Relaxed) {
            let (what, advice) = self.kind.lower_handles();
            advise(&format!(
                "{function}: this {what} is of before the job was restarted from a checkpoint, and the \
                 MPI library that it belonged to is gone; {advice}"
            ));
        }
        Err(self.kind.invalid())
    }
}

/// An argument as the stubs take it. Nothing is a null pointer.
pub(crate) trait Raw {
    type Pointer;

    fn raw(&mut self) -> Self::Pointer;
}

impl<T> Raw for Option<Out<'_, T>> {
    type Pointer = *mut T;

    fn raw(&mut self) -> *mut T {
        self.as_mut().map_or(null_mut(), Out::as_ptr)
    }
}

impl Raw for Option<&CStr> {
    type Pointer = *const c_char;

    fn raw(&mut self) -> *const c_char {
        self.map_or(null(), CStr::as_ptr)
    }
}

/// Writes a result, if the application asks for it.
pub(crate) fn put<T>(to: &mut Option<Out<'_, T>>, value: T) {
    if let Some(to) = to {
        to.set(value);
    }
}

/// Writes a value that the application knows under its ABI's number.
pub(crate) fn put_value(to: &mut Option<Out<'_, i32>>, group: ToolValue, standard: i32) {
    put(to, (abi().tool.out)(group, standard));
}

/// Writes the application's handle of a datatype, which the library names by its lower handle.
///
/// # Safety
/// `to` is the place of a handle of the application, or null.
pub(crate) unsafe fn put_datatype(to: *mut c_void, lower_handle: usize) {
    // Before MPI_Init no object knows its lower handle, so the lower half is asked.
    let found = datatype::ALL
        .iter()
        .find(|(_, standard)| lower_handle == word_of(HandleKind::Datatype, *standard));
    let index = found.map_or(datatype::DATATYPE_NULL, |(_, standard)| *standard);
    let value = Datatype::at(index as u32).handle();
    if to.is_null() {
        return;
    }
    // SAFETY: a handle of the application is an int or a pointer, and its place has that size.
    unsafe {
        match abi().handle_size {
            4 => to.cast::<u32>().write(value as u32),
            _ => to.cast::<usize>().write(value),
        }
    }
}

/// Writes the application's handle of an enumeration.
pub(crate) fn put_enumeration(to: &mut Option<Out<'_, *mut c_void>>, below: *mut c_void) {
    let mut given = null_mut();
    if !below.is_null() {
        let mut all = ENUMERATIONS.lock();
        let found = all
            .iter()
            .find(|known| known.below == below && !known.is_former())
            .copied();
        let handle = found.unwrap_or_else(|| {
            let made: &'static Handle = Box::leak(make(Kind::Enumeration, below));
            all.push(made);
            made
        });
        given = core::ptr::from_ref(handle).cast_mut().cast();
    }
    put(to, given);
}

/// The lower handle of the object to which a variable is to be bound. The library is given its address.
///
/// # Safety
/// `object` is the address of a handle of the application, or null. The lower handle is used at once, for a crossing.
pub(crate) unsafe fn bound(bind: i32, object: *const c_void) -> Result<usize, i32> {
    let kind = match bind {
        T_BIND_NO_OBJECT => return Ok(0),
        T_BIND_MPI_COMM => HandleKind::Comm,
        T_BIND_MPI_DATATYPE => HandleKind::Datatype,
        T_BIND_MPI_WIN => HandleKind::Win,
        T_BIND_MPI_FILE => HandleKind::File,
        // Objects that are not the library's below, or not for long.
        _ => return Err(T_ERR_NOT_SUPPORTED),
    };
    if object.is_null() {
        return Err(ERR_ARG);
    }
    // SAFETY: the caller's promise: the address is that of a handle, which is an int or a pointer.
    let value = unsafe {
        match abi().handle_size {
            4 => object.cast::<u32>().read() as usize,
            _ => object.cast::<usize>().read(),
        }
    };
    let index = (abi().index_of)(kind, value);
    Ok(match kind {
        HandleKind::Comm => Comm::at(index).lower(),
        HandleKind::Datatype => Datatype::at(index).lower(),
        HandleKind::Win => Win::at(index).lower(),
        _ => File::at(index).lower(),
    })
}

/// The function's result as C has it.
pub(crate) fn code(result: Result<i32, i32>) -> i32 {
    result.unwrap_or_else(|code| code)
}

/// MPI_T_init_thread.
pub fn t_init_thread(required: i32, mut provided: Out<'_, i32>) -> i32 {
    settle();
    // SAFETY: the library writes one number to the place of a result.
    let code = unsafe { stubs::MPI_T_init_thread(required, provided.as_ptr()) };
    if code == SUCCESS {
        INITIALISED.fetch_add(1, Ordering::Relaxed);
    }
    code
}

/// MPI_T_finalize.
pub fn t_finalize() -> i32 {
    settle();
    if INITIALISED.load(Ordering::Relaxed) == 0 && FORMERLY.load(Ordering::Relaxed) > 0 {
        FORMERLY.fetch_sub(1, Ordering::Relaxed);
        return SUCCESS;
    }
    let code = stubs::MPI_T_finalize();
    if code == SUCCESS {
        INITIALISED.fetch_sub(1, Ordering::Relaxed);
    }
    code
}

/// Functions that only ask, and whose answers mean the same in every ABI. Those that count give 0 where they are
/// refused.
macro_rules! asking {
    ($($name:ident = $lower:ident($($arg:ident: $type:ty),*) $(counts $count:ident)?;)*) => {$(
        #[doc = concat!(stringify!($lower), ".")]
        pub fn $name($(mut $arg: $type),*) -> i32 {
            if let Err(code) = ready(stringify!($lower)) {
                $(put(&mut $count, 0);)?
                return code;
            }
            // SAFETY: the library reads a string and writes one number to the place of a result. It checks for NULL.
            unsafe { stubs::$lower($($arg.raw()),*) }
        }
    )*};
}

asking! {
    t_cvar_get_num = MPI_T_cvar_get_num(num: Option<Out<'_, i32>>) counts num;
    t_cvar_get_index = MPI_T_cvar_get_index(name: Option<&CStr>, index: Option<Out<'_, i32>>);
    t_pvar_get_num = MPI_T_pvar_get_num(num: Option<Out<'_, i32>>) counts num;
    t_category_get_num = MPI_T_category_get_num(num: Option<Out<'_, i32>>) counts num;
    t_category_get_index = MPI_T_category_get_index(name: Option<&CStr>, index: Option<Out<'_, i32>>);
    t_category_changed = MPI_T_category_changed(stamp: Option<Out<'_, i32>>);
}

/// Functions that list what is in a category.
macro_rules! listing {
    ($($name:ident = $lower:ident;)*) => {$(
        #[doc = concat!(stringify!($lower), ".")]
        pub fn $name(category: i32, len: i32, mut indices: Output<'_, i32>) -> i32 {
            if let Err(code) = ready(stringify!($lower)) {
                return code;
            }
            let first = indices.as_ptr();
            // The library judges a null pointer and a negative length.
            let len = match first.is_null() {
                true => len,
                false => len.min(indices.len() as i32),
            };
            // SAFETY: there is room for `len` numbers.
            unsafe { stubs::$lower(category, len, first) }
        }
    )*};
}

listing! {
    t_category_get_cvars = MPI_T_category_get_cvars;
    t_category_get_pvars = MPI_T_category_get_pvars;
    t_category_get_categories = MPI_T_category_get_categories;
}

/// MPI_T_category_get_info.
#[allow(clippy::too_many_arguments)] // MPI's own
pub unsafe fn t_category_get_info(
    index: i32,
    name: *mut c_char,
    name_len: *mut i32,
    desc: *mut c_char,
    desc_len: *mut i32,
    mut cvars: Option<Out<'_, i32>>,
    mut pvars: Option<Out<'_, i32>>,
    mut categories: Option<Out<'_, i32>>,
) -> i32 {
    if let Err(code) = ready("MPI_T_category_get_info") {
        put(&mut cvars, 0);
        put(&mut pvars, 0);
        put(&mut categories, 0);
        return code;
    }
    let (cvars, pvars, categories) = (cvars.raw(), pvars.raw(), categories.raw());
    // SAFETY: the strings have the lengths beside them, see the module's head.
    unsafe {
        stubs::MPI_T_category_get_info(
            index, name, name_len, desc, desc_len, cvars, pvars, categories,
        )
    }
}

/// MPI_T_enum_get_info.
pub unsafe fn t_enum_get_info(
    enumeration: *const c_void,
    mut num: Option<Out<'_, i32>>,
    name: *mut c_char,
    name_len: *mut i32,
) -> i32 {
    const NAME: &str = "MPI_T_enum_get_info";
    // SAFETY: the handle is one of ours and the string has the length beside it, see the module's head.
    let result = ready(NAME).and_then(|()| unsafe {
        let below = known(enumeration, Kind::Enumeration)?.below(NAME)?;
        Ok(stubs::MPI_T_enum_get_info(below, num.raw(), name, name_len))
    });
    code(result.inspect_err(|_| put(&mut num, 0)))
}

/// MPI_T_enum_get_item.
pub unsafe fn t_enum_get_item(
    enumeration: *const c_void,
    index: i32,
    mut value: Option<Out<'_, i32>>,
    name: *mut c_char,
    name_len: *mut i32,
) -> i32 {
    const NAME: &str = "MPI_T_enum_get_item";
    // SAFETY: the handle is one of ours and the string has the length beside it, see the module's head.
    code(ready(NAME).and_then(|()| unsafe {
        let below = known(enumeration, Kind::Enumeration)?.below(NAME)?;
        Ok(stubs::MPI_T_enum_get_item(
            below,
            index,
            value.raw(),
            name,
            name_len,
        ))
    }))
}
