//! `LD_PRELOAD` is for the application alone. A preloaded profiler defines `MPI_Send`. In the process of
//! the MPI library it would also see that library's calls, including those of a checkpoint. So the lower
//! half is started without the variable, and the application gets it back.

use std::env;
use std::ffi::{OsStr, OsString};
use std::process::Command;

/// Variable of the dynamic linker.
pub const VARIABLE: &str = "LD_PRELOAD";
/// Variable with its value while a lower half is started.
const STASH: &str = "STASIS_LD_PRELOAD";

/// Moves the variable out of the environment of `command`, a lower half that is to run a program.
pub fn stash(command: &mut Command) {
    if let Some(value) = env::var_os(VARIABLE) {
        command.env_remove(VARIABLE).env(STASH, value);
    }
}

/// The name in the application's environment of this process's variable `name`.
pub fn name_for_application(name: &OsStr) -> OsString {
    if name == STASH {
        VARIABLE.into()
    } else {
        name.into()
    }
}

/// The libraries that the variable names.
pub fn libraries() -> Vec<String> {
    let value = env::var_os(VARIABLE).unwrap_or_default();
    let value = value.to_string_lossy();
    let names = value.split([':', ' ']).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}
