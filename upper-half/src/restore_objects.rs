//! Objects after a restart. They are created again in the new lower half, from their bodies: lower handles of
//! predefined objects, datatypes, operations, communicators, windows, files, and then requests.
//!
//! Every rank makes its communicators in the order of their ids. Two ranks that are both members of two communicators
//! make them in the same order, so the smallest that is not yet made can always be made next: no rank waits in a
//! circle.
//!
//! LowerHandles that the objects have are void until they are set here.
//!
//! # Safety
//! Runs on one thread while all others are parked; every rank of the job is here.
#![allow(unsafe_code)]

use crate::argument::Input;
use crate::comm::free;
use crate::comm::lower_group::{below_tag, from_group};
use crate::crossing::call_guard::record;
use crate::crossing::mpi_result::check;
use crate::crossing::report::fatal;
use crate::crossing::thread_level;
use crate::datatype::make::make_datatype_below;
use crate::error::class;
use crate::init::name_service;
use crate::init::predefined::learn_predefined;
use crate::io::checkpoint;
use crate::object::comm::closing::forget;
use crate::object::comm::internal::{internal_world, make_internal, sync_comm};
use crate::object::comm::topology::Topology;
use crate::object::comm::CommBody;
use crate::object::datatype::DatatypeBody;
use crate::object::lower_handle::{named, Fresh, Unparked};
use crate::object::op::OpBody;
use crate::object::table::Body;
use crate::object::{Comm, Datatype, Info};
use crate::op::{forget_lower_handles, make_op_below};
use crate::quiesce::restore_requests;
use crate::reduced::channel;
use crate::rma::create;
use contract::abi::*;
use contract::recorder::Event;
use contract::{gate, MpiState};
use core::sync::atomic::Ordering;

/// The lower handle of an object that is not yet made anew.
const VOID: usize = usize::MAX;
/// What a job ends with that cannot be brought back (`stasis --help`).
const REFUSED: i32 = 5;

/// The entry point `rebuild` of the gate. Where something cannot be made the job ends here, with the
/// reason.
pub(crate) extern "C" fn restore() {
    if !gate().mpi_is(MpiState::Initialised) {
        return;
    }
    thread_level::tell_again();
    record(Event::Restored, [0, 0]);
    // SAFETY: see the module's head.
    let unparked = unsafe { Unparked::new() };
    let made = run(&unparked).and_then(|()| {
        check(restore_requests::restore_requests()).map_err(|code| (code, "a request".to_owned()))
    });
    if let Err((code, what)) = made {
        let text = class::text_of(code).unwrap_or_default();
        fatal(
            &format!("restart: {what} could not be made again: {text}"),
            REFUSED,
        )
    }
    record(Event::Restored, [1, 0]);
}

/// An error class, and what could not be made.
pub(crate) type Failure = (i32, String);

fn run(unparked: &Unparked) -> Result<(), Failure> {
    checkpoint::check_names()?;
    up_to_communicators(unparked)?;
    create::restore_windows(unparked)?;
    checkpoint::reopen(unparked)?;
    name_service::republish();
    Ok(())
}

fn up_to_communicators(unparked: &Unparked) -> Result<(), Failure> {
    let before = channel::turn_on();
    learn_predefined();
    let sync = make_internal(unparked);
    sync_comm().take(sync.map_err(|code| (code, "an internal communicator".to_owned()))?);
    datatypes(unparked)?;
    operations()?;
    communicators(unparked)?;
    channel::after_restart(&of_application(), &before, unparked)
        .map_err(|code| (code, "a communicator of --reduce".to_owned()))
}

/// The same for a survivor of another rank's death (MPI Stages), which has no windows and files, and no request under
/// way.
pub(crate) fn remake(unparked: &Unparked) -> Result<(), Failure> {
    up_to_communicators(unparked)?;
    check(restore_requests::restore_requests()).map_err(|code| (code, "a request".to_owned()))
}

fn datatypes(unparked: &Unparked) -> Result<(), Failure> {
    for datatype in DatatypeBody::table().dynamic() {
        datatype.set_lower(VOID);
    }
    for datatype in DatatypeBody::table().dynamic() {
        make_datatype(datatype, unparked)
            .map_err(|code| (code, format!("datatype {}", datatype.index())))?;
    }
    Ok(())
}

/// Makes a datatype and first all those that it was made from (a child's index may be higher than
/// its parent's, since indices are used again).
fn make_datatype(root: &'static Datatype, unparked: &Unparked) -> Result<(), i32> {
    let mut pending = vec![root];
    while let Some(&datatype) = pending.last() {
        if !datatype.has_lower(VOID) {
            pending.pop();
            continue;
        }
        let contents = &datatype.body.contents;
        let before = pending.len();
        pending.extend(
            contents
                .datatypes
                .iter()
                .filter(|child| child.has_lower(VOID)),
        );
        if pending.len() > before {
            continue;
        }
        let mut made = make_datatype_below(contents, unparked)?;
        if datatype.body.committed.load(Ordering::Relaxed) && !datatype.body.permanent {
            check(named::MPI_Type_commit(&mut made))?;
        }
        datatype.take(made);
        pending.pop();
    }
    Ok(())
}

