//! The functions of MPI, by arguments: each makes the schedule of one call, or the error code that its arguments
//! deserve.
//!
//! Over an inter-communicator the linear algorithms serve, since trees are made of processes of one group.
//!
//! An operation that is composed of several algorithms names where that comes from. `linear.rs` and `tree.rs` do so for
//! the algorithms.

use self::Layout::{Uniform, Varying, Wide};
use super::linear::Ranks;
use super::role::Role;
use super::Schedule;
use crate::argument::{Buffer, Numbers};
use crate::object::comm::topology::Topology;
use crate::object::request::schedule::Data;
use crate::object::{Comm, Datatype, Op};
use contract::abi::{ERR_COMM, ERR_TOPOLOGY, IN_PLACE, PROC_NULL};
use reduction::Algorithm;
use std::collections::VecDeque;

/// The schedule of a call, or its error code.
pub type Planned = Result<Schedule, i32>;

impl Buffer<'_> {
    fn is_in_place(self) -> bool {
        self.address() == IN_PLACE
    }
}

/// A schedule, the ranks that it addresses, and whether trees serve.
fn begin(comm: &'static Comm, algorithm: Algorithm) -> Result<(Schedule, Ranks, bool), i32> {
    let body = &comm.body;
    let ranks = Ranks {
        count: body.peer_count(),
        me: (!body.inter).then_some(body.rank),
    };
    let trees = algorithm == Algorithm::Tree && !body.inter;
    Ok((Schedule::over(comm)?, ranks, trees))
}

/// The elements in a buffer for each rank.
#[derive(Clone, Copy)]
struct Blocks<'a> {
    buffer: Buffer<'static>,
    layout: Layout<'a>,
}

#[derive(Clone, Copy)]
enum Layout<'a> {
    /// One count for each rank, one after the other.
    Uniform(i64, &'static Datatype),
    /// A count and a displacement, in extents, for each rank.
    Varying(Numbers<'a>, Numbers<'a>, &'static Datatype),
    /// A count, a displacement in bytes and a datatype for each rank.
    Wide(Numbers<'a>, Numbers<'a>, &'a [&'static Datatype]),
}

impl<'a> Blocks<'a> {
    fn new(buffer: Buffer<'static>, layout: Layout<'a>) -> Blocks<'a> {
        Blocks { buffer, layout }
    }

    /// The block of a rank.
    fn at(&self, rank: i32) -> Result<Data, i32> {
        match self.layout {
            Uniform(count, datatype) => {
                Data::at(self.buffer, i64::from(rank) * count, count, datatype)
            }
            Varying(counts, displacements, datatype) => Data::at(
                self.buffer,
                displacements.at(rank),
                counts.at(rank),
                datatype,
            ),
            Wide(counts, displacements, datatypes) => {
                let buffer = self.buffer.at(displacements.at(rank) as isize);
                let datatype = datatypes.get(rank as usize).copied();
                let datatype = datatype.unwrap_or(Datatype::null());
                Ok(Data::new(buffer, counts.at(rank), datatype))
            }
        }
    }

    /// The plan is going to look at all of them.
    fn keep(&self, plan: &mut Schedule) -> Result<(), i32> {
        match self.layout {
            Uniform(count, datatype) => plan.keep(count, datatype),
            Varying(counts, _, datatype) => plan.keep(counts.least(), datatype),
            Wide(counts, _, datatypes) => datatypes
                .iter()
                .try_for_each(|datatype| plan.keep(counts.least(), datatype)),
        }
    }
}

/// The elements of this process: those arguments that are not for each rank.
#[derive(Clone, Copy)]
struct Own {
    buffer: Buffer<'static>,
    count: i64,
    datatype: &'static Datatype,
}

impl Own {
    fn new(buffer: Buffer<'static>, count: impl Into<i64>, datatype: &'static Datatype) -> Own {
        let count = count.into();
        Own {
            buffer,
            count,
            datatype,
        }
    }

