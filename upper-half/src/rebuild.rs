//! What a restart makes anew in the fresh lower half, from the descriptors: words of predefined
//! objects, datatypes, operations, communicators, windows, files, and then what messages need.
//!
//! Every rank makes its communicators in the order of their ids. Two ranks that are both members of
//! two communicators make them in the same order, so the smallest that is not yet made can always
//! be made next: no rank waits in a circle.
//!
//! # Safety
//! Runs on one thread while all others are parked; every rank of the job is here. Words that the
//! objects have are void until they are set here.
#![allow(unsafe_code)]

use crate::code::check;
use crate::comm_create::{below_tag, from_group};
use crate::environment::{internal_world, learn_predefined, make_internal, sync_comm};
use crate::object::{Body, Comm, CommBody, Datatype, DatatypeBody, OpBody};
use crate::topology::{DistGraph, Topology};
use crate::{comm_free, datatype, error, file, lower, message, op, ports, threads, window};
use contract::abi::*;
use contract::{gate, MpiState};
use core::sync::atomic::Ordering;

/// The word of an object that is not yet made anew.
const VOID: usize = usize::MAX;
/// What a job ends with that cannot be brought back (`stasis --help`).
const REFUSED: i32 = 5;

/// The entry point `rebuild` of the gate. Where something cannot be made the job ends here, with the
/// reason.
pub(crate) extern "C" fn rebuild() {
    if !gate().mpi_is(MpiState::Initialised) {
        return;
    }
    threads::tell_again();
    // SAFETY: see the module's head.
    let made = unsafe { run() }
        .and_then(|()| check(message::rebuild()).map_err(|code| (code, "a request".to_owned())));
    if let Err((code, what)) = made {
        let text = error::text_of(code).unwrap_or_default();
        error::fatal(
            &format!("restart: {what} could not be made again: {text}"),
            REFUSED,
        )
    }
}

/// An error class, and what could not be made.
type Failure = (i32, String);

unsafe fn run() -> Result<(), Failure> {
    file::check_names()?;
    // SAFETY: passed on.
    unsafe {
        learn_predefined();
        let sync = make_internal().map_err(|code| (code, "an internal communicator".to_owned()))?;
        sync_comm().set_lower(sync);
        datatypes()?;
        operations()?;
        communicators()?;
        window::create::rebuild()?;
        file::reopen()?;
    }
    ports::rebuild();
    Ok(())
}

unsafe fn datatypes() -> Result<(), Failure> {
    for datatype in DatatypeBody::table().dynamic() {
        datatype.set_lower(VOID);
    }
    for datatype in DatatypeBody::table().dynamic() {
        // SAFETY: passed on.
        unsafe { make_datatype(datatype) }
            .map_err(|code| (code, format!("datatype {}", datatype.index())))?;
    }
    Ok(())
}

/// Makes a datatype and first all those that it was made from (a child's index may be higher than
/// its parent's, since indices are used again).
unsafe fn make_datatype(root: &'static Datatype) -> Result<(), i32> {
    let mut pending = vec![root];
    while let Some(&datatype) = pending.last() {
        if datatype.lower() != VOID {
            pending.pop();
            continue;
        }
        let contents = &datatype.body.contents;
        let before = pending.len();
        pending.extend(
            contents
                .datatypes
                .iter()
                .filter(|child| child.lower() == VOID),
        );
        if pending.len() > before {
            continue;
        }
        // SAFETY: all children have their words.
        let mut word = unsafe { datatype::make_below(contents) }?;
        if datatype.body.committed.load(Ordering::Relaxed) && !datatype.body.permanent {
            // SAFETY: just made.
            check(unsafe { lower::MPI_Type_commit(&raw mut word) })?;
        }
        datatype.set_lower(word);
        pending.pop();
    }
    Ok(())
}

unsafe fn operations() -> Result<(), Failure> {
    op::forget_words();
    for op in OpBody::table().dynamic() {
        // SAFETY: passed on.
        check(unsafe { op::make_below(op) })
            .map_err(|code| (code, format!("operation {}", op.index())))?;
    }
    Ok(())
}

/// Communicators of the application, by id. Constructors that had failed left none.
fn of_application() -> Vec<&'static Comm> {
    let mut all: Vec<_> = CommBody::table()
        .dynamic()
        .filter(|comm| comm.index() != sync_comm().index())
        .collect();
    all.sort_unstable_by_key(|comm| comm.body.id);
    all
}

unsafe fn communicators() -> Result<(), Failure> {
    let all = of_application();
    let ids: Vec<u64> = all.iter().map(|comm| comm.body.id).collect();
    // SAFETY: passed on.
    let everyones = unsafe { exchange_ids(&ids) }
        .map_err(|code| (code, "the list of communicators".to_owned()))?;
    let mut gone = Vec::new();
    for comm in all {
        if let Some(rank) = everyones.missing(comm) {
            // A member that has dropped it knew that all members had freed it.
            if !comm.body.freed.load(Ordering::Relaxed) {
                let what = format!("{} (rank {rank} does not have it)", comm.body.describe());
                return Err((ERR_COMM, what));
            }
            comm.set_lower(Comm::null().lower());
            gone.push(comm);
            continue;
        }
        // SAFETY: passed on.
        let word = unsafe { make_comm(comm) }.map_err(|code| (code, comm.body.describe()))?;
        comm.set_lower(word);
        // SAFETY: just made.
        unsafe { comm_free::continue_farewell(comm) };
    }
    comm_free::forget(&gone);
    for comm in gone {
        comm.release();
    }
    Ok(())
}

