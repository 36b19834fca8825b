//! What the lower half's libraries write to files: for those that are open by MPI_File_open the undo journal notes
//! first what was there (`state/files/journal/below.rs`).
//!
//! Those libraries find [`write`] and its kin here and not in their C library (`lower-half/build.rs` exports them).
//! Each does what the C library's does, by calling that. So the process that truly writes notes, which need not be the
//! one whose application asked for it: collective operations write for others, and write back what lies between.
//!
//! To add a function that changes files: here, and its name to `lower-half/build.rs`.
//!
//! # Safety
//! The functions have the signatures of glibc's, and pass their arguments on. They run with the lower FS; before
//! `main`, in signal handlers and in forked children, too, where they look at nothing but an atomic. Control blocks
//! and vectors of buffers are read as the function that is called reads them.
#![allow(unsafe_code)]

use crate::state::journal::{self, below};
use crate::syscalls::{allocated, span};
use core::ffi::{c_int, c_void, CStr};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{aiocb, iovec, off_t, sigevent, size_t, ssize_t};

/// A function of the C library.
struct Function {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Function {
    const fn new(name: &'static CStr) -> Function {
        Function {
            name,
            address: AtomicUsize::new(0),
        }
    }

    /// With a NUL at the end.
    const fn named(name: &'static str) -> Function {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Function::new(name),
            Err(_) => panic!("no name"),
        }
    }

    fn address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => {
                // SAFETY: a name with its NUL.
                let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
                self.address.store(found, Ordering::Relaxed);
                found
            }
            found => found,
        }
    }
}

fn errno() -> &'static mut c_int {
    // SAFETY: the caller is lower-half code with the lower FS.
    unsafe { &mut *libc::__errno_location() }
}

fn is_full(number: c_int) -> bool {
    matches!(number, libc::ENOSPC | libc::EDQUOT)
}

/// Notes what is about to change, and makes the call. What the journal takes of the disk is given back where the disk
/// is full.
fn changing<R: Copy>(
    fd: c_int,
    bytes: impl FnOnce(&below::Descriptor) -> Range<u64>,
    failure: impl Fn(R) -> c_int,
    call: impl Fn() -> R,
) -> R {
    let Some(descriptor) = below::look(fd) else {
        return call();
    };
    descriptor.changing(bytes(&descriptor));
    let result = call();
    let number = failure(result);
    if is_full(number) {
        if journal::make_room() {
            return call();
        }
        *errno() = number;
    }
    result
}

/// Why a call has failed that says -1 then; 0 if it has not.
fn of_errno(result: impl Into<i64>) -> c_int {
    match result.into() {
        -1 => *errno(),
        _ => 0,
    }
}

/// Bytes in a vector of buffers.
unsafe fn length_of(vector: *const iovec, count: c_int) -> u64 {
    const MOST: c_int = 1024; // UIO_MAXIOV: the kernel refuses more
    if vector.is_null() || !(1..=MOST).contains(&count) {
        return 0;
    }
    // SAFETY: the caller's.
    let buffers = unsafe { core::slice::from_raw_parts(vector, count as usize) };
    buffers
        .iter()
        .fold(0, |sum, buffer| sum.saturating_add(buffer.iov_len as u64))
}

