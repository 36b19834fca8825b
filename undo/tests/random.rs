//! Random changes of files by two ranks in turns, each recorded first as in the loader; then an undo, after which all
//! files are in their old state. Inodes are reused, directories are renamed, files have several names. Sometimes the
//! job is killed and continues from an older checkpoint: a file that an undo creates again is another file for the
//! journals that stay.

use nix::fcntl::RenameFlags;
use proptest::prelude::*;
use stasis_undo::{
    self as undo, Current, Cut, Facts, Identity, Journal, Keeper, Outlook, Place, Plan, Share,
};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// One change: the operation and its names.
#[derive(Clone, Copy, Debug)]
struct Step {
    rank: usize,
    what: u8,
    from: u8,
    to: u8,
    at: u16,
    len: u16,
}

fn step() -> impl Strategy<Value = Step> {
    let numbers = (0..2_usize, 0..15_u8, any::<u8>(), any::<u8>());
    // Empty files, and some with equal content.
    let length = prop_oneof![Just(0), Just(7), 1..9_000_u16];
    let place = prop_oneof![Just(0), 0..20_000_u16];
    (numbers, place, length).prop_map(|((rank, what, from, to), at, len)| Step {
        rank,
        what,
        from,
        to,
        at,
        len,
    })
}

const DIRECTORIES: [&str; 4] = ["", "a", "b", "a/c"];

struct World {
    files: PathBuf,
    journals: Vec<Journal>,
}

/// Keeps nothing, and interrupts the undo after this number of calls.
struct Killed(u8);

impl Keeper for Killed {
    fn keep(&mut self, _: &Path, _: &File, _: u64, _: &str) -> bool {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 {
            std::panic::resume_unwind(Box::new(()));
        }
        true
    }

    fn leave(&mut self, path: &Path, why: &dyn std::fmt::Display) {
        panic!("{} is left: {why}", path.display());
    }
}

fn facts(path: &Path) -> Option<Facts> {
    let found = fs::symlink_metadata(path).ok()?;
    let identity = Identity {
        device: found.dev(),
        inode: found.ino(),
        local: true,
    };
    Some(Facts::found(identity, &found))
}

fn current(path: &Path) -> Current {
    let Some(facts) = facts(path) else {
        return Current::Absent;
    };
    let kind = fs::symlink_metadata(path).unwrap().file_type();
    match fs::read_link(path) {
        _ if kind.is_file() => Current::File(facts),
        _ if kind.is_dir() => Current::Directory(facts),
        target => Current::Link(target.unwrap()),
    }
}

