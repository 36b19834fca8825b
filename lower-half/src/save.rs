//! Saving the upper half: every mapping below `contract::ARENA_END`, into this rank's image.
//!
//! Called while every thread of the upper half is parked. The address is the ledger: the kernel's
//! list of mappings says what there is, nothing is kept beside it.
//!
//! # Safety
//! Memory of the upper half is read through raw pointers, by copying and without ever making a
//! reference to it: the dead part of a parked thread's stack may still be written when a signal
//! comes. What is read directly lies in a mapping that the kernel has just listed as readable, in
//! pages that it has just reported to be there, and nobody can unmap them, because every thread
//! that could is parked. Everything else is read through /proc/self/mem, which answers with an
//! error where a load would fault.
#![allow(unsafe_code)]

// Named, so that the tests of saving and restarting, which have no MPI, can include this module.
#[path = "save/maps.rs"]
mod maps;
#[path = "save/pages.rs"]
mod pages;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ckpt_image::{
    image_file, kind, Advice, Backing, Compression, Environment, Header, Identity, IdentityCache,
    ImageError, ImageSummary, ImageWriter, ReadMemory, Region, Result, SetId,
};

use maps::Mapping;
use pages::Pages;

const PAGE: u64 = ckpt_image::PAGE;

/// What the image's header says about the job.
#[derive(Clone, Debug)]
pub struct HeaderInfo {
    /// The set that is being made.
    pub set_id: SetId,
    /// How often the job has been restarted.
    pub epoch: u64,
    /// This rank.
    pub rank: u32,
    /// Ranks of the job.
    pub world_size: u32,
    /// Name of the upper half's MPI ABI: "openmpi", "mpich", "none".
    pub abi: String,
    /// Whether memory is compressed where it pays.
    pub compression: Compression,
}

/// Writes this rank's image into `dir`, an unfinished set, and makes it durable. `sections` are
/// `(kind, version, content)`; the environment's is added here.
pub fn save(
    dir: &Path,
    info: &HeaderInfo,
    sections: &[(u32, u32, Vec<u8>)],
) -> Result<ImageSummary> {
    let path = dir.join(image_file(info.rank));
    let failed = |action| {
        let path = path.clone();
        move |source: io::Error| ImageError::Io {
            action,
            path,
            source,
        }
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let header = Header {
        set_id: info.set_id,
        epoch: info.epoch,
        rank: info.rank,
        world_size: info.world_size,
        contract_version: contract::VERSION,
        page_size: PAGE as u32,
        abi: info.abi.clone(),
        created_ns: now.map_or(0, |since| since.as_nanos() as u64),
    };
    // All that can be refused is refused before anything is written.
    let mappings = maps::below(contract::ARENA_END as u64)
        .map_err(failed("list the mappings (/proc/self/smaps) for"))?;
    let mut files = IdentityCache::default();
    let planned = mappings
        .iter()
        .map(|mapping| {
            plan(mapping, &mut files).map(|(region, content)| (mapping, region, content))
        })
        .collect::<Result<Vec<_>>>()?;
    refuse_aliases(&planned)?;
    let pages = Pages::open().map_err(failed("open /proc/self/pagemap for"))?;
    let mut memory = OwnMemory {
        mem: File::open("/proc/self/mem").map_err(failed("open /proc/self/mem for"))?,
        direct: false,
        holes: false,
    };

    let mut writer = ImageWriter::create(&path, header, info.compression)?;
    for (mapping, region, content) in planned {
        let runs = match content {
            Content::None => Vec::new(),
            Content::All => std::iter::once(mapping.start..mapping.end).collect(),
            Content::Own => pages.own(mapping.start..mapping.end).map_err(failed(
                "ask which pages are in use (/proc/self/pagemap) for",
            ))?,
        };
        memory.holes = content == Content::All;
        memory.direct = !memory.holes && mapping.prot & 1 != 0;
        writer.region(region, &runs, &mut memory)?;
    }
    let environment = Environment::here().map_err(failed("describe this machine for"))?;
    let environment = postcard::to_stdvec(&environment)
        .map_err(|e| failed("describe this machine for")(io::Error::other(e)))?;
    writer.section(kind::ENVIRONMENT, 1, environment);
    for (kind, version, bytes) in sections {
        writer.section(*kind, *version, bytes.clone());
    }
    writer.finish()
}

/// Refuses shared memory that is mapped at several places: a restart would make copies of it.
fn refuse_aliases(planned: &[(&Mapping, Region, Content)]) -> Result<()> {
    let shared = planned
        .iter()
        .filter(|(_, region, _)| region.backing == Backing::SharedAnonymous);
    let mut parts: Vec<_> = shared.map(|(mapping, ..)| *mapping).collect();
    parts.sort_unstable_by_key(|mapping| (mapping.inode, mapping.offset));
    let alias = parts.windows(2).find(|pair| {
        pair[0].inode == pair[1].inode
            && pair[1].offset < pair[0].offset + (pair[0].end - pair[0].start)
    });
    match alias {
        None => Ok(()),
        Some(pair) => Err(ImageError::Unsaveable {
            start: pair[1].start,
            end: pair[1].end,
            why: format!(
                "is shared memory that is also mapped at {:#x}, which Stasis cannot save yet",
                pair[0].start
            ),
        }),
    }
}

/// Which part of a mapping goes into the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Nothing: it is another's.
    None,
    /// The pages that are this process's own.
    Own,
    /// Everything: what stood behind it will not be there.
    All,
}

