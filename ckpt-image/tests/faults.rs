//! A set is written beside an older one, which is then removed. One step in the file system fails: each step, in each
//! way. Afterwards a restart finds either the old set or the new one complete, and the next set can be written.
//! `docs/faults.md` is the table of the outcomes.

mod common;

use std::fmt::Write;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use common::{manifest, write_set, write_set_on, write_small_on};
use stasis_ckpt_image::{
    create_checkpoint_dir, explain, image_file, list_sets, newest_whole, newest_whole_without,
    prune, set_name, Fault, FaultAt, FileSystem, LocalDir, Machine, Operation, PartnerCopy, Result,
    Set, SetId, SetState, SetWriter, Step,
};

const RANKS: u32 = 2;

/// The columns of the table.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Killed,
    PowerCut,
    ShortWrite,
    Full,
    Broken,
}

const HOWS: [How; 5] = [
    How::Killed,
    How::PowerCut,
    How::ShortWrite,
    How::Full,
    How::Broken,
];

impl How {
    fn fault(self) -> Fault {
        match self {
            How::Killed | How::PowerCut => Fault::Halt,
            How::ShortWrite => Fault::ShortWrite,
            How::Full => Fault::Full,
            How::Broken => Fault::Broken,
        }
    }
}

/// A checkpoint of a job: the result of making the set, and the result of the rest.
type Checkpoint = fn(&FileSystem, &Path, u64) -> (Result<PathBuf>, Result<()>);

/// Makes the set and removes older ones.
fn checkpoint(fs: &FileSystem, dir: &Path, number: u64) -> (Result<PathBuf>, Result<()>) {
    let made = write_set_on(fs, dir, number, RANKS, None);
    let pruned = match made {
        Ok(_) => prune(fs, dir, NonZeroUsize::MIN, None, None, &[]),
        Err(_) => Ok(Vec::new()),
    };
    (made, pruned.map(drop))
}

/// The local directory of a rank, beside the checkpoint directory.
fn local_dir(fs: &FileSystem, dir: &Path, rank: u32) -> LocalDir {
    LocalDir::new(fs, &dir.with_file_name("local"), dir, rank)
}

/// Makes the set with its images in a local directory.
fn write_locally(fs: &FileSystem, dir: &Path, number: u64) -> Result<PathBuf> {
    write_in_levels(fs, dir, number, &|_, _, _, _| Ok(None))
}

/// The local directory of a rank's partner, which simulates a machine of its own.
fn partner_dir(fs: &FileSystem, dir: &Path, rank: u32) -> LocalDir {
    let partner = (rank + 1) % RANKS;
    let local = dir.with_file_name(format!("{PARTNER}{partner}"));
    LocalDir::new(fs, &local, dir, partner)
}

/// Prefix of the names of the partners' machines; a number follows.
const PARTNER: &str = "partner";

/// Makes the set with its images in a local directory, and a copy of each at its rank's partner.
fn write_with_copies(fs: &FileSystem, dir: &Path, number: u64) -> Result<PathBuf> {
    write_in_levels(fs, dir, number, &|rank, set, id, image| {
        let (mut from, partner) = (fs::File::open(image).unwrap(), partner_dir(fs, dir, rank));
        let path = partner.keep(set, id, rank, image.metadata().unwrap().len(), &mut from)?;
        let host = format!("{PARTNER}{}", (rank + 1) % RANKS);
        Ok(Some(PartnerCopy { host, path }))
    })
}

/// Lets a partner keep a copy of the image of a rank.
type Copying<'a> = &'a dyn Fn(u32, &str, SetId, &Path) -> Result<Option<PartnerCopy>>;

