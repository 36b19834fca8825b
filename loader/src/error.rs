//! Errors, as types whose messages give what failed, where, and what to do next.

use std::path::PathBuf;

/// Reason why a program could not be loaded as the upper half.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No such program in PATH.
    #[error("cannot find the program `{program}` in PATH; give its path or extend PATH")]
    NotFound {
        /// Name as given by the user.
        program: String,
    },
    /// The file cannot be opened or read.
    #[error("cannot read the program {path}: {source}; check the path and its permissions")]
    Unreadable {
        /// Path of the program.
        path: PathBuf,
        /// Error of the open or read.
        source: std::io::Error,
    },
    /// The file exists but may not be executed.
    #[error("{path} is not executable; `chmod +x` it if it is meant to be a program")]
    NotExecutable {
        /// Path of the program.
        path: PathBuf,
    },
    /// Neither an ELF program nor a `#!` script.
    #[error("{path} is neither an ELF program nor a `#!` script; give the program itself")]
    NotElf {
        /// Path of the file.
        path: PathBuf,
    },
    /// The ELF file is damaged or inconsistent.
    #[error("{path} is a damaged ELF file ({what}); rebuild or reinstall it")]
    BadElf {
        /// Path of the program.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// A 32-bit program.
    #[error(
        "{path} is a 32-bit program; Stasis serves 64-bit x86 programs only: use a 64-bit build"
    )]
    Bits32 {
        /// Path of the program.
        path: PathBuf,
    },
    /// A program for another processor.
    #[error("{path} is built for another machine (ELF machine {machine}); use an x86-64 build")]
    WrongMachine {
        /// Path of the program.
        path: PathBuf,
        /// `e_machine`.
        machine: u16,
    },
    /// The image has no system calls for clocks.
    #[error(
        "the checkpoint was taken by an older Stasis, and the clocks of its program can be neither recorded nor \
         replayed: leave --time out, or move the files rank-N.clocks away"
    )]
    NoClocks,
    /// A static program: its MPI library cannot be replaced.
    #[error(
        "{path} is statically linked: the MPI library inside it cannot be replaced by Stasis; \
         link it dynamically"
    )]
    Static {
        /// Path of the program.
        path: PathBuf,
    },
    /// `#!` scripts that name each other.
    #[error("{path}: too many levels of `#!` interpreters; check its first line")]
    ScriptLoop {
        /// Path of the script.
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
    /// The kernel lacks Syscall User Dispatch and seccomp filters.
    #[error(
        "this kernel has no Syscall User Dispatch ({dispatch}) and takes no seccomp filter ({filter}); Stasis needs \
         one of them: Linux 5.11 or later with the sysctl kernel.syscall_user_dispatch (if it exists) set to 1, or an \
         older one with CONFIG_SECCOMP_FILTER"
    )]
    NoTrap {
        /// Error of Syscall User Dispatch.
        dispatch: std::io::Error,
        /// Error of the filter.
        filter: std::io::Error,
    },
    /// A mapping of the lower half lies in the upper half's address range.
    #[error(
        "the kernel placed {what} at {address:#x}, below 16 TiB, in the range of the application; \
         try again with `ulimit -s 8192`"
    )]
    LowerHalfTooLow {
        /// Name of the mapping.
        what: String,
        /// Address of the mapping.
        address: usize,
    },
    /// A mapping failed.
    #[error(
        "cannot map {what} at {address:#x}: {source}; check `ulimit -v`, vm.overcommit_memory \
         and vm.mmap_min_addr"
    )]
    Map {
        /// Purpose of the mapping.
        what: String,
        /// Requested address.
        address: usize,
        /// Error of mmap.
        source: std::io::Error,
    },
    /// Any other system call failed.
    #[error("{what} failed: {source}; this is needed to start the program")]
    System {
        /// Operation that failed.
        what: &'static str,
        /// Error of the operation.
        source: std::io::Error,
    },
}

/// Reason why the threads of the upper half could not all be stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// Another stop is in effect.
    #[error("the application's threads are already stopped; wait for that checkpoint to end")]
    Busy,
    /// The initial thread, which calls MPI, has ended.
    #[error("the application's initial thread has ended; only running programs can be stopped")]
    NoMainThread,
    /// The initial thread does not exist yet.
    #[error("the program has not started yet; no checkpoint was taken, another try may succeed")]
    NotStarted,
    /// Patched system calls could not be restored.
    #[error(
        "the application's code, whose system calls are patched, cannot be made writable any more; no checkpoint was \
         taken, the job runs on; start it with STASIS_SYSCALL_SITES=off"
    )]
    CodeIsPatched,
    /// A thread did not stop in time.
    #[error(
        "thread {tid} ({name}) did not stop within {waited_ms} ms: it is {doing}; no checkpoint \
         was taken, the job runs on and another try may succeed"
    )]
    Timeout {
        /// Thread id as seen by the application.
        tid: u32,
        /// Name of the thread.
        name: String,
        /// Activity of the thread.
        doing: String,
        /// Time waited, in milliseconds.
        waited_ms: u64,
    },
}

