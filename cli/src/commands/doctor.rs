//! `stasis doctor`: checks the machine, the checkpoint directory and a program, without running the program.

use std::path::Path;
use std::process::Command;

use anyhow::{anyhow, Result};
use launcher::message;
use serde_json::{json, Value};

use crate::args::Doctor;
use crate::check::gpu;
use crate::check::kernel::{self, Trap};
use crate::check::program;
use crate::check::storage_check::{may_renumber, Storage};
use crate::install::layout::Layout;
use crate::install::lower_registry::{Lower, GET_ONE};
use crate::install::standard_library;
use crate::start::for_cpu;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{json, text};
use linked::mpi::Abi;
use linked::search::Libraries;

/// How well something serves.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    /// As it should.
    Ok,
    /// It works, but costs something.
    Note,
    /// It must be mended first.
    Bad,
}

/// The findings, in the order of their lines.
struct Findings {
    /// Print JSON at the end, instead of a line for each at once.
    as_json: bool,
    rows: Vec<Value>,
    /// Imported symbols of MPI, with `--symbols`.
    symbols: Vec<Value>,
    bad: usize,
}

impl Findings {
    fn add(&mut self, verdict: Verdict, what: &str, text: &str) {
        let (line, key) = match verdict {
            Verdict::Ok => ("ok   ".to_owned(), "ok"),
            Verdict::Note => ("note ".to_owned(), "note"),
            Verdict::Bad => (format!("{}  ", text::bad("BAD")), "bad"),
        };
        self.bad += usize::from(verdict == Verdict::Bad);
        match self.as_json {
            true => self
                .rows
                .push(json!({ "what": what, "verdict": key, "text": text })),
            false => say!("{line} {what}: {text}"),
        }
    }

    /// Adds what was found, or what must be mended.
    fn tell(&mut self, what: &str, found: Result<String>) {
        match found {
            Ok(good) => self.add(Verdict::Ok, what, &good),
            Err(why) => self.add(Verdict::Bad, what, &message::reasons(why.as_ref())),
        }
    }

    fn note(&mut self, what: &str, text: &str) {
        self.add(Verdict::Note, what, text);
    }

    fn symbol(&mut self, name: &str, file: &Path, served: bool) {
        if self.as_json {
            self.symbols
                .push(json!({ "name": name, "file": file, "served": served }));
            return;
        }
        let word = if served { "has" } else { "LACKS" };
        say!("{word:5} {name} ({})", file.display());
    }

    /// Prints the object, and fails if something must be mended.
    fn end(self) -> exit::Result<()> {
        if self.as_json {
            json::print(json!({
                "works": self.bad == 0,
                "findings": self.rows,
                "symbols": self.symbols,
            }));
        }
        match self.bad {
            0 => Ok(()),
            n => Err(anyhow!("{n} of these must be mended first")).code(Code::CannotServe),
        }
    }
}

/// Runs the command.
pub fn run(options: &Doctor) -> exit::Result<()> {
    let layout = Layout::find().code(Code::CannotServe)?;
    let mut found = Findings {
        as_json: options.json,
        rows: Vec::new(),
        symbols: Vec::new(),
        bad: 0,
    };
    check_kernel(&mut found);
    check_drawbacks(&mut found);
    check_directory(&mut found, &options.directory());
    check_installation(&mut found, &layout);
    if let Some(app) = &options.app {
        check_program(&mut found, app, options.symbols, &layout);
    }
    found.end()
}

/// The system calls, the processor and the GPUs.
fn check_kernel(found: &mut Findings) {
    let trap = kernel::check_trap();
    let filtered = matches!(trap, Ok(Trap::Filter));
    let describe = |trap| match trap {
        Trap::Dispatch => format!("Syscall User Dispatch, Linux {}", kernel::release()),
        Trap::Filter => format!("a seccomp filter, Linux {}", kernel::release()),
    };
    found.tell("traps of system calls", trap.map(describe));
    if filtered {
        let why = match kernel::dispatch_is_off() {
            true => "is off (the sysctl kernel.syscall_user_dispatch is 0; root sets it to 1)",
            false => "is missing (Linux 5.11 has it)",
        };
        found.note(
            "Syscall User Dispatch",
            &format!(
                "{why}, so a seccomp filter takes its place. Every system call of a rank takes a little longer, and \
                 its children keep the filter: setuid programs get no privileges, and if the rank's program is not \
                 position-independent (gcc -no-pie), statically linked children die of SIGSYS"
            ),
        );
    }
    let membarrier = kernel::check_membarrier().map(|()| "offered".into());
    found.tell("membarrier", membarrier);
    found.tell("/proc", kernel::check_proc().map(|()| "shown whole".into()));
    if let Some(gpus) = gpu::check() {
        found.tell("GPUs", gpus);
    }
    found.tell("processor", for_cpu::level_here().map(describe_level));
}

/// The file system of the checkpoint directory.
fn check_directory(found: &mut Findings, directory: &Path) {
    const DIRECTORY: &str = "the checkpoint directory";
    let place = Storage::examine(directory);
    if place.as_ref().is_ok_and(Storage::is_volatile) {
        found.note(DIRECTORY, "is lost with this machine or container");
    }
    if place.as_ref().is_ok_and(|place| !place.has_links()) {
        found.note(
            DIRECTORY,
            "its file system has no hard links, so a file that the job removes or replaces is copied first where \
             otherwise a second name would keep it",
        );
    }
    if place.as_ref().is_ok_and(|place| !place.has_locks()) {
        found.note(
            DIRECTORY,
            "its file system has no flock(2), so the remains of a checkpoint whose job died on another machine \
             are removed an hour later",
        );
    }
    if place.as_ref().is_ok_and(|place| !place.has_file_locks()) {
        found.note(
            DIRECTORY,
            "its file system has no locks of files (fcntl(2)), so if two ranks create, rename or remove one name at the \
             same moment, a restart may leave a wrong file there",
        );
    }
    let what = format!("checkpoints in {}", directory.display());
    found.tell(&what, place.map(|place| place.describe()));
}

