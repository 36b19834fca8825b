//! Nodes on one machine: network namespaces, each with an address of its own, behind a switch. A
//! launcher on the first of them starts ranks on the others as by `rsh`, and they reach each other
//! by TCP alone. Needs root; nothing of it is left when the [`Nodes`] are dropped.
//!
//! Only the network and the host's name are a node's own: processes, files and memory that is
//! shared by name are the machine's. MPI libraries which would notice are told not to use it, by
//! [`Placement::transport`].

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Script that creates the namespaces; its argument is the number of nodes. `ip netns` needs a writable `/run/netns`.
/// It is a private mount here, so that the namespaces end with their last process.
const SWITCH: &str = r#"
set -e
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add switch type bridge
ip link set switch up
for n in $(seq "$1"); do
    ip netns add "node$n"
    ip link add "port$n" type veth peer name eth0 netns "node$n"
    ip link set "port$n" master switch up
    ip -n "node$n" addr add "10.77.0.$n/24" dev eth0
    ip -n "node$n" link set lo up
    ip -n "node$n" link set eth0 up
done
echo ready $$
exec cat
"#;

/// Replacement of `rsh` for launchers: `AGENT ADDRESS COMMAND...`.
const AGENT: &str = r#"#!/bin/sh
node=node${1##*.}
shift
exec ip netns exec "$node" unshare --uts sh -c "hostname $node; $*"
"#;

/// Script that runs a program on the first node: `sh -c FIRST DIRECTORY PROGRAM ARGUMENTS...`.
const FIRST: &str = r#"hostname node1; cd "$0"; exec "$@""#;

const LIMIT: Duration = Duration::from_secs(30);

/// A switch with nodes around it.
pub struct Nodes {
    /// Process that holds the namespaces.
    _switch: Job,
    /// Prefix of commands in the namespaces of the switch.
    pid: String,
    dir: PathBuf,
}

/// Nodes of the ranks, and their network.
#[derive(Clone, Copy)]
pub struct Placement {
    /// Number of nodes, counted from the first.
    pub nodes: usize,
    /// Ranks per node.
    pub ranks: usize,
    /// Settings of the MPI library.
    pub transport: &'static [(&'static str, &'static str)],
}

impl Placement {
    /// Total number of ranks.
    pub fn size(&self) -> usize {
        self.nodes * self.ranks
    }
}

impl Nodes {
    /// Creates `count` nodes, with their files in `dir`.
    pub fn start(count: usize, dir: &Path) -> Result<Nodes> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", SWITCH, "switch"]);
        command.arg(count.to_string());
        let mut switch = Job::start(command, dir, "switch")?;
        let stdout = switch.stdout.clone();
        let mut pid = None;
        let ready = switch.until("the nodes were there", Instant::now() + LIMIT, || {
            let text = job::read_text(&stdout);
            pid = text.trim().strip_prefix("ready ").map(str::to_owned);
            pid.is_some()
        });
        switch.explain(ready, dir)?;
        let nodes = Nodes {
            _switch: switch,
            pid: pid.context("the switch told no process id")?,
            dir: dir.to_owned(),
        };
        fs::write(nodes.agent(), AGENT)?;
        fs::set_permissions(nodes.agent(), fs::Permissions::from_mode(0o755))?;
        Ok(nodes)
    }

    fn agent(&self) -> PathBuf {
        self.dir.join("rsh")
    }

    /// The command, on the first node.
    pub fn on_first(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(["--target", &self.pid, "--net", "--mount"]);
        inside.args(["ip", "netns", "exec", "node1", "unshare", "--uts"]);
        inside.args(["sh", "-c", FIRST]).arg(&self.dir);
        inside.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    /// A launcher on the first node, `name` of which is not given to another.
    pub fn mpirun(&self, mpi: Mpi, placement: &Placement, name: &str) -> Result<Command> {
        let hosts = self.dir.join(format!("{name}.hosts"));
        let line = |node: usize| match mpi {
            Mpi::OpenMpi => format!("10.77.0.{node} slots={}\n", placement.ranks),
            _ => format!("10.77.0.{node}:{}\n", placement.ranks),
        };
        fs::write(&hosts, (1..=placement.nodes).map(line).collect::<String>())?;
        let mut command = mpi.mpirun(placement.size(), &self.dir);
        command.env("OMPI_MCA_orte_default_hostfile", &hosts);
        command.env("OMPI_MCA_plm_rsh_agent", self.agent());
        command.env("HYDRA_HOST_FILE", &hosts);
        command.env("HYDRA_LAUNCHER", "rsh");
        command.env("HYDRA_LAUNCHER_EXEC", self.agent());
        command.envs(placement.transport.iter().copied());
        Ok(command)
    }

    /// Bytes that have gone through the switch.
    pub fn carried(&self) -> Result<u64> {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid, "--net", "cat", "/proc/net/dev"]);
        let finished = job::run(command, &self.dir, "carried", LIMIT)?.expect_success("nsenter")?;
        let ports = finished.stdout.lines().map(str::trim);
        let received: Vec<u64> = ports
            .filter_map(|line| line.strip_prefix("port")?.split_once(':'))
            .filter_map(|(_, counts)| counts.split_whitespace().next()?.parse().ok())
            .collect();
        ensure!(!received.is_empty(), "the switch tells of no port");
        Ok(received.iter().sum())
    }
}
