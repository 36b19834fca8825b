//! Threads that have nothing of the application's open.
//!
//! What is open lasts as long as the last descriptor of it, in whichever table that is: a lock of flock, an end of a
//! pipe, that a file is written to and may not be executed. The application closes its descriptor, and what it does
//! next relies on that. So nobody else may have one while it runs, not for a moment.
//!
//! A table that a thread gets for itself begins as a copy of everybody's (also with CLOSE_RANGE_UNSHARE: the kernel
//! copies low numbers and closes them then). So one is made before the application runs, and who works beside it
//! works on threads with that one: a thread shares the table of the thread that has made it.
//!
//! # Safety
//! [`aside`] passes a closure that borrows to another thread, and does not return before that closure has run to
//! its end or was dropped unused.
#![allow(unsafe_code)]

use super::descriptor::{all_open, open};
use super::standard;
use crate::program::{room_for_threads, spawn_lower};
use crate::raw;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::mpsc::{channel, Sender};
use std::sync::OnceLock;
use std::thread;

/// A thread to be made.
struct Order {
    name: String,
    body: Box<dyn FnOnce() + Send>,
    /// Why it could not be; nothing is said if it could.
    failed: Sender<io::Error>,
}

/// Of the thread that makes the others.
static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();

/// Makes the table. To be called once, before the application has any thread.
pub fn start_aside() -> io::Result<()> {
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

/// Has the calling thread use a table of its own, which holds standard error and nothing else.
fn own_table() -> io::Result<()> {
    unshare_table()?;
    for fd in all_open()?
        .into_iter()
        .filter(|&fd| fd > libc::STDERR_FILENO)
    {
        raw::plain(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
    }
    // What a library prints must not get into a file that has such a number.
    let null = open(Path::new("/dev/null"), libc::O_RDWR)?;
    for fd in (0..2).filter(|&fd| fd != null.as_raw_fd()) {
        standard::place_at(null.as_raw_fd(), fd, true)?;
    }
    if null.as_raw_fd() <= libc::STDERR_FILENO {
        std::mem::forget(null);
    }
    Ok(())
}

/// Gives the calling thread a table of descriptors of its own: a copy of what it shared.
pub(super) fn unshare_table() -> io::Result<()> {
    const CLOSE_RANGE_UNSHARE: usize = 1 << 1;
    // Closes nothing. (`unshare` does the same, but containers often forbid it.)
    let nothing = [u32::MAX as usize; 2];
    let args = [nothing[0], nothing[1], CLOSE_RANGE_UNSHARE, 0, 0, 0];
    let result = raw::plain(libc::SYS_close_range, args);
    match raw::is_err(result) {
        true => Err(raw::io_error(result)),
        false => Ok(()),
    }
}

fn order(name: &str, body: Box<dyn FnOnce() + Send>, failed: Sender<io::Error>) -> io::Result<()> {
    room_for_threads()?;
    let orders = ORDERS.get().ok_or_else(|| {
        io::Error::other("there is no thread to make it (a defect in Stasis: start_aside)")
    })?;
    let name = name.to_owned();
    let order = Order { name, body, failed };
    orders
        .send(order)
        .map_err(|_| io::Error::other("the thread to make it has ended"))
}

/// Starts a thread of the lower half that has nothing of the application's open.
pub fn spawn_aside(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (failed, told) = channel();
    order(name, Box::new(body), failed)?;
    match told.recv() {
        Ok(why) => Err(why),
        Err(_) => Ok(()),
    }
}

/// Runs `work` on a thread that has nothing of the application's open, and waits for it. Fails if there can be no
/// such thread.
pub fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let (failed, told) = channel();
    let (ended, ends) = channel::<()>();
    let mut result = None;
    let place = &mut result;
    let body = move || {
        *place = Some(catch_unwind(AssertUnwindSafe(work)));
        drop(ended);
    };
    let body: Box<dyn FnOnce() + Send + '_> = Box::new(body);
    // SAFETY: it is waited for below. If it runs, `ended` goes when nothing borrowed is used any more. If it does
    // not, it is dropped before the other side of `told` is, or before `order` returns.
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
