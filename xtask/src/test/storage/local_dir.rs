//! Checkpoints that are written to a local directory and drained to the checkpoint directory: restarted from either,
//! after failures of the job and of the directories.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::held_job::{bring_back, example, start_by};
use crate::test::support::refusal::{refused, CHECKPOINT, IMAGE, USAGE};
use crate::test::support::small_fs::in_full_directory;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
const RANKS: usize = 2;
/// MiB per rank: enough for the drain to be observed, and too few for it.
const MUCH: &str = "192";
const LITTLE: &str = "8";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Path) -> Result<()>| {
        Case::new(format!("levels/{name}"), move |_, dir| run(dir).into())
    };
    vec![
        case("restart", |dir| drained(dir, Mpi::Mpich, Mpi::Mpich)),
        case("migrate", |dir| drained(dir, Mpi::OpenMpi, Mpi::Mpich)),
        case("killed-while-drained", |dir| {
            killed(dir, Mpi::Mpich, Mpi::OpenMpi)
        }),
        case("node-lost-while-drained", node_lost),
        case("job-ends-while-drained", ends),
        case("increments", increments),
        case("stop", stop),
        case("image-lost-openmpi", |dir| image_lost(dir, Mpi::OpenMpi)),
        case("image-lost-mpich", |dir| image_lost(dir, Mpi::Mpich)),
        on_machines("machine-lost-while-drained", machine_lost),
        on_machines("partner-restart", |dir| copied(dir, Mpi::Mpich, Mpi::Mpich)),
        on_machines("partner-migrate", |dir| {
            copied(dir, Mpi::OpenMpi, Mpi::Mpich)
        }),
        on_machines("ranks-change-machines", moved),
        on_machines("drained-when-dead", drained_when_dead),
        case("partner-on-one-machine", no_partner),
        Case::new("levels/directory-full", |_, dir| {
            in_full_directory(dir, drained_into_full)
        }),
    ]
}

/// A case whose ranks run on different machines, in terms of host names and local directories.
fn on_machines(name: &str, run: fn(&Path) -> Result<()>) -> Case {
    let why = "needs root to give ranks host names and local directories";
    Case::as_root(format!("levels/{name}"), why, run)
}

/// A job with a local directory for each rank.
struct Levelled<'a> {
    dir: &'a Path,
    ckpt: PathBuf,
    job: Job,
}

