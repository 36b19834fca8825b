//! Compaction: a chain of increments is merged into a full set with the content of the newest.

use std::io;
use std::path::{Path, PathBuf};

use job_spec::Compression;

use crate::error::Result;
use crate::format::header::Header;
use crate::format::ids::SetId;
use crate::fs::file_system::FileSystem;
use crate::read::chain::Piece;
use crate::read::image::Image;
use crate::read::load::Memory;
use crate::set::list::{newest_whole, next_number, Newest};
use crate::set::manifest::{Manifest, RankEntry};
use crate::set::names::image_file;
use crate::set::seal::SealKey;
use crate::set::set_writer::SetWriter;
use crate::write::writer::{ImageSummary, ImageWriter, MemorySource};

/// Result of a compaction.
#[derive(Debug)]
pub struct Compacted {
    /// The merged set, and the newer sets that were skipped.
    pub from: Newest,
    /// Directory of the new full set; none if the merged set was full already.
    pub made: Option<PathBuf>,
}

/// Writes a full set with the content of the newest whole set in `dir`, under the next number. A restart
/// then uses the new set. The old sets stay as they are ([`crate::prune`] removes them). No job may run
/// with the directory, because it would not notice that another set is the newest.
///
/// # Errors
/// Those of [`newest_whole`], of reading its images, and of writing the new set. Nothing is left of it then.
pub fn compact(fs: &FileSystem, dir: &Path, key: Option<&SealKey>) -> Result<Compacted> {
    let from = newest_whole(dir, key)?;
    if from.set.chain().is_empty() {
        return Ok(Compacted { from, made: None });
    }
    let writer = SetWriter::begin(fs, dir, next_number(dir)?)?;
    let old = from.set.manifest();
    let mut ranks = Vec::new();
    for entry in &old.ranks {
        let image = from.set.image(entry.rank, None)?;
        let path = writer.path().join(image_file(entry.rank));
        ranks.push(RankEntry {
            image: merge(fs, &path, &image, writer.set_id(), key.is_some())?,
            local: None,
            copy: None,
            ..entry.clone()
        });
    }
    let manifest = Manifest {
        set_id: writer.set_id(),
        increment_of: None,
        ranks,
        ..old.clone()
    };
    let made = Some(writer.commit(&manifest, key)?);
    Ok(Compacted { from, made })
}

/// Writes an image with all memory of a complete image.
fn merge(
    fs: &FileSystem,
    path: &Path,
    image: &Image,
    set_id: SetId,
    sealed: bool,
) -> Result<ImageSummary> {
    let header = Header {
        set_id,
        ..image.header().clone()
    };
    let mut writer = ImageWriter::create(fs, path, header, Compression::Probe)?;
    if sealed {
        writer.sealed();
    }
    let mut memory = image.memory()?;
    for (index, region) in image.regions().iter().enumerate() {
        let pieces = memory.pieces_of(index);
        let runs: Vec<_> = pieces
            .iter()
            .map(|piece| piece.address..piece.address + u64::from(piece.len))
            .collect();
        let mut source = Source {
            memory: &mut memory,
            pieces,
            content: Vec::new(),
            held: None,
        };
        writer.region(region.clone(), &runs, &mut source)?;
    }
    writer.shared(image.shared().to_vec());
    for section in image.sections() {
        writer.section(section.clone());
    }
    writer.finish()
}

/// The content of a region, read in ascending order and in portions of any size.
struct Source<'a, 'b> {
    memory: &'a mut Memory<'b>,
    pieces: &'a [Piece],
    /// Content of the piece that was read last.
    content: Vec<u8>,
    held: Option<u64>,
}

impl MemorySource for Source<'_, '_> {
    fn read(&mut self, mut address: u64, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            let after = self
                .pieces
                .partition_point(|piece| piece.address <= address);
            let at = after.checked_sub(1).ok_or(io::ErrorKind::NotFound)?;
            let piece = &self.pieces[at];
            if self.held != Some(piece.address) {
                self.held = None;
                self.content.resize(piece.len as usize, 0);
                let loaded = self.memory.load(piece, &mut self.content);
                loaded.map_err(io::Error::other)?;
                self.held = Some(piece.address);
            }
            let content = self.content.get((address - piece.address) as usize..);
            let content = content
                .filter(|c| !c.is_empty())
                .ok_or(io::ErrorKind::NotFound)?;
            let take = content.len().min(into.len());
            let (now, rest) = into.split_at_mut(take);
            now.copy_from_slice(&content[..take]);
            (into, address) = (rest, address + take as u64);
        }
        Ok(())
    }
}