fn write_in_levels(fs: &FileSystem, dir: &Path, number: u64, copy: Copying) -> Result<PathBuf> {
    let writer = SetWriter::begin(fs, dir, number)?;
    let id = writer.set_id();
    let image = |rank| {
        let local = local_dir(fs, dir, rank);
        let folder = local.begin(&set_name(number), id, None)?;
        let image = write_small_on(fs, &folder.join(image_file(rank)), id, [rank, RANKS], false)?;
        let place = local.sync(&folder)?;
        let copy = copy(rank, &set_name(number), id, &place)?;
        Ok((image, (place, copy)))
    };
    let images = (0..RANKS).map(image).collect::<Result<Vec<_>>>()?;
    let (images, places): (Vec<_>, Vec<_>) = images.into_iter().unzip();
    let mut manifest = manifest(id, images);
    for (entry, (place, copy)) in manifest.ranks.iter_mut().zip(places) {
        (entry.local, entry.copy) = (Some(place), copy);
        entry.host = Machine::here().unwrap().host;
    }
    writer.commit(&manifest, None)
}

/// Drains the images in the local directory.
fn drain(fs: &FileSystem, dir: &Path) -> Result<()> {
    let of_rank = |rank| local_dir(fs, dir, rank).drain(None);
    let failed: Vec<_> = (0..RANKS).flat_map(of_rank).collect();
    failed.into_iter().try_for_each(|(_, why)| Err(why))
}

/// Makes the set locally, drains it, and removes older ones.
fn checkpoint_in_levels(fs: &FileSystem, dir: &Path, number: u64) -> (Result<PathBuf>, Result<()>) {
    let made = write_locally(fs, dir, number);
    let rest = match made {
        Ok(_) => drain(fs, dir)
            .and_then(|()| prune(fs, dir, NonZeroUsize::MIN, None, None, &[]))
            .map(drop),
        Err(_) => Ok(()),
    };
    (made, rest)
}

/// One cell of the table, and the failed step; none if there are fewer steps.
fn cell(checkpoint: Checkpoint, how: How, at: usize) -> Option<(Step, &'static str)> {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("ck");
    create_checkpoint_dir(&dir).unwrap();
    write_set(&dir, 1, RANKS);
    let fault = how.fault();
    let fs = FileSystem::watched(Some(FaultAt { fault, at }), |_| {});
    let (made, rest) = checkpoint(&fs, &dir, 2);
    let steps = fs.steps();
    if steps.len() < at {
        return None;
    }
    let (failed, before) = (steps[at - 1].clone(), &steps[..at - 1]);
    if how == How::PowerCut {
        lose(before);
    }
    let context = format!("{how:?} at step {at}", how = failed.operation);
    let set = newest_whole(&dir, None)
        .unwrap_or_else(|e| panic!("{context}: {e}"))
        .set;
    for rank in 0..RANKS {
        set.image(rank, None)
            .unwrap_or_else(|e| panic!("{context}: {e}"));
    }
    let outcome = match set.name() {
        "ckpt-1" => "old",
        _ => "new",
    };
    if made.is_ok() {
        assert_eq!(outcome, "new", "{context}: it was said to be committed");
    }
    if fault == Fault::ShortWrite {
        made.and(rest).unwrap_or_else(|e| panic!("{context}: {e}"));
    }
    next_is_made(checkpoint, &dir, &context);
    Some((failed, outcome))
}

/// The next checkpoint succeeds and leaves only its own files.
fn next_is_made(checkpoint: Checkpoint, dir: &Path, context: &str) {
    let (made, rest) = checkpoint(&FileSystem::default(), dir, 3);
    made.and(rest).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(
        local(dir),
        0,
        "{context}: images are left in the local directory"
    );
    let left: Vec<_> = list_sets(dir, None)
        .unwrap()
        .into_iter()
        .map(|set| (set.name, set.state))
        .collect();
    let expected = [("ckpt-3".to_owned(), SetState::Whole)];
    assert_eq!(left, expected, "{context}");
}

/// Number of images in the local directory.
fn local(dir: &Path) -> usize {
    lying_in(dir.with_file_name("local"))
}

fn lying_in(local: PathBuf) -> usize {
    let within = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let jobs = within(local);
    let folders = jobs.flat_map(|job| within(job.path()));
    folders.flat_map(|folder| within(folder.path())).count()
}

