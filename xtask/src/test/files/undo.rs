//! A restart undoes the changes that a job has made to its files since the checkpoint: for all kinds of changes and
//! moments of the kill, under both libraries. `stasis restart --dry-run` and `stasis inspect` predict the changes, and
//! make none.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::random::Random;
use crate::harness::{paths, stasis};
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{begin, bring_back, example, start};
use crate::test::support::refusal::refused;
use crate::test::support::refusal::DIRECTORY;
use crate::test::support::refusal::IMAGE;
use crate::test::support::small_fs::in_small_directory;
use crate::test::Case;
use anyhow::{bail, ensure, Context, Result};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;

/// All cases of this file. The checkpoint directory is on the file system of the files, so that the journal can link to
/// them, or on another one.
pub fn cases() -> Vec<Case> {
    let ways = [(Mpi::OpenMpi, Mpi::Mpich), (Mpi::Mpich, Mpi::OpenMpi)];
    let case = |(first, then): (Mpi, Mpi), elsewhere: bool| {
        let place = if elsewhere { "-elsewhere" } else { "" };
        let name = format!("undo/random{place}.{}", first.name());
        Case::new(name.clone(), move |session, dir| {
            let random = Random::new(session.seed, &name);
            let ckpt = match elsewhere {
                true => paths::for_images(dir),
                false => dir.join("ck"),
            };
            at_random(dir, ckpt, [first, then], random).into()
        })
    };
    let both = |way| [case(way, false), case(way, true)];
    let mut cases: Vec<Case> = ways.into_iter().flat_map(both).collect();
    cases.push(Case::new("undo/limit", |_, dir| limit(dir).into()));
    cases.push(Case::new("undo/disk-full", |_, dir| {
        in_small_directory(dir, "size=512m", disk_full)
    }));
    for (first, then) in ways {
        let name = format!("undo/foretold:{first}>{then}");
        cases.push(Case::new(name, move |_, dir| {
            foretold(dir, [first, then]).into()
        }));
    }
    cases
}

/// Object at a path.
#[derive(Debug, PartialEq)]
enum Entry {
    Directory(u32),
    /// Mode, content, and first name of the inode.
    File(u32, Vec<u8>, PathBuf),
    Link(PathBuf),
}

type Tree = BTreeMap<PathBuf, Entry>;

/// All objects below a directory.
fn tree(directory: &Path) -> Result<Tree> {
    let (mut found, mut firsts) = (Tree::new(), BTreeMap::new());
    add_tree(directory, &mut found, &mut firsts)?;
    Ok(found)
}

fn add_tree(directory: &Path, found: &mut Tree, firsts: &mut BTreeMap<u64, PathBuf>) -> Result<()> {
    for path in entries(directory)? {
        let facts = fs::symlink_metadata(&path)?;
        let mode = facts.permissions().mode();
        if facts.is_dir() {
            add_tree(&path, found, firsts)?;
            found.insert(path, Entry::Directory(mode));
        } else if facts.is_symlink() {
            found.insert(path.clone(), Entry::Link(fs::read_link(&path)?));
        } else {
            let first = firsts.entry(facts.ino()).or_insert_with(|| path.clone());
            let first = first.clone();
            found.insert(path.clone(), Entry::File(mode, fs::read(&path)?, first));
        }
    }
    Ok(())
}

/// Entries of a directory, sorted.
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?;
    let mut entries = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    entries.sort_unstable();
    Ok(entries)
}

/// Describes the differences of two trees.
fn same(is: &Tree, was: &Tree) -> Result<()> {
    let names = is.keys().chain(was.keys());
    let differ = |name: &&PathBuf| is.get(*name) != was.get(*name);
    let Some(name) = names.clone().find(differ) else {
        return Ok(());
    };
    let count = names.filter(differ).count();
    let what = |tree: &Tree| match tree.get(name) {
        None => "nothing".to_owned(),
        Some(Entry::File(mode, bytes, first)) => format!(
            "a file ({mode:o}) of {} bytes, first {}",
            bytes.len(),
            first.display()
        ),
        Some(other) => format!("{other:?}"),
    };
    let place = match (is.get(name), was.get(name)) {
        (Some(Entry::File(_, is, _)), Some(Entry::File(_, was, _))) => {
            let at = is.iter().zip(was).position(|(is, was)| is != was);
            format!(", first difference at {at:?}")
        }
        _ => String::new(),
    };
    bail!(
        "{} is {}, was {}{place}; {count} names differ",
        name.display(),
        what(is),
        what(was)
    )
}

