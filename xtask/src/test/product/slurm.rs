//! The job scripts of `examples/slurm` on a real Slurm, which is set up for each case in its own folder: a controller
//! and two nodes, all on this machine, under the user of the tests. Only with `--full`.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::programs::mpi::reference;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{example, start};
use crate::test::support::refusal::{refused, DIRECTORY, IMAGE};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
const RANKS: usize = 2;
const NODES: [&str; 2] = ["n1", "n2"];
/// Minutes before the end at which the job stops. Slurm's shortest allocation is one minute.
const BEFORE_END: &str = "50s";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, mpi, launch) in [
        ("pmi2", Mpi::Mpich, "srun --mpi=pmi2"),
        ("pmix", Mpi::OpenMpi, "srun --mpi=pmix"),
        ("mpirun.mpich", Mpi::Mpich, "mpirun.mpich -n 2"),
        ("mpirun.openmpi", Mpi::OpenMpi, "mpirun.openmpi -n 2"),
    ] {
        cases.push(Case::new(format!("slurm/chain-{name}"), move |_, dir| {
            chain(dir, mpi, launch).into()
        }));
    }
    for (name, mpi) in [("pmi2", Mpi::Mpich), ("pmix", Mpi::OpenMpi)] {
        let srun = format!("--mpi={name}");
        cases.push(Case::new(
            format!("slurm/exit-codes-{name}"),
            move |_, dir| exit_codes(dir, mpi, &srun).into(),
        ));
    }
    cases.push(Case::new("slurm/requeue", |_, dir| requeue(dir).into()));
    cases.push(Case::new("slurm/preempt", |_, dir| preempt(dir).into()));
    cases
}

/// A running Slurm.
struct Cluster {
    dir: PathBuf,
    /// Daemons, the controller first.
    daemons: Vec<Job>,
}

