//! Saving the upper half: every mapping below `contract::ARENA_END`, into this rank's image.
//!
//! Called while every thread of the upper half is parked. The address is the ledger: the kernel's
//! list of mappings says what there is, nothing is kept beside it.
//!
//! The threads stand still until the image is written, or only until the memory is copied: what is
//! private to the process by `twin.rs`, page by page as it changes, which may write itself (`scribe.rs`), all else
//! by `by_hand.rs`; unless `room.rs` finds that the machine cannot bear that. Of an increment only those pages
//! are read and written that have changed, which `changes.rs` tells.
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
#[path = "save/by_hand.rs"]
mod by_hand;
#[path = "save/changes.rs"]
mod changes;
#[path = "save/maps.rs"]
mod maps;
#[path = "save/pages.rs"]
mod pages;
#[path = "save/room.rs"]
mod room;
#[path = "save/runs.rs"]
mod runs;
#[path = "save/scribe.rs"]
mod scribe;
#[path = "save/shared.rs"]
mod shared;
#[path = "save/twin.rs"]
mod twin;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ckpt_image::{
    image_file, kind, Advice, Backing, Compression, Disk, Environment, Header, Identity,
    IdentityCache, ImageError, ImageSummary, ImageWriter, Inherited, ReadMemory, Region, Result,
    SetId, SharedObject, Span, WriteOrder, SHARED_CONTENT,
};

use by_hand::{ByHand, Pool, Uncopied};
pub use changes::Changes;
use maps::Mapping;
use pages::{Marked, Pages};
pub use room::Room;
use shared::{Object, Objects, What};
use twin::Twin;

const PAGE: u64 = ckpt_image::PAGE;
/// So many pages the kernel forks (25 ms for a GiB) while one is copied by hand (0.3 s for a GiB).
const FORKED_MEANWHILE: u64 = 12;
/// What a process changes while it does nothing else.
const MORE: u64 = 1 << 20;

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
    /// Whether the set will be sealed.
    pub sealed: bool,
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

/// How long the threads stand still.
pub enum Pause<'a> {
    /// Until the image is on disk, because of this.
    Stop(String),
    /// Until the memory is copied, if there is room for that.
    Copy {
        /// How much may be taken at worst.
        room: Room,
        /// Set when the image is not wanted any more.
        given_up: &'a AtomicBool,
    },
}

/// What is to be written, and where.
pub struct Order<'a> {
    /// What everything is written through.
    pub disk: &'a Disk,
    /// An unfinished set.
    pub dir: &'a Path,
    /// About the job.
    pub info: &'a HeaderInfo,
    /// `(kind, version, content)`; the environment's is added.
    pub sections: &'a [(u32, u32, Vec<u8>)],
    /// What to do about shared objects.
    pub shares: &'a [Share],
    /// How long the threads stand still.
    pub pause: Pause<'a>,
    /// What has changed since older sets; none where every set is a full one.
    pub increments: Option<Increments<'a>>,
}

/// What an increment is made by.
pub struct Increments<'a> {
    /// The watch over the memory.
    pub changes: &'a Changes,
    /// The set to build upon; none for a full one, upon which later ones may build.
    pub parent: Option<SetId>,
}

impl Order<'_> {
    /// Where the image goes.
    fn path(&self) -> PathBuf {
        self.dir.join(image_file(self.info.rank))
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> ImageError {
        let path = self.path();
        move |source| ImageError::Io {
            action,
            path,
            source,
        }
    }
}

/// What was written.
#[derive(Debug)]
pub struct Saved {
    /// The image.
    pub image: ImageSummary,
    /// What people should know about it.
    pub notes: Vec<String>,
    /// Why the threads had to stand still until the end; none if the memory was copied.
    pub stood: Option<String>,
    /// The image inherits from the parent that was given.
    pub inherits: bool,
}

/// What is known of the application beside its mappings.
#[derive(Clone, Copy)]
pub struct Application {
    /// Its id for the kernel's id of a System V segment.
    pub shm_id: fn(i32) -> i32,
    /// Whether Stasis itself has given it the file of this path. Such a file is stored with the memory: a
    /// restart may be by a Stasis that lies elsewhere, or that is a newer one.
    pub is_ours: fn(&[u8]) -> bool,
}

/// The mappings of the upper half as they were while its threads still ran. To list them and to mark their
/// pages takes the longer the more memory there is, so it is better done before everybody waits for it.
pub struct Ahead {
    mappings: Vec<Mapping>,
    /// Memory for what the next increment will hold, if that is little.
    pool: Option<Pool>,
}

