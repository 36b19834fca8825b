//! Threads of the lower half with a descriptor table without the application's files.
//!
//! An open file lasts until its last descriptor in any table is closed: so do a flock lock, an end of a pipe, and
//! ETXTBSY for a file open for writing. The application closes its descriptor and relies on that in its next call. So
//! no thread that runs beside the application may have a copy of its descriptors, not even for a moment.
//!
//! A thread that unshares its table gets a copy of the shared one (also with CLOSE_RANGE_UNSHARE: the kernel copies low
//! numbers and closes them then). So one thread makes such a table before the application runs
//! ([`start_own_fd_table`]), and later threads are its children and share its table.
//!
//! # Safety
//! [`on_own_fd_table`] passes a closure that borrows to another thread, and does not return before that closure has run
//! to its end or was dropped unused.
#![allow(unsafe_code)]

use crate::sys::descriptor::{all_open, open, place_at};
use crate::sys::lower_thread::{room_for_threads, spawn_lower};
use crate::sys::syscall;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::mpsc::{channel, Sender};
use std::sync::OnceLock;
use std::thread;

/// Request for a new thread.
struct Order {
    name: String,
    body: Box<dyn FnOnce() + Send>,
    /// Receives the error of a failed creation.
    failed: Sender<io::Error>,
}

/// Channel to the thread that creates the others.
static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();

/// Creates the table. Call it once, before the application has any thread.
///
/// # Errors
/// If the kernel gives no thread, or the thread no table of its own.
pub fn start_own_fd_table() -> io::Result<()> {
    let (orders, hear) = channel::<Order>();
    let (tell, told) = channel();
    spawn_lower("ckpt-aside", move || {
        let made = own_table();
        let serves = made.is_ok();
        let _ = tell.send(made);
        if !serves {
            return;
        }
        for Order { name, body, failed } in hear {
            if let Err(why) = thread::Builder::new().name(name).spawn(body) {
                let _ = failed.send(why);
            }
        }
    })?;
    told.recv().map_err(io::Error::other)??;
    ORDERS.get_or_init(|| orders);
    Ok(())
}

/// Gives the calling thread its own table, which holds only standard error.
fn own_table() -> io::Result<()> {
    unshare_table()?;
    for fd in all_open()?
        .into_iter()
        .filter(|&fd| fd > libc::STDERR_FILENO)
    {
        syscall::plain(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
    }
    // Output of a library must not get into a file with a standard number.
    let null = open(Path::new("/dev/null"), libc::O_RDWR)?;
    for fd in (0..2).filter(|&fd| fd != null.as_raw_fd()) {
        place_at(null.as_raw_fd(), fd, true)?;
    }
    if null.as_raw_fd() <= libc::STDERR_FILENO {
        std::mem::forget(null);
    }
    Ok(())
}

/// Gives the calling thread its own descriptor table: a copy of the shared one.
fn unshare_table() -> io::Result<()> {
    const CLOSE_RANGE_UNSHARE: usize = 1 << 1;
    // Closes nothing. (`unshare` has the same effect, but containers often forbid it.)
    let nothing = [u32::MAX as usize; 2];
    let args = [nothing[0], nothing[1], CLOSE_RANGE_UNSHARE, 0, 0, 0];
    let result = syscall::plain(libc::SYS_close_range, args);
    match syscall::is_err(result) {
        true => Err(syscall::io_error(result)),
        false => Ok(()),
    }
}

fn order(name: &str, body: Box<dyn FnOnce() + Send>, failed: Sender<io::Error>) -> io::Result<()> {
    room_for_threads()?;
    let orders = ORDERS.get().ok_or_else(|| {
        io::Error::other("there is no thread to make it (a defect in Stasis: start_own_fd_table)")
    })?;
    let name = name.to_owned();
    let order = Order { name, body, failed };
    orders
        .send(order)
        .map_err(|_| io::Error::other("the thread to make it has ended"))
}

/// Starts a thread of the lower half without the application's open files. It runs when this returns: see
/// [`crate::sys::lower_thread::spawn_lower`].
///
/// # Errors
/// If the kernel gives no thread, or the one that makes threads has ended.
pub fn spawn_on_own_fd_table(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (failed, told) = channel();
    let runs = failed.clone();
    let body = move || {
        drop(runs);
        body();
    };
    order(name, Box::new(body), failed)?;
    match told.recv() {
        Ok(why) => Err(why),
        Err(_) => Ok(()),
    }
}

/// Runs `work` on a thread without the application's open files, and waits for it.
///
/// # Errors
/// If no such thread can be created.
pub fn on_own_fd_table<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let (failed, told) = channel();
    let (ended, ends) = channel::<()>();
    let mut result = None;
    let place = &mut result;
    let body = move || {
        *place = Some(catch_unwind(AssertUnwindSafe(work)));
        drop(ended);
    };
    let body: Box<dyn FnOnce() + Send + '_> = Box::new(body);
    // SAFETY: this function waits for the closure below. If it runs, `ended` is dropped after the last use of what it
    // borrows. Otherwise it is dropped before the other side of `told`, or before `order` returns.
    let body = unsafe {
        std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Box<dyn FnOnce() + Send + 'static>>(
            body,
        )
    };
    order("ckpt-beside", body, failed)?;
    let _ = ends.recv();
    match result {
        Some(result) => Ok(result.unwrap_or_else(|panic| resume_unwind(panic))),
        None => Err(told.recv().unwrap_or_else(io::Error::other)),
    }
}

/// Runs `work` on a thread with its own descriptor table: a copy of the shared one. In the shared table, closing any
/// descriptor of a file, even one opened only to examine it, would drop the process's locks on it (F_SETLK). Fails if
/// no such thread can be created.
///
/// The application's threads must be stopped: see the module's head.
pub fn on_copied_fd_table<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let begin = || {
            unshare_table()?;
            let _copies = Copies;
            Ok(work())
        };
        room_for_threads()?;
        let thread = std::thread::Builder::new().spawn_scoped(scope, begin)?;
        let joined = thread.join();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Closes all descriptors of an [`on_copied_fd_table`] thread on drop. When the thread is joined, the kernel has not
/// closed them yet.
struct Copies;

impl Drop for Copies {
    fn drop(&mut self) {
        syscall::plain(libc::SYS_close_range, [0, u32::MAX as usize, 0, 0, 0, 0]);
    }
}
