//! `cargo xtask test`: every case has a name, its own folder and a hard deadline, and ends with a
//! line of its own; the last line of all counts them.

mod bad_input;
mod checkpoint;
mod files;
mod product;
pub mod programs;
mod source;
mod start;
mod storage;
pub mod support;

use crate::build::{pypi, setup};
use crate::harness::mpi::Mpi;
use crate::harness::{parallel, paths, random, signal};
use crate::torture;
use anyhow::{bail, ensure, Context, Result};
use std::collections::HashSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread::available_parallelism;
use std::time::Instant;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub struct Options {
    /// Only cases whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    filter: Vec<String>,
    /// Name the cases, run nothing
    #[arg(long)]
    list: bool,
    /// Every combination of example, mode, ABI, library and restart library; other tests over each library; and the
    /// long tests
    #[arg(long)]
    full: bool,
    /// Cases at a time [default: as many as cores, since ranks that wait for each other use up a core each]
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Seed of the random moments (printed; a new one each run)
    #[arg(long)]
    seed: Option<u64>,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
    /// Fail if a skipped case is not in FILE (one name per line; a `*` at the end matches any)
    #[arg(long, value_name = "FILE")]
    skips: Option<PathBuf>,
}

/// Result of a case.
pub enum Outcome {
    /// The case passed.
    Passed,
    /// This number of tests of a suite passed; others were skipped.
    Suite(usize, Vec<Skipped>),
    /// Number of passed and of failed tests, and the reason.
    Failed(usize, usize, String),
    /// The case was not run, for this reason.
    Skipped(String),
}

/// Name of a skipped case or test, and the reason.
pub type Skipped = (String, String);

impl From<Result<()>> for Outcome {
    fn from(result: Result<()>) -> Self {
        match result {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(0, 1, format!("{error:#}")),
        }
    }
}

/// Data for every case.
pub struct Session {
    /// Seed of the run.
    pub seed: u64,
    /// Whether all combinations are run.
    pub full: bool,
}

type Body = Box<dyn FnOnce(&Session, &Path) -> Outcome + Send>;

/// One case.
pub struct Case {
    name: String,
    body: Body,
    /// Whether it runs cargo in target/. Two such cases at a time would wait for each other.
    builds: bool,
}

impl Case {
    /// A case from its name and its function, which gets an empty folder.
    pub fn new(
        name: impl Into<String>,
        body: impl FnOnce(&Session, &Path) -> Outcome + Send + 'static,
    ) -> Case {
        Case {
            name: name.into(),
            body: Box::new(body),
            builds: false,
        }
    }

    /// The case, which runs cargo in target/.
    pub fn that_builds(self) -> Case {
        Case {
            builds: true,
            ..self
        }
    }

    /// A case over an MPI library, whose name is appended. It is skipped with a reason if that library is one of PyPI's
    /// that is not installed.
    pub fn over(
        mpi: Mpi,
        name: &str,
        body: impl FnOnce(&Session, &Path) -> Result<()> + Send + 'static,
    ) -> Case {
        Case::new(
            format!("{name}:{mpi}"),
            move |session, dir| match pypi::missing(&[mpi], None) {
                Some(why) => Outcome::Skipped(why),
                None => body(session, dir).into(),
            },
        )
    }

    /// A case that only root can run, and that is skipped with a reason for other users.
    pub fn as_root(
        name: impl Into<String>,
        why: &'static str,
        body: impl FnOnce(&Path) -> Result<()> + Send + 'static,
    ) -> Case {
        Case::new(name, move |_, dir| body(dir).into()).for_root(why)
    }

    /// The case, which is skipped with this reason for other users than root.
    pub fn for_root(self, why: &'static str) -> Case {
        let body = self.body;
        Case::new(self.name, move |session, dir| match signal::is_root() {
            true => body(session, dir),
            false => Outcome::Skipped(why.into()),
        })
    }
}

