//! Retention removes the older sets of one run only, and does not touch archived sets.

mod common;

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use common::*;
use stasis_ckpt_image::{
    archive, archives, create_checkpoint_dir, image_file, list_sets, prune, FileSystem, Lineage,
    Manifest, Set, SetState, SetWriter,
};

/// A whole set of a run; returns its manifest.
fn set_of(dir: &Path, number: u64, lineage: Option<&Lineage>) -> Manifest {
    let writer = SetWriter::begin(&FileSystem::default(), dir, number).unwrap();
    let path = writer.path().join(image_file(0));
    let image = write_small_on(
        &FileSystem::default(),
        &path,
        writer.set_id(),
        [0, 1],
        false,
    );
    let manifest = Manifest {
        lineage: lineage.cloned(),
        ..manifest(writer.set_id(), vec![image.unwrap()])
    };
    writer.commit(&manifest, None).unwrap();
    manifest
}

fn pruned(dir: &Path, own: Option<&Lineage>) -> Vec<String> {
    prune(
        &FileSystem::default(),
        dir,
        NonZeroUsize::MIN,
        None,
        own,
        &[],
    )
    .unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let sets = list_sets(dir, None).unwrap();
    assert!(sets.iter().all(|set| set.state == SetState::Whole));
    sets.into_iter().map(|set| set.name).collect()
}

#[test]
fn sets_that_are_left_behind_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let pruned = |left_behind: &[u64]| {
        let two = NonZeroUsize::new(2).unwrap();
        prune(&FileSystem::default(), dir, two, None, None, left_behind).unwrap()
    };
    for number in 1..=4 {
        set_of(dir, number, None);
    }
    // The job has gone on from the first set, and made the fourth one.
    assert_eq!(pruned(&[2, 3]), [""; 0]);
    set_of(dir, 5, None);
    assert_eq!(pruned(&[2, 3]), ["ckpt-3", "ckpt-2", "ckpt-1"]);
    assert_eq!(names(dir), ["ckpt-5", "ckpt-4"]);
}

#[test]
fn a_run_removes_sets_of_its_own_lineage() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let begin = || Lineage::begin(vec!["./app".into()]).unwrap();
    let (first, stranger) = (begin(), begin());
    set_of(dir, 1, None);
    set_of(dir, 2, Some(&stranger));
    set_of(dir, 3, Some(&first));
    let from = set_of(dir, 4, Some(&first));
    let [one, other] = [(); 2].map(|()| from.continued().unwrap());
    assert_eq!(one.launched, ["./app"]);
    set_of(dir, 5, Some(&one));
    set_of(dir, 6, Some(&other));
    // The run's newest set is not among the newest of all.
    assert_eq!(pruned(dir, Some(&one)), ["ckpt-4", "ckpt-3"]);
    assert_eq!(names(dir), ["ckpt-6", "ckpt-5", "ckpt-2", "ckpt-1"]);
    let after = set_of(dir, 7, Some(&one)).continued().unwrap();
    set_of(dir, 8, Some(&after));
    assert_eq!(pruned(dir, Some(&after)), ["ckpt-7", "ckpt-5"]);
    // The oldest set has no lineage: a run does not remove it, but a command about such sets does.
    set_of(dir, 9, None);
    assert_eq!(pruned(dir, None), ["ckpt-1"]);
    assert_eq!(names(dir), ["ckpt-9", "ckpt-8", "ckpt-6", "ckpt-2"]);
}

#[test]
fn archived_sets_are_whole_even_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (ck, fs) = (dir.path().join("ck"), FileSystem::default());
    write_set(&ck, 1, 2);
    write_increment(&fs, &ck, 2, "ckpt-1", None).unwrap();
    let archived = archive(&fs, &ck, &[]).unwrap();
    assert_eq!(archived, ck.join("aside-1"));
    assert_eq!(
        (names(&ck).len(), names(&archived)),
        (0, vec!["ckpt-2".into(), "ckpt-1".into()])
    );
    Set::open(&archived, "ckpt-2", None)
        .unwrap()
        .image(1, None)
        .unwrap();

    // A process was killed in the middle.
    write_set(&ck, 1, 2);
    write_increment(&fs, &ck, 2, "ckpt-1", None).unwrap();
    let unfinished = ck.join("aside-2.partial");
    create_checkpoint_dir(&unfinished).unwrap();
    fs::rename(ck.join("ckpt-2"), unfinished.join("ckpt-2")).unwrap();
    let archived = archive(&fs, &ck, &[]).unwrap();
    assert_eq!(archived, ck.join("aside-2"));
    Set::open(&archived, "ckpt-2", None)
        .unwrap()
        .image(1, None)
        .unwrap();
    assert!(!unfinished.exists() && names(&ck).is_empty());
    assert_eq!(names(&ck.join("aside-1")).len(), 2);
    assert_eq!(archives(&ck).unwrap(), [ck.join("aside-1"), archived]);
}
