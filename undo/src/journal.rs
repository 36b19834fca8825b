//! Writer of a journal: records of the old state before the job changes it.
//!
//! A failure here never fails the program. A file whose old state cannot be recorded is *lost*: the journal reports it
//! at once ([`Journal::take_messages`]), and a restart treats the file as if there were no journal.

use crate::blocks::Blocks;
use crate::record::{self, encode, encode_into, now, Cut, Identity, Record, State, VERSION};
use crate::segment::{self, Segment, LOG};
use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Maximum of one read of a file, in bytes.
const PIECE: u64 = 1 << 20;
/// Maximum number of lost files named in messages; the others are only in the journal.
const NAMED: u32 = 5;

/// Current state of a regular file or a directory.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Identity of the file.
    pub identity: Identity,
    /// Length in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Number of names (hard links).
    pub links: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
}

impl Facts {
    /// Those of a file that was found by its name.
    pub fn found(identity: Identity, found: &Metadata) -> Facts {
        Facts {
            identity,
            size: found.len(),
            mode: found.mode(),
            links: found.nlink(),
            modified: nanoseconds(found.mtime(), found.mtime_nsec()),
        }
    }

    /// Those of an open file.
    pub fn open(identity: Identity, found: &libc::stat) -> Facts {
        Facts {
            identity,
            size: found.st_size as u64,
            mode: found.st_mode,
            links: found.st_nlink,
            modified: nanoseconds(found.st_mtime, found.st_mtime_nsec),
        }
    }

    /// The part that is remembered of each file at a cut.
    pub fn at_cut(&self) -> AtCut {
        AtCut {
            size: self.size,
            modified: self.modified,
        }
    }
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// State at the cut of a file that was open or known then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtCut {
    /// Length in bytes.
    pub size: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
}

/// Current target of a name.
#[derive(Clone, Debug)]
pub enum Current {
    /// Nothing.
    Absent,
    /// A regular file.
    File(Facts),
    /// A directory.
    Directory(Facts),
    /// A symbolic link with this target.
    Link(PathBuf),
    /// A pipe, a device or a socket, which cannot be restored.
    Other,
}

/// A name and its scope.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Absolute path without links, except perhaps in its last component.
    pub name: &'a Path,
    /// Whether only this host can reach the file system.
    pub local: bool,
}

/// State of a file in this segment.
enum Known {
    /// Created by the job since the cut.
    Born,
    /// Existed at the cut.
    Old {
        number: u32,
        /// Length at the cut, in bytes.
        size: u64,
        saved: Blocks,
        /// Whether it has a second name in the segment.
        kept: bool,
        /// Whether a change without old content is recorded.
        touched: bool,
        /// Names by which it was opened.
        names: Vec<PathBuf>,
    },
    Lost,
}

/// Reads up to a number of bytes of a file from an offset on. If the file is shorter, another rank has cut off, and
/// recorded, the rest.
pub type Read<'a> = &'a dyn Fn(u64, usize) -> io::Result<Vec<u8>>;

/// Returns a file's absolute name. Called only for the first record of a file.
pub type Name<'a> = &'a dyn Fn() -> PathBuf;

/// Journal of one rank.
pub struct Journal {
    checkpoints: PathBuf,
    rank: u32,
    host: String,
    /// Maximum length of a segment, in bytes.
    limit: u64,
    turn: u64,
    /// Cut at which the segment begins; none before the first.
    cut: Option<Cut>,
    log: Option<Log>,
    /// Whether no segment can be written.
    broken: bool,
    files: HashMap<Identity, Known>,
    /// Names recorded since the last rename of a directory.
    names: HashSet<PathBuf>,
    /// Directory renames of the job at that time.
    moves: u64,
    /// Copies by overlayfs that the job had seen when a file was last recorded.
    copies: u64,
    /// States at the cut of the files that were open or known then.
    at_cut: HashMap<Identity, AtCut>,
    numbers: u32,
    lost: u32,
    messages: Vec<String>,
}

/// Log file of a segment that has records.
struct Log {
    directory: PathBuf,
    file: File,
    len: u64,
    /// Buffer in which records are encoded.
    room: Vec<u8>,
}

impl Journal {
    /// Journal of a rank, in the checkpoint directory. Records nothing before the first [`begin`](Self::begin).
    pub fn new(checkpoints: &Path, rank: u32, host: String, limit: u64) -> Journal {
        Journal {
            checkpoints: checkpoints.to_owned(),
            rank,
            host,
            limit,
            turn: 0,
            cut: None,
            log: None,
            broken: false,
            files: HashMap::new(),
            names: HashSet::new(),
            moves: 0,
            copies: 0,
            at_cut: HashMap::new(),
            numbers: 0,
            lost: 0,
            messages: Vec::new(),
        }
    }

