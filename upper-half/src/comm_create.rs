//! Constructors of communicators. Each is a collective operation over its parent and counts in the
//! parent's clock; the new communicator's clock is visible before the constructor is marked as left.
//! MPI_Comm_create_group and MPI_Intercomm_create are collective over the *new* communicator's
//! members only: they count in its own clock, and wait for each other by messages first, which a
//! pending checkpoint can look into, so that nobody blocks below for a rank that has parked.
//!
//! # Safety
//! Crossings pass words of live objects and pointers to locals; out parameters are the
//! application's, as MPI prescribes them.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::code::{check, give};
use crate::comm::CommBody;
use crate::environment::{internal_world, sync_comm, world_group};
use crate::errhandler::comm_set_errhandler;
use crate::id::{self, Hash};
use crate::message::{
    collective_begin, collective_begin_unmade, collective_end, duplication_request,
};
use crate::object::{Comm, Datatype, Errhandler, Group, Info, Request};
use crate::topology::Topology;
use crate::{attribute, comm_free, group, info, lower, message, sync};
use contract::abi::*;
use core::ffi::{c_char, CStr};
use core::sync::atomic::{AtomicU32, Ordering};
use std::ffi::CString;
use std::sync::Arc;

/// World ranks of the local or remote group of a lower communicator.
unsafe fn members_below(word: usize, remote: bool) -> Result<Arc<[u32]>, i32> {
    let mut group = 0;
    // SAFETY: see the module's head.
    unsafe {
        check(if remote {
            lower::MPI_Comm_remote_group(word, &raw mut group)
        } else {
            lower::MPI_Comm_group(word, &raw mut group)
        })?;
        group_below(group)
    }
}

/// World ranks of a lower group, which is freed.
pub(crate) unsafe fn group_below(mut group: usize) -> Result<Arc<[u32]>, i32> {
    let mut size = 0;
    // SAFETY: see the module's head.
    unsafe {
        check(lower::MPI_Group_size(group, &raw mut size))?;
        let ranks: Vec<i32> = (0..size).collect();
        let mut world = vec![0; ranks.len()];
        check(lower::MPI_Group_translate_ranks(
            group,
            size,
            ranks.as_ptr(),
            world_group(),
            world.as_mut_ptr(),
        ))?;
        check(lower::MPI_Group_free(&raw mut group))?;
        world
            .into_iter()
            .map(|rank| u32::try_from(rank).map_err(|_| ERR_INTERN))
            .collect()
    }
}

/// A lower group of world ranks, for one crossing.
pub(crate) struct LowerGroup(usize);

impl LowerGroup {
    pub(crate) unsafe fn of(members: &[u32]) -> Result<LowerGroup, i32> {
        let ranks: Vec<i32> = members.iter().map(|&rank| rank as i32).collect();
        let mut word = 0;
        // SAFETY: see the module's head.
        unsafe {
            check(lower::MPI_Group_incl(
                world_group(),
                ranks.len() as i32,
                ranks.as_ptr(),
                &raw mut word,
            ))?;
        }
        Ok(LowerGroup(word))
    }

    pub(crate) fn word(&self) -> usize {
        self.0
    }
}

impl Drop for LowerGroup {
    fn drop(&mut self) {
        // SAFETY: made by `of`; the predefined empty group may not be freed.
        unsafe {
            if self.0 != Group::at(contract::abi::group::GROUP_EMPTY as u32).lower() {
                lower::MPI_Group_free(&raw mut self.0);
            }
        }
    }
}

/// The two groups of an inter-communicator in an order on which both sides agree: they are disjoint,
/// so their first members differ.
pub(crate) fn sides<'a>(local: &'a [u32], remote: &'a [u32]) -> (&'a [u32], &'a [u32]) {
    if local.first() <= remote.first() {
        (local, remote)
    } else {
        (remote, local)
    }
}

fn derive(what: &str, parent: u64, members: &[u32], remote: Option<&[u32]>) -> u64 {
    let hash = Hash::new(what).add(parent);
    id::next(match remote {
        None => hash.ranks(members),
        Some(remote) => {
            let (first, second) = sides(members, remote);
            hash.ranks(first).ranks(second)
        }
    })
}

