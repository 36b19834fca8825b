//! `--break RANK:CALL`: stops this process when it has reached that call, as the upper half says
//! (`upper-half/src/breakpoint.rs`), and lets the call go on when somebody has continued the process. A thread of its
//! own does that, so that the thread of the call stands in the upper half meanwhile.

use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::thread::{self, Thread};

use anyhow::{Context, Result};
use contract::{gate, AT_BREAK, TOOL_BREAK, WAITS_AT_BREAK};
use job_spec::Breakpoint;
use nix::sys::signal::{raise, Signal};
use nix::unistd::Pid;

use crate::{agent, console, record};

struct Break {
    at: Breakpoint,
    stopper: Thread,
}

static BREAK: OnceLock<Break> = OnceLock::new();

/// The rank is to stop there.
pub fn set(at: Breakpoint) -> Result<()> {
    let stopper = thread::Builder::new().spawn(move || {
        while gate().lower.features.load(Ordering::Acquire) & AT_BREAK == 0 {
            thread::park();
        }
        stop(at);
    });
    let stopper = stopper.context("no thread for --break could be made")?;
    gate()
        .lower
        .features
        .fetch_or(TOOL_BREAK, Ordering::Relaxed);
    let stopper = stopper.thread().clone();
    BREAK.get_or_init(|| Break { at, stopper });
    Ok(())
}

/// The upper half says something, which may be that the call is reached.
pub fn notify() {
    if let Some(set) = BREAK.get() {
        set.stopper.unpark();
    }
}

/// How many calls from now on the rank stops, counted from 1. With a record that is replayed its calls are counted from
/// its beginning.
pub fn calls_left() -> u64 {
    let Some(Break { at, .. }) = BREAK.get() else {
        return 0;
    };
    let over = record::calls();
    if over >= at.call {
        console::say(
            at.rank,
            format_args!(
                "--break stops nothing: call {} of the record is over here, where {over} calls have been made",
                at.call
            ),
        );
    }
    at.call.saturating_sub(over)
}

fn stop(at: Breakpoint) {
    let features = &gate().lower.features;
    while features.load(Ordering::Acquire) & WAITS_AT_BREAK == 0 {
        thread::yield_now();
    }
    let process = Pid::this();
    // A rank that runs alone has no checkpoint directory.
    let whose = match agent::directory() {
        Ok(directory) => format!("{} {}", directory.display(), at.rank),
        Err(_) => process.to_string(),
    };
    console::say(
        at.rank,
        format_args!(
            "stopped before its call {}, as process {process}. Look at it with `stasis gdb {whose}`, and let it go on \
             with `kill -CONT {process}`",
            at.call,
        ),
    );
    // It stops in here. Another thread may take a signal to the whole process, and this one would go on meanwhile.
    if let Err(why) = raise(Signal::SIGSTOP) {
        console::say(at.rank, format_args!("cannot stop: {why}"));
    }
    features.fetch_and(!(AT_BREAK | WAITS_AT_BREAK), Ordering::Release);
}
