//! Getting from "this program, these arguments" to running it as the upper half.
//!
//! # Safety
//! [`Program::run`] leaves Rust for good: it sets the stack pointer to a stack that was built for
//! the program and jumps to its dynamic linker, with FS 0 as after an exec. The lower stack stays
//! as it is but nothing on it is ever returned to.
#![allow(unsafe_code)]

use crate::error::LoadError;
use crate::{
    arena, cpu, dispatch, elf, facts, fds, gate, map, maps, privileges, raw, signals, stack, state,
    stop, sud, thread, vacant, vdso,
};
use contract::ARENA_END;
use core::arch::asm;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Set in the environment of a lower half that was executed again with another stack limit.
const STACK_LIMIT: &str = "STASIS_STACK_LIMIT";
const ARGV0: &str = "STASIS_ARGV0";
const OWNED: &str = "STASIS_OWNED_FDS";
/// What has started the program, if that was followed here.
pub const WRAPPER: &str = "STASIS_WRAPPER";

/// A program that is mapped and ready to run.
#[derive(Debug)]
pub struct Program {
    sp: usize,
    entry: usize,
    /// Privileges that it would have natively, and does not get: a sentence.
    pub without: Option<String>,
}

/// Makes sure that the lower half lies above the upper half's address space. With an unlimited
/// stack and much randomisation it may not: then this executes the same program again under a
/// smaller limit, and puts the limit back once that is done. To be called first of all.
pub fn check_address_space() -> Result<(), LoadError> {
    const SMALL: u64 = 8 << 20;
    signals::forget_rust();
    let system = |what| move |source| LoadError::System { what, source };
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is written to a local of the right type.
    unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    let former = std::env::var(STACK_LIMIT)
        .ok()
        .and_then(|v| v.parse::<u64>().ok());
    if let Some(former) = former {
        std::env::remove_var(STACK_LIMIT);
        limit.rlim_cur = former;
        // SAFETY: the limit is read from a local.
        unsafe { libc::setrlimit(libc::RLIMIT_STACK, &raw const limit) };
    }
    let maps = maps::read().map_err(system("reading /proc/self/maps"))?;
    let Some(low) = maps.iter().find(|m| m.start < ARENA_END) else {
        return Ok(());
    };
    if former.is_some() || limit.rlim_cur != libc::RLIM_INFINITY {
        return Err(LoadError::LowerHalfTooLow {
            what: low.name.clone(),
            address: low.start,
        });
    }
    std::env::set_var(STACK_LIMIT, limit.rlim_cur.to_string());
    limit.rlim_cur = SMALL.min(limit.rlim_max);
    // SAFETY: the limit is read from a local.
    unsafe { libc::setrlimit(libc::RLIMIT_STACK, &raw const limit) };
    let own = std::env::current_exe().map_err(system("finding the lower half's own path"))?;
    let mut args = std::env::args_os();
    let mut again = std::process::Command::new(own);
    std::os::unix::process::CommandExt::arg0(&mut again, args.next().unwrap_or_default());
    Err(system("executing the lower half again")(
        std::os::unix::process::CommandExt::exec(again.args(args)),
    ))
}

/// What launch and restart have in common, before any upper-half memory is mapped.
pub(crate) fn start_loader() -> Result<(), LoadError> {
    cpu::detect();
    sud::probe()?;
    arena::start()?;
    thread::start()
}

fn c_string(text: &OsStr) -> Result<CString, LoadError> {
    CString::new(text.as_bytes()).map_err(|_| LoadError::Nul)
}