/// The fronts and the lower halves.
fn check_installation(found: &mut Findings, layout: &Layout) {
    for abi in Abi::ALL {
        let front = layout.front(abi);
        let there = match front.exists() {
            true => Ok("is there".into()),
            false => Err(anyhow!(
                "{} does not exist: install Stasis again (`cargo xtask setup` in its sources)",
                front.display()
            )),
        };
        found.tell(&format!("front for {}", abi.key()), there);
    }
    let lowers = layout.lowers();
    let mut usable = 0;
    for lower in &lowers {
        let what = format!("lower half {}", lower.name);
        if let Err(why) = lower.check_version() {
            found.tell(&what, Err(why));
        } else if let Some(of) = library_here(lower) {
            usable += 1;
            found.tell(&what, Ok(of));
            check_registration_caches(found, lower);
        } else {
            let library = text::library(&lower.record.library);
            found.note(&what, &format!("serves {library}, and there is none here"));
        }
    }
    if lowers.is_empty() {
        let none = anyhow!("there is none; `stasis build-lower --mpicc PATH` builds one");
        found.tell("lower halves", Err(none));
    } else if usable == 0 {
        let none = anyhow!(
            "there is none that a lower half serves: {GET_ONE} gets one, without root and without a compiler (in a \
             virtual environment where pip asks for one); if one is installed, put its mpiexec into PATH"
        );
        found.tell("MPI libraries", Err(none));
    }
}

/// Whether the caches of registered memory of a lower half's library stay on (RDMA).
fn check_registration_caches(found: &mut Findings, lower: &Lower) {
    const TOLD: &str = "Open MPI";
    let standard = lower.is_standard().then(standard_library::here).flatten();
    let library = standard.as_deref().unwrap_or(&lower.path);
    let is_ucx = |name: &str| name.starts_with("libucp.so");
    let told = lower.record.library.starts_with(TOLD);
    if !told && !linked::needs(library, &Libraries::here(), is_ucx) {
        found.note(
            "registration caches",
            &format!(
                "those over the lower half {} are off, because its library cannot be told what memory a program \
                 gives back: large messages over RDMA are slower. Caches that the kernel tells \
                 (FI_MR_CACHE_MONITOR=kdreg2) and those of Open MPI and UCX stay on",
                lower.name
            ),
        );
    }
}

/// The program and its libraries, with all their imports if `symbols`.
fn check_program(found: &mut Findings, app: &Path, symbols: bool, layout: &Layout) {
    let looked = program::examine(app.as_os_str(), layout).and_then(|(path, findings)| {
        for (name, file) in &findings.refused {
            let text = format!(
                "is refused when it is called ({} imports it)",
                file.display()
            );
            found.note(name, &text);
        }
        if symbols {
            for (imports, served) in [(&findings.imports, true), (&findings.missing, false)] {
                for (name, file) in imports {
                    found.symbol(name, file, served);
                }
            }
        }
        findings.accept(&path)?;
        Ok(summary(&findings))
    });
    found.tell(&app.to_string_lossy(), looked);
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

/// Missing features that cost time or convenience, but prevent nothing.
fn check_drawbacks(found: &mut Findings) {
    if !kernel::writes_thread_pointer() {
        found.note(
            "FSGSBASE",
            "the kernel does not let programs write the thread pointer, so every call of MPI costs two \
             system calls more: use Linux 5.9 or later, without nofsgsbase",
        );
    }
    if let Some(why) = kernel::needs_digests() {
        found.note(
            "increments",
            &format!(
                "with --full-every each checkpoint compares digests of all memory, which takes processor time: {why}"
            ),
        );
    }
    if let Some(scope) = kernel::forbids_reading_children() {
        found.note(
            "Yama",
            &format!(
                "kernel.yama.ptrace_scope is {scope}, so a process may not read the memory of its child: the job stands \
                 still while its checkpoints are written. With 1 it runs on"
            ),
        );
    }
    if kernel::promises_strictly() {
        found.note(
            "memory",
            "the kernel promises no more than there is (vm.overcommit_memory is 2), so ranks that use more \
             than half of it stand still while their checkpoints are written",
        );
    }
    if launcher::is_apart_from_launcher() {
        found.note(
            "user namespaces",
            "each rank has one of its own, as by `mpirun apptainer exec IMAGE`, so ranks of one machine cannot read \
             each other's memory, and large messages are copied twice. With mpirun in the container they can",
        );
    }
    if may_renumber(Path::new(".")) {
        found.note(
            "files in this directory",
            "may get other inode numbers (their file system is not known to keep them), so a restart recognises them by \
             name and content. Those that the job has renamed since the checkpoint are found only if the checkpoint \
             directory is on the same file system",
        );
    }
    if let Some(limit) = kernel::address_limit() {
        let limit = text::bytes(limit);
        found.note(
            "ulimit -v",
            &format!("a rank may have {limit} of addresses, for program and MPI library together"),
        );
    }
}

/// Summary of a supported program.
fn summary(findings: &program::Findings) -> String {
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