/// Copies a program in another process. If this process wrote it, a child forked by another case at the same time would
/// hold the descriptor for a moment, and the kernel executes no file that is open for writing (ETXTBSY).
fn copy_program(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp").arg(from).arg(to).status()?;
    ensure!(
        copied.success(),
        "cp {} {}: {copied}",
        from.display(),
        to.display()
    );
    Ok(())
}

/// Leaves out one of each two cases that differ by Debian's MPI library alone, which the other one has in its name: by
/// the name, so that about as many stay of either. The examples are spread over the libraries by themselves.
fn one_library_each(cases: &mut Vec<Case>) {
    let [first, second] = Mpi::ALL.map(|mpi| format!(":{mpi}"));
    let names: HashSet<String> = cases.iter().map(|case| case.name.clone()).collect();
    cases.retain(|case| {
        let (stem, is_first) = match (
            case.name.strip_suffix(&first),
            case.name.strip_suffix(&second),
        ) {
            (Some(stem), _) => (stem, true),
            (_, Some(stem)) => (stem, false),
            _ => return true,
        };
        let other = if is_first { &second } else { &first };
        let wants_first = (random::hash(stem) / 4).is_multiple_of(2);
        is_first == wants_first || !names.contains(&format!("{stem}{other}"))
    });
}

/// All cases; with `full`, also those of `--full`.
fn cases(full: bool) -> Result<Vec<Case>> {
    let mut cases = source::style::cases(full);
    cases.extend(start::second_launch::cases());
    cases.extend(start::recovery::cases(full));
    cases.extend(start::memory_checkpoints::cases(full));
    cases.extend(start::standby::cases(full));
    cases.extend(start::early_deaths::cases(full));
    cases.extend(start::killed_while_mapping::cases(full));
    cases.extend(start::ipv6::cases());
    cases.extend(start::lost_nodes::cases(full));
    cases.extend(start::node_keepers::cases(full));
    cases.extend(start::stages::cases(full));
    cases.extend(bad_input::cases());
    cases.extend(storage::write_faults::cases(full));
    cases.extend(product::tools::cases());
    cases.extend(product::stacks::cases());
    cases.extend(product::explain::cases());
    cases.extend(product::reduction::cases());
    cases.extend(product::faults::cases());
    cases.extend(product::record::cases(full)?);
    cases.extend(product::record_tail::cases());
    cases.extend(product::clocks::cases());
    cases.extend(product::solo::cases(full)?);
    cases.extend(product::profile::cases());
    cases.extend(product::hunt::cases());
    cases.extend(product::gdb::cases());
    cases.extend(programs::conformance::cases());
    cases.extend(files::closed_files::cases());
    cases.extend(files::two_cuts::cases());
    cases.extend(files::undo::cases());
    cases.extend(files::network::cases());
    cases.extend(files::overlay::cases());
    cases.extend(programs::crash::cases());
    cases.extend(programs::composed_calls::cases(full));
    cases.extend(checkpoint::pause::cases());
    cases.extend(start::privileges::cases());
    cases.extend(checkpoint::schedule::cases());
    cases.extend(checkpoint::status::cases());
    cases.extend(checkpoint::stop::cases());
    cases.extend(product::completions::cases());
    cases.extend(product::demo::cases());
    cases.extend(product::papers::cases());
    cases.extend(checkpoint::stuck::cases());
    cases.extend(checkpoint::events::cases());
    cases.extend(checkpoint::history::cases());
    cases.extend(storage::hand_over::cases());
    cases.extend(storage::increments::cases());
    cases.extend(storage::local_dir::cases());
    cases.extend(checkpoint::failing_system_calls::cases(full));
    cases.extend(checkpoint::limits::cases());
    cases.extend(programs::without_mpi::cases()?);
    cases.extend(start::copies::cases());
    cases.extend(start::doctor::cases());
    cases.extend(start::for_cpu::cases());
    cases.extend(start::user_namespaces::cases());
    cases.extend(start::reduced_proc::cases());
    cases.extend(start::syscall_filter::cases());
    cases.extend(start::lower_halves::cases());
    cases.extend(start::memory_hooks::cases());
    cases.extend(start::registration_caches::cases(full));
    cases.extend(programs::migration::cases());
    cases.extend(product::packages::cases());
    cases.extend(product::guide::cases());
    cases.extend(product::schedulers::cases());
    cases.extend(programs::mpi::cases(full)?);
    cases.extend(programs::mpi::reduced(full)?);
    cases.extend(programs::standard_abi::cases(full)?);
    cases.extend(torture::cases()?);
    cases.extend(programs::wrapper::cases());
    if full {
        cases.extend(programs::matrix::cases()?);
        cases.extend(start::containers::cases());
        cases.extend(start::apptainer::cases());
        cases.extend(product::slurm::cases());
        cases.extend(product::grid_engine::cases());
        cases.extend(product::workflows::cases());
        cases.extend(product::guide::packaged());
    }
    Ok(cases)
}

