//! `STASIS_FAULT`: a step of a checkpoint fails in one rank. It is for tests and demonstrations only.

use anyhow::{anyhow, Result};
use ckpt_image::{FaultAt, FileSystem};

/// `FAULT:N@RANK`. For example, with `full:3@1` the third step in which rank 1 changes the file system fails with
/// ENOSPC. [`FaultAt`] lists the other faults. With `scarce@RANK` the rank has a memory budget of zero for its copy.
/// With `unwatched@RANK` its kernel seems not to watch writes, so that increments compare digests.
pub const VARIABLE: &str = "STASIS_FAULT";

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectedFault {
    Disk(FaultAt),
    Memory,
    Watching,
}

/// The file system interface of this rank, with the fault that the environment asks for.
pub fn disk() -> Result<FileSystem> {
    Ok(match here()? {
        Some(InjectedFault::Disk(fault)) => FileSystem::watched(Some(fault), |made| {
            launcher::message::say(format_args!("{VARIABLE}: {made:?} fails now"))
        }),
        _ => FileSystem::default(),
    })
}

/// Whether this rank gets a memory budget of zero for its copy.
pub fn scarce() -> Result<bool> {
    Ok(here()? == Some(InjectedFault::Memory))
}

/// Whether this rank's kernel seems not to watch writes.
pub fn unwatched() -> Result<bool> {
    Ok(here()? == Some(InjectedFault::Watching))
}

/// The fault of this rank, if the environment asks for one.
fn here() -> Result<Option<InjectedFault>> {
    let Some(words) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let words = words.to_string_lossy();
    let (rank, failing) = parse(&words).map_err(|why| {
        anyhow!("{VARIABLE}: {why}. The variable is for tests only; unset it for any other job")
    })?;
    let own = launcher::rank().unwrap_or(0);
    Ok((own == rank).then_some(failing))
}

fn parse(words: &str) -> Result<(u32, InjectedFault), String> {
    let (fault, rank) = words
        .split_once('@')
        .ok_or_else(|| format!("'{words}' has no rank (FAULT:N@RANK)"))?;
    let rank = rank
        .parse()
        .map_err(|_| format!("'{rank}' is not a rank"))?;
    let failing = match fault {
        "scarce" => InjectedFault::Memory,
        "unwatched" => InjectedFault::Watching,
        fault => InjectedFault::Disk(fault.parse()?),
    };
    Ok((rank, failing))
}

#[cfg(test)]
mod tests {
    use super::{parse, InjectedFault};
    use ckpt_image::{Fault, FaultAt};

    #[test]
    fn faults_are_known_or_refused() {
        let full = FaultAt {
            fault: Fault::Full,
            at: 3,
        };
        assert_eq!(parse("full:3@1"), Ok((1, InjectedFault::Disk(full))));
        assert_eq!(parse("scarce@0"), Ok((0, InjectedFault::Memory)));
        assert_eq!(parse("unwatched@1"), Ok((1, InjectedFault::Watching)));
        for wrong in ["full:3", "full:0@1", "fool:3@1", "full:3@x", "scarce:1@1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