impl Cluster {
    fn start(dir: &Path) -> Result<Cluster> {
        let dir = dir.join("slurm");
        for folder in ["state", "tmp-n1", "tmp-n2"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        let mut cluster = Cluster {
            dir,
            daemons: vec![],
        };
        fs::write(cluster.configuration(), cluster.settings()?)?;
        let controller = cluster.command("slurmctld", &["-D"]);
        let mut daemons = vec![("slurmctld", controller)];
        for node in NODES {
            daemons.push((node, cluster.command("slurmd", &["-D", "-N", node])));
        }
        for (name, command) in daemons {
            let daemon = Job::start(command, &cluster.dir, name)?;
            cluster.daemons.push(daemon);
        }
        cluster.until("both nodes were idle", |cluster| {
            let nodes = cluster.ask("sinfo", &["-h", "-N", "-p", "low", "-o", "%T"])?;
            Ok(nodes.lines().filter(|state| *state == "idle").count() == NODES.len())
        })?;
        Ok(cluster)
    }

    fn configuration(&self) -> PathBuf {
        self.dir.join("slurm.conf")
    }

    /// Configuration without other packages, a database, root, or control groups.
    fn settings(&self) -> Result<String> {
        let dir = self.dir.display();
        let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
        let host = host.trim();
        let user = Command::new("id").arg("-un").output()?.stdout;
        let user = String::from_utf8(user)?;
        let user = user.trim();
        // All sockets stay open until all ports are known, so that the ports differ.
        let ports = [(); 3].map(|()| TcpListener::bind(("127.0.0.1", 0)));
        let mut numbers = Vec::new();
        for port in &ports {
            let listener = port.as_ref().ok().context("no port is free")?;
            numbers.push(listener.local_addr()?.port());
        }
        let [controller, first, second] = numbers[..] else {
            unreachable!("three were asked for")
        };
        Ok(format!(
            "ClusterName=stasis
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool-%n
TmpFS={dir}/tmp-%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd-%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={} NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=4
NodeName={} NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=4
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 GraceTime=60
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
",
            NODES[0], NODES[1]
        ))
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        let bin = paths::product().join("bin");
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(words)
            .env("SLURM_CONF", self.configuration())
            // Folders of daemons, which are not in the PATH of ordinary users.
            .env("PATH", format!("{}:{path}:/usr/sbin", bin.display()))
            .current_dir(&self.dir);
        command
    }

    /// Output of a command.
    fn ask(&self, program: &str, words: &[&str]) -> Result<String> {
        let answer = self.command(program, words).output()?;
        Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
    }

    fn until(&mut self, what: &str, event: impl Fn(&Cluster) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + LIMIT;
        while !event(self)? {
            let queue = || self.ask("squeue", &["-o", "%i %j %T %r %S"]);
            ensure!(
                Instant::now() < deadline,
                "timeout while waiting until {what}; the queue:\n{}",
                queue()?
            );
            for daemon in &mut self.daemons {
                let ended = daemon.poll()?;
                ensure!(ended.is_none(), "a daemon of Slurm's ended: {ended:?}");
            }
            // The query itself takes longer than this.
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

/// A script of the examples with a program, in a separate cluster.
struct Submitted<'a> {
    dir: &'a Path,
    cluster: Cluster,
    ckpt: PathBuf,
    script: &'static str,
    /// Working directory of the script in all allocations.
    _submission: Job,
    native: PathBuf,
}

impl Submitted<'_> {
    /// Submits `examples/slurm/SCRIPT.sh` with these options, to run the token ring.
    fn new<'a>(
        dir: &'a Path,
        script: &'static str,
        mpi: Mpi,
        launch: &str,
        options: &[&str],
    ) -> Result<Submitted<'a>> {
        let cluster = Cluster::start(dir)?;
        let ring = example("p2p", "p2p/ring_loop")?;
        let native = reference(&ring, mpi)?;
        let ckpt = dir.join("ck");
        let mut command = cluster.command("sbatch", options);
        command
            .args([
                "--ntasks",
                "2",
                "--ntasks-per-node",
                "1",
                "--output",
                "%x-%j.out",
            ])
            .arg(paths::examples().join(format!("slurm/{script}.sh")))
            .args(command_line(&ring, Some(mpi))?)
            .env("LAUNCH", launch)
            // Under srun nothing else chooses between several lower halves of one kind.
            .env("STASIS_MPI", mpi.name())
            .env("STASIS_CKPT_DIR", &ckpt)
            .env("STASIS_BEFORE_END", BEFORE_END)
            .env("STASIS_TEST_READY", dir.join("ready"))
            .env("STASIS_TEST_GO", dir.join("go"))
            .current_dir(dir);
        mpi.set_environment(&mut command);
        if mpi == Mpi::OpenMpi {
            command.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        }
        let mut submission = Job::start(command, dir, "sbatch")?;
        let submitted = submission.wait(Instant::now() + LIMIT)?;
        ensure!(
            submitted.is_some_and(|status| status.success()),
            "sbatch: {}",
            job::read_text(&submission.stderr)
        );
        Ok(Submitted {
            dir,
            cluster,
            ckpt,
            script,
            _submission: submission,
            native,
        })
    }

    fn until_printed(&mut self, words: &str) -> Result<()> {
        let (dir, script) = (self.dir, self.script);
        let what = format!("it printed '{words}'");
        let waited = self
            .cluster
            .until(&what, |_| Ok(printed(dir, script)?.contains(words)));
        let printed = printed(dir, script)?;
        waited.with_context(|| format!("it printed:\n{}", job::tail(&printed, 20)))
    }

    /// Starts a requeued job early, which Slurm delays by two minutes. One more second must pass, because the job's
    /// credentials are revoked up to the second of the requeue.
    fn start_again(&mut self) -> Result<()> {
        let script = self.script;
        self.cluster
            .until("the job was in the queue again", |cluster| {
                let queue = cluster.ask("squeue", &["-h", "-n", script, "-o", "%i %r"])?;
                let pending = queue
                    .lines()
                    .find_map(|line| line.strip_suffix(" BeginTime"));
                if let Some(id) = pending {
                    let job = format!("JobId={id}");
                    cluster.ask("scontrol", &["update", &job, "StartTime=now+2"])?;
                }
                Ok(pending.is_some())
            })
    }

