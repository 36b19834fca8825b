//! Progress reports while bytes are read: a bar on a terminal, or lines at intervals. If standard error is
//! not a terminal, no bar is drawn, so that a file or a pipe gets plain lines.
//!
//! # Examples
//! ```
//! use stasis_progress::{Bytes, TICK};
//! use std::sync::atomic::Ordering;
//!
//! let shown = Bytes::new(3);
//! shown.at("three bytes".into());
//! let line = |read| eprintln!("{read} of 3 bytes are read"); // where there is no terminal
//! let sum: u64 = shown.during(TICK, line, || {
//!     let read = |byte: u64| {
//!         shown.counter().fetch_add(1, Ordering::Relaxed);
//!         byte
//!     };
//!     [1, 2, 3].map(read).iter().sum()
//! });
//! assert_eq!((sum, shown.counter().load(Ordering::Relaxed)), (6, 3));
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval at which an unchanged bar is drawn again.
pub const TICK: Duration = Duration::from_millis(200);

/// Leaves room in 80 columns for the description of the present work.
const OF_BYTES: &str =
    "{spinner} {elapsed} [{bar:8}] {binary_bytes}/{binary_total_bytes}, {binary_bytes_per_sec}: {wide_msg}";

/// Runs `work`, and calls `show` at intervals meanwhile.
pub fn meanwhile<T>(every: Duration, show: impl Fn() + Send, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (working, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                show();
            }
        });
        let result = work();
        drop(working);
        result
    })
}

/// A bar in the project's style; `template` is indicatif's.
pub fn bar(length: u64, template: &str, target: ProgressDrawTarget) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("every template is drawn by a test");
    ProgressBar::with_draw_target(Some(length), target).with_style(style.progress_chars("=> "))
}

/// Progress of reading bytes. Dropping it removes the bar.
pub struct Bytes {
    bar: ProgressBar,
    read: Arc<AtomicU64>,
}

impl Bytes {
    /// Progress of `bytes` bytes in all.
    pub fn new(bytes: u64) -> Bytes {
        Bytes::draw(bytes, ProgressDrawTarget::stderr())
    }

    fn draw(bytes: u64, target: ProgressDrawTarget) -> Bytes {
        Bytes {
            bar: bar(bytes, OF_BYTES, target),
            read: Arc::default(),
        }
    }

    /// Sets the number of bytes in all, once it is known.
    pub fn of(&self, bytes: u64) {
        self.bar.set_length(bytes);
    }

    /// The counter of the bytes that are read.
    pub fn counter(&self) -> &Arc<AtomicU64> {
        &self.read
    }

    /// Sets the description of the present work.
    pub fn at(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Prints a line, which stays above the bar.
    pub fn beside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Runs `work`, and shows its counter meanwhile: on the bar or, without one, by calling `otherwise`
    /// with the number at intervals.
    pub fn during<T>(
        &self,
        every: Duration,
        otherwise: impl Fn(u64) + Send,
        work: impl FnOnce() -> T,
    ) -> T {
        let read = || self.read.load(Ordering::Relaxed);
        match self.bar.is_hidden() {
            true => meanwhile(every, move || otherwise(read()), work),
            false => meanwhile(TICK, || self.bar.set_position(read()), work),
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    #[test]
    fn a_terminal_gets_a_bar() {
        let terminal = InMemoryTerm::new(4, 80);
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
        let bytes = Bytes::draw(0, target);
        bytes.of(4 << 20);
        bytes.at("ckpt-7, rank 1 of 2".into());
        let counter = bytes.counter().clone();
        let result = bytes.during(
            Duration::from_millis(1),
            |_| panic!("there is a bar"),
            || {
                counter.fetch_add(1 << 20, Ordering::Relaxed);
                // Wait until it is drawn.
                while !terminal.contents().contains("1.00 MiB/4.00 MiB") {
                    thread::yield_now();
                }
                7
            },
        );
        assert_eq!(result, 7);
        let drawn = terminal.contents();
        assert!(drawn.ends_with(": ckpt-7, rank 1 of 2"), "{drawn}");
        assert_eq!(drawn.lines().count(), 1, "{drawn}");
        drop(bytes);
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn others_get_numbers_while_there_is_work() {
        let bytes = Bytes::draw(4 << 20, ProgressDrawTarget::hidden());
        let (numbers, told) = mpsc::channel();
        let tell = move |number| numbers.send(number).expect("the receiver is open");
        bytes.during(Duration::from_millis(1), tell, || {
            bytes.counter().store(3 << 20, Ordering::Relaxed);
            let three = told.iter().find(|number| *number == 3 << 20);
            three.expect("numbers come for as long as this waits");
        });
    }
}