/// A job of `examples/tools/changes.c`.
struct Changing<'a> {
    dir: &'a Path,
    ckpt: PathBuf,
    job: Job,
}

impl Changing<'_> {
    fn mark(&self, name: &str) -> Result<()> {
        fs::write(self.dir.join(name), "").with_context(|| format!("making {name}"))
    }

    /// Runs one turn to its end. Returns the tree after it.
    fn turn(&mut self, turn: usize, random: &mut Random) -> Result<Tree> {
        self.mark(&format!("go.{turn}"))?;
        std::thread::sleep(Duration::from_millis(20 + random.below(200)));
        self.mark(&format!("stop.{turn}"))?;
        let dir = self.dir;
        let done = || (0..RANKS).all(|rank| dir.join(format!("done.{turn}.{rank}")).exists());
        self.job
            .until("the turn is over", Instant::now() + LIMIT, done)
            .with_context(|| job::tail(&job::read_text(&self.job.stderr), 20))?;
        tree(&self.dir.join("work"))
    }

    fn take(&self) -> Result<()> {
        let command = stasis::checkpoint(&self.ckpt);
        let taken = job::run(command, self.dir, "checkpoint", LIMIT)?;
        taken.expect_success("stasis checkpoint").map(drop)
    }

    /// Starts a turn, kills the job during it, restarts it, and compares.
    fn kill_in(
        &mut self,
        turn: usize,
        set: &str,
        under: Mpi,
        random: &mut Random,
        was: &Tree,
    ) -> Result<()> {
        self.mark(&format!("go.{turn}"))?;
        std::thread::sleep(Duration::from_millis(5 + random.below(150)));
        self.job.kill()?;
        for name in [format!("go.{turn}"), format!("stop.{turn}")] {
            let _ = fs::remove_file(self.dir.join(name));
        }
        if random.below(2) == 0 {
            self.broken_restart(set, under, random)?;
        }
        self.restart(set, under, was)
    }

    /// A restart that is killed at a random moment.
    fn broken_restart(&mut self, set: &str, under: Mpi, random: &mut Random) -> Result<()> {
        let command = stasis::restart(under, RANKS, &self.ckpt.join(set), self.dir);
        self.job = Job::start(command, self.dir, "broken-restart")?;
        std::thread::sleep(Duration::from_millis(random.below(1500)));
        self.job.kill().map(drop)
    }

    fn restart(&mut self, set: &str, under: Mpi, was: &Tree) -> Result<()> {
        let told = dry_run(self.dir, &self.ckpt, &self.ckpt.join(set), &[])?;
        let command = stasis::restart(under, RANKS, &self.ckpt.join(set), self.dir);
        bring_back(&mut self.job, command, &self.ckpt, self.dir)?;
        let is = tree(&self.dir.join("work"))?;
        let said = report_of(&mut self.job, &told)?;
        same(&is, was).with_context(|| format!("after a restart from {set}, which said\n{said}"))
    }
}

/// Metadata of all objects below a directory, times included.
fn seen(directory: &Path, all: &mut String) -> Result<()> {
    for path in entries(directory)? {
        let facts = fs::symlink_metadata(&path)?;
        writeln!(
            all,
            "{} {:o} {} {} {} {} {}.{} {}.{}",
            path.display(),
            facts.mode(),
            facts.ino(),
            facts.nlink(),
            facts.uid(),
            facts.len(),
            facts.mtime(),
            facts.mtime_nsec(),
            facts.ctime(),
            facts.ctime_nsec(),
        )?;
        if facts.is_dir() {
            seen(&path, all)?;
        } else if facts.is_file() {
            let mut content = DefaultHasher::new();
            fs::read(&path)?.hash(&mut content);
            writeln!(all, "{:x}", content.finish())?;
        }
    }
    Ok(())
}

