//! Start of a thread that waits until the thread runs.

use std::io;
use std::sync::mpsc;
use std::thread;

/// Stack size of each thread of the control plane, in bytes.
const STACK: usize = 256 << 10;

/// Starts a thread of the control plane.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    begin(
        thread::Builder::new().name(name.into()).stack_size(STACK),
        body,
    )
}

/// Starts a thread and waits until it runs. By then it has the memory that the C library allocates for each
/// thread; the process would end without it. The program may use up all memory right after this call.
pub fn begin(thread: thread::Builder, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (runs, begun) = mpsc::channel::<()>();
    thread.spawn(move || {
        drop(runs);
        body();
    })?;
    // Returns when the other side is dropped.
    let _ = begun.recv();
    Ok(())
}