/// Makes the object of what a constructor over `parent` made below.
pub(crate) unsafe fn adopt(
    parent: &'static Comm,
    what: &str,
    word: usize,
    inter: bool,
    topology: impl FnOnce() -> Result<Option<Topology>, i32>,
) -> Result<&'static Comm, i32> {
    if word == Comm::null().lower() {
        return Ok(Comm::null());
    }
    // SAFETY: passed on.
    unsafe {
        let members = members_below(word, false)?;
        let remote = if inter {
            Some(members_below(word, true)?)
        } else {
            None
        };
        let id = derive(what, parent.body.id, &members, remote.as_deref());
        let mut body = CommBody::derived(id, members, remote, &parent.body)?;
        body.topology = topology()?;
        Comm::make(word, body)
    }
}

/// Runs a constructor that is collective over `parent`: `call` makes the lower communicator.
pub(crate) unsafe fn construct(
    parent: &'static Comm,
    what: &str,
    inter: bool,
    call: impl FnOnce(*mut usize) -> i32,
    topology: impl FnOnce(usize) -> Result<Option<Topology>, i32>,
) -> Result<&'static Comm, i32> {
    if parent.body.size == 0 {
        return Err(ERR_COMM);
    }
    // SAFETY: passed on.
    unsafe { comm_free::sweep() };
    let token = collective_begin(parent);
    let mut word = Comm::null().lower();
    // SAFETY: passed on.
    let result = check(call(&raw mut word))
        .and_then(|()| unsafe { adopt(parent, what, word, inter, || topology(word)) });
    collective_end(token);
    result
}

/// Copies the parent's attributes, by the callbacks of the application, to a duplicate. When one of
/// them fails the duplicate is freed and the error given.
unsafe fn with_attributes(
    parent: &'static Comm,
    made: &'static Comm,
) -> Result<&'static Comm, i32> {
    let handle = parent.handle();
    match attribute::copy(&parent.body.attributes, &made.body.attributes, handle) {
        SUCCESS => Ok(made),
        code => {
            // SAFETY: nobody but us has the duplicate.
            unsafe { comm_free::farewell(made) };
            Err(code)
        }
    }
}

/// MPI_Comm_dup.
pub unsafe fn comm_dup(comm: &'static Comm, new: *mut &'static Comm) -> i32 {
    // SAFETY: see the module's head.
    unsafe {
        let made = construct(
            comm,
            "dup",
            comm.body.inter,
            |word| lower::MPI_Comm_dup(comm.lower(), word),
            |_| Ok(comm.body.topology.clone()),
        );
        let made = made.and_then(|made| {
            made.body.take_hints(comm.body.info());
            with_attributes(comm, made)
        });
        give(made, new)
    }
}

/// MPI_Comm_dup_with_info.
pub unsafe fn comm_dup_with_info(
    comm: &'static Comm,
    info: &'static Info,
    new: *mut &'static Comm,
) -> i32 {
    // SAFETY: see the module's head.
    unsafe {
        let made = construct(
            comm,
            "dup",
            comm.body.inter,
            |word| {
                let info = info::crossing_info(info);
                lower::MPI_Comm_dup_with_info(comm.lower(), info.word(), word)
            },
            |_| Ok(comm.body.topology.clone()),
        );
        let made = made.and_then(|made| {
            made.body.take_hints(info.body.entries());
            with_attributes(comm, made)
        });
        give(made, new)
    }
}

/// MPI_Comm_idup. The new communicator gets its word when the request is complete: before that
/// neither the application nor a drain may use it.
pub unsafe fn comm_idup(
    comm: &'static Comm,
    new: *mut &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: passed on.
    unsafe { idup(comm, comm.body.info(), new, request) }
}

/// MPI_Comm_idup_with_info. Hints are kept for MPI_Comm_get_info; the library below is not told.
pub unsafe fn comm_idup_with_info(
    comm: &'static Comm,
    info: &'static Info,
    new: *mut &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: passed on.
    unsafe { idup(comm, info.body.entries(), new, request) }
}