/// Output of `stasis restart --dry-run` without mpirun. Checks that nothing was changed.
fn dry_run(dir: &Path, ckpt: &Path, set: &Path, flags: &[&str]) -> Result<Value> {
    let all = || {
        let mut all = String::new();
        for place in [&dir.join("work"), ckpt] {
            seen(place, &mut all)?;
        }
        Ok::<_, anyhow::Error>(all)
    };
    let before = all()?;
    let mut command = stasis::command(["restart", "--dry-run"]);
    command.arg(set).args(flags);
    let told = stasis::json(command, dir, "dry-run", LIMIT);
    let after = all()?;
    for (before, after) in before.lines().zip(after.lines()) {
        ensure!(before == after, "a dry run made\n{after}\nof\n{before}");
    }
    ensure!(
        before.lines().count() == after.lines().count(),
        "a dry run made or removed files"
    );
    told
}

/// What a restart says. Waits until that agrees with what the dry run reported, because launchers forward output with a
/// delay.
fn report_of(job: &mut Job, told: &Value) -> Result<String> {
    let stderr = job.stderr.clone();
    let agrees = || is_done(&job::read_text(&stderr), told).is_ok();
    let waited = job.until("it says what it did", Instant::now() + LIMIT, agrees);
    let said = job::read_text(&stderr);
    is_done(&said, told).and(waited)?;
    Ok(said)
}

/// Checks that a restart with these messages did what the dry run reported.
fn is_done(said: &str, told: &Value) -> Result<()> {
    let number = |what: &str| told["undone"][what].as_u64().unwrap_or(u64::MAX);
    let [overwritten, renamed, made] = ["overwritten", "removed_or_renamed", "made"].map(number);
    let sums =
        format!("{overwritten} overwritten since, {renamed} removed or renamed, {made} made");
    let nothing = overwritten + renamed + made == 0;
    let has_done = said.contains("files are as they were at the checkpoint");
    let right = match nothing {
        true => !has_done,
        false => has_done && said.contains(&sums),
    };
    ensure!(right, "'{sums}' was told, and the restart said\n{said}");
    let [files, bytes] =
        ["files", "bytes"].map(|what| told["cut_back"][what].as_u64().unwrap_or(u64::MAX));
    let sums = format!("at the checkpoint: {files}, by {bytes} bytes in all");
    let right = match files {
        0 => !said.contains("files cut back"),
        _ => said.contains(&sums),
    };
    ensure!(right, "'{sums}' was told, and the restart said\n{said}");
    ensure!(
        told["would_go_ahead"] == true,
        "it was not to go ahead: {told:#}"
    );
    Ok(())
}