fn reader(path: &Path) -> impl Fn(u64, usize) -> std::io::Result<Vec<u8>> + '_ {
    move |at, len| {
        let file = File::open(path)?;
        let mut bytes = vec![0; len];
        let read = file.read_at(&mut bytes, at)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

impl World {
    fn directory(&self, number: u8) -> PathBuf {
        self.files.join(DIRECTORIES[number as usize % 4])
    }

    fn name(&self, number: u8) -> PathBuf {
        self.directory(number).join(format!("f{}", number / 4 % 5))
    }

    fn naming(&mut self, rank: usize, path: &Path) {
        let place = Place {
            name: path,
            local: true,
        };
        self.journals[rank].naming(place, &current(path));
    }

    fn losing(&mut self, rank: usize, path: &Path) {
        let place = Place {
            name: path,
            local: true,
        };
        match current(path) {
            Current::File(facts) => self.journals[rank].unlinking(place, &facts, &reader(path)),
            other => self.journals[rank].naming(place, &other),
        }
    }

    /// Opens a file for writing and creates it if `make` is set.
    fn open(&mut self, rank: usize, path: &Path, make: bool, truncate: bool) -> Option<File> {
        if fs::symlink_metadata(path.parent()?).is_err() || path.is_symlink() {
            return None;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match current(path) {
            Current::Absent if make => {
                self.naming(rank, path);
                let since = undo::now();
                let file = options.create_new(true).open(path).ok()?;
                let place = Place {
                    name: path,
                    local: true,
                };
                let identity = facts(path)?.identity;
                self.journals[rank].created(identity, Some(place), since);
                Some(file)
            }
            Current::File(facts) => {
                let name = || path.to_owned();
                if truncate {
                    self.journals[rank].changing(&facts, &name, 0..u64::MAX, &reader(path));
                }
                let file = options.truncate(truncate).open(path).ok()?;
                self.journals[rank].opened(&facts, &name);
                Some(file)
            }
            _ => None,
        }
    }

    fn exchange(&mut self, rank: usize, from: &Path, to: &Path) {
        let (from, to) = if to.is_dir() { (to, from) } else { (from, to) };
        let moves = match current(from) {
            Current::Directory(facts) => {
                self.journals[rank].moving(facts.identity, from, to, true);
                true
            }
            _ => {
                self.naming(rank, to);
                self.naming(rank, from);
                false
            }
        };
        let (here, flags) = (nix::fcntl::AT_FDCWD, RenameFlags::RENAME_EXCHANGE);
        if nix::fcntl::renameat2(here, from, here, to, flags).is_err() && moves {
            self.journals[rank].stayed(from, to);
        }
    }

    fn run(&mut self, step: &Step) {
        let Step { rank, at, len, .. } = *step;
        let (from, to) = (self.name(step.from), self.name(step.to));
        let (old, new) = (self.directory(step.from), self.directory(step.to));
        let data = vec![(step.from ^ step.to) & 3; usize::from(len)];
        match step.what {
            0 | 1 => {
                if let Some(mut file) = self.open(rank, &from, true, step.what == 1) {
                    file.seek(SeekFrom::End(0)).unwrap();
                    file.write_all(&data).unwrap();
                }
            }
            2 | 3 => {
                if let Some(file) = self.open(rank, &from, false, false) {
                    let facts = facts(&from).unwrap();
                    let bytes = u64::from(at)..u64::from(at) + u64::from(len);
                    let name = || from.clone();
                    self.journals[rank].changing(&facts, &name, bytes, &reader(&from));
                    file.write_all_at(&data, u64::from(at)).unwrap();
                }
            }
            4 => {
                if let Some(file) = self.open(rank, &from, false, false) {
                    let facts = facts(&from).unwrap();
                    let name = || from.clone();
                    let bytes = u64::from(at)..u64::MAX;
                    self.journals[rank].changing(&facts, &name, bytes, &reader(&from));
                    file.set_len(u64::from(at)).unwrap();
                }
            }
            5 => {
                self.losing(rank, &from);
                fs::remove_file(&from).ok();
            }
            6 | 7 => {
                if !from.is_dir() && from.parent() != Some(&to) && !to.is_dir() {
                    self.losing(rank, &to);
                    self.naming(rank, &from);
                    fs::rename(&from, &to).ok();
                }
            }
            8 => {
                if !to.exists() && !to.is_symlink() {
                    if let Current::File(facts) = current(&from) {
                        self.journals[rank].opened(&facts, &|| from.clone());
                    }
                    self.naming(rank, &to);
                    fs::hard_link(&from, &to).ok();
                }
            }
            // The outermost directory stays.
            9 | 11 | 13 if step.to.is_multiple_of(4) => {}
            9 => {
                if current(&new).is_absent() {
                    self.naming(rank, &new);
                    fs::create_dir(&new).ok();
                } else {
                    self.naming(rank, &new);
                    fs::remove_dir(&new).ok();
                }
            }
            10 => {
                if !to.exists() && !to.is_symlink() {
                    self.naming(rank, &to);
                    std::os::unix::fs::symlink("nowhere", &to).ok();
                }
            }
            11 => {
                let Current::Directory(facts) = current(&old) else {
                    return;
                };
                self.naming(rank, &new);
                self.journals[rank].moving(facts.identity, &old, &new, false);
                if fs::rename(&old, &new).is_err() {
                    self.journals[rank].stayed(&old, &new);
                }
            }
            12 => self.exchange(rank, &from, &to),
            // The outermost directory stays as it is.
            14 if step.to.is_multiple_of(4) && !step.from.is_multiple_of(2) => {}
            14 => {
                let name = match step.from.is_multiple_of(2) {
                    true => &from,
                    false => &new,
                };
                match current(name) {
                    Current::File(facts) => self.journals[rank].opened(&facts, &|| name.clone()),
                    Current::Directory(_) => self.naming(rank, name),
                    _ => return,
                }
                let mode = [0o755, 0o640, 0o555, 0o1777][usize::from(at) % 4];
                fs::set_permissions(name, Permissions::from_mode(mode)).unwrap();
            }
            _ if step.from.is_multiple_of(2) => self.exchange(rank, &from, &new),
            _ => self.exchange(rank, &old, &new),
        }
    }
}

trait IsAbsent {
    fn is_absent(&self) -> bool;
}

impl IsAbsent for Current {
    fn is_absent(&self) -> bool {
        matches!(self, Current::Absent)
    }
}

#[derive(Debug, PartialEq)]
enum Entry {
    /// Mode.
    Directory(u32),
    /// Content, the first of its names, mode, and time of modification.
    File(Vec<u8>, PathBuf, u32, i64),
    Link(PathBuf),
}

fn tree(
    directory: &Path,
    found: &mut BTreeMap<PathBuf, Entry>,
    firsts: &mut BTreeMap<u64, PathBuf>,
) {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort_unstable();
    for path in paths {
        let facts = fs::symlink_metadata(&path).unwrap();
        if path.is_symlink() {
            found.insert(path.clone(), Entry::Link(fs::read_link(&path).unwrap()));
        } else if path.is_dir() {
            tree(&path, found, firsts);
            found.insert(path, Entry::Directory(facts.mode()));
        } else {
            let first = firsts.entry(facts.ino()).or_insert_with(|| path.clone());
            let (first, content) = (first.clone(), fs::read(&path).unwrap());
            let modified = self::facts(&path).unwrap().modified;
            let entry = Entry::File(content, first, facts.mode(), modified);
            found.insert(path.clone(), entry);
        }
    }
}

fn tree_of(directory: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut found = BTreeMap::new();
    tree(directory, &mut found, &mut BTreeMap::new());
    found
}

fn cut(number: u64) -> Cut {
    Cut {
        number,
        id: [number as u8; 16],
    }
}

/// Undoes to a cut: interrupted in the middle, and twice; the second time there is nothing to do. The prediction must
/// match each time.
fn undo_to(
    number: u64,
    checkpoints: &Path,
    files: &Path,
    was: &BTreeMap<PathBuf, Entry>,
    kill: u8,
) {
    for kill in [kill, u8::MAX, u8::MAX] {
        let plan = Plan::read(checkpoints, &cut(number)).unwrap();
        assert!(plan.damaged.is_empty(), "{:?}", plan.damaged);
        let hosts = ["here".to_owned()];
        let share = Share {
            host: "here",
            hosts: &hosts,
            first_here: true,
            first: true,
        };
        let outlook = plan.outlook("here", u64::MAX);
        is_foretold(&outlook, &tree_of(files), was);
        let undone = || plan.apply(&share, &mut Killed(kill));
        let undone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(undone));
        match undone {
            Err(_) if kill < u8::MAX => continue,
            Err(failed) => std::panic::resume_unwind(failed),
            Ok(done) => assert_eq!(outlook.count(), done, "{:#?}", outlook.changes),
        }
        let is = tree_of(files);
        let names = is.keys().chain(was.keys());
        let differ = |name: &&PathBuf| is.get(*name) != was.get(*name);
        if let Some(name) = names.clone().find(differ) {
            let sizes = [&is, was].map(|tree| match tree.get(name) {
                Some(Entry::File(bytes, first, mode, modified)) => {
                    let (len, first) = (bytes.len(), first.display());
                    format!("{len} bytes, mode {mode:o}, of {modified}, first {first}")
                }
                other => format!("{other:?}"),
            });
            panic!("{}: is {}, was {}", name.display(), sizes[0], sizes[1]);
        }
    }
}

/// Checks that each name, old or new, has the target that the outlook predicts.
fn is_foretold(outlook: &Outlook, now: &BTreeMap<PathBuf, Entry>, was: &BTreeMap<PathBuf, Entry>) {
    for name in was.keys() {
        assert!(outlook.leads(name), "{} is not foretold", name.display());
    }
    for name in now.keys().filter(|name| !was.contains_key(*name)) {
        assert!(!outlook.leads(name), "{} is not to go", name.display());
    }
    for (name, entry) in was {
        let kind = match (entry, now.get(name)) {
            // A moved directory restores its content with it.
            (Entry::Directory(_), Some(Entry::Directory(_))) => continue,
            // Another of its names may have come or gone.
            (Entry::File(was, ..), Some(Entry::File(now, ..))) if was == now => continue,
            (was, Some(now)) if was == now => continue,
            (_, kind) => kind,
        };
        // One of several names of a file is enough.
        let moved = outlook
            .place(name)
            .is_some_and(|place| place != *name || facts(&place).is_some_and(|f| f.links > 1));
        let told = outlook.of(name).next().is_some();
        assert!(
            told || moved,
            "of {} ({kind:?}) nothing is said",
            name.display()
        );
    }
}

/// Steps from one checkpoint to the next, or to a kill, after which the job continues from an older checkpoint: the
/// index from the newest.
type Epoch = (Vec<Step>, Option<usize>);

fn is_undone(before: &[Step], epochs: &[Epoch], links: bool, kill: u8) {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let files = tempfile::tempdir_in(work).unwrap();
    let near = tempfile::tempdir_in(work).unwrap();
    let far = tempfile::tempdir_in("/dev/shm").unwrap();
    let checkpoints = if links { near.path() } else { far.path() };
    let start = || [0, 1].map(|rank| Journal::new(checkpoints, rank, "here".to_owned(), u64::MAX));
    let mut world = World {
        files: files.path().to_owned(),
        journals: start().into(),
    };
    before.iter().for_each(|step| world.run(step));
    // States of the files at each existing checkpoint.
    let mut were = vec![(1, tree_of(&world.files))];
    let mut newest = 1;
    let mut at = cut(1);
    for (steps, killed) in epochs {
        for journal in &mut world.journals {
            journal.begin(at, Default::default());
        }
        steps.iter().for_each(|step| world.run(step));
        newest += 1;
        at = cut(newest);
        match killed {
            None => were.push((newest, tree_of(&world.files))),
            Some(back) => {
                were.truncate(were.len() - (back % were.len()));
                let (number, was) = were.last().unwrap();
                undo_to(*number, checkpoints, &world.files, was, kill);
                undo::forget(checkpoints, &cut(*number), &[]).unwrap();
                world.journals = start().into();
                at = cut(*number);
            }
        }
    }
    let (number, was) = were.first().unwrap();
    undo_to(*number, checkpoints, &world.files, was, kill);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, max_shrink_iters: 3000, ..ProptestConfig::default() })]

    #[test]
    fn undo_restores_the_state_at_the_cut(
        before in proptest::collection::vec(step(), 0..40),
        epochs in proptest::collection::vec(
            (proptest::collection::vec(step(), 1..60), proptest::option::of(any::<usize>())),
            1..5,
        ),
        links in any::<bool>(),
        kill in 1..20_u8,
    ) {
        is_undone(&before, &epochs, links, kill);
    }
}

