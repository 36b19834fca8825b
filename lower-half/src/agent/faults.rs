//! `STASIS_FAULT`: something fails in one rank, to show what becomes of a checkpoint then. For tests
//! and demonstrations alone.

use anyhow::{anyhow, Result};
use ckpt_image::{Disk, FaultAt};

/// `FAULT:N@RANK`, as in `full:3@1`: the third step in which rank 1 changes anything on disk finds it
/// full. See [`FaultAt`] for the others. `scarce@RANK`: the rank finds no memory for a copy of its own.
pub const VARIABLE: &str = "STASIS_FAULT";

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    Disk(FaultAt),
    Memory,
}

/// The disk as the environment wants it for this rank.
pub fn disk() -> Result<Disk> {
    Ok(match here()? {
        Some(Failing::Disk(fault)) => Disk::watched(Some(fault), |made| {
            launcher::message::say(format_args!("{VARIABLE}: {made:?} fails now"))
        }),
        _ => Disk::default(),
    })
}

/// Whether the environment wants this rank to find no memory for a copy.
pub fn scarce() -> Result<bool> {
    Ok(here()? == Some(Failing::Memory))
}

/// What the environment wants for this rank.
fn here() -> Result<Option<Failing>> {
    let Some(words) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let words = words.to_string_lossy();
    let (rank, failing) = parse(&words).map_err(|why| {
        anyhow!("{VARIABLE} is for tests only; unset it for any other job: {why}")
    })?;
    let own = launcher::rank().unwrap_or(0);
    Ok((own == rank).then_some(failing))
}

fn parse(words: &str) -> Result<(u32, Failing), String> {
    let (fault, rank) = words
        .split_once('@')
        .ok_or_else(|| format!("'{words}' names no rank (FAULT:N@RANK)"))?;
    let rank = rank.parse().map_err(|_| format!("'{rank}' is no rank"))?;
    let failing = match fault {
        "scarce" => Failing::Memory,
        fault => Failing::Disk(fault.parse()?),
    };
    Ok((rank, failing))
}

#[cfg(test)]
mod tests {
    use super::{parse, Failing};
    use ckpt_image::{Fault, FaultAt};

    #[test]
    fn faults_are_known_or_refused() {
        let full = FaultAt {
            fault: Fault::Full,
            at: 3,
        };
        assert_eq!(parse("full:3@1"), Ok((1, Failing::Disk(full))));
        assert_eq!(parse("scarce@0"), Ok((0, Failing::Memory)));
        for wrong in ["full:3", "full:0@1", "fool:3@1", "full:3@x", "scarce:1@1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
