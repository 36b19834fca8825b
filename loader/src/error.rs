//! What can go wrong, as types that say what happened, where, and what to do next.

use std::path::PathBuf;

/// Why a program could not be loaded as the upper half.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No such program in PATH.
    #[error("cannot find the program `{program}` in PATH; give its path or extend PATH")]
    NotFound {
        /// As it was asked for.
        program: String,
    },
    /// The file cannot be opened or read.
    #[error("cannot read the program {path}: {source}; check the path and its permissions")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file exists but may not be executed.
    #[error("{path} is not executable; `chmod +x` it if it is meant to be a program")]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// Neither an ELF program nor a `#!` script.
    #[error("{path} is neither an ELF program nor a `#!` script; give the program itself")]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// The ELF file is damaged or makes no sense.
    #[error("{path} is a damaged ELF file ({what}); rebuild or reinstall it")]
    BadElf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A 32-bit program.
    #[error(
        "{path} is a 32-bit program; Stasis serves 64-bit x86 programs only: use a 64-bit build"
    )]
    Bits32 {
        /// The file.
        path: PathBuf,
    },
    /// A program for another processor.
    #[error("{path} is built for another machine (ELF machine {machine}); use an x86-64 build")]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// `e_machine`.
        machine: u16,
    },
    /// A static program: its MPI library cannot be replaced.
    #[error(
        "{path} is statically linked: the MPI library inside it cannot be replaced by Stasis; \
         link it dynamically"
    )]
    Static {
        /// The file.
        path: PathBuf,
    },
    /// `#!` scripts that name each other.
    #[error("{path}: too many levels of `#!` interpreters; check its first line")]
    ScriptLoop {
        /// The script.
        path: PathBuf,
    },
    /// This process has more privileges than its caller.
    #[error(
        "Stasis runs no program with more privileges than its caller has, and its file gives it some \
         (setuid, setgid or capabilities): take them away (`chmod ug-s FILE`, `setcap -r FILE`)"
    )]
    Privileged,
    /// An argument or environment string with a NUL byte.
    #[error("an argument or environment string contains a NUL byte; remove it")]
    Nul,
    /// The kernel lacks Syscall User Dispatch.
    #[error(
        "this kernel has no Syscall User Dispatch ({source}); Stasis needs Linux 5.11 or later \
         with the sysctl kernel.syscall_user_dispatch (where there is one) set to 1"
    )]
    NoSyscallUserDispatch {
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Something of the lower half lies where the upper half must.
    #[error(
        "the kernel placed {what} at {address:#x}, below 16 TiB, where the application has to \
         be; try again with `ulimit -s 8192`"
    )]
    LowerHalfTooLow {
        /// The mapping's name.
        what: String,
        /// Its address.
        address: usize,
    },
    /// A mapping failed.
    #[error(
        "cannot map {what} at {address:#x}: {source}; check `ulimit -v`, vm.overcommit_memory \
         and vm.mmap_min_addr"
    )]
    Map {
        /// What for.
        what: String,
        /// Where.
        address: usize,
        /// Why not.
        source: std::io::Error,
    },
    /// Any other system call failed.
    #[error("{what} failed: {source}; this is needed to start the program")]
    System {
        /// Which operation.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

/// Why the threads of the upper half could not all be stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// Somebody else has stopped them already.
    #[error("the application's threads are already stopped; wait for that checkpoint to end")]
    Busy,
    /// The initial thread has ended, and with it the one on which MPI is called.
    #[error("the application's initial thread has ended; only running programs can be stopped")]
    NoMainThread,
    /// A thread did not stop in time.
    #[error(
        "thread {tid} ({name}) did not stop within {waited_ms} ms: it is {doing}; no checkpoint \
         was taken, the job runs on and another try may succeed"
    )]
    Timeout {
        /// Thread id as the application knows it.
        tid: u32,
        /// The thread's name.
        name: String,
        /// What it is doing.
        doing: String,
        /// How long was waited.
        waited_ms: u64,
    },
}

/// Why the process's state cannot be saved.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// An open file that cannot be made again.
    #[error(
        "file descriptor {fd} is {what}, which cannot be saved; checkpoint when it is closed, \
         or run the program without it"
    )]
    Descriptor {
        /// Its number.
        fd: i32,
        /// What it refers to.
        what: String,
    },
    /// A call whose effect cannot be made again.
    #[error(
        "the program has called {call}, whose effect on the process cannot be saved; the job runs \
         on. Run the program without it where that can be asked for"
    )]
    Unsaved {
        /// Its name.
        call: &'static str,
    },
    /// A POSIX timer that names a process or a thread through its clock.
    #[error(
        "POSIX timer {id} runs on the processor time of one process or thread (clock {clock}), \
         which cannot be saved; checkpoint when it is deleted"
    )]
    CpuTimer {
        /// The timer.
        id: u32,
        /// Its clock.
        clock: i32,
    },
    /// Reading the process's own state failed.
    #[error("cannot read {what}: {source}; no checkpoint was taken")]
    System {
        /// What was to be read.
        what: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// Why a saved process state cannot be brought back.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Saved by another version.
    #[error(
        "the image was saved with contract version {saved}, this Stasis has {ours}; restart it \
         with the Stasis that saved it"
    )]
    Version {
        /// In the image.
        saved: u32,
        /// Here.
        ours: u32,
    },
    /// The memory that the caller should have mapped is not there.
    #[error("{what} is not mapped at {address:#x}: the image's memory must be mapped first")]
    NotMapped {
        /// What.
        what: &'static str,
        /// Where.
        address: usize,
    },
    /// A file cannot be opened again.
    #[error(
        "cannot reopen {path} as file descriptor {fd}: {source}; bring the file back to where \
         it was at the checkpoint"
    )]
    File {
        /// Descriptor number.
        fd: i32,
        /// Path.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is not what it was at the checkpoint.
    #[error(
        "{path} (file descriptor {fd}) {how}; bring the file back as it was, or go on with it as \
         it is: `stasis restart --changed-files warn`"
    )]
    FileChanged {
        /// Descriptor number.
        fd: i32,
        /// Path.
        path: PathBuf,
        /// What is different.
        how: String,
    },
    /// A resource limit that the application had set cannot be set here.
    #[error(
        "the program had set resource limit {number} to {soft} (hard limit {hard}), which is not \
         allowed here: {source}; raise the limit (`ulimit`) before the restart"
    )]
    Limit {
        /// Its number, as in `setrlimit`.
        number: u32,
        /// Soft limit.
        soft: u64,
        /// Hard limit.
        hard: u64,
        /// Why not.
        source: std::io::Error,
    },
    /// A lock that was held cannot be taken.
    #[error(
        "the lock on {path} (file descriptor {fd}) cannot be taken again: {source}; end the \
         process that holds it"
    )]
    Locked {
        /// Descriptor number.
        fd: i32,
        /// Path.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The table of open files contradicts itself.
    #[error("the image's list of open files makes no sense; restart from another checkpoint")]
    Table,
    /// A descriptor number is taken by what the launcher left there.
    #[error("file descriptor {fd} is in use and could not be moved; raise `ulimit -n`")]
    DescriptorTaken {
        /// Its number.
        fd: i32,
    },
    /// A system call failed.
    #[error("{what} failed: {source}; the process cannot be restored")]
    System {
        /// Which operation.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// Preparing the fresh process failed.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl RestoreError {
    /// What a system call's failure becomes, where it was for `what`.
    pub(crate) fn system(what: &str) -> impl Fn(std::io::Error) -> RestoreError + '_ {
        move |source| RestoreError::System {
            what: what.to_owned(),
            source,
        }
    }
}
