//! Undo with a damaged or missing journal, with files that another program has changed meanwhile, and after an
//! interruption.

use stasis_undo::{
    self as undo, Current, Cut, Done, Facts, Identity, Journal, Keeper, Place, Plan, Share,
};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const CUT: Cut = Cut {
    number: 1,
    id: [1; 16],
};

struct Scene {
    directory: tempfile::TempDir,
}

/// Records the calls of `keep` and `leave`.
struct Told {
    kept: Vec<PathBuf>,
    left: Vec<String>,
}

impl Keeper for Told {
    fn keep(&mut self, path: &Path, _: &File, _: u64, _: &str) -> bool {
        self.kept.push(path.to_owned());
        true
    }

    fn leave(&mut self, path: &Path, why: &dyn std::fmt::Display) {
        self.left.push(format!("{}: {why}", path.display()));
    }
}

fn facts(path: &Path) -> Facts {
    let found = fs::symlink_metadata(path).unwrap();
    let identity = Identity {
        device: found.dev(),
        inode: found.ino(),
        local: true,
    };
    Facts::found(identity, &found)
}

impl Scene {
    fn new(files: &[&str]) -> Scene {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let scene = Scene { directory };
        for name in files {
            fs::write(scene.path(name), b"as it was").unwrap();
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn checkpoints(&self) -> PathBuf {
        self.path("ck")
    }

    fn journal(&self, rank: u32) -> Journal {
        let mut journal = Journal::new(&self.checkpoints(), rank, "here".to_owned(), u64::MAX);
        journal.begin(CUT, Default::default());
        journal
    }

    /// A rank overwrites the first bytes of a file.
    fn overwrite(&self, journal: &mut Journal, name: &str) {
        self.overwrite_as(journal, name, facts);
    }

    /// The same, where the file has these attributes.
    fn overwrite_as(&self, journal: &mut Journal, name: &str, facts: fn(&Path) -> Facts) {
        let path = self.path(name);
        let read = |at, len| {
            let mut bytes = vec![0; len];
            let read = File::open(&path)?.read_at(&mut bytes, at)?;
            bytes.truncate(read);
            Ok(bytes)
        };
        journal.changing(&facts(&path), &|| path.clone(), 0..2, &read);
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"IS", 0).unwrap();
    }

    /// A rank removes a file.
    fn remove(&self, journal: &mut Journal, name: &str) {
        let path = self.path(name);
        let place = Place {
            name: &path,
            local: true,
        };
        journal.unlinking(place, &facts(&path), &|_, _| panic!("a link is enough"));
        fs::remove_file(&path).unwrap();
    }

    fn log(&self, rank: u32) -> PathBuf {
        let home = self.checkpoints().join(format!("undo/rank-{rank}"));
        let segment = fs::read_dir(home).unwrap().next().unwrap().unwrap();
        segment.path().join("log")
    }

    fn undo(&self) -> (Plan, Done, Told) {
        let plan = Plan::read(&self.checkpoints(), &CUT).unwrap();
        let mut told = Told {
            kept: Vec::new(),
            left: Vec::new(),
        };
        let hosts = ["here".to_owned()];
        let share = Share {
            host: "here",
            hosts: &hosts,
            first_here: true,
            first: true,
        };
        let done = plan.apply(&share, &mut told);
        (plan, done, told)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

#[test]
fn damaged_journal_is_reported_and_the_others_are_applied() {
    let scene = Scene::new(&["a", "b"]);
    scene.overwrite(&mut scene.journal(0), "a");
    scene.overwrite(&mut scene.journal(1), "b");
    let log = scene.log(0);
    let mut bytes = fs::read(&log).unwrap();
    bytes[30] ^= 1;
    fs::write(&log, bytes).unwrap();
    let (plan, done, _) = scene.undo();
    assert_eq!(plan.damaged.len(), 1);
    assert!(
        plan.damaged[0].contains("damaged at byte 0"),
        "{:?}",
        plan.damaged
    );
    assert_eq!((done.rewritten, done.failed), (1, 0));
    assert_eq!(
        [scene.text("a"), scene.text("b")],
        ["IS it was", "as it was"]
    );
}

#[test]
fn damaged_data_are_not_restored() {
    let scene = Scene::new(&["a", "b"]);
    let mut journal = scene.journal(0);
    scene.overwrite(&mut journal, "a");
    scene.overwrite(&mut journal, "b");
    let log = scene.log(0);
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.windows(9).position(|bytes| bytes == b"as it was");
    bytes[at.unwrap()] ^= 1;
    fs::write(&log, bytes).unwrap();
    let (_, done, told) = scene.undo();
    // The job must not go on before the user has examined the file.
    assert_eq!((done.rewritten, done.failed), (1, 1));
    assert!(told.left[0].contains("damaged"), "{:?}", told.left);
    assert_eq!(
        [scene.text("a"), scene.text("b")],
        ["IS it was", "as it was"]
    );
}

#[test]
fn missing_journal_is_ignored_and_the_others_are_applied() {
    let scene = Scene::new(&["a", "b"]);
    scene.overwrite(&mut scene.journal(0), "a");
    scene.overwrite(&mut scene.journal(1), "b");
    fs::remove_dir_all(scene.checkpoints().join("undo/rank-0")).unwrap();
    let (_, done, told) = scene.undo();
    assert_eq!((done.rewritten, done.failed, told.left.len()), (1, 0, 0));
    assert_eq!(
        [scene.text("a"), scene.text("b")],
        ["IS it was", "as it was"]
    );
}

#[test]
fn file_of_another_program_stays() {
    let scene = Scene::new(&["a", "b"]);
    let mut journal = scene.journal(0);
    scene.overwrite(&mut journal, "a");
    fs::write(scene.path("new"), "another's").unwrap();
    fs::rename(scene.path("new"), scene.path("a")).unwrap();
    scene.overwrite(&mut journal, "b");
    fs::remove_file(scene.path("b")).unwrap();
    let (_, done, told) = scene.undo();
    assert_eq!((done.rewritten, done.failed, told.left.len()), (0, 0, 2));
    assert_eq!(scene.text("a"), "another's");
    assert!(!scene.path("b").exists());
}

#[test]
fn bytes_appended_by_another_program_are_kept() {
    let scene = Scene::new(&["a"]);
    scene.overwrite(&mut scene.journal(0), "a");
    let mut file = File::options().append(true).open(scene.path("a")).unwrap();
    std::io::Write::write_all(&mut file, b", and more").unwrap();
    let (_, done, told) = scene.undo();
    assert_eq!((done.rewritten, told.kept.len()), (1, 1));
    assert_eq!(scene.text("a"), "as it was");
}

#[test]
fn interrupted_undo_is_repeated() {
    let scene = Scene::new(&["a", "b", "c"]);
    let mut journal = scene.journal(0);
    scene.overwrite(&mut journal, "a");
    scene.remove(&mut journal, "b");
    let place = scene.path("new");
    let place = Place {
        name: &place,
        local: true,
    };
    journal.naming(place, &Current::Absent);
    fs::write(scene.path("new"), "of the job").unwrap();
    // The undo was killed when one file had its temporary name, and before the others were done.
    let (plan, ..) = scene.undo();
    assert!(!plan.is_empty());
    fs::write(scene.path("new"), "of the job").unwrap();
    fs::rename(scene.path("b"), scene.path(".stasis-undo-1-1")).unwrap();
    let (_, done, _) = scene.undo();
    assert_eq!(
        (done.removed, done.restored, done.rewritten, done.failed),
        (1, 1, 0, 0)
    );
    let texts = ["a", "b", "c"].map(|name| scene.text(name));
    assert!(texts.iter().all(|text| text == "as it was"), "{texts:?}");
    assert!(!scene.path("new").exists());
}

#[test]
fn a_directory_that_an_interrupted_undo_has_made_gets_its_mode() {
    let scene = Scene::new(&[]);
    let path = scene.path("directory");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o1755)).unwrap();
    let place = Place {
        name: &path,
        local: true,
    };
    scene
        .journal(0)
        .naming(place, &Current::Directory(facts(&path)));
    fs::remove_dir(&path).unwrap();
    // The undo was killed when it had made the directory.
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    let (_, done, _) = scene.undo();
    assert_eq!((done.restored, done.failed), (0, 0));
    assert_eq!(facts(&path).mode & 0o7777, 0o1755);
}

/// As on a FUSE file system that has given the file another number since.
fn with_other_number(path: &Path) -> Facts {
    const FUSE: u64 = 0x6573_5546;
    let mut facts = facts(path);
    facts.identity = Identity::of(0, facts.identity.inode + 1000, FUSE);
    facts
}

#[test]
fn files_with_other_numbers_are_found_by_unchanged_names() {
    let scene = Scene::new(&["overwritten", "another"]);
    let mut journal = scene.journal(0);
    scene.overwrite_as(&mut journal, "overwritten", with_other_number);
    drop(journal);
    let (_, done, told) = scene.undo();
    assert_eq!((done.rewritten, done.failed), (1, 0), "{:?}", told.left);
    assert!(told.left.is_empty(), "{:?}", told.left);
    for name in ["overwritten", "another"] {
        assert_eq!(fs::read(scene.path(name)).unwrap(), b"as it was", "{name}");
    }
}

/// As on overlayfs, which has copied the file to its upper layer. All copies get the same number.
fn copied(path: &Path) -> Facts {
    const FREED: u64 = 1 << 60;
    let mut facts = facts(path);
    facts.identity.inode = FREED;
    facts
}

#[test]
fn copies_that_have_had_the_same_number_are_restored() {
    let scene = Scene::new(&["one", "other"]);
    let mut journals = [scene.journal(0), scene.journal(1)];
    for (name, rank) in [("one", 0), ("other", 1)] {
        let path = scene.path(name);
        fs::write(&path, name).unwrap();
        let since = undo::now();
        journals[rank].copied(copied(&path).identity, since);
        // The other rank knows the first file by the same number.
        for journal in &mut journals {
            journal.opened(&copied(&path), &|| path.clone());
        }
        let place = Place {
            name: &path,
            local: true,
        };
        let read = |at, len| Ok(name.as_bytes()[at as usize..][..len].to_vec());
        journals[rank].unlinking(place, &copied(&path), &read);
        fs::remove_file(&path).unwrap();
    }
    let (_, done, told) = scene.undo();
    assert_eq!((done.restored, done.failed), (2, 0), "{:?}", told.left);
    for name in ["one", "other"] {
        assert_eq!(scene.text(name), name);
    }
}