impl Ahead {
    /// Looks at them. `changes` is told what has changed until now, so that little is left to be told at the
    /// cut. Of the `room`, if the threads are not to stand still until the end, some is taken for copies.
    pub fn look(
        application: &Application,
        changes: Option<&Changes>,
        room: Option<&Room>,
    ) -> Result<Ahead> {
        let mut ahead = Ahead {
            mappings: Ahead::list()?,
            pool: None,
        };
        // Mappings that are watched from now on may have become one with others.
        if changes.is_some_and(|changes| ahead.mark(application, changes, room)) {
            ahead.mappings = Ahead::list()?;
        }
        Ok(ahead)
    }

    fn list() -> Result<Vec<Mapping>> {
        let listed = maps::below(contract::ARENA_END as u64);
        listed.map_err(|source| look_failed("list mappings in", source))
    }

    /// Whether the kernel watches for writes where it did not. Of what cannot be told here nothing is known
    /// from now on, and the cut says why.
    fn mark(&mut self, application: &Application, changes: &Changes, room: Option<&Room>) -> bool {
        if changes.blind().is_some() {
            changes.forget();
            return false;
        }
        let (Ok(pages), Ok(plan)) = (Pages::open(), Plan::of(&self.mappings, application)) else {
            return false;
        };
        let (mut unchanged, mut held, mut new) = (Vec::new(), 0, false);
        for looked in &plan.regions {
            if let Ok(Some(marked)) = looked.mark(&pages, changes) {
                unchanged.extend(marked.unchanged);
                held += runs::bytes(&marked.own);
                new |= looked.watch == Watch::New;
            }
        }
        changes.narrow(&unchanged);
        let changed = held.saturating_sub(changes.kept());
        // Some more changes until the cut.
        let likely = changed + changed / 4 + MORE;
        let plenty = room.is_some_and(|room| likely < room.bytes / 2);
        if plenty && !forking_is_faster(held, likely) {
            self.pool = Pool::filled(likely);
        }
        new
    }

    /// The same mappings, if the kernel tells the same of them, as far as it does so quickly.
    fn confirmed(self) -> io::Result<Option<Vec<Mapping>>> {
        let still = maps::still(&self.mappings, contract::ARENA_END as u64)?;
        Ok(still.then_some(self.mappings))
    }
}

/// How this process's memory is to be saved: made before anything is written, so that all that can
/// be refused is refused by then.
pub struct Plan {
    regions: Vec<Looked>,
    objects: Objects,
    /// Memory for a copy, which whoever makes it takes.
    pool: Mutex<Option<Pool>>,
}

/// A mapping as it will be recorded.
struct Looked {
    region: Region,
    content: Content,
    /// A child made by `fork` has its content as it is at the fork.
    forks: bool,
    /// Whoever has it can read what it holds by load instructions.
    readable: bool,
    /// Whether the kernel can tell which pages were written.
    watch: Watch,
}

impl Looked {
    /// What is to be stored of it if nothing is inherited. What `changes` tells of that is added to
    /// `marked`.
    fn runs(
        &self,
        pages: &Pages,
        changes: Option<&Changes>,
        marked: &mut Marked,
    ) -> io::Result<Vec<Range<u64>>> {
        let found = changes.map(|changes| self.mark(pages, changes));
        if let Some(found) = found.transpose()?.flatten() {
            marked.own.extend_from_slice(&found.own);
            marked.unchanged.extend(found.unchanged);
            return Ok(found.own);
        }
        match self.content {
            Content::None => Ok(Vec::new()),
            Content::All | Content::Ours => Ok(vec![self.range()]),
            Content::Own => pages.own(self.range(), self.anonymous()),
        }
    }

    /// What is known about changes of it, if anything is. The kernel watches from now on, if it can.
    fn mark(&self, pages: &Pages, changes: &Changes) -> io::Result<Option<Marked>> {
        let watched = match (self.content, self.watch) {
            // What a file of ours holds has not changed since it was mapped.
            (Content::Ours, _) if !pages.any(self.range(), false)? => {
                return Ok(Some(Marked {
                    own: vec![self.range()],
                    unchanged: vec![self.range()],
                }));
            }
            (_, Watch::Watched) => true,
            (_, Watch::New) if pages.any(self.range(), self.anonymous())? => false,
            _ => return Ok(None),
        };
        // What cannot be watched is stored.
        Ok(changes
            .mark(pages, self.range(), self.anonymous(), watched)
            .ok())
    }