impl Levelled<'_> {
    /// Starts a job with `mib` MiB per rank.
    fn launch<'a>(dir: &'a Path, mpi: Mpi, mib: &str, flags: &[&str]) -> Result<Levelled<'a>> {
        let mut command = stasis::launch(mpi, RANKS, &dir.join("ck"), dir);
        command.args(flags).env("STASIS_LOCAL_DIR", local(dir));
        Levelled::launch_by(command, dir, mpi, mib)
    }

    /// Starts a job by this command.
    fn launch_by<'a>(command: Command, dir: &'a Path, mpi: Mpi, mib: &str) -> Result<Levelled<'a>> {
        let mut heavy = example("tools", "tools/heavy")?;
        heavy.variant = Some(mib.to_owned());
        let (job, ckpt) = (start_by(command, &heavy, dir, mpi)?, dir.join("ck"));
        Ok(Levelled { dir, ckpt, job })
    }

    /// Kills the job and restarts it from that set, which is not moved.
    fn restart(&mut self, mpi: Mpi, set: &str) -> Result<()> {
        self.restart_with(mpi, set, &[])
    }

    /// Kills and restarts the job with these settings.
    fn restart_with(&mut self, mpi: Mpi, set: &str, settings: &[(&str, &str)]) -> Result<()> {
        let mut command = stasis::restart(mpi, RANKS, &self.ckpt.join(set), self.dir);
        command
            .env("STASIS_LOCAL_DIR", local(self.dir))
            .env("STASIS_TEST_GO", self.dir.join("go"))
            .envs(settings.iter().copied());
        self.restart_by(command)
    }

    fn restart_by(&mut self, command: Command) -> Result<()> {
        bring_back(&mut self.job, command, &self.ckpt, self.dir)
    }

    /// Takes a checkpoint, which must be on that level at the time of the answer.
    fn take(&self, level: &str) -> Result<Value> {
        let command = stasis::checkpoint(&self.ckpt);
        let report = stasis::json(command, self.dir, "checkpoint", LIMIT)?;
        ensure!(report["level"] == level, "not {level}: {report:#}");
        Ok(report)
    }

    /// JSON of `stasis list` about the newest set, which must be this one, and complete.
    fn newest(&self, name: &str) -> Result<Value> {
        let mut list = stasis::command(["list"]);
        list.arg(&self.ckpt);
        let mut list = stasis::json(list, self.dir, "list", LIMIT)?;
        let newest = list["checkpoints"][0].take();
        ensure!(
            newest["name"] == name && newest["state"] == "whole",
            "{newest:#}"
        );
        Ok(newest)
    }

    fn until_drained(&mut self, name: &str) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        let place = |rank: usize| self.ckpt.join(name).join(format!("rank-{rank}.img"));
        let all = || (0..RANKS).all(|rank| place(rank).exists());
        let drained = self.job.until("the images were drained", deadline, all);
        self.job.explain(drained, self.dir)?;
        let newest = self.newest(name)?;
        ensure!(newest["level"] == "shared", "{newest:#}");
        Ok(())
    }

    /// Waits until the local directories are empty.
    fn until_empty(&mut self) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        let empty = || (0..RANKS).all(|rank| lying(self.dir, rank) == 0);
        let emptied = self.job.until("local images were gone", deadline, empty);
        self.job.explain(emptied, self.dir)
    }

    /// Takes a checkpoint and kills the job while its images are being drained.
    fn kill_in_drain(&mut self, name: &str, level: &str) -> Result<()> {
        let mut command = stasis::checkpoint(&self.ckpt);
        command.arg("--json");
        let _request = Job::start(command, self.dir, "checkpoint")?;
        let image = |rank: usize| self.ckpt.join(name).join(format!("rank-{rank}.img"));
        let begun = || image(1).with_extension("img.partial").exists();
        let begun = self
            .job
            .until("it was drained", Instant::now() + LIMIT, begun);
        self.job.explain(begun, self.dir)?;
        self.job.kill()?;
        ensure!(
            !image(1).exists(),
            "it was drained before the job could be killed"
        );
        let newest = self.newest(name)?;
        ensure!(newest["level"] == level, "{newest:#}");
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        fs::write(self.dir.join("go"), "")?;
        self.job.succeed(Instant::now() + LIMIT, self.dir)
    }
}

/// Value of `STASIS_LOCAL_DIR`, with a directory for each rank.
fn local(dir: &Path) -> PathBuf {
    dir.join("node%t")
}

/// Images in a rank's local directory.
fn lying(dir: &Path, rank: usize) -> usize {
    stasis::local_images(&dir.join(format!("node{rank}")))
}

fn verify(ckpt: &Path, dir: &Path) -> Result<()> {
    let verified = stasis::verify(ckpt, dir, LIMIT)?;
    verified.expect_success("verify").map(drop)
}

/// A drained set does not need the local directories, which are empty then.
fn drained(dir: &Path, first: Mpi, second: Mpi) -> Result<()> {
    let mut job = Levelled::launch(dir, first, LITTLE, &[])?;
    job.take("local")?;
    job.until_drained("ckpt-1")?;
    job.until_empty()?;
    job.job.kill()?;
    for rank in 0..RANKS {
        fs::remove_dir_all(dir.join(format!("node{rank}")))?;
    }
    verify(&job.ckpt, dir)?;
    job.restart(second, "")?;
    job.take("local")?;
    job.until_drained("ckpt-2")?;
    job.finish()
}