    /// The plan is going to look at them.
    fn given(self, plan: &mut Schedule) -> Result<Data, i32> {
        plan.keep(self.count, self.datatype)?;
        Ok(Data::new(self.buffer, self.count, self.datatype))
    }

    /// The same, unless the call is in place.
    fn given_unless_in_place(self, plan: &mut Schedule) -> Result<Option<Data>, i32> {
        match self.buffer.is_in_place() {
            true => Ok(None),
            false => self.given(plan).map(Some),
        }
    }

    /// The elements that this process gives to or gets from a root; none where they are not looked at.
    fn with_root(self, plan: &mut Schedule, ranks: Ranks, role: Role) -> Result<Option<Data>, i32> {
        match role {
            Role::Root if ranks.me.is_some() => self.given_unless_in_place(plan),
            Role::Root | Role::Beside => Ok(None),
            Role::With(_) => self.given(plan).map(Some),
        }
    }
}

/// MPI_Barrier.
///
/// # Errors
/// The error class of MPI: `MPI_ERR_NO_MEM` for the schedule, or the library refuses the duplicate communicator, a
/// datatype or a rank.
pub fn barrier(comm: &'static Comm, algorithm: Algorithm) -> Planned {
    let (mut plan, ranks, trees) = begin(comm, algorithm)?;
    let none = |_| Ok(Data::none());
    match (trees, comm.body.inter) {
        (true, _) => plan.tree_barrier(ranks),
        (false, true) => plan.linear_exchange(ranks, &none, &none, true)?,
        (false, false) => plan.linear_barrier(ranks)?,
    }
    Ok(plan)
}

/// MPI_Bcast.
///
/// # Errors
/// As for [`barrier`].
pub fn bcast(
    buffer: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    root: i32,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let (mut plan, ranks, trees) = begin(comm, algorithm)?;
    let role = Role::of(comm, root)?;
    if role != Role::Beside {
        plan.keep(count.into(), datatype)?;
    }
    let data = Data::new(buffer, count.into(), datatype);
    match trees {
        true => plan.tree_bcast(ranks, root, data),
        false => plan.linear_bcast(ranks, role, data),
    }
    Ok(plan)
}

/// MPI_Gather.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Gather
pub fn gather(
    sendbuf: Buffer<'static>,
    sendcount: i32,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcount: i32,
    recvtype: &'static Datatype,
    root: i32,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let own = Own::new(sendbuf, sendcount, sendtype);
    let blocks = Blocks::new(recvbuf, Uniform(recvcount.into(), recvtype));
    to_root(own, &blocks, root, comm, algorithm)
}

/// MPI_Gatherv.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Gatherv
pub fn gatherv(
    sendbuf: Buffer<'static>,
    sendcount: i64,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcounts: Numbers<'_>,
    displs: Numbers<'_>,
    recvtype: &'static Datatype,
    root: i32,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let own = Own::new(sendbuf, sendcount, sendtype);
    let blocks = Blocks::new(recvbuf, Varying(recvcounts, displs, recvtype));
    to_root(own, &blocks, root, comm, algorithm)
}

fn to_root(
    own: Own,
    blocks: &Blocks<'_>,
    root: i32,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let (mut plan, ranks, _) = begin(comm, algorithm)?;
    let role = Role::of(comm, root)?;
    if role == Role::Root {
        blocks.keep(&mut plan)?;
    }
    let own = own.with_root(&mut plan, ranks, role)?;
    plan.linear_gather(ranks, role, own, &|rank| blocks.at(rank))?;
    Ok(plan)
}

/// MPI_Scatter.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Scatter
pub fn scatter(
    sendbuf: Buffer<'static>,
    sendcount: i32,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcount: i32,
    recvtype: &'static Datatype,
    root: i32,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let own = Own::new(recvbuf, recvcount, recvtype);
    let blocks = Blocks::new(sendbuf, Uniform(sendcount.into(), sendtype));
    from_root(own, &blocks, root, comm, algorithm)
}

