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
//! Out parameters are the application's, as MPI prescribes them, or NULL; crossings pass these on, or
//! pointers to locals. A handle of the application is one that was given out here and is not freed.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

mod control;
mod performance;

use crate::abi::{abi, ToolValue};
use crate::error;
use crate::lower::{self, service};
use crate::object::{Comm, Datatype, File, Win};
use crate::sync::Lock;
use contract::abi::*;
use contract::{gate, HandleKind};
use core::ffi::{c_char, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

pub use control::*;
pub use performance::*;

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
enum Kind {
    Enumeration,
    Control,
    Performance,
    Session,
}

impl Kind {
    /// What it is called, and what to do where it does not hold any more.
    fn words(self) -> (&'static str, &'static str) {
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
struct Handle {
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
fn ready(function: &str) -> Result<(), i32> {
    settle();
    let is_former =
        INITIALISED.load(Ordering::Relaxed) == 0 && FORMERLY.load(Ordering::Relaxed) > 0;
    if !is_former {
        return Ok(());
    }
    if !ADVISED.swap(true, Ordering::Relaxed) {
        error::advise(&format!(
            "{function}: the job was restarted from a checkpoint, and the MPI library whose tools \
             interface the program had initialised is gone; call MPI_T_init_thread again, then look \
             variables up and allocate handles anew"
        ));
    }
    Err(T_ERR_NOT_INITIALIZED)
}

fn make(kind: Kind, below: *mut c_void) -> *mut Handle {
    Box::into_raw(Box::new(Handle {
        kind,
        epoch: epoch(),
        below,
        is_advised: AtomicBool::new(false),
        members: Lock::new(Vec::new()),
    }))
}

/// The handle that the application means.
unsafe fn known<'a>(handle: *const c_void, kind: Kind) -> Result<&'a Handle, i32> {
    // SAFETY: see the module's head.
    let handle = unsafe { handle.cast::<Handle>().as_ref() };
    handle
        .filter(|handle| handle.kind == kind)
        .ok_or(kind.invalid())
}

/// The library's own handle behind the application's, which must be of this library.
unsafe fn below(handle: *const c_void, kind: Kind, function: &str) -> Result<*mut c_void, i32> {
    // SAFETY: passed on.
    let handle = unsafe { known(handle, kind)? };
    if handle.is_former() {
        if !handle.is_advised.swap(true, Ordering::Relaxed) {
            let (what, advice) = kind.words();
            error::advise(&format!(
                "{function}: this {what} is of before the job was restarted from a checkpoint, and the \
                 MPI library that it belonged to is gone; {advice}"
            ));
        }
        return Err(kind.invalid());
    }
    Ok(handle.below)
}

impl Handle {
    fn is_former(&self) -> bool {
        self.epoch != epoch()
    }
}

/// Writes where the application wants to know.
unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: see the module's head.
        unsafe { to.write(value) };
    }
}

/// Writes that there is no handle, and that it would be of no elements.
unsafe fn put_none(handle: *mut c_void, count: *mut i32) {
    // SAFETY: passed on.
    unsafe {
        put(handle.cast::<*mut Handle>(), null_mut());
        put(count, 0);
    }
}

/// Writes a value that the application knows under its ABI's number.
unsafe fn put_value(to: *mut i32, group: ToolValue, standard: i32) {
    // SAFETY: passed on.
    unsafe { put(to, (abi().tool.out)(group, standard)) };
}

/// The same for a datatype that the library names by its word.
unsafe fn put_datatype(to: *mut c_void, word: usize) {
    // Before MPI_Init no object knows its word, so the lower half is asked.
    let found = datatype::ALL.iter().find(|(_, standard)| {
        // SAFETY: the service takes any value.
        word == unsafe { service::predefined(HandleKind::Datatype as u32, *standard) }
    });
    let index = found.map_or(datatype::DATATYPE_NULL, |(_, standard)| *standard);
    let value = Datatype::at(index as u32).handle();
    // SAFETY: a handle of the application's is an int or a pointer.
    unsafe {
        match abi().handle_size {
            4 => put(to.cast::<u32>(), value as u32),
            _ => put(to.cast::<usize>(), value),
        }
    }
}

/// The same for an enumeration.
unsafe fn put_enumeration(to: *mut c_void, below: *mut c_void) {
    let mut given = null_mut();
    if !below.is_null() {
        let mut all = ENUMERATIONS.lock();
        let found = all
            .iter()
            .find(|known| known.below == below && !known.is_former());
        given = match found {
            Some(known) => core::ptr::from_ref(*known).cast_mut(),
            None => {
                let made = make(Kind::Enumeration, below);
                // SAFETY: it is never freed.
                all.push(unsafe { &*made });
                made
            }
        };
    }
    // SAFETY: passed on.
    unsafe { put(to.cast::<*mut Handle>(), given) };
}

/// The word of the object to which a variable is to be bound. The library is given its address.
unsafe fn bound(bind: i32, object: *const c_void) -> Result<usize, i32> {
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
    // SAFETY: the address of a handle of the application's.
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
fn code(result: Result<i32, i32>) -> i32 {
    result.unwrap_or_else(|code| code)
}

/// MPI_T_init_thread.
pub unsafe fn t_init_thread(required: i32, provided: *mut i32) -> i32 {
    settle();
    // SAFETY: see the module's head.
    let code = unsafe { lower::MPI_T_init_thread(required, provided) };
    if code == SUCCESS {
        INITIALISED.fetch_add(1, Ordering::Relaxed);
    }
    code
}

/// MPI_T_finalize.
pub unsafe fn t_finalize() -> i32 {
    settle();
    if INITIALISED.load(Ordering::Relaxed) == 0 && FORMERLY.load(Ordering::Relaxed) > 0 {
        FORMERLY.fetch_sub(1, Ordering::Relaxed);
        return SUCCESS;
    }
    // SAFETY: no arguments.
    let code = unsafe { lower::MPI_T_finalize() };
    if code == SUCCESS {
        INITIALISED.fetch_sub(1, Ordering::Relaxed);
    }
    code
}

/// Functions that only ask, and whose answers mean the same in every ABI. Those that count count nothing
/// where they are refused.
macro_rules! asking {
    ($($name:ident = $lower:ident($($arg:ident: $type:ty),*) $(counts $($count:ident),+)?;)*) => {$(
        #[doc = concat!(stringify!($lower), ".")]
        #[allow(clippy::too_many_arguments)] // MPI's own
        pub unsafe fn $name($($arg: $type),*) -> i32 {
            if let Err(code) = ready(stringify!($lower)) {
                // SAFETY: see the module's head.
                $(unsafe { $(put($count, 0);)+ })?
                return code;
            }
            // SAFETY: see the module's head.
            unsafe { lower::$lower($($arg),*) }
        }
    )*};
}

asking! {
    t_cvar_get_num = MPI_T_cvar_get_num(num: *mut i32) counts num;
    t_cvar_get_index = MPI_T_cvar_get_index(name: *const c_char, index: *mut i32);
    t_pvar_get_num = MPI_T_pvar_get_num(num: *mut i32) counts num;
    t_category_get_num = MPI_T_category_get_num(num: *mut i32) counts num;
    t_category_get_info = MPI_T_category_get_info(index: i32, name: *mut c_char, name_len: *mut i32,
        desc: *mut c_char, desc_len: *mut i32, cvars: *mut i32, pvars: *mut i32, categories: *mut i32)
        counts cvars, pvars, categories;
    t_category_get_index = MPI_T_category_get_index(name: *const c_char, index: *mut i32);
    t_category_get_cvars = MPI_T_category_get_cvars(category: i32, len: i32, indices: *mut i32);
    t_category_get_pvars = MPI_T_category_get_pvars(category: i32, len: i32, indices: *mut i32);
    t_category_get_categories =
        MPI_T_category_get_categories(category: i32, len: i32, indices: *mut i32);
    t_category_changed = MPI_T_category_changed(stamp: *mut i32);
}

/// MPI_T_enum_get_info.
pub unsafe fn t_enum_get_info(
    enumeration: *const c_void,
    num: *mut i32,
    name: *mut c_char,
    name_len: *mut i32,
) -> i32 {
    const NAME: &str = "MPI_T_enum_get_info";
    // SAFETY: see the module's head.
    let result = ready(NAME).and_then(|()| unsafe {
        let below = below(enumeration, Kind::Enumeration, NAME)?;
        Ok(lower::MPI_T_enum_get_info(below, num, name, name_len))
    });
    // SAFETY: as above.
    code(result.inspect_err(|_| unsafe { put(num, 0) }))
}

/// MPI_T_enum_get_item.
pub unsafe fn t_enum_get_item(
    enumeration: *const c_void,
    index: i32,
    value: *mut i32,
    name: *mut c_char,
    name_len: *mut i32,
) -> i32 {
    const NAME: &str = "MPI_T_enum_get_item";
    // SAFETY: see the module's head.
    code(ready(NAME).and_then(|()| unsafe {
        let below = below(enumeration, Kind::Enumeration, NAME)?;
        Ok(lower::MPI_T_enum_get_item(
            below, index, value, name, name_len,
        ))
    }))
}
