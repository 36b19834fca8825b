//! Stop of all threads of the upper half, and their resumption.
//!
//! The agent, a plain thread of the lower half, sends the stop signal to every thread and again every millisecond until
//! all are parked. The action of a thread depends on its place when the signal arrives:
//!
//! - in upper-half code: it parks on the signal's frame;
//! - in a system call that it waits in, or is about to make: the frame is first turned into the
//!   state before the call (`trap_entry::leave_window`), so the call is made again later;
//! - elsewhere in the handler of trapped calls: `stop_wanted`; it parks on its SIGSYS frame when
//!   the handler is done;
//! - in a trampoline of a patched call: the frame is turned into the state before or after the call (`sites/`);
//! - in a wrapper or a crossing: `stop_wanted`; the wrapper executes STOP_SYSCALL on leaving;
//! - in the kernel's vDSO, whose addresses do not survive: the call is restarted (`vdso_call.rs`);
//! - anywhere else in lower code (a few instructions): the next signal finds it elsewhere.
//!
//! A parked thread can only continue by `rt_sigreturn` on its frame, both in a live process and after a restart.
//!
//! # Safety
//! Handlers run with the upper FS (or the lower one in a crossing, where they only set a flag): no libc, no TLS, no
//! allocation. `Thread` fields are used under the rules of `mod.rs`.
#![allow(unsafe_code)]

use crate::error::StopError;
use crate::interpose::cpuid::registers;
use crate::interpose::signals::{self, STOP_SIGNAL};
use crate::interpose::threads::{
    self, held, Thread, ENDED, FREE, JOB, PARKED, RUNNING, STARTING, STOPPING,
};
use crate::interpose::{sites, trap_entry, vdso_call};
use crate::sys::context::{Context, SigInfo};
use crate::sys::{cpu, syscall};
use contract::recorder::{record, Event};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Whether a stop has begun and not ended: there is one at a time.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Whether it is the stop of a restart, whose state for the threads is still being created.
static RESTARTING: AtomicBool = AtomicBool::new(false);
/// Futex that changes whenever a thread parks, a job ends or a stop does; the agent waits on it.
static EVENTS: AtomicU32 = AtomicU32::new(0);
/// Function and argument of the job for a stopped thread.
static JOB_CODE: AtomicUsize = AtomicUsize::new(0);
static JOB_DATA: AtomicUsize = AtomicUsize::new(0);

/// Time for which [`stop_all`] tries.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
const RESEND: Duration = Duration::from_millis(1);

/// Installs the handler of the stop signal.
pub fn install() -> isize {
    let flags = (libc::SA_SIGINFO | libc::SA_RESTART) as u64;
    signals::kernel_action(
        STOP_SIGNAL,
        on_stop as *const () as usize,
        flags,
        signals::ALL_HELD,
    )
}

fn event() {
    EVENTS.fetch_add(1, Ordering::AcqRel);
    syscall::futex_wake(&EVENTS);
}

/// Handler of the stop signal.
unsafe extern "C" fn on_stop(_signal: i32, _info: *mut SigInfo, frame: *mut Context) {
    let Some(thread) = Thread::interrupted() else {
        return;
    };
    // SAFETY: the kernel's frame is on top of this thread's stack, and only this handler uses it.
    let context = unsafe { &mut *frame };
    // In each case below, a call that this signal has interrupted is made again.
    // SAFETY: `context` is the frame on top of this thread's stack.
    let left = sites::leave(thread, context, false)
        || unsafe { trap_entry::leave_window(thread, context, false) }
        || vdso_call::begin_anew(thread, context);
    // The registers are now the application's own, if the thread was on its way into or out of a system call.
    held::take_sample(thread, context);
    if !STOPPING.load(Ordering::Acquire) || thread.state.load(Ordering::Acquire) != RUNNING {
        return;
    }
    let rip = context.regs.rip;
    let later = thread.in_lower();
    record(thread.tid(), Event::StopSignal, [u64::from(later), 0]);
    if later {
        thread.want_stop(true);
    } else if left || trap_entry::is_upper(rip) {
        park(thread, frame, false);
    } else if thread.in_dispatch.load(Ordering::Relaxed) != 0 || trap_entry::in_stub(rip) {
        thread.want_stop(true);
        thread.attention.store(1, Ordering::Relaxed);
    }
}

/// Parks if a stop is under way; returns if not.
pub fn park_if_wanted(thread: &'static Thread, frame: *mut Context) {
    thread.want_stop(false);
    if STOPPING.load(Ordering::Acquire) {
        park(thread, frame, false);
    }
}

/// STOP_SYSCALL: parks if a stop is under way; its result is in the frame (0).
pub fn park_by_request(thread: &'static Thread, frame: *mut Context) {
    thread.want_stop(false);
    if STOPPING.load(Ordering::Acquire) {
        park(thread, frame, true);
    }
}

