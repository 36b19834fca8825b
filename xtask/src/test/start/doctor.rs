//! The lines of `stasis doctor`: each with its good form on this machine, and with the form that it has where the
//! machine, the checkpoint directory, the installation or the program lacks something. What is lacking is hidden by a
//! seccomp filter, by other files over those of /proc, by failing calls, or by an installation of links.

use crate::build::pypi;
use crate::harness::job::{self, Finished};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::start::lower_halves::library;
use crate::test::support::compile::patchelf;
use crate::test::support::held_job::start_held;
use crate::test::support::helper_programs::{compile, on_older_kernel};
use crate::test::support::network_files::{on_file_system, Mounted};
use crate::test::support::refusal::{refused, CANNOT_SERVE};
use crate::test::{copy_program, Case, Outcome};
use anyhow::{ensure, Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const FRONTS: [&str; 3] = ["front-openmpi.so", "front-mpich.so", "front-standard.so"];
/// Gives a command mounts of its own.
const MOUNTS: [&str; 2] = ["unshare", "--mount"];
/// Gives it a user namespace of its own.
const USERS: [&str; 3] = ["unshare", "--user", "--map-root-user"];

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("good", good),
        case("trap", trap),
        case("membarrier", membarrier),
        case("increments", increments),
        case("thread-pointer", thread_pointer),
        case("address-limit", address_limit),
        case("volatile-directory", volatile_directory),
        case("nothing-durable", nothing_durable),
        case("no-rename", no_rename),
        case("no-flock", no_flock),
        case("room", room),
        case("without-mpi", without_mpi),
        case("no-front", no_front),
        case("old-lower-half", old_lower_half),
        case("foreign-lower-half", foreign_lower_half),
        case("no-lower-half", no_lower_half),
        case("registration-caches", registration_caches),
        case("program-without-mpi", program_without_mpi),
        Case::new("doctor/sysctls", |_, dir| {
            where_unshared(&MOUNTS, sysctls, dir)
        })
        .for_root("only root mounts files over those of /proc"),
        Case::new("doctor/user-namespaces", |_, dir| {
            where_unshared(&USERS, user_namespaces, dir)
        }),
        Case::new("doctor/no-links", |_, dir| on_file_system(|| no_links(dir))),
        Case::new("doctor/no-file-locks", |_, dir| {
            on_file_system(|| no_file_locks(dir))
        }),
    ];
    for (mpi, function) in [
        (Mpi::OpenMpi, "MPIX_Barrier_init"),
        (Mpi::Mpich, "MPIX_Comm_failure_ack"),
    ] {
        cases.push(case(&format!("lacking-symbol:{mpi}"), move |dir| {
            lacking_symbol(dir, mpi, function)
        }));
    }
    cases
}

fn case(name: &str, body: impl FnOnce(&Path) -> Result<()> + Send + 'static) -> Case {
    Case::new(format!("doctor/{name}"), move |_, dir| body(dir).into())
}

/// Skips a case where the kernel does not give a command what it needs.
fn where_unshared(with: &[&str], body: fn(&Path) -> Result<()>, dir: &Path) -> Outcome {
    let tried = Command::new(with[0]).args(&with[1..]).arg("true").status();
    match tried.is_ok_and(|status| status.success()) {
        true => body(dir).into(),
        false => Outcome::Skipped(format!("`{}` is refused here", with.join(" "))),
    }
}

/// `stasis doctor --ckpt-dir CKPT`.
fn doctor(ckpt: &Path) -> Command {
    let mut doctor = stasis::command(["doctor", "--ckpt-dir"]);
    doctor.arg(ckpt);
    doctor
}

/// A command line before another one.
fn by(words: &[&str], command: &Command) -> Command {
    let mut by = Command::new(words[0]);
    by.args(&words[1..]);
    stasis::before(by, command)
}

/// The output of a command that finds nothing to mend, run in this directory.
fn well(command: Command, dir: &Path) -> Result<String> {
    Ok(run(command, dir)?.expect_success("stasis doctor")?.stdout)
}

