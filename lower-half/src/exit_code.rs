//! The exit code of a restart that fails.

use job_spec::ExitCode;

/// Exit code of a restart that fails with this error.
pub fn of_restart(error: &anyhow::Error) -> i32 {
    let code = match error.is::<coordinator::job_file::Error>() {
        true => ExitCode::Directory,
        false => ExitCode::Image,
    };
    code.number()
}