/// A restart from a set that is not drained, or partly. Each rank finds its image in its own directory, and the set is
/// drained later.
fn killed(dir: &Path, first: Mpi, second: Mpi) -> Result<()> {
    let mut job = Levelled::launch(dir, first, MUCH, &[])?;
    job.kill_in_drain("ckpt-1", "local")?;
    ensure!(lying(dir, 1) == 1, "rank 1 has no image");
    verify(&job.ckpt, dir)?;
    job.restart(second, "")?;
    job.until_drained("ckpt-1")?;
    job.finish()
}

/// A rank that has ended while the disk of the checkpoint directory hangs reports that it waits for the drain, and can
/// still be killed.
fn ends(dir: &Path) -> Result<()> {
    let mut job = Levelled::launch(dir, Mpi::Mpich, MUCH, &[])?;
    job.kill_in_drain("ckpt-1", "local")?;
    job.restart_with(Mpi::Mpich, "", &[("STASIS_FAULT", "hang:1@1")])?;
    fs::write(dir.join("go"), "")?;
    let words = "rank 1: waits until its images in";
    let told = job.job.until_said(words, Instant::now() + LIMIT);
    job.job.explain(told, dir)?;
    fs::remove_file(dir.join("go"))?;
    job.restart(Mpi::Mpich, "")?;
    job.until_drained("ckpt-1")?;
    job.finish()
}

/// A node is lost before its image was drained: the restart uses the older set, with a message.
fn node_lost(dir: &Path) -> Result<()> {
    let mut job = Levelled::launch(dir, Mpi::OpenMpi, MUCH, &["--keep", "1"])?;
    job.take("local")?;
    job.until_drained("ckpt-1")?;
    job.kill_in_drain("ckpt-2", "local")?;
    fs::remove_dir_all(dir.join("node1"))?;
    let words: &[&[&str]] = &[&["ckpt-2"], &["rank 1 lies on"], &["not drained"]];
    refused(&stasis::verify(&job.ckpt, dir, LIMIT)?, IMAGE, words)?;
    job.restart(Mpi::OpenMpi, "")?;
    let said = job::read_text(&job.job.stderr);
    ensure!(
        said.contains("skipping ckpt-2") && said.contains("from ckpt-1"),
        "{said}"
    );
    job.finish()
}

/// The only set has lost an image: the restart ends with the code for that under either launcher.
fn image_lost(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = Levelled::launch(dir, mpi, MUCH, &[])?;
    job.kill_in_drain("ckpt-1", "local")?;
    fs::remove_dir_all(dir.join("node1"))?;
    let restart = stasis::restart(mpi, RANKS, &job.ckpt, dir);
    let restart = job::run(restart, dir, "lost", LIMIT)?;
    refused(&restart, IMAGE, &[&["rank 1 lies on"], &["not drained"]])
}

/// The same if only that machine's rank can detect the loss: nothing is restored, and the message names the older set.
fn machine_lost(dir: &Path) -> Result<()> {
    let mpi = Mpi::Mpich;
    let machines = ["node0", "node1"];
    let mut job = launch_on(machines, dir, mpi, MUCH, &[])?;
    job.take("local")?;
    job.until_drained("ckpt-1")?;
    job.kill_in_drain("ckpt-2", "local")?;
    fs::remove_dir_all(dir.join("node1"))?;
    let mut restart = stasis_on(machines, mpi, dir);
    restart.arg("restart").arg(&job.ckpt);
    let restart = job::run(restart, dir, "machines", LIMIT)?;
    let words: &[&[&str]] = &[
        &["rank 1: this rank cannot reach its image of ckpt-2"],
        &["ck/ckpt-1"],
    ];
    refused(&restart, IMAGE, words)?;
    job.restart(mpi, "ckpt-1")?;
    job.finish()
}

