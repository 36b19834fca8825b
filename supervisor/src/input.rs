//! Standard input of a launcher that was started as a standby world. It had a pipe in its place, so that it took no
//! input from the launcher of the running incarnation. From the moment at which its ranks are let go, a thread copies
//! the input into that pipe.

use std::io::{self, PipeWriter, Write};
use std::os::fd::AsFd;
use std::thread::JoinHandle;

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::read;

/// The thread that copies. Dropping it ends the thread: call that only when the launcher is dead, since a launcher
/// that does not read its pipe holds the thread up.
pub struct Input {
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Input {
    /// Copies standard input into a pipe until its end, or until the reader of the pipe is dead.
    ///
    /// # Errors
    /// No pipe or no thread can be made.
    pub fn copy_to(pipe: PipeWriter) -> io::Result<Input> {
        let (stopped, stop) = io::pipe()?;
        let copy = move || {
            // A read by a job in the background is then an error. Otherwise it stops this process (SIGTTIN).
            let _ = SigSet::from_iter([Signal::SIGTTIN]).thread_block();
            let mut pipe = pipe;
            let mut buffer = [0; 4096];
            loop {
                let input = io::stdin();
                let mut ready = [
                    PollFd::new(input.as_fd(), PollFlags::POLLIN),
                    PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
                ];
                let _ = poll(&mut ready, PollTimeout::NONE);
                if ready[1].any() != Some(false) {
                    return;
                }
                match read(input.as_fd(), &mut buffer) {
                    Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => {}
                    Ok(bytes @ 1..) if pipe.write_all(&buffer[..bytes]).is_ok() => {}
                    _ => return,
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("input".into())
            .spawn(copy)?;
        Ok(Input {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
