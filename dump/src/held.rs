//! An image that stays in memory: the COW child lives on with the copy of the memory, and another process has it write
//! the image when that is needed.
//!
//! The child also has everything else that the image needs: the *recipe*, which is made before the fork, and the
//! memory that `fork` does not copy. So the other process needs only the child and the address of the recipe.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use ckpt_image::{
    image_file, kind, Compression, FileSystem, Header, ImageError, ImageSummary, ImageWriter,
    MemorySource, Region, Result, Section, SharedObject,
};
use serde::{Deserialize, Serialize};

use crate::contents::{ImageContents, ImageRegion, Location};
use crate::plan::Plan;
use crate::ranges;
use crate::request::{DumpRequest, PauseMode};
use crate::save::header;
use crate::snapshot::cow_child::{ChildParts, CowChild, KeptChild, Lifetime};
use crate::snapshot::eager_copy::{read_blocks, CopiedBlock};
use crate::snapshot::{copy_eagerly, fork_child, ChildMemory};
use crate::source::StoppedProcess;

/// Longest recipe that is read.
const LONGEST_RECIPE: u64 = 1 << 30;

/// An image is wanted until it is written.
static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Everything in an image but its memory.
#[derive(Serialize, Deserialize)]
struct Recipe {
    header: Header,
    compression: Compression,
    sealed: bool,
    regions: Vec<HeldRegion>,
    copied: Vec<CopiedBlock>,
    shared: Vec<SharedObject>,
    sections: Vec<Section>,
    /// For the process that writes the image.
    note: String,
}

#[derive(Serialize, Deserialize)]
struct HeldRegion {
    region: Region,
    runs: Vec<Range<u64>>,
    content: Content,
}

/// Where the child has the content of a region.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Content {
    /// At its own address.
    InPlace { readable: bool },
    /// In the blocks that were copied before the fork.
    Copied,
}

impl Content {
    fn of(part: &ImageRegion) -> Content {
        match part.location {
            Location::Memory {
                forks: true,
                readable,
                ..
            } => Content::InPlace { readable },
            _ => Content::Copied,
        }
    }
}

/// The place of a recipe in the memory of its child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipePlace {
    at: u64,
    bytes: u64,
}

/// An image in memory, for the process that is to keep it.
#[derive(Debug)]
pub struct Handover {
    /// The child.
    pub child: ChildParts,
    /// Its recipe.
    pub recipe: RecipePlace,
    /// Bytes of memory that the image holds.
    pub bytes: u64,
    /// Notes for people.
    pub notes: Vec<String>,
}

impl Plan {
    /// Copies the memory, and leaves the copy in a child, from which another process can write the image. Calls
    /// `copied` as soon as the threads may go on. `note` is for that process.
    ///
    /// # Errors
    /// [`ImageError::Unsaveable`] names memory that no image can hold; [`ImageError::Io`] if no copy can be made.
    pub fn hold(
        &self,
        request: &DumpRequest<'_>,
        note: &str,
        copied: impl FnOnce(),
    ) -> Result<(Handover, KeptChild)> {
        let notes = self.check_other_processes(request.shares)?;
        let parts = ImageContents::of(self, request)?.parts;
        let mem = File::open("/proc/self/mem");
        let process = StoppedProcess {
            plan: self,
            mem: &mem.map_err(request.failed("open /proc/self/mem for"))?,
        };
        let held = self.copy(request, &parts, note, &process);
        let (child, recipe) = held.map_err(|why| {
            let failed = request.failed("keep a copy of the memory for");
            failed(io::Error::other(why))
        })?;
        copied();
        let (child, kept) = child
            .give_away()
            .map_err(request.failed("give away the child of"))?;
        let bytes = parts.iter().map(|part| ranges::total_bytes(&part.runs));
        let handover = Handover {
            child,
            recipe,
            bytes: bytes.sum(),
            notes,
        };
        Ok((handover, kept))
    }

