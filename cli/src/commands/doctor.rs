//! `stasis doctor`: checks the machine, the checkpoint directory and a program, without running the program.

use std::path::Path;
use std::process::Command;

use anyhow::{anyhow, Result};
use launcher::message;

use crate::args::Doctor;
use crate::check::gpu;
use crate::check::kernel::{self, Trap};
use crate::check::program::{self, Findings};
use crate::check::storage_check::{may_renumber, Storage};
use crate::install::layout::Layout;
use crate::install::lower_registry::{Lower, GET_ONE};
use crate::install::standard_library;
use crate::start::for_cpu;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::text;
use linked::mpi::Abi;

/// Runs the command.
pub fn run(options: &Doctor) -> exit::Result<()> {
    let layout = Layout::find().code(Code::CannotServe)?;
    let mut bad = 0;
    let mut tell = |what: &str, result: Result<String>| match result {
        Ok(good) => say!("ok    {what}: {good}"),
        Err(why) => {
            bad += 1;
            say!(
                "{}   {what}: {}",
                text::bad("BAD"),
                message::reasons(why.as_ref())
            );
        }
    };
    let trap = kernel::check_trap();
    let filtered = matches!(trap, Ok(Trap::Filter));
    let found = |trap| match trap {
        Trap::Dispatch => format!("Syscall User Dispatch, Linux {}", kernel::release()),
        Trap::Filter => format!("a seccomp filter, Linux {}", kernel::release()),
    };
    tell("traps of system calls", trap.map(found));
    if filtered {
        let why = match kernel::dispatch_is_off() {
            true => "is off (the sysctl kernel.syscall_user_dispatch is 0; root sets it to 1)",
            false => "is missing (Linux 5.11 has it)",
        };
        note(
            "Syscall User Dispatch",
            &format!(
                "{why}, so a seccomp filter takes its place. Every system call of a rank takes a little longer, and \
                 its children keep the filter: setuid programs get no privileges, and if the rank's program is not \
                 position-independent (gcc -no-pie), statically linked children die of SIGSYS"
            ),
        );
    }
    tell(
        "membarrier",
        kernel::check_membarrier().map(|()| "offered".into()),
    );
    if let Some(found) = gpu::check() {
        tell("GPUs", found);
    }
    tell("processor", for_cpu::level_here().map(describe_level));
    print_drawbacks();
    let directory = options.directory();
    let place = Storage::examine(&directory);
    if place.as_ref().is_ok_and(Storage::is_volatile) {
        note(
            "the checkpoint directory",
            "is lost with this machine or container",
        );
    }
    if place.as_ref().is_ok_and(|place| !place.has_links()) {
        note(
            "the checkpoint directory",
            "its file system has no hard links, so a file that the job removes or replaces is copied first where \
             otherwise a second name would keep it",
        );
    }
    if place.as_ref().is_ok_and(|place| !place.has_locks()) {
        note(
            "the checkpoint directory",
            "its file system has no flock(2), so the remains of a checkpoint whose job died on another machine \
             are removed an hour later",
        );
    }
    tell(
        &format!("checkpoints in {}", directory.display()),
        place.map(|place| place.describe()),
    );
    for abi in Abi::ALL {
        let front = layout.front(abi);
        let found = match front.exists() {
            true => Ok("is there".into()),
            false => Err(anyhow!(
                "{} does not exist: install Stasis again (`cargo xtask setup` in its sources)",
                front.display()
            )),
        };
        tell(&format!("front for {}", abi.key()), found);
    }
    let lowers = layout.lowers();
    let mut usable = 0;
    for lower in &lowers {
        let what = format!("lower half {}", lower.name);
        if let Err(why) = lower.check_version() {
            tell(&what, Err(why));
        } else if let Some(of) = library_here(lower) {
            usable += 1;
            tell(&what, Ok(of));
            registration_caches(lower);
        } else {
            note(
                &what,
                &format!(
                    "serves {}, and there is none here",
                    text::library(&lower.record.library)
                ),
            );
        }
    }
    if lowers.is_empty() {
        let none = anyhow!("there is none; `stasis build-lower --mpicc PATH` builds one");
        tell("lower halves", Err(none));
    } else if usable == 0 {
        let none = anyhow!(
            "there is none that a lower half serves: {GET_ONE} gets one, without root and without a compiler (in a \
             virtual environment where pip asks for one); if one is installed, put its mpiexec into PATH"
        );
        tell("MPI libraries", Err(none));
    }
    if let Some(app) = &options.app {
        let name = app.to_string_lossy();
        let looked = program::examine(app.as_os_str(), &layout).and_then(|(path, findings)| {
            print_notes(&findings, options.symbols);
            findings.accept(&path)?;
            Ok(verdict(&findings))
        });
        tell(&name, looked);
    }
    match bad {
        0 => Ok(()),
        n => Err(anyhow!("{n} of these must be mended first")).code(Code::CannotServe),
    }
}

