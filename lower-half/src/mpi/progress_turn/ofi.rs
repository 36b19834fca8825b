//! Turns in MPICH over libfabric. Each wait of MPICH asks a completion queue for entries: `fi_cq_read`, which the
//! headers define as a call through the queue's table of functions. This program's `fi_fabric` is found before
//! libfabric's. It gives the fabric a copy of its table, in which the function that makes domains is one of this file.
//! That does the same to domains, and these to the queues that MPICH makes.
//!
//! # Safety
//! The objects of libfabric begin with three words and the address of their table. A table begins with its size in
//! bytes. Newer versions of libfabric add functions at the end (fi_fabric(3), "ABI"). A copy has one more word, for the
//! function that it replaces, and stays for ever.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use crate::mpi::backoff::library;

/// An object of libfabric: a fabric, a domain or a completion queue.
#[repr(C)]
pub struct Object {
    head: [usize; 3],
    table: *mut usize,
}

/// Functions of the tables, by their words.
const DOMAIN: usize = 1;
const CQ_OPEN: usize = 2;
const READ: usize = 1;

/// Makes an object of another: of what, with which attributes, where it is to be, and a context.
type Make = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut Object, *mut c_void) -> c_int;
type Fabric = unsafe extern "C" fn(*mut c_void, *mut *mut Object, *mut c_void) -> c_int;
type Read = unsafe extern "C" fn(*mut Object, *mut c_void, usize) -> isize;

/// libfabric's function of this name; the fabric makes domains by [`domain`].
///
/// # Safety
/// That of libfabric's function.
#[no_mangle]
pub unsafe extern "C" fn fi_fabric(
    attributes: *mut c_void,
    fabric: *mut *mut Object,
    context: *mut c_void,
) -> c_int {
    // SAFETY: a name; libfabric's function has this type. It has made the fabric if it returns 0.
    unsafe {
        let real = libc::dlsym(libc::RTLD_NEXT, c"fi_fabric".as_ptr());
        if real.is_null() {
            return -libc::ENOSYS;
        }
        let real = core::mem::transmute::<*mut c_void, Fabric>(real);
        let code = real(attributes, fabric, context);
        if code == 0 {
            replace(*fabric, DOMAIN, domain as *const () as usize);
        }
        code
    }
}

unsafe extern "C" fn domain(
    fabric: *mut c_void,
    info: *mut c_void,
    made: *mut *mut Object,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller means the function that this replaces. It has made the domain if it returns 0.
    unsafe {
        let real = core::mem::transmute::<usize, Make>(replaced(fabric.cast()));
        let code = real(fabric, info, made, context);
        if code == 0 {
            replace(*made, CQ_OPEN, cq_open as *const () as usize);
        }
        code
    }
}

unsafe extern "C" fn cq_open(
    domain: *mut c_void,
    attributes: *mut c_void,
    made: *mut *mut Object,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as for domains.
    unsafe {
        let real = core::mem::transmute::<usize, Make>(replaced(domain.cast()));
        let code = real(domain, attributes, made, context);
        if code == 0 {
            replace(*made, READ, read as *const () as usize);
            super::SERVED.store(true, Ordering::Relaxed);
        }
        code
    }
}

unsafe extern "C" fn read(queue: *mut Object, entries: *mut c_void, count: usize) -> isize {
    super::turn();
    // SAFETY: the caller means the function that this replaces.
    let found =
        unsafe { core::mem::transmute::<usize, Read>(replaced(queue))(queue, entries, count) };
    library::has_polled(1, found > 0);
    found
}

/// Gives an object a copy of its table with another function.
///
/// # Safety
/// It is an object of libfabric whose table has that word.
unsafe fn replace(object: *mut Object, word: usize, function: usize) {
    // SAFETY: see the head of this file.
    unsafe {
        let table = (*object).table;
        let words = *table / size_of::<usize>();
        let mut copy = std::slice::from_raw_parts(table, words).to_vec();
        copy.push(copy[word]);
        copy[word] = function;
        (*object).table = copy.leak().as_mut_ptr();
    }
}

/// The function that was replaced in an object's table.
///
/// # Safety
/// The object has a copy.
unsafe fn replaced(object: *mut Object) -> usize {
    // SAFETY: see the head of this file.
    unsafe {
        let table = (*object).table;
        *table.add(*table / size_of::<usize>())
    }
}
