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
#[path = "save/shared.rs"]
mod shared;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ckpt_image::{
    image_file, kind, Advice, Backing, Compression, Disk, Environment, Header, Identity,
    IdentityCache, ImageError, ImageSummary, ImageWriter, ReadMemory, Region, Result, SetId,
    SharedObject, SHARED_CONTENT,
};

use maps::Mapping;
use pages::Pages;
use shared::{Object, Objects, What};

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

/// What a rank is told about an object of which [`Plan::parts`] has named parts.
#[derive(Clone, Debug)]
pub struct Share {
    /// The object's name.
    pub object: String,
    /// The parts that this rank is to store.
    pub store: Vec<Range<u64>>,
    /// Process ids of all ranks that have it.
    pub processes: Vec<u32>,
}

/// How this process's memory is to be saved: made before anything is written, so that all that can
/// be refused is refused by then.
pub struct Plan {
    regions: Vec<(Region, Content)>,
    objects: Objects,
}

impl Plan {
    /// Looks at all mappings of the upper half, whose threads must stand still from now on until the
    /// plan was carried out. `shm_id` tells the application's id for the kernel's id of a System V
    /// segment.
    pub fn make(shm_id: fn(i32) -> i32) -> Result<Plan> {
        let failed = |action| move |source| look_failed(action, source);
        let mappings =
            maps::below(contract::ARENA_END as u64).map_err(failed("list mappings in"))?;
        let mut looked = Look {
            files: IdentityCache::default(),
            objects: Objects::new(shm_id).map_err(failed("find out about"))?,
            aliased: aliased(&mappings),
        };
        let regions = mappings
            .iter()
            .map(|mapping| looked.region(mapping))
            .collect::<Result<Vec<_>>>()?;
        Ok(Plan {
            regions,
            objects: looked.objects,
        })
    }

    /// The parts of shared objects that can be read here, by the objects' names.
    pub fn parts(&self) -> Vec<(String, Range<u64>)> {
        let objects = self.objects.all().iter();
        objects
            .flat_map(|object| {
                let name = &object.described.id;
                object
                    .readable()
                    .into_iter()
                    .map(|part| (name.clone(), part))
            })
            .collect()
    }

    /// The object that is the file of this device and inode.
    pub fn object(&self, dev: u64, ino: u64) -> Option<&SharedObject> {
        let mut objects = self.objects.all().iter();
        let found = objects.find(|object| object.is(dev, ino))?;
        Some(&found.described)
    }

    /// Writes this rank's image through `disk` into `dir`, an unfinished set, and makes it durable. `sections` are
    /// `(kind, version, content)`; the environment's is added here. Returns also what people should
    /// know about it.
    pub fn save(
        &self,
        disk: &Disk,
        dir: &Path,
        info: &HeaderInfo,
        sections: &[(u32, u32, Vec<u8>)],
        shares: &[Share],
    ) -> Result<(ImageSummary, Vec<String>)> {
        let path = dir.join(image_file(info.rank));
        let failed = |action| {
            let path = path.clone();
            move |source: io::Error| ImageError::Io {
                action,
                path,
                source,
            }
        };
        let notes = self.meet_others(shares)?;
        let pages = Pages::open().map_err(failed("open /proc/self/pagemap for"))?;
        let mut memory = OwnMemory {
            mem: File::open("/proc/self/mem").map_err(failed("open /proc/self/mem for"))?,
            direct: false,
            holes: false,
        };
        let mut writer = ImageWriter::create(disk, &path, header(info), info.compression)?;
        for (region, content) in &self.regions {
            let range = region.start..region.end();
            let runs = match content {
                Content::None => Vec::new(),
                Content::All => vec![range],
                Content::Own => pages.own(range).map_err(failed(
                    "ask which pages are in use (/proc/self/pagemap) for",
                ))?,
            };
            memory.holes = *content == Content::All;
            memory.direct = !memory.holes && region.prot & 1 != 0;
            writer.region(region.clone(), &runs, &mut memory)?;
        }
        self.store(shares, &memory.mem, &mut writer)?;
        let environment = Environment::here().map_err(failed("describe this machine for"))?;
        let environment = postcard::to_stdvec(&environment)
            .map_err(|e| failed("describe this machine for")(io::Error::other(e)))?;
        writer.section(kind::ENVIRONMENT, 1, environment);
        for (kind, version, bytes) in sections {
            writer.section(*kind, *version, bytes.clone());
        }
        Ok((writer.finish()?, notes))
    }