/// Run the cases.
pub fn run(options: &Options) -> Result<()> {
    let start = Instant::now();
    let mut cases = cases(options.full)?;
    if options.filter.is_empty() {
        if !options.full {
            one_library_each(&mut cases);
        }
    } else {
        cases.retain(|case| {
            options
                .filter
                .iter()
                .any(|f| case.name.contains(f.as_str()))
        });
    }
    if options.list {
        for case in &cases {
            println!("{}", case.name);
        }
        return Ok(());
    }
    let mut names = HashSet::new();
    for case in &cases {
        // Two of one name would run in one folder, at one time.
        let is_first = names.insert(&case.name);
        ensure!(is_first, "two cases have the name {}", case.name);
    }
    if cases.is_empty() {
        bail!("no case has a name like that; see --list");
    }
    let skips = options.skips.as_deref().map(Skips::read).transpose()?;
    match options.full && !options.no_setup {
        true => setup::run_fully()?,
        false => setup::unless(options.no_setup)?,
    }
    let context = Session {
        seed: options.seed.unwrap_or_else(random::fresh_seed),
        full: options.full,
    };
    println!("{} cases, seed {}", cases.len(), context.seed);
    let tally = Mutex::new(Tally::default());
    let jobs = options.jobs.or_else(|| available_parallelism().ok());
    let jobs = jobs.map_or(1, NonZeroUsize::get);
    let (building, others): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| case.builds);
    parallel::each_beside(jobs, building.into_iter(), others.into_iter(), |case| {
        let started = Instant::now();
        let name = case.name;
        let outcome = match folder(&name) {
            Ok(dir) => (case.body)(&context, &dir),
            Err(error) => Err(error).into(),
        };
        let took = started.elapsed().as_secs_f64();
        tally
            .lock()
            .expect("nothing panics under it")
            .count(&name, &outcome, took);
    });
    let mut tally = tally.into_inner().expect("all threads have ended");
    if let Some(skips) = &skips {
        tally.fail_unlisted(skips);
    }
    for (name, why) in &tally.failures {
        println!("\n---- {name}\n{why}");
    }
    println!("\n{}", tally.times());
    println!(
        "{:.0} s, seed {}",
        start.elapsed().as_secs_f64(),
        context.seed
    );
    let skipped = match tally.skipped.len() {
        0 => String::new(),
        n => format!(", {n} skipped"),
    };
    println!("{} passed, {} failed{skipped}", tally.passed, tally.failed);
    if tally.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: Vec<Skipped>,
    failures: Vec<(String, String)>,
    /// Seconds of each case.
    took: Vec<(f64, String)>,
}

impl Tally {
    fn count(&mut self, name: &str, outcome: &Outcome, took: f64) {
        self.took.push((took, name.to_owned()));
        match outcome {
            Outcome::Passed => {
                self.passed += 1;
                println!("ok    {name} ({took:.1} s)");
            }
            Outcome::Suite(passed, skipped) => {
                self.passed += passed;
                println!("ok    {name} ({took:.1} s)");
                for (test, why) in skipped {
                    self.skip(test, why);
                }
            }
            Outcome::Failed(passed, n, why) => {
                self.passed += passed;
                self.failed += n;
                let first = why.lines().next().unwrap_or_default();
                println!("FAIL  {name} ({took:.1} s): {first}");
                self.failures.push((name.to_owned(), why.clone()));
            }
            Outcome::Skipped(why) => self.skip(name, why),
        }
    }

