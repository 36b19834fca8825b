//! Starts a program: ensures that the lower half is outside its address range, loads it with its dynamic linker
//! ([`prepare`]), and runs it as the upper half ([`Program::run`]).
//!
//! # Safety
//! [`Program::run`] never returns to Rust: it sets the stack pointer to a stack that was built for the program and
//! jumps to its dynamic linker, with FS 0 as after an exec. The lower stack stays intact, but no function on it
//! returns.
#![allow(unsafe_code)]

use crate::error::LoadError;
use crate::interpose::cpuid::places;
use crate::interpose::descriptors::{closed_stdio, fd_owner, launcher_stdio};
use crate::interpose::install::{leave_rust, start_loader, take_name};
use crate::interpose::signals::startup;
use crate::interpose::sites;
use crate::interpose::sud;
use crate::interpose::threads::lifecycle;
use crate::load::{elf, gate, map, privileges, program_info, stack, vdso};
use crate::process_state;
use crate::sys::{c_library, cpu, proc_maps, syscall};
use contract::ARENA_END;
use core::arch::asm;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Variable in the environment of a lower half that was executed again with another stack limit.
const STACK_LIMIT: &str = "STASIS_STACK_LIMIT";
const ARGV0: &str = "STASIS_ARGV0";
const OWNED: &str = "STASIS_OWNED_FDS";
/// Variable with the name of the program that started this one, if that was followed here.
pub const WRAPPER: &str = "STASIS_WRAPPER";

/// A program that is mapped and ready to run.
#[derive(Debug)]
pub struct Program {
    sp: usize,
    entry: usize,
    /// Privileges that the program would have natively and does not get: a sentence.
    pub without: Option<String>,
}

/// Ensures that the lower half lies above the upper half's address space. With an unlimited stack and much
/// randomisation it may not: then this executes the same program again under a smaller limit, and restores the limit
/// after that. Call it before anything else.
///
/// # Errors
/// [`LoadError::LowerHalfTooLow`] if the lower half is too low even so, [`LoadError::System`] if a call fails.
pub fn check_address_space() -> Result<(), LoadError> {
    const SMALL: u64 = 8 << 20;
    startup::forget_rust();
    sites::register();
    let system = |what| move |source| LoadError::System { what, source };
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    c_library::getrlimit(libc::RLIMIT_STACK, &mut limit);
    let former = std::env::var(STACK_LIMIT)
        .ok()
        .and_then(|v| v.parse::<u64>().ok());
    if let Some(former) = former {
        std::env::remove_var(STACK_LIMIT);
        limit.rlim_cur = former;
        c_library::setrlimit(libc::RLIMIT_STACK, &limit);
    }
    let maps = proc_maps::read().map_err(system("reading /proc/self/maps"))?;
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
    c_library::setrlimit(libc::RLIMIT_STACK, &limit);
    let own = std::env::current_exe().map_err(system("finding the lower half's own path"))?;
    let mut args = std::env::args_os();
    let mut again = std::process::Command::new(own);
    std::os::unix::process::CommandExt::arg0(&mut again, args.next().unwrap_or_default());
    Err(system("executing the lower half again")(
        std::os::unix::process::CommandExt::exec(again.args(args)),
    ))
}

fn c_string(text: &OsStr) -> Result<CString, LoadError> {
    CString::new(text.as_bytes()).map_err(|_| LoadError::Nul)
}

/// Finds the program, checks it and maps it, its dynamic linker, the gate and the stack.
///
/// `args` are those after `argv[0]`, which is `program` itself; `env` is the whole environment.
///
/// # Errors
/// [`LoadError`] if the program cannot be found, read, served or mapped. Nothing of it has run then.
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
    let resolved = elf::resolve(&path, all)?;
    let interpreter = elf::open_elf(&resolved.elf.interpreter()?)?;

    process_state::note_start();
    start_loader()?;
    gate::map()?;
    gate::fill();
    vdso::map()?;
    vdso::fill_slots()?;
    launcher_stdio::note();
    closed_stdio::prepare();
    for fd in 0..=2 {
        fd_owner::own(fd);
    }
    let inherited = variable(OWNED)
        .map(|v| v.to_string_lossy().into_owned())
        .unwrap_or_default();
    for fd in inherited.split(',').filter_map(|fd| fd.parse().ok()) {
        fd_owner::own(fd);
        fd_owner::note_shared();
    }

    if resolved.elf.is_fixed() {
        sud::trap_fixed_program()?;
    }
    let mapped = map::elf(&resolved.elf)?;
    let linker = map::elf(&interpreter)?;
    for (elf, at) in [(&resolved.elf, mapped), (&interpreter, linker)] {
        places::replace_in(&elf.file, elf.code(), at.bias);
    }
    program_info::set_interpreter(linker.start, linker.end);
    program_info::set_program(c_string(resolved.elf.path.as_os_str())?);
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

impl Program {
    /// Runs the program on the calling thread, which must be the process's initial one.
    pub fn run(self) -> ! {
        startup::start();
        take_name();
        leave_rust();
        lifecycle::adopt_main(syscall::getpid(), 0);
        // SAFETY: the stack and the entry point were built for this program, and nothing on the lower stack is used
        // again.
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
