//! A set is made beside an older one, which is then removed, and one step on the disk fails: each of
//! them, in every way. What can be restarted from afterwards is the old set or the new one, whole; and
//! the next set can be made. `docs/faults.md` is the table of the outcomes.

mod common;

use std::fmt::Write;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use common::{write_set, write_set_on};
use stasis_ckpt_image::{
    create_checkpoint_dir, list_sets, newest_whole, prune, Disk, Fault, FaultAt, Made, Result,
    SetState, Step,
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

/// What a job does at a checkpoint: set 2, and set 1 goes.
fn checkpoint(disk: &Disk, dir: &Path) -> (Result<PathBuf>, Result<Vec<String>>) {
    let made = write_set_on(disk, dir, 2, RANKS, None);
    let pruned = match made {
        Ok(_) => prune(disk, dir, NonZeroUsize::MIN, None),
        Err(_) => Ok(Vec::new()),
    };
    (made, pruned)
}

/// One cell of the table, and the step that failed; nothing if there are not so many steps.
fn cell(how: How, at: usize) -> Option<(Made, &'static str)> {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("ck");
    create_checkpoint_dir(&dir).unwrap();
    write_set(&dir, 1, RANKS);
    let fault = how.fault();
    let disk = Disk::watched(Some(FaultAt { fault, at }), |_| {});
    let (made, pruned) = checkpoint(&disk, &dir);
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
        made.and(pruned)
            .unwrap_or_else(|e| panic!("{context}: {e}"));
    }
    next_is_made(&dir, &context);
    Some((failed, outcome))
}

/// The next checkpoint succeeds and leaves nothing but itself.
fn next_is_made(dir: &Path, context: &str) {
    write_set(dir, 3, RANKS);
    prune(&Disk::default(), dir, NonZeroUsize::MIN, None).unwrap();
    let left: Vec<_> = list_sets(dir, None)
        .unwrap()
        .into_iter()
        .map(|set| (set.name, set.state))
        .collect();
    let expected = [("ckpt-3".to_owned(), SetState::Whole)];
    assert_eq!(left, expected, "{context}");
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

/// What `ckpt-N` was renamed from, or what `ckpt-N.partial` was.
fn other_name(path: &Path) -> PathBuf {
    match path.extension() {
        Some(_) => path.with_extension(""),
        None => path.with_extension("partial"),
    }
}

fn words(made: &Made) -> String {
    let name = made.path.file_name().unwrap().to_string_lossy();
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

fn table() -> String {
    let mut page = String::from(HEAD);
    for at in 1.. {
        let cells: Vec<_> = HOWS.iter().map_while(|how| cell(*how, at)).collect();
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

| | step | killed | power cut | short write | disk full | I/O error |
|---|---|---|---|---|---|---|
";

#[test]
fn old_or_new_but_never_neither() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/faults.md");
    let table = table();
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
    let gone = prune(&Disk::default(), &dir, NonZeroUsize::new(2).unwrap(), None).unwrap();
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
    stasis_ckpt_image::Set::open(&dir, "ckpt-2", None)
        .unwrap()
        .restart_worked();
    assert_eq!(newest().set.name(), "ckpt-2");
}