    /// Number of the links that the journals of all ranks keep to a file. The program knows nothing of them.
    pub fn kept_links(&self, device: u64, inode: u64) -> u64 {
        segment::kept_links(&self.checkpoints, device, inode)
    }

    /// Starts a segment: the program is stopped at this cut. `at_cut` has the files that it has open or has written to.
    pub fn begin(&mut self, cut: Cut, at_cut: HashMap<Identity, AtCut>) {
        if self.turn == 0 {
            self.turn = segment::last_turn(&self.checkpoints, self.rank).unwrap_or(0);
        }
        self.turn += 1;
        self.cut = Some(cut);
        (self.log, self.broken) = (None, false);
        self.files.clear();
        self.names.clear();
        self.at_cut = at_cut;
        (self.numbers, self.lost) = (0, 0);
    }

    /// File for the locks on names, held by a rank until the recorded change is made.
    pub fn locks(&self) -> PathBuf {
        segment::locks(&self.checkpoints)
    }

    /// Messages for the user.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Whether changes of this file need no records: it is new, or lost.
    pub fn ignores(&self, identity: &Identity) -> bool {
        self.broken || matches!(self.files.get(identity), Some(Known::Born | Known::Lost))
    }

    /// Records the open for writing of a file that existed.
    pub fn opened(&mut self, facts: &Facts, name: Name<'_>) {
        self.look_for_copies();
        let Some(file) = self.number_of(facts, name) else {
            return;
        };
        let Some(Known::Old { names, .. }) = self.files.get_mut(&facts.identity) else {
            return;
        };
        let name = name();
        if names.contains(&name) {
            return;
        }
        names.push(name.clone());
        let record = Record::Named {
            file,
            name: record::Name::new(name),
            time: now(),
        };
        self.write(&record);
    }

    /// Records the creation of a file, unnamed or by a name that did not exist, later than `since`. Another rank may
    /// have found and recorded it before this one.
    pub fn created(&mut self, identity: Identity, place: Option<Place<'_>>, since: u64) {
        if let Some(place) = place {
            self.naming(place, &Current::Absent);
        }
        self.files.insert(identity, Known::Born);
        self.write(&Record::Born {
            identity,
            time: since,
            until: now(),
        });
    }

    /// Records that overlayfs has given a file of the cut another identity, this one, later than `since`.
    pub fn copied(&mut self, identity: Identity, since: u64) {
        self.write(&Record::Copied {
            identity,
            time: since,
            until: now(),
        });
        self.count(&segment::copies(&self.checkpoints));
    }

    /// Records that a name is about to get another target.
    pub fn naming(&mut self, place: Place<'_>, current: &Current) {
        let name = place.name;
        self.look_for_moves();
        self.look_for_copies();
        let state = match current {
            _ if self.names.contains(name) => return,
            Current::Other => State::Other,
            Current::Absent => State::Absent,
            Current::File(facts) => match self.number_of(facts, &|| name.to_owned()) {
                Some(number) => {
                    // It may not be found by its number under the name that it gets.
                    if !facts.identity.is_lasting() {
                        self.keep(name, number, facts);
                    }
                    State::File(facts.identity)
                }
                // The file was created since the cut by a call that was not intercepted.
                None if matches!(self.files.get(&facts.identity), Some(Known::Born)) => {
                    State::Absent
                }
                None => return,
            },
            Current::Directory(facts) => State::Directory(facts.mode),
            Current::Link(target) => State::Link(record::Name::new(target.clone())),
        };
        self.names.insert(name.to_owned());
        let record = Record::Was {
            name: record::Name::new(name.to_owned()),
            local: place.local,
            state,
            time: now(),
        };
        self.write(&record);
    }

    /// Records that a file is about to lose this name, which may be its last.
    pub fn unlinking(&mut self, place: Place<'_>, facts: &Facts, read: Read<'_>) {
        self.naming(place, &Current::File(facts.clone()));
        let name = place.name;
        let Some(number) = self.number_of(facts, &|| name.to_owned()) else {
            return;
        };
        if self.log.is_none() || self.keep(name, number, facts) {
            return;
        }
        // The file is on another file system than the journal, or on one without links.
        self.changing(facts, &|| name.to_owned(), 0..u64::MAX, read);
        if facts.links > 1 {
            self.write(&Record::Linked { file: number });
        } else if !self.ignores(&facts.identity) {
            let gone = Record::Gone {
                file: number,
                time: now(),
            };
            self.write(&gone);
            self.files.remove(&facts.identity);
        }
    }