/// Finds the program, checks it and maps it, its dynamic linker, the gate and the stack.
///
/// `args` are those after `argv[0]`, which is `program` itself; `env` is the whole environment.
pub fn prepare(
    program: &OsStr,
    args: &[OsString],
    env: &[(OsString, OsString)],
) -> Result<Program, LoadError> {
    let variable = |name: &str| {
        env.iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_os_str())
    };
    let path = elf::find(program, variable("PATH"))?;
    let argv0 = variable(ARGV0).unwrap_or(program).to_owned();
    let all = std::iter::once(argv0).chain(args.iter().cloned()).collect();
    let resolved = elf::resolve(path.clone(), all)?;
    let interpreter = elf::open_elf(&resolved.elf.interpreter()?)?;

    state::note_start();
    start_loader()?;
    gate::map()?;
    gate::fill();
    vdso::map()?;
    vdso::fill_slots()?;
    state::note_standard_files();
    vacant::prepare();
    for fd in 0..=2 {
        fds::own(fd);
    }
    let inherited = variable(OWNED)
        .map(|v| v.to_string_lossy().into_owned())
        .unwrap_or_default();
    for fd in inherited.split(',').filter_map(|fd| fd.parse().ok()) {
        fds::own(fd);
        fds::note_shared();
    }

    let mapped = map::elf(&resolved.elf)?;
    let linker = map::elf(&interpreter)?;
    facts::set_interpreter(linker.start, linker.end);
    facts::set_program(c_string(resolved.elf.path.as_os_str())?);
    let ours = [ARGV0, OWNED, STACK_LIMIT, WRAPPER];
    let env = env
        .iter()
        .filter(|(name, _)| !ours.iter().any(|our| name == our))
        .map(|(name, value)| {
            let mut pair = name.clone();
            pair.push("=");
            pair.push(value);
            c_string(&pair)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let args = resolved
        .args
        .iter()
        .map(|a| c_string(a))
        .collect::<Result<Vec<_>, _>>()?;
    let sp = stack::make(&stack::Contents {
        args: &args,
        env: &env,
        exec_name: &c_string(path.as_os_str())?,
        program: mapped,
        headers: resolved.elf.segments.len(),
        interpreter: linker.bias,
        executable: resolved.elf.wants_executable_stack(),
    })?;
    Ok(Program {
        sp,
        entry: linker.entry,
        without: privileges::of(&resolved.elf),
    })
}

/// The calling thread stops being a plain thread of the lower half: its alternate signal stack
/// (Rust's) goes, SIGSYS and the stop signal become ours.
pub(crate) fn leave_rust() {
    let none = libc::stack_t {
        ss_sp: core::ptr::null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    };
    // SAFETY: the kernel reads a local.
    unsafe { libc::sigaltstack(&raw const none, core::ptr::null_mut()) };
    dispatch::install();
    stop::install();
}

/// Gives the process the name of the program, as `ps` and the like show it.
pub(crate) fn take_name() {
    let path = facts::program().to_bytes();
    let base = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    if let Ok(name) = CString::new(base) {
        // SAFETY: the kernel reads the string.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
    }
}

impl Program {
    /// Runs the program on the calling thread, which must be the process's initial one.
    pub fn run(self) -> ! {
        signals::start();
        take_name();
        leave_rust();
        thread::adopt_main(raw::getpid(), 0);
        // SAFETY: see the module's head.
        unsafe {
            cpu::set_fs(0);
            asm!(
                "mov rsp, {sp}",
                "xor eax, eax",
                "xor ebx, ebx",
                "xor ecx, ecx",
                "xor edx, edx",
                "xor esi, esi",
                "xor edi, edi",
                "xor ebp, ebp",
                "xor r8d, r8d",
                "xor r9d, r9d",
                "xor r10d, r10d",
                "xor r12d, r12d",
                "xor r13d, r13d",
                "xor r14d, r14d",
                "xor r15d, r15d",
                "cld",
                "jmp r11",
                sp = in(reg) self.sp,
                in("r11") self.entry,
                options(noreturn),
            )
        }
    }
}

/// Fails where little memory is left for threads. One that can be made, but then finds none for what is its own,
/// ends the process (glibc: "failed to register TLS destructor").
pub(crate) fn room_for_threads() -> std::io::Result<()> {
    const ROOM: usize = 16 << 20;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // Not by malloc, which may have such room for this thread and none for another.
    // SAFETY: a mapping where the kernel likes, which nobody has used when it goes.
    unsafe {
        let room = libc::mmap(core::ptr::null_mut(), ROOM, libc::PROT_NONE, flags, -1, 0);
        if room == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        libc::munmap(room, ROOM);
    }
    Ok(())
}

/// Starts a thread of the lower half. All signals are blocked in it, because they are meant for
/// the application; create every lower thread this way.
pub fn spawn_lower(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    room_for_threads()?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    holding_signals(|| thread.spawn(body)).map(drop)
}

/// Runs `f`, which makes threads of the lower half that it does not tell about: all signals are
/// blocked in them.
pub fn holding_signals<R>(f: impl FnOnce() -> R) -> R {
    // Also the signals of faults: one that is sent is the application's, and one that happens in the
    // lower half ends the process whether it is blocked or not.
    let mask = raw::block(u64::MAX);
    let result = f();
    raw::set_mask(mask);
    result
}