/// Sorted ids of the communicators that each rank has.
struct Ids {
    all: Vec<u64>,
    /// Where each rank's begin; one more entry for the end.
    starts: Vec<usize>,
}

impl Ids {
    fn has(&self, rank: u32, id: u64) -> bool {
        let rank = rank as usize;
        let (Some(&start), Some(&end)) = (self.starts.get(rank), self.starts.get(rank + 1)) else {
            return false;
        };
        self.all
            .get(start..end)
            .is_some_and(|ids| ids.binary_search(&id).is_ok())
    }

    /// A member that does not have the communicator.
    fn missing(&self, comm: &'static Comm) -> Option<u32> {
        let remote = comm.body.remote_members().map_or(&[][..], |ranks| ranks);
        let mut members = comm.body.members().iter().chain(remote);
        members
            .find(|&&rank| !self.has(rank, comm.body.id))
            .copied()
    }
}

unsafe fn exchange_ids(own: &[u64]) -> Result<Ids, i32> {
    let size = gate().lower.size.load(Ordering::Relaxed) as usize;
    let int = Datatype::at(contract::abi::datatype::INT as u32).lower();
    let long = Datatype::at(contract::abi::datatype::UINT64_T as u32).lower();
    let count = own.len() as i32;
    let mut counts = vec![0i32; size];
    // SAFETY: every rank is here; arrays have the lengths that are passed.
    unsafe {
        check(lower::MPI_Allgather(
            (&raw const count).cast(),
            1,
            int,
            counts.as_mut_ptr().cast(),
            1,
            int,
            internal_world(),
        ))?;
        let mut starts = vec![0usize];
        for &count in &counts {
            let end = starts.last().copied().unwrap_or(0) + count as usize;
            starts.push(end);
        }
        let displacements: Vec<i32> = starts.iter().map(|&start| start as i32).collect();
        let mut all = vec![0u64; starts.last().copied().unwrap_or(0)];
        check(lower::MPI_Allgatherv(
            own.as_ptr().cast(),
            count,
            long,
            all.as_mut_ptr().cast(),
            counts.as_ptr(),
            displacements.as_ptr(),
            long,
            internal_world(),
        ))?;
        Ok(Ids { all, starts })
    }
}

/// Makes a communicator with the members, the order and the topology that it had.
unsafe fn make_comm(comm: &'static Comm) -> Result<usize, i32> {
    let body = &comm.body;
    let mut plain = Comm::null().lower();
    // SAFETY: words that were just made, and pointers to locals.
    unsafe {
        check(from_group(body.members(), body.id, &raw mut plain))?;
        let mut word = Comm::null().lower();
        match (&body.topology, body.remote_members()) {
            (_, Some(remote)) => {
                let leader = remote.first().map_or(PROC_NULL, |&rank| rank as i32);
                let tag = below_tag(body.id);
                check(lower::MPI_Intercomm_create(
                    plain,
                    0,
                    internal_world(),
                    leader,
                    tag,
                    &raw mut word,
                ))?;
            }
            (Some(topology), None) => word = with_topology(plain, topology)?,
            (None, None) => return Ok(plain),
        }
        if word == plain {
            return Ok(plain);
        }
        check(lower::MPI_Comm_free(&raw mut plain))?;
        Ok(word)
    }
}

/// A communicator like `plain` with a topology; `plain` itself where a library may have none.
unsafe fn with_topology(plain: usize, topology: &Topology) -> Result<usize, i32> {
    let mut word = Comm::null().lower();
    // SAFETY: arrays of the lengths that are passed, as the application once gave them.
    let code = unsafe {
        match topology {
            Topology::Cart(cart) if cart.dims.is_empty() => return Ok(plain),
            Topology::Cart(cart) => lower::MPI_Cart_create(
                plain,
                cart.dims.len() as i32,
                cart.dims.as_ptr(),
                cart.periods.as_ptr(),
                0,
                &raw mut word,
            ),
            Topology::Graph(graph) => lower::MPI_Graph_create(
                plain,
                graph.index.len() as i32,
                graph.index.as_ptr(),
                graph.edges.as_ptr(),
                0,
                &raw mut word,
            ),
            Topology::DistGraph(graph) => make_dist_graph(plain, graph, &raw mut word),
        }
    };
    check(code).map(|()| word)
}

unsafe fn make_dist_graph(plain: usize, graph: &DistGraph, word: *mut usize) -> i32 {
    let (of_sources, of_destinations) = match &graph.weights {
        None => (UNWEIGHTED as *const i32, UNWEIGHTED as *const i32),
        Some((of_sources, of_destinations)) => (weights(of_sources), weights(of_destinations)),
    };
    // SAFETY: passed on.
    unsafe {
        lower::MPI_Dist_graph_create_adjacent(
            plain,
            graph.sources.len() as i32,
            graph.sources.as_ptr(),
            of_sources,
            graph.destinations.len() as i32,
            graph.destinations.as_ptr(),
            of_destinations,
            crate::Info::null().lower(),
            0,
            word,
        )
    }
}

fn weights(weights: &[i32]) -> *const i32 {
    if weights.is_empty() {
        WEIGHTS_EMPTY as *const i32
    } else {
        weights.as_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_the_rank_that_has_them() {
        let ids = Ids {
            all: vec![3, 9, 5],
            starts: vec![0, 2, 2, 3],
        };
        assert!(ids.has(0, 9) && ids.has(2, 5));
        assert!(!ids.has(1, 3) && !ids.has(2, 9) && !ids.has(7, 3));
    }
}
