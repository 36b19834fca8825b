//! The bootstrap of the control plane (wire-up). The rank of this process comes from the launcher's environment first,
//! and from MPI once that is initialised. MPI also carries the addresses to connect to: the coordinator's to all ranks,
//! and a relay's from its rank to the ranks below it. So no rank sends or receives more addresses than it has
//! connections, and no address goes to a rank that does not use it.

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::{anyhow, Context, Result};
use ckpt_image::Lineage;
use coordinator::net::addresses;
use coordinator::net::contact::{Address, Contact};
use coordinator::net::tree::Position;
use job_spec::{Checkpoints, ExitCode};

use super::{job_state, keeper, program_wrapper};
use crate::agent::debug::{fault_injection, kill_at_call};
use crate::agent::{self, Setup};
use crate::mpi::{self, world, Hooks};
use crate::{breakpoint, clocks, console, options, profile, record, solo, stages, tools};

/// Bytes in which an address is sent, zero-padded behind its length.
const ADDRESS_BYTES: usize = 4096;
/// Bytes of the length in front of the address.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Sets the agent up, and the coordinator in rank 0. A job of one process can be checkpointed from now on, even if it
/// never calls MPI_Init. The ranks of a larger job connect in [`connected`]. The job goes on `from` a set, unless it
/// begins.
pub fn start(checkpoints: &Checkpoints, lineage: Lineage, from: Option<String>) -> Result<()> {
    agent::setup(Setup {
        checkpoints: checkpoints.clone(),
        disk: fault_injection::disk()?,
        scarce: fault_injection::scarce()?,
        unwatched: fault_injection::unwatched()?,
        key: options::key(checkpoints)?,
        command: job_state::command().to_vec(),
        lineage,
        from,
        library: world::library(),
        sections: || {
            let sections = [
                job_state::section(),
                program_wrapper::section(),
                record::section(),
                clocks::section(),
            ];
            sections.into_iter().flatten().collect()
        },
        unsaved_programs: program_wrapper::others,
        covered: keeper::covered,
        finalize: || {
            mpi::free_datatypes();
            world::finalize();
        },
    })?;
    agent::take_signals()?;
    mpi::set_hooks(Hooks {
        connected,
        finalizing: || {
            record::finish();
            profile::finish();
        },
        aborting: |code| {
            profile::program_ends();
            keeper::aborts(code);
        },
        failing: keeper::fails,
        ending: keeper::ends_job,
        notify: || {
            agent::notify();
            breakpoint::notify();
        },
        clock_target: agent::clock_target,
        call_ended: kill_at_call::call_ended,
        stages_begin: stages::begin,
        stages_write: stages::write,
        stages_read: stages::read,
        tool_options: tools::options,
        record_room: record::make_room,
        replay_turn: record::turn,
        replay_call: record::call,
        replay_outcome: record::outcome,
        replay_binding: record::binding,
        replay_digest: record::digest,
        contents_end: solo::tell_end,
        solo_ended: solo::ended,
    });
    loader::set_thread_end_hook(record::thread_ends);
    loader::set_exit_hook(|status| {
        kill_at_call::tell();
        keeper::exits(status);
        profile::program_ends();
        agent::finished(Some(status));
        clocks::close();
        world::leave(status);
    });
    // From now on a checkpoint can be requested. In a larger job it waits for MPI_Init.
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
    report(agent::tools().and_then(|own| tools::agree(own, rank, size)));
    if agent::begins() {
        report(profile::begin(rank));
    }
    report(connect(rank, size));
    record::begin(rank, size);
    report(solo::record(rank, size));
}

fn connect(rank: u32, size: u32) -> Result<()> {
    let serve = || program_wrapper::is_none().and_then(|()| agent::serve(size));
    let served = (rank == 0).then(serve).transpose();
    let mut buffer = match &served {
        Ok(Some(contact)) => pack(contact),
        _ => [0; ADDRESS_BYTES],
    };
    // This also happens after a failure of rank 0, because the other ranks wait for it here.
    world::broadcast(&mut buffer, 0)?;
    served?;
    let mut contact = unpack(&buffer)
        .ok_or_else(|| anyhow!("rank 0 sent no address of the coordinator: see its message"))?;
    one_directory(rank)?;
    let place = Position::of(rank, size, contact.fan_out);
    if let Some(parent) = place.parent.filter(|parent| *parent != 0) {
        world::receive(&mut buffer, parent)?;
        let sent = unpack(&buffer);
        contact = sent.with_context(|| format!("rank {parent} sent no address of its relay"))?;
    }
    if place.relays() {
        // If this rank cannot have a relay, its children connect to its own parent.
        match agent::relay(&contact, rank, place.children.len()) {
            Ok(own) => contact = own,
            Err(why) => report(Err(why)),
        }
        for child in &place.children {
            world::send(&pack(&contact), *child)?;
        }
    }
    // A job of one rank was paired in `start`.
    if contact.partners && size > 1 {
        partners(&contact, rank, size)?;
    }
    agent::connect(contact, rank, size)
}

/// Checks that all ranks have the same checkpoint directory. It compares only the names, since the path may differ
/// between machines. The default directory is named after the program, and a job may have several programs.
fn one_directory(rank: u32) -> Result<()> {
    let directory = agent::directory()?;
    let mut hasher = DefaultHasher::new();
    directory.file_name().hash(&mut hasher);
    let (least, most) = world::extremes((hasher.finish() >> 1).cast_signed())?;
    if least == most {
        return Ok(());
    }
    if rank == 0 {
        console::say(
            rank,
            format_args!(
                "the ranks of this job have different checkpoint directories, this one {}: give all of them the \
                 same --ckpt-dir",
                directory.display()
            ),
        );
        world::abort(ExitCode::Directory.number());
    }
    // This rank waits here until the job is ended.
    world::minimum(0).map(drop)
}

/// Pairs ranks on different machines, which keep copies of each other's images. Every rank sends its machine to all
/// others, because the pairing depends on the machines of all ranks.
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
    // An address that does not fit is sent as none.
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

/// Reports a failure. The job continues without checkpoints.
fn report(result: Result<()>) {
    if let Err(error) = result {
        console::tell(&error);
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
