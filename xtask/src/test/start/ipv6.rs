//! Jobs on machines that have addresses of IPv6 alone, or of both families. The machines are nodes behind a switch. In
//! some cases there is one machine, and each rank has a host name of its own. Stasis then takes the ranks for those of
//! different machines, and connects them over the network.
//!
//! Of the launchers only Open MPI's reaches another machine by IPv6. Hydra of MPICH 4.0 looks for an address of IPv4
//! (`unable to get host address`), natively, too.

use super::lost_nodes::{controller, cut_off, killed, NodesCase, PLAIN};
use super::node_keepers;
use super::recovery::{deadline, RunCase};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::nodes::{Network, Nodes};
use crate::harness::{paths, signal, stasis};
use crate::test::Case;
use anyhow::{ensure, Result};
use serde_json::{json, Value};
use std::fs;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A shell that gives its rank a host name of its own.
const NAMED: &str = r#"
exec unshare --uts sh -c 'hostname "$0" && exec "$@"' "host${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" "$@"
"#;

type Body = fn(&NodesCase) -> Result<()>;

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let ways: [(&str, Body); 6] = [
        ("by-hand", nodes_by_hand),
        ("killed", killed),
        ("cut-off", cut_off),
        ("controller", controller),
        ("memory-ranks", node_keepers::ranks),
        ("memory-standby", node_keepers::standby),
    ];
    let on_ipv6 = ways.into_iter().map(|(name, body)| {
        NodesCase::case_on(Network::Ipv6, Mpi::OpenMpi, &format!("ipv6.{name}"), body)
    });
    let mut cases: Vec<Case> = on_ipv6.collect();
    for mpi in Mpi::ALL {
        let both = NodesCase::case_on(Network::Both, mpi, "both-families.cut-off", cut_off);
        let one = RunCase::case(mpi, "one-node-ipv6", recovers);
        let by_hand = RunCase::case(mpi, "one-node-ipv6.by-hand", by_hand);
        let root = "needs root to make nodes";
        cases.extend([both, one.for_root(root), by_hand.for_root(root)]);
    }
    cases
}

/// The line of a job whose ranks have host names of their own.
fn named(case: &RunCase, words: &[&str], program: Option<&str>) -> Command {
    let mut line = case.mpi.mpirun(case.ranks, case.dir);
    line.args(["sh", "-c", NAMED, "sh"]);
    line.arg(paths::stasis()).args(words).arg(&case.ckpt);
    if let Some(way) = program {
        line.arg(&case.program).arg(way);
    }
    case.at_its_cut(line)
}

const LAUNCH: [&str; 2] = ["launch", "--ckpt-dir"];

/// Takes a checkpoint by a command on the node.
fn checkpoint(case: &RunCase, nodes: &Nodes) -> Result<()> {
    let command = nodes.on_first(&stasis::checkpoint(&case.ckpt));
    let taken = job::run(command, case.dir, "checkpoint", LIMIT)?;
    taken.expect_success("the checkpoint").map(drop)
}

/// Whether these are the addresses of the first node.
fn names_it(addresses: &Value) -> Result<()> {
    let is_it = *addresses == json!(["fd77::1"]);
    ensure!(is_it, "the addresses of the node are {addresses}");
    Ok(())
}

/// The job runs without `stasis run`, is killed, and is restarted by a command.
fn nodes_by_hand(case: &NodesCase) -> Result<()> {
    let mut job = case.begin(&[PLAIN], &[])?;
    let file = stasis::job_file(&case.ckpt);
    names_it(&serde_json::from_str::<Value>(&file)?["addresses"])?;
    case.checkpoint()?;
    job.kill()?;
    let mut job = case.restart()?;
    case.checkpoint()?;
    case.finish(&mut job)
}

/// Each rank is killed in turn.
fn recovers(case: &RunCase) -> Result<()> {
    let nodes = Nodes::with_daemons(1, case.dir, Network::Ipv6)?;
    let command = stasis::run(&[], &named(case, &LAUNCH, Some("runs")));
    let mut job = case.start_command(nodes.on_first(&command), "run")?;
    let run = fs::read_to_string(case.ckpt.join("run.json"))?;
    names_it(&serde_json::from_str::<Value>(&run)?["network"]["addresses"])?;
    for rank in 0..case.ranks {
        checkpoint(case, &nodes)?;
        case.recovered(&mut job, |job| {
            job.processes_of(rank)
                .into_iter()
                .for_each(signal::kill_now);
        })?;
    }
    case.finish(job)
}

/// The job is killed, and restarted by a command.
fn by_hand(case: &RunCase) -> Result<()> {
    let nodes = Nodes::with_daemons(1, case.dir, Network::Ipv6)?;
    let launch = nodes.on_first(&named(case, &LAUNCH, Some("runs")));
    let mut job = case.start_command(launch, "launch")?;
    checkpoint(case, &nodes)?;
    job.kill()?;
    let before = stasis::job_file(&case.ckpt);
    let restart = nodes.on_first(&named(case, &["restart"], None));
    let mut job = Job::start(restart, case.dir, "restart")?;
    let back = stasis::until_reached(&mut job, &case.ckpt, &before, deadline());
    job.explain(back, case.dir)?;
    checkpoint(case, &nodes)?;
    case.finish(job)
}