/// Prints whether the caches of registered memory of a lower half's library stay on (RDMA).
fn registration_caches(lower: &Lower) {
    const TOLD: &str = "Open MPI";
    if !lower.record.library.starts_with(TOLD) {
        note(
            "registration caches",
            &format!(
                "those over the lower half {} are off, because its library cannot be told what memory a program \
                 gives back: large messages over RDMA are slower. Caches that the kernel tells \
                 (FI_MR_CACHE_MONITOR=kdreg2) and those over Open MPI stay on",
                lower.name
            ),
        );
    }
}

/// The level of this processor, in words.
fn describe_level(level: &str) -> String {
    format!(
        "has all of {level}: checkpoints can be restarted on processors with its features, or, by --for-cpu {level} or a \
         lower level, on every one of that level"
    )
}

/// The library that a lower half serves, if it is installed here.
fn library_here(lower: &Lower) -> Option<String> {
    if lower.is_standard() {
        let library = standard_library::here()?;
        return Some(format!(
            "{}, for the launchers beside it",
            library.display()
        ));
    }
    // Linked with its library, it starts only where that is.
    let about = Command::new(&lower.path).arg("about").output().ok()?;
    about.status.success().then(|| {
        format!(
            "{}, for the launchers in {}",
            text::library(&lower.record.library),
            lower.record.launchers.display()
        )
    })
}

/// Prints missing features that cost time or convenience, but prevent nothing.
fn print_drawbacks() {
    if !kernel::writes_thread_pointer() {
        note(
            "FSGSBASE",
            "the kernel does not let programs write the thread pointer, so every call of MPI costs two \
             system calls more: use Linux 5.9 or later, without nofsgsbase",
        );
    }
    if let Err(why) = kernel::check_changes() {
        note(
            "increments",
            &format!(
                "with --full-every each checkpoint compares digests of all memory, which takes processor time: {why:#}"
            ),
        );
    }
    if let Some(scope) = kernel::forbids_reading_children() {
        note(
            "Yama",
            &format!(
                "kernel.yama.ptrace_scope is {scope}, so a process may not read the memory of its child: the job stands \
                 still while its checkpoints are written. With 1 it runs on"
            ),
        );
    }
    if kernel::promises_strictly() {
        note(
            "memory",
            "the kernel promises no more than there is (vm.overcommit_memory is 2), so ranks that use more \
             than half of it stand still while their checkpoints are written",
        );
    }
    if launcher::is_apart_from_launcher() {
        note(
            "user namespaces",
            "each rank has one of its own, as by `mpirun apptainer exec IMAGE`, so ranks of one machine cannot read \
             each other's memory, and large messages are copied twice. With mpirun in the container they can",
        );
    }
    if may_renumber(Path::new(".")) {
        note(
            "files in this directory",
            "may get other inode numbers (their file system is not known to keep them), so a restart recognises them by \
             name and content. Those that the job has renamed since the checkpoint are found only if the checkpoint \
             directory is on the same file system",
        );
    }
    if let Some(limit) = kernel::address_limit() {
        let limit = text::bytes(limit);
        note(
            "ulimit -v",
            &format!("a rank may have {limit} of addresses, for program and MPI library together"),
        );
    }
}

fn note(what: &str, text: &str) {
    say!("note  {what}: {text}");
}

/// Summary of a supported program.
fn verdict(findings: &Findings) -> String {
    let files = match findings.files {
        1 => "it imports".to_owned(),
        2 => "it and 1 library import".to_owned(),
        n => format!("it and {} libraries import", n - 1),
    };
    match findings.front {
        None => "can be served; it is linked with no MPI library".into(),
        Some(front) => format!(
            "can be served: asks for {} and gets the front for {}, which has all {} symbols of MPI \
             that {files}",
            findings.sonames.iter().cloned().collect::<Vec<_>>().join(", "),
            front.key(),
            findings.imports.len(),
        ),
    }
}

/// Prints the refused functions that a supported program imports and, with `--symbols`, all its imports.
fn print_notes(findings: &Findings, symbols: bool) {
    for (name, file) in &findings.refused {
        say!(
            "note  {name}, which {} imports, is refused when it is called",
            file.display()
        );
    }
    if symbols {
        let there = findings.imports.iter().map(|import| ("has", import));
        let missing = findings.missing.iter().map(|import| ("LACKS", import));
        for (word, (name, file)) in there.chain(missing) {
            say!("{word:5} {name} ({})", file.display());
        }
    }
}