unsafe fn idup(
    comm: &'static Comm,
    hints: Vec<(CString, CString)>,
    new: *mut &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    // SAFETY: see the module's head.
    unsafe {
        // The application's callbacks run before the operation counts: no cut could fall into them
        // between that and its start below.
        let body = match duplicate(comm) {
            Ok(body) => {
                body.take_hints(hints);
                body
            }
            Err(code) => return code,
        };
        let token = collective_begin(comm);
        let (made, word, below) = match start_dup(comm, body) {
            Ok(started) => started,
            Err(code) => {
                collective_end(token);
                return code;
            }
        };
        match duplication_request(token, below, (made, word)) {
            Ok(handle) => {
                *request = handle;
                give(Ok(made), new)
            }
            Err(code) => code,
        }
    }
}

/// What a duplicate will be, its attributes copied by the application's callbacks. One that fails
/// keeps the duplication from being started at all.
unsafe fn duplicate(comm: &'static Comm) -> Result<CommBody, i32> {
    let members = comm.body.members().clone();
    let remote = comm.body.remote_members().cloned();
    let id = derive("dup", comm.body.id, &members, remote.as_deref());
    let mut body = CommBody::derived(id, members, remote, &comm.body)?;
    body.topology = comm.body.topology.clone();
    check(attribute::copy(
        &comm.body.attributes,
        &body.attributes,
        comm.handle(),
    ))?;
    Ok(body)
}