    fn skip(&mut self, name: &str, why: &str) {
        println!("skip  {name}: {why}");
        self.skipped.push((name.to_owned(), why.to_owned()));
    }

    /// Seconds of all cases together, and the longest of them: where to begin if the tests take too long.
    fn times(&mut self) -> String {
        self.took.sort_by(|one, other| other.0.total_cmp(&one.0));
        let sum: f64 = self.took.iter().map(|(took, _)| took).sum();
        let longest = self.took.iter().take(8);
        let longest = longest.map(|(took, name)| format!("{name} {took:.0} s"));
        let longest: Vec<String> = longest.collect();
        format!("{sum:.0} s of cases; longest: {}", longest.join(", "))
    }

    /// Counts skipped cases that `skips` does not list as failed.
    fn fail_unlisted(&mut self, skips: &Skips) {
        let unlisted = |(name, _): &mut Skipped| !skips.lists(name);
        for (name, why) in self.skipped.extract_if(.., unlisted) {
            let why = format!("it was skipped, which {} does not allow: {why}", skips.file);
            self.failed += 1;
            self.failures.push((name, why));
        }
    }
}

/// Names of cases that may be skipped.
struct Skips {
    file: String,
    names: Vec<String>,
}

impl Skips {
    fn read(file: &Path) -> Result<Skips> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Ok(Skips::parse(file.display().to_string(), &text))
    }

    fn parse(file: String, text: &str) -> Skips {
        let names = text.lines().map(|line| line.split('#').next());
        let names = names.map(|name| name.unwrap_or_default().trim());
        Skips {
            file,
            names: names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    }

    fn lists(&self, name: &str) -> bool {
        self.names
            .iter()
            .any(|listed| match listed.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => listed == name,
            })
    }
}

/// An empty folder for a case.
pub fn folder(name: &str) -> Result<PathBuf> {
    let plain: String = name
        .chars()
        .map(|c| if "/:@>".contains(c) { '_' } else { c })
        .collect();
    let dir = paths::target().join("test").join(plain);
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("emptying {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::{one_library_each, Case, Outcome, Skips, Tally};

    #[test]
    fn a_case_has_one_library_and_one_with_a_library_alone_stays() {
        let names = |group: &str| ["openmpi", "mpich"].map(|mpi| format!("{group}:{mpi}"));
        let groups: Vec<String> = (0..40).map(|number| format!("group/{number}")).collect();
        let all = groups.iter().flat_map(|group| names(group));
        let all = all
            .chain(["alone/one:mpich", "ring:plain:mpich@openmpi", "style/fmt"].map(str::to_owned));
        let mut cases: Vec<Case> = all
            .map(|name| Case::new(name, |_, _| Outcome::Passed))
            .collect();
        one_library_each(&mut cases);
        let kept: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        for group in &groups {
            let of_group = names(group)
                .into_iter()
                .filter(|name| kept.contains(&name.as_str()));
            assert_eq!(of_group.count(), 1, "{group}");
        }
        assert_eq!(kept.len(), groups.len() + 3);
        assert!(kept
            .iter()
            .any(|name| name.starts_with("group/") && name.ends_with(":mpich")));
        assert!(kept
            .iter()
            .any(|name| name.starts_with("group/") && name.ends_with(":openmpi")));
    }

    #[test]
    fn what_is_skipped_and_not_listed_has_failed() {
        let skips = Skips::parse("list".into(), "# why\nsome/case # here\nothers/*\n\n");
        let mut tally = Tally::default();
        for name in ["some/case", "others/one"] {
            tally.count(name, &Outcome::Skipped("why".into()), 0.0);
        }
        let test = ("package test".to_owned(), "why".to_owned());
        tally.count("unit", &Outcome::Suite(3, vec![test]), 0.0);
        tally.fail_unlisted(&skips);
        assert_eq!((tally.passed, tally.failed, tally.skipped.len()), (3, 1, 2));
        assert_eq!(tally.failures[0].0, "package test");
    }
}
