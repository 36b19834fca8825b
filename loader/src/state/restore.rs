//! Brings a saved process back in a fresh one.
//!
//! # Safety
//! The caller has mapped the image's memory. Frames named in the state are then frames; they are
//! resumed by threads made for them, and by the initial thread in [`Restored::go`], which leaves
//! Rust for good.
#![allow(unsafe_code)]

use super::settings::{self, ProcessSettings};
use super::{journal, pending, OpenedFiles, ProcessState, ThreadState};
use crate::arena::{STACK_BOTTOM, STACK_TOP};
use crate::context::Context;
use crate::context::SigInfo;
use crate::error::{LoadError, RestoreError};
use crate::program::{leave_rust, start_loader, take_name};
use crate::stop::{self, Stopped};
use crate::syscalls::{pi_futex, timers};
use crate::thread::{self, Birth};
use crate::{
    arena, children, clock, cpu, dispatch, facts, gate, map, maps, raw, signals, syscalls, vdso,
};
use contract::{CLOCKS_ADDRESS, GATE_ADDRESS, VDSO_ADDRESS, VDSO_SLOTS_ADDRESS};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use undo::Cut;

/// The parts at fixed addresses.
pub const FIXED: [usize; 4] = [
    GATE_ADDRESS,
    CLOCKS_ADDRESS,
    VDSO_ADDRESS,
    VDSO_SLOTS_ADDRESS,
];

/// A process that is restored but for its memory's owners: nobody runs yet.
#[derive(Debug)]
pub struct Restored {
    main: ThreadState,
    settings: ProcessSettings,
    timers: [[i64; 4]; 3],
    pending: Vec<SigInfo>,
    requested: Vec<usize>,
    stopped: Stopped,
}

impl ProcessState {
    /// Makes sure that it can be restored, as far as it tells by itself, into memory that has these addresses.
    pub fn check(&self, has: &dyn Fn(usize) -> bool) -> Result<(), RestoreError> {
        let ours = contract::VERSION;
        if self.contract_version != ours || self.fixed != FIXED {
            return Err(RestoreError::Version {
                saved: self.contract_version,
                ours,
            });
        }
        let frames = self.threads.iter().map(|t| ("a thread's frame", t.frame));
        let fixed = FIXED.iter().map(|&address| ("a fixed part", address));
        for (what, address) in fixed.chain(frames) {
            if !has(address) {
                return Err(RestoreError::NotMapped { what, address });
            }
        }
        if !self.threads.iter().any(|thread| thread.main) {
            return Err(NO_MAIN);
        }
        CString::new(self.program.as_os_str().as_bytes()).map_err(|_| LoadError::Nul)?;
        self.files.check()
    }
}

const NO_MAIN: RestoreError = RestoreError::NotMapped {
    what: "the initial thread",
    address: 0,
};

fn check_memory(state: &ProcessState) -> Result<(), RestoreError> {
    let maps = maps::read().map_err(RestoreError::system("reading /proc/self/maps"))?;
    state.check(&|address| maps.iter().any(|m| (m.start..m.end).contains(&address)))?;
    if contract::gate().magic.load(Ordering::Relaxed) != gate::MAGIC {
        return Err(RestoreError::NotMapped {
            what: "the gate",
            address: GATE_ADDRESS,
        });
    }
    Ok(())
}

/// The initial stack may grow again. The saved part is an ordinary mapping now; a growing one is
/// put right below it.
fn let_stack_grow() -> Result<(), RestoreError> {
    const INITIAL: usize = 128 * 1024;
    let maps = maps::read().map_err(RestoreError::system("reading /proc/self/maps"))?;
    let mut low = STACK_TOP;
    for m in maps.iter().rev() {
        if m.end == low && low > STACK_BOTTOM {
            low = m.start;
        }
    }
    if low - INITIAL > STACK_BOTTOM {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_GROWSDOWN | libc::MAP_STACK;
        map::anonymous("the stack", low - INITIAL, INITIAL, prot, flags)?;
    }
    Ok(())
}

fn make_thread(stopped: &Stopped, saved: &ThreadState) -> Result<(), RestoreError> {
    let birth = Birth {
        frame: saved.frame as *mut Context,
        upper_fs: saved.fs,
        tid: saved.tid,
        set_parent: 0,
        set_child: 0,
        clear: saved.clear_tid,
        bound: saved.settings.bound(),
        parked: true,
    };
    thread::create(&birth).map_err(|errno| {
        RestoreError::system("creating a thread")(io::Error::from_raw_os_error(errno))
    })?;
    if let Some(made) = thread::all().find(|t| t.tid() == saved.tid) {
        made.robust.store(saved.robust, Ordering::Relaxed);
        made.set_in_wrapper(saved.in_wrapper);
        let task = made.real_tid.load(Ordering::Relaxed);
        // A name is a convenience: without it the thread runs as well.
        let _ = std::fs::write(format!("/proc/self/task/{task}/comm"), &saved.name);
        stopped.run_on(made, || {
            settings::restore_own(&saved.settings);
            pending::send_to_self(&saved.pending);
        });
    }
    Ok(())
}

