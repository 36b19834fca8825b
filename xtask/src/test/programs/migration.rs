//! Migration between networks: four ranks on two nodes over Open MPI, on four over MPICH, and on one; each time by a
//! checkpoint and `kill -9` of all. The bytes that go through the switch tell which network is in use.

use crate::harness::migration_ring::{self, Leg};
use crate::harness::mpi::Mpi;
use crate::harness::nodes::{Nodes, Placement};
use crate::test::Case;
use anyhow::{ensure, Result};
use std::path::Path;

const LEGS: [Leg; 3] = [
    Leg {
        name: "two nodes, Open MPI",
        mpi: Mpi::OpenMpi,
        placement: Placement {
            nodes: 2,
            ranks: 2,
            transport: &[("OMPI_MCA_btl", "self,vader,tcp")],
        },
    },
    Leg {
        name: "four nodes, MPICH",
        mpi: Mpi::Mpich,
        placement: Placement {
            nodes: 4,
            ranks: 1,
            transport: &[("UCX_TLS", "tcp,self")],
        },
    },
    Leg {
        name: "one node, Open MPI",
        mpi: Mpi::OpenMpi,
        placement: Placement {
            nodes: 1,
            ranks: 4,
            transport: &[("OMPI_MCA_btl", "self,vader")],
        },
    },
];
/// Steps of one lap on each leg.
const STEPS: usize = 50;
/// Bytes that go around in a lap.
const MESSAGE: u64 = 8192;

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let case = |front: Mpi| {
        let name = format!("migration/networks-{front}");
        Case::as_root(name, "needs root to make nodes", move |dir| {
            networks(dir, front)
        })
    };
    Mpi::ALL.map(case).into()
}

fn networks(dir: &Path, front: Mpi) -> Result<()> {
    let nodes = Nodes::start(4, dir)?;
    let way = migration_ring::travel(front, &LEGS, STEPS, 1, &nodes, dir)?;
    let mut next = 0;
    for (leg, travelled) in LEGS.iter().zip(&way) {
        for step in &travelled.steps {
            ensure!(
                step.number == next,
                "step {next} is missing on {}",
                leg.name
            );
            next += 1;
        }
        // As many hops of a lap go through the switch as there are nodes.
        let (steps, carried) = (travelled.steps.len() as u64, travelled.carried);
        let right = match leg.placement.nodes {
            1 => carried < steps * MESSAGE,
            nodes => carried > steps * MESSAGE * nodes as u64,
        };
        ensure!(
            right,
            "{}: {carried} bytes through the switch in {steps} steps",
            leg.name
        );
    }
    Ok(())
}