/// Reverts every change that no sync has made durable: the largest loss of a power cut.
fn lose(steps: &[Step]) {
    for (i, made) in steps.iter().enumerate().rev() {
        let later = |step: Operation, path: &Path| {
            steps[i + 1..]
                .iter()
                .any(|m| m.operation == step && m.path == path)
        };
        let entry_stays = later(Operation::SyncDir, made.path.parent().unwrap());
        match made.operation {
            Operation::Write if !later(Operation::Sync, &made.path) => {
                fs::write(&made.path, "").unwrap()
            }
            Operation::Create if !entry_stays => fs::remove_file(&made.path).unwrap(),
            Operation::MakeDir if !entry_stays && made.path.exists() => {
                fs::remove_dir_all(&made.path).unwrap();
            }
            Operation::Rename if !entry_stays => {
                fs::rename(&made.path, other_name(&made.path)).unwrap()
            }
            _ => {}
        }
    }
}

/// The name that `ckpt-N` was renamed from, or the one that `ckpt-N.partial` was renamed to. Images are
/// treated alike.
fn other_name(path: &Path) -> PathBuf {
    match path.extension() {
        Some(partial) if partial == "partial" => path.with_extension(""),
        _ => PathBuf::from(format!("{}.partial", path.display())),
    }
}

fn words(made: &Step) -> String {
    let name = made.path.file_name().unwrap().to_string_lossy();
    let local = made
        .path
        .components()
        .any(|part| part.as_os_str() == "local");
    // Names that differ each time are shortened, as in the text above the table.
    let name = match name.split_once('.') {
        Some((set, id)) if local && id.len() == 32 => format!("local/{set}.ID"),
        _ if local && name.starts_with("stasis-") => "local".to_owned(),
        _ if local => format!("local/{name}"),
        _ => name.into_owned(),
    };
    let verb = match made.operation {
        Operation::MakeDir => "make the directory",
        Operation::Create => "create",
        Operation::Write => "write",
        Operation::Sync => "sync",
        Operation::SyncDir => "sync the directory",
        Operation::Rename => "rename to",
        Operation::Remove => "remove",
    };
    format!("{verb} `{name}`")
}

fn table(checkpoint: Checkpoint, head: &str) -> String {
    let mut page = String::from(head);
    page += COLUMNS;
    for at in 1.. {
        let cells = HOWS.iter().map_while(|how| cell(checkpoint, *how, at));
        let cells: Vec<_> = cells.collect();
        let Some((step, _)) = cells.first() else {
            assert!(at > 20, "there are more steps than {at}");
            return page;
        };
        write!(page, "| {at} | {} |", words(step)).unwrap();
        for (_, outcome) in &cells {
            write!(page, " {outcome} |").unwrap();
        }
        page.push('\n');
    }
    unreachable!("the steps end")
}

const HEAD: &str = "\
# What a fault leaves behind

Generated by `cargo xtask docs` from `ckpt-image/tests/faults.rs`, which injects each fault and checks the
outcome.

Two ranks write set `ckpt-2` beside `ckpt-1`. The checkpoint is reported as complete when the directory `ck` is
synced. After that, `ckpt-1` is removed (`--keep 1`). A row is a step, and a column is the way in which it fails. The
cell names the set from which the job can be restarted afterwards; all its bytes are verified. There is always such a
set, and the next checkpoint always succeeds.

- **killed**: all processes of the job are killed before the step.
- **power cut**: the same, and all data that was not synced is lost.
- **short write**: the kernel writes half of the bytes.
- **disk full**, **I/O error**: the step fails with ENOSPC or EIO, and the job goes on.

";

/// The head of the second table.
const LEVELS: &str = "
## With a local directory

The same with `--local-dir`: images are written to a local directory, and drained from there after the checkpoint is
reported as complete. An image that cannot be drained is drained with the next checkpoint.

";

/// The section on the undo journal. Other tests inject these faults.
const JOURNAL: &str = "
## In the undo journal

The state of files that the job has changed since the checkpoint, after a restart. The tests in the last column inject
the fault.