/// Makes the frame this thread's state and parks.
fn park(thread: &'static Thread, frame: *mut Context, by_request: bool) -> ! {
    syscall::block(signals::ALL_HELD);
    thread.want_stop(false);
    thread.attention.store(0, Ordering::Relaxed);
    thread.in_dispatch.store(0, Ordering::Relaxed);
    thread.by_request.store(by_request, Ordering::Relaxed);
    thread.set_upper_fs(cpu::fs());
    registers::fit(frame as usize);
    thread.frame.store(frame as usize, Ordering::Relaxed);
    thread.state.store(PARKED, Ordering::SeqCst);
    event();
    wait_parked(thread);
    // SAFETY: no lock is held, and FS is the upper one.
    unsafe { trap_entry::resume(frame) }
}

/// Waits until the thread is resumed; runs jobs meanwhile. FS is not changed.
pub fn wait_parked(thread: &Thread) {
    loop {
        match thread.state.load(Ordering::Acquire) {
            // The stop was cancelled at the moment of this park, so no thread sends a wake-up.
            PARKED if !STOPPING.load(Ordering::SeqCst) => {
                thread.state.store(RUNNING, Ordering::Release);
            }
            PARKED => syscall::futex_wait(&thread.state, PARKED, 0),
            JOB => {
                let code = JOB_CODE.load(Ordering::Acquire);
                // SAFETY: `run_on_main` stored a function of this type and waits for it to end.
                unsafe {
                    let code: unsafe fn(usize) = core::mem::transmute(code);
                    code(JOB_DATA.load(Ordering::Acquire));
                }
                thread.state.store(PARKED, Ordering::Release);
                event();
            }
            _ => return,
        }
    }
}

/// Ends the stop in a forked child.
pub fn after_fork(thread: &Thread) {
    STOPPING.store(false, Ordering::Relaxed);
    TAKEN.store(false, Ordering::Relaxed);
    thread.want_stop(false);
    thread.attention.store(0, Ordering::Relaxed);
}

/// Proof that all threads of the upper half are parked.
#[derive(Debug)]
pub struct Stopped(());

/// Stops all threads, within [`DEFAULT_PATIENCE`].
///
/// # Errors
/// As [`stop_all_within`].
pub fn stop_all() -> Result<Stopped, StopError> {
    stop_all_within(DEFAULT_PATIENCE)
}

/// Stops all threads. Call it on a thread of the lower half.
///
/// # Errors
/// [`StopError`] if a thread did not stop in time, or nothing can be stopped now. All threads run on then.
pub fn stop_all_within(patience: Duration) -> Result<Stopped, StopError> {
    // At a restart all threads are parked from their start until their state is restored. Other ranks affect the
    // duration, so it has no limit.
    if RESTARTING.load(Ordering::Acquire) {
        wait_until_running();
    }
    let begun = Instant::now();
    loop {
        let seen = EVENTS.load(Ordering::Acquire);
        if !TAKEN.swap(true, Ordering::AcqRel) {
            break;
        }
        let left = patience.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(StopError::Busy);
        }
        syscall::futex_wait(&EVENTS, seen, left.as_nanos() as u64);
    }
    STOPPING.store(true, Ordering::SeqCst);
    let mut next_send = begun;
    loop {
        let now = Instant::now();
        let send = now >= next_send;
        if send {
            next_send = now + RESEND;
        }
        let seen = EVENTS.load(Ordering::Acquire);
        // This comes before the threads: the initial one creates all others. An image without it could not be
        // restarted.
        let unborn = threads::main_is_expected();
        let mut waiting = None;
        for thread in threads::all() {
            match thread.state.load(Ordering::Acquire) {
                FREE | PARKED => {}
                ENDED => {
                    let_go();
                    return Err(StopError::NoMainThread);
                }
                RUNNING => {
                    waiting = Some(thread);
                    // A thread in a wrapper stops by itself after the request; more signals would only disturb the MPI
                    // library's system calls.
                    if send && !(thread.wraps() && thread.stop_wanted()) {
                        let tid = thread.real_tid.load(Ordering::Acquire);
                        syscall::tgkill(threads::real_pid(), tid, STOP_SIGNAL);
                    }
                }
                _ => waiting = Some(thread),
            }
        }
        if waiting.is_none() && !unborn {
            if !sites::withdraw() {
                let_go();
                return Err(StopError::CodeIsPatched);
            }
            return Ok(Stopped(()));
        }
        let waited = begun.elapsed();
        if waited > patience {
            let error = match waiting {
                Some(thread) => describe(thread, waited),
                None => StopError::NotStarted,
            };
            let_go();
            return Err(error);
        }
        syscall::futex_wait(&EVENTS, seen, RESEND.as_nanos() as u64);
    }
}

