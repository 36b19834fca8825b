//! `LD_PRELOAD` is for the application alone: a profiler in it defines `MPI_Send`, and in the process of
//! the MPI library below it would see that library's calls too, those that a checkpoint makes among
//! them. So the lower half is started with the variable put aside, and the application gets it back.

use std::env;
use std::ffi::{OsStr, OsString};
use std::process::Command;

/// What the dynamic linker reads.
pub const VARIABLE: &str = "LD_PRELOAD";
/// Holds its value while a lower half is started.
const ASIDE: &str = "STASIS_LD_PRELOAD";

/// Starts `command`, a lower half that is to run a program, with the variable put aside.
pub fn put_aside(command: &mut Command) {
    if let Some(value) = env::var_os(VARIABLE) {
        command.env_remove(VARIABLE).env(ASIDE, value);
    }
}

/// The name under which the application is to see what this process has as `name`.
pub fn name_for_application(name: &OsStr) -> OsString {
    if name == ASIDE {
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
