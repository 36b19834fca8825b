//! Who this process is among the ranks: first by what the launcher says in the environment, then,
//! once MPI is initialised, by MPI itself, which also carries the coordinator's address.

use anyhow::Result;

use crate::agent::{self, faults, Setup};
use crate::job;
use crate::mpi::{self, world, Hooks};
use crate::options::Checkpoints;

/// Bytes in which rank 0 broadcasts the coordinator's address, zero-padded behind its length.
const ADDRESS_BYTES: usize = 4096;

/// Sets the agent up, and the coordinator in rank 0. A process that is a job by itself can be
/// checkpointed from now on, whether it calls MPI_Init or not; the ranks of a larger job find each
/// other in [`connected`].
pub fn start(checkpoints: &Checkpoints) -> Result<()> {
    agent::setup(Setup {
        checkpoints: checkpoints.clone(),
        disk: faults::disk()?,
        scarce: faults::scarce()?,
        key: checkpoints.key()?,
        command: job::command().to_vec(),
        library: world::library(),
        sections: job::sections,
        finalize: || {
            world::finalize();
        },
    })?;
    agent::take_signals()?;
    mpi::set_hooks(Hooks {
        connected,
        finalizing: || {},
        notify: agent::notify,
        clock_target: agent::clock_target,
        call_ended: agent::cut::call_ended,
    });
    loader::set_exit_hook(|status| {
        agent::finished();
        world::leave(status);
    });
    // From now on a checkpoint can be asked for; in a larger job it waits for MPI_Init.
    if launcher::is_first() {
        let size = launcher::size().unwrap_or(1);
        let alone = |address: Vec<u8>| {
            if size == 1 {
                agent::connect(&address, 0, 1)
            } else {
                Ok(())
            }
        };
        report(agent::serve(size).and_then(alone));
    }
    Ok(())
}

/// MPI is initialised: connects this rank to the coordinator in rank 0.
pub fn connected(rank: u32, size: u32) {
    report(connect(rank, size));
}

fn connect(rank: u32, size: u32) -> Result<()> {
    let mut buffer = vec![0; ADDRESS_BYTES];
    let served = if rank == 0 {
        agent::serve(size)
    } else {
        Ok(vec![])
    };
    if let Ok(address) = &served {
        let length = u32::try_from(address.len()).unwrap_or(u32::MAX);
        if address.len() <= ADDRESS_BYTES - 4 {
            buffer[..4].copy_from_slice(&length.to_le_bytes());
            buffer[4..4 + address.len()].copy_from_slice(address);
        }
    }
    // Also when rank 0 has failed: the others wait for it here.
    world::broadcast(&mut buffer, 0)?;
    served?;
    let length = u32::from_le_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]) as usize;
    agent::connect(&buffer[4..4 + length.min(ADDRESS_BYTES - 4)], rank, size)
}

/// A job that cannot be checkpointed runs on all the same.
fn report(result: Result<()>) {
    if let Err(error) = result {
        eprintln!("stasis: {}{error:#}", launcher::rank_label());
    }
}
