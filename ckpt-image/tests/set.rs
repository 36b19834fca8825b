//! Sets: atomic commit, selection, and the messages about unusable ones.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::Path;

use common::*;
use skip::skip;
use stasis_ckpt_image::{
    explain, image_file, list_sets, newest_whole, next_number, FileSystem, ImageError, Set,
    SetState, SetWriter, MANIFEST_FILE,
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn states(dir: &Path) -> Vec<(String, bool)> {
    let sets = list_sets(dir, None).unwrap();
    sets.into_iter()
        .map(|set| (set.name, set.state == SetState::Whole))
        .collect()
}

#[test]
fn a_set_is_made_whole_and_private() {
    let dir = tempfile::tempdir().unwrap();
    let ck = dir.path().join("deep/ck");
    assert_eq!(next_number(&ck).unwrap(), 1);
    let path = write_set(&ck, 1, 2);
    assert_eq!(next_number(&ck).unwrap(), 2);
    assert_eq!(path, ck.join("ckpt-1"));
    assert_eq!((mode(&ck), mode(&path)), (0o700, 0o700));
    for file in ["rank-0.img", "rank-1.img", MANIFEST_FILE] {
        assert_eq!(mode(&path.join(file)), 0o600);
    }
    assert_eq!(fs::read_dir(&ck).unwrap().count(), 1);
    let set = newest_whole(&ck, None).unwrap().set;
    assert_eq!(set.name(), "ckpt-1");
    for rank in 0..2 {
        assert_eq!(set.image(rank, Some(1)).unwrap().header().rank, rank);
    }
    let info = &list_sets(&ck, None).unwrap()[0];
    assert!(info.bytes() > 0 && info.state == SetState::Whole);
}

#[test]
fn sets_are_listed_newest_first_and_unfinished_ones_never_used() {
    let dir = tempfile::tempdir().unwrap();
    let ck = dir.path();
    fs::set_permissions(ck, Permissions::from_mode(0o700)).unwrap();
    for number in [9, 10, 2] {
        write_set(ck, number, 1);
    }
    fs::create_dir(ck.join("ckpt-007")).unwrap();
    fs::create_dir(ck.join("ckpt-x")).unwrap();
    let open = SetWriter::begin(&FileSystem::default(), ck, 11).unwrap();
    write_small(&open.path().join("rank-0.img"), open.set_id(), 0, 1);
    assert_eq!(next_number(ck).unwrap(), 12);
    let expected = [
        ("ckpt-11.partial", false),
        ("ckpt-10", true),
        ("ckpt-9", true),
        ("ckpt-2", true),
    ];
    assert_eq!(
        states(ck),
        expected.map(|(name, whole)| (name.to_owned(), whole))
    );
    assert_eq!(newest_whole(ck, None).unwrap().set.name(), "ckpt-10");
    drop(open);
    assert_eq!(states(ck).len(), 3);
}

#[test]
fn a_set_without_a_manifest_is_no_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let path = write_set(dir.path(), 3, 1);
    fs::remove_file(path.join(MANIFEST_FILE)).unwrap();
    assert!(matches!(
        Set::open(dir.path(), "ckpt-3", None),
        Err(ImageError::NoManifest { .. })
    ));
    let error = newest_whole(dir.path(), None).unwrap_err().to_string();
    assert!(
        error.contains("no whole checkpoint") && error.contains("ckpt-3"),
        "{error}"
    );
    for name in ["ckpt-4", "../ckpt-3", "ckpt-3.partial", ""] {
        assert!(matches!(
            Set::open(dir.path(), name, None),
            Err(ImageError::NoSuchSet { .. })
        ));
    }
}

#[test]
fn sets_of_dead_jobs_are_removed_and_those_of_live_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    write_set(dir.path(), 1, 1);
    let dead = dir.path().join("ckpt-2.partial");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("rank-0.img"), "half").unwrap();
    let alive = SetWriter::begin(&FileSystem::default(), dir.path(), 3).unwrap();
    assert!(!dead.exists());
    let other = SetWriter::begin(&FileSystem::default(), dir.path(), 4).unwrap();
    assert!(alive.path().exists());
    drop((alive, other));
    assert_eq!(states(dir.path()), [("ckpt-1".to_owned(), true)]);
}

#[test]
fn a_set_that_differs_from_the_reports_is_not_committed() {
    let dir = tempfile::tempdir().unwrap();
    for broken in 0..4 {
        let writer = SetWriter::begin(&FileSystem::default(), dir.path(), 1).unwrap();
        let id = writer.set_id();
        let file = |rank| writer.path().join(image_file(rank));
        let images = [0, 1].map(|rank| write_small(&file(rank), id, rank, 2));
        let mut manifest = manifest(id, images.to_vec());
        match broken {
            0 => fs::remove_file(file(1)).unwrap(),
            1 => fs::OpenOptions::new()
                .write(true)
                .open(file(1))
                .unwrap()
                .set_len(5000)
                .unwrap(),
            2 => fs::rename(file(1), file(0)).unwrap(),
            _ => manifest.world_size = 3,
        }
        writer.commit(&manifest, None).unwrap_err();
        assert_eq!(states(dir.path()), []);
    }
}