    /// Keeps a link to a file, unless there is one. Returns whether there is.
    fn keep(&mut self, name: &Path, number: u32, facts: &Facts) -> bool {
        if let Some(Known::Old { kept: true, .. }) = self.files.get(&facts.identity) {
            return true;
        }
        let Some(log) = &self.log else { return false };
        let second = log.directory.join(format!("kept-{number}"));
        let is_kept = link(name, &second, &facts.identity);
        if is_kept {
            if let Some(Known::Old { kept, .. }) = self.files.get_mut(&facts.identity) {
                *kept = true;
            }
            self.write(&Record::Kept { file: number });
        }
        is_kept
    }

    /// Records that a directory is about to be renamed or, with `exchange`, to exchange its name with what is at `to`.
    pub fn moving(&mut self, directory: Identity, from: &Path, to: &Path, exchange: bool) {
        let record = Record::Moved {
            directory,
            from: record::Name::new(from.to_owned()),
            to: record::Name::new(to.to_owned()),
            exchange,
            time: now(),
        };
        self.write(&record);
        self.count(&segment::moves(&self.checkpoints));
    }

    /// Tells all ranks of an event, by one byte more in the file that counts such events.
    fn count(&mut self, events: &Path) {
        let mut options = OpenOptions::new();
        let counted = options.append(true).create(true).mode(0o600).open(events);
        if let Err(why) = counted.and_then(|mut file| file.write_all(b"+")) {
            self.give_up(&why);
        }
    }

    /// Forgets recorded names if any rank has renamed a directory: names below it may have other targets now.
    fn look_for_moves(&mut self) {
        let moves = events(&segment::moves(&self.checkpoints));
        if moves != self.moves {
            self.moves = moves;
            self.names.clear();
        }
    }

    /// Forgets recorded files if overlayfs has copied a file: it may have the inode number of one that was removed.
    fn look_for_copies(&mut self) {
        let copies = events(&segment::copies(&self.checkpoints));
        if copies != self.copies {
            self.copies = copies;
            self.files.clear();
        }
    }

    /// Records that the rename of the directory failed.
    pub fn stayed(&mut self, from: &Path, to: &Path) {
        let record = Record::Stayed {
            from: record::Name::new(from.to_owned()),
            to: record::Name::new(to.to_owned()),
        };
        self.write(&record);
    }

    /// Records the old content of bytes that are about to be overwritten or cut off.
    pub fn changing(&mut self, facts: &Facts, name: Name<'_>, bytes: Range<u64>, read: Read<'_>) {
        let Some(number) = self.number_of(facts, name) else {
            return;
        };
        loop {
            let Some(Known::Old { size, saved, .. }) = self.files.get(&facts.identity) else {
                return;
            };
            let wanted = bytes.start.min(*size)..bytes.end.min(*size);
            if wanted.is_empty() {
                return self.touching(facts.identity, number);
            }
            let Some(missing) = saved.next_missing(&wanted, PIECE) else {
                return;
            };
            let end = missing.end.min(*size);
            let old = match read(missing.start, (end - missing.start) as usize) {
                Ok(old) => old,
                Err(why) => return self.lose(facts.identity, number, &name(), &why),
            };
            let record = Record::Bytes {
                file: number,
                at: missing.start,
                time: now(),
            };
            let noted = match old.is_empty() {
                true => Ok(()),
                false => self.try_write(&record, &old),
            };
            if let Err(why) = noted {
                return self.lose(facts.identity, number, &name(), &why);
            }
            if let Some(Known::Old { saved, .. }) = self.files.get_mut(&facts.identity) {
                saved.add(&missing);
            }
        }
    }

    /// Records that the job changes the file, once. The change overwrites no old content, so nothing else records it.
    fn touching(&mut self, identity: Identity, number: u32) {
        let Some(Known::Old { touched, .. }) = self.files.get_mut(&identity) else {
            return;
        };
        if !std::mem::replace(touched, true) {
            let record = Record::Touched {
                file: number,
                time: now(),
            };
            self.write(&record);
        }
    }

    /// Number in the segment of a file that existed at the cut; none for a new or a lost file.
    fn number_of(&mut self, facts: &Facts, name: Name<'_>) -> Option<u32> {
        match self.files.get(&facts.identity) {
            Some(Known::Old { number, .. }) => return Some(*number),
            Some(_) => return None,
            None => {}
        }
        self.numbers += 1;
        let number = self.numbers;
        let at_cut = self.at_cut.get(&facts.identity).copied();
        let AtCut { size, modified } = at_cut.unwrap_or(facts.at_cut());
        let name = name();
        let record = Record::File {
            file: number,
            name: record::Name::new(name.clone()),
            identity: facts.identity,
            size,
            mode: facts.mode,
            modified,
            time: now(),
        };
        let known = match self.write(&record) {
            true => Known::Old {
                number,
                size,
                saved: Blocks::default(),
                kept: false,
                touched: false,
                names: vec![name],
            },
            false => Known::Lost,
        };
        let noted = matches!(known, Known::Old { .. });
        self.files.insert(facts.identity, known);
        noted.then_some(number)
    }