/// A machine is lost with an undrained image, and another replaces it: its rank restarts from the copy of its partner.
/// Copies are removed when they are no longer needed.
fn copied(dir: &Path, first: Mpi, second: Mpi) -> Result<()> {
    let machines = ["node0", "node1"];
    let mut job = launch_on(machines, dir, first, MUCH, &["--partner"])?;
    job.take("partner")?;
    job.until_drained("ckpt-1")?;
    job.until_empty()?;
    job.kill_in_drain("ckpt-2", "partner")?;
    ensure!(lying(dir, 0) == 2, "node 0 has no copy beside its image");
    fs::remove_dir_all(dir.join("node1"))?;
    let mut restart = stasis_on(["node0", "node2"], second, dir);
    restart.args(["restart", "--partner"]).arg(&job.ckpt);
    job.restart_by(restart)?;
    let said = job::read_text(&job.job.stderr);
    ensure!(
        said.contains("rank 0: copies the image of rank 1"),
        "{said}"
    );
    job.until_drained("ckpt-2")?;
    job.take("partner")?;
    let (dir, ckpt) = (job.dir, job.ckpt.clone());
    job.finish()?;
    // The job's end waits for the drain.
    verify(&ckpt, dir)?;
    for node in [0, 2] {
        ensure!(lying(dir, node) == 0, "images are left on node {node}");
    }
    Ok(())
}

/// Ranks start on other machines than those with their images.
fn moved(dir: &Path) -> Result<()> {
    let mut job = launch_on(["node0", "node1"], dir, Mpi::OpenMpi, MUCH, &[])?;
    job.kill_in_drain("ckpt-1", "local")?;
    let mut restart = stasis_on(["node1", "node0"], Mpi::OpenMpi, dir);
    restart.arg("restart").arg(&job.ckpt);
    job.restart_by(restart)?;
    job.until_drained("ckpt-1")?;
    job.until_empty()?;
    job.finish()
}

/// A job dies with one of its nodes. `stasis drain` copies the image of the other node to the checkpoint directory
/// before that node is released, and the job is restarted elsewhere.
fn drained_when_dead(dir: &Path) -> Result<()> {
    let mpi = Mpi::Mpich;
    let mut job = launch_on(["node0", "node1"], dir, mpi, MUCH, &["--partner"])?;
    job.kill_in_drain("ckpt-1", "partner")?;
    fs::remove_dir_all(dir.join("node1"))?;
    let drain = |node: &str| {
        let mut command = on_machine(Command::new("env"), dir);
        command.env("PMI_RANK", "0").env("node0", node);
        command.arg("drain").arg(dir.join("ck"));
        let mut drained = stasis::json(command, dir, "drain", LIMIT)?;
        let images = drained["images"].take();
        let states = images.as_array().into_iter().flatten();
        let states = states.map(|image| image["state"].as_str().unwrap_or_default().to_owned());
        anyhow::Ok(states.collect::<Vec<String>>())
    };
    let (elsewhere, brought) = (drain("node3")?, drain("node0")?);
    ensure!(elsewhere == ["elsewhere", "elsewhere"], "{elsewhere:?}");
    ensure!(brought == ["brought", "brought"], "{brought:?}");
    ensure!(
        job.newest("ckpt-1")?["level"] == "shared",
        "it is not drained"
    );
    let mut restart = stasis_on(["node4", "node5"], mpi, dir);
    restart.arg("restart").arg(&job.ckpt);
    job.restart_by(restart)?;
    job.finish()
}

/// `--partner` without another machine: a message, and checkpoints without copies.
fn no_partner(dir: &Path) -> Result<()> {
    let job = Levelled::launch(dir, Mpi::Mpich, LITTLE, &["--partner"])?;
    job.take("local")?;
    let said = job::read_text(&job.job.stderr);
    ensure!(said.contains("all ranks run on"), "{said}");
    job.finish()?;
    // Without a local directory `--partner` is refused, and its variable set to no is not.
    let alone = |says: &str| {
        let mut command = stasis::launch(Mpi::Mpich, RANKS, &dir.join("alone"), dir);
        command.args(["true"]).env("STASIS_PARTNER", says);
        job::run(command, dir, says, LIMIT)
    };
    refused(&alone("yes")?, USAGE, &[&["--partner needs --local-dir"]])?;
    alone("no")?.expect_success("without copies").map(drop)
}