    /// The first of the ranks that have an object sees to it that nobody else has it. Returns what
    /// is to be said about the processes that the job itself has made.
    fn meet_others(&self, shares: &[Share]) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        for (_, object, share) in self.shared(shares) {
            if share.processes.first() != Some(&std::process::id()) {
                continue;
            }
            let others = object
                .others(&share.processes)
                .map_err(|why| object.unsaveable(why))?;
            let what = object.described.kind.describe();
            notes.extend(others.into_iter().map(|process| {
                format!("{what} is also mapped by child process {process}, which is not saved")
            }));
        }
        Ok(notes)
    }

    /// The objects of which there is a share, with their indices.
    fn shared<'a>(
        &'a self,
        shares: &'a [Share],
    ) -> impl Iterator<Item = (u32, &'a Object, &'a Share)> {
        (0..).zip(self.objects.all()).filter_map(|(index, object)| {
            let of_it = |share: &&Share| share.object == object.described.id;
            Some((index, object, shares.iter().find(of_it)?))
        })
    }

    /// Writes the list of shared objects, and this rank's part of their content.
    fn store(&self, shares: &[Share], mem: &File, writer: &mut ImageWriter) -> Result<()> {
        let described = self.objects.all().iter().map(|o| o.described.clone());
        writer.shared(described.collect());
        let mut at = SHARED_CONTENT;
        let shared = self.shared(shares);
        for (index, object, share) in shared.filter(|(_, _, share)| !share.store.is_empty()) {
            let file = object
                .open()
                .map_err(|e| object.unsaveable(format!("cannot be read: {e}")))?;
            for part in &share.store {
                let region = Region {
                    start: at,
                    len: part.end - part.start,
                    prot: 0,
                    grows_down: false,
                    no_reserve: false,
                    advice: Advice::default(),
                    backing: Backing::SharedContent {
                        object: index,
                        offset: part.start,
                    },
                };
                let origin = at.wrapping_sub(part.start);
                let runs: Vec<Range<u64>> = object
                    .content(part.clone(), file.as_ref())
                    .into_iter()
                    .map(|run| origin.wrapping_add(run.start)..origin.wrapping_add(run.end))
                    .collect();
                at = region.end();
                let mut content = shared::Content {
                    object,
                    file: file.as_ref(),
                    origin,
                    mem,
                };
                writer.region(region, &runs, &mut content)?;
            }
        }
        Ok(())
    }
}

fn header(info: &HeaderInfo) -> Header {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Header {
        set_id: info.set_id,
        epoch: info.epoch,
        rank: info.rank,
        world_size: info.world_size,
        contract_version: contract::VERSION,
        page_size: PAGE as u32,
        abi: info.abi.clone(),
        created_ns: now.map_or(0, |since| since.as_nanos() as u64),
    }
}

fn look_failed(action: &'static str, source: io::Error) -> ImageError {
    ImageError::Io {
        action,
        path: PathBuf::from("/proc/self/smaps"),
        source,
    }
}

/// Device and inode of what has several shared mappings.
fn aliased(mappings: &[Mapping]) -> BTreeSet<(String, u64)> {
    let mut seen = BTreeSet::new();
    let shared = mappings.iter().filter(|m| m.shared && m.inode != 0);
    shared
        .map(|m| (m.device.clone(), m.inode))
        .filter(|key| !seen.insert(key.clone()))
        .collect()
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

/// What is known while the mappings are looked at.
struct Look {
    files: IdentityCache,
    objects: Objects,
    aliased: BTreeSet<(String, u64)>,
}

impl Look {
    /// How a mapping is recorded, or why it cannot be.
    fn region(&mut self, mapping: &Mapping) -> Result<(Region, Content)> {
        let (backing, content) = self
            .backing(mapping)
            .map_err(|why| ImageError::Unsaveable {
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
        &mut self,
        mapping: &Mapping,
    ) -> std::result::Result<(Backing, Content), shared::Refusal> {
        let named = |prefix: &str| mapping.path.starts_with(prefix.as_bytes());
        if mapping.has(b"io") || mapping.has(b"pf") {
            return Err("is the memory of a device".to_owned());
        }
        if mapping.shared {
            return self.shared(mapping);
        }
        if mapping.path.is_empty() || named("[heap]") || named("[stack") || named("[anon:") {
            return Ok((Backing::Anonymous, Content::Own));
        }
        if named("[") {
            return Err("is a mapping of the kernel's, which no restart can bring back".to_owned());
        }
        // Private memory that has a name only because of how it was made.
        if named("/dev/zero") || named("/anon_hugepage") {
            return Ok((Backing::Anonymous, Content::Own));
        }
        Ok(match same_file(mapping, &mut self.files) {
            Some(identity) => {
                let backing = Backing::PrivateFile {
                    path: mapping.path.clone(),
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
        &mut self,
        mapping: &Mapping,
    ) -> std::result::Result<(Backing, Content), shared::Refusal> {
        let named = |prefix: &str| mapping.path.starts_with(prefix.as_bytes());
        if mapping.has(b"ht") {
            return Err("is shared memory of huge pages, which Stasis cannot save yet".to_owned());
        }
        let anonymous = named("/dev/zero") || named("[anon_shmem");
        let key = (mapping.device.clone(), mapping.inode);
        if anonymous && !self.aliased.contains(&key) {
            return Ok((Backing::SharedAnonymous, Content::All));
        }
        let identity = same_file(mapping, &mut self.files);
        let what = match identity {
            _ if named("/SYSV") => What::SystemV,
            Some(_) if named("/dev/shm/") => What::Named,
            Some(identity) => {
                let writable = mapping.has(b"mw");
                if writable {
                    self.objects.index(mapping, What::File)?;
                }
                let backing = Backing::SharedFile {
                    path: mapping.path.clone(),
                    offset: mapping.offset,
                    identity,
                    writable,
                };
                return Ok((backing, Content::None));
            }
            None if anonymous || named("/memfd:") || mapping.path.ends_with(b" (deleted)") => {
                What::Memory
            }
            None => {
                return Err(
                    "is a shared mapping of something that is not a file under this name \
                            any more"
                        .to_owned(),
                )
            }
        };
        let backing = Backing::Shared {
            object: self.objects.index(mapping, what)?,
            offset: mapping.offset,
            writable: mapping.has(b"mw"),
        };
        Ok((backing, Content::None))
    }
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
