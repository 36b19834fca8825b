//! What the MPI library must find in the environment. Some libraries read it when they are loaded,
//! before `main`, so this process executes itself once more with the settings in place, and without
//! what was preloaded for the application. The application never sees the settings.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use launcher::preload;

/// Settings for the library below. A user's own setting of the same name wins.
const SETTINGS: [(&str, &str); 5] = [
    // Caches of registered memory learn by hooks in *their* C library that memory was unmapped.
    // The upper half's memory does not go through that one, so a cache would serve stale pages.
    ("UCX_MEM_EVENTS", "n"),
    ("FI_MR_CACHE_MONITOR", "disabled"),
    ("OMPI_MCA_mpi_leave_pinned", "0"),
    // A crash of the application is the application's: no handler of UCX's before its own.
    ("UCX_ERROR_SIGNALS", ""),
    // Open MPI's sharedfp/sm guards a file's shared pointer by a semaphore that all jobs of the machine
    // have together, by the last part of the file's name. A job that is killed may leave it locked.
    ("OMPI_MCA_sharedfp", "^sm"),
];

/// Names of the settings that were added, between commas; its presence says that it was done.
const ADDED: &str = "STASIS_LOWER_ENV";

/// Makes sure that the settings were there when this process started.
pub fn settle() -> Result<()> {
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
    // The application itself may have executed a program with something to preload.
    preload::put_aside(&mut again);
    Err(again.exec()).context("cannot execute the lower half again")
}

/// The environment as the application is to see it.
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