| fault | after the restart | test |
|---|---|---|
| a rank is killed while it writes a note | the note is ignored: its change has not been made | `undo/random`, `stasis-undo::record` |
| a rank is killed after a note, before the change | the file is as it was | `undo/random`, `torture/files-overwritten` |
| the restart is killed while it undoes changes | the next restart completes the undoing | `undo/random`, `stasis-undo::faults` |
| the restart is killed while it removes the journals that it has undone | the journals of all ranks count as removed | `undo/random`, `stasis-undo::segment` |
| the journal reaches the size of `--undo-limit` | the file that it could not hold stays as it is, and is named at once; all others are as they were | `undo/limit` |
| the journal has filled the disk, and the job needs the space | files that this rank has changed stay as they are; the job's writes succeed, and a message is printed at once | `undo/disk-full` |
| the disk has no space for the journal | the same | `undo/disk-full` |
| notes of a journal are damaged | that journal is named and skipped; the changes in the others are undone | `stasis-undo::faults` |
| content in a journal is damaged | nothing is restored; the file is named, and `--files cut` goes on with files as they are | `stasis-undo::faults` |
| a rank's journal is missing | files that this rank has changed stay as they are; the changes in the other journals are undone | `stasis-undo::faults` |
| the checkpoint directory is on another file system than the files | all files are as they were: the journal holds content where links are impossible | `undo/random-elsewhere` |
| another program has replaced a file | the new file stays, and is named | `stasis-undo::faults` |
| another program has appended to a file that the job has overwritten | the file has its old content; the appended bytes are kept in `cut-off` | `stasis-undo::faults` |
| two ranks change one file or name at the same time | it is as it was | `undo/random`, `undo/random-elsewhere` |
";

const COLUMNS: &str = "\
| | step | killed | power cut | short write | disk full | I/O error |
|---|---|---|---|---|---|---|
";

#[test]
fn every_fault_leaves_the_old_or_the_new_set() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/faults.md");
    let table = table(checkpoint, HEAD) + &table(checkpoint_in_levels, LEVELS) + JOURNAL;
    if std::env::var_os("STASIS_WRITE_DOCS").is_some() {
        fs::write(&page, &table).unwrap();
    }
    assert_eq!(
        fs::read_to_string(page).unwrap_or_default(),
        table,
        "docs/faults.md is not what happens; run `cargo xtask docs`"
    );
}

#[test]
fn retention_never_leaves_too_few_sets() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("ck");
    for number in 1..=4 {
        write_set(&dir, number, 1);
    }
    fs::remove_file(dir.join("ckpt-3/manifest.json")).unwrap();
    let gone = prune(
        &FileSystem::default(),
        &dir,
        NonZeroUsize::new(2).unwrap(),
        None,
        None,
        &[],
    )
    .unwrap();
    assert_eq!(gone, ["ckpt-1"], "one that cannot be used does not count");
    assert!(dir.join("ckpt-3").exists(), "and stays to be looked at");
}

#[test]
fn a_set_that_keeps_failing_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("ck");
    for number in 1..=2 {
        write_set(&dir, number, 1);
    }
    let newest = || newest_whole(&dir, None).unwrap();
    for _ in 0..3 {
        assert_eq!(newest().set.name(), "ckpt-2");
        newest().set.restart_begun().unwrap();
    }
    let chosen = newest();
    assert_eq!(chosen.set.name(), "ckpt-1");
    let why = chosen.skipped.join(", ");
    assert!(why.contains("ckpt-2: 3 restarts"), "{why}");
    Set::open(&dir, "ckpt-2", None).unwrap().restart_worked();
    assert_eq!(newest().set.name(), "ckpt-2");
}

