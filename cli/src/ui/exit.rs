//! The exit codes of `stasis` and the errors that carry them.

pub use job_spec::ExitCode as Code;

/// Text about exit codes in `stasis --help`.
pub const HELP: &str = "\
Exit codes: 0 success; 1 the checkpoint directory, or standard output, cannot be used; 2 wrong usage; 3 the program \
cannot be served, or Stasis cannot work here; 4 the checkpoint was given up (the job runs on); 5 a checkpoint is \
missing, damaged, refused for its seal, or does not fit the job; 6 no job runs with that directory; 7 the job has \
ended with a checkpoint, as it was told, and can be continued; 8 a replayed run, or a rank that runs alone, does \
something else than its record, or the record ends. `launch` and `restart` end with the program's own code once it \
runs, and mpirun makes one code of those of its ranks.";

/// Whether the cause is in the machine, the directory or the program, which `stasis doctor` checks.
pub fn is_of_this_place(code: Code) -> bool {
    matches!(code, Code::Directory | Code::CannotServe)
}

/// Message to a caller with fewer privileges than this process.
pub const PRIVILEGED: &str = "\
this command runs no program with more privileges than its caller has, and its file gives it some \
(setuid, setgid or capabilities): take them away (`chmod ug-s FILE`, `setcap -r FILE`)";

/// An error with its exit code.
pub struct Failure {
    /// Error to print.
    pub error: anyhow::Error,
    /// Exit code.
    pub code: Code,
}

/// Result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// Adds an exit code to an error.
pub trait WithCode<T> {
    /// Adds `code` if this is an error.
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

#[cfg(test)]
mod tests {
    use super::HELP;

    #[test]
    fn the_help_has_the_codes_of_the_guide() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        let (_, table) = guide.split_once("| code | |\n|---|---|\n").unwrap();
        let rows: Vec<&str> = table.lines().take_while(|row| !row.is_empty()).collect();
        assert_eq!(rows.len(), 9);
        for row in rows {
            let row = row.trim_matches([' ', '|']).replace(" | ", " ");
            assert!(HELP.contains(&row), "`stasis --help` does not say: {row}");
        }
    }
}
