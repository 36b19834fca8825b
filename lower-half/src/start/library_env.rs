//! Environment variables for the MPI library. Some libraries read them when they are loaded, before `main`. So this
//! process executes itself again with the variables, and without the application's LD_PRELOAD. The application never
//! sees the variables.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use launcher::preload;

/// Variables for the MPI library. A user's own value takes precedence.
const SETTINGS: [(&str, &str); 5] = [
    // A cache of registered memory hooks `munmap` in its own C library. The upper half does not call that C library, so
    // the cache would use stale pages.
    ("UCX_MEM_EVENTS", "n"),
    ("FI_MR_CACHE_MONITOR", "disabled"),
    ("OMPI_MCA_mpi_leave_pinned", "0"),
    // UCX must not handle a crash of the application before the application's own handler.
    ("UCX_ERROR_SIGNALS", ""),
    // Open MPI's sharedfp/sm protects a file's shared pointer with a named semaphore. Its name is the last part of the
    // file's name, so all jobs on the machine share it. A killed job may leave it locked.
    ("OMPI_MCA_sharedfp", "^sm"),
];

/// Variable with the names of the added variables, separated by commas. If it is set, the process has executed itself.
const ADDED: &str = "STASIS_LOWER_ENV";

/// Executes this process again if it was started without the variables.
pub fn ensure() -> Result<()> {
    if std::env::var_os(ADDED).is_some() {
        return Ok(());
    }
    let missing = SETTINGS
        .iter()
        .filter(|(name, _)| std::env::var_os(name).is_none());
    let missing: Vec<_> = missing.copied().collect();
    let names: Vec<_> = missing.iter().map(|(name, _)| *name).collect();
    let own = std::env::current_exe().context("cannot find the lower half's own path")?;
    let mut arguments = std::env::args_os();
    let mut again = Command::new(own);
    again
        .arg0(arguments.next().unwrap_or_default())
        .args(arguments)
        .envs(missing)
        .env(ADDED, names.join(","));
    // The application itself may have executed a program with LD_PRELOAD.
    preload::stash(&mut again);
    Err(again.exec()).context("cannot execute the lower half again")
}

/// The application's environment.
pub fn of_application() -> Vec<(OsString, OsString)> {
    let added = std::env::var(ADDED).unwrap_or_default();
    let ours = |name: &OsString| {
        name.to_str()
            .is_some_and(|name| name == ADDED || added.split(',').any(|a| a == name))
    };
    std::env::vars_os()
        .filter(|(name, _)| !ours(name))
        .map(|(name, value)| (preload::name_for_application(&name), value))
        .collect()
}
