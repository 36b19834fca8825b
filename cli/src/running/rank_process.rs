//! The process of a rank of a job on this machine, found by its command line: the rank may be stopped, and the
//! coordinator with it, so that nobody can be asked.

use std::ffi::OsString;
use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use contract::{Gate, LowerInfo, AT_BREAK, GATE_ADDRESS};
use nix::unistd::geteuid;
use serde_json::Value;

/// The kernel tells nobody but the parent of a stop, so it is asked for.
const POLL: Duration = Duration::from_millis(1);
/// Longest wait for a stop. A process that another debugger has does not stop.
const PATIENCE: Duration = Duration::from_secs(5);

/// A rank's process.
#[derive(Debug)]
pub struct RankProcess {
    /// Its id.
    pub pid: i32,
    /// Its rank, if the launcher's environment tells it.
    pub rank: Option<u32>,
    /// The job's checkpoint directory.
    pub directory: PathBuf,
    /// The program, unless it was restarted.
    pub program: Option<PathBuf>,
}

impl RankProcess {
    /// The process with this id, if it is a rank of a job.
    pub fn with_id(pid: i32) -> Option<RankProcess> {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).ok();
        let words: Vec<Vec<u8>> = strings(&read("cmdline")?);
        let spec: Value = serde_json::from_slice(words.get(2)?).ok()?;
        let directory = spec["spec"]["checkpoints"]["dir"].as_str()?;
        let behind = words.iter().skip_while(|word| *word != b"--").nth(1);
        let environment = strings(&read("environ").unwrap_or_default());
        let variable = |name: &str| {
            let prefix = format!("{name}=");
            let value = environment
                .iter()
                .find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
            String::from_utf8(value.to_vec()).ok()
        };
        Some(RankProcess {
            pid,
            rank: launcher::rank_in(variable),
            directory: directory.into(),
            program: behind.map(|word| OsString::from_vec(word.clone()).into()),
        })
    }

    /// Whether it is stopped, as by SIGSTOP. One that `--break` is about to stop is waited for: it says that it has
    /// stopped shortly before it has, since it cannot do so afterwards.
    pub fn comes_to_a_stop(&self) -> bool {
        let end = Instant::now() + PATIENCE;
        while !self.is_stopped() && self.is_at_break() && Instant::now() < end {
            thread::sleep(POLL);
        }
        self.is_stopped()
    }

    /// Whether it is at the call of `--break`, and has not been continued there.
    fn is_at_break(&self) -> bool {
        let features = offset_of!(Gate, lower) + offset_of!(LowerInfo, features);
        let mut word = [0; 4];
        let memory = File::open(format!("/proc/{}/mem", self.pid));
        let read = memory
            .and_then(|memory| memory.read_exact_at(&mut word, (GATE_ADDRESS + features) as u64));
        read.is_ok() && u32::from_le_bytes(word) & AT_BREAK != 0
    }

    fn is_stopped(&self) -> bool {
        let state = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // The name, in parentheses, may have any characters.
        let behind = state.rsplit_once(") ").map(|(_, behind)| behind);
        behind.is_some_and(|behind| behind.starts_with('T'))
    }

    /// The ranks on this machine of the job with a checkpoint directory.
    pub fn of_job(directory: &Path) -> Vec<RankProcess> {
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let is_its = |rank: &RankProcess| {
            let its = fs::canonicalize(&rank.directory);
            its.is_ok_and(|its| its == directory)
        };
        ids()
            .filter_map(RankProcess::with_id)
            .filter(is_its)
            .collect()
    }

    /// The ranks of this user's jobs on this machine.
    pub fn of_this_user() -> impl Iterator<Item = RankProcess> {
        let user = geteuid().as_raw();
        let is_own = move |pid: &i32| {
            let its = fs::metadata(format!("/proc/{pid}"));
            its.is_ok_and(|its| its.uid() == user)
        };
        ids().filter(is_own).filter_map(RankProcess::with_id)
    }
}

/// The ids of all processes.
fn ids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Strings that each end with a NUL.
fn strings(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}
