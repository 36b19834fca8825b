//! `stasis run` with ranks on three nodes, one of which is lost: its processes are killed, it is cut off from the
//! network, or its processes are stopped. What runs on a node is no process below `stasis run`, so that only the ranks'
//! leases end it there.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::nodes::{Network, Nodes, Placement};
use crate::harness::{paths, signal, stasis};
use crate::test::support::helper_programs::compile;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(super) const LIMIT: Duration = Duration::from_secs(120);
/// Nodes and the ranks of each. The job has one rank less than there is room on two of them.
const NODES: usize = 3;
const ROOM: usize = 2;
const RANKS: usize = 3;
/// The node that is lost, and what its rank is called.
pub(super) const LOST: usize = 2;
const ITS_RANK: &str = "rank 2 on node2";
/// In the place of the flags of `stasis run`: the job is started without it.
pub(super) const PLAIN: &str = "";
const RUN_FILE: &str = "run.json";
const STANDBY_FILE: &str = "standby.json";
/// What the log of `stasis run` says.
const ASLEEP: &str = "the standby world is asleep";
const MAPPED: &str = "the standby world has mapped the checkpoint";
const LET_GO: &str = "the standby world is let go";
/// Names of the daemons that launchers have on a node.
const DAEMONS: [&str; 4] = ["orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_pro"];

/// All cases of this file.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in NodesCase::libraries(full) {
        let mut add = |name: &str, body: fn(&NodesCase) -> Result<()>| {
            cases.push(NodesCase::case(mpi, name, body));
        };
        add("killed", killed);
        add("cut-off", cut_off);
        add("stopped", stopped);
        add("daemon", daemon);
        add("controller", controller);
        add("standby", |case| standby(case, "warm"));
        add("standby-hot", |case| standby(case, "hot"));
        add("standby-cut-off", standby_cut_off);
        add("one-machine-only", one_machine_only);
        add("other-directory", other_directory);
        add("spares", spares);
        add("oversubscribe", oversubscribe);
        add("local-dir", |case| image_lost(case, &[]));
        add("local-dir-standby", |case| {
            image_lost(case, &["--standby", "warm"])
        });
        add("partner", partner);
    }
    cases
}

/// A job on nodes.
pub(super) struct NodesCase<'a> {
    /// Directory of the case.
    pub dir: &'a Path,
    /// MPI library of the job.
    pub mpi: Mpi,
    /// Its nodes.
    pub nodes: Nodes,
    program: PathBuf,
    /// First argument of the program: the work of its ranks at their cut. The second one is a file for `appends`.
    way: Cell<&'static str>,
    /// Its checkpoint directory.
    pub ckpt: PathBuf,
}