/// A job that makes one change of each kind after its checkpoint, and is killed.
fn foretold(dir: &Path, [first, then]: [Mpi; 2]) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start(&example("tools", "tools/changed")?, dir, &ckpt, first)?;
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    let was = tree(&dir.join("work"))?;
    let refused_while_it_runs = |words: &[&str]| {
        let mut command = stasis::command(words);
        command.arg(&ckpt);
        let finished = job::run(command, dir, "while-it-runs", LIMIT)?;
        refused(&finished, DIRECTORY, &[&["runs"]])
    };
    refused_while_it_runs(&["restart", "--dry-run"])?;
    fs::write(dir.join("go"), "")?;
    let changed = dir.join("changed");
    job.until("it has changed its files", Instant::now() + LIMIT, || {
        changed.exists()
    })?;
    job.kill()?;

    let told = dry_run(dir, &ckpt, &ckpt, &[])?;
    let mut inspect = stasis::command(["inspect"]);
    inspect.arg(&ckpt);
    let held = stasis::json(inspect, dir, "inspect", LIMIT)?;
    for what in ["files", "changes", "undone", "cut_back"] {
        ensure!(
            told[what] == held[what],
            "of {what} inspect says another thing: {held:#}"
        );
    }
    let work = dir.canonicalize()?.join("work");
    let deed = |name: &str| {
        let path = work.join(name);
        let changes = told["changes"].as_array().into_iter().flatten();
        let mut own = changes.filter(|change| change["path"] == *path.to_string_lossy());
        own.next().cloned().unwrap_or_default()
    };
    let wanted = |name: &str, what: Value| {
        let mut deed = deed(name);
        if let Value::Object(deed) = &mut deed {
            deed.remove("path");
        }
        ensure!(
            deed == what,
            "of {name} it tells {deed}, not {what}: {told:#}"
        );
        Ok(())
    };
    for rank in 0..RANKS {
        let of = |name: &str| format!("{name}.{rank}");
        let path = |name: &str| work.join(of(name)).to_string_lossy().into_owned();
        wanted(&of("kept"), Value::Null)?;
        wanted(
            &of("over"),
            json!({ "what": "rewritten", "bytes": 6, "from": 12, "to": 12 }),
        )?;
        wanted(
            &of("log"),
            json!({ "what": "cut-back", "bytes": 9, "to": 12 }),
        )?;
        wanted(
            &of("short"),
            json!({ "what": "rewritten", "bytes": 12, "from": 1, "to": 12 }),
        )?;
        wanted(
            &of("twin"),
            json!({ "what": "rewritten", "bytes": 1, "from": 13, "to": 12 }),
        )?;
        wanted(&of("new"), json!({ "what": "removed", "bytes": 10 }))?;
        wanted(&of("renamed"), json!({ "what": "removed", "bytes": 12 }))?;
        wanted(
            &of("old"),
            json!({ "what": "restored", "from": path("renamed") }),
        )?;
        wanted(&of("dir"), json!({ "what": "restored", "from": null }))?;
        ensure!(deed(&of("gone"))["what"] == "restored", "it tells {told:#}");
        let files = told["files"].as_array().context("it lists no files")?;
        let held = files.iter().find(|file| file["path"] == path("held"));
        let held = held.with_context(|| format!("it does not list held.{rank}: {told:#}"))?;
        ensure!(
            held["bytes"] == 12
                && held["ranks"] == json!([rank])
                && held["closed"] == false
                && held["saved"] == "on-disk"
                && held["fate"]["what"] == "unchanged",
            "it lists {held:#}"
        );
        let closed = files.iter().find(|file| file["path"] == path("kept"));
        ensure!(
            closed.is_some_and(|file| file["closed"] == true),
            "it lists {files:#?}"
        );
    }
    let printed = |words: &[&str]| {
        let mut command = stasis::command(words);
        command.arg(&ckpt);
        Ok::<_, anyhow::Error>(
            job::run(command, dir, "printed", LIMIT)?
                .expect_success(words[0])?
                .stdout,
        )
    };
    let sums = "8 overwritten since, 6 removed or renamed, 5 made";
    for words in [&["restart", "--dry-run"][..], &["inspect"]] {
        let text = printed(words)?;
        ensure!(
            text.contains(sums) && text.contains("held.1 (open for writing, rank 1)"),
            "{words:?} says\n{text}"
        );
    }

    // Another program has changed an open file: the dry run and the restart refuse it for the same reason.
    let idle = work.join("idle.1");
    let mine = fs::read(&idle)?;
    fs::write(&idle, "another twelve")?;
    let why = "does not begin with the 12 bytes";
    let mut dry = stasis::command(["restart", "--dry-run"]);
    dry.arg(&ckpt);
    let dry = job::run(dry, dir, "dry-refused", LIMIT)?;
    refused(&dry, IMAGE, &[&[why], &["nothing would be restored"]])?;
    let real = stasis::restart(then, RANKS, &ckpt, dir);
    let real = job::run(real, dir, "refused", LIMIT)?;
    refused(&real, IMAGE, &[&[why]])?;
    let ignored = dry_run(dir, &ckpt, &ckpt, &["--changed-files", "warn"])?;
    ensure!(ignored["would_go_ahead"] == true, "it says {ignored:#}");
    fs::write(&idle, mine)?;

    fs::remove_file(dir.join("go"))?;
    let mut command = stasis::restart(then, RANKS, &ckpt, dir);
    command.env("STASIS_TEST_GO", dir.join("go"));
    bring_back(&mut job, command, &ckpt, dir)?;
    let said = report_of(&mut job, &told)?;
    same(&tree(&dir.join("work"))?, &was)
        .with_context(|| format!("after a restart, which said\n{said}"))?;
    for mark in ["go", "end"] {
        fs::write(dir.join(mark), "")?;
    }
    job.succeed(Instant::now() + LIMIT, dir)
}