/// MPI_Scatterv.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Scatterv
pub fn scatterv(
    sendbuf: Buffer<'static>,
    sendcounts: Numbers<'_>,
    displs: Numbers<'_>,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcount: i64,
    recvtype: &'static Datatype,
    root: i32,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let own = Own::new(recvbuf, recvcount, recvtype);
    let blocks = Blocks::new(sendbuf, Varying(sendcounts, displs, sendtype));
    from_root(own, &blocks, root, comm, algorithm)
}

fn from_root(
    own: Own,
    blocks: &Blocks<'_>,
    root: i32,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let (mut plan, ranks, _) = begin(comm, algorithm)?;
    let role = Role::of(comm, root)?;
    if role == Role::Root {
        blocks.keep(&mut plan)?;
    }
    let own = own.with_root(&mut plan, ranks, role)?;
    plan.linear_scatter(ranks, role, &|rank| blocks.at(rank), own)?;
    Ok(plan)
}

/// MPI_Allgather.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Allgather
pub fn allgather(
    sendbuf: Buffer<'static>,
    sendcount: i32,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcount: i32,
    recvtype: &'static Datatype,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let own = Own::new(sendbuf, sendcount, sendtype);
    let blocks = Blocks::new(recvbuf, Uniform(recvcount.into(), recvtype));
    all_gather(own, &blocks, comm, algorithm)
}

/// MPI_Allgatherv.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Allgatherv
pub fn allgatherv(
    sendbuf: Buffer<'static>,
    sendcount: i64,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcounts: Numbers<'_>,
    displs: Numbers<'_>,
    recvtype: &'static Datatype,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let own = Own::new(sendbuf, sendcount, sendtype);
    let blocks = Blocks::new(recvbuf, Varying(recvcounts, displs, recvtype));
    all_gather(own, &blocks, comm, algorithm)
}

fn all_gather(own: Own, blocks: &Blocks<'_>, comm: &'static Comm, algorithm: Algorithm) -> Planned {
    let (mut plan, ranks, trees) = begin(comm, algorithm)?;
    blocks.keep(&mut plan)?;
    let own = own.given_unless_in_place(&mut plan)?;
    let block = |rank: i32| blocks.at(rank);
    if trees {
        plan.ring(ranks, own, &block)?;
        return Ok(plan);
    }
    // In place the own block is that of the receive buffer.
    let given = |_| match (own, ranks.me) {
        (Some(own), _) => Ok(own),
        (None, Some(me)) => block(me),
        (None, None) => Err(ERR_COMM),
    };
    plan.linear_exchange(ranks, &given, &block, own.is_none())?;
    Ok(plan)
}

/// MPI_Alltoall.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Alltoall
pub fn alltoall(
    sendbuf: Buffer<'static>,
    sendcount: i32,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcount: i32,
    recvtype: &'static Datatype,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let given = Blocks::new(sendbuf, Uniform(sendcount.into(), sendtype));
    let got = Blocks::new(recvbuf, Uniform(recvcount.into(), recvtype));
    all_to_all(&given, &got, comm, algorithm)
}

/// MPI_Alltoallv.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Alltoallv
pub fn alltoallv(
    sendbuf: Buffer<'static>,
    sendcounts: Numbers<'_>,
    sdispls: Numbers<'_>,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcounts: Numbers<'_>,
    rdispls: Numbers<'_>,
    recvtype: &'static Datatype,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let given = Blocks::new(sendbuf, Varying(sendcounts, sdispls, sendtype));
    let got = Blocks::new(recvbuf, Varying(recvcounts, rdispls, recvtype));
    all_to_all(&given, &got, comm, algorithm)
}