impl NodesCase<'_> {
    /// A case for each library.
    pub(super) fn case(mpi: Mpi, name: &str, body: fn(&NodesCase) -> Result<()>) -> Case {
        NodesCase::case_on(Network::Ipv4, mpi, name, body)
    }

    /// The same on nodes with such addresses.
    pub(super) fn case_on(
        network: Network,
        mpi: Mpi,
        name: &str,
        body: fn(&NodesCase) -> Result<()>,
    ) -> Case {
        let case = Case::over(mpi, &format!("recover/node-{name}"), move |_, dir| {
            NodesCase::new(dir, mpi, network).and_then(|case| body(&case))
        });
        case.for_root("needs root to make nodes")
    }

    /// The libraries of these cases: Intel MPI's launcher does not start its daemons on these nodes.
    pub(super) fn libraries(full: bool) -> impl Iterator<Item = Mpi> {
        let libraries = Mpi::of(full).iter().copied();
        libraries.filter(|mpi| *mpi != Mpi::Intel)
    }

    fn new(dir: &Path, mpi: Mpi, network: Network) -> Result<NodesCase<'_>> {
        Ok(NodesCase {
            dir,
            mpi,
            nodes: Nodes::with_daemons(NODES, dir, network)?,
            program: compile(dir, &mpi.compiler("c"), "ends.c", &[])?,
            way: Cell::new("runs"),
            ckpt: dir.join("ck"),
        })
    }

    /// `stasis run` with the job on the first node. Each rank is a shell first, which then executes the program: that
    /// is no death.
    fn command(&self, flags: &[&str], launch: &[&str]) -> Result<Command> {
        self.command_behind(&[], flags, launch)
    }

    /// The same with words in front of `stasis launch`.
    fn command_behind(&self, words: &[&str], flags: &[&str], launch: &[&str]) -> Result<Command> {
        let mut command = self.mpirun()?;
        command.args(words);
        command.arg(paths::stasis()).args(["launch", "--ckpt-dir"]);
        command
            .arg(&self.ckpt)
            .args(launch)
            .args(["sh", "-c", r#"exec "$0" "$@""#]);
        command.arg(&self.program).arg(self.way.get());
        command.arg(self.dir.join("appended"));
        let command = match flags {
            [PLAIN] => command,
            flags => stasis::run(flags, &command),
        };
        Ok(self.nodes.on_first(&command))
    }

    /// The launcher on all nodes, in the environment of the job.
    fn mpirun(&self) -> Result<Command> {
        let transport = match self.mpi.is_open_mpi() {
            true => &[("OMPI_MCA_btl", "self,vader,tcp")],
            false => &[("UCX_TLS", "tcp,self")],
        };
        let placement = Placement {
            nodes: NODES,
            ranks: ROOM,
            transport,
        };
        let mut command = self
            .nodes
            .mpirun_with_file(self.mpi, &placement, RANKS, "run")?;
        command.env("STASIS_TEST_READY", self.dir.join("ready"));
        command.env("STASIS_TEST_GO", self.gate());
        command.env("STASIS_LOG", "stasis_supervisor=info");
        Ok(command)
    }

    /// Restarts the job by hand, and waits until it runs.
    pub(super) fn restart(&self) -> Result<Job> {
        let before = stasis::job_file(&self.ckpt);
        let mut command = self.mpirun()?;
        command.arg(paths::stasis()).arg("restart").arg(&self.ckpt);
        let mut job = Job::start(self.nodes.on_first(&command), self.dir, "restart")?;
        let back = stasis::until_reached(&mut job, &self.ckpt, &before, deadline());
        job.explain(back, self.dir)?;
        Ok(job)
    }

    /// Starts the job and takes a checkpoint when all ranks are at their cut.
    fn start(&self, flags: &[&str]) -> Result<Job> {
        self.start_with(flags, &[])
    }

    /// The same with options of `stasis launch`.
    fn start_with(&self, flags: &[&str], launch: &[&str]) -> Result<Job> {
        let job = self.begin(flags, launch)?;
        // Open MPI warns where the daemon of a node was faster than the launcher (setpgid).
        let told = job::read_text(&job.stderr);
        let ours = told.lines().any(|line| line.starts_with("stasis:"));
        ensure!(!ours, "the job did not start at once: {told}");
        self.checkpoint()?;
        Ok(job)
    }

    /// Starts the job, and waits until all ranks are at their cut.
    pub(super) fn begin(&self, flags: &[&str], launch: &[&str]) -> Result<Job> {
        let mut job = Job::start(self.command(flags, launch)?, self.dir, "run")?;
        let ready = |rank: usize| self.dir.join(format!("ready.{rank}"));
        let reached = job.until("all ranks reached the cut", deadline(), || {
            (0..RANKS).all(|rank| ready(rank).exists())
        });
        job.explain(reached, self.dir)?;
        Ok(job)
    }

    /// Takes a checkpoint.
    pub(super) fn checkpoint(&self) -> Result<()> {
        let checkpoint = self.nodes.on_first(&stasis::checkpoint(&self.ckpt));
        let taken = job::run(checkpoint, self.dir, "checkpoint", LIMIT)?;
        taken.expect_success("the checkpoint").map(drop)
    }

    /// Starts the job with a local directory for each node, and takes a second checkpoint. Both are drained, and no
    /// image or copy of one is left on a node.
    fn start_with_levels(&self, flags: &[&str], launch: &[&str]) -> Result<Job> {
        let local = self.dir.join("local-%N").display().to_string();
        let launch = [&["--local-dir", &local], launch].concat();
        let mut job = self.start_with(flags, &launch)?;
        for number in 1..=2 {
            let set = self.ckpt.join(format!("ckpt-{number}"));
            let drained = job.until("the images were drained", deadline(), || {
                (0..RANKS).all(|rank| set.join(format!("rank-{rank}.img")).exists())
            });
            job.explain(drained, self.dir)?;
            let local = |node| self.dir.join(format!("local-{}", Nodes::name(node)));
            let removed = job.until("the local images were removed", deadline(), || {
                (1..=NODES).all(|node| stasis::local_images(&local(node)) == 0)
            });
            job.explain(removed, self.dir)?;
            if number == 1 {
                self.checkpoint()?;
            }
        }
        Ok(job)
    }

    /// The newest image of the lost node's rank, once it is drained.
    fn image_of_lost(&self) -> PathBuf {
        self.ckpt.join("ckpt-2/rank-2.img")
    }

    fn gate(&self) -> PathBuf {
        self.dir.join("go")
    }

    /// Does something to the job, which then goes on. No rank of the old incarnation may live beside one of the new.
    pub(super) fn recovered(&self, job: &mut Job, harm: impl FnOnce() -> Result<()>) -> Result<()> {
        let running = stasis::incarnation(&self.ckpt, RUN_FILE)?;
        let old = stasis::of_incarnation(job.ranks(), running);
        ensure!(old.len() == RANKS, "the job has {} ranks", old.len());
        let before = stasis::job_file(&self.ckpt);
        harm()?;
        let mut both = false;
        let back = job.until_seen("the job went on", deadline(), |job| {
            // Read before the ranks are looked at, which may die meanwhile.
            let present = stasis::incarnation(&self.ckpt, RUN_FILE).unwrap_or(running);
            let lives = job.ranks().iter().any(|pid| old.contains(pid));
            both |= present != running && lives;
            let after = stasis::job_file(&self.ckpt);
            !after.is_empty() && after != before
        });
        job.explain(back, self.dir)?;
        ensure!(!both, "ranks of two incarnations lived at a time");
        Ok(())
    }

    /// Waits until the log has had an event so often.
    pub(super) fn until(&self, job: &mut Job, event: &str, times: usize) -> Result<()> {
        let what = format!("'{event}' was said {times} times");
        let reached = job.until_seen(&what, deadline(), |job| {
            job::read_text(&job.stderr).matches(event).count() >= times
        });
        job.explain(reached, self.dir)
    }

    /// A rank of the running incarnation on the node that is lost in other cases.
    pub(super) fn rank_elsewhere(&self, job: &Job) -> Result<i32> {
        let running = stasis::incarnation(&self.ckpt, RUN_FILE)?;
        let ranks = stasis::of_incarnation(job.ranks(), running);
        let there = self.nodes.pids(LOST)?;
        let found = ranks.into_iter().find(|pid| there.contains(pid));
        found.context("the node has no rank of the incarnation")
    }

    /// Lets the job end, which must print the result of the native run. MPI_Finalize of Debian's MPICH does not always
    /// end on more than one node (natively 4 of 60 runs hang, in UCX), so there only the result is waited for.
    pub(super) fn finish(&self, job: &mut Job) -> Result<()> {
        fs::write(self.gate(), "")?;
        match self.mpi.is_open_mpi() {
            true => job.succeed(deadline(), self.dir)?,
            false => {
                let output = job.stdout.clone();
                let printed = job.until("its result was printed", deadline(), || {
                    result(&job::read_text(&output)).is_some()
                });
                job.explain(printed, self.dir)?;
            }
        }
        let mut native = self.mpi.mpirun(RANKS, self.dir);
        native.arg(&self.program).arg("runs");
        let native = job::run(native, self.dir, "native", LIMIT)?.expect_success("natively")?;
        let wanted = result(&native.stdout).context("the native run prints no result")?;
        let got = result(&job::read_text(&job.stdout));
        ensure!(
            got.as_ref() == Some(&wanted),
            "printed {got:?}, natively {wanted}"
        );
        Ok(())
    }
}

pub(super) fn deadline() -> Instant {
    Instant::now() + LIMIT
}

/// The line with the result.
fn result(text: &str) -> Option<String> {
    let line = text
        .split_inclusive('\n')
        .find(|line| line.starts_with("OK "));
    line.filter(|line| line.ends_with('\n')).map(str::to_owned)
}

pub(super) fn said(job: &Job, words: &str) -> Result<()> {
    let said = job::read_text(&job.stderr);
    ensure!(said.contains(words), "it does not say: {words}\n{said}");
    Ok(())
}

/// The node itself still runs: the job goes on with it.
pub(super) fn killed(case: &NodesCase) -> Result<()> {
    let mut job = case.start(&[])?;
    case.recovered(&mut job, || {
        let all = case.nodes.pids(LOST)?;
        all.into_iter().for_each(signal::kill_now);
        Ok(())
    })?;
    // Hydra's launcher may end, and kill the other ranks, before the connection of this rank does.
    let died = format!("{ITS_RANK} has died");
    let one_of = [
        &*died,
        "the launcher ended with exit code",
        "a rank was killed",
    ];
    let told = one_of.iter().any(|words| said(&job, words).is_ok());
    ensure!(told, "it says none of {one_of:?}");
    ensure!(
        !job::read_text(&job.stderr).contains("without node2"),
        "a node that answers is left out"
    );
    case.finish(&mut job)
}

/// The launcher's daemon of the node is killed, and none of the ranks there. Hydra notices that when a rank needs the
/// daemon.
fn daemon(case: &NodesCase) -> Result<()> {
    let mut job = case.start(&[])?;
    let there = case.nodes.pids(LOST)?;
    let mut daemons = job.named(&DAEMONS);
    daemons.retain(|pid| there.contains(pid));
    ensure!(
        !daemons.is_empty(),
        "the node has no daemon of the launcher"
    );
    let kill = || daemons.into_iter().for_each(signal::kill_now);
    match case.mpi.is_open_mpi() {
        true => case.recovered(&mut job, || {
            kill();
            Ok(())
        })?,
        false => kill(),
    }
    case.finish(&mut job)
}

/// The lost node is left out. When it is back, nothing of the job is there. Its rank wrote to a file, from which the
/// next incarnation has removed what came after the checkpoint: nobody but that has written there since.
pub(super) fn cut_off(case: &NodesCase) -> Result<()> {
    case.way.set("appends");
    let mut job = case.start(&[])?;
    case.recovered(&mut job, || case.nodes.connect(LOST, false))?;
    said(&job, &format!("{ITS_RANK} has not answered for 3 s"))?;
    said(&job, "the job goes on without node2")?;
    case.nodes.connect(LOST, true)?;
    let ranks = job.ranks();
    let there = case.nodes.pids(LOST)?;
    let zombie = there.iter().find(|pid| ranks.contains(pid));
    ensure!(
        zombie.is_none(),
        "the rank {zombie:?} has outlived its lease"
    );
    case.finish(&mut job)
}

/// All processes of the node are stopped, the ranks and the launcher's daemon. The kernel kills a stopped rank.
fn stopped(case: &NodesCase) -> Result<()> {
    let mut job = case.start(&[])?;
    case.recovered(&mut job, || {
        let all = case.nodes.pids(LOST)?;
        all.into_iter()
            .for_each(|pid| signal::send(pid, Signal::SIGSTOP));
        Ok(())
    })?;
    said(&job, &format!("{ITS_RANK} has not answered for 3 s"))?;
    said(&job, "the job goes on without node2")?;
    case.finish(&mut job)
}

/// A standby world on all nodes takes over when a rank on another node than `stasis run` is killed, again and again.
fn standby(case: &NodesCase, kind: &str) -> Result<()> {
    let mut job = case.start(&["--standby", kind])?;
    for times in 1..=2 {
        case.until(&mut job, ASLEEP, times)?;
        if kind == "hot" {
            case.until(&mut job, MAPPED, times)?;
        }
        let standby = stasis::incarnation(&case.ckpt, STANDBY_FILE)?;
        let rank = case.rank_elsewhere(&job)?;
        case.recovered(&mut job, || {
            signal::kill_now(rank);
            Ok(())
        })?;
        case.until(&mut job, LET_GO, times)?;
        let now = stasis::incarnation(&case.ckpt, RUN_FILE)?;
        ensure!(now == standby, "incarnation {now} runs, not {standby}");
    }
    case.until(&mut job, ASLEEP, 3)?;
    case.finish(&mut job)
}

/// The sleeping ranks of a node that is lost are lost, too: the job is started anew, without the node.
fn standby_cut_off(case: &NodesCase) -> Result<()> {
    let mut job = case.start(&["--standby", "warm"])?;
    case.until(&mut job, ASLEEP, 1)?;
    case.recovered(&mut job, || case.nodes.connect(LOST, false))?;
    said(&job, "the job goes on without node2")?;
    ensure!(
        !job::read_text(&job.stderr).contains(LET_GO),
        "a standby world with lost ranks was let go"
    );
    case.nodes.connect(LOST, true)?;
    case.finish(&mut job)
}

/// The newest image of a rank is lost with its node, as if it had not been drained: the job goes on from the checkpoint
/// before, and says why, once.
fn image_lost(case: &NodesCase, flags: &[&str]) -> Result<()> {
    let mut job = case.start_with_levels(flags, &[])?;
    case.recovered(&mut job, || {
        case.nodes.connect(LOST, false)?;
        fs::remove_file(case.image_of_lost())?;
        let local = case.dir.join(format!("local-{}", Nodes::name(LOST)));
        fs::remove_dir_all(local).map_err(Into::into)
    })?;
    let why = "ckpt-2 is left out: the image of rank 2 lies on node2";
    let text = job::read_text(&job.stderr);
    ensure!(
        text.matches(why).count() == 1,
        "it does not say once: {why}\n{text}"
    );
    said(&job, "ckpt-2 cannot be used; the job goes on from ckpt-1")?;
    // A later incarnation does not try it again.
    let running = stasis::incarnation(&case.ckpt, RUN_FILE)?;
    let ranks = stasis::of_incarnation(job.ranks(), running);
    let rank = ranks.first().copied().context("there is no rank")?;
    case.recovered(&mut job, || {
        signal::kill_now(rank);
        Ok(())
    })?;
    let text = job::read_text(&job.stderr);
    ensure!(
        text.matches(why).count() == 1,
        "it does not say once: {why}\n{text}"
    );
    case.finish(&mut job)
}

/// The same, with a copy on the node of another rank: the newest checkpoint is used. All nodes have the same files, so
/// the rank reads the copy where it is.
fn partner(case: &NodesCase) -> Result<()> {
    let mut job = case.start_with_levels(&[], &["--partner"])?;
    let manifest = fs::read_to_string(case.ckpt.join("ckpt-2/manifest.json"))?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    let copy = manifest["ranks"][2]["copy"]["path"].as_str();
    let copy = PathBuf::from(copy.context("the manifest names no copy")?);
    let folder = copy.parent().context("the copy has no folder")?;
    case.recovered(&mut job, || {
        case.nodes.connect(LOST, false)?;
        fs::create_dir_all(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        fs::rename(case.image_of_lost(), &copy)?;
        let local = case.dir.join(format!("local-{}", Nodes::name(LOST)));
        fs::remove_dir_all(local).map_err(Into::into)
    })?;
    said(&job, "the job goes on from ckpt-2")?;
    let text = job::read_text(&job.stderr);
    ensure!(!text.contains("is left out:"), "a set is left out: {text}");
    case.finish(&mut job)
}

/// What ranks on other machines cannot have is refused at once, and not tried again.
fn one_machine_only(case: &NodesCase) -> Result<()> {
    let words = "--stages: this rank is on another machine";
    let refused = job::run(
        case.command(&["--stages"], &[])?,
        case.dir,
        "refused",
        LIMIT,
    )?;
    ensure!(!refused.status.success(), "it ends with {}", refused.status);
    // By `stasis run`: a launcher may drop what the ranks say.
    for (word, wanted) in [(words, 1), ("the job goes on", 0)] {
        ensure!(
            refused.stderr.matches(word).count() == wanted,
            "it says {word}, or does not: {}",
            refused.stderr
        );
    }
    Ok(())
}

/// The last node has no rank until another one is lost. With that one lost, too, the job ends with the command that
/// continues it.
fn spares(case: &NodesCase) -> Result<()> {
    let mut job = case.start(&["--spares", "1"])?;
    let running = stasis::incarnation(&case.ckpt, RUN_FILE)?;
    let ranks = stasis::of_incarnation(job.ranks(), running);
    let on = |node| {
        anyhow::Ok(
            case.nodes
                .pids(node)?
                .into_iter()
                .any(|pid| ranks.contains(&pid)),
        )
    };
    ensure!(on(LOST)? && !on(NODES)?, "the spare node has ranks");
    case.recovered(&mut job, || case.nodes.connect(LOST, false))?;
    said(&job, "the job goes on without node2")?;
    let hosts = fs::read_to_string(case.ckpt.join("run.hosts"))?;
    let place = hosts.lines().nth(1).unwrap_or_default();
    ensure!(
        place.starts_with(&Nodes::address(NODES)),
        "the spare node does not stand in the place of the lost one: {hosts}"
    );
    case.nodes.connect(NODES, false)?;
    let ended = job.wait(deadline())?;
    ensure!(ended.is_some(), "the job did not end");
    said(&job, "no spare machine is left for node2, node3")?;
    said(&job, "stasis launch --resume")
}

/// With the spare node lost, too, all ranks go on on the one that is left.
fn oversubscribe(case: &NodesCase) -> Result<()> {
    let mut job = case.start(&["--spares", "1", "--oversubscribe"])?;
    for node in [LOST, NODES] {
        case.recovered(&mut job, || case.nodes.connect(node, false))?;
    }
    said(
        &job,
        "with more ranks on the others than they have room for",
    )?;
    case.finish(&mut job)
}

/// A node has another directory in the place of the checkpoint directory: its rank says so, and the job ends.
fn other_directory(case: &NodesCase) -> Result<()> {
    let script = format!(
        r#"case $(hostname) in
        node{LOST}) exec unshare --mount sh -c 'mount -t tmpfs tmpfs "{}" && exec "$0" "$@"' "$0" "$@" ;;
        esac
        exec "$0" "$@""#,
        case.ckpt.display()
    );
    let command = case.command_behind(&["sh", "-c", &script], &[], &[])?;
    let refused = job::run(command, case.dir, "refused", LIMIT)?;
    ensure!(!refused.status.success(), "it ends with {}", refused.status);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    let why = format!("{} on node{LOST} is missing or empty", case.ckpt.display());
    for (words, wanted) in [
        (&*why, true),
        ("a rank could not start", true),
        ("the job goes on", false),
    ] {
        ensure!(
            said.contains(words) == wanted,
            "it says '{words}', or does not: {said}"
        );
    }
    Ok(())
}

/// `stasis run` is killed while a node is cut off. The same line goes on when the ranks there are dead.
pub(super) fn controller(case: &NodesCase) -> Result<()> {
    let mut job = case.start(&[])?;
    let old = job.ranks();
    case.nodes.connect(LOST, false)?;
    signal::kill_now(job.pids()[0]);
    ensure!(job.wait(deadline())?.is_some(), "it survives SIGKILL");
    case.nodes.connect(LOST, true)?;
    let before = stasis::job_file(&case.ckpt);
    let mut again = Job::start(case.command(&[], &[])?, case.dir, "again")?;
    let mut both = false;
    let back = again.until_seen("the job went on", deadline(), |again| {
        both |= !again.ranks().is_empty() && old.iter().any(|rank| job::lives(*rank));
        let after = stasis::job_file(&case.ckpt);
        !after.is_empty() && after != before
    });
    again.explain(back, case.dir)?;
    ensure!(!both, "ranks of two incarnations lived at a time");
    said(&again, "ranks of an earlier `stasis run` may still live")?;
    case.finish(&mut again)
}
