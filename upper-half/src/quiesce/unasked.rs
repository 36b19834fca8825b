//! Messages that have come and that no receive has asked for, told to the agent when it wants to explain what the ranks
//! wait for. They stay where they are: early messages in their queue, others in the library, which is probed.

use crate::object::comm::{live_comms, peer_of};
use crate::object::lower_handle::named;
use crate::object::{unexpected, Comm};
use crate::runtime::reports::REPORTS;
use contract::abi::{Status, ANY_SOURCE, ANY_TAG, SUCCESS};
use contract::waits::{self, WaitFor, WaitKind, UNASKED_ENTRIES};
use core::sync::atomic::Ordering;

/// Probes at one time. One takes some 100 ns.
const MOST_PROBES: usize = 4096;

/// Processes of a communicator up to which each is probed by itself. A larger one tells its first message.
const PROBED_ONE_BY_ONE: i32 = 64;

/// Answers the agent's last question. The library tells of each sender the first message on each communicator.
pub(crate) fn answer() {
    let unasked = &REPORTS.unasked;
    let asked = unasked.asked.load(Ordering::Acquire);
    if unasked.answered.load(Ordering::Relaxed) == asked {
        return;
    }
    // Nobody pulls messages meanwhile, and one thread at a time answers.
    let queue = unexpected::queue();
    let mut found = [WaitFor::ANYONE; UNASKED_ENTRIES];
    let mut used = 0;
    let mut more = 0;
    let mut add = |comm: &'static Comm, status: &Status| match found.get_mut(used) {
        Some(entry) => {
            *entry = of(comm, status);
            used += 1;
        }
        None => more += 1,
    };
    for entry in &queue.entries {
        add(entry.comm(), &entry.status());
    }
    let mut probes = 0;
    for comm in live_comms() {
        let peers = comm.body.peer_count();
        let sources = match peers <= PROBED_ONE_BY_ONE {
            true => 0..peers,
            false => ANY_SOURCE..ANY_SOURCE + 1,
        };
        for source in sources {
            probes += 1;
            if probes > MOST_PROBES {
                break;
            }
            let (mut flag, mut status) = (0, Status::EMPTY);
            let error = named::MPI_Iprobe(source, ANY_TAG, comm, &mut flag, Some(&mut status));
            if error == SUCCESS && flag != 0 {
                add(comm, &status);
            }
        }
    }
    waits::write(&unasked.version, || {
        for (entry, wait) in unasked.entries.iter().zip(found.iter().take(used)) {
            entry.store(wait);
        }
        unasked.entries_used.store(used as u32, Ordering::Relaxed);
        unasked.more.store(more, Ordering::Relaxed);
    });
    unasked.answered.store(asked, Ordering::Release);
}

/// A message by its envelope.
fn of(comm: &'static Comm, status: &Status) -> WaitFor {
    WaitFor {
        kind: WaitKind::Message,
        peer: peer_of(comm, status.source),
        tag: status.tag,
        comm: comm.body.id,
        amount: status.count,
    }
}