/// What is duplicated below, of the same processes. While a duplicate of a communicator is under way, Open MPI
/// lets constructors over younger ones wait, and that over which [`from_group`] makes one is younger than the
/// world: members who had not started the duplicate yet would wait there for those who have.
fn dup_below(comm: &'static Comm) -> &'static Comm {
    let world = Comm::at(comm::COMM_WORLD as u32);
    match comm.index() == world.index() {
        true => sync_comm(),
        false => comm,
    }
}

/// Non-blocking duplications that this process has under way.
static DUPLICATIONS: AtomicU32 = AtomicU32::new(0);

/// A non-blocking duplication is complete.
pub(crate) fn duplicated() {
    DUPLICATIONS.fetch_sub(1, Ordering::Relaxed);
}

/// Starts a non-blocking duplication: the duplicate, its word to be, and the request's word.
unsafe fn start_dup(
    comm: &'static Comm,
    body: CommBody,
) -> Result<(&'static Comm, usize, usize), i32> {
    let made = Comm::make(Comm::null().lower(), body)?;
    let (mut word, mut request) = (Comm::null().lower(), Request::null().lower());
    // SAFETY: see the module's head. Open MPI and MPICH both write the new handle before they
    // return.
    match unsafe { lower::named::MPI_Comm_idup(dup_below(comm), &raw mut word, &raw mut request) } {
        SUCCESS => {
            DUPLICATIONS.fetch_add(1, Ordering::Relaxed);
            Ok((made, word, request))
        }
        code => {
            made.release();
            Err(code)
        }
    }
}

/// MPI_Comm_split.
pub unsafe fn comm_split(
    comm: &'static Comm,
    color: i32,
    key: i32,
    new: *mut &'static Comm,
) -> i32 {
    // SAFETY: see the module's head.
    unsafe {
        let made = construct(
            comm,
            "split",
            comm.body.inter,
            |word| lower::MPI_Comm_split(comm.lower(), color, key, word),
            |_| Ok(None),
        );
        give(made, new)
    }
}

/// Whether hints for a guided split name the type that MPI has a value for.
fn names_shared_memory(info: &'static Info) -> bool {
    let named = info.body.value(c"mpi_hw_resource_type");
    named.is_some_and(|named| named.as_c_str() == c"mpi_shared_memory")
}

/// MPI_Comm_split_type. The members stay what they are now, also when a restart places them
/// differently. Types of hardware, which libraries find each in its own way, or not at all, split
/// nothing, as MPI allows; but for the one by shared memory.
pub unsafe fn comm_split_type(
    comm: &'static Comm,
    split_type: i32,
    key: i32,
    info: &'static Info,
    new: *mut &'static Comm,
) -> i32 {
    let split_type = match split_type {
        COMM_TYPE_HW_GUIDED if names_shared_memory(info) => COMM_TYPE_SHARED,
        COMM_TYPE_HW_GUIDED | COMM_TYPE_HW_UNGUIDED => UNDEFINED,
        other => other,
    };
    // SAFETY: see the module's head.
    unsafe {
        let made = construct(
            comm,
            "split",
            comm.body.inter,
            |word| {
                let info = info::crossing_info(info);
                lower::MPI_Comm_split_type(comm.lower(), split_type, key, info.word(), word)
            },
            |_| Ok(None),
        );
        give(made, new)
    }
}

/// MPI_Comm_create.
pub unsafe fn comm_create(
    comm: &'static Comm,
    group: &'static Group,
    new: *mut &'static Comm,
) -> i32 {
    if group.is_null() {
        return ERR_GROUP;
    }
    // SAFETY: see the module's head.
    unsafe {
        let made = construct(
            comm,
            "create",
            comm.body.inter,
            |word| match LowerGroup::of(&group.body.ranks) {
                Ok(group) => lower::MPI_Comm_create(comm.lower(), group.word(), word),
                Err(code) => code,
            },
            |_| Ok(None),
        );
        give(made, new)
    }
}

/// MPI_Comm_create_group.
pub unsafe fn comm_create_group(
    comm: &'static Comm,
    group: &'static Group,
    tag: i32,
    new: *mut &'static Comm,
) -> i32 {
    if comm.body.size == 0 || comm.body.inter {
        return ERR_COMM;
    }
    if group.is_null() {
        return ERR_GROUP;
    }
    let members = group.body.ranks.clone();
    if group::rank_in(&members, group::own_world_rank()).is_none() {
        // SAFETY: MPI's contract for an out parameter.
        unsafe { *new = Comm::null() };
        return SUCCESS;
    }
    let id = id::next(
        Hash::new("create_group")
            .add(comm.body.id)
            .add(tag as u64)
            .ranks(&members),
    );
    // SAFETY: see the module's head.
    unsafe {
        let body = match CommBody::derived(id, members.clone(), None, &comm.body) {
            Ok(body) => body,
            Err(code) => return code,
        };
        let made = among(body, &members, |_, word| from_group(&members, id, word));
        give(made, new)
    }
}

/// Makes the lower communicator of `members`, who all call this, whatever the application's parent
/// was. In Open MPI the members tell each other about it in messages with the tag, as visible as any:
/// so they go over a communicator that no sweep looks into, and the application does not receive from.
pub(crate) unsafe fn from_group(members: &[u32], id: u64, word: *mut usize) -> i32 {
    let (parent, tag) = (internal_world(), below_tag(id));
    // SAFETY: see the module's head.
    unsafe {
        match LowerGroup::of(members) {
            Ok(group) => lower::MPI_Comm_create_group(parent, group.word(), tag, word),
            Err(code) => code,
        }
    }
}

/// A tag for what members of the communicator `id` agree on below while they make it.
pub(crate) fn below_tag(id: u64) -> i32 {
    (id & 0x7fff) as i32
}

/// What the members of a group call a constructor, as a number.
unsafe fn number_of(stringtag: *const c_char) -> u64 {
    // SAFETY: MPI's contract: a NUL-terminated string.
    let name = unsafe { CStr::from_ptr(stringtag) }.to_string_lossy();
    Hash::new(&name).finish()
}

/// A communicator of these members, who all call this, with no parent.
unsafe fn of_group(members: &Arc<[u32]>, what: &str, number: u64) -> Result<&'static Comm, i32> {
    if group::rank_in(members, group::own_world_rank()).is_none() {
        return Err(ERR_GROUP);
    }
    let id = id::next(Hash::new(what).add(number).ranks(members));
    let world = Comm::at(comm::COMM_WORLD as u32);
    let body = CommBody::derived(id, members.clone(), None, &world.body)?;
    // SAFETY: see the module's head.
    unsafe { among(body, members, |_, word| from_group(members, id, word)) }
}

/// Gives a new communicator what it did not get from a parent.
unsafe fn furnish(
    made: &'static Comm,
    info: &'static Info,
    handler: &'static Errhandler,
) -> Result<&'static Comm, i32> {
    made.body.take_hints(info.body.entries());
    check(comm_set_errhandler(made, handler)).inspect_err(|_| {
        // SAFETY: nobody but us has it.
        unsafe { comm_free::farewell(made) };
    })?;
    Ok(made)
}