/// Defines functions that note what they change: the bytes in `{}`, by a descriptor, before the call of the C
/// library's function of that name.
macro_rules! noting {
    ($($(#[$doc:meta])* fn $name:ident($fd:ident: c_int $(, $arg:ident: $type:ty)*) -> $result:ty,
        $failure:expr, |$descriptor:ident| $bytes:expr;)*) => {
        $($(#[$doc])*
        ///
        /// # Safety
        /// As glibc's.
        #[no_mangle]
        pub unsafe extern "C" fn $name($fd: c_int $(, $arg: $type)*) -> $result {
            static NEXT: Function = Function::named(concat!(stringify!($name), "\0"));
            // SAFETY: the C library has it, with this signature; the arguments are the caller's.
            unsafe {
                let next: unsafe extern "C" fn(c_int $(, $type)*) -> $result =
                    core::mem::transmute(NEXT.address());
                changing($fd, |$descriptor| $bytes, $failure, || next($fd $(, $arg)*))
            }
        })*
    };
}

const NOTHING: Range<u64> = u64::MAX..u64::MAX;

noting! {
    /// As glibc's.
    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t, |r| of_errno(r as i64),
        |file| span(file.position(), len as u64);
    /// As glibc's.
    fn writev(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t, |r| of_errno(r as i64),
        |file| span(file.position(), length_of(vector, count));
    /// As glibc's.
    fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t, |r| of_errno(r as i64),
        |_file| span(at as u64, len as u64);
    /// As glibc's.
    fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t, |r| of_errno(r as i64),
        |_file| span(at as u64, len as u64);
    /// As glibc's.
    fn pwritev(fd: c_int, vector: *const iovec, count: c_int, at: off_t) -> ssize_t, |r| of_errno(r as i64),
        |_file| span(at as u64, length_of(vector, count));
    /// As glibc's.
    fn pwritev64(fd: c_int, vector: *const iovec, count: c_int, at: off_t) -> ssize_t, |r| of_errno(r as i64),
        |_file| span(at as u64, length_of(vector, count));
    /// As glibc's.
    fn pwritev2(fd: c_int, vector: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t,
        |r| of_errno(r as i64), |file| span(at_or_position(file, at), length_of(vector, count));
    /// As glibc's.
    fn pwritev64v2(fd: c_int, vector: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t,
        |r| of_errno(r as i64), |file| span(at_or_position(file, at), length_of(vector, count));
    /// As glibc's.
    fn ftruncate(fd: c_int, len: off_t) -> c_int, of_errno, |_file| len as u64..u64::MAX;
    /// As glibc's.
    fn ftruncate64(fd: c_int, len: off_t) -> c_int, of_errno, |_file| len as u64..u64::MAX;
    /// As glibc's.
    fn fallocate(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int, of_errno,
        |_file| allocated(mode, at as u64, len as u64);
    /// As glibc's.
    fn fallocate64(fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int, of_errno,
        |_file| allocated(mode, at as u64, len as u64);
    /// As glibc's: it gives an error number.
    fn posix_fallocate(fd: c_int, at: off_t, len: off_t) -> c_int, |r| r, |_file| NOTHING;
    /// As glibc's: it gives an error number.
    fn posix_fallocate64(fd: c_int, at: off_t, len: off_t) -> c_int, |r| r, |_file| NOTHING;
}

/// pwritev2 may be told to use the position.
fn at_or_position(file: &below::Descriptor, at: off_t) -> u64 {
    match at {
        -1 => file.position(),
        at => at as u64,
    }
}

/// What a control block will write is noted when it is handed over: until it is done the file is the library's.
unsafe fn note_block(block: *const aiocb) {
    // SAFETY: the caller's.
    if let Some(block) = unsafe { block.as_ref() } {
        if let Some(file) = below::look(block.aio_fildes) {
            file.changing(span(block.aio_offset as u64, block.aio_nbytes as u64));
        }
    }
}

unsafe fn hand_over(next: &Function, block: *mut aiocb) -> c_int {
    // SAFETY: the C library has it, with this signature; the block is the caller's.
    unsafe {
        note_block(block);
        let next: unsafe extern "C" fn(*mut aiocb) -> c_int = core::mem::transmute(next.address());
        next(block)
    }
}

/// As glibc's.
///
/// # Safety
/// As glibc's.
#[no_mangle]
pub unsafe extern "C" fn aio_write(block: *mut aiocb) -> c_int {
    static NEXT: Function = Function::new(c"aio_write");
    // SAFETY: the caller's.
    unsafe { hand_over(&NEXT, block) }
}

/// As glibc's.
///
/// # Safety
/// As glibc's.
#[no_mangle]
pub unsafe extern "C" fn aio_write64(block: *mut aiocb) -> c_int {
    static NEXT: Function = Function::new(c"aio_write64");
    // SAFETY: the caller's; off_t has 64 bits.
    unsafe { hand_over(&NEXT, block) }
}

unsafe fn hand_list_over(
    next: &Function,
    mode: c_int,
    list: *const *mut aiocb,
    count: c_int,
    event: *mut sigevent,
) -> c_int {
    if !list.is_null() {
        for number in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the caller's: so many pointers, of which some may be null.
            unsafe {
                let block = *list.add(number);
                if !block.is_null() && (*block).aio_lio_opcode == libc::LIO_WRITE {
                    note_block(block);
                }
            }
        }
    }
    // SAFETY: the C library has it, with this signature; the arguments are the caller's.
    unsafe {
        let next: unsafe extern "C" fn(c_int, *const *mut aiocb, c_int, *mut sigevent) -> c_int =
            core::mem::transmute(next.address());
        next(mode, list, count, event)
    }
}

/// As glibc's.
///
/// # Safety
/// As glibc's.
#[no_mangle]
pub unsafe extern "C" fn lio_listio(
    mode: c_int,
    list: *const *mut aiocb,
    count: c_int,
    event: *mut sigevent,
) -> c_int {
    static NEXT: Function = Function::new(c"lio_listio");
    // SAFETY: the caller's.
    unsafe { hand_list_over(&NEXT, mode, list, count, event) }
}

/// As glibc's.
///
/// # Safety
/// As glibc's.
#[no_mangle]
pub unsafe extern "C" fn lio_listio64(
    mode: c_int,
    list: *const *mut aiocb,
    count: c_int,
    event: *mut sigevent,
) -> c_int {
    static NEXT: Function = Function::new(c"lio_listio64");
    // SAFETY: the caller's; off_t has 64 bits.
    unsafe { hand_list_over(&NEXT, mode, list, count, event) }
}