    fn lose(&mut self, identity: Identity, number: u32, name: &Path, why: &io::Error) {
        self.files.insert(identity, Known::Lost);
        let record = Record::Lost {
            file: number,
            why: why.to_string(),
        };
        if !self.write(&record) {
            // A journal with a part of a file's old content would restore neither state.
            self.give_up(why);
        }
        self.lost += 1;
        if self.lost <= NAMED {
            self.messages.push(format!(
                "what the job overwrites in {} from now to the next checkpoint cannot be undone by a restart: \
                 {why}",
                name.display()
            ));
        }
    }

    /// Adds a record without data; whether that was possible. Nothing counts without it.
    fn write(&mut self, record: &Record) -> bool {
        let written = self.try_write(record, b"");
        if let Err(why) = &written {
            self.give_up(why);
        }
        written.is_ok()
    }

    /// Writes nothing more in this segment, and removes what it has.
    pub fn give_up(&mut self, why: &io::Error) {
        if std::mem::replace(&mut self.broken, true) {
            return;
        }
        if let Some(log) = self.log.take() {
            // If this fails, too, the log ends with the last whole record.
            let _ = fs::remove_dir_all(log.directory);
        }
        self.messages.push(format!(
            "the undo journal in {} cannot be written ({why}): a restart cannot undo what the job has changed in \
             its files since the last checkpoint, or changes until the next",
            segment::home(&self.checkpoints, self.rank).display()
        ));
    }

    /// Frees the space of the segment; returns whether it had any.
    pub fn make_room(&mut self) -> bool {
        let takes = self.log.is_some();
        if takes {
            self.give_up(&io::Error::other(
                "the disk is full, and the job needs the room",
            ));
        }
        takes
    }

    fn try_write(&mut self, record: &Record, data: &[u8]) -> io::Result<()> {
        let Some(cut) = self.cut else { return Ok(()) };
        if self.broken {
            return Err(io::Error::other("an earlier record could not be written"));
        }
        if self.log.is_none() {
            let segment = Segment::next(&self.checkpoints, self.rank, self.turn, cut);
            let mut log = Log::create(segment.path)?;
            let begin = Record::Begin {
                version: VERSION,
                rank: self.rank,
                host: self.host.clone(),
                cut,
            };
            log.append(&encode(&begin, b"")?)?;
            self.log = Some(log);
        }
        let log = self.log.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = std::mem::take(&mut log.room);
        encode_into(&mut bytes, record, data)?;
        if !data.is_empty() && log.len + bytes.len() as u64 > self.limit {
            let limit = self.limit;
            let full = format!(
                "the undo journal of the rank has reached the limit of {limit} bytes (--undo-limit)"
            );
            return Err(io::Error::other(full));
        }
        let written = log.append(&bytes);
        log.room = bytes;
        written
    }
}

/// Number of the events that [`Journal::count`] has counted in a file.
fn events(counted: &Path) -> u64 {
    fs::metadata(counted).map_or(0, |facts| facts.len())
}

/// Creates a second name of a file; returns whether that succeeded. Another rank may have given the first name to
/// another file meanwhile, after it recorded the old target.
fn link(name: &Path, second: &Path, identity: &Identity) -> bool {
    if fs::hard_link(name, second).is_err() {
        return false;
    }
    let facts = fs::symlink_metadata(second);
    let is_it = facts.is_ok_and(|facts| {
        facts.ino() == identity.inode && (!identity.local || facts.dev() == identity.device)
    });
    if !is_it {
        // No record refers to the link yet.
        let _ = fs::remove_file(second);
    }
    is_it
}

impl Log {
    fn create(directory: PathBuf) -> io::Result<Log> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&directory)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        Ok(Log {
            file: options.open(directory.join(LOG))?,
            directory,
            len: 0,
            room: Vec::new(),
        })
    }

    /// Appends a whole record, or nothing.
    fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(record);
        match written {
            Ok(()) => self.len += record.len() as u64,
            Err(_) => {
                // A partial record would look like the end of the journal and hide the next ones.
                self.file.set_len(self.len)?;
                io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.len))?;
            }
        }
        written
    }
}