/// The output of a command that finds something to mend.
fn bad(command: Command, dir: &Path) -> Result<String> {
    let finished = run(command, dir)?;
    refused(&finished, CANNOT_SERVE, &[&["must be mended first"]])?;
    Ok(finished.stdout)
}

fn run(mut command: Command, dir: &Path) -> Result<Finished> {
    command.current_dir(dir);
    job::run(command, dir, "doctor", LIMIT)
}

/// Fails unless there is a line with this beginning and all of these words.
fn has_line(said: &str, beginning: &str, words: &[&str]) -> Result<()> {
    let right =
        |line: &str| line.starts_with(beginning) && words.iter().all(|word| line.contains(word));
    ensure!(
        said.lines().any(right),
        "no line begins with '{beginning}' and has {words:?}:\n{said}"
    );
    Ok(())
}

/// Fails if a line has this beginning.
fn has_none(said: &str, beginning: &str) -> Result<()> {
    ensure!(
        !said.lines().any(|line| line.starts_with(beginning)),
        "a line begins with '{beginning}':\n{said}"
    );
    Ok(())
}

/// A machine as it should be.
fn good(dir: &Path) -> Result<()> {
    let said = well(doctor(dir), dir)?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let trap = format!("Syscall User Dispatch, Linux {}", release.trim());
    has_line(&said, "ok    traps of system calls: ", &[&trap])?;
    has_line(&said, "ok    membarrier: offered", &[])?;
    has_line(&said, "ok    /proc: shown whole", &[])?;
    has_line(
        &said,
        "ok    processor: has all of x86-64",
        &["--for-cpu x86-64"],
    )?;
    let place = format!("ok    checkpoints in {}: ", dir.display());
    has_line(&said, &place, &[" free; 1 MiB is durable after "])?;
    has_none(&said, "BAD")?;
    has_none(&said, "note  user namespaces")?;
    for front in ["openmpi", "mpich", "standard"] {
        has_line(&said, &format!("ok    front for {front}: is there"), &[])?;
    }
    let launchers = &["for the launchers in /"];
    has_line(&said, "ok    lower half openmpi: Open MPI v", launchers)?;
    has_line(&said, "ok    lower half mpich: MPICH Version: ", launchers)
}

/// A kernel that cannot trap system calls by dispatch, or not at all.
fn trap(dir: &Path) -> Result<()> {
    let without_dispatch = on_older_kernel("sud", &doctor(dir), dir)?;
    let said = well(without_dispatch, dir)?;
    let filter = "ok    traps of system calls: a seccomp filter, Linux ";
    has_line(&said, filter, &[])?;
    let missing = "note  Syscall User Dispatch: is missing (Linux 5.11 has it)";
    has_line(&said, missing, &["setuid programs get no privileges"])?;

    let without_filters = on_older_kernel("seccomp", &doctor(dir), dir)?;
    let said = bad(on_older_kernel("sud", &without_filters, dir)?, dir)?;
    has_line(
        &said,
        "BAD   traps of system calls: ",
        &["neither Syscall User Dispatch", "use Linux 5.11 or later"],
    )
}

fn membarrier(dir: &Path) -> Result<()> {
    let said = bad(on_older_kernel("membarrier", &doctor(dir), dir)?, dir)?;
    has_line(&said, "BAD   membarrier: ", &["use Linux 4.14 or later"])
}

/// A kernel that does not tell which pages were written, or a container that forbids to ask.
fn increments(dir: &Path) -> Result<()> {
    for (lacks, why) in [
        ("scan", "does not tell which pages were written"),
        ("watch", "unless a container's seccomp policy forbids it"),
    ] {
        let said = well(on_older_kernel(lacks, &doctor(dir), dir)?, dir)?;
        has_line(&said, "note  increments: ", &["digests", why])?;
    }
    Ok(())
}