    fn range(&self) -> Range<u64> {
        self.region.start..self.region.end()
    }

    /// No file is behind it.
    fn anonymous(&self) -> bool {
        self.content == Content::Own && self.region.backing == Backing::Anonymous
    }
}

/// Whether writes to a mapping are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// They cannot be.
    Never,
    /// They can be from now on.
    New,
    /// They have been.
    Watched,
}

/// A region of the image and where its content is.
struct Part {
    region: Region,
    /// What is to be stored.
    runs: Vec<Range<u64>>,
    /// Bytes of content, with what is inherited.
    held: u64,
    place: Place,
}

/// Where the content of a part can be read while the threads stand still.
enum Place {
    /// In this process's memory.
    Memory {
        /// There may be pages that cannot be read (past the end of a file).
        holes: bool,
        /// All of it can be read by load instructions.
        readable: bool,
        /// Also in a copy of it.
        forks: bool,
    },
    /// In an object, whose first byte has this address (wrapping: parts begin further on).
    Object { index: u32, origin: u64 },
}

impl Plan {
    fn pool(&self) -> Option<Pool> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.take()
    }

    /// Looks at all mappings of the upper half, whose threads must stand still from now on until the
    /// plan was carried out. What was seen `ahead` is to be left away if the application may have changed
    /// mappings since.
    pub fn make(application: &Application, mut ahead: Option<Ahead>) -> Result<Plan> {
        let pool = ahead.as_mut().and_then(|ahead| ahead.pool.take());
        let mappings = match ahead.map(Ahead::confirmed) {
            Some(Ok(Some(mappings))) => mappings,
            _ => Ahead::list()?,
        };
        Ok(Plan {
            pool: Mutex::new(pool),
            ..Plan::of(&mappings, application)?
        })
    }

    /// For these mappings.
    fn of(mappings: &[Mapping], application: &Application) -> Result<Plan> {
        let failed = |source| look_failed("find out about", source);
        let mut looked = Look {
            files: IdentityCache::default(),
            objects: Objects::new(application.shm_id).map_err(failed)?,
            aliased: aliased(mappings),
            is_ours: application.is_ours,
        };
        let regions = mappings
            .iter()
            .map(|mapping| looked.region(mapping))
            .collect::<Result<Vec<_>>>()?;
        Ok(Plan {
            regions,
            objects: looked.objects,
            pool: Mutex::default(),
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

    /// Writes this rank's image and makes it durable. Calls `copied` as soon as nothing reads the threads'
    /// memory any more: before the image is written, if it can be copied.
    pub fn save(&self, order: &Order<'_>, copied: impl FnOnce()) -> Result<Saved> {
        let mut notes = self.meet_others(order.shares)?;
        let Contents {
            parts,
            inherited,
            note,
        } = self.contents(order)?;
        notes.extend(note);
        let inherits = inherited.is_some();
        let mem = File::open("/proc/self/mem");
        let still = Still {
            plan: self,
            mem: &mem.map_err(order.failed("open /proc/self/mem for"))?,
        };
        let (image, stood) = match still.copies(&parts, &order.pause) {
            Ok(copies) => {
                copied();
                let image = self.write(order, &parts, inherited, copies)?;
                (image, None)
            }
            Err(why) => {
                let image = self.write(order, &parts, inherited, still)?;
                copied();
                (image, Some(why))
            }
        };
        if let Some(increments) = &order.increments {
            increments.changes.written(order.info.set_id, &image.digest);
        }
        Ok(Saved {
            image,
            notes,
            stood,
            inherits,
        })
    }

    /// What goes into the image and what is left to its parent.
    fn contents(&self, order: &Order<'_>) -> Result<Contents> {
        let Some(Increments { changes, parent }) = &order.increments else {
            let parts = self.parts_of_image(order, None)?.0;
            return Ok(Contents::whole(parts, None));
        };
        if let Some(why) = changes.blind() {
            changes.forget();
            let parts = self.parts_of_image(order, None)?.0;
            let note = parent.map(|_| format!("all of its memory is stored: {why}"));
            return Ok(Contents::whole(parts, note));
        }
        // What was marked is lost if that of all is not told.
        let looked = self.parts_of_image(order, Some(changes));
        let (mut parts, marked) = looked.inspect_err(|_| changes.forget())?;
        let Some(inherited) = changes.cut(order.info.set_id, *parent, marked) else {
            let note = parent.map(|_| {
                "all of its memory is stored: of nothing is it known that it has not changed"
                    .to_owned()
            });
            return Ok(Contents::whole(parts, note));
        };
        for part in &mut parts {
            part.runs = runs::minus(&part.runs, &inherited.runs);
        }
        Ok(Contents {
            parts,
            inherited: Some(inherited),
            note: None,
        })
    }

    /// All regions with what they hold, in the order of the image; and what `changes` tells of them.
    fn parts_of_image(
        &self,
        order: &Order<'_>,
        changes: Option<&Changes>,
    ) -> Result<(Vec<Part>, Marked)> {
        let pages = Pages::open().map_err(order.failed("open /proc/self/pagemap for"))?;
        let (mut parts, mut marked) = (Vec::new(), Marked::default());
        for looked in &self.regions {
            let runs = looked
                .runs(&pages, changes, &mut marked)
                .map_err(order.failed("ask which pages are in use (/proc/self/pagemap) for"))?;
            parts.push(Part {
                region: looked.region.clone(),
                held: runs::bytes(&runs),
                runs,
                place: Place::Memory {
                    holes: looked.content == Content::All,
                    readable: looked.readable,
                    forks: looked.forks,
                },
            });
        }
        self.stored_here(order.shares, &mut parts)?;
        Ok((parts, marked))
    }

    /// Writes what `source` tells of the parts.
    fn write(
        &self,
        order: &Order<'_>,
        parts: &[Part],
        inherited: Option<Inherited>,
        source: impl Source,
    ) -> Result<ImageSummary> {
        let (info, path) = (order.info, order.path());
        let mut writer = ImageWriter::create(order.disk, &path, header(info), info.compression)?;
        if info.sealed {
            writer.sealed();
        }
        for part in parts {
            let mut memory = source.of(part)?;
            writer.region(part.region.clone(), &part.runs, &mut *memory)?;
        }
        source
            .check()
            .map_err(order.failed("read the memory for"))?;
        // Copies are needed no longer.
        drop(source);
        if let Some(inherited) = inherited {
            writer.inherit(inherited);
        }
        let described = self.objects.all().iter().map(|o| o.described.clone());
        writer.shared(described.collect());
        let undescribed = || order.failed("describe this machine for");
        let environment = Environment::here().map_err(undescribed())?;
        let environment =
            postcard::to_stdvec(&environment).map_err(|e| undescribed()(io::Error::other(e)))?;
        writer.section(kind::ENVIRONMENT, 1, environment);
        for (kind, version, bytes) in order.sections {
            writer.section(*kind, *version, bytes.clone());
        }
        writer.finish()
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

    /// Adds this rank's part of the content of shared objects.
    fn stored_here(&self, shares: &[Share], parts: &mut Vec<Part>) -> Result<()> {
        let mut at = SHARED_CONTENT;
        let shared = self.shared(shares);
        for (index, object, share) in shared.filter(|(_, _, share)| !share.store.is_empty()) {
            let file = object.open()?;
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
                let runs = object.content(part.clone(), file.as_ref()).into_iter();
                let runs: Vec<_> = runs
                    .map(|run| origin.wrapping_add(run.start)..origin.wrapping_add(run.end))
                    .collect();
                at = region.end();
                let place = Place::Object { index, origin };
                parts.push(Part {
                    region,
                    held: runs::bytes(&runs),
                    runs,
                    place,
                });
            }
        }
        Ok(())
    }
}

/// Where the content of parts is read.
trait Source {
    /// The memory in which a part's addresses mean what they do in the image.
    fn of<'a>(&'a self, part: &'a Part) -> Result<Box<dyn ReadMemory + 'a>>;

    /// Fails if what was read cannot be trusted.
    fn check(&self) -> io::Result<()>;
}

/// The process itself, whose threads stand still.
struct Still<'a> {
    plan: &'a Plan,
    /// /proc/self/mem.
    mem: &'a File,
}

impl Source for Still<'_> {
    fn of<'a>(&'a self, part: &'a Part) -> Result<Box<dyn ReadMemory + 'a>> {
        let mem = self.mem;
        Ok(match part.place {
            Place::Memory {
                holes, readable, ..
            } => Box::new(OwnMemory {
                mem,
                direct: readable,
                holes,
            }),
            Place::Object { index, origin } => {
                let object = &self.plan.objects.all()[index as usize];
                Box::new(shared::Content {
                    object,
                    file: object.open()?,
                    origin,
                    mem,
                })
            }
        })
    }

    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Still<'_> {
    /// Copies all parts, or says why not.
    fn copies<'a>(
        &self,
        parts: &[Part],
        pause: &'a Pause<'_>,
    ) -> std::result::Result<Copies<'a>, String> {
        let (room, given_up) = match pause {
            Pause::Stop(why) => return Err(why.clone()),
            Pause::Copy { room, given_up } => (room, *given_up),
        };
        let fork = forks(parts);
        let by_fork = |part: &&Part| fork && part.forks();
        // Whatever is stored of it, all of it may come to be there twice.
        let forked: u64 = parts.iter().filter(by_fork).map(|part| part.held).sum();
        let scarce = || {
            format!(
                "memory is too scarce to copy {} MiB on write, and what is shared: {} MiB are to be \
                 had ({})",
                forked >> 20,
                room.bytes >> 20,
                room.limit
            )
        };
        let mut left = room.bytes.checked_sub(forked).ok_or_else(scarce)?;
        let uncopied = |why| match why {
            Uncopied::NoRoom => scarce(),
            Uncopied::Unreadable(e) => format!("memory cannot be copied: {e}"),
        };
        let others = || parts.iter().filter(|part| !by_fork(part));
        let bytes: u64 = others().map(|part| runs::bytes(&part.runs)).sum();
        let mut by_hand = ByHand::new(bytes.min(left), self.plan.pool()).map_err(uncopied)?;
        for part in others() {
            let mut memory = self.of(part).map_err(|e| e.to_string())?;
            let added = by_hand.add(&mut *memory, &part.runs, &mut left);
            added.map_err(uncopied)?;
        }
        let private = fork.then(|| self.twin(parts)).transpose()?;
        Ok(Copies {
            private,
            by_hand,
            given_up,
        })
    }

    /// A copy of the process that has all that `fork` copies of the parts.
    fn twin(&self, parts: &[Part]) -> std::result::Result<Twin, String> {
        let alone = Withheld::make(parts);
        let twin = Twin::make().and_then(|twin| Ok((twin.mappings()?, twin)));
        drop(alone);
        let (mappings, twin) =
            twin.map_err(|e| format!("the memory cannot be copied on write: {e}"))?;
        match parts.iter().find(|part| part.lacks(&mappings)) {
            Some(Part { region, .. }) => Err(format!(
                "the copy of the process lacks the memory at {:#x} ({} KiB)",
                region.start,
                region.len >> 10
            )),
            None => Ok(twin),
        }
    }
}

