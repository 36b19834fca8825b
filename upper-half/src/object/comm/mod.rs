//! The body of a communicator: its members, its clock, and what MPI caches on it.

pub(crate) mod channel;
pub(crate) mod closing;
pub(crate) mod collective_clock;
pub(crate) mod comm_id;
pub(crate) mod internal;
pub(crate) mod told_names;
pub(crate) mod topology;

use crate::object::attributes::Attributes;
use crate::object::comm::channel::Channel;
use crate::object::comm::closing::farewell;
use crate::object::comm::topology::Topology;
use crate::object::errhandler::{Current, Handler};
use crate::object::group::{own_world_rank, rank_in};
use crate::object::info_hints::OF_COMMUNICATORS;
use crate::object::lower_handle::named;
use crate::object::table::{room_up_to, Body, FrontRoom, Object};
use crate::object::unexpected;
use crate::object_table;
use crate::runtime::lock::Lock;
use contract::abi::*;
use contract::{Clock, HandleKind};
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::ffi::CString;
use std::sync::{Arc, OnceLock};

/// A communicator.
pub type Comm = Object<CommBody>;

/// Body of a communicator: all that is needed to answer queries, and to make it again.
#[repr(C)]
pub struct CommBody {
    /// The C++ bindings of Open MPI 4 read what kind of communicator it is at byte 0xe8.
    front: FrontRoom<{ room_up_to(0xec) }>,
    /// Id on which all members agree.
    pub id: u64,
    /// Rank of this process (in the local group of an inter-communicator).
    pub rank: i32,
    /// Processes in the (local) group; 0 for the null communicator and before MPI_Init.
    pub size: i32,
    /// Whether it is an inter-communicator.
    pub inter: bool,
    clock: Option<&'static Clock>,
    /// World ranks of whom point-to-point messages address: the remote group, or the only one.
    pub(crate) peers: Arc<[u32]>,
    pub(crate) members: Arc<[u32]>,
    pub(crate) topology: Option<Topology>,
    /// The application has freed it; the others may not have.
    pub(crate) freed: AtomicBool,
    /// Lower handle of the barrier by which the members learn that all have freed it, or
    /// [`NOT_STARTED`].
    pub(crate) farewell: AtomicUsize,
    /// Barriers of the farewell that this process is through.
    pub(crate) farewells: AtomicU32,
    errhandler: Current,
    pub(crate) attributes: Attributes,
    pub(crate) name: Lock<CString>,
    info: Lock<Vec<(CString, CString)>>,
    channel: OnceLock<Box<Channel>>,
    /// It is the channel of another one, which may be gone already.
    pub(crate) is_channel: bool,
}

impl Body for CommBody {
    const KIND: HandleKind = HandleKind::Comm;
    const CAPACITY: u32 = contract::CLOCKS as u32;
    const NULL: usize = comm::COMM_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = comm::ALL;
    object_table!(CommBody);

    fn predefined(_index: u32) -> Self {
        CommBody::bare(0, None, Arc::from([]), None)
    }

    fn retire(comm: &'static Comm) {
        if let Some(channel) = comm.body.channel().and_then(|channel| channel.comm) {
            farewell(channel);
        }
        let mut below = unexpected::leave(comm);
        if !below.is_null() {
            // The last reference is gone and all members have freed it. A failure leaks below.
            named::MPI_Comm_free(&mut below);
        }
        if comm.body.is_named() {
            told_names::forget(comm.body.id);
        }
        if let Some(clock) = comm.body.clock {
            collective_clock::free(clock);
        }
    }
}

impl CommBody {
    fn bare(
        id: u64,
        clock: Option<&'static Clock>,
        members: Arc<[u32]>,
        remote: Option<Arc<[u32]>>,
    ) -> CommBody {
        let own = if members.is_empty() {
            None
        } else {
            rank_in(&members, own_world_rank())
        };
        CommBody {
            front: FrontRoom::new(),
            id,
            rank: own.unwrap_or(PROC_NULL),
            size: members.len() as i32,
            inter: remote.is_some(),
            clock,
            peers: remote.unwrap_or_else(|| members.clone()),
            members,
            topology: None,
            freed: AtomicBool::new(false),
            farewell: AtomicUsize::new(NOT_STARTED),
            farewells: AtomicU32::new(0),
            errhandler: Current::predefined(errhandler::ERRORS_ARE_FATAL),
            attributes: Attributes::new(),
            name: Lock::new(CString::default()),
            info: Lock::new(Vec::new()),
            channel: OnceLock::new(),
            is_channel: false,
        }
    }