/// Waits until no thread is parked: after a restart, until all are restored and running. Call it on a thread of the
/// lower half.
pub fn wait_until_running() {
    loop {
        let seen = EVENTS.load(Ordering::Acquire);
        if !TAKEN.load(Ordering::Acquire) {
            return;
        }
        syscall::futex_wait(&EVENTS, seen, RESEND.as_nanos() as u64);
    }
}

/// Starts a stop at a restart: new threads are parked from their start.
pub(crate) fn begin_parked() -> Stopped {
    RESTARTING.store(true, Ordering::Release);
    TAKEN.store(true, Ordering::Release);
    STOPPING.store(true, Ordering::Release);
    Stopped(())
}

fn let_go() {
    STOPPING.store(false, Ordering::SeqCst);
    for thread in threads::all() {
        thread.want_stop(false);
        if thread.state.load(Ordering::SeqCst) == PARKED {
            thread.state.store(RUNNING, Ordering::Release);
            syscall::futex_wake(&thread.state);
        }
    }
    RESTARTING.store(false, Ordering::Release);
    TAKEN.store(false, Ordering::Release);
    event();
}

fn describe(thread: &Thread, waited: Duration) -> StopError {
    let task = format!(
        "/proc/self/task/{}",
        thread.real_tid.load(Ordering::Acquire)
    );
    let read = |file: &str| {
        std::fs::read_to_string(format!("{task}/{file}"))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let place = if thread.state.load(Ordering::Acquire) == STARTING {
        "being created"
    } else if thread.vforked.load(Ordering::Relaxed) {
        "waiting for a vfork child"
    } else if thread.in_lower() {
        "inside the MPI library"
    } else if thread.in_dispatch.load(Ordering::Relaxed) != 0 {
        "inside a system call"
    } else {
        "in the application's code"
    };
    let call = read("syscall");
    let call = call.split_whitespace().next().unwrap_or("unknown");
    StopError::Timeout {
        tid: thread.tid(),
        name: read("comm"),
        doing: format!(
            "{place} (kernel: system call {call}, waiting in {})",
            read("wchan")
        ),
        waited_ms: waited.as_millis() as u64,
    }
}

impl Stopped {
    /// `Stopped::run_on` the program's initial thread.
    pub fn run_on_main<R>(&self, job: impl FnOnce() -> R) -> R {
        let Some(main) = threads::main() else {
            unreachable!("stopped without an initial thread")
        };
        self.run_on(main, job)
    }

    /// Runs `job` on a stopped thread, inside its handler, below its frame, with the *upper* half's FS, so that the job
    /// may call into the upper half. The job must not use the lower half's thread-local state: no allocation, no
    /// output, no std synchronisation.
    pub(crate) fn run_on<R>(&self, thread: &Thread, job: impl FnOnce() -> R) -> R {
        struct Task<F, R>(Option<F>, Option<R>);
        unsafe fn run<F: FnOnce() -> R, R>(data: usize) {
            // SAFETY: `data` is the task of the waiting `run_on_main`, which keeps it alive.
            let task = unsafe { &mut *(data as *mut Task<F, R>) };
            if let Some(job) = task.0.take() {
                task.1 = Some(job());
            }
        }
        fn code_of<F: FnOnce() -> R, R>(_: &Task<F, R>) -> usize {
            run::<F, R> as *const () as usize
        }
        let mut task = Task(Some(job), None);
        JOB_CODE.store(code_of(&task), Ordering::Release);
        JOB_DATA.store(&raw mut task as usize, Ordering::Release);
        thread.state.store(JOB, Ordering::Release);
        syscall::futex_wake(&thread.state);
        loop {
            let seen = EVENTS.load(Ordering::Acquire);
            if thread.state.load(Ordering::Acquire) == PARKED {
                break;
            }
            syscall::futex_wait(&EVENTS, seen, 0);
        }
        match task.1 {
            Some(result) => result,
            None => unreachable!("the job has run"),
        }
    }

    /// Resumes all threads.
    pub fn resume(self) {
        drop(self);
    }

    /// All threads, each with its frame.
    pub(crate) fn threads(&self) -> impl Iterator<Item = &'static Thread> {
        threads::all().filter(|t| t.state.load(Ordering::Acquire) == PARKED)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_waits_for_a_slow_restart() {
        let restarting = begin_parked();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| stop_all_within(Duration::ZERO).map(Stopped::resume));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!asked.is_finished());
            restarting.resume();
            assert!(asked.join().is_ok_and(|stopped| stopped.is_ok()));
        });
        let held = stop_all_within(Duration::ZERO);
        assert!(matches!(
            stop_all_within(Duration::ZERO),
            Err(StopError::Busy)
        ));
        drop(held);
    }
}