/// MPI_Comm_create_from_group.
pub unsafe fn comm_create_from_group(
    group: &'static Group,
    stringtag: *const c_char,
    info: &'static Info,
    handler: &'static Errhandler,
    new: *mut &'static Comm,
) -> i32 {
    if group.is_null() {
        return ERR_GROUP;
    }
    let members = &group.body.ranks;
    // SAFETY: see the module's head.
    unsafe {
        let made = match members.is_empty() {
            true => Ok(Comm::null()),
            false => of_group(members, "from_group", number_of(stringtag))
                .and_then(|made| furnish(made, info, handler)),
        };
        give(made, new)
    }
}

/// MPI_Intercomm_create_from_groups. The remote group is the leader's to know, who tells the others
/// over a communicator of the local group.
pub unsafe fn intercomm_create_from_groups(
    local_group: &'static Group,
    local_leader: i32,
    remote_group: &'static Group,
    _remote_leader: i32,
    stringtag: *const c_char,
    info: &'static Info,
    handler: &'static Errhandler,
    new: *mut &'static Comm,
) -> i32 {
    if local_group.is_null() {
        return ERR_GROUP;
    }
    let members = &local_group.body.ranks;
    if usize::try_from(local_leader).map_or(true, |leader| leader >= members.len()) {
        return ERR_RANK;
    }
    // SAFETY: see the module's head.
    unsafe {
        let number = number_of(stringtag);
        let local = match of_group(members, "local_group", number) {
            Ok(local) => local,
            Err(code) => return code,
        };
        let other = match local.body.rank == local_leader {
            true if !remote_group.body.ranks.is_empty() => Ok(Other {
                members: remote_group.body.ranks.to_vec(),
                number,
            }),
            _ => Err(ERR_GROUP),
        };
        let token = collective_begin(local);
        let other = tell_group(local, local_leader, other);
        collective_end(token);
        let made = other
            .and_then(|other| connect(local, other))
            .and_then(|made| furnish(made, info, handler));
        comm_free::farewell(local);
        give(made, new)
    }
}

/// Runs a constructor that is collective over the new communicator's members only. It is told what they are
/// at, see [`meet`].
unsafe fn among(
    body: CommBody,
    everyone: &[u32],
    call: impl FnOnce(u8, *mut usize) -> i32,
) -> Result<&'static Comm, i32> {
    // Whoever is held back here must not have the object yet: members that have not come so far do
    // not have it either, and a restart would miss it there.
    let token = collective_begin_unmade(&body);
    let made = match Comm::make(Comm::null().lower(), body) {
        Ok(made) => made,
        Err(code) => {
            collective_end(token);
            return Err(code);
        }
    };
    // SAFETY: see the module's head.
    let result = unsafe {
        meet(everyone, made.body.id).and_then(|at| {
            let mut word = Comm::null().lower();
            check(call(at, &raw mut word))?;
            made.set_lower(word);
            Ok(())
        })
    };
    collective_end(token);
    match result {
        Ok(()) => Ok(made),
        Err(code) => {
            made.release();
            Err(code)
        }
    }
}

/// Of a process: threads of it may be in MPI at the same time.
const THREADS: u8 = 1;
/// Of a process: it has a non-blocking duplication under way.
const DUPLICATING: u8 = 2;

/// Returns when all of `everyone` (world ranks, the same order for all) have come here for `id`, with what any
/// of them is at.
unsafe fn meet(everyone: &[u32], id: u64) -> Result<u8, i32> {
    let own = group::own_world_rank();
    let mut at = if sync::multiple() { THREADS } else { 0 };
    if DUPLICATIONS.load(Ordering::Relaxed) > 0 {
        at |= DUPLICATING;
    }
    let Some((&first, rest)) = everyone.split_first() else {
        return Ok(at);
    };
    let tag = below_tag(id);
    let byte = Datatype::at(datatype::BYTE as u32);
    let tell = |rank: u32, at: u8| {
        let at = (&raw const at).cast();
        // SAFETY: one byte.
        check(unsafe { message::send(at, 1, byte, rank as i32, tag, sync_comm()) })
    };
    let hear = |rank: u32| {
        let (mut at, mut status) = (0u8, Status::EMPTY);
        // SAFETY: one byte.
        check(unsafe {
            message::recv(
                (&raw mut at).cast(),
                1,
                byte,
                rank as i32,
                tag,
                sync_comm(),
                &raw mut status,
            )
        })
        .map(|()| at)
    };
    if own == first {
        for &rank in rest {
            at |= hear(rank)?;
        }
        rest.iter().try_for_each(|&rank| tell(rank, at))?;
        Ok(at)
    } else {
        tell(first, at)?;
        hear(first)
    }
}

