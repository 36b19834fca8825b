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

/// Script that creates the namespaces: `sh -c SWITCH switch NODES NETWORK NAMES [DIRECTORY]`. `ip netns` needs a
/// writable `/run/netns`. It is a private mount here, so that the namespaces end with their last process. So is
/// `/etc/hosts`, which has the content of the file NAMES.
const SWITCH: &str = r#"
set -e
mount -t tmpfs tmpfs /run
mount --bind "$3" /etc/hosts
ip link set lo up
ip link add switch type bridge
ip link set switch up
for n in $(seq "$1"); do
    ip netns add "node$n"
    ip link add "port$n" type veth peer name eth0 netns "node$n"
    ip link set "port$n" master switch up
    [ "$2" = ipv6 ] || ip -n "node$n" addr add "10.77.0.$n/24" dev eth0
    [ "$2" = ipv4 ] || ip -n "node$n" addr add "fd77::$n/64" dev eth0 nodad
    ip -n "node$n" link set lo up
    ip -n "node$n" link set eth0 up
done
if [ -z "$4" ]; then
    echo ready $$
    exec cat
fi
set +e
mkfifo "$4/requests"
echo ready $$
while read -r node pid request; do
    {
        ip netns exec "$node" unshare --uts xargs -0 -x -a "$request/words" env -i \
            <"/proc/$pid/fd/0" >>"/proc/$pid/fd/2" 2>>"/proc/$pid/fd/2"
        echo $? >"$request/end"
    } &
done <>"$4/requests"
"#;

