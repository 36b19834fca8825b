//! Merging a chain of increments: a full set of what its newest one holds.

use std::io;
use std::path::{Path, PathBuf};

use crate::chain::{Memory, Piece};
use crate::compress::Compression;
use crate::disk::Disk;
use crate::error::Result;
use crate::header::{Header, SetId};
use crate::image::Image;
use crate::key::Key;
use crate::list::{newest_whole, next_number, Newest};
use crate::manifest::{Manifest, RankEntry};
use crate::set::{image_file, SetWriter};
use crate::writer::{ImageSummary, ImageWriter, ReadMemory};

/// What was merged.
#[derive(Debug)]
pub struct Compacted {
    /// The set that was taken, and which newer ones were passed over.
    pub from: Newest,
    /// The full set that was made; none if that one was full already.
    pub made: Option<PathBuf>,
}

/// Makes a full set of the newest whole one in `dir`, which a restart would take, under the next number:
/// from now on the restart takes the new one. The old ones stay as they are ([`crate::prune`] removes
/// them). No job may run with the directory: it would not know that another set is the newest.
pub fn compact(disk: &Disk, dir: &Path, key: Option<&Key>) -> Result<Compacted> {
    let from = newest_whole(dir, key)?;
    if from.set.chain().is_empty() {
        return Ok(Compacted { from, made: None });
    }
    let writer = SetWriter::begin(disk, dir, next_number(dir)?)?;
    let old = from.set.manifest();
    let mut ranks = Vec::new();
    for entry in &old.ranks {
        let image = from.set.image(entry.rank, None)?;
        let path = writer.path().join(image_file(entry.rank));
        ranks.push(RankEntry {
            image: merge(disk, &path, &image, writer.set_id(), key.is_some())?,
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

/// Writes an image that holds all that a complete one does.
fn merge(
    disk: &Disk,
    path: &Path,
    image: &Image,
    set_id: SetId,
    sealed: bool,
) -> Result<ImageSummary> {
    let header = Header {
        set_id,
        ..image.header().clone()
    };
    let mut writer = ImageWriter::create(disk, path, header, Compression::Probe)?;
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
        writer.section(section.kind, section.version, section.bytes.clone());
    }
    writer.finish()
}

/// The content of a region, read in ascending order and whatever portions.
struct Source<'a, 'b> {
    memory: &'a mut Memory<'b>,
    pieces: &'a [Piece],
    /// That of the piece that was read last.
    content: Vec<u8>,
    held: Option<u64>,
}

impl ReadMemory for Source<'_, '_> {
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
