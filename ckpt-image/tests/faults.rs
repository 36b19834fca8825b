//! A set is made beside an older one, which is then removed, and one step on the disk fails: each of
//! them, in every way. What can be restarted from afterwards is the old set or the new one, whole; and
//! the next set can be made. `docs/faults.md` is the table of the outcomes.

mod common;

use std::fmt::Write;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use common::{manifest, write_set, write_set_on, write_small_on};
use stasis_ckpt_image::{
    create_checkpoint_dir, image_file, list_sets, newest_whole, prune, set_name, Disk, Environment,
    Fault, FaultAt, LocalDir, Made, PartnerCopy, Result, Set, SetId, SetState, SetWriter, Step,
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

/// What a job does at a checkpoint: makes a set, and whether that has worked; and the rest of it.
type Checkpoint = fn(&Disk, &Path, u64) -> (Result<PathBuf>, Result<()>);

/// Makes the set, and older ones go.
fn checkpoint(disk: &Disk, dir: &Path, number: u64) -> (Result<PathBuf>, Result<()>) {
    let made = write_set_on(disk, dir, number, RANKS, None);
    let pruned = match made {
        Ok(_) => prune(disk, dir, NonZeroUsize::MIN, None, None),
        Err(_) => Ok(Vec::new()),
    };
    (made, pruned.map(drop))
}

/// The local directory of a rank, beside the checkpoint directory.
fn local_dir(disk: &Disk, dir: &Path, rank: u32) -> LocalDir {
    LocalDir::new(disk, &dir.with_file_name("local"), dir, rank)
}

/// Makes the set with its images in a local directory.
fn write_locally(disk: &Disk, dir: &Path, number: u64) -> Result<PathBuf> {
    write_in_levels(disk, dir, number, &|_, _, _, _| Ok(None))
}

/// The local directory of a rank's partner, on a machine of its own.
fn partner_dir(disk: &Disk, dir: &Path, rank: u32) -> LocalDir {
    let partner = (rank + 1) % RANKS;
    let local = dir.with_file_name(format!("{PARTNER}{partner}"));
    LocalDir::new(disk, &local, dir, partner)
}

/// Partners' machines, before their number.
const PARTNER: &str = "partner";

/// Makes the set with its images in a local directory, and a copy of each at its rank's partner.
fn write_with_copies(disk: &Disk, dir: &Path, number: u64) -> Result<PathBuf> {
    write_in_levels(disk, dir, number, &|rank, set, id, image| {
        let (mut from, partner) = (fs::File::open(image).unwrap(), partner_dir(disk, dir, rank));
        let path = partner.keep(set, id, rank, image.metadata().unwrap().len(), &mut from)?;
        let host = format!("{PARTNER}{}", (rank + 1) % RANKS);
        Ok(Some(PartnerCopy { host, path }))
    })
}

/// Has a partner keep a copy of the image of a rank.
type Copying<'a> = &'a dyn Fn(u32, &str, SetId, &Path) -> Result<Option<PartnerCopy>>;

fn write_in_levels(disk: &Disk, dir: &Path, number: u64, copy: Copying) -> Result<PathBuf> {
    let writer = SetWriter::begin(disk, dir, number)?;
    let id = writer.set_id();
    let image = |rank| {
        let local = local_dir(disk, dir, rank);
        let folder = local.begin(&set_name(number), id, None)?;
        let image = write_small_on(
            disk,
            &folder.join(image_file(rank)),
            id,
            [rank, RANKS],
            false,
        )?;
        let place = local.settle(&folder)?;
        let copy = copy(rank, &set_name(number), id, &place)?;
        Ok((image, (place, copy)))
    };
    let images = (0..RANKS).map(image).collect::<Result<Vec<_>>>()?;
    let (images, places): (Vec<_>, Vec<_>) = images.into_iter().unzip();
    let mut manifest = manifest(id, images);
    for (entry, (place, copy)) in manifest.ranks.iter_mut().zip(places) {
        (entry.local, entry.copy) = (Some(place), copy);
        entry.host = Environment::here().unwrap().host;
    }
    writer.commit(&manifest, None)
}

/// Drains what lies in the local directory.
fn drain(disk: &Disk, dir: &Path) -> Result<()> {
    let of_rank = |rank| local_dir(disk, dir, rank).drain(None);
    let failed: Vec<_> = (0..RANKS).flat_map(of_rank).collect();
    failed.into_iter().try_for_each(|(_, why)| Err(why))
}

/// Makes the set locally, drains it, and older ones go.
fn checkpoint_in_levels(disk: &Disk, dir: &Path, number: u64) -> (Result<PathBuf>, Result<()>) {
    let made = write_locally(disk, dir, number);
    let rest = match made {
        Ok(_) => drain(disk, dir)
            .and_then(|()| prune(disk, dir, NonZeroUsize::MIN, None, None))
            .map(drop),
        Err(_) => Ok(()),
    };
    (made, rest)
}

/// One cell of the table, and the step that failed; nothing if there are not so many steps.
fn cell(checkpoint: Checkpoint, how: How, at: usize) -> Option<(Made, &'static str)> {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("ck");
    create_checkpoint_dir(&dir).unwrap();
    write_set(&dir, 1, RANKS);
    let fault = how.fault();
    let disk = Disk::watched(Some(FaultAt { fault, at }), |_| {});
    let (made, rest) = checkpoint(&disk, &dir, 2);
    let steps = disk.steps();
    if steps.len() < at {
        return None;
    }
    let (failed, before) = (steps[at - 1].clone(), &steps[..at - 1]);
    if how == How::PowerCut {
        lose(before);
    }
    let context = format!("{how:?} at step {at}", how = failed.step);
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

/// The next checkpoint succeeds and leaves nothing but itself.
fn next_is_made(checkpoint: Checkpoint, dir: &Path, context: &str) {
    let (made, rest) = checkpoint(&Disk::default(), dir, 3);
    made.and(rest).unwrap_or_else(|e| panic!("{context}: {e}"));
    assert_eq!(
        lying(dir),
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

/// How many images there are in the local directory.
fn lying(dir: &Path) -> usize {
    lying_in(dir.with_file_name("local"))
}

fn lying_in(local: PathBuf) -> usize {
    let within = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
    let jobs = within(local);
    let folders = jobs.flat_map(|job| within(job.path()));
    folders.flat_map(|folder| within(folder.path())).count()
}

/// Takes back of what was done everything that no sync has made durable: the most that a power cut
/// can take.
fn lose(steps: &[Made]) {
    for (i, made) in steps.iter().enumerate().rev() {
        let later = |step: Step, path: &Path| {
            steps[i + 1..]
                .iter()
                .any(|m| m.step == step && m.path == path)
        };
        let entry_stays = later(Step::SyncDir, made.path.parent().unwrap());
        match made.step {
            Step::Write if !later(Step::Sync, &made.path) => fs::write(&made.path, "").unwrap(),
            Step::Create if !entry_stays => fs::remove_file(&made.path).unwrap(),
            Step::MakeDir if !entry_stays && made.path.exists() => {
                fs::remove_dir_all(&made.path).unwrap();
            }
            Step::Rename if !entry_stays => fs::rename(&made.path, other_name(&made.path)).unwrap(),
            _ => {}
        }
    }
}

/// What `ckpt-N` was renamed from, or what `ckpt-N.partial` was; images likewise.
fn other_name(path: &Path) -> PathBuf {
    match path.extension() {
        Some(partial) if partial == "partial" => path.with_extension(""),
        _ => PathBuf::from(format!("{}.partial", path.display())),
    }
}

fn words(made: &Made) -> String {
    let name = made.path.file_name().unwrap().to_string_lossy();
    let local = made
        .path
        .components()
        .any(|part| part.as_os_str() == "local");
    // Names that are others each time are cut off, as they are in the text above the table.
    let name = match name.split_once('.') {
        Some((set, id)) if local && id.len() == 32 => format!("local/{set}.ID"),
        _ if local && name.starts_with("stasis-") => "local".to_owned(),
        _ if local => format!("local/{name}"),
        _ => name.into_owned(),
    };
    let verb = match made.step {
        Step::MakeDir => "make the directory",
        Step::Create => "create",
        Step::Write => "write",
        Step::Sync => "sync",
        Step::SyncDir => "sync the directory",
        Step::Rename => "rename to",
        Step::Remove => "remove",
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

Generated by `cargo xtask docs` from `ckpt-image/tests/faults.rs`, which makes every fault and looks.

Two ranks write set `ckpt-2` beside `ckpt-1`. When the directory `ck` is synced the checkpoint has its
answer; after that `ckpt-1` is removed (`--keep 1`). The step fails in the way of the column; the cell
says which set can be restarted from then, verified to the last byte. There is always one, and the next
checkpoint always succeeds.

- **killed**: every process of the job is gone before the step.
- **power cut**: the same, and everything is lost that was not synced.
- **short write**: the kernel takes half of what it is given.
- **disk full**, **I/O error**: the step fails with ENOSPC or EIO, and the job goes on.

";

/// The head of the second table.
const LEVELS: &str = "
## With a local directory

The same with `--local-dir`: images are written to a local directory, and drained from there after the
checkpoint has its answer. What cannot be drained then is drained with the next checkpoint.

";

/// The section on the undo journal. Other tests inject these faults.
const JOURNAL: &str = "
## In the undo journal

What a restart then finds of the files that the job has changed since the checkpoint. Each fault is made by the tests
of the last column.

| fault | after the restart | test |
|---|---|---|
| a rank is killed while it writes a note | the note counts for nothing: what it was about has not been done | `undo/random`, `stasis-undo::record` |
| a rank is killed after a note, before the change | what was noted is as it was | `undo/random`, `torture/files-overwritten` |
| the restart is killed while it undoes | the next one finishes that | `undo/random`, `stasis-undo::faults` |
| the restart is killed while it removes the journals that it has undone | they count as removed, those of all ranks | `undo/random`, `stasis-undo::segment` |
| the journal has as many bytes as `--undo-limit` lets it have | the file that it could not hold stays as it is, and was named at once; all others are as they were | `undo/limit` |
| the job needs the room that the journal has taken on a full disk | files that this rank has changed stay as they are; the job's writes succeed, and it was said at once | `undo/disk-full` |
| there is no room for the journal | the same | `undo/disk-full` |
| notes of a journal are damaged | that journal is named and passed over; what others hold is undone | `stasis-undo::faults` |
| content in a journal is damaged | nothing is restored; the file is named, and `--files cut` goes on with files as they are | `stasis-undo::faults` |
| a rank's journal is missing | what this rank has changed stays as it is; what others hold is undone | `stasis-undo::faults` |
| the checkpoint directory is on another file system than the files | all are as they were: content is in the journal where no link can be | `undo/random-elsewhere` |
| another program has put another file in the place of one | it stays, and is named | `stasis-undo::faults` |
| another program has appended to one that the job has overwritten | it has its old content; what was added is kept in `cut-off` | `stasis-undo::faults` |
| two ranks change one file or name at the same moment | it is as it was | `undo/random`, `undo/random-elsewhere` |
";

const COLUMNS: &str = "\
| | step | killed | power cut | short write | disk full | I/O error |
|---|---|---|---|---|---|---|
";

#[test]
fn old_or_new_but_never_neither() {
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
fn too_few_are_kept_never() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("ck");
    for number in 1..=4 {
        write_set(&dir, number, 1);
    }
    fs::remove_file(dir.join("ckpt-3/manifest.json")).unwrap();
    let gone = prune(
        &Disk::default(),
        &dir,
        NonZeroUsize::new(2).unwrap(),
        None,
        None,
    )
    .unwrap();
    assert_eq!(gone, ["ckpt-1"], "one that cannot be used does not count");
    assert!(dir.join("ckpt-3").exists(), "and stays to be looked at");
}

#[test]
fn a_set_that_keeps_failing_is_passed_over() {
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
    let why = chosen.passed_over.join(", ");
    assert!(why.contains("ckpt-2: 3 restarts"), "{why}");
    Set::open(&dir, "ckpt-2", None).unwrap().restart_worked();
    assert_eq!(newest().set.name(), "ckpt-2");
}

/// What lies on nodes alone is lost with one of them.
#[test]
fn a_drained_set_stays_until_there_is_a_newer_one() {
    let (temp, disk) = (tempfile::tempdir().unwrap(), Disk::default());
    let dir = temp.path().join("ck");
    write_set(&dir, 1, RANKS);
    let pruned = || prune(&disk, &dir, NonZeroUsize::MIN, None, None).unwrap();
    for number in 2..=3 {
        write_locally(&disk, &dir, number).unwrap();
    }
    assert_eq!(pruned(), ["ckpt-2"]);
    let level = |set: &str| Set::open(&dir, set, None).unwrap().undrained().count();
    assert_eq!((level("ckpt-3"), level("ckpt-1")), (2, 0));
    drain(&disk, &dir).unwrap();
    assert_eq!(level("ckpt-3"), 0);
    assert_eq!(pruned(), ["ckpt-1"]);
    let of_removed = lying(&dir);
    assert_eq!(of_removed, 2, "they are cleared away with the next");
    assert!(checkpoint_in_levels(&disk, &dir, 4).1.is_ok());
    assert_eq!(lying(&dir), 0);
}

/// A node is lost with one image that was not drained.
#[test]
fn a_lost_image_leaves_the_older_set() {
    let (temp, disk) = (tempfile::tempdir().unwrap(), Disk::default());
    let dir = temp.path().join("ck");
    write_set(&dir, 1, RANKS);
    let set = write_locally(&disk, &dir, 2).unwrap();
    let newest = || newest_whole(&dir, None).unwrap();
    assert_eq!(newest().set.name(), "ckpt-2");
    assert!(local_dir(&disk, &dir, 0).drain(None).is_empty());
    assert!(set.join("rank-0.img").exists() && !set.join("rank-1.img").exists());
    let manifest = newest().set.manifest().clone();
    let place = manifest.ranks[1].local.as_ref().unwrap();
    newest().set.image(1, None).unwrap();

    let sound = fs::read(place).unwrap();
    let mut damaged = sound.clone();
    damaged[5000] ^= 1;
    fs::write(place, damaged).unwrap();
    let failed = local_dir(&disk, &dir, 1).drain(None);
    assert!(failed[0].1.to_string().contains("checksum"), "{failed:?}");
    assert!(!set.join("rank-1.img").exists(), "damage is not drained");

    fs::remove_file(place).unwrap();
    let chosen = newest();
    assert_eq!(chosen.set.name(), "ckpt-1");
    let why = chosen.passed_over.join(", ");
    assert!(
        why.contains("rank 1 lies on") && why.contains("not drained"),
        "{why}"
    );
}

/// A node is lost with its image, of which its partner has a copy: whoever reaches that brings it.
#[test]
fn a_copy_stands_for_a_lost_image() {
    let (temp, disk) = (tempfile::tempdir().unwrap(), Disk::default());
    let dir = temp.path().join("ck");
    let set = write_with_copies(&disk, &dir, 1).unwrap();
    fs::remove_dir_all(dir.with_file_name("local")).unwrap();
    let newest = newest_whole(&dir, None).unwrap().set;
    newest.image(1, None).unwrap();
    assert!(newest.reaches(0) && newest.reaches(1));

    // Rank 0's is on a machine that is not seen from here.
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
        newest.bring(&disk, rank).unwrap();
        assert!(set.join(image_file(rank)).exists());
        assert_eq!(
            lying_in(dir.with_file_name(format!("partner{}", (rank + 1) % RANKS))),
            0
        );
    }
    assert_eq!(newest.undrained().count(), 0);
    newest.image(0, None).unwrap();
}

/// What is drained needs no copy, and what was given up neither.
#[test]
fn copies_go_with_what_they_are_copies_of() {
    let (temp, disk) = (tempfile::tempdir().unwrap(), Disk::default());
    let dir = temp.path().join("ck");
    let copies = || -> usize {
        let partners = (0..RANKS).map(|rank| dir.with_file_name(format!("{PARTNER}{rank}")));
        partners.map(lying_in).sum()
    };
    let tidy = || (0..RANKS).for_each(|rank| partner_dir(&disk, &dir, rank).tidy(None));
    write_with_copies(&disk, &dir, 1).unwrap();
    tidy();
    assert_eq!(copies(), 2, "nothing is drained");
    assert!(local_dir(&disk, &dir, 0).drain(None).is_empty());
    tidy();
    assert_eq!(copies(), 1);
    drain(&disk, &dir).unwrap();
    tidy();
    assert_eq!(copies(), 0);

    write_with_copies(&disk, &dir, 2).unwrap();
    fs::remove_dir_all(dir.join("ckpt-2")).unwrap();
    for rank in 0..RANKS {
        let partner = partner_dir(&disk, &dir, rank);
        partner.begin("ckpt-3", SetId([3; 16]), None).unwrap();
    }
    assert_eq!(copies(), 0);
}

/// Whatever step of copying fails, in whatever way: there is a whole copy, or an error and none.
#[test]
fn a_copy_is_whole_or_is_none() {
    for fault in [Fault::ShortWrite, Fault::Full, Fault::Broken] {
        for at in 1.. {
            let temp = tempfile::tempdir().unwrap();
            let dir = temp.path().join("ck");
            let disk = Disk::watched(Some(FaultAt { fault, at }), |_| {});
            let (partner, image) = (partner_dir(&disk, &dir, 0), vec![7; 3 << 20]);
            let kept = partner.keep("ckpt-1", SetId([1; 16]), 0, 3 << 20, &mut &image[..]);
            if disk.steps().len() < at {
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
    let partner = partner_dir(&Disk::default(), &dir, 0);
    let keep = |mut bytes: &[u8]| partner.keep("ckpt-1", SetId([1; 16]), 0, 9, &mut bytes);
    let cut = keep(b"12345678").unwrap_err().to_string();
    assert!(cut.contains("8 of 9 bytes"), "{cut}");
    let path = keep(b"123456789 and what is not of it").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"123456789");
    let odd = partner.keep("../ckpt-1", SetId([1; 16]), 0, 1, &mut &b"1"[..]);
    assert!(odd.is_err(), "a name that is none of ours");
    // Another one of this name may be the image itself.
    assert!(keep(b"987654321").is_err());
    assert_eq!(fs::read(&path).unwrap(), b"123456789");
}