/// Steps of rank 0, each a kind and the numbers of its two names, without content.
fn steps<const N: usize>(steps: [(u8, u8, u8); N]) -> Vec<Step> {
    let step = |(what, from, to)| Step {
        rank: 0,
        what,
        from,
        to,
        at: 0,
        len: 0,
    };
    steps.map(step).into()
}

/// The undo is interrupted while the file of `f2` has a temporary name. Its other recorded name leads to another file
/// again by then, so the temporary name alone leads to it.
#[test]
fn a_temporary_name_may_be_the_only_known_one() {
    let before = steps([(9, 0, 1), (9, 0, 3), (0, 19, 0)]);
    let epochs = [
        (steps([(8, 19, 8), (0, 7, 0)]), None),
        (steps([(6, 8, 7), (0, 8, 0)]), Some(0)),
    ];
    is_undone(&before, &epochs, false, 1);
}

/// A file is recorded as gone, since a rename onto its last name was tried and failed. So it is created again for its
/// first name, and its last name leads to the new file, too.
#[test]
fn the_prediction_knows_a_file_that_is_created_for_an_earlier_name() {
    let before = steps([(9, 0, 1), (9, 0, 2), (0, 14, 0)]);
    let epochs = [
        (steps([(11, 2, 3), (8, 15, 8), (11, 1, 1)]), None),
        (steps([(5, 15, 0), (6, 0, 8)]), None),
    ];
    is_undone(&before, &epochs, false, 2);
}

/// The directory of an exchange has its first name again by a later one.
#[test]
fn the_prediction_knows_exchanges_that_undo_each_other() {
    let epochs = [
        (steps([(9, 0, 141), (10, 0, 173)]), None),
        (
            steps([
                (6, 93, 129),
                (9, 0, 106),
                (9, 0, 143),
                (13, 191, 246),
                (13, 3, 182),
            ]),
            None,
        ),
        (
            steps([(5, 149, 0), (0, 212, 0), (11, 71, 134), (6, 0, 152)]),
            Some(0),
        ),
        (steps([(0, 16, 0), (6, 76, 249), (9, 0, 51)]), None),
    ];
    is_undone(&[], &epochs, false, 2);
}

/// Both directories of an exchange are created again.
#[test]
fn the_prediction_knows_two_new_directories_apart() {
    let before = steps([(9, 0, 1)]);
    let epoch = steps([(9, 0, 2), (13, 1, 2), (11, 2, 1), (9, 0, 1)]);
    is_undone(&before, &[(epoch, None)], false, 1);
}