/// Whether a fork takes less time than to copy what is stored of the parts. Of a small increment it does not,
/// and whoever writes to its memory afterwards need not wait for the kernel to copy pages.
fn forks(parts: &[Part]) -> bool {
    let (mut held, mut stored) = (0, 0);
    for part in parts.iter().filter(|part| part.forks()) {
        held += part.held;
        stored += runs::bytes(&part.runs);
    }
    forking_is_faster(held, stored)
}

/// ... than to copy so much of so much.
fn forking_is_faster(held: u64, stored: u64) -> bool {
    stored > held / FORKED_MEANWHILE
}

/// What an image consists of.
struct Contents {
    parts: Vec<Part>,
    inherited: Option<Inherited>,
    /// What people should know about it.
    note: Option<String>,
}

impl Contents {
    /// Nothing is inherited.
    fn whole(parts: Vec<Part>, note: Option<String>) -> Contents {
        Contents {
            parts,
            inherited: None,
            note,
        }
    }
}

impl Part {
    /// Its content is in a copy that `fork` makes.
    fn forks(&self) -> bool {
        matches!(self.place, Place::Memory { forks: true, .. })
    }

    /// It is a mapping of which nothing is read in a copy, and which is more than memory.
    fn is_unread(&self) -> bool {
        let file = matches!(self.region.backing, Backing::PrivateFile { .. });
        match self.place {
            Place::Memory { forks, .. } => !forks || file && self.runs.is_empty(),
            Place::Object { .. } => false,
        }
    }