/// Reason why the process state cannot be saved.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// An open file that cannot be created again.
    #[error(
        "file descriptor {fd} is {what}, which cannot be saved; checkpoint when it is closed, \
         or run the program without it"
    )]
    Descriptor {
        /// Descriptor number.
        fd: i32,
        /// Description of the file.
        what: String,
    },
    /// A call whose effect cannot be restored.
    #[error(
        "the program has called {call}, whose effect on the process cannot be restored; the job runs \
         on. Disable it in the program if there is an option for that"
    )]
    Unsupported {
        /// Name of the call.
        call: &'static str,
    },
    /// System V semaphores or a message queue.
    #[error(
        "the program has called {call}, and no image holds System V semaphores and message queues; checkpoint when it \
         has removed them (IPC_RMID)"
    )]
    SysvIpc {
        /// Name of the call.
        call: &'static str,
    },
    /// A POSIX timer whose clock refers to a process or a thread.
    #[error(
        "POSIX timer {id} runs on the processor time of one process or thread (clock {clock}), \
         which cannot be saved; checkpoint when it is deleted"
    )]
    CpuTimer {
        /// Id of the timer.
        id: u32,
        /// Clock of the timer.
        clock: i32,
    },
    /// An open file that its file system has no more (ESTALE).
    #[error(
        "the file system no longer has {path}, which is open as file descriptor {fd} (ESTALE): another machine has \
         removed or replaced it, or its server was restarted. A checkpoint is possible again when the program has \
         closed the file; what it reads or writes there until then fails"
    )]
    Stale {
        /// Descriptor number.
        fd: i32,
        /// Name of the file when it was opened.
        path: PathBuf,
    },
    /// A read of the process's own state failed.
    #[error("cannot read {what}: {source}; no checkpoint was taken")]
    System {
        /// Description of the state.
        what: String,
        /// Error of the read.
        source: std::io::Error,
    },
}

/// Reason why a saved process state cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The image is of another version.
    #[error(
        "the image was saved with contract version {saved}, this Stasis has {ours}; restart it \
         with the Stasis that saved it"
    )]
    Version {
        /// Version in the image.
        saved: u32,
        /// Version of this build.
        ours: u32,
    },
    /// Memory that the caller should have mapped is not mapped.
    #[error("{what} is not mapped at {address:#x}: the image's memory must be mapped first")]
    NotMapped {
        /// Description of the memory.
        what: &'static str,
        /// Address that should be mapped.
        address: usize,
    },
    /// A file cannot be opened again.
    #[error(
        "cannot reopen {path} as file descriptor {fd}: {source}; move the file back to its path \
         at the checkpoint"
    )]
    File {
        /// Descriptor number.
        fd: i32,
        /// Path.
        path: PathBuf,
        /// Error of the open.
        source: std::io::Error,
    },
    /// The working directory is gone or not accessible.
    #[error(
        "the program's working directory {path} cannot be entered: {source}; make it again, or allow access to it, and \
         restart again"
    )]
    Workdir {
        /// Path.
        path: PathBuf,
        /// Error of the attempt.
        source: std::io::Error,
    },
    /// A file differs from the checkpoint.
    #[error(
        "{path} (file descriptor {fd}) {how}; restore the file, or continue with the \
         changed one: `stasis restart --changed-files warn`"
    )]
    FileChanged {
        /// Descriptor number.
        fd: i32,
        /// Path.
        path: PathBuf,
        /// Description of the difference.
        how: String,
    },
    /// Files that a copy of a job would write as the first job does.
    #[error(
        "the first job writes these files, and its copy would write them, too: {files}; give the \
         copy a working directory of its own, in the place of {workdir} (`--workdir`), or take \
         the checkpoint when they are closed"
    )]
    SharedForWriting {
        /// The files.
        files: String,
        /// Working directory of the first job.
        workdir: PathBuf,
    },
    /// A resource limit that the application had set cannot be set here.
    #[error(
        "the program had set resource limit {number} to {soft} (hard limit {hard}), which is not \
         allowed here: {source}; raise the limit (`ulimit`) before the restart"
    )]
    Limit {
        /// Number of the limit, as in `setrlimit`.
        number: u32,
        /// Soft limit.
        soft: u64,
        /// Hard limit.
        hard: u64,
        /// Error of setrlimit.
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
        /// Error of the lock.
        source: std::io::Error,
    },
    /// The program's dynamic linker has too little room for the registers of this processor.
    #[error(
        "the processor has larger registers ({needed} bytes) than one that the program comes from ({measured}), and its \
         dynamic linker, which is not one that Stasis knows, would overwrite the program's stack when it binds a \
         function; restart it on a machine with smaller registers, or launch it with LD_BIND_NOW=1 in its environment, \
         and restart it so, too"
    )]
    LazyBinding {
        /// Room for the registers of the processor that the program comes from, in bytes.
        measured: usize,
        /// Room for those of this processor.
        needed: usize,
    },
    /// The table of open files is inconsistent.
    #[error("the image's list of open files is inconsistent; restart from another checkpoint")]
    Table,
    /// A descriptor number is in use by a file of the launcher.
    #[error("file descriptor {fd} is in use and could not be moved; raise `ulimit -n`")]
    DescriptorTaken {
        /// Descriptor number.
        fd: i32,
    },
    /// A system call failed.
    #[error("{what} failed: {source}; the process cannot be restored")]
    System {
        /// Operation that failed.
        what: String,
        /// Error of the operation.
        source: std::io::Error,
    },
    /// The preparation of the fresh process failed.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl RestoreError {
    /// Maps the error of a system call that was made for `what`.
    pub(crate) fn system(what: &str) -> impl Fn(std::io::Error) -> RestoreError + '_ {
        move |source| RestoreError::System {
            what: what.to_owned(),
            source,
        }
    }
}
