//! Exit codes of `stasis` and of the lower half. They are part of the interface: scripts and job schedulers act on
//! them.

/// Reason for the failure of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// The checkpoint directory cannot be used: not writable, full, another user's, in use, or holding
    /// checkpoints that a fresh start would leave behind. Or standard output cannot be written.
    Directory = 1,
    /// The command line is wrong (clap uses the same code).
    Usage = 2,
    /// The program is not supported, or Stasis cannot work on this system.
    CannotServe = 3,
    /// The checkpoint was abandoned; the job runs on.
    Checkpoint = 4,
    /// A checkpoint is missing, damaged, refused for its seal, or does not fit the job.
    Image = 5,
    /// No job runs with that directory.
    NoJob = 6,
    /// The job has ended with a checkpoint, as requested, and can be continued.
    Unfinished = 7,
    /// A replayed run, or a rank that runs alone, does something else than its record, or the record ends.
    Diverged = 8,
}

impl ExitCode {
    /// The exit code as a number.
    pub const fn number(self) -> i32 {
        self as i32
    }
}
