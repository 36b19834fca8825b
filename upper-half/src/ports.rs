//! Ports, and the names under which they are published.
//!
//! Both are the library's below. Nobody is reached through them, since accepting and connecting is
//! refused (`docs/not-supported.md`); but programs open, publish and look up, and close what they
//! opened. A restart exchanges the library: there the names are published again, and closing a port
//! of the former library is nothing that the new one could do.
//!
//! # Safety
//! Strings and out parameters are the application's, as MPI prescribes them; crossings pass these on,
//! or strings that are kept here.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::info::{crossing_entries, crossing_info};
use crate::lower;
use crate::object::Info;
use crate::sync::Lock;
use contract::abi::SUCCESS;
use core::ffi::{c_char, CStr};
use std::ffi::CString;

/// A published name.
struct Name {
    service: CString,
    port: CString,
    hints: Vec<(CString, CString)>,
    /// The library below knows it.
    is_published: bool,
}

static NAMES: Lock<Vec<Name>> = Lock::new(Vec::new());
/// Ports that the library below has opened.
static OPEN: Lock<Vec<CString>> = Lock::new(Vec::new());
/// Ports that a library before a restart has opened.
static FORMER: Lock<Vec<CString>> = Lock::new(Vec::new());

/// Takes a port out of a list, if it is there.
fn take(ports: &Lock<Vec<CString>>, port: &CStr) -> bool {
    let mut ports = ports.lock();
    let place = ports.iter().position(|known| known.as_c_str() == port);
    place.is_some_and(|place| {
        ports.swap_remove(place);
        true
    })
}

/// MPI_Open_port.
pub unsafe fn open_port(info: &'static Info, port: *mut c_char) -> i32 {
    let info = crossing_info(info);
    // SAFETY: see the module's head. The library has written a string where it says that it has.
    unsafe {
        let code = lower::MPI_Open_port(info.word(), port);
        if code == SUCCESS {
            OPEN.lock().push(CStr::from_ptr(port).to_owned());
        }
        code
    }
}

/// MPI_Close_port.
pub unsafe fn close_port(port: *const c_char) -> i32 {
    // SAFETY: see the module's head.
    let name = unsafe { CStr::from_ptr(port) };
    if take(&OPEN, name) || !take(&FORMER, name) {
        // SAFETY: as above.
        return unsafe { lower::MPI_Close_port(port) };
    }
    SUCCESS
}

/// MPI_Publish_name.
pub unsafe fn publish_name(
    service: *const c_char,
    info: &'static Info,
    port: *const c_char,
) -> i32 {
    let crossing = crossing_info(info);
    // SAFETY: see the module's head.
    unsafe {
        let code = lower::MPI_Publish_name(service, crossing.word(), port);
        if code == SUCCESS {
            NAMES.lock().push(Name {
                service: CStr::from_ptr(service).to_owned(),
                port: CStr::from_ptr(port).to_owned(),
                hints: info.body.entries(),
                is_published: true,
            });
        }
        code
    }
}

/// MPI_Unpublish_name.
pub unsafe fn unpublish_name(
    service: *const c_char,
    info: &'static Info,
    port: *const c_char,
) -> i32 {
    // SAFETY: see the module's head.
    let wanted = unsafe { CStr::from_ptr(service) };
    let known = {
        let mut names = NAMES.lock();
        let place = names.iter().position(|n| n.service.as_c_str() == wanted);
        place.map(|place| names.swap_remove(place))
    };
    if known.is_some_and(|name| !name.is_published) {
        return SUCCESS;
    }
    let info = crossing_info(info);
    // SAFETY: see the module's head.
    unsafe { lower::MPI_Unpublish_name(service, info.word(), port) }
}

/// At a restart: tells the new library the names. One that it does not take (some want a server for
/// names) cannot be looked up any more, which the standard lets happen at any time.
pub(crate) fn rebuild() {
    FORMER.lock().append(&mut OPEN.lock());
    for name in NAMES.lock().iter_mut() {
        let info = crossing_entries(&name.hints);
        // SAFETY: strings that are kept here.
        let code = unsafe {
            lower::MPI_Publish_name(name.service.as_ptr(), info.word(), name.port.as_ptr())
        };
        name.is_published = code == SUCCESS;
    }
}
