//! Restores a saved process in a fresh one.
//!
//! # Safety
//! The caller has mapped the image's memory, so addresses of frames in the state are valid signal frames. Threads made
//! for them resume them; [`Restored::go`], which never returns to Rust, resumes the frame of the initial thread.
#![allow(unsafe_code)]

use super::pending_signals;
use super::registers;
use super::settings::{self, ProcessSettings};
use super::xsave_area;
use super::{OpenedFiles, ProcessState, SavedRegisters, ThreadNumbers, ThreadState, LONGEST_TAIL};
use crate::error::{LoadError, RestoreError};
use crate::interpose::file_changes::segment;
use crate::interpose::install::{leave_rust, start_loader, take_name};
use crate::interpose::signals::{actions, startup};
use crate::interpose::syscalls::pi_futex;
use crate::interpose::threads::lifecycle::{self, Birth};
use crate::interpose::threads::stop::{self, Stopped};
use crate::interpose::{children, posix_timers, signals, sud, syscalls, threads, trap_entry};
use crate::load::va_allocator::{self, STACK_BOTTOM, STACK_TOP};
use crate::load::{gate, map, program_info, vdso};
use crate::sys::context::{Context, SigInfo};
use crate::sys::{clock, cpu, proc_maps, syscall};
use contract::{ARENA_START, CLOCKS_ADDRESS, GATE_ADDRESS, VDSO_ADDRESS, VDSO_SLOTS_ADDRESS};
use nix::sys::stat::{umask, Mode};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use undo::{Cut, Plan};

/// Addresses of the parts at fixed addresses.
pub const FIXED: [usize; 4] = [
    GATE_ADDRESS,
    CLOCKS_ADDRESS,
    VDSO_ADDRESS,
    VDSO_SLOTS_ADDRESS,
];

/// A restored process whose threads do not run yet.
#[derive(Debug)]
pub struct Restored {
    main: ThreadState,
    numbers: ThreadNumbers,
    settings: ProcessSettings,
    timers: [[i64; 4]; 3],
    pending: Vec<SigInfo>,
    requested: Vec<usize>,
    warnings: Vec<String>,
    stopped: Stopped,
}

impl ProcessState {
    /// Checks the state for consistency with memory that contains the addresses for which `has` is true.
    ///
    /// # Errors
    /// [`RestoreError::Version`] if another contract saved it, another [`RestoreError`] for what is inconsistent.
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

    /// Checks that the working directory can be entered, or will be there after the undo. Changes nothing.
    ///
    /// # Errors
    /// [`RestoreError::Workdir`] if not.
    pub fn check_workdir(&self, undo: Option<(&Plan, &str)>) -> Result<(), RestoreError> {
        // The dot is looked up in the directory, which takes the right to enter it.
        let Err(source) = std::fs::metadata(self.cwd.join(".")) else {
            return Ok(());
        };
        let comes = |(plan, host): (&Plan, &str)| match source.kind() {
            io::ErrorKind::PermissionDenied => plan.restores_rights(&self.cwd),
            _ => plan.outlook(host, LONGEST_TAIL).is_directory(&self.cwd),
        };
        match undo.is_some_and(comes) {
            true => Ok(()),
            false => Err(RestoreError::Workdir {
                path: self.cwd.clone(),
                source,
            }),
        }
    }
}

const NO_MAIN: RestoreError = RestoreError::NotMapped {
    what: "the initial thread",
    address: 0,
};

fn check_memory(state: &ProcessState) -> Result<(), RestoreError> {
    let maps = proc_maps::read().map_err(RestoreError::system("reading /proc/self/maps"))?;
    state.check(&|address| maps.iter().any(|m| (m.start..m.end).contains(&address)))?;
    if contract::gate().magic.load(Ordering::Relaxed) != gate::MAGIC {
        return Err(RestoreError::NotMapped {
            what: "the gate",
            address: GATE_ADDRESS,
        });
    }
    Ok(())
}

/// Whether there is code below the arena.
fn has_fixed_program() -> Result<bool, RestoreError> {
    let maps = proc_maps::read().map_err(RestoreError::system("reading /proc/self/maps"))?;
    let is_code = |prot| i32::from(prot) & libc::PROT_EXEC != 0;
    Ok(maps
        .iter()
        .any(|m| m.start < ARENA_START && is_code(m.prot)))
}

