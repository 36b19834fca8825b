//! A set that is being written: it is `ckpt-N.partial`, and renamed to `ckpt-N` by the commit.

use std::path::{Path, PathBuf};

use crate::error::{ImageError, Result};
use crate::format::ids::SetId;
use crate::fs::file_system::FileSystem;
use crate::fs::permissions;
use crate::read::expect::Expect;
use crate::read::image::Image;
use crate::set::claim::{is_abandoned, Claim};
use crate::set::image_set::chain_of;
use crate::set::manifest::{Manifest, RankEntry};
use crate::set::names::{
    image_file, parse_name, partial_name, set_name, SetName, ATTEMPTS_FILE, MANIFEST_FILE,
    WRITER_FILE,
};
use crate::set::seal::SealKey;

/// A set that is being written. One process of the job (the coordinator's) holds it; the ranks create their
/// images in [`SetWriter::path`]. Dropping it before [`SetWriter::commit`] removes its files.
#[derive(Debug)]
pub struct SetWriter {
    fs: FileSystem,
    dir: PathBuf,
    partial: PathBuf,
    number: u64,
    set_id: SetId,
    /// Held while the set is being written.
    claim: Claim,
    committed: bool,
}

impl SetWriter {
    /// Starts set `number` in `dir` (see [`crate::next_number`]). Creates `dir` if necessary, and removes
    /// the unfinished sets of dead jobs.
    ///
    /// # Errors
    /// As for [`crate::create_checkpoint_dir`]; [`ImageError::Io`] if the set's directory exists or cannot be made.
    pub fn begin(fs: &FileSystem, dir: &Path, number: u64) -> Result<SetWriter> {
        let id = SetId::random();
        let id =
            id.map_err(|e| ImageError::io("make an id for", &dir.join(set_name(number)), e))?;
        SetWriter::begin_as(fs, dir, number, id)
    }

    /// Does the same for a set that has its id already.
    ///
    /// # Errors
    /// As for [`SetWriter::begin`].
    pub fn begin_as(fs: &FileSystem, dir: &Path, number: u64, set_id: SetId) -> Result<SetWriter> {
        permissions::create_checkpoint_dir(dir)?;
        remove_leavings(fs, dir);
        let partial = dir.join(partial_name(number));
        fs.make_dir(&partial)
            .map_err(|e| ImageError::io("make the directory", &partial, e))?;
        let claim = Claim::take(&partial).map_err(|e| {
            let _ = fs.remove_dir(&partial);
            ImageError::io("claim", &partial, e)
        })?;
        Ok(SetWriter {
            fs: fs.clone(),
            dir: dir.to_owned(),
            partial,
            number,
            set_id,
            claim,
            committed: false,
        })
    }

    /// Directory of the ranks' images.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Id for the images.
    pub fn set_id(&self) -> SetId {
        self.set_id
    }

    /// Commits the set, after every rank has reported its image finished. Checks each image in the set once
    /// more (images in local directories may be on other machines). Then writes the manifest, sealed if
    /// there is a key, and renames the directory. Returns the set's directory.
    ///
    /// # Errors
    /// The error of an image that is missing or does not fit; [`ImageError::Io`]. There is no new checkpoint then.
    pub fn commit(mut self, manifest: &Manifest, key: Option<&SealKey>) -> Result<PathBuf> {
        let here = |entry: &&RankEntry| entry.local.is_none();
        for entry in manifest.ranks.iter().filter(here) {
            let expect = Expect {
                set_id: Some(self.set_id),
                rank: Some(entry.rank),
                world_size: Some(manifest.world_size),
                bytes: Some(entry.image.bytes),
                sealed: key.is_some(),
                ..Expect::default()
            };
            Image::read_header(&self.partial.join(image_file(entry.rank)), &expect)?;
        }
        // Its chain may have been removed meanwhile.
        chain_of(&self.dir, &set_name(self.number), manifest, key)?;
        // The entries of the images must be durable before the manifest that lists them.
        self.sync_dir(&self.partial)?;
        manifest.write(&self.fs, &self.partial.join(MANIFEST_FILE), key)?;
        self.claim.end_name();
        self.sync_dir(&self.partial)?;
        let whole = self.dir.join(set_name(self.number));
        self.fs
            .rename(&self.partial, &whole)
            .map_err(|e| ImageError::io("finish the checkpoint as", &whole, e))?;
        self.committed = true;
        self.sync_dir(&self.dir)?;
        Ok(whole)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.fs
            .sync_dir(path)
            .map_err(|e| ImageError::io("sync the directory", path, e))
    }
}

impl Drop for SetWriter {
    fn drop(&mut self) {
        if !self.committed {
            remove_partial(&self.fs, &self.partial);
        }
    }
}

/// Removes unfinished sets that no process is writing any more. A failed removal is harmless, because the
/// next set has a higher number.
fn remove_leavings(fs: &FileSystem, dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let partial = matches!(
            name.to_str().and_then(parse_name),
            Some(SetName::Partial(_))
        );
        let path = entry.path();
        let ours = || permissions::check_set_dir(&path).is_ok();
        if partial && ours() && is_abandoned(&path).is_ok_and(|abandoned| abandoned) {
            remove_partial(fs, &path);
        }
    }
}

/// Removes an unfinished set, but only the files of a set, in case the directory holds others.
pub(crate) fn remove_partial(fs: &FileSystem, path: &Path) {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let file = path.join(&name);
        let name = name.to_string_lossy();
        let ours = [MANIFEST_FILE, ATTEMPTS_FILE, WRITER_FILE].contains(&&*name);
        let image = name.strip_suffix(".partial").unwrap_or(&name);
        if ours || (image.starts_with("rank-") && image.ends_with(".img")) {
            let _ = fs.remove_file(&file);
        }
    }
    let _ = fs.remove_dir(path);
}
