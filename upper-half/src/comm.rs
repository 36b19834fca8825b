//! Communicators: what is kept of each, and the queries that are answered from it.
//!
//! # Safety
//! Strings and out parameters are the application's, as MPI prescribes them.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::attribute::Attributes;
use crate::errhandler::{Current, Handler};
use crate::group;
use crate::hints::OF_COMMUNICATORS;
use crate::object::{Body, Comm, Info};
use crate::sync::Lock;
use crate::topology::Topology;
use crate::{clock, comm_free, info, lower, message, object_table};
use contract::abi::*;
use contract::{Clock, HandleKind};
use core::ffi::{c_char, CStr};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::ffi::CString;
use std::sync::Arc;

/// Bytes of a name with its NUL that every application's buffer holds.
pub(crate) const NAME_BYTES: usize = 64;

/// Body of a communicator: all that is needed to answer queries, and to make it again.
pub struct CommBody {
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
    peers: Arc<[u32]>,
    members: Arc<[u32]>,
    pub(crate) topology: Option<Topology>,
    /// The application has freed it; the others may not have.
    pub(crate) freed: AtomicBool,
    /// Word of the barrier by which the members learn that all have freed it, or
    /// [`comm_free::NOT_STARTED`].
    pub(crate) farewell: AtomicUsize,
    /// Barriers of the farewell that this process is through.
    pub(crate) farewells: AtomicU32,
    errhandler: Current,
    pub(crate) attributes: Attributes,
    name: Lock<CString>,
    info: Lock<Vec<(CString, CString)>>,
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
        let mut word = message::leave(comm);
        if word != Comm::null_word() {
            // SAFETY: the last reference is gone and all members have freed it. A failure leaks below.
            unsafe { lower::MPI_Comm_free(&raw mut word) };
        }
        if let Some(clock) = comm.body.clock {
            clock::free(clock);
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
            group::rank_in(&members, group::own_world_rank())
        };
        CommBody {
            id,
            rank: own.unwrap_or(PROC_NULL),
            size: members.len() as i32,
            inter: remote.is_some(),
            clock,
            peers: remote.unwrap_or_else(|| members.clone()),
            members,
            topology: None,
            freed: AtomicBool::new(false),
            farewell: AtomicUsize::new(comm_free::NOT_STARTED),
            farewells: AtomicU32::new(0),
            errhandler: Current::predefined(errhandler::ERRORS_ARE_FATAL),
            attributes: Attributes::new(),
            name: Lock::new(CString::default()),
            info: Lock::new(Vec::new()),
        }
    }

    /// The body of a communicator that is made at start-up: WORLD, SELF, internal ones.
    pub(crate) fn initial(id: u64, members: Arc<[u32]>, name: &CStr) -> Result<CommBody, i32> {
        let body = CommBody::bare(id, Some(clock::make(id, &members)?), members, None);
        *body.name.lock() = name.to_owned();
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
            None => clock::make(id, &members)?,
            Some(remote) => clock::make(id, &[&members[..], &remote[..]].concat())?,
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

    /// How messages name it.
    pub(crate) fn describe(&self) -> String {
        let name = self.name.lock();
        if name.is_empty() {
            format!("a communicator of {} processes", self.size)
        } else {
            name.to_string_lossy().into_owned()
        }
    }

    pub(crate) fn take_hints(&self, given: Vec<(CString, CString)>) {
        OF_COMMUNICATORS.take(&mut self.info.lock(), given);
    }

    pub(crate) fn info(&self) -> Vec<(CString, CString)> {
        self.info.lock().clone()
    }
}

/// MPI_Comm_rank.
#[inline]
pub unsafe fn comm_rank(comm: &'static Comm, rank: *mut i32) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *rank = comm.body.rank };
    SUCCESS
}

/// MPI_Comm_size.
#[inline]
pub unsafe fn comm_size(comm: &'static Comm, size: *mut i32) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *size = comm.body.size };
    SUCCESS
}

/// MPI_Comm_remote_size.
pub unsafe fn comm_remote_size(comm: &'static Comm, size: *mut i32) -> i32 {
    let Some(remote) = comm.body.remote_members() else {
        return ERR_COMM;
    };
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *size = remote.len() as i32 };
    SUCCESS
}

/// MPI_Comm_test_inter.
pub unsafe fn comm_test_inter(comm: &'static Comm, flag: *mut i32) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *flag = i32::from(comm.body.inter) };
    SUCCESS
}

/// MPI_Comm_compare.
pub unsafe fn comm_compare(a: &'static Comm, b: &'static Comm, result: *mut i32) -> i32 {
    if a.body.size == 0 || b.body.size == 0 {
        return ERR_COMM;
    }
    let found = if a.index() == b.index() {
        IDENT
    } else if a.body.inter != b.body.inter {
        UNEQUAL
    } else {
        let local = group::compare(&a.body.members, &b.body.members);
        let remote = group::compare(&a.body.peers, &b.body.peers);
        match (local, remote) {
            (UNEQUAL, _) | (_, UNEQUAL) => UNEQUAL,
            (IDENT, IDENT) => CONGRUENT,
            _ => SIMILAR,
        }
    };
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *result = found };
    SUCCESS
}

/// MPI_Comm_set_name.
pub unsafe fn comm_set_name(comm: &'static Comm, name: *const c_char) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    // SAFETY: MPI's contract: a NUL-terminated string.
    *comm.body.name.lock() = unsafe { CStr::from_ptr(name) }.to_owned();
    SUCCESS
}

/// MPI_Comm_get_name.
pub unsafe fn comm_get_name(comm: &'static Comm, name: *mut c_char, length: *mut i32) -> i32 {
    if comm.is_null() {
        // SAFETY: MPI's contract: MPI_MAX_OBJECT_NAME bytes.
        unsafe { crate::error::write_string(b"MPI_COMM_NULL", name, NAME_BYTES, length) };
        return SUCCESS;
    }
    // SAFETY: as above.
    unsafe {
        crate::error::write_string(comm.body.name.lock().as_bytes(), name, NAME_BYTES, length);
    }
    SUCCESS
}

/// MPI_Comm_set_info. Hints are kept for MPI_Comm_get_info; the library below is not told.
pub fn comm_set_info(comm: &'static Comm, info: &'static Info) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    if info.is_null() {
        return ERR_INFO;
    }
    comm.body.take_hints(info.body.entries());
    SUCCESS
}

/// MPI_Comm_get_info.
pub unsafe fn comm_get_info(comm: &'static Comm, out: *mut &'static Info) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    // SAFETY: passed on.
    unsafe { info::give(comm.body.info(), out) }
}

/// MPI_Comm_get_parent: no application under Stasis was spawned.
pub unsafe fn comm_get_parent(parent: *mut &'static Comm) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *parent = Comm::null() };
    SUCCESS
}
