//! `--local-dir`: what stands for what in the name of a directory that each rank may have for itself.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use ckpt_image::{Disk, LocalDir};
use coordinator::addresses;

/// The name of a local directory, in which `%t` stands for the rank, `%N` for the short name of its host and
/// `%%` for a per cent sign, as in Slurm's names of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local(String);

impl FromStr for Local {
    type Err = String;

    fn from_str(text: &str) -> Result<Local, String> {
        expand(text, 0, "host").map(|_| Local(text.to_owned()))
    }
}

impl Local {
    /// The directory of this rank, from the root.
    pub fn here(&self) -> PathBuf {
        let (host, rank) = (addresses::host(), launcher::rank().unwrap_or(0));
        let short = host.split('.').next().unwrap_or(&host);
        // It was understood when it was read.
        let path = PathBuf::from(expand(&self.0, rank, short).unwrap_or_default());
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Makes the folder in it of the job that has this checkpoint directory.
    pub fn prepare(&self, ckpt_dir: &Path) -> ckpt_image::Result<()> {
        let rank = launcher::rank().unwrap_or(0);
        LocalDir::new(&Disk::default(), &self.here(), ckpt_dir, rank).prepare()
    }
}

fn expand(text: &str, rank: u32, host: &str) -> Result<String, String> {
    let mut parts = text.split('%');
    let mut path = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        match part.chars().next() {
            Some('t') => path += &rank.to_string(),
            Some('N') => path += host,
            // The second of two begins the next part.
            None => path = path + "%" + parts.next().ok_or("a % at its end stands for nothing")?,
            Some(other) => return Err(format!("%{other} stands for nothing: %t, %N and %% do")),
        }
        path += part.get(1..).unwrap_or_default();
    }
    match path.is_empty() {
        true => Err("it is empty".to_owned()),
        false => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_hosts_have_directories_of_their_own() {
        let path = |text: &str| expand(text, 7, "node3");
        assert_eq!(path("/local/%N/r%t").unwrap(), "/local/node3/r7");
        assert_eq!(path("/a%%t%%/%t%t").unwrap(), "/a%t%/77");
        assert_eq!(path("%t%%").unwrap(), "7%");
        assert_eq!(path("plain").unwrap(), "plain");
        for wrong in ["/a/%", "/a/%%%", "/a/%j", ""] {
            assert!(path(wrong).is_err(), "{wrong}");
        }
    }
}
