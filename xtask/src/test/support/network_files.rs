//! The file system of `examples/tools/network_files.c`, which is like those of networks.

use crate::build::setup;
use crate::harness::job;
use crate::test::support::helper_programs;
use crate::test::Outcome;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const PACKAGE: &str = "libfuse3-dev";

/// Runs a case that mounts the file system, where that is possible.
pub fn on_file_system(case: impl FnOnce() -> Result<()>) -> Outcome {
    match setup::missing(Some(PACKAGE)).or_else(cannot_mount) {
        Some(why) => Outcome::Skipped(why),
        None => case().into(),
    }
}

fn cannot_mount() -> Option<String> {
    let opened = fs::OpenOptions::new().write(true).open("/dev/fuse");
    opened.err().map(|why| format!("no FUSE: {why}"))
}

/// The file system, as long as it is mounted.
pub struct Mounted {
    at: PathBuf,
    server: Child,
    /// Standard error of the server.
    said: PathBuf,
}

impl Mounted {
    /// Shows the directory `kept` there, with this number added to its inode numbers, in the ways that the words name.
    /// Both directories are made if they do not exist.
    pub fn new(dir: &Path, kept: &Path, at: &Path, salt: u64, ways: &[&str]) -> Result<Mounted> {
        let flags = ["-Wall", "-Wextra", "-Wl,--no-as-needed", "-lfuse3"];
        let program = helper_programs::compile(dir, "gcc", "network_files.c", &flags)?;
        fs::create_dir_all(kept)?;
        fs::create_dir_all(at)?;
        let outside = fs::metadata(at)?.dev();
        let mut serve = Command::new(program);
        serve.arg(kept).arg(at).arg(salt.to_string()).args(ways);
        let said = dir.join("network_files.err");
        serve.stderr(fs::File::create(&said)?);
        let server = serve.spawn().context("starting the file system")?;
        let mut mounted = Mounted {
            at: at.to_owned(),
            server,
            said,
        };
        let end = Instant::now() + LIMIT;
        while fs::metadata(at)?.dev() == outside {
            if let Some(status) = mounted.server.try_wait()? {
                bail!("network_files ends with {status}");
            }
            ensure!(Instant::now() < end, "the file system is not mounted");
            // No event tells of it.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(mounted)
    }

    /// Whether a call was refused that the file system lacks.
    pub fn has_refused(&self) -> bool {
        job::read_text(&self.said).contains("refused a ")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A failure leaves a process that ends with the machine.
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
        let _ = self.server.wait();
    }
}