/// Replacement of `rsh` for launchers: `AGENT ADDRESS COMMAND...`, or `AGENT NAME COMMAND...`.
const AGENT: &str = r#"#!/bin/sh
node=node${1##*[.e]}
shift
exec ip netns exec "$node" unshare --uts sh -c "hostname $node; $*"
"#;

/// The same by a daemon of the node, as ssh does it: what runs there is no child of the launcher. It has the agent's
/// environment and files. Its standard output is the agent's standard error: the launcher's daemon sends the output of
/// its ranks to the launcher, and prints only messages of its own, such as one that it has lost the launcher. The
/// directory of requests stands at `REQUESTS`.
const DAEMONS_AGENT: &str = r#"#!/bin/sh
node=node${1##*[.e]}
shift
request=REQUESTS/request.$$
mkdir "$request"
mkfifo "$request/end"
{ cat "/proc/$$/environ"; printf 'sh\0-c\0%s\0' "hostname $node; $*"; } >"$request/words"
echo "$node $$ $request" >REQUESTS/requests
read -r code <"$request/end"
exit "$code"
"#;

/// Script that runs a program on a node: `sh -c ON_NODE NODE DIRECTORY PROGRAM ARGUMENTS...`. `ip netns exec` would
/// mount a /sys without control groups, with which slurmd does not start.
const ON_NODE: &str = r#"
exec nsenter --net="/run/netns/$0" unshare --uts \
    sh -c 'hostname "$0"; cd "$1"; shift; exec "$@"' "$0" "$@"
"#;

const LIMIT: Duration = Duration::from_secs(30);

/// The addresses of the nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Ipv4,
    /// IPv6 alone. No launcher takes such an address in a file of machines, so the nodes have names.
    Ipv6,
    Both,
}

/// A switch with nodes around it.
pub struct Nodes {
    network: Network,
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
        Nodes::switch(count, dir, Network::Ipv4, false)
    }

    /// The same. What a launcher starts on another node than the first is no process below the launcher.
    pub fn with_daemons(count: usize, dir: &Path, network: Network) -> Result<Nodes> {
        Nodes::switch(count, dir, network, true)
    }

    fn switch(count: usize, dir: &Path, network: Network, daemons: bool) -> Result<Nodes> {
        let mut names = fs::read_to_string("/etc/hosts").unwrap_or_default();
        let (word, named) = match network {
            Network::Ipv4 => ("ipv4", false),
            Network::Ipv6 => ("ipv6", true),
            Network::Both => ("both", false),
        };
        for node in (1..=count).filter(|_| named) {
            names += &format!("fd77::{node} {}\n", Nodes::name(node));
        }
        let hosts = dir.join("etc-hosts");
        fs::write(&hosts, names)?;
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", SWITCH, "switch"]);
        command.args([&count.to_string(), word]).arg(&hosts);
        if daemons {
            command.arg(dir);
        }
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
            network,
            _switch: switch,
            pid: pid.context("the switch told no process id")?,
            dir: dir.to_owned(),
        };
        let agent = match daemons {
            true => DAEMONS_AGENT.replace("REQUESTS", &dir.to_string_lossy()),
            false => AGENT.to_owned(),
        };
        fs::write(nodes.agent(), agent)?;
        fs::set_permissions(nodes.agent(), fs::Permissions::from_mode(0o755))?;
        Ok(nodes)
    }

    fn agent(&self) -> PathBuf {
        self.dir.join("rsh")
    }

    /// The command, on the first node.
    pub fn on_first(&self, command: &Command) -> Command {
        self.on(1, command)
    }

    /// The command, on a node, counted from 1.
    pub fn on(&self, node: usize, command: &Command) -> Command {
        let name = Nodes::name(node);
        let mut inside = Command::new("nsenter");
        inside.args(["--target", &self.pid, "--net", "--mount"]);
        inside.args(["sh", "-c", ON_NODE, &name]).arg(&self.dir);
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
        let hosts = self.hosts(mpi, placement, name)?;
        let mut command = self.mpirun_of(mpi, placement, placement.size());
        command.env("OMPI_MCA_orte_default_hostfile", &hosts);
        command.env("HYDRA_HOST_FILE", &hosts);
        Ok(command)
    }

    /// The same for `ranks` ranks, with an option that names the file of the nodes.
    pub fn mpirun_with_file(
        &self,
        mpi: Mpi,
        placement: &Placement,
        ranks: usize,
        name: &str,
    ) -> Result<Command> {
        let hosts = self.hosts(mpi, placement, name)?;
        let mut command = self.mpirun_of(mpi, placement, ranks);
        command.arg(if mpi.is_open_mpi() {
            "--hostfile"
        } else {
            "-f"
        });
        command.arg(hosts);
        Ok(command)
    }

    fn hosts(&self, mpi: Mpi, placement: &Placement, name: &str) -> Result<PathBuf> {
        let hosts = self.dir.join(format!("{name}.hosts"));
        let line = |node: usize| {
            let node = match self.network {
                Network::Ipv6 => Nodes::name(node),
                Network::Ipv4 | Network::Both => Nodes::address(node),
            };
            match mpi.is_open_mpi() {
                true => format!("{node} slots={}\n", placement.ranks),
                false => format!("{node}:{}\n", placement.ranks),
            }
        };
        fs::write(&hosts, (1..=placement.nodes).map(line).collect::<String>())?;
        Ok(hosts)
    }

    fn mpirun_of(&self, mpi: Mpi, placement: &Placement, ranks: usize) -> Command {
        let mut command = mpi.mpirun(ranks, &self.dir);
        command.env("OMPI_MCA_plm_rsh_agent", self.agent());
        command.env("PRTE_MCA_plm_ssh_agent", self.agent());
        command.env("HYDRA_LAUNCHER", "rsh");
        command.env("HYDRA_LAUNCHER_EXEC", self.agent());
        command.envs(placement.transport.iter().copied());
        command
    }

    /// Address of a node of [`Network::Ipv4`], counted from 1.
    pub fn address(node: usize) -> String {
        format!("10.77.0.{node}")
    }

    /// Name of a node, counted from 1.
    pub fn name(node: usize) -> String {
        format!("node{node}")
    }

    /// All processes on a node.
    pub fn pids(&self, node: usize) -> Result<Vec<i32>> {
        let told = self.ip(&["netns", "pids", &Nodes::name(node)])?;
        let pids = told.lines().map(|pid| Ok(pid.trim().parse()?));
        pids.collect()
    }

    /// Cuts a node off from the others, or connects it again.
    pub fn connect(&self, node: usize, connected: bool) -> Result<()> {
        let state = if connected { "up" } else { "down" };
        self.ip(&["link", "set", &format!("port{node}"), state])
            .map(drop)
    }

    fn ip(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid, "--net", "--mount", "ip"]);
        command.args(words);
        let finished = job::run(command, &self.dir, "ip", LIMIT)?.expect_success("ip")?;
        Ok(finished.stdout)
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