/// Launcher command for ranks on these machines, each of which has its own local directory.
fn stasis_on(machines: [&str; RANKS], mpi: Mpi, dir: &Path) -> Command {
    let mut command = on_machine(mpi.mpirun(RANKS, dir), dir);
    for (rank, machine) in machines.iter().enumerate() {
        command.env(format!("node{rank}"), machine);
    }
    command
}

/// Makes a launcher command start `stasis` on the machine of each rank.
fn on_machine(mut starter: Command, dir: &Path) -> Command {
    let script = "\
        eval name=\\$node${PMI_RANK:-$OMPI_COMM_WORLD_RANK}
        mkdir -p \"$name\" local && mount --bind \"$name\" local && hostname \"$name\" && exec \"$0\" \"$@\"";
    starter
        .args(["unshare", "--uts", "--mount", "sh", "-c", script])
        .arg(paths::stasis())
        .current_dir(dir)
        .env("STASIS_LOCAL_DIR", dir.join("local"))
        .env("STASIS_TEST_GO", dir.join("go"));
    starter
}

/// Starts a job on these machines.
fn launch_on<'a>(
    machines: [&str; RANKS],
    dir: &'a Path,
    mpi: Mpi,
    mib: &str,
    flags: &[&str],
) -> Result<Levelled<'a>> {
    let mut launch = stasis_on(machines, mpi, dir);
    launch.arg("launch").args(flags);
    launch.arg("--ckpt-dir").arg(dir.join("ck"));
    Levelled::launch_by(launch, dir, mpi, mib)
}

/// An increment and its parent, both drained or not.
fn increments(dir: &Path) -> Result<()> {
    let mut job = Levelled::launch(dir, Mpi::Mpich, LITTLE, &["--full-every", "3"])?;
    job.take("local")?;
    let second = job.take("local")?;
    ensure!(second["increment_of"] == "ckpt-1", "{second:#}");
    job.until_drained("ckpt-2")?;
    job.restart(Mpi::OpenMpi, "")?;
    job.finish()
}

/// The last checkpoint of a job is in the checkpoint directory at the time of the answer.
fn stop(dir: &Path) -> Result<()> {
    let mut job = Levelled::launch(dir, Mpi::Mpich, LITTLE, &[])?;
    let mut command = stasis::checkpoint(&job.ckpt);
    command.arg("--stop");
    let report = stasis::json(command, dir, "checkpoint", LIMIT)?;
    ensure!(report["level"] == "shared", "{report:#}");
    job.job.succeed(Instant::now() + LIMIT, dir)?;
    job.restart(Mpi::Mpich, "")?;
    job.finish()
}

/// The checkpoint directory has no space for the images: they remain in the local directory, with a message, and the
/// job continues. It can be restarted from there.
fn drained_into_full(dir: &Path, _: &Path) -> Result<()> {
    let mut job = Levelled::launch(dir, Mpi::OpenMpi, LITTLE, &[])?;
    job.take("local")?;
    let stderr = job.job.stderr.clone();
    let said = || {
        let said = job::read_text(&stderr);
        let stays = |rank| said.contains(&format!("rank {rank}: the image of ckpt-1 stays"));
        (0..RANKS).all(stays) && said.contains("No space left")
    };
    let told = job.job.until("it was said", Instant::now() + LIMIT, said);
    job.job.explain(told, dir)?;
    ensure!(job.newest("ckpt-1")?["level"] == "local", "it is drained");
    let mut stop = stasis::checkpoint(&job.ckpt);
    stop.arg("--stop");
    let stop = job::run(stop, dir, "stop", LIMIT)?;
    refused(&stop, CHECKPOINT, &[&["space", "full"]])?;
    job.restart(Mpi::Mpich, "").context("from what stays")?;
    job.finish()
}