    /// The body of a communicator that is made at start-up: WORLD, SELF, internal ones.
    pub(crate) fn initial(id: u64, members: Arc<[u32]>, name: &CStr) -> Result<CommBody, i32> {
        let body = CommBody::bare(
            id,
            Some(collective_clock::make(id, &members)?),
            members,
            None,
        );
        *body.name.lock() = name.to_owned();
        told_names::set(id, name);
        Ok(body)
    }

    /// The body of a communicator that the application makes from `parent`.
    pub(crate) fn derived(
        id: u64,
        members: Arc<[u32]>,
        remote: Option<Arc<[u32]>>,
        parent: &CommBody,
    ) -> Result<CommBody, i32> {
        let clock = match &remote {
            None => collective_clock::make(id, &members)?,
            Some(remote) => collective_clock::make(id, &[&members[..], &remote[..]].concat())?,
        };
        let mut body = CommBody::bare(id, Some(clock), members, remote);
        body.errhandler = Current::same_as(&parent.errhandler);
        Ok(body)
    }

    /// The collective clock; `None` for the null communicator and before MPI_Init.
    #[inline(always)]
    pub fn clock(&self) -> Option<&'static Clock> {
        self.clock
    }

    /// World ranks of the (local) group, by rank.
    pub fn members(&self) -> &Arc<[u32]> {
        &self.members
    }

    /// World ranks of the remote group of an inter-communicator.
    pub fn remote_members(&self) -> Option<&Arc<[u32]>> {
        self.inter.then_some(&self.peers)
    }

    /// World ranks of the group whose ranks messages and rooted collectives address.
    #[inline(always)]
    pub fn peers(&self) -> &[u32] {
        &self.peers
    }

    /// World rank of rank `rank` as messages address it; `None` for PROC_NULL, wildcards, bad ranks.
    #[inline(always)]
    pub fn peer(&self, rank: i32) -> Option<u32> {
        self.peers.get(rank as usize).copied()
    }

    /// Processes of the remote group, or of the only one: the length of per-process arrays.
    #[inline(always)]
    pub fn peer_count(&self) -> i32 {
        self.peers.len() as i32
    }

    /// Number of incoming or outgoing topology neighbours.
    pub fn neighbours(&self, incoming: bool) -> i32 {
        self.topology
            .as_ref()
            .map_or(0, |topology| topology.neighbours(self.rank, incoming))
    }

    /// What is to be done on an error.
    pub fn handler(&self) -> Handler {
        self.errhandler.handler()
    }

    pub(crate) fn errhandler(&self) -> &Current {
        &self.errhandler
    }

    fn is_named(&self) -> bool {
        !self.name.lock().is_empty()
    }

    /// How messages name it.
    pub(crate) fn describe(&self) -> String {
        let name = self.name.lock();
        if name.is_empty() {
            format!("a communicator of {} processes", self.size)
        } else {
            name.to_string_lossy().into_owned()
        }
    }

    /// What it has for operations that are reduced to messages.
    pub(crate) fn channel(&self) -> Option<&Channel> {
        self.channel.get().map(Box::as_ref)
    }

    /// Takes a channel, if it has none.
    pub(crate) fn take_channel(&self, channel: Box<Channel>) {
        let _ = self.channel.set(channel);
    }

    pub(crate) fn take_hints(&self, given: Vec<(CString, CString)>) {
        OF_COMMUNICATORS.take(&mut self.info.lock(), given);
    }

    pub(crate) fn info(&self) -> Vec<(CString, CString)> {
        self.info.lock().clone()
    }
}

/// Stands for "no rank of this job": MPI_PROC_NULL, a wildcard, a bad rank. Not counted.
pub(crate) const NOBODY: u32 = u32::MAX;

/// World rank of `rank` as messages over `comm` address it (remote group of an
/// inter-communicator).
#[inline(always)]
pub(crate) fn peer_of(comm: &'static Comm, rank: i32) -> u32 {
    comm.body.peer(rank).unwrap_or(NOBODY)
}

/// Every communicator that can carry messages: WORLD, SELF and all dynamic ones, also those that
/// the application has freed and others not yet, but none that is still being made.
pub fn live_comms() -> impl Iterator<Item = &'static Comm> {
    [
        contract::abi::comm::COMM_WORLD as u32,
        contract::abi::comm::COMM_SELF as u32,
    ]
    .into_iter()
    .map(Comm::at)
    .chain(CommBody::table().dynamic())
    .filter(|comm| comm.is_below())
}

/// The lower handle of a farewell's barrier that this process has not started.
pub(crate) const NOT_STARTED: usize = usize::MAX;
