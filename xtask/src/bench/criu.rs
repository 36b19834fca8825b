//! `criu`: Debian's, or that of the next Debian if the first refuses the kernel (3.17 supports only smaller vDSOs than
//! that of Linux 6.18). The latter is unpacked and run with its libraries.

use super::LIMIT;
use crate::harness::{job, paths};
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

const NEXT: &str = "deb http://deb.debian.org/debian trixie main\n";
const DOWNLOAD: Duration = Duration::from_secs(300);

/// Command of criu.
#[derive(Clone)]
pub struct Criu {
    words: Vec<PathBuf>,
}

impl Criu {
    /// A criu that works here, or the reason why there is none. Found once.
    pub fn find(scratch: &Path) -> Result<Criu> {
        static FOUND: OnceLock<std::result::Result<Criu, String>> = OnceLock::new();
        let found = FOUND.get_or_init(|| Criu::look(scratch).map_err(|why| format!("{why:#}")));
        found.clone().map_err(anyhow::Error::msg)
    }

    fn look(scratch: &Path) -> Result<Criu> {
        let words = vec![PathBuf::from("criu")];
        let installed = Criu { words };
        let Err(why) = installed.check(scratch) else {
            return Ok(installed);
        };
        println!("criu does not work here ({why:#}): that of the next Debian is downloaded");
        let next = Criu::next(scratch)?;
        next.check(scratch)?;
        Ok(next)
    }

    /// Criu of the next Debian. apt gets separate folders, so that the system is not changed.
    fn next(scratch: &Path) -> Result<Criu> {
        let folder = paths::target().join("criu");
        let (root, archives) = (folder.join("root"), folder.join("cache/archives"));
        for made in ["etc/preferences.d", "state/lists/partial"] {
            fs::create_dir_all(folder.join(made))?;
        }
        fs::create_dir_all(archives.join("partial"))?;
        fs::write(folder.join("etc/sources.list"), NEXT)?;
        fs::write(folder.join("status"), "")?;
        for words in [
            &["update"][..],
            &[
                "install",
                "-y",
                "--download-only",
                "--no-install-recommends",
                "criu",
            ],
        ] {
            let mut apt = Command::new("apt-get");
            for (option, place) in [
                ("Dir::Etc::sourcelist", "etc/sources.list"),
                ("Dir::Etc::sourceparts", "/dev/null"),
                ("Dir::Etc::preferencesparts", "etc/preferences.d"),
                ("Dir::State", "state"),
                ("Dir::State::status", "status"),
                ("Dir::Cache", "cache"),
            ] {
                apt.arg("-o");
                apt.arg(format!("{option}={}", folder.join(place).display()));
            }
            // Without a change to apt's sandbox user, which only root can make.
            apt.args(["-o", "APT::Sandbox::User=", "-q"]).args(words);
            job::run(apt, scratch, "criu-apt", DOWNLOAD)?.expect_success("apt-get")?;
        }
        for package in fs::read_dir(&archives)? {
            let package = package?.path();
            if package.extension().is_some_and(|end| end == "deb") {
                let mut unpack = Command::new("dpkg");
                unpack.arg("-x").arg(&package).arg(&root);
                job::run(unpack, scratch, "criu-unpack", LIMIT)?.expect_success("dpkg -x")?;
            }
        }
        let words = vec![
            root.join("usr/lib64/ld-linux-x86-64.so.2"),
            PathBuf::from("--library-path"),
            root.join("usr/lib/x86_64-linux-gnu"),
            root.join("usr/sbin/criu"),
        ];
        ensure!(
            words.iter().step_by(3).all(|file| file.exists()),
            "it is not in its package"
        );
        Ok(Criu { words })
    }

    /// Command without a verb.
    pub fn command(&self) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or(Path::new("criu"), |word| word));
        command.args(words);
        command
    }

    /// Whether `criu check` succeeds on this machine.
    fn check(&self, scratch: &Path) -> Result<()> {
        let mut command = self.command();
        command.arg("check");
        let checked =
            job::run(command, scratch, "criu-check", LIMIT).context("it cannot be started")?;
        match checked.status.success() {
            true => Ok(()),
            false => bail!("{}", last_line(&checked.stderr)),
        }
    }
}

/// Last lines of a program's output.
pub fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or("it says nothing")
}
