//! The lower half: a small MPI program with the real MPI library and the checkpoint agent, in whose process the upper
//! half runs.
//!
//! `stasis launch` and `stasis restart` start it in each rank's process instead of the application. There is one build
//! for each MPI library. Every restart starts a new lower half.

#![cfg_attr(not(test), no_main)]

// Both have the functions and types of MPI, under the same names.
#[cfg(native_mpi = "standard")]
extern crate mpi_abi as mpi_sys;

mod agent;
mod breakpoint;
mod clocks;
mod console;
mod exit_code;
mod mpi;
mod options;
mod profile;
mod record;
mod recorder;
mod reserve;
mod restart;
mod solo;
mod stages;
mod start;
mod tools;

use std::convert::Infallible;
use std::path::Path;

use anyhow::Result;
use job_spec::ExitCode;
use options::{Command, Launch};
use start::library_env;

/// Carries out the command line; returns the exit code of the process.
#[cfg_attr(test, expect(dead_code, reason = "tests begin elsewhere"))]
fn begin() -> i32 {
    if let Err(error) = loader::refuse_privileges() {
        console::tell(&error.into());
        return ExitCode::CannotServe.number();
    }
    loader::bound_arenas();
    let (code, error) = match options::parse(std::env::args_os().skip(1)) {
        Ok(Command::Launch(options)) => (ExitCode::CannotServe.number(), launch(options)),
        Ok(Command::Restart(options)) => {
            let directory = options.checkpoints.dir.clone();
            let Err(error) = self::restart::restart(options);
            return refused_restart(&directory, &error);
        }
        Ok(Command::Standby(options)) => {
            let directory = options.checkpoints.dir.clone();
            let Err(error) = self::restart::standby::standby(options);
            return refused_restart(&directory, &error);
        }
        Ok(Command::Refuse(code, library)) => start::abort_job::abort_job(code, library.as_deref()),
        Ok(Command::About) => {
            about();
            return 0;
        }
        Err(usage) => (ExitCode::Usage.number(), Err(usage)),
    };
    let Err(error) = error;
    console::tell(&error);
    end(code)
}

/// Ends a rank whose restart has failed before the program went on.
fn refused_restart(directory: &Path, error: &anyhow::Error) -> i32 {
    let code = exit_code::of_restart(error);
    restart::refusal::tell(directory, error, code);
    end(code)
}

/// Ends the rank with this code, or returns it for the end of the process.
fn end(code: i32) -> i32 {
    mpi::world::leave(code);
    match mpi::world::rank() {
        // This rank must not just exit, because the other ranks wait for it.
        Some(_) => mpi::world::abort(code),
        None => code,
    }
}

/// Starts the program, or goes on in its memory after another rank's death. Returns only after a failure.
fn launch(options: Launch) -> Result<Infallible> {
    library_env::load(options.spec.checkpoints.mpi_library.as_deref())?;
    stages::start(&options.spec.checkpoints)?;
    match stages::survived() {
        Some(memory) => self::restart::survivor::go_on(&options.spec.checkpoints, memory),
        None => start::launch::launch(options),
    }
}

/// Prints the library that this build is for. `stasis build-lower` runs this, which also checks that the lower half
/// starts.
fn about() {
    let library = mpi::ANY_LIBRARY.map_or_else(mpi::world::library, str::to_owned);
    let about = serde_json::json!({
        "library": library,
        "kind": mpi::KIND,
        "spec_version": job_spec::VERSION,
    });
    println!("{about}");
}
