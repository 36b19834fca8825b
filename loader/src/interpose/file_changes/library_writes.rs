//! Functions that the MPI library calls in the place of the C library's when it writes to files.
//!
//! The library is linked to [`write`] and the others here and not to those of its C library (`lower-half/build.rs`
//! exports them). Each journals the old content of a file that is open by MPI_File_open (`mpi_files.rs`), and then
//! calls the C library's function. So the journal is that of the writing process, which need not be the one whose
//! application called MPI: collective operations write for other ranks, and write back the data between.
//!
//! To add a function that changes files: here, and its name to `lower-half/build.rs`.
//!
//! # Safety
//! The functions have the signatures of glibc's and forward their arguments. They run with the lower FS. Before `main`,
//! in signal handlers and in forked children they read only an atomic. Control blocks and vectors of buffers are read
//! as the called function reads them.
#![allow(unsafe_code)]

use super::ranges::{allocated, span};
use super::{journal, mpi_files};
use core::ffi::{c_int, c_void, CStr};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use libc::{aiocb, iovec, off_t, sigevent, size_t, ssize_t};
use nix::errno::Errno;

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

    /// Takes a name with a NUL at the end.
    const fn named(name: &'static str) -> Function {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Function::new(name),
            Err(_) => panic!("no name"),
        }
    }

    fn address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => {
                // SAFETY: the name ends with a NUL.
                let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
                self.address.store(found, Ordering::Relaxed);
                found
            }
            found => found,
        }
    }
}

fn is_full(number: c_int) -> bool {
    matches!(number, libc::ENOSPC | libc::EDQUOT)
}

/// Journals the change and makes the call. If the disk is full, frees the space of the journal and repeats the call.
fn changing<R: Copy>(
    fd: c_int,
    bytes: impl FnOnce(&mpi_files::Descriptor) -> Range<u64>,
    failure: impl Fn(R) -> c_int,
    call: impl Fn() -> R,
) -> R {
    let Some(descriptor) = mpi_files::look(fd) else {
        return call();
    };
    descriptor.changing(bytes(&descriptor));
    let result = call();
    let number = failure(result);
    if is_full(number) {
        if journal::make_room() {
            return call();
        }
        Errno::set_raw(number);
    }
    result
}

/// Error number of a call that failed with -1; 0 if it succeeded.
fn of_errno(result: impl Into<i64>) -> c_int {
    match result.into() {
        -1 => Errno::last_raw(),
        _ => 0,
    }
}

/// Bytes in a vector of buffers.
unsafe fn length_of(vector: *const iovec, count: c_int) -> u64 {
    const MOST: c_int = 1024; // UIO_MAXIOV: the kernel refuses more
    if vector.is_null() || !(1..=MOST).contains(&count) {
        return 0;
    }
    // SAFETY: the vector has `count` entries, as the C function requires.
    let buffers = unsafe { core::slice::from_raw_parts(vector, count as usize) };
    buffers
        .iter()
        .fold(0, |sum, buffer| sum.saturating_add(buffer.iov_len as u64))
}

/// Defines functions that journal the bytes in `{}` of a descriptor's file before they call the C library's function of
/// the same name.
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
            // SAFETY: the C library has the function with this signature, and the arguments are valid for it.
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
    /// As glibc's, which returns an error number.
    fn posix_fallocate(fd: c_int, at: off_t, len: off_t) -> c_int, |r| r, |_file| NOTHING;
    /// As glibc's, which returns an error number.
    fn posix_fallocate64(fd: c_int, at: off_t, len: off_t) -> c_int, |r| r, |_file| NOTHING;
}

/// Offset of the write: pwritev2 uses the position for -1.
fn at_or_position(file: &mpi_files::Descriptor, at: off_t) -> u64 {
    match at {
        -1 => file.position(),
        at => at as u64,
    }
}

/// Journals the write of a control block at its submission: the library owns the file until it is done.
fn note_block(block: &aiocb) {
    if let Some(file) = mpi_files::look(block.aio_fildes) {
        file.changing(span(block.aio_offset as u64, block.aio_nbytes as u64));
    }
}

unsafe fn hand_over(next: &Function, block: *mut aiocb) -> c_int {
    // SAFETY: the C library has the function with this signature, and the block is null or valid for it.
    unsafe {
        block.as_ref().into_iter().for_each(note_block);
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
    // SAFETY: the block is valid for aio_write.
    unsafe { hand_over(&NEXT, block) }
}

/// As glibc's.
///
/// # Safety
/// As glibc's.
#[no_mangle]
pub unsafe extern "C" fn aio_write64(block: *mut aiocb) -> c_int {
    static NEXT: Function = Function::new(c"aio_write64");
    // SAFETY: the block is valid for aio_write64, which equals aio_write because off_t has 64 bits.
    unsafe { hand_over(&NEXT, block) }
}

unsafe fn hand_list_over(
    next: &Function,
    mode: c_int,
    list: *const *mut aiocb,
    count: c_int,
    event: *mut sigevent,
) -> c_int {
    let count_in_list = match list.is_null() {
        true => 0,
        false => usize::try_from(count).unwrap_or(0),
    };
    // SAFETY: the list has `count` pointers, each null or valid, as lio_listio requires. The C library has the function
    // with this signature, and the arguments are valid for it.
    unsafe {
        let blocks = (0..count_in_list).filter_map(|number| (*list.add(number)).as_ref());
        let writes = blocks.filter(|block| block.aio_lio_opcode == libc::LIO_WRITE);
        writes.for_each(note_block);
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
    // SAFETY: the arguments are valid for lio_listio.
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
    // SAFETY: the arguments are valid for lio_listio64, which equals lio_listio because off_t has 64 bits.
    unsafe { hand_list_over(&NEXT, mode, list, count, event) }
}