/// Makes everything but the memory, which must be mapped. To be called on the process's initial
/// thread. Signals are held back in it from now on.
///
/// Output files must have been cut back ([`OpenedFiles::cut_back`]), and no rank may go on before all have.
pub fn restore(
    state: ProcessState,
    files: OpenedFiles,
    objects: &dyn Fn(&str) -> Option<i32>,
) -> Result<Restored, RestoreError> {
    check_memory(&state)?;
    super::note_start();
    start_loader()?;
    raw::block(signals::ALL_HELD);
    arena::take_mapped()?;
    let_stack_grow()?;
    gate::fill();
    clock::go_on_from(state.clocks);
    vdso::fill_slots()?;
    syscalls::set_brk_end(state.brk_end);
    children::remember(&state.children);
    syscalls::restore_membarriers(state.membarriers);
    facts::set_interpreter(state.interpreter[0], state.interpreter[1]);
    let program = CString::new(state.program.as_os_str().as_bytes()).map_err(|_| LoadError::Nul)?;
    facts::set_program(program);
    thread::set_virtual_pid(state.pid);
    std::env::set_current_dir(&state.cwd).map_err(|source| {
        RestoreError::system(&format!("going to {}", state.cwd.display()))(source)
    })?;
    files.settle(&state.files, objects)?;
    // SAFETY: sets a number.
    unsafe { libc::umask(state.umask) };
    signals::start();
    for (signal, action) in &state.actions {
        signals::set(*signal, action);
    }
    leave_rust();
    let stopped = stop::begin_parked();
    let Some(main) = state.threads.iter().find(|t| t.main).cloned() else {
        return Err(NO_MAIN);
    };
    settings::restore(&state.settings)?;
    for thread in state.threads.iter().filter(|t| !t.main) {
        make_thread(&stopped, thread)?;
    }
    pi_futex::serve_from_now_on();
    for (id, timer) in &state.posix_timers {
        let real_tid = |tid| match tid == main.tid {
            true => raw::gettid(),
            false => thread::real_tid(tid),
        };
        timers::restore(*id, timer, real_tid)
            .map_err(RestoreError::system("making a POSIX timer"))?;
    }
    take_name();
    // A name is a convenience: without it the thread runs as well.
    let _ = std::fs::write("/proc/self/comm", &main.name);
    let requested = state
        .threads
        .iter()
        .filter(|t| t.by_request)
        .map(|t| t.frame)
        .collect();
    Ok(Restored {
        main,
        settings: state.settings,
        timers: state.timers,
        pending: state.pending,
        requested,
        stopped,
    })
}

fn start_timers(timers: &[[i64; 4]; 3]) {
    for (which, timer) in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF]
        .iter()
        .zip(timers)
    {
        if timer[2] != 0 || timer[3] != 0 {
            let args = [*which as usize, timer.as_ptr() as usize, 0, 0, 0, 0];
            // SAFETY: four words are the layout of itimerval, which is only read.
            unsafe { raw::syscall(libc::SYS_setitimer as usize, args) };
        }
    }
}

impl Restored {
    /// From here on it is noted what the program changes in files that were as they are now at this cut.
    pub fn note_changes_since(&self, cut: Cut) {
        journal::begin_segment(&self.stopped, cut);
    }

    /// The calling thread becomes the program's initial thread. It first runs `before`, with the
    /// upper half's FS (so `before` is bound by the rules of [`Stopped::run_on_main`]) and can
    /// call into the upper half; then everybody goes on.
    pub fn go(self, before: impl FnOnce()) -> ! {
        let thread = thread::adopt_main(self.main.tid, self.main.fs);
        thread
            .clear_tid
            .store(self.main.clear_tid, Ordering::Relaxed);
        thread.robust.store(self.main.robust, Ordering::Relaxed);
        thread.set_in_wrapper(self.main.in_wrapper);
        thread
            .bound
            .store(self.main.settings.bound(), Ordering::Relaxed);
        let frame = self.main.frame as *mut Context;
        // SAFETY: see the module's head.
        unsafe {
            for &frame in &self.requested {
                (*(frame as *mut Context)).regs.rax = 1;
            }
            cpu::set_fs(thread.upper_fs());
            before();
            self.settings.limit();
            settings::restore_own(&self.main.settings);
            raw::block((*frame).mask & !signals::NEVER_BLOCKED);
            pending::send_to_self(&self.main.pending);
            pending::send_to_process(&self.pending);
            start_timers(&self.timers);
            timers::start();
            self.stopped.resume();
            dispatch::resume(frame)
        }
    }
}