/// A kernel that does not let programs write the thread pointer. What the kernel here lets them do is in this program's
/// auxiliary vector (AT_HWCAP2).
fn thread_pointer(dir: &Path) -> Result<()> {
    const AT_HWCAP2: u64 = 26;
    const FSGSBASE: u8 = 2;
    let note = "note  FSGSBASE: ";
    let said = well(on_older_kernel("fsgsbase", &doctor(dir), dir)?, dir)?;
    let cost = "every call of MPI costs two system calls more";
    has_line(&said, note, &[cost, "use Linux 5.9 or later"])?;
    let here = fs::read("/proc/self/auxv")?;
    let mut entries = here.chunks_exact(16);
    let hwcap2 = entries.find(|entry| entry[..8] == AT_HWCAP2.to_ne_bytes());
    if hwcap2.is_some_and(|entry| entry[8] & FSGSBASE != 0) {
        has_none(&well(doctor(dir), dir)?, note)?;
    }
    Ok(())
}

/// Settings of the administrator. The kernel's release is that of a distribution which has added what newer kernels
/// have: the kernel's answers count.
fn sysctls(dir: &Path) -> Result<()> {
    let [kernel, memory] = ["kernel", "vm"].map(|name| dir.join(name));
    for folder in [kernel.join("yama"), kernel.join("random"), memory.clone()] {
        fs::create_dir_all(folder)?;
    }
    let boot = fs::read("/proc/sys/kernel/random/boot_id")?;
    fs::write(kernel.join("random/boot_id"), boot)?;
    fs::write(kernel.join("osrelease"), "5.14.0-503.el9.x86_64\n")?;
    let set = |file: &Path, value: &str| fs::write(file, format!("{value}\n"));
    let (dispatch, scope, promises) = (
        kernel.join("syscall_user_dispatch"),
        kernel.join("yama/ptrace_scope"),
        memory.join("overcommit_memory"),
    );
    let show =
        "mount --bind kernel /proc/sys/kernel && mount --bind vm /proc/sys/vm && exec \"$@\"";
    let shown = |command: &Command| {
        let [unshare, mount] = MOUNTS;
        by(&[unshare, mount, "sh", "-c", show, "sh"], command)
    };
    for (file, value) in [(&dispatch, "1"), (&scope, "1"), (&promises, "0")] {
        set(file, value)?;
    }
    let native = well(doctor(dir), dir)?;
    let said = well(shown(&doctor(dir)), dir)?;
    has_line(
        &said,
        "ok    traps of system calls: Syscall User Dispatch, Linux 5.14.0-503.el9.x86_64",
        &[],
    )?;
    for line in ["note  Yama", "note  memory", "note  Syscall User Dispatch"] {
        has_none(&said, line)?;
    }
    let increments = "note  increments";
    ensure!(
        said.contains(increments) == native.contains(increments),
        "the release decides on increments:\n{said}"
    );

    for (file, value) in [(&dispatch, "0"), (&scope, "3"), (&promises, "2")] {
        set(file, value)?;
    }
    let without_dispatch = on_older_kernel("sud", &doctor(dir), dir)?;
    let said = well(shown(&without_dispatch), dir)?;
    has_line(
        &said,
        "note  Syscall User Dispatch: is off (the sysctl kernel.syscall_user_dispatch is 0",
        &[],
    )?;
    let stands = "stands still while its checkpoints are written";
    has_line(
        &said,
        "note  Yama: kernel.yama.ptrace_scope is 3",
        &[stands],
    )?;
    let memory = "note  memory: the kernel promises no more than there is";
    has_line(&said, memory, &["vm.overcommit_memory is 2"])?;

    // With this value, processes with a capability may.
    set(&scope, "2")?;
    has_none(&well(shown(&doctor(dir)), dir)?, "note  Yama")?;
    let without = by(
        &["setpriv", "--bounding-set=-sys_ptrace", "--"],
        &doctor(dir),
    );
    has_line(
        &well(shown(&without), dir)?,
        "note  Yama: kernel.yama.ptrace_scope is 2",
        &[],
    )
}