    /// It should be in a copy with these mappings, in ascending order, and is not: what the lower half has
    /// registered with a device since the mappings were looked at may have been kept out of children.
    fn lacks(&self, copied: &[Range<u64>]) -> bool {
        self.forks() && !runs::minus(&self.runs, copied).is_empty()
    }
}

/// Mappings of which nothing is read in a copy, kept out of the children that are made meanwhile: a copy is no
/// process with which memory is shared, and does not count as attached to a System V segment; and a file is
/// open as long as it is mapped.
struct Withheld<'a>(Vec<&'a Region>);

impl<'a> Withheld<'a> {
    fn make(parts: &'a [Part]) -> Withheld<'a> {
        let unread = parts.iter().filter(|part| part.is_unread());
        let regions = unread
            .map(|part| &part.region)
            .filter(|region| !region.advice.dont_fork && advise(region, libc::MADV_DONTFORK));
        Withheld(regions.collect())
    }
}

impl Drop for Withheld<'_> {
    fn drop(&mut self) {
        for region in &self.0 {
            advise(region, libc::MADV_DOFORK);
        }
    }
}

/// Whether the kernel takes the advice.
fn advise(region: &Region, advice: libc::c_int) -> bool {
    // SAFETY: of a mapping of the upper half, whose threads stand still; its content stays as it is.
    unsafe {
        libc::madvise(
            region.start as *mut libc::c_void,
            region.len as usize,
            advice,
        ) == 0
    }
}

