//! The job scripts of `examples/slurm` on a real Slurm, which is set up for each case in its own folder: a controller
//! and two nodes, all on this machine, under the user of the tests. Only with `--full`.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::nodes::Nodes;
use crate::harness::{paths, signal, stasis};
use crate::test::programs::mpi::reference;
use crate::test::support::compile::command_line;
use crate::test::support::held_job::{example, start};
use crate::test::support::refusal::{refused, DIRECTORY, IMAGE};
use crate::test::Case;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
const RANKS: usize = 2;
/// Nodes of a cluster: one for each rank.
const NODES: usize = 2;
const WITH_SPARE: usize = 3;
/// Minutes before the end at which the job stops. Slurm's shortest allocation is one minute.
const BEFORE_END: &str = "50s";

/// A library whose ranks srun starts.
#[derive(Clone, Copy)]
struct Srun {
    mpi: Mpi,
    /// The way by which the ranks find each other.
    mpi_type: &'static str,
    /// Setting for a transport that reaches another node.
    transport: &'static str,
}

const SRUN: [Srun; 3] = [
    Srun {
        mpi: Mpi::Mpich,
        mpi_type: "--mpi=pmi2",
        transport: "UCX_TLS=tcp,self",
    },
    Srun {
        mpi: Mpi::OpenMpi,
        mpi_type: "--mpi=pmix",
        transport: "OMPI_MCA_btl=self,tcp",
    },
    Srun {
        mpi: Mpi::OpenMpi5,
        mpi_type: "--mpi=pmix",
        transport: "OMPI_MCA_btl=self,tcp",
    },
];

impl Srun {
    /// Words before the program.
    fn launch(self) -> String {
        format!("srun {}", self.mpi_type)
    }
}

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for srun in SRUN {
        let mut add = |name: &str, body: fn(&Path, Srun) -> Result<()>| {
            let case = Case::over(srun.mpi, name, move |_, dir| body(dir, srun));
            cases.push(case);
        };
        add("slurm/chain", |dir, srun| {
            chain(dir, srun.mpi, &srun.launch())
        });
        add("slurm/exit-codes", exit_codes);
        add("slurm/recover", recover);
        let case = Case::over(srun.mpi, "slurm/lost-node", move |_, dir| {
            lost_node(dir, srun)
        });
        cases.push(case.for_root("needs root to make nodes"));
    }
    for mpi in Mpi::ALL {
        cases.push(Case::over(mpi, "slurm/chain-mpirun", move |_, dir| {
            chain(dir, mpi, &format!("{} -n 2", mpi.launcher()))
        }));
    }
    cases.push(Case::new("slurm/requeue", |_, dir| requeue(dir).into()));
    cases.push(Case::new("slurm/preempt", |_, dir| preempt(dir).into()));
    cases
}

/// Machines of a cluster.
enum Machines {
    /// A number of nodes, all on this machine.
    Here(usize),
    /// A number of nodes, each on one of its own.
    Own(Nodes, usize),
}

impl Machines {
    fn count(&self) -> usize {
        match self {
            Machines::Here(count) | Machines::Own(_, count) => *count,
        }
    }

    /// Name of a node, counted from 1.
    fn name(&self, node: usize) -> String {
        match self {
            Machines::Here(_) => format!("n{node}"),
            Machines::Own(..) => Nodes::name(node),
        }
    }

    /// Host name and address of a node.
    fn host(&self, node: usize) -> Result<(String, String)> {
        Ok(match self {
            Machines::Here(_) => {
                let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
                (host.trim().to_owned(), "127.0.0.1".into())
            }
            Machines::Own(..) => (Nodes::name(node), Nodes::address(node)),
        })
    }

    /// A command, on a node.
    fn on(&self, node: usize, command: Command) -> Command {
        match self {
            Machines::Here(_) => command,
            Machines::Own(nodes, _) => nodes.on(node, &command),
        }
    }
}

/// A running Slurm.
struct Cluster {
    dir: PathBuf,
    machines: Machines,
    /// Daemons, the controller first.
    daemons: Vec<Job>,
}

impl Cluster {
    fn start(dir: &Path, machines: Machines) -> Result<Cluster> {
        let dir = dir.join("slurm");
        fs::create_dir_all(dir.join("state"))?;
        let mut cluster = Cluster {
            dir,
            machines,
            daemons: vec![],
        };
        fs::write(cluster.configuration(), cluster.settings()?)?;
        let controller = cluster.command("slurmctld", &["-D"]);
        cluster.daemon("slurmctld", 1, controller)?;
        let count = cluster.machines.count();
        for node in 1..=count {
            let name = cluster.machines.name(node);
            fs::create_dir_all(cluster.dir.join(format!("tmp-{name}")))?;
            let command = cluster.command("slurmd", &["-D", "-N", &name]);
            cluster.daemon(&name, node, command)?;
        }
        cluster.until("all nodes were idle", |cluster| {
            let states = cluster.ask("sinfo", &["-h", "-N", "-p", "low", "-o", "%T"])?;
            Ok(states.lines().filter(|state| *state == "idle").count() == count)
        })?;
        Ok(cluster)
    }

