//! The names in a checkpoint directory: of sets, and of the files in a set.

use std::path::Path;

use crate::error::{ImageError, Result};
use crate::format::machine;

/// File name of the manifest in its set.
pub const MANIFEST_FILE: &str = "manifest.json";

/// File name of the count of failed restarts from a set, in decimal.
pub(crate) const ATTEMPTS_FILE: &str = "attempts";

/// File name of the claim on a set that is being written, where directories cannot be locked.
pub(crate) const WRITER_FILE: &str = "writer";

/// Name of set `number`.
pub fn set_name(number: u64) -> String {
    format!("ckpt-{number}")
}

/// Name of set `number` before its commit.
pub fn partial_name(number: u64) -> String {
    format!("ckpt-{number}.partial")
}

/// File name of a rank's image in its set.
pub fn image_file(rank: u32) -> String {
    format!("rank-{rank}.img")
}

/// File name of a rank's image while it is copied into its set.
pub(crate) fn unfinished_file(rank: u32) -> String {
    format!("{}.partial", image_file(rank))
}

/// File name for a drain by another process than the image's rank; several may drain at the same time.
pub(crate) fn foreign_unfinished_file(rank: u32) -> String {
    let (host, process) = (machine::host(), std::process::id());
    format!("rank-{rank}.{host}-{process}.img.partial")
}

/// The number of the set with this name.
pub fn set_number(name: &str) -> Option<u64> {
    match parse_name(name) {
        Some(SetName::Whole(number)) => Some(number),
        _ => None,
    }
}

/// The parsed name of a set's directory.
pub(crate) enum SetName {
    /// A finished set, by its number.
    Whole(u64),
    /// An unfinished set.
    Partial(u64),
}

/// Parses the name of an entry of a checkpoint directory; none if it is not the name of a set.
pub(crate) fn parse_name(name: &str) -> Option<SetName> {
    let rest = name.strip_prefix("ckpt-")?;
    let (digits, partial) = match rest.strip_suffix(".partial") {
        Some(digits) => (digits, true),
        None => (rest, false),
    };
    let number: u64 = digits.parse().ok()?;
    if number.to_string() != digits {
        return None;
    }
    Some(match partial {
        true => SetName::Partial(number),
        false => SetName::Whole(number),
    })
}

/// The names of sets in `dir`, finished or not, newest first.
pub(crate) fn names(dir: &Path) -> Result<Vec<(String, SetName)>> {
    let io = |e| ImageError::io("list", dir, e);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        if let Some((name, parsed)) = name.to_str().and_then(|n| Some((n, parse_name(n)?))) {
            names.push((name.to_owned(), parsed));
        }
    }
    names.sort_by_key(|(_, name)| match name {
        SetName::Whole(number) | SetName::Partial(number) => std::cmp::Reverse(*number),
    });
    Ok(names)
}

/// Whether `dir` has the finished set `name`. Only names are read.
pub(crate) fn holds(dir: &Path, name: &str) -> Result<bool> {
    Ok(names(dir)?.iter().any(|(held, _)| held == name))
}
