//! `stasis doctor`: whether Stasis can work here, and with a program, without running anything.

use anyhow::{anyhow, Result};

use crate::arguments::{Doctor, Mpi};
use crate::exit::{self, Code, WithCode};
use crate::layout::Layout;
use crate::{kernel, program};

/// Runs the command.
pub fn run(options: &Doctor) -> exit::Result<()> {
    let layout = Layout::find().code(Code::CannotServe)?;
    let mut bad = 0;
    let mut tell = |what: &str, result: Result<String>| match result {
        Ok(good) => println!("ok    {what}: {good}"),
        Err(why) => {
            bad += 1;
            println!("BAD   {what}: {why:#}");
        }
    };
    tell(
        "Syscall User Dispatch",
        kernel::check_dispatch().map(|()| kernel::release()),
    );
    tell(
        "membarrier",
        kernel::check_membarrier().map(|()| "offered".into()),
    );
    for mpi in Mpi::ALL {
        let found = match (layout.lower(mpi).exists(), layout.front(mpi).exists()) {
            (true, true) => Ok("lower half and front are there".into()),
            (false, _) => Err(anyhow!(
                "{} does not exist; run `cargo xtask setup`",
                layout.lower(mpi).display()
            )),
            (_, false) => Err(anyhow!(
                "{} does not exist; run `cargo xtask setup`",
                layout.front(mpi).display()
            )),
        };
        tell(mpi.word(), found);
    }
    if let Some(app) = &options.app {
        let inspected = program::inspect(app.as_os_str(), &layout).and_then(|(path, findings)| {
            findings.accept(&path)?;
            let front = findings.front.map_or("no MPI library", Mpi::word);
            Ok(format!(
                "can be served ({front}; {} files looked at)",
                findings.files
            ))
        });
        tell(&app.to_string_lossy(), inspected);
    }
    match bad {
        0 => Ok(()),
        n => Err(anyhow!("{n} of these must be mended first")).code(Code::CannotServe),
    }
}
