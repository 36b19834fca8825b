//! `STASIS_FAULT`: one step of one rank's writing fails, to show what becomes of a checkpoint then.
//! For tests and demonstrations alone.

use anyhow::{anyhow, Result};
use ckpt_image::{Disk, FaultAt};

/// `FAULT:N@RANK`, as in `full:3@1`: the third step in which rank 1 changes anything on disk finds it
/// full. See [`FaultAt`] for the others.
pub const VARIABLE: &str = "STASIS_FAULT";

/// The disk as the environment wants it for this rank.
pub fn disk() -> Result<Disk> {
    let Some(words) = std::env::var_os(VARIABLE) else {
        return Ok(Disk::default());
    };
    let words = words.to_string_lossy();
    let (rank, fault) = parse(&words).map_err(|why| {
        anyhow!("{VARIABLE} is for tests only; unset it for any other job: {why}")
    })?;
    Ok(match launcher::rank().unwrap_or(0) == rank {
        true => Disk::watched(Some(fault), |made| {
            eprintln!("stasis: {VARIABLE}: {made:?} fails now")
        }),
        false => Disk::default(),
    })
}

fn parse(words: &str) -> Result<(u32, FaultAt), String> {
    let (fault, rank) = words
        .split_once('@')
        .ok_or_else(|| format!("'{words}' names no rank (FAULT:N@RANK)"))?;
    let rank = rank.parse().map_err(|_| format!("'{rank}' is no rank"))?;
    Ok((rank, fault.parse()?))
}

#[cfg(test)]
mod tests {
    use super::parse;
    use ckpt_image::{Fault, FaultAt};

    #[test]
    fn faults_are_known_or_refused() {
        let full = FaultAt {
            fault: Fault::Full,
            at: 3,
        };
        assert_eq!(parse("full:3@1"), Ok((1, full)));
        for wrong in ["full:3", "full:0@1", "fool:3@1", "full:3@x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
