//! Placeholders in `--local-dir`, by which each rank can have its own directory.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use ckpt_image::{FileSystem, LocalDir};
use coordinator::net::addresses;

/// Name of a local directory. `%t` is the rank, `%N` the short name of its host and `%%` a per cent sign, as in
/// Slurm's file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirTemplate(String);

impl FromStr for DirTemplate {
    type Err = String;

    fn from_str(text: &str) -> Result<DirTemplate, String> {
        expand(text, 0, "host").map(|_| DirTemplate(text.to_owned()))
    }
}

impl DirTemplate {
    /// Absolute path of this rank's directory.
    pub fn here(&self) -> PathBuf {
        let (host, rank) = (addresses::host(), launcher::rank().unwrap_or(0));
        let short = host.split('.').next().unwrap_or(&host);
        // `from_str` has checked the template, so that it expands.
        let path = PathBuf::from(expand(&self.0, rank, short).unwrap_or_default());
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Creates the subdirectory of the job with this checkpoint directory.
    pub fn prepare(&self, ckpt_dir: &Path) -> ckpt_image::Result<()> {
        let rank = launcher::rank().unwrap_or(0);
        LocalDir::new(&FileSystem::default(), &self.here(), ckpt_dir, rank).prepare()
    }
}

fn expand(text: &str, rank: u32, host: &str) -> Result<String, String> {
    let mut parts = text.split('%');
    let mut path = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        match part.chars().next() {
            Some('t') => path += &rank.to_string(),
            Some('N') => path += host,
            // In `%%`, the second sign ends an empty part.
            None => path = path + "%" + parts.next().ok_or("a single % at the end (use %%)")?,
            Some(other) => return Err(format!("unknown placeholder %{other} (use %t, %N or %%)")),
        }
        path += part.get(1..).unwrap_or_default();
    }
    match path.is_empty() {
        true => Err("the name is empty".to_owned()),
        false => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_expanded() {
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