/// A set on nodes alone is lost with one of them.
#[test]
fn a_drained_set_stays_until_there_is_a_newer_one() {
    let (temp, fs) = (tempfile::tempdir().unwrap(), FileSystem::default());
    let dir = temp.path().join("ck");
    write_set(&dir, 1, RANKS);
    let pruned = || prune(&fs, &dir, NonZeroUsize::MIN, None, None, &[]).unwrap();
    for number in 2..=3 {
        write_locally(&fs, &dir, number).unwrap();
    }
    assert_eq!(pruned(), ["ckpt-2"]);
    let level = |set: &str| Set::open(&dir, set, None).unwrap().undrained().count();
    assert_eq!((level("ckpt-3"), level("ckpt-1")), (2, 0));
    drain(&fs, &dir).unwrap();
    assert_eq!(level("ckpt-3"), 0);
    assert_eq!(pruned(), ["ckpt-1"]);
    let of_removed = local(&dir);
    assert_eq!(of_removed, 2, "they are cleared away with the next");
    assert!(checkpoint_in_levels(&fs, &dir, 4).1.is_ok());
    assert_eq!(local(&dir), 0);
}

/// A node is lost with one image that was not drained.
#[test]
fn a_lost_image_leaves_the_older_set() {
    let (temp, fs) = (tempfile::tempdir().unwrap(), FileSystem::default());
    let dir = temp.path().join("ck");
    write_set(&dir, 1, RANKS);
    let set = write_locally(&fs, &dir, 2).unwrap();
    let newest = || newest_whole(&dir, None).unwrap();
    assert_eq!(newest().set.name(), "ckpt-2");
    assert!(local_dir(&fs, &dir, 0).drain(None).is_empty());
    assert!(set.join("rank-0.img").exists() && !set.join("rank-1.img").exists());
    let manifest = newest().set.manifest().clone();
    let place = manifest.ranks[1].local.as_ref().unwrap();
    newest().set.image(1, None).unwrap();

    let sound = fs::read(place).unwrap();
    let mut damaged = sound.clone();
    damaged[5000] ^= 1;
    fs::write(place, damaged).unwrap();
    let failed = local_dir(&fs, &dir, 1).drain(None);
    assert!(failed[0].1.to_string().contains("checksum"), "{failed:?}");
    assert!(!set.join("rank-1.img").exists(), "damage is not drained");

    fs::remove_file(place).unwrap();
    let chosen = newest();
    assert_eq!(chosen.set.name(), "ckpt-1");
    let why = chosen.skipped.join(", ");
    assert!(
        why.contains("rank 1 lies on") && why.contains("not drained"),
        "{why}"
    );
}

/// The fallback that a message names, and the set that is used when others are left out.
#[test]
fn the_fallback_for_an_image_out_of_reach_is_within_reach() {
    let (temp, fs) = (tempfile::tempdir().unwrap(), FileSystem::default());
    let dir = temp.path().join("ck");
    write_set(&dir, 1, RANKS);
    for number in [2, 3] {
        write_with_copies(&fs, &dir, number).unwrap();
    }
    fs::remove_dir_all(dir.with_file_name("local")).unwrap();
    fs::remove_dir_all(dir.with_file_name("partner1")).unwrap();
    let newest = newest_whole(&dir, None).unwrap().set;
    assert_eq!(newest.name(), "ckpt-3", "the copy may exist elsewhere");
    let why = newest.check_reach(0).unwrap_err();
    let why = explain(&dir, "ckpt-3", None, why).to_string();
    assert!(
        why.contains("ckpt-1") && !why.contains("ckpt-2"),
        "it names a set that cannot be reached either: {why}"
    );
    let without = |left_out: &[u64]| newest_whole_without(&dir, None, left_out);
    assert_eq!(without(&[3]).unwrap().set.name(), "ckpt-2");
    assert_eq!(without(&[2, 3]).unwrap().set.name(), "ckpt-1");
    let why = without(&[1, 2, 3]).unwrap_err().to_string();
    assert!(
        why.contains("ckpt-3: an image of it is out of reach"),
        "{why}"
    );
}