/// Lets the initial stack grow again. The saved part is now an ordinary mapping; a growing mapping is placed directly
/// below it.
fn let_stack_grow() -> Result<(), RestoreError> {
    const INITIAL: usize = 128 * 1024;
    let maps = proc_maps::read().map_err(RestoreError::system("reading /proc/self/maps"))?;
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

fn make_thread(
    stopped: &Stopped,
    saved: &ThreadState,
    numbers: &ThreadNumbers,
) -> Result<(), RestoreError> {
    let birth = Birth {
        frame: saved.frame as *mut Context,
        upper_fs: saved.fs,
        tid: saved.tid,
        number: 0,
        set_parent: 0,
        set_child: 0,
        clear: saved.clear_tid,
        bound: saved.settings.bound(),
        parked: true,
    };
    lifecycle::create(&birth).map_err(|errno| {
        RestoreError::system("creating a thread")(io::Error::from_raw_os_error(errno))
    })?;
    if let Some(made) = threads::all().find(|t| t.tid() == saved.tid) {
        made.robust.store(saved.robust, Ordering::Relaxed);
        made.set_in_wrapper(saved.in_wrapper);
        numbers.give(made);
        let task = made.real_tid.load(Ordering::Relaxed);
        // The name is optional: the thread runs without it.
        let _ = std::fs::write(format!("/proc/self/task/{task}/comm"), &saved.name);
        stopped.run_on(made, || {
            registers::expect(saved.frame);
            settings::restore_own(&saved.settings);
            pending_signals::send_to_self(&saved.pending);
        });
    }
    Ok(())
}

/// Restores everything but the memory, which must be mapped. Call it on the process's initial thread, whose signals are
/// blocked from now on.
///
/// Output files must have been truncated ([`OpenedFiles::truncate`]) in all ranks before a rank goes on.
///
/// An image of an older Stasis has no `registers`.
///
/// # Errors
/// [`RestoreError`] for the first part that the kernel refuses. The process cannot go on then.
pub fn restore(
    state: ProcessState,
    registers: Option<&SavedRegisters>,
    numbers: ThreadNumbers,
    files: OpenedFiles,
    objects: &dyn Fn(&str) -> Option<i32>,
) -> Result<Restored, RestoreError> {
    check_memory(&state)?;
    super::note_start();
    start_loader()?;
    syscall::block(signals::ALL_HELD);
    va_allocator::take_mapped()?;
    if has_fixed_program()? {
        sud::trap_fixed_program()?;
    }
    let_stack_grow()?;
    gate::fill();
    clock::go_on_from(state.clocks);
    vdso::fill_slots()?;
    syscalls::set_brk_end(state.brk_end);
    children::remember(&state.children);
    syscalls::restore_membarriers(state.membarriers);
    program_info::set_interpreter(state.interpreter[0], state.interpreter[1]);
    if let Some(registers) = registers {
        registers.restore(&state)?;
    }
    xsave_area::fit(registers.and_then(SavedRegisters::smallest_room))?;
    let program = CString::new(state.program.as_os_str().as_bytes()).map_err(|_| LoadError::Nul)?;
    program_info::set_program(program);
    threads::set_virtual_pid(state.pid);
    std::env::set_current_dir(&state.cwd).map_err(|source| RestoreError::Workdir {
        path: state.cwd.clone(),
        source,
    })?;
    files.install(&state.files, objects)?;
    umask(Mode::from_bits_truncate(state.umask));
    startup::start();
    for (signal, action) in &state.actions {
        actions::set(*signal, action);
    }
    leave_rust();
    let stopped = stop::begin_parked();
    let Some(main) = state.threads.iter().find(|t| t.main).cloned() else {
        return Err(NO_MAIN);
    };
    // A process that cannot be dumped may not write its files of /proc.
    let mut warnings = state.proc_files.restore();
    settings::restore(&state.settings)?;
    for thread in state.threads.iter().filter(|t| !t.main) {
        make_thread(&stopped, thread, &numbers)?;
    }
    pi_futex::serve_from_now_on();
    for (id, timer) in &state.posix_timers {
        let real_tid = |tid| match tid == main.tid {
            true => syscall::gettid(),
            false => threads::real_tid(tid),
        };
        posix_timers::restore(*id, timer, real_tid)
            .map_err(RestoreError::system("creating a POSIX timer"))?;
    }
    state.files.notify(&|tid| match tid == main.tid {
        true => syscall::gettid(),
        false => threads::real_tid(tid),
    })?;
    take_name();
    // The name is optional: the thread runs without it.
    let _ = std::fs::write("/proc/self/comm", &main.name);
    let requested = state
        .threads
        .iter()
        .filter(|t| t.by_request)
        .map(|t| t.frame)
        .collect();
    warnings.extend(state.locked.lock());
    Ok(Restored {
        main,
        numbers,
        settings: state.settings,
        timers: state.timers,
        pending: state.pending,
        requested,
        warnings,
        stopped,
    })
}

fn start_timers(timers: &[[i64; 4]; 3]) {
    for (which, timer) in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF]
        .iter()
        .zip(timers)
    {
        if timer[2] != 0 || timer[3] != 0 {
            syscall::setitimer(*which, timer);
        }
    }
}

impl Restored {
    /// Messages about state that could not be restored. The program goes on without it.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Starts the record of changes to files, which are now in their state at this cut.
    pub fn note_changes_since(&self, cut: Cut) {
        segment::begin_segment(&self.stopped, cut);
    }

    /// Turns the calling thread into the program's initial thread. It first runs `before` with the upper half's FS, so
    /// `before` follows the rules of [`Stopped::run_on_main`] and can call into the upper half. Then all threads go on.
    pub fn go(self, before: impl FnOnce()) -> ! {
        let thread = lifecycle::adopt_main(self.main.tid, self.main.fs);
        thread
            .clear_tid
            .store(self.main.clear_tid, Ordering::Relaxed);
        thread.robust.store(self.main.robust, Ordering::Relaxed);
        thread.set_in_wrapper(self.main.in_wrapper);
        self.numbers.give(thread);
        thread
            .bound
            .store(self.main.settings.bound(), Ordering::Relaxed);
        let frame = self.main.frame as *mut Context;
        // SAFETY: the frame of the state lies in the mapped image, and nothing of this stack is used again.
        unsafe {
            for &frame in &self.requested {
                (*(frame as *mut Context)).regs.rax = 1;
            }
            cpu::set_fs(thread.upper_fs());
            before();
            self.settings.limit();
            registers::expect(self.main.frame);
            settings::restore_own(&self.main.settings);
            syscall::block((*frame).mask & !signals::never_blocked());
            pending_signals::send_to_self(&self.main.pending);
            pending_signals::send_to_process(&self.pending);
            start_timers(&self.timers);
            posix_timers::start();
            self.stopped.resume();
            trap_entry::resume(frame)
        }
    }
}