/// A rank with a namespace of its own, and a command that is no rank.
fn user_namespaces(dir: &Path) -> Result<()> {
    let line = "note  user namespaces: each rank has one of its own";
    let mut apart = by(&USERS, &doctor(dir));
    apart.env("PMI_RANK", "0");
    has_line(&well(apart, dir)?, line, &["copied twice"])?;
    has_none(&well(by(&USERS, &doctor(dir)), dir)?, line)
}

fn address_limit(dir: &Path) -> Result<()> {
    let limited = ["sh", "-c", "ulimit -v 8388608; exec \"$@\"", "sh"];
    has_line(
        &well(by(&limited, &doctor(dir)), dir)?,
        "note  ulimit -v: a rank may have 8.0 GiB of addresses",
        &[],
    )
}

/// A directory in memory, which is not made.
fn volatile_directory(dir: &Path) -> Result<()> {
    let place = Path::new("/dev/shm/stasis-doctor-test");
    let said = well(doctor(place), dir)?;
    let lost = "note  the checkpoint directory: is lost with this machine or container";
    has_line(&said, lost, &[])?;
    let line = format!("ok    checkpoints in {}: tmpfs, ", place.display());
    has_line(&said, &line, &[])?;
    ensure!(!place.exists(), "{} was made", place.display());
    Ok(())
}

/// A file system that makes no file, and one whose files do not become durable.
fn nothing_durable(dir: &Path) -> Result<()> {
    let said = bad(doctor(Path::new("/proc/nothing")), dir)?;
    let line = "BAD   checkpoints in /proc/nothing: nothing durable can be written to /proc: ";
    has_line(&said, line, &["give another --ckpt-dir"])?;
    let said = bad(failing("fsync", "EIO", dir), dir)?;
    let line = format!(
        "BAD   checkpoints in {0}: nothing durable can be written to {0}: ",
        dir.display()
    );
    has_line(&said, &line, &["Input/output error"])?;
    let mut left = fs::read_dir(dir)?.flatten();
    let left = left.find(|entry| entry.file_name().to_string_lossy().starts_with(".stasis"));
    ensure!(left.is_none(), "a test file was left: {left:?}");
    Ok(())
}

fn no_rename(dir: &Path) -> Result<()> {
    let said = bad(failing("rename,renameat,renameat2", "EXDEV", dir), dir)?;
    let line = format!("BAD   checkpoints in {}: a file in ", dir.display());
    has_line(&said, &line, &["cannot be renamed", "another file system"])
}

fn no_flock(dir: &Path) -> Result<()> {
    let said = well(failing("flock", "ENOSYS", dir), dir)?;
    let line = "note  the checkpoint directory: its file system has no flock(2)";
    has_line(&said, line, &["are removed an hour later"])
}

/// A check of this directory in which these system calls fail.
fn failing(calls: &str, error: &str, dir: &Path) -> Command {
    let trace = format!("trace={calls}");
    let inject = format!("inject={calls}:error={error}");
    let strace = [
        "strace",
        "-f",
        "-o",
        "/dev/null",
        "-e",
        &trace,
        "-e",
        &inject,
    ];
    by(&strace, &doctor(dir))
}

/// A file system whose files cannot be locked, while the kernel itself locks directories.
fn no_file_locks(dir: &Path) -> Result<()> {
    let [place, other] = ["place", "other"].map(|name| dir.join(name));
    let _mounted = Mounted::new(dir, &dir.join("kept"), &place, 0, &["no-locks"])?;
    let line = "note  the checkpoint directory: its file system has no locks of files (fcntl(2))";
    has_line(&well(doctor(&place), dir)?, line, &["two ranks"])?;
    has_none(&well(doctor(&other), dir)?, line)
}

/// A file system on which a file has one name, and which may change inode numbers.
fn no_links(dir: &Path) -> Result<()> {
    let place = dir.join("place");
    let _mounted = Mounted::new(dir, &dir.join("kept"), &place, 0, &["no-links"])?;
    let mut here = doctor(&place);
    here.current_dir(&place);
    let finished = job::run(here, dir, "doctor", LIMIT)?;
    let said = finished.expect_success("stasis doctor")?.stdout;
    let line = "note  the checkpoint directory: its file system has no hard links";
    has_line(&said, line, &["is copied first"])?;
    has_line(
        &said,
        "note  files in this directory: may get other inode numbers",
        &[],
    )?;
    has_line(
        &said,
        &format!("ok    checkpoints in {}: fuse", place.display()),
        &[],
    )
}