    fn copy(
        &self,
        request: &DumpRequest<'_>,
        parts: &[ImageRegion],
        note: &str,
        process: &StoppedProcess<'_>,
    ) -> std::result::Result<(CowChild, RecipePlace), String> {
        let budget = match &request.pause {
            PauseMode::UntilWritten(why) => return Err(why.clone()),
            PauseMode::UntilCopied { budget, .. } => budget,
        };
        // For an increment. The child would keep it.
        drop(self.take_buffer());
        let eager = copy_eagerly(process, parts, true, budget)?;
        let machine = request.info.machine().map_err(|e| e.to_string())?;
        let environment = kind::ENVIRONMENT.encode(&machine);
        let environment = environment.map_err(|e| e.to_string())?;
        let regions = parts.iter().map(|part| HeldRegion {
            region: part.region.clone(),
            runs: part.runs.clone(),
            content: Content::of(part),
        });
        let objects = self.objects.all().iter();
        let sections = std::iter::once(environment).chain(request.sections.iter().cloned());
        let recipe = Recipe {
            header: header(request.info),
            compression: request.info.compression,
            sealed: request.info.sealed,
            regions: regions.collect(),
            copied: eager.placed(),
            shared: objects.map(|object| object.described.clone()).collect(),
            sections: sections.collect(),
            note: note.to_owned(),
        };
        let encoded = postcard::to_stdvec(&recipe).map_err(|e| e.to_string())?;
        let child = fork_child(parts, Lifetime::OfSocket)?;
        let place = RecipePlace {
            at: encoded.as_ptr() as u64,
            bytes: encoded.len() as u64,
        };
        // The library may have kept its heap out of children.
        let mut found = vec![0; encoded.len()];
        let mut first = [0];
        let mut there = child.read(place.at, &mut found);
        for (_, block) in &recipe.copied {
            there = there.and_then(|()| child.read(block.start as u64, &mut first));
        }
        match there {
            Ok(()) if found == encoded => Ok((child, place)),
            _ => Err("the copy of the process lacks memory of the lower half".to_owned()),
        }
    }
}

/// An image in the memory of a child, which this process keeps. Dropping it kills the child.
pub struct HeldImage {
    child: CowChild,
    recipe: RecipePlace,
}

/// An image that was held in memory and is written now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WrittenImage {
    /// Its rank.
    pub rank: u32,
    /// The image.
    pub image: ImageSummary,
    /// The note of [`Plan::hold`].
    pub note: String,
}

impl HeldImage {
    /// Keeps an image.
    ///
    /// # Errors
    /// The child has ended.
    pub fn adopt(child: ChildParts, recipe: RecipePlace) -> io::Result<HeldImage> {
        let child = CowChild::adopt(child)?;
        Ok(HeldImage { child, recipe })
    }

    /// Process id of the child.
    pub fn pid(&self) -> i32 {
        self.child.pid()
    }

    /// A descriptor that is ready to read when the child has ended.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.child.end()
    }

    /// Whether the child lives.
    pub fn lives(&self) -> bool {
        self.child.check().is_ok()
    }

    /// Kills the child, and waits until it has ended.
    pub fn end_now(self) {
        self.child.end_now();
    }

    /// Writes the image to the directory of an unfinished set, and makes it durable.
    ///
    /// # Errors
    /// [`ImageError::Io`] if the child has ended or the file cannot be written.
    pub fn write(&self, disk: &FileSystem, dir: &Path) -> Result<WrittenImage> {
        let failed = |action: &'static str| {
            move |source| ImageError::Io {
                action,
                path: dir.to_owned(),
                source,
            }
        };
        let recipe = self.recipe();
        let recipe = recipe.map_err(failed("read the copy of the memory for an image in"))?;
        let rank = recipe.header.rank;
        let path = dir.join(image_file(rank));
        let mut writer = ImageWriter::create(disk, &path, recipe.header, recipe.compression)?;
        if recipe.sealed {
            writer.sealed();
        }
        for HeldRegion {
            region,
            runs,
            content,
        } in recipe.regions
        {
            let mut in_place;
            let mut copied;
            let memory: &mut dyn MemorySource = match content {
                Content::InPlace { readable } => {
                    in_place = ChildMemory {
                        child: &self.child,
                        cancelled: &CANCELLED,
                        readable,
                    };
                    &mut in_place
                }
                Content::Copied => {
                    copied = CopiedMemory {
                        child: &self.child,
                        blocks: &recipe.copied,
                    };
                    &mut copied
                }
            };
            writer.region(region, &runs, memory)?;
        }
        self.child
            .check()
            .map_err(failed("read the copy of the memory for an image in"))?;
        writer.shared(recipe.shared);
        for section in recipe.sections {
            writer.section(section);
        }
        Ok(WrittenImage {
            rank,
            image: writer.finish()?,
            note: recipe.note,
        })
    }

    fn recipe(&self) -> io::Result<Recipe> {
        let RecipePlace { at, bytes } = self.recipe;
        if bytes > LONGEST_RECIPE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut encoded = vec![0; bytes as usize];
        self.child.read(at, &mut encoded)?;
        postcard::from_bytes(&encoded).map_err(io::Error::other)
    }
}

/// Memory that was copied before the fork, in the memory of the child.
struct CopiedMemory<'a> {
    child: &'a CowChild,
    blocks: &'a [CopiedBlock],
}

impl MemorySource for CopiedMemory<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
        read_blocks(self.blocks, address, into, |place, part| {
            self.child.read(place.start as u64, part)
        })
    }
}