fn operations() -> Result<(), Failure> {
    forget_lower_handles();
    for op in OpBody::table().dynamic() {
        check(make_op_below(op)).map_err(|code| (code, format!("operation {}", op.index())))?;
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

/// Makes all communicators, together with all other ranks.
pub(crate) fn communicators(unparked: &Unparked) -> Result<(), Failure> {
    let all = of_application();
    let ids: Vec<u64> = all.iter().map(|comm| comm.body.id).collect();
    let everyones =
        exchange_ids(&ids).map_err(|code| (code, "the list of communicators".to_owned()))?;
    let mut gone = Vec::new();
    for comm in all {
        if let Some(rank) = everyones.missing(comm) {
            // A member that has dropped it knew that all members had freed it.
            if !comm.body.freed.load(Ordering::Relaxed) {
                let what = format!("{} (rank {rank} does not have it)", comm.body.describe());
                return Err((ERR_COMM, what));
            }
            comm.clear_lower();
            gone.push(comm);
            continue;
        }
        let made = make_comm(comm, unparked).map_err(|code| (code, comm.body.describe()))?;
        comm.take(made);
        free::continue_farewell(comm);
    }
    forget(&gone);
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

fn exchange_ids(own: &[u64]) -> Result<Ids, i32> {
    let size = gate().lower.size.load(Ordering::Relaxed) as usize;
    let int = Datatype::at(contract::abi::datatype::INT as u32);
    let long = Datatype::at(contract::abi::datatype::UINT64_T as u32);
    let count = own.len() as i32;
    let mut counts = vec![0i32; size];
    // SAFETY: one number to and from every rank.
    check(unsafe {
        named::MPI_Allgather(
            (&raw const count).cast(),
            1,
            int,
            counts.as_mut_ptr().cast(),
            1,
            int,
            internal_world(),
        )
    })?;
    let mut starts = vec![0usize];
    for &count in &counts {
        let end = starts.last().copied().unwrap_or(0) + count as usize;
        starts.push(end);
    }
    let displacements: Vec<i32> = starts.iter().map(|&start| start as i32).collect();
    let mut all = vec![0u64; starts.last().copied().unwrap_or(0)];
    // SAFETY: there is room for as many numbers as the counts say together.
    check(unsafe {
        named::MPI_Allgatherv(
            own.as_ptr().cast(),
            count,
            long,
            all.as_mut_ptr().cast(),
            counts.as_ptr(),
            displacements.as_ptr(),
            long,
            internal_world(),
        )
    })?;
    Ok(Ids { all, starts })
}

/// Makes a communicator with the members, the order and the topology that it had.
fn make_comm<'a>(comm: &'static Comm, unparked: &'a Unparked) -> Result<Fresh<'a, CommBody>, i32> {
    let body = &comm.body;
    let (mut plain, mut made) = (unparked.fresh(), unparked.fresh());
    check(from_group(body.members(), body.id, &mut plain))?;
    match (&body.topology, body.remote_members()) {
        (_, Some(remote)) => {
            let leader = remote.first().map_or(PROC_NULL, |&rank| rank as i32);
            let (peers, tag) = (internal_world(), below_tag(body.id));
            check(named::MPI_Intercomm_create(
                &plain, 0, peers, leader, tag, &mut made,
            ))?;
        }
        // A library may have no such topology.
        (Some(Topology::Cart(cart)), None) if cart.dims.is_empty() => return Ok(plain),
        (Some(topology), None) => check(with_topology(&plain, topology, &mut made))?,
        (None, None) => return Ok(plain),
    }
    check(named::MPI_Comm_free(&mut plain))?;
    Ok(made)
}

/// Makes a communicator like `plain` with a topology.
fn with_topology(
    plain: &Fresh<'_, CommBody>,
    topology: &Topology,
    made: &mut Fresh<'_, CommBody>,
) -> i32 {
    // SAFETY: arrays of the lengths that are passed, as the application once gave them.
    unsafe {
        match topology {
            Topology::Cart(cart) => named::MPI_Cart_create(
                plain,
                cart.dims.len() as i32,
                Input::from(&cart.dims[..]),
                Input::from(&cart.periods[..]),
                0,
                made,
            ),
            Topology::Graph(graph) => named::MPI_Graph_create(
                plain,
                graph.index.len() as i32,
                graph.index.as_ptr(),
                graph.edges.as_ptr(),
                0,
                made.place(),
            ),
            Topology::DistGraph(graph) => {
                let (of_sources, of_destinations) = match &graph.weights {
                    None => (UNWEIGHTED as *const i32, UNWEIGHTED as *const i32),
                    Some((of_sources, of_destinations)) => {
                        (weights(of_sources), weights(of_destinations))
                    }
                };
                named::MPI_Dist_graph_create_adjacent(
                    plain,
                    graph.sources.len() as i32,
                    graph.sources.as_ptr(),
                    of_sources,
                    graph.destinations.len() as i32,
                    graph.destinations.as_ptr(),
                    of_destinations,
                    Info::null(),
                    0,
                    made.place(),
                )
            }
        }
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
