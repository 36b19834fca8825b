//! Sessions: MPI initialised without MPI_Init. A session is an object of the upper half alone. Below
//! there is one world as ever, brought up by whatever comes first, a session or MPI_Init; the process
//! sets that every library knows, `mpi://WORLD` and `mpi://SELF`, are served from it. So sessions work
//! over libraries that have none, and a restart need not make any. The library below is finalised when
//! the process ends, since another session may always follow.
//!
//! # Safety
//! Strings and out parameters are the application's, as MPI prescribes them.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::code::give;
use crate::errhandler::session_set_errhandler;
use crate::errhandler::{Current, Handler};
use crate::object::{Body, Errhandler, Group, Info, Session};
use crate::{environment, group, info, object_table};
use contract::abi::*;
use contract::{gate, HandleKind};
use core::ffi::{c_char, CStr};
use core::sync::atomic::Ordering;
use std::ffi::CString;
use std::sync::Arc;

/// The process sets, in the order in which they are numbered.
const SETS: [&CStr; 2] = [c"mpi://WORLD", c"mpi://SELF"];

/// The key of the thread level, in what a session is given and in what it tells.
const THREAD_LEVEL: &CStr = c"thread_level";

/// The thread levels by their names in info objects.
const LEVELS: [(&CStr, i32); 4] = [
    (c"MPI_THREAD_SINGLE", THREAD_SINGLE),
    (c"MPI_THREAD_FUNNELED", THREAD_FUNNELED),
    (c"MPI_THREAD_SERIALIZED", THREAD_SERIALIZED),
    (c"MPI_THREAD_MULTIPLE", THREAD_MULTIPLE),
];

/// Body of a session.
pub struct SessionBody {
    errhandler: Current,
    /// What MPI_Session_get_info tells.
    info: Vec<(CString, CString)>,
}

impl Body for SessionBody {
    const KIND: HandleKind = HandleKind::Session;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = session::SESSION_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = session::ALL;
    object_table!(SessionBody);

    fn predefined(_index: u32) -> Self {
        SessionBody {
            errhandler: Current::predefined(errhandler::ERRORS_ARE_FATAL),
            info: Vec::new(),
        }
    }
}

impl SessionBody {
    /// What is to be done on an error.
    pub fn handler(&self) -> Handler {
        self.errhandler.handler()
    }

    pub(crate) fn errhandler(&self) -> &Current {
        &self.errhandler
    }
}

/// Whether there is a session.
pub(crate) fn any() -> bool {
    SessionBody::table().dynamic().next().is_some()
}

/// MPI_Session_init. Where it is the first to want MPI, all ranks must.
pub unsafe fn session_init(
    info: &'static Info,
    handler: &'static Errhandler,
    out: *mut &'static Session,
) -> i32 {
    let asked = info.body.value(THREAD_LEVEL);
    let level = |name: &CString| LEVELS.iter().find(|level| level.0 == name.as_c_str());
    let required = asked
        .as_ref()
        .and_then(level)
        .map_or(THREAD_SINGLE, |level| level.1);
    let made = environment::start_for_session(required).and_then(|provided| {
        let name = LEVELS.iter().find(|level| level.1 == provided);
        let mut entries = info.body.entries();
        entries.retain(|(key, _)| key.as_c_str() != THREAD_LEVEL);
        if let Some((name, _)) = name {
            entries.push((THREAD_LEVEL.to_owned(), (*name).to_owned()));
        }
        let body = SessionBody {
            errhandler: Current::predefined(errhandler::ERRORS_ARE_FATAL),
            info: entries,
        };
        Session::make(0, body)
    });
    let made = made.and_then(|made| match session_set_errhandler(made, handler) {
        SUCCESS => Ok(made),
        code => {
            made.release();
            Err(code)
        }
    });
    // SAFETY: MPI's contract for an out parameter.
    unsafe { give(made, out) }
}

/// MPI_Session_finalize.
pub unsafe fn session_finalize(session: *mut &'static Session) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *session };
    if given.is_null() {
        return ERR_SESSION;
    }
    given.release();
    // SAFETY: as above.
    unsafe { *session = Session::null() };
    SUCCESS
}

/// MPI_Session_get_num_psets.
pub unsafe fn session_get_num_psets(
    session: &'static Session,
    _info: &'static Info,
    n: *mut i32,
) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *n = SETS.len() as i32 };
    SUCCESS
}

/// MPI_Session_get_nth_pset. With room for nothing it only tells how much there should be.
pub unsafe fn session_get_nth_pset(
    session: &'static Session,
    _info: &'static Info,
    n: i32,
    length: *mut i32,
    name: *mut c_char,
) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    let Some(set) = usize::try_from(n).ok().and_then(|n| SETS.get(n)) else {
        return ERR_ARG;
    };
    let bytes = set.to_bytes_with_nul();
    // SAFETY: MPI's contract: a place for a length, and room for as many bytes as it says.
    unsafe {
        let room = usize::try_from(*length).unwrap_or(0);
        if let Some(last) = room.min(bytes.len()).checked_sub(1) {
            core::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), name, last);
            *name.add(last) = 0;
        }
        *length = bytes.len() as i32;
    }
    SUCCESS
}

/// The world ranks of a process set.
unsafe fn members(name: *const c_char) -> Result<Arc<[u32]>, i32> {
    // SAFETY: MPI's contract: a NUL-terminated string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let set = SETS
        .iter()
        .position(|set| set.to_bytes().eq_ignore_ascii_case(name));
    match set {
        Some(0) => Ok((0..gate().lower.size.load(Ordering::Acquire)).collect()),
        Some(_) => Ok(Arc::from([group::own_world_rank()])),
        None => Err(ERR_ARG),
    }
}

/// MPI_Session_get_pset_info.
pub unsafe fn session_get_pset_info(
    session: &'static Session,
    name: *const c_char,
    out: *mut &'static Info,
) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    // SAFETY: passed on; MPI's contract for an out parameter.
    unsafe {
        let made = members(name).and_then(|members| {
            let size = CString::new(members.len().to_string()).map_err(|_| ERR_INTERN)?;
            info::make(vec![(c"mpi_size".to_owned(), size)])
        });
        give(made, out)
    }
}

/// MPI_Session_get_info.
pub unsafe fn session_get_info(session: &'static Session, out: *mut &'static Info) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { give(info::make(session.body.info.clone()), out) }
}

/// MPI_Group_from_session_pset.
pub unsafe fn group_from_session_pset(
    session: &'static Session,
    name: *const c_char,
    out: *mut &'static Group,
) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    // SAFETY: passed on; MPI's contract for an out parameter.
    unsafe { give(members(name).and_then(group::make), out) }
}
