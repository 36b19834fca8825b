//! Ports, and the names under which they are published.
//!
//! Both belong to the library below. They connect no processes, since accepting and connecting is refused
//! (`docs/not-supported.md`), but programs open, publish and look up, and close what they opened. A restart exchanges
//! the library: the names are published again in the new one, and closing a port of the former library does nothing.
//!
//! # Safety
//! Two crossings take a port's name, which is a C string or the application's room for one.
#![allow(unsafe_code)]

use crate::argument::Output;
use crate::crossing::stubs;
use crate::object::info::{crossing_entries, crossing_info};
use crate::object::lower_handle::named;
use crate::object::Info;
use crate::runtime::lock::Lock;
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
pub fn open_port(info: &'static Info, mut port: Output<'_, c_char>) -> i32 {
    let info = crossing_info(info);
    // SAFETY: there is room for MPI_MAX_PORT_NAME bytes. The library writes a string there if it succeeds.
    unsafe {
        let code = named::MPI_Open_port(&info, port.as_ptr());
        if code == SUCCESS {
            OPEN.lock().push(CStr::from_ptr(port.as_ptr()).to_owned());
        }
        code
    }
}

/// MPI_Close_port.
pub fn close_port(port: &CStr) -> i32 {
    if take(&OPEN, port) || !take(&FORMER, port) {
        // SAFETY: a C string.
        return unsafe { stubs::MPI_Close_port(port.as_ptr()) };
    }
    SUCCESS
}

/// MPI_Publish_name.
pub fn publish_name(service: &CStr, info: &'static Info, port: &CStr) -> i32 {
    let code = named::MPI_Publish_name(service, &crossing_info(info), port);
    if code == SUCCESS {
        NAMES.lock().push(Name {
            service: service.to_owned(),
            port: port.to_owned(),
            hints: info.body.entries(),
            is_published: true,
        });
    }
    code
}

/// MPI_Unpublish_name.
pub fn unpublish_name(service: &CStr, info: &'static Info, port: &CStr) -> i32 {
    let known = {
        let mut names = NAMES.lock();
        let place = names.iter().position(|n| n.service.as_c_str() == service);
        place.map(|place| names.swap_remove(place))
    };
    if known.is_some_and(|name| !name.is_published) {
        return SUCCESS;
    }
    named::MPI_Unpublish_name(service, &crossing_info(info), port)
}

/// At a restart: tells the new library the names. Some libraries want a server for names and refuse. A name that is
/// refused cannot be looked up any more, which the standard lets happen at any time.
pub(crate) fn republish() {
    FORMER.lock().append(&mut OPEN.lock());
    for name in NAMES.lock().iter_mut() {
        let info = crossing_entries(&name.hints);
        name.is_published = named::MPI_Publish_name(&name.service, &info, &name.port) == SUCCESS;
    }
}