/// The memory as it was when the copies were made.
struct Copies<'a> {
    /// None where all was copied by hand.
    private: Option<Twin>,
    /// What that has not.
    by_hand: ByHand,
    given_up: &'a AtomicBool,
}

impl Source for Copies<'_> {
    fn of<'a>(&'a self, part: &'a Part) -> Result<Box<dyn ReadMemory + 'a>> {
        Ok(match &self.private {
            Some(twin) if part.forks() => Box::new(Frozen {
                twin,
                given_up: self.given_up,
                readable: matches!(part.place, Place::Memory { readable: true, .. }),
            }),
            _ => Box::new(&self.by_hand),
        })
    }

    fn check(&self) -> io::Result<()> {
        self.private.as_ref().map_or(Ok(()), Twin::check)
    }
}

/// Memory that the twin has.
struct Frozen<'a> {
    twin: &'a Twin,
    given_up: &'a AtomicBool,
    /// The twin itself can read it.
    readable: bool,
}

impl Frozen<'_> {
    /// What was asked of the twin, if it is wanted and was done.
    fn asked<T>(&self, ask: impl FnOnce(&Twin) -> io::Result<T>) -> io::Result<T> {
        if self.given_up.load(Ordering::Relaxed) {
            return Err(io::Error::other("the checkpoint was given up"));
        }
        // Why it cannot be done says more than that it cannot.
        ask(self.twin).or_else(|error| self.twin.check().and(Err(error)))
    }
}

impl ReadMemory for Frozen<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.asked(|twin| twin.read(address, into))
    }

    fn writes(&self) -> bool {
        self.readable
    }

    fn write(&mut self, order: &WriteOrder<'_>) -> io::Result<Vec<Span>> {
        self.asked(|twin| twin.write(order))
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
    /// Everything, of a file of ours.
    Ours,
    /// Everything: what stood behind it will not be there.
    All,
}

/// What is known while the mappings are looked at.
struct Look {
    files: IdentityCache,
    objects: Objects,
    aliased: BTreeSet<(String, u64)>,
    is_ours: fn(&[u8]) -> bool,
}

impl Look {
    /// How a mapping is recorded, or why it cannot be.
    fn region(&mut self, mapping: &Mapping) -> Result<Looked> {
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
        // Pages of the file itself another process may change. Huge pages set aside for this process
        // are taken from a child when they run out.
        let forks = matches!(content, Content::Own | Content::Ours)
            && !region.advice.dont_fork
            && !region.advice.wipe_on_fork
            && !mapping.has(b"ht");
        let readable = content != Content::All && mapping.prot & 1 != 0 && !mapping.keyed;
        let watch = match mapping.has(b"uw") {
            _ if content != Content::Own || mapping.has(b"ht") => Watch::Never,
            true => Watch::Watched,
            false => Watch::New,
        };
        Ok(Looked {
            region,
            content,
            forks,
            readable,
            watch,
        })
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
            Some(_) if (self.is_ours)(&mapping.path) => (Backing::Anonymous, Content::Ours),
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
struct OwnMemory<'a> {
    mem: &'a File,
    /// The pages asked for are there and can be read by load instructions.
    direct: bool,
    /// Where nothing can be read (past the end of a file), zeros are taken.
    holes: bool,
}

impl ReadMemory for OwnMemory<'_> {
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

impl OwnMemory<'_> {
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
