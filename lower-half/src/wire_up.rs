//! Who this process is among the ranks: first by what the launcher says in the environment, then,
//! once MPI is initialised, by MPI itself, which also carries the addresses of those to whom each
//! connects: the coordinator's to all, a relay's from its rank to those below it. So no rank sends or
//! receives more of them than it has connections, and no address goes where it is not used.

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{anyhow, Context, Result};
use ckpt_image::Lineage;
use coordinator::addresses;
use coordinator::job::{Address, Contact};
use coordinator::tree::Place;

use crate::agent::{self, faults, Setup};
use crate::job;
use crate::mpi::{self, world, Hooks};
use crate::options::Checkpoints;
use crate::wrapper;

/// Bytes in which an address is sent, zero-padded behind its length.
const ADDRESS_BYTES: usize = 4096;
/// Of these, the length.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Sets the agent up, and the coordinator in rank 0. A process that is a job by itself can be
/// checkpointed from now on, whether it calls MPI_Init or not; the ranks of a larger job find each
/// other in [`connected`].
pub fn start(checkpoints: &Checkpoints, lineage: Lineage) -> Result<()> {
    agent::setup(Setup {
        checkpoints: checkpoints.clone(),
        disk: faults::disk()?,
        scarce: faults::scarce()?,
        key: checkpoints.key()?,
        command: job::command().to_vec(),
        lineage,
        library: world::library(),
        sections: job::sections,
        finalize: || {
            mpi::free_datatypes();
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
        agent::cut::tell();
        agent::finished();
        world::leave(status);
    });
    // From now on a checkpoint can be asked for; in a larger job it waits for MPI_Init.
    if launcher::is_first() {
        let size = launcher::size().unwrap_or(1);
        let alone = |contact: Contact| {
            if size == 1 {
                if contact.partners {
                    agent::pair(0, &[addresses::host()], Vec::new());
                }
                agent::connect(contact, 0, 1)
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
    let serve = || wrapper::is_none().and_then(|()| agent::serve(size));
    let served = (rank == 0).then(serve).transpose();
    let mut buffer = match &served {
        Ok(Some(contact)) => pack(contact),
        _ => [0; ADDRESS_BYTES],
    };
    // Also when rank 0 has failed: the others wait for it here.
    world::broadcast(&mut buffer, 0)?;
    served?;
    let mut contact = unpack(&buffer)
        .ok_or_else(|| anyhow!("rank 0 sent no address of the coordinator: see its message"))?;
    one_directory(rank)?;
    let place = Place::of(rank, size, contact.fan_out);
    if let Some(parent) = place.parent.filter(|parent| *parent != 0) {
        world::receive(&mut buffer, parent)?;
        let sent = unpack(&buffer);
        contact = sent.with_context(|| format!("rank {parent} sent no address of its relay"))?;
    }
    if place.relays() {
        // If there can be none, those below connect to what is above, as this rank does.
        match agent::relay(&contact, rank, place.children.len()) {
            Ok(own) => contact = own,
            Err(why) => report(Err(why)),
        }
        for child in &place.children {
            world::send(&pack(&contact), *child)?;
        }
    }
    // One that is alone was told so when it started.
    if contact.partners && size > 1 {
        partners(&contact, rank, size)?;
    }
    agent::connect(contact, rank, size)
}

/// Makes sure that all ranks have been given one checkpoint directory, as far as its name tells; its path may be
/// another on each machine. The default is named after the program, of which a job may have several.
fn one_directory(rank: u32) -> Result<()> {
    let directory = agent::directory()?;
    let mut hasher = DefaultHasher::new();
    directory.file_name().hash(&mut hasher);
    let (least, most) = world::extremes((hasher.finish() >> 1).cast_signed())?;
    if least == most {
        return Ok(());
    }
    if rank == 0 {
        crate::say(
            rank,
            format_args!(
                "the ranks of this job have different checkpoint directories, this one {}: give all of them the \
                 same --ckpt-dir",
                directory.display()
            ),
        );
        world::abort(crate::DIRECTORY);
    }
    // Until the job is ended: this rank must not go on.
    world::minimum(0).map(drop)
}

/// Ranks on different machines find who keeps copies of whose images. All tell all: each must know on which
/// machines all are.
fn partners(contact: &Contact, rank: u32, size: u32) -> Result<()> {
    let address = agent::host_partners(rank, size, contact.address.token.clone())?;
    let all: Vec<(String, Option<Address>)> =
        world::gather_values(&(addresses::host(), address), size)?;
    let (hosts, addresses): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    agent::pair(rank, &hosts, addresses);
    Ok(())
}

fn pack(contact: &Contact) -> [u8; ADDRESS_BYTES] {
    let mut buffer = [0; ADDRESS_BYTES];
    let (length, content) = buffer.split_at_mut(LENGTH_BYTES);
    let bytes = contact.to_bytes();
    // One that does not fit is none.
    if let Some(content) = content.get_mut(..bytes.len()) {
        content.copy_from_slice(&bytes);
        length.copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    }
    buffer
}

fn unpack(buffer: &[u8; ADDRESS_BYTES]) -> Option<Contact> {
    let (length, content) = buffer.split_first_chunk::<LENGTH_BYTES>()?;
    Contact::from_bytes(content.get(..u32::from_le_bytes(*length) as usize)?)
}

/// A job that cannot be checkpointed runs on all the same.
fn report(result: Result<()>) {
    if let Err(error) = result {
        crate::tell(&error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_fits_goes_through_and_any_other_is_none() {
        let contact = |addresses| Contact {
            address: Address {
                addresses: vec![[127, 0, 0, 1].into(); addresses],
                port: 7,
                socket: Some("ck/.stasis-1.socket".into()),
                token: "x".into(),
            },
            fan_out: 64,
            partners: true,
        };
        assert_eq!(unpack(&pack(&contact(3))), Some(contact(3)));
        assert_eq!(unpack(&pack(&contact(ADDRESS_BYTES))), None);
        assert_eq!(unpack(&[0; ADDRESS_BYTES]), None);
        assert_eq!(unpack(&[0xff; ADDRESS_BYTES]), None);
    }
}