fn at_random(dir: &Path, ckpt: PathBuf, [first, then]: [Mpi; 2], mut random: Random) -> Result<()> {
    let example = example("tools", "tools/changes")?;
    let launch = stasis::launch(first, RANKS, &ckpt, dir);
    let job = begin(launch, &example, dir, first)?;
    let mut job = Changing { dir, ckpt, job };
    job.turn(0, &mut random)?;
    let first_cut = job.turn(1, &mut random)?;
    job.take()?;
    job.kill_in(2, "ckpt-1", then, &mut random, &first_cut)?;
    job.kill_in(2, "ckpt-1", first, &mut random, &first_cut)?;
    let second_cut = job.turn(2, &mut random)?;
    job.take()?;
    job.kill_in(3, "ckpt-2", then, &mut random, &second_cut)?;
    // A second restart finds nothing to undo.
    job.job.kill()?;
    job.restart("ckpt-2", first, &second_cut)?;
    job.job.kill()?;
    job.restart("ckpt-1", then, &first_cut)?;
    job.mark("go.-1")?;
    job.job.succeed(Instant::now() + LIMIT, dir)?;
    if !job.ckpt.starts_with(dir) {
        fs::remove_dir_all(&job.ckpt)?;
    }
    Ok(())
}

const MIB: usize = 1 << 20;

/// A job of `examples/tools/does.c`.
struct Told<'a> {
    /// Folder for its output and its launcher's files.
    dir: &'a Path,
    /// Working directory.
    work: &'a Path,
    ckpt: PathBuf,
    job: Job,
    orders: usize,
}

impl<'a> Told<'a> {
    fn start(
        [dir, work]: [&'a Path; 2],
        ckpt: PathBuf,
        mpi: Mpi,
        options: &[&str],
    ) -> Result<Told<'a>> {
        let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
        launch
            .args(options)
            .args(command_line(&example("tools", "tools/does")?, Some(mpi))?)
            .current_dir(work);
        let job = Job::start(launch, dir, "launch")?;
        Ok(Told {
            dir,
            work,
            ckpt,
            job,
            orders: 0,
        })
    }

    /// Sends a command to the program, and waits until it is executed.
    fn tell(&mut self, order: &str) -> Result<()> {
        let number = self.orders;
        fs::write(self.work.join("order"), order)?;
        fs::rename(
            self.work.join("order"),
            self.work.join(format!("do.{number}")),
        )?;
        let did = self.work.join(format!("did.{number}"));
        self.job
            .until("the order is obeyed", Instant::now() + LIMIT, || {
                did.exists()
            })
            .with_context(|| job::tail(&job::read_text(&self.job.stderr), 20))?;
        self.orders += 1;
        Ok(())
    }

    fn put(&mut self, what: &str, file: &str, bytes: usize, value: u8) -> Result<()> {
        self.tell(&format!("{what} {file} {bytes} {value}\n"))
    }

    fn take(&self) -> Result<()> {
        let taken = job::run(
            stasis::checkpoint(&self.ckpt),
            self.dir,
            "checkpoint",
            LIMIT,
        )?;
        taken.expect_success("stasis checkpoint").map(drop)
    }

    /// Kills the job, and restarts it at the point after `orders` commands.
    fn restart(&mut self, orders: usize, under: Mpi) -> Result<()> {
        self.job.kill()?;
        for number in orders..self.orders {
            fs::remove_file(self.work.join(format!("do.{number}")))?;
            // A restart leaves a file alone that the journal does not contain.
            fs::remove_file(self.work.join(format!("did.{number}")))?;
        }
        self.orders = orders;
        let command = stasis::restart(under, RANKS, &self.ckpt, self.dir);
        bring_back(&mut self.job, command, &self.ckpt, self.dir)
    }

    /// Output since the start.
    fn said(&self) -> String {
        job::read_text(&self.job.stderr)
    }

    /// Waits until a line has all these words, because launchers forward output with a delay.
    fn says(&mut self, words: &[&str]) -> Result<()> {
        let stderr = self.job.stderr.clone();
        let says = || {
            let said = job::read_text(&stderr);
            let mut lines = said.lines();
            lines.any(|line| words.iter().all(|word| line.contains(word)))
        };
        let said = self.job.until("it is said", Instant::now() + LIMIT, says);
        said.with_context(|| format!("no line has {words:?}:\n{}", self.said()))
    }