/// MPI_Alltoallw.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Alltoallw
pub fn alltoallw(
    sendbuf: Buffer<'static>,
    sendcounts: Numbers<'_>,
    sdispls: Numbers<'_>,
    sendtypes: &[&'static Datatype],
    recvbuf: Buffer<'static>,
    recvcounts: Numbers<'_>,
    rdispls: Numbers<'_>,
    recvtypes: &[&'static Datatype],
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let given = Blocks::new(sendbuf, Wide(sendcounts, sdispls, sendtypes));
    let got = Blocks::new(recvbuf, Wide(recvcounts, rdispls, recvtypes));
    all_to_all(&given, &got, comm, algorithm)
}

fn all_to_all(
    given: &Blocks<'_>,
    got: &Blocks<'_>,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let (mut plan, ranks, trees) = begin(comm, algorithm)?;
    got.keep(&mut plan)?;
    let place = |rank: i32| got.at(rank);
    if given.buffer.is_in_place() {
        let copies = copies(&mut plan, ranks, got)?;
        let copy = |rank: i32| Ok(copies[rank as usize]);
        exchange(&mut plan, ranks, trees, &copy, &place, true)?;
    } else {
        given.keep(&mut plan)?;
        exchange(
            &mut plan,
            ranks,
            trees,
            &|rank| given.at(rank),
            &place,
            false,
        )?;
    }
    Ok(plan)
}

/// Copies of all blocks: in place they are sent from these, since they are received into where they are.
fn copies(plan: &mut Schedule, ranks: Ranks, blocks: &Blocks<'_>) -> Result<Vec<Data>, i32> {
    let mut copies = Vec::new();
    for rank in ranks.all() {
        let block = blocks.at(rank)?;
        let copy = plan.room(block)?;
        plan.copy(block, copy);
        copies.push(copy);
    }
    plan.then();
    Ok(copies)
}

fn exchange(
    plan: &mut Schedule,
    ranks: Ranks,
    trees: bool,
    given: &dyn Fn(i32) -> Result<Data, i32>,
    got: &dyn Fn(i32) -> Result<Data, i32>,
    in_place: bool,
) -> Result<(), i32> {
    match trees {
        true => plan.pairwise(ranks, given, got, in_place),
        false => plan.linear_exchange(ranks, given, got, in_place),
    }
}

/// MPI_Reduce.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Reduce
pub fn reduce(
    sendbuf: Buffer<'static>,
    recvbuf: Buffer<'static>,
    count: i64,
    datatype: &'static Datatype,
    op: &'static Op,
    root: i32,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let (mut plan, ranks, trees) = begin(comm, algorithm)?;
    let role = Role::of(comm, root)?;
    if role == Role::Beside {
        return Ok(plan);
    }
    plan.keep_op(op)?;
    let into = Own::new(recvbuf, count, datatype).given(&mut plan)?;
    let own = own_operand(sendbuf, into);
    match trees {
        true => {
            let into = (role == Role::Root).then_some(into);
            plan.tree_reduce(ranks, root, own, into, op)?;
        }
        false => plan.linear_reduce(ranks, role, own, into, op)?,
    }
    Ok(plan)
}

/// The own data of a reduction, which is in the receive buffer if it is in place.
fn own_operand(sendbuf: Buffer<'static>, into: Data) -> Data {
    match sendbuf.is_in_place() {
        true => into,
        false => Data {
            buffer: sendbuf,
            ..into
        },
    }
}

/// MPI_Allreduce.
///
/// # Errors
/// As for [`barrier`].
pub fn allreduce(
    sendbuf: Buffer<'static>,
    recvbuf: Buffer<'static>,
    count: i64,
    datatype: &'static Datatype,
    op: &'static Op,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let (mut plan, ranks, trees) = begin(comm, algorithm)?;
    plan.keep_op(op)?;
    let into = Own::new(recvbuf, count, datatype).given(&mut plan)?;
    let own = own_operand(sendbuf, into);
    all_reduce(&mut plan, ranks, trees, own, into, op)?;
    Ok(plan)
}

/// Everyone gets the result, by way of rank 0: a reduction and a broadcast, as MPI-3.1, 5.9.6, advises implementors.
/// Over an inter-communicator everyone combines the data of the other side.
fn all_reduce(
    plan: &mut Schedule,
    ranks: Ranks,
    trees: bool,
    own: Data,
    into: Data,
    op: &'static Op,
) -> Result<(), i32> {
    if ranks.me.is_none() {
        return plan.each_reduces(ranks, own, into, op);
    }
    to_first(plan, ranks, trees, own, into, op)?;
    plan.then();
    match trees {
        true => plan.tree_bcast(ranks, 0, into),
        false => plan.linear_bcast(ranks, ranks.role_with(0), into),
    }
    Ok(())
}

/// Rank 0 gets the result.
fn to_first(
    plan: &mut Schedule,
    ranks: Ranks,
    trees: bool,
    own: Data,
    into: Data,
    op: &'static Op,
) -> Result<(), i32> {
    let role = ranks.role_with(0);
    match trees {
        true => plan.tree_reduce(ranks, 0, own, (role == Role::Root).then_some(into), op),
        false => plan.linear_reduce(ranks, role, own, into, op),
    }
}

/// MPI_Reduce_scatter_block.
///
/// # Errors
/// As for [`barrier`].
pub fn reduce_scatter_block(
    sendbuf: Buffer<'static>,
    recvbuf: Buffer<'static>,
    recvcount: i64,
    datatype: &'static Datatype,
    op: &'static Op,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let counts = vec![recvcount; comm.body.size as usize];
    scattered(sendbuf, recvbuf, &counts, datatype, op, comm, algorithm)
}

/// MPI_Reduce_scatter.
///
/// # Errors
/// As for [`barrier`].
pub fn reduce_scatter(
    sendbuf: Buffer<'static>,
    recvbuf: Buffer<'static>,
    recvcounts: Numbers<'_>,
    datatype: &'static Datatype,
    op: &'static Op,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let counts: Vec<i64> = (0..comm.body.size)
        .map(|rank| recvcounts.at(rank))
        .collect();
    scattered(sendbuf, recvbuf, &counts, datatype, op, comm, algorithm)
}

/// A reduction of all blocks to rank 0, which scatters the result: MPI-3.1, 5.10, defines MPI_Reduce_scatter so. Over
/// an inter-communicator everyone reduces the data of the other side, and takes its block.
fn scattered(
    sendbuf: Buffer<'static>,
    recvbuf: Buffer<'static>,
    counts: &[i64],
    datatype: &'static Datatype,
    op: &'static Op,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let (mut plan, ranks, trees) = begin(comm, algorithm)?;
    plan.keep_op(op)?;
    plan.keep(counts.iter().copied().min().unwrap_or(0), datatype)?;
    let mine = counts[comm.body.rank as usize];
    let own_block = Data::new(recvbuf, mine, datatype);
    let all = Data::new(recvbuf, counts.iter().sum(), datatype);
    let own = own_operand(sendbuf, all);
    let sum = plan.room(all)?;
    let before = |rank: i32| counts[..rank as usize].iter().sum::<i64>();
    let block = |rank: i32| Data::at(sum.buffer, before(rank), counts[rank as usize], datatype);
    if ranks.me.is_none() {
        plan.each_reduces(ranks, own, sum, op)?;
        plan.then();
        plan.copy(block(comm.body.rank)?, own_block);
        return Ok(plan);
    }
    to_first(&mut plan, ranks, trees, own, sum, op)?;
    plan.then();
    plan.linear_scatter(ranks, ranks.role_with(0), &block, Some(own_block))?;
    Ok(plan)
}

/// A prefix needs the order of one group.
fn in_one_group(comm: &'static Comm) -> Result<(), i32> {
    match comm.body.inter {
        true => Err(ERR_COMM),
        false => Ok(()),
    }
}

/// MPI_Scan.
///
/// # Errors
/// As for [`barrier`].
pub fn scan(
    sendbuf: Buffer<'static>,
    recvbuf: Buffer<'static>,
    count: i64,
    datatype: &'static Datatype,
    op: &'static Op,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    in_one_group(comm)?;
    let (mut plan, ranks, trees) = begin(comm, algorithm)?;
    plan.keep_op(op)?;
    let into = Own::new(recvbuf, count, datatype).given(&mut plan)?;
    if !sendbuf.is_in_place() {
        plan.copy(own_operand(sendbuf, into), into);
        plan.then();
    }
    match trees {
        true => plan.tree_scan(ranks, into, op)?,
        false => plan.linear_scan(ranks, into, op)?,
    }
    Ok(plan)
}

/// MPI_Exscan. A tree gives the prefix with the own data, which goes on to the next process.
///
/// # Errors
/// As for [`barrier`].
pub fn exscan(
    sendbuf: Buffer<'static>,
    recvbuf: Buffer<'static>,
    count: i64,
    datatype: &'static Datatype,
    op: &'static Op,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    in_one_group(comm)?;
    let (mut plan, ranks, trees) = begin(comm, algorithm)?;
    plan.keep_op(op)?;
    let into = Own::new(recvbuf, count, datatype).given(&mut plan)?;
    let own = plan.room(into)?;
    plan.copy(own_operand(sendbuf, into), own);
    plan.then();
    match trees {
        true => {
            plan.tree_scan(ranks, own, op)?;
            plan.then();
            plan.shift(ranks, own, into);
        }
        false => plan.linear_exscan(ranks, own, into, op),
    }
    Ok(plan)
}

/// Ranks from which a process gets, or to which it gives, in the order of its buffer, and the places in that order in
/// which messages of one process to another go.
struct Neighbours {
    ranks: Vec<i32>,
    order: Vec<usize>,
}

impl Neighbours {
    /// Places and ranks in the order of messages; of MPI_PROC_NULL there are none.
    fn all(&self) -> impl Iterator<Item = (usize, i32)> + '_ {
        let all = self.order.iter().map(|&place| (place, self.ranks[place]));
        all.filter(|(_, rank)| *rank != PROC_NULL)
    }
}

fn neighbours(comm: &'static Comm) -> Result<[Neighbours; 2], i32> {
    let rank = comm.body.rank;
    let plain = |ranks: &[i32]| Neighbours {
        ranks: ranks.to_vec(),
        order: (0..ranks.len()).collect(),
    };
    match comm.body.topology.as_ref().ok_or(ERR_TOPOLOGY)? {
        Topology::Cart(cart) => {
            let sides = (0..cart.dims.len()).flat_map(|dim| [(dim, -1), (dim, 1)]);
            let ranks: Vec<i32> = sides
                .map(|(dim, by)| cart.neighbour(rank, dim, by))
                .collect();
            // A message that the neighbour below sends upward comes from below: both may be one process.
            let crossed = (0..ranks.len()).map(|place| place ^ 1).collect();
            Ok([
                Neighbours {
                    ranks: ranks.clone(),
                    order: crossed,
                },
                plain(&ranks),
            ])
        }
        Topology::Graph(graph) => {
            let ranks = graph.neighbours(rank).ok_or(ERR_TOPOLOGY)?;
            Ok([plain(ranks), plain(ranks)])
        }
        Topology::DistGraph(graph) => Ok([plain(&graph.sources), plain(&graph.destinations)]),
    }
}

/// Blocks to and from neighbours, by their places: a send to each destination and a receive from each source, as in the
/// code of MPI-3.1, 7.6.1.
fn neighbour_exchange(
    mut plan: Schedule,
    comm: &'static Comm,
    given: &dyn Fn(i32) -> Result<Data, i32>,
    got: &Blocks<'_>,
) -> Planned {
    let [sources, destinations] = neighbours(comm)?;
    let mut to_itself = VecDeque::new();
    for (place, rank) in destinations.all() {
        let data = given(place as i32)?;
        match rank == comm.body.rank {
            true => to_itself.push_back(data),
            false => plan.send(data, rank),
        }
    }
    for (place, rank) in sources.all() {
        let place = got.at(place as i32)?;
        match rank == comm.body.rank {
            true => to_itself
                .pop_front()
                .into_iter()
                .for_each(|data| plan.copy(data, place)),
            false => plan.receive(place, rank),
        }
    }
    Ok(plan)
}

/// MPI_Neighbor_allgather.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Neighbor_allgather
pub fn neighbor_allgather(
    sendbuf: Buffer<'static>,
    sendcount: i32,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcount: i32,
    recvtype: &'static Datatype,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let own = Own::new(sendbuf, sendcount, sendtype);
    let got = Blocks::new(recvbuf, Uniform(recvcount.into(), recvtype));
    neighbour_all_gather(own, &got, comm, algorithm)
}

/// MPI_Neighbor_allgatherv.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Neighbor_allgatherv
pub fn neighbor_allgatherv(
    sendbuf: Buffer<'static>,
    sendcount: i64,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcounts: Numbers<'_>,
    displs: Numbers<'_>,
    recvtype: &'static Datatype,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let own = Own::new(sendbuf, sendcount, sendtype);
    let got = Blocks::new(recvbuf, Varying(recvcounts, displs, recvtype));
    neighbour_all_gather(own, &got, comm, algorithm)
}

fn neighbour_all_gather(
    own: Own,
    got: &Blocks<'_>,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let (mut plan, ..) = begin(comm, algorithm)?;
    got.keep(&mut plan)?;
    let own = own.given(&mut plan)?;
    neighbour_exchange(plan, comm, &|_| Ok(own), got)
}

/// MPI_Neighbor_alltoall.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Neighbor_alltoall
pub fn neighbor_alltoall(
    sendbuf: Buffer<'static>,
    sendcount: i32,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcount: i32,
    recvtype: &'static Datatype,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let given = Blocks::new(sendbuf, Uniform(sendcount.into(), sendtype));
    let got = Blocks::new(recvbuf, Uniform(recvcount.into(), recvtype));
    neighbour_all_to_all(&given, &got, comm, algorithm)
}

/// MPI_Neighbor_alltoallv.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Neighbor_alltoallv
pub fn neighbor_alltoallv(
    sendbuf: Buffer<'static>,
    sendcounts: Numbers<'_>,
    sdispls: Numbers<'_>,
    sendtype: &'static Datatype,
    recvbuf: Buffer<'static>,
    recvcounts: Numbers<'_>,
    rdispls: Numbers<'_>,
    recvtype: &'static Datatype,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let given = Blocks::new(sendbuf, Varying(sendcounts, sdispls, sendtype));
    let got = Blocks::new(recvbuf, Varying(recvcounts, rdispls, recvtype));
    neighbour_all_to_all(&given, &got, comm, algorithm)
}

/// MPI_Neighbor_alltoallw.
///
/// # Errors
/// As for [`barrier`].
#[allow(clippy::too_many_arguments)] // those of MPI_Neighbor_alltoallw
pub fn neighbor_alltoallw(
    sendbuf: Buffer<'static>,
    sendcounts: Numbers<'_>,
    sdispls: Numbers<'_>,
    sendtypes: &[&'static Datatype],
    recvbuf: Buffer<'static>,
    recvcounts: Numbers<'_>,
    rdispls: Numbers<'_>,
    recvtypes: &[&'static Datatype],
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let given = Blocks::new(sendbuf, Wide(sendcounts, sdispls, sendtypes));
    let got = Blocks::new(recvbuf, Wide(recvcounts, rdispls, recvtypes));
    neighbour_all_to_all(&given, &got, comm, algorithm)
}

fn neighbour_all_to_all(
    given: &Blocks<'_>,
    got: &Blocks<'_>,
    comm: &'static Comm,
    algorithm: Algorithm,
) -> Planned {
    let (mut plan, ..) = begin(comm, algorithm)?;
    got.keep(&mut plan)?;
    given.keep(&mut plan)?;
    neighbour_exchange(plan, comm, &|place| given.at(place), got)
}
