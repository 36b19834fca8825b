//! `--perturb`: candidates of receives and probes with MPI_ANY_SOURCE are held back at random, so that races show
//! (docs/internals/perturb.md). The seed decides how long.
//!
//! | module | has |
//! |---|---|
//! | `holds` | how long a candidate is held back |
//! | `candidates` | which message a receive or probe may take now |
//! | `open_receives` | receives that have no message yet |
//! | `delivery` | they get their messages, or are posted |
//! | `open_probes` | probes that have found none yet |

mod candidates;
pub(crate) mod delivery;
mod holds;
pub(crate) mod open_probes;
pub(crate) mod open_receives;

use crate::object::comm::comm_id::INTERNAL_WORLD;
use crate::object::{unexpected::Queue, Comm};
use crate::tools;
use contract::abi::ANY_SOURCE;
use contract::{gate, TOOL_PERTURB};
use core::sync::atomic::Ordering;

/// Attempts that a test or probe of the application counts as. A wait makes one in a microsecond or two.
pub(crate) const BY_THE_APPLICATION: u32 = 256;

/// Turns the tool on or off, as the lower half wants. To be called when MPI is initialised, and first after a restart.
pub(crate) fn begin() {
    let wanted = tools::wanted() & TOOL_PERTURB != 0;
    tools::set(TOOL_PERTURB, wanted);
    if wanted {
        // The command line has been checked.
        let seed = tools::options(TOOL_PERTURB).parse().unwrap_or(0);
        holds::begin(seed, gate().lower.rank.load(Ordering::Relaxed));
    }
}

#[inline(always)]
pub(crate) fn is_on() -> bool {
    tools::is_set(TOOL_PERTURB)
}

/// Whether a receive or probe of the application is one from any source.
fn is_wild(source: i32, comm: &'static Comm) -> bool {
    source == ANY_SOURCE && comm.body.id != INTERNAL_WORLD
}

/// Takes in hand what has come over a communicator. The data stay where they are.
fn take_in_hand(queue: &mut Queue, comm: &'static Comm) -> Result<(), i32> {
    while queue.match_next(ANY_SOURCE, comm)?.is_some() {}
    Ok(())
}

/// How many sources there can be besides this process.
fn others(comm: &'static Comm) -> usize {
    let itself = usize::from(comm.body.remote_members().is_none());
    (comm.body.peer_count() as usize).saturating_sub(itself)
}
