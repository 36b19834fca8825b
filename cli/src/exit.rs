//! Exit codes. They are part of the interface: scripts and job schedulers act on them.

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The checkpoint directory cannot be used: not writable, full, someone else's, in use, or holding
    /// checkpoints that a fresh start would leave behind; or what is printed cannot be written.
    Directory = 1,
    /// The command line is wrong (clap uses the same code).
    Usage = 2,
    /// The program cannot be served, or Stasis cannot work here.
    CannotServe = 3,
    /// The checkpoint was given up; the job runs on.
    Checkpoint = 4,
    /// A set is missing, damaged, or does not fit this job.
    Image = 5,
    /// No job runs in that directory.
    NoJob = 6,
    /// None does any more: it has ended with a checkpoint, as it was told to, and waits to be continued.
    Unfinished = 7,
}

impl Code {
    /// What failed lies in the machine, the directory or the program, at which `stasis doctor` looks.
    pub fn is_of_this_place(self) -> bool {
        matches!(self, Code::Directory | Code::CannotServe)
    }
}

/// For `stasis --help`.
pub const HELP: &str = "\
Exit codes: 0 success; 1 the checkpoint directory cannot be used; 2 wrong usage; 3 the program cannot \
be served, or Stasis cannot work here; 4 the checkpoint was given up (the job runs on); 5 a checkpoint \
is missing, damaged, or does not fit the job; 6 no job runs in that directory; 7 the job \
has ended with a checkpoint, as it was told to, and waits to be continued. `launch` and `restart` \
end with the program's own code.";

/// Said to a caller with fewer privileges than this process has.
pub const PRIVILEGED: &str = "\
this command runs no program with more privileges than its caller has, and its file gives it some \
(setuid, setgid or capabilities): take them away (`chmod ug-s FILE`, `setcap -r FILE`)";

/// An error and the code to end with.
pub struct Failure {
    /// What to tell people.
    pub error: anyhow::Error,
    /// The exit code.
    pub code: Code,
}

/// Result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// Says which code an error ends with.
pub trait WithCode<T> {
    /// Ends with `code` if this is an error.
    fn code(self, code: Code) -> Result<T>;
}

impl<T, E: Into<anyhow::Error>> WithCode<T> for std::result::Result<T, E> {
    fn code(self, code: Code) -> Result<T> {
        self.map_err(|error| Failure {
            error: error.into(),
            code,
        })
    }
}