/// How a mapping is recorded, or why it cannot be.
fn plan(mapping: &Mapping, files: &mut IdentityCache) -> Result<(Region, Content)> {
    let (backing, content) = backing(mapping, files).map_err(|why| ImageError::Unsaveable {
        start: mapping.start,
        end: mapping.end,
        why: format!("{} {why}", String::from_utf8_lossy(&mapping.path)),
    })?;
    let region = Region {
        start: mapping.start,
        len: mapping.end - mapping.start,
        prot: mapping.prot,
        grows_down: mapping.has(b"gd"),
        no_reserve: mapping.has(b"nr"),
        advice: Advice {
            huge: mapping.has(b"hg"),
            no_huge: mapping.has(b"nh"),
            dont_fork: mapping.has(b"dc"),
            wipe_on_fork: mapping.has(b"wf"),
        },
        backing,
    };
    Ok((region, content))
}

fn backing(
    mapping: &Mapping,
    files: &mut IdentityCache,
) -> std::result::Result<(Backing, Content), &'static str> {
    let path = &mapping.path[..];
    let named = |prefix: &str| path.starts_with(prefix.as_bytes());
    if mapping.has(b"io") || mapping.has(b"pf") {
        return Err("is the memory of a device");
    }
    if mapping.shared {
        return shared(mapping, files);
    }
    if path.is_empty() || named("[heap]") || named("[stack") || named("[anon:") {
        return Ok((Backing::Anonymous, Content::Own));
    }
    if named("[") {
        return Err("is a mapping of the kernel's, which no restart can bring back");
    }
    // Private memory that has a name only because of how it was made.
    if named("/dev/zero") || named("/anon_hugepage") {
        return Ok((Backing::Anonymous, Content::Own));
    }
    Ok(match same_file(mapping, files) {
        Some(identity) => {
            let backing = Backing::PrivateFile {
                path: path.to_owned(),
                offset: mapping.offset,
                identity,
            };
            (backing, Content::Own)
        }
        // Deleted, replaced, or not to be reached by this path: keep what it held.
        None => (Backing::Anonymous, Content::All),
    })
}

fn shared(
    mapping: &Mapping,
    files: &mut IdentityCache,
) -> std::result::Result<(Backing, Content), &'static str> {
    let named = |prefix: &str| mapping.path.starts_with(prefix.as_bytes());
    if named("/dev/zero") || named("[anon_shmem") {
        return Ok((Backing::SharedAnonymous, Content::All));
    }
    if named("/memfd:") || named("/SYSV") || named("/dev/shm/") {
        return Err("is memory shared with other processes, which Stasis cannot save yet");
    }
    let Some(identity) = same_file(mapping, files) else {
        return Err("is a shared mapping of something that is not a file under this name any more");
    };
    let backing = Backing::SharedFile {
        path: mapping.path.clone(),
        offset: mapping.offset,
        identity,
        writable: mapping.has(b"mw"),
    };
    Ok((backing, Content::None))
}

/// Identity of the mapped file, if the path still leads to that very file.
fn same_file(mapping: &Mapping, files: &mut IdentityCache) -> Option<Identity> {
    // The inode alone: on stacked file systems mapping and path name different devices.
    let (inode, identity) = files.at(&mapping.path)?;
    (*inode == mapping.inode).then(|| identity.clone())
}

/// This process's memory.
struct OwnMemory {
    mem: File,
    /// The pages asked for are there and can be read by load instructions.
    direct: bool,
    /// Where nothing can be read (past the end of a file), zeros are taken.
    holes: bool,
}

impl ReadMemory for OwnMemory {
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
        if self.direct {
            // SAFETY: see the head of this file; `into` is the lower half's, so they cannot
            // overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len());
            }
            return Ok(());
        }
        match self.mem.read_exact_at(into, address) {
            Err(_) if self.holes => {
                self.read_around_holes(address..address + into.len() as u64, into)
            }
            result => result,
        }
    }
}

impl OwnMemory {
    fn read_around_holes(&self, range: Range<u64>, into: &mut [u8]) -> io::Result<()> {
        for (page, address) in into
            .chunks_mut(PAGE as usize)
            .zip(range.step_by(PAGE as usize))
        {
            if self.mem.read_exact_at(page, address).is_err() {
                page.fill(0);
            }
        }
        Ok(())
    }
}