#[test]
fn the_damage_is_named_with_the_older_set() {
    let dir = tempfile::tempdir().unwrap();
    let ck = dir.path();
    write_set(ck, 1, 2);
    let bad = write_set(ck, 2, 2);
    let image = |rank| bad.join(image_file(rank));
    let good = [0, 1].map(|rank| fs::read(image(rank)).unwrap());
    let old = fs::read(ck.join("ckpt-1/rank-1.img")).unwrap();
    let complaint = |rank| {
        let reason = Set::open(ck, "ckpt-2", None)
            .and_then(|set| set.image(rank, Some(1)))
            .unwrap_err();
        explain(ck, "ckpt-2", None, reason).to_string()
    };
    let cases: [(&str, &dyn Fn()); 5] = [
        ("the image of rank 1 is missing", &|| {
            fs::remove_file(image(1)).unwrap()
        }),
        ("rank-1.img (rank 1): it is 6000 bytes long", &|| {
            fs::write(image(1), &good[1][..6000]).unwrap()
        }),
        ("(rank 1): memory chunk 0", &|| {
            let mut flipped = good[1].clone();
            flipped[5000] ^= 4;
            fs::write(image(1), flipped).unwrap();
        }),
        ("holds the image of rank 0: files were swapped", &|| {
            fs::write(image(1), &good[0]).unwrap()
        }),
        ("(rank 1) belongs to another set", &|| {
            fs::write(image(1), &old).unwrap()
        }),
    ];
    for (expected, break_it) in cases {
        fs::write(image(1), &good[1]).unwrap();
        break_it();
        let message = complaint(1);
        assert!(message.contains(expected), "{expected}: {message}");
        assert!(
            message.contains("stasis restart ") && message.contains("/ckpt-1"),
            "{message}"
        );
    }
    fs::remove_dir_all(ck.join("ckpt-1")).unwrap();
    assert!(complaint(1).contains("no older whole checkpoint"));
}

#[test]
fn another_number_of_ranks_is_refused() {
    for (taken, words) in [
        (1, "1 rank, this job has 3"),
        (2, "2 ranks, this job has 3"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write_set(dir.path(), 1, taken);
        let error = newest_whole(dir.path(), None)
            .unwrap()
            .set
            .check_world_size(3)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("was taken with {words}")),
            "{error}"
        );
    }
}

#[test]
fn files_that_others_can_write_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ck = dir.path().join("ck");
    let set = write_set(&ck, 1, 1);
    let image = set.join("rank-0.img");
    for (path, good) in [
        (&ck, 0o700),
        (&set, 0o700),
        (&image, 0o600),
        (&set.join(MANIFEST_FILE), 0o600),
    ] {
        for bad in [0o720, 0o702, 0o777] {
            fs::set_permissions(path, Permissions::from_mode(bad)).unwrap();
            let error = Set::open(&ck, "ckpt-1", None)
                .and_then(|set| set.image(0, None))
                .unwrap_err();
            assert!(error.to_string().contains("others can write it"), "{error}");
        }
        fs::set_permissions(path, Permissions::from_mode(good)).unwrap();
    }
    fs::set_permissions(&ck, Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(
        SetWriter::begin(&FileSystem::default(), &ck, 2),
        Err(ImageError::Access { .. })
    ));
}

#[test]
fn files_of_other_users_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ck = dir.path().join("ck");
    let set = write_set(&ck, 1, 1);
    for path in [&ck, &set, &set.join("rank-0.img"), &set.join(MANIFEST_FILE)] {
        if std::os::unix::fs::chown(path, Some(12345), None).is_err() {
            skip!("only root can give a file away");
        }
        let error = Set::open(&ck, "ckpt-1", None)
            .and_then(|set| set.image(0, None))
            .unwrap_err();
        assert!(
            error.to_string().contains("belongs to user 12345"),
            "{error}"
        );
        std::os::unix::fs::chown(path, Some(0), None).unwrap();
    }
}

#[test]
fn links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let ck = dir.path().join("ck");
    let set = write_set(&ck, 1, 1);
    let image = set.join("rank-0.img");
    fs::rename(&image, dir.path().join("elsewhere")).unwrap();
    symlink(dir.path().join("elsewhere"), &image).unwrap();
    let error = Set::open(&ck, "ckpt-1", None)
        .unwrap()
        .image(0, None)
        .unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    symlink(&set, ck.join("ckpt-2")).unwrap();
    let error = Set::open(&ck, "ckpt-2", None).unwrap_err();
    assert!(error.to_string().contains("not a directory"), "{error}");
}

#[test]
fn a_pipe_or_link_in_place_of_attempts_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let ck = dir.path().join("ck");
    let set = write_set(&ck, 1, 1);
    let attempts = set.join("attempts");
    let mut mkfifo = std::process::Command::new("mkfifo");
    assert!(mkfifo.arg(&attempts).status().unwrap().success());
    let set = newest_whole(&ck, None).unwrap().set;
    assert_eq!(set.attempts(), 0);
    set.restart_begun().unwrap();
    assert_eq!(set.attempts(), 1);
    fs::remove_file(&attempts).unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::write(&elsewhere, "7").unwrap();
    symlink(&elsewhere, &attempts).unwrap();
    assert_eq!(set.attempts(), 0);
    set.restart_begun().unwrap();
    assert_eq!(set.attempts(), 1);
    assert_eq!(fs::read(&elsewhere).unwrap(), b"7");
}

#[test]
fn a_full_or_forbidden_disk_is_explained() {
    for (errno, advice) in [
        (28, "Free space"),
        (122, "Free space"),
        (13, "--ckpt-dir"),
        (30, "--ckpt-dir"),
    ] {
        let error = ImageError::Io {
            action: "write",
            path: "ck/ckpt-1.partial/rank-0.img".into(),
            source: std::io::Error::from_raw_os_error(errno),
        };
        assert!(error.to_string().contains(advice), "{error}");
    }
    // A directory that cannot exist: below a file.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let error =
        SetWriter::begin(&FileSystem::default(), &dir.path().join("file/ck"), 1).unwrap_err();
    assert!(error.to_string().contains("file/ck"), "{error}");
}