/// What a group is told of the inter-communicator that its leader has agreed on.
struct Other {
    /// World ranks of the remote group.
    members: Vec<u32>,
    /// Tells this inter-communicator from what other threads make of the same groups meanwhile.
    number: u64,
}

/// MPI_Intercomm_create. The leaders exchange their groups over the peer communicator, as the
/// standard's tag is for, and tell their groups; then all members of both know each other.
pub unsafe fn intercomm_create(
    local_comm: &'static Comm,
    local_leader: i32,
    peer_comm: &'static Comm,
    remote_leader: i32,
    tag: i32,
    new: *mut &'static Comm,
) -> i32 {
    if local_comm.body.size == 0 || local_comm.body.inter {
        return ERR_COMM;
    }
    if local_leader < 0 || local_leader >= local_comm.body.size {
        return ERR_RANK;
    }
    // SAFETY: see the module's head.
    unsafe {
        let members = local_comm.body.members();
        let mut other = Err(ERR_COMM);
        if local_comm.body.rank == local_leader {
            // Threads may use one tag, each over a peer communicator of its own.
            let number = Hash::new("peer").add(peer_comm.body.id).add(tag as u64);
            other = exchange(members, peer_comm, remote_leader, tag).map(|members| Other {
                members,
                number: number.finish(),
            });
        }
        let token = collective_begin(local_comm);
        let other = tell_group(local_comm, local_leader, other);
        collective_end(token);
        give(other.and_then(|other| connect(local_comm, other)), new)
    }
}