/// A directory with a checkpoint.
fn room(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start_held(dir, &ckpt, Mpi::Mpich)?;
    stasis::take_checkpoint(&ckpt, dir, "checkpoint", LIMIT)?;
    job.kill()?;
    let said = well(doctor(&ckpt), dir)?;
    let line = format!("ok    checkpoints in {}: ", ckpt.display());
    has_line(&said, &line, &[" more like the newest checkpoint ("])?;
    let number = said.split(", room for ").nth(1).unwrap_or_default();
    let number = number.split(' ').next().unwrap_or_default();
    let number: u64 = number.parse().context("the room is no number")?;
    ensure!(number > 0, "there is no room:\n{said}");
    Ok(())
}

/// An installation of its own, with links to some files of the product's.
struct Installation<'a> {
    dir: &'a Path,
    own: PathBuf,
    lib: PathBuf,
}

impl Installation<'_> {
    fn with<'a>(dir: &'a Path, files: &[&str]) -> Result<Installation<'a>> {
        let (bin, lib) = (dir.join("bin"), dir.join("lib/stasis"));
        fs::create_dir(&bin)?;
        fs::create_dir_all(&lib)?;
        let own = bin.join("stasis");
        copy_program(&paths::stasis(), &own)?;
        let installed = paths::product().join("lib/stasis");
        for file in files {
            symlink(installed.join(file), lib.join(file))?;
        }
        Ok(Installation { dir, own, lib })
    }

    /// `stasis doctor` of the installation, without lower halves of the user's own.
    fn doctor(&self) -> Command {
        let mut doctor = Command::new(&self.own);
        doctor.args(["doctor", "--ckpt-dir", "ck"]);
        doctor.env("HOME", self.dir).env_remove("XDG_DATA_HOME");
        doctor.env_remove("LD_LIBRARY_PATH");
        doctor
    }
}

/// The fronts and a lower half.
fn with_lower(name: &str) -> Vec<String> {
    let lower = [format!("lower-{name}"), format!("lower-{name}.json")];
    FRONTS.map(str::to_owned).into_iter().chain(lower).collect()
}

fn installed<'a>(dir: &'a Path, files: &[String]) -> Result<Installation<'a>> {
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    Installation::with(dir, &files)
}

/// A machine where no lower half finds a library: the command is named that gets one. When that has been carried out,
/// all is well.
fn without_mpi(dir: &Path) -> Result<()> {
    let own = installed(dir, &with_lower("standard"))?;
    let mut without = own.doctor();
    without.env("PATH", dir.join("empty"));
    let said = bad(without, dir)?;
    let none = "note  lower half standard: serves ";
    has_line(&said, none, &["and there is none here"])?;
    has_line(
        &said,
        "BAD   MPI libraries: ",
        &["python3 -m pip install mpich"],
    )?;
    let mut with = own.doctor();
    with.env("PATH", pypi::bin(Mpi::Standard).context("it has a folder")?);
    let found = format!(
        "ok    lower half standard: {}",
        library()?.canonicalize()?.display()
    );
    has_line(&well(with, dir)?, &found, &["for the launchers beside it"])
}

fn no_front(dir: &Path) -> Result<()> {
    let own = installed(dir, &with_lower("openmpi"))?;
    fs::remove_file(own.lib.join("front-mpich.so"))?;
    let said = bad(own.doctor(), dir)?;
    let missing = "front-mpich.so does not exist: install Stasis again";
    has_line(&said, "BAD   front for mpich: ", &[missing])?;
    has_line(&said, "ok    front for openmpi: is there", &[])
}