/// A node is lost with its image, and its partner has a copy: a process that reaches the copy drains it.
#[test]
fn a_copy_replaces_a_lost_image() {
    let (temp, fs) = (tempfile::tempdir().unwrap(), FileSystem::default());
    let dir = temp.path().join("ck");
    let set = write_with_copies(&fs, &dir, 1).unwrap();
    fs::remove_dir_all(dir.with_file_name("local")).unwrap();
    let newest = newest_whole(&dir, None).unwrap().set;
    newest.image(1, None).unwrap();
    assert!(newest.reaches(0) && newest.reaches(1));

    // Rank 0's copy is on a machine that cannot be reached from here.
    let (away, partner) = (temp.path().join("away"), dir.with_file_name("partner1"));
    fs::rename(&partner, &away).unwrap();
    let newest = newest_whole(&dir, None).unwrap().set;
    assert!(!newest.reaches(0) && newest.reaches(1));
    let why = newest.image(0, None).unwrap_err().to_string();
    assert!(
        why.contains("rank 0 lies on") && why.contains("and on partner1"),
        "{why}"
    );
    fs::rename(&away, &partner).unwrap();

    for rank in 0..RANKS {
        newest.drain(&fs, rank).unwrap();
        assert!(set.join(image_file(rank)).exists());
        assert_eq!(
            lying_in(dir.with_file_name(format!("partner{}", (rank + 1) % RANKS))),
            0
        );
    }
    assert_eq!(newest.undrained().count(), 0);
    newest.image(0, None).unwrap();
}

/// A drained image needs no copy, and neither does an abandoned one.
#[test]
fn copies_are_removed_with_their_images() {
    let (temp, fs) = (tempfile::tempdir().unwrap(), FileSystem::default());
    let dir = temp.path().join("ck");
    let copies = || -> usize {
        let partners = (0..RANKS).map(|rank| dir.with_file_name(format!("{PARTNER}{rank}")));
        partners.map(lying_in).sum()
    };
    let tidy = || (0..RANKS).for_each(|rank| partner_dir(&fs, &dir, rank).tidy(None));
    write_with_copies(&fs, &dir, 1).unwrap();
    tidy();
    assert_eq!(copies(), 2, "nothing is drained");
    assert!(local_dir(&fs, &dir, 0).drain(None).is_empty());
    tidy();
    assert_eq!(copies(), 1);
    drain(&fs, &dir).unwrap();
    tidy();
    assert_eq!(copies(), 0);

    write_with_copies(&fs, &dir, 2).unwrap();
    fs::remove_dir_all(dir.join("ckpt-2")).unwrap();
    for rank in 0..RANKS {
        let partner = partner_dir(&fs, &dir, rank);
        partner.begin("ckpt-3", SetId([3; 16]), None).unwrap();
    }
    assert_eq!(copies(), 0);
}

/// Whichever step of copying fails, in whatever way, there is a whole copy, or an error and none.
#[test]
fn a_copy_is_whole_or_absent() {
    for fault in [Fault::ShortWrite, Fault::Full, Fault::Broken] {
        for at in 1.. {
            let temp = tempfile::tempdir().unwrap();
            let dir = temp.path().join("ck");
            let fs = FileSystem::watched(Some(FaultAt { fault, at }), |_| {});
            let (partner, image) = (partner_dir(&fs, &dir, 0), vec![7; 3 << 20]);
            let kept = partner.keep("ckpt-1", SetId([1; 16]), 0, 3 << 20, &mut &image[..]);
            if fs.steps().len() < at {
                assert!(at > 5, "there are more steps than {at}");
                break;
            }
            match kept {
                Ok(path) => assert_eq!(fs::read(path).unwrap(), image),
                Err(_) => assert_eq!(lying_in(dir.with_file_name("partner1")), 0),
            }
        }
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("ck");
    let partner = partner_dir(&FileSystem::default(), &dir, 0);
    let keep = |mut bytes: &[u8]| partner.keep("ckpt-1", SetId([1; 16]), 0, 9, &mut bytes);
    let cut = keep(b"12345678").unwrap_err().to_string();
    assert!(cut.contains("8 of 9 bytes"), "{cut}");
    let path = keep(b"123456789 and what is not of it").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"123456789");
    let odd = partner.keep("../ckpt-1", SetId([1; 16]), 0, 1, &mut &b"1"[..]);
    assert!(odd.is_err(), "a name that is none of ours");
    // Another file of this name may be the image itself.
    assert!(keep(b"987654321").is_err());
    assert_eq!(fs::read(&path).unwrap(), b"123456789");
}