    fn daemon(&mut self, name: &str, node: usize, command: Command) -> Result<()> {
        let command = self.machines.on(node, command);
        let daemon = Job::start(command, &self.dir, name)?;
        self.daemons.push(daemon);
        Ok(())
    }

    fn configuration(&self) -> PathBuf {
        self.dir.join("slurm.conf")
    }

    /// Configuration without other packages, a database, root, or control groups.
    fn settings(&self) -> Result<String> {
        let dir = self.dir.display();
        let (host, address) = self.machines.host(1)?;
        let user = Command::new("id").arg("-un").output()?.stdout;
        let user = String::from_utf8(user)?;
        let user = user.trim();
        // All sockets stay open until all ports are known, so that the ports differ.
        let listen = |_| TcpListener::bind(("127.0.0.1", 0));
        let listeners = (0..=self.machines.count()).map(listen);
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        let ports = listeners.iter().map(TcpListener::local_addr);
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        let controller = ports[0].port();
        let mut nodes = String::new();
        for (node, port) in (1..).zip(&ports[1..]) {
            let (name, port) = (self.machines.name(node), port.port());
            let (host, address) = self.machines.host(node)?;
            nodes += &format!(
                "NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs=4\n"
            );
        }
        Ok(format!(
            "ClusterName=stasis
SlurmctldHost={host}({address})
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
SlurmdTimeout=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}PartitionName=low Nodes=ALL Default=YES PriorityTier=1 GraceTime=60
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"
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

    /// Cuts a node off from the others, or connects it again.
    fn connect(&self, node: usize, connected: bool) -> Result<()> {
        match &self.machines {
            Machines::Here(_) => bail!("all nodes are on this machine"),
            Machines::Own(nodes, _) => nodes.connect(node, connected),
        }
    }

    /// Output of a command.
    fn ask(&self, program: &str, words: &[&str]) -> Result<String> {
        let command = self.command(program, words);
        let answer = self.machines.on(1, command).output()?;
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
    /// Everything that runs in its allocations has the mark of this job.
    submission: Job,
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
        machines: Machines,
    ) -> Result<Submitted<'a>> {
        let cluster = Cluster::start(dir, machines)?;
        let ring = example("p2p", "p2p/ring_loop")?;
        let native = reference(&ring, mpi)?;
        let ckpt = dir.join("ck");
        let mut command = cluster.command("sbatch", options);
        command
            .args([
                "--ntasks",
                &cluster.machines.count().to_string(),
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
        let command = cluster.machines.on(1, command);
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
            submission,
            native,
        })
    }

    /// Waits until all ranks are at their cut.
    fn until_ready(&mut self) -> Result<()> {
        let dir = self.dir;
        self.cluster.until("the program ran", |_| {
            Ok((0..RANKS).all(|rank| dir.join(format!("ready.{rank}")).exists()))
        })
    }

    /// Waits until the job runs that has another job file.
    fn until_another(&mut self, before: &str) -> Result<()> {
        let ckpt = self.ckpt.clone();
        self.cluster.until("the job went on", |_| {
            let job = stasis::job_file(&ckpt);
            Ok(!job.is_empty() && job != before)
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
        self.until_result()?;
        self.cluster.until("the queue was empty", |cluster| {
            Ok(cluster.ask("squeue", &["-h"])?.is_empty())
        })?;
        ensure!(stasis::job_file(&self.ckpt).is_empty(), "a job is left");
        Ok(())
    }

    /// Lets the restarted program go on until it has printed its result, which must be that of the native run.
    fn until_result(&mut self) -> Result<()> {
        self.until_printed("continuing ")?;
        fs::write(self.dir.join("go"), "")?;
        self.until_printed("OK ring_loop")?;
        let printed = printed(self.dir, self.script)?;
        let native = job::read_text(&self.native.join("run.out"));
        ensure!(
            printed.matches(native.trim()).count() == 1,
            "it printed:\n{}",
            job::tail(&printed, 20)
        );
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
    let mut run = Submitted::new(
        dir,
        "chain",
        mpi,
        launch,
        &["--time", "1"],
        Machines::Here(NODES),
    )?;
    run.until_printed("Submitted batch job 2")?;
    run.finish()
}

/// The same in one Slurm job.
fn requeue(dir: &Path) -> Result<()> {
    let launch = "srun --mpi=pmi2";
    let mut run = Submitted::new(
        dir,
        "requeue",
        Mpi::Mpich,
        launch,
        &["--time", "1"],
        Machines::Here(NODES),
    )?;
    run.start_again()?;
    run.until_printed("start 1")?;
    run.finish()
}

/// Another job preempts the program, which stops with a checkpoint in time, and continues when that job is over.
fn preempt(dir: &Path) -> Result<()> {
    let launch = "srun --mpi=pmi2";
    let mut run = Submitted::new(
        dir,
        "preempt",
        Mpi::Mpich,
        launch,
        &["--time", "10"],
        Machines::Here(NODES),
    )?;
    run.until_ready()?;
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

/// `stasis run` in an allocation of Slurm: a rank is killed, then srun, then Slurm is asked to kill the step, and at
/// last a node is lost. Each time the job goes on in the same allocation.
fn recover(dir: &Path, srun: Srun) -> Result<()> {
    let launch = format!("{} --ntasks 2 --nodes 2", srun.launch());
    let options = ["--time", "10"];
    let mut run = Submitted::new(
        dir,
        "recover",
        srun.mpi,
        &launch,
        &options,
        Machines::Here(WITH_SPARE),
    )?;
    let ckpt = run.ckpt.clone();
    run.until_ready()?;
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    let kill_rank = |_: &mut Submitted<'_>| {
        let status = stasis::status(&ckpt, dir, LIMIT)?;
        let pid = status["ranks"][1]["pid"].as_i64();
        signal::kill_now(pid.context("the status has no rank 1")? as i32);
        Ok(())
    };
    let kill_srun = |run: &mut Submitted<'_>| {
        let its = run.submission.named(&["srun"]);
        ensure!(!its.is_empty(), "there is no srun");
        its.into_iter().for_each(signal::kill_now);
        Ok(())
    };
    let cancel_step = |run: &mut Submitted<'_>| {
        let steps = run.cluster.ask("squeue", &["-h", "-s", "-o", "%i"])?;
        // A step whose srun was killed may still be there.
        let number = |id: &&str| id.split_once('.')?.1.parse::<u32>().ok();
        let step = steps
            .lines()
            .filter(|id| number(id).is_some())
            .max_by_key(number);
        let step = step.context("there is no step")?;
        let words = ["--signal", "KILL", step];
        run.cluster.ask("scancel", &words).map(drop)
    };
    // As the power of a node fails that has a rank.
    let lose_node = |run: &mut Submitted<'_>| {
        run.cluster.daemons.remove(2).kill()?;
        kill_rank(run)
    };
    type Harm<'a> = &'a dyn Fn(&mut Submitted<'_>) -> Result<()>;
    let harms: [Harm<'_>; 4] = [&kill_rank, &kill_srun, &cancel_step, &lose_node];
    for harm in harms {
        let before = stasis::job_file(&ckpt);
        harm(&mut run)?;
        run.until_another(&before)?;
    }
    run.finish()
}

/// A node is cut off, of which Slurm does not know for a time: the job goes on with the spare one. MPI_Finalize of
/// Debian's MPICH does not always end on more than one node (see `recover/node-`), so the result is waited for.
fn lost_node(dir: &Path, srun: Srun) -> Result<()> {
    let launch = format!(
        "env {} {} --ntasks 2 --nodes 2",
        srun.transport,
        srun.launch()
    );
    let machines = Machines::Own(Nodes::start(WITH_SPARE, dir)?, WITH_SPARE);
    let options = ["--time", "10"];
    let mut run = Submitted::new(dir, "recover", srun.mpi, &launch, &options, machines)?;
    run.until_ready()?;
    let checkpoint = run.cluster.machines.on(1, stasis::checkpoint(&run.ckpt));
    job::run(checkpoint, dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    let before = stasis::job_file(&run.ckpt);
    run.cluster.connect(2, false)?;
    run.until_another(&before)?;
    run.until_printed("the job goes on without node2")?;
    run.cluster.connect(2, true)?;
    run.until_result()
}

/// srun ends with the code of the ranks that Stasis refuses: in a directory in use, and from a damaged image.
fn exit_codes(dir: &Path, srun: Srun) -> Result<()> {
    let Srun { mpi, mpi_type, .. } = srun;
    let ckpt = dir.join("ck");
    let cluster = Cluster::start(dir, Machines::Here(NODES))?;
    let restart = |what: &str| {
        let mut command = cluster.command("srun", &[mpi_type, "-n", "2", "--ntasks-per-node", "1"]);
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