/// A lower half that another version of Stasis has built.
fn old_lower_half(dir: &Path) -> Result<()> {
    let own = installed(dir, &with_lower("openmpi"))?;
    change_record(
        &own.lib.join("lower-openmpi.json"),
        "spec_version",
        0.into(),
    )?;
    let said = bad(own.doctor(), dir)?;
    has_line(
        &said,
        "BAD   lower half openmpi: ",
        &[
            "another version of Stasis",
            "stasis build-lower --mpicc ",
            "--name openmpi",
        ],
    )?;
    // None is left.
    has_line(&said, "BAD   MPI libraries: there is none", &[])
}

/// A lower half whose library is not on this machine, beside one whose library is.
fn foreign_lower_half(dir: &Path) -> Result<()> {
    let own = installed(
        dir,
        &[with_lower("openmpi"), with_lower("mpich").split_off(3)].concat(),
    )?;
    change_record(
        &own.lib.join("lower-mpich.json"),
        "library",
        "Some MPI 7.1".into(),
    )?;
    let lower = own.lib.join("lower-mpich");
    fs::remove_file(&lower)?;
    symlink("/bin/false", &lower)?;
    let said = well(own.doctor(), dir)?;
    let line = "note  lower half mpich: serves Some MPI 7.1, and there is none here";
    has_line(&said, line, &[])?;
    has_line(&said, "ok    lower half openmpi: Open MPI v", &[])
}

/// The caches of registered memory are off where a library has no UCX: here it has one under another name.
fn registration_caches(dir: &Path) -> Result<()> {
    const LINE: &str = "note  registration caches: ";
    let own = installed(dir, &with_lower("mpich"))?;
    has_none(&well(own.doctor(), dir)?, LINE)?;
    let libraries = Path::new("/usr/lib/x86_64-linux-gnu");
    let (ucx, renamed) = ("libucp.so.0", "libother.so.0");
    let others = dir.join("libraries");
    fs::create_dir(&others)?;
    fs::copy(libraries.join(ucx), others.join(renamed))?;
    let library = others.join("libmpich.so.12");
    fs::copy(libraries.join("libmpich.so.12"), &library)?;
    patchelf(&library, &["--replace-needed", ucx, renamed])?;
    let mut doctor = own.doctor();
    doctor.env("LD_LIBRARY_PATH", others);
    let off = "those over the lower half mpich are off";
    has_line(&well(doctor, dir)?, LINE, &[off, "kdreg2"])
}

fn no_lower_half(dir: &Path) -> Result<()> {
    let own = Installation::with(dir, &FRONTS)?;
    let said = bad(own.doctor(), dir)?;
    let line = "BAD   lower halves: there is none; `stasis build-lower --mpicc PATH` builds one";
    has_line(&said, line, &[])
}

/// Replaces the link to the record of a lower half by a record with another value.
fn change_record(record: &Path, key: &str, value: serde_json::Value) -> Result<()> {
    let mut told: serde_json::Value = serde_json::from_slice(&fs::read(record)?)?;
    told[key] = value;
    fs::remove_file(record)?;
    Ok(fs::write(record, told.to_string())?)
}

fn program_without_mpi(dir: &Path) -> Result<()> {
    let mut doctor = doctor(dir);
    doctor.arg("/bin/true");
    let line = "ok    /bin/true: can be served; it is linked with no MPI library";
    has_line(&well(doctor, dir)?, line, &[])
}

/// A program that calls a function which no front has.
fn lacking_symbol(dir: &Path, mpi: Mpi, function: &str) -> Result<()> {
    let program = compile(dir, &mpi.compiler("c"), "unsupported.c", &[])?;
    let mut doctor = doctor(dir);
    doctor.arg("--symbols").arg(&program);
    let said = bad(doctor, dir)?;
    let file = format!("({})", program.display());
    has_line(&said, &format!("LACKS {function} "), &[&file])?;
    has_line(&said, "has   MPI_Init ", &[&file])?;
    let bad_program = format!("BAD   {}: ", program.display());
    has_line(&said, &bad_program, &["does not support", function])
}