    /// Lets the restarted program run to its end.
    fn finish(mut self) -> Result<()> {
        self.until_printed("continuing ")?;
        fs::write(self.dir.join("go"), "")?;
        self.until_printed("OK ring_loop")?;
        self.cluster.until("the queue was empty", |cluster| {
            Ok(cluster.ask("squeue", &["-h"])?.is_empty())
        })?;
        let printed = printed(self.dir, self.script)?;
        let native = job::read_text(&self.native.join("run.out"));
        ensure!(
            printed.matches(native.trim()).count() == 1,
            "it printed:\n{}",
            job::tail(&printed, 20)
        );
        ensure!(stasis::job_file(&self.ckpt).is_empty(), "a job is left");
        Ok(())
    }
}

/// Output of a script and its processes in all allocations.
fn printed(dir: &Path, script: &str) -> Result<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(script) && name.ends_with(".out") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files.iter().map(|file| job::read_text(file)).collect())
}

/// The first allocation is too short, so there is a second.
fn chain(dir: &Path, mpi: Mpi, launch: &str) -> Result<()> {
    let mut run = Submitted::new(dir, "chain", mpi, launch, &["--time", "1"])?;
    run.until_printed("Submitted batch job 2")?;
    run.finish()
}

/// The same in one Slurm job.
fn requeue(dir: &Path) -> Result<()> {
    let launch = "srun --mpi=pmi2";
    let mut run = Submitted::new(dir, "requeue", Mpi::Mpich, launch, &["--time", "1"])?;
    run.start_again()?;
    run.until_printed("start 1")?;
    run.finish()
}

/// Another job preempts the program, which stops with a checkpoint in time, and continues when that job is over.
fn preempt(dir: &Path) -> Result<()> {
    let launch = "srun --mpi=pmi2";
    let mut run = Submitted::new(dir, "preempt", Mpi::Mpich, launch, &["--time", "10"])?;
    run.cluster.until("the program ran", |_| {
        Ok((0..RANKS).all(|rank| dir.join(format!("ready.{rank}")).exists()))
    })?;
    let words = [
        "--partition",
        "high",
        "--nodes",
        "2",
        "--exclusive",
        "--output",
    ];
    let mut urgent = run.cluster.command("sbatch", &words);
    urgent
        .arg(dir.join("urgent.out"))
        .args(["--wrap", "echo done"]);
    let _urgent = Job::start(urgent, dir, "sbatch-urgent")?;
    run.start_again()?;
    run.cluster.until("the urgent job had run", |_| {
        Ok(job::read_text(&dir.join("urgent.out")).contains("done"))
    })?;
    run.finish()
}

/// srun ends with the code of the ranks that Stasis refuses: in a directory in use, and from a damaged image.
fn exit_codes(dir: &Path, mpi: Mpi, srun: &str) -> Result<()> {
    let ckpt = dir.join("ck");
    let cluster = Cluster::start(dir)?;
    let restart = |what: &str| {
        let mut command = cluster.command("srun", &[srun, "-n", "2", "--ntasks-per-node", "1"]);
        command.arg(paths::stasis()).arg("restart").arg(&ckpt);
        command.env("STASIS_MPI", mpi.name()).current_dir(dir);
        mpi.set_environment(&mut command);
        job::run(command, dir, what, LIMIT)
    };
    let mut job = start(&example("p2p", "p2p/ring_loop")?, dir, &ckpt, mpi)?;
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    let in_use = restart("in-use")?;
    refused(&in_use, DIRECTORY, &[&["process"], &["ring_loop"]])?;
    job.kill()?;
    let image = ckpt.join("ckpt-1/rank-1.img");
    let half = fs::metadata(&image)?.len() / 2;
    fs::OpenOptions::new()
        .write(true)
        .open(&image)?
        .set_len(half)?;
    let damaged = restart("damaged")?;
    refused(&damaged, IMAGE, &[&["rank-1.img", "rank 1"]])
}