/// Makes the inter-communicator once both groups are known to all.
unsafe fn connect(local_comm: &'static Comm, other: Other) -> Result<&'static Comm, i32> {
    let members = local_comm.body.members().clone();
    let remote: Arc<[u32]> = Arc::from(other.members);
    let (first, second) = sides(&members, &remote);
    let id = id::next(
        Hash::new("intercomm")
            .add(other.number)
            .ranks(first)
            .ranks(second),
    );
    let (everyone, half) = ([first, second].concat(), first.len());
    let leaders = (members[0], *remote.first().ok_or(ERR_COMM)?);
    let body = CommBody::derived(id, members, Some(remote), &local_comm.body)?;
    // SAFETY: see the module's head.
    unsafe {
        among(body, &everyone, |at, word| match at {
            THREADS => join_halves(&everyone, half, id, word),
            _ => join(local_comm.lower(), leaders, id, word),
        })
    }
}

/// Makes the inter-communicator `id` below, of what `local` is on each side. Any member may lead there; the
/// first ones (world ranks: our own, and the other) do. What they send to each other Open MPI and MPICH both
/// tell apart by the communicator alone and not by the tag, so the leaders get one for this: threads that make
/// several between the same two would take each other's. No sweep looks into it, nor into that which it is made
/// over: one would take what is sent for a message of ours when the other leader is slow.
unsafe fn join(local: usize, leaders: (u32, u32), id: u64, word: *mut usize) -> i32 {
    let (own, other) = leaders;
    // Of the leaders alone a library asks for it.
    let mut between = internal_world();
    // SAFETY: see the module's head.
    unsafe {
        if group::own_world_rank() == own {
            let code = from_group(&[own.min(other), own.max(other)], id, &raw mut between);
            if code != SUCCESS {
                return code;
            }
        }
        let other_rank = i32::from(own < other);
        let tag = below_tag(id);
        let code = lower::MPI_Intercomm_create(local, 0, between, other_rank, tag, word);
        if group::own_world_rank() == own {
            lower::MPI_Comm_free(&raw mut between);
        }
        code
    }
}

/// The same where threads may make several at the same time: of `everyone`, the first `half` are one side. Of
/// the constructors that threads of a process have under way, Open MPI 4.1 lets that over the communicator with
/// the lowest context id go first. Those of an inter-communicator's local communicators need not be the same,
/// least of all after a restart, and where they stand in another order on the other side each waits for the
/// other for ever; parts of one split have the same.
///
/// While a member has started a duplicate that others may only start afterwards this is not for it: that would
/// let the younger communicators here wait.
unsafe fn join_halves(everyone: &[u32], half: usize, id: u64, word: *mut usize) -> i32 {
    let is_second = everyone[half..].contains(&group::own_world_rank());
    let leader = if is_second { 0 } else { half as i32 };
    let (mut all, mut local) = (Comm::null().lower(), Comm::null().lower());
    // SAFETY: see the module's head.
    unsafe {
        let mut code = from_group(everyone, id, &raw mut all);
        if code != SUCCESS {
            return code;
        }
        code = lower::MPI_Comm_split(all, i32::from(is_second), 0, &raw mut local);
        if code == SUCCESS {
            code = lower::MPI_Intercomm_create(local, 0, all, leader, below_tag(id), word);
            lower::MPI_Comm_free(&raw mut local);
        }
        lower::MPI_Comm_free(&raw mut all);
        code
    }
}

/// Between leaders: gives our group for theirs.
unsafe fn exchange(
    members: &[u32],
    peer_comm: &'static Comm,
    remote_leader: i32,
    tag: i32,
) -> Result<Vec<u32>, i32> {
    let uint = Datatype::at(datatype::UINT32_T as u32);
    let swap = |out: &[u32], into: &mut [u32]| {
        let mut status = Status::EMPTY;
        // SAFETY: both slices are passed with their lengths.
        check(unsafe {
            message::sendrecv(
                out.as_ptr().cast(),
                out.len() as i32,
                uint,
                remote_leader,
                tag,
                into.as_mut_ptr().cast(),
                into.len() as i32,
                uint,
                remote_leader,
                tag,
                peer_comm,
                &raw mut status,
            )
        })
    };
    let mut length = [0];
    swap(&[members.len() as u32], &mut length)?;
    let mut remote = vec![0; length[0] as usize];
    swap(members, &mut remote)?;
    Ok(remote)
}

/// From the leader to its group: what it has agreed on, or the error that kept it from that.
unsafe fn tell_group(
    comm: &'static Comm,
    leader: i32,
    other: Result<Other, i32>,
) -> Result<Other, i32> {
    let uint = Datatype::at(datatype::UINT32_T as u32);
    let leads = comm.body.rank == leader;
    let mut head = match &other {
        Ok(other) => {
            let number = [other.number as u32, (other.number >> 32) as u32];
            [0, other.members.len() as u32, number[0], number[1]]
        }
        Err(code) => [*code as u32, 0, 0, 0],
    };
    // SAFETY: both arrays are passed with their lengths; all members do the same.
    unsafe {
        let buffer = head.as_mut_ptr().cast();
        let length = head.len() as i32;
        check(lower::MPI_Bcast(
            buffer,
            length,
            uint.lower(),
            leader,
            comm.lower(),
        ))?;
        let [code, length, low, high] = head;
        if code != 0 {
            return Err(code as i32);
        }
        let mut members = match other {
            Ok(other) if leads => other.members,
            _ => vec![0; length as usize],
        };
        check(lower::MPI_Bcast(
            members.as_mut_ptr().cast(),
            length as i32,
            uint.lower(),
            leader,
            comm.lower(),
        ))?;
        let number = u64::from(high) << 32 | u64::from(low);
        Ok(Other { members, number })
    }
}

/// MPI_Intercomm_merge.
pub unsafe fn intercomm_merge(intercomm: &'static Comm, high: i32, new: *mut &'static Comm) -> i32 {
    if !intercomm.body.inter {
        return ERR_COMM;
    }
    // SAFETY: see the module's head.
    unsafe {
        let made = construct(
            intercomm,
            "merge",
            false,
            |word| lower::MPI_Intercomm_merge(intercomm.lower(), high, word),
            |_| Ok(None),
        );
        give(made, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_derive_the_same_id() {
        let (a, b) = ([4, 1], [2, 3]);
        assert_eq!(sides(&a, &b), sides(&b, &a));
    }
}