    fn holds(&self, file: &str, bytes: usize, value: u8) -> Result<()> {
        let found = fs::read(self.work.join(file))?;
        ensure!(
            found == vec![value; bytes],
            "{file} has {} bytes, the first of them {:?}; not {bytes} of {value}; the job said\n{}",
            found.len(),
            found.first(),
            self.said()
        );
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        self.tell("end")?;
        self.job.succeed(Instant::now() + LIMIT, self.dir).map(drop)
    }
}

/// A file that exceeds the journal's limit is named when it is overwritten, and is the only one that a restart leaves.
fn limit(dir: &Path) -> Result<()> {
    let options = ["--undo-limit", "1M"];
    let mut job = Told::start([dir; 2], dir.join("ck"), Mpi::OpenMpi, &options)?;
    job.put("make", "large", 3 * MIB, 1)?;
    job.put("make", "small", 5000, 1)?;
    job.put("make", "last", 5000, 1)?;
    job.take()?;
    job.put("over", "small", 5000, 2)?;
    ensure!(
        !job.said().contains("cannot be undone"),
        "said too early:\n{}",
        job.said()
    );
    job.put("over", "large", 3 * MIB, 2)?;
    job.says(&["cannot be undone by a restart", "large", "--undo-limit"])?;
    job.put("over", "last", 5000, 2)?;
    job.put("make", "new", 5000, 2)?;
    job.restart(3, Mpi::Mpich)?;
    job.holds("small", 5000, 1)?;
    job.holds("last", 5000, 1)?;
    job.holds("large", 3 * MIB, 2)?;
    ensure!(
        !dir.join("new").exists(),
        "a file that was made since is still there"
    );
    job.says(&["cannot be restored", ": 1 ("])?;
    let list = fs::read_to_string(dir.join("ck/cut-off/list"))?;
    let line = list.lines().find(|line| line.contains("large"));
    ensure!(
        line.is_some_and(|line| line.contains("--undo-limit")),
        "{list}"
    );
    job.end()
}

/// Free bytes on the file system of a directory.
fn free(dir: &Path) -> Result<usize> {
    let mut df = Command::new("df");
    let told = df.args(["--output=avail", "-B1"]).arg(dir).output()?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let number = text.lines().last().unwrap_or_default().trim();
    number.parse().with_context(|| format!("df says {text:?}"))
}

/// On a full disk the journal releases its reserved space for the job's writes. Without space for the journal, the job
/// writes without one.
fn disk_full(dir: &Path, disk: &Path) -> Result<()> {
    let work = disk.join("work");
    fs::create_dir(&work)?;
    let mut job = Told::start([dir, &work], disk.join("ck"), Mpi::Mpich, &[])?;
    job.put("make", "large", 16 * MIB, 1)?;
    job.take()?;
    let filler = fs::File::create(disk.join("filler"))?;
    let room = free(disk)?
        .checked_sub(24 * MIB)
        .context("the images take too much")?;
    // The free space is not a multiple of the page size, so that a write ends in the middle of a piece.
    std::io::copy(
        &mut std::io::repeat(0).take(room as u64 - 10_000),
        &mut &filler,
    )?;
    drop(filler);
    job.put("over", "large", 16 * MIB, 2)?;
    job.put("make", "new", 16 * MIB, 2)?;
    job.says(&["the disk is full, and the job needs the room"])?;
    job.holds("new", 16 * MIB, 2)?;
    job.restart(1, Mpi::OpenMpi)?;
    job.holds("large", 16 * MIB, 2)?;
    // The free space is smaller than the overwritten data.
    job.put("over", "large", 16 * MIB, 3)?;
    job.says(&["cannot be undone by a restart", "large", "No space left"])?;
    job.holds("large", 16 * MIB, 3)?;
    // The restarted job needs space for its job file.
    fs::remove_file(disk.join("filler"))?;
    job.restart(1, Mpi::Mpich)?;
    job.holds("large", 16 * MIB, 3)?;
    job.end()
}
