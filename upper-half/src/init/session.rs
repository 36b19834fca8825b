//! Sessions: MPI initialised without MPI_Init. A session is an object of the upper half alone. Below there is one
//! world, as without sessions; the first session or MPI_Init initialises it. The process sets that every library knows,
//! `mpi://WORLD` and `mpi://SELF`, are served from it. So sessions work over libraries that have none, and a restart
//! need not make any. The library below is finalised when the process ends, since another session may always follow.
//!
//! # Safety
//! The name of a process set is written into the room that the application says it has.
#![allow(unsafe_code)]

use crate::argument::{InOut, Out};
use crate::error::errhandler::session_set_errhandler;
use crate::init::init_finalize;
use crate::object::errhandler::Current;
use crate::object::group::{make_group, own_world_rank};
use crate::object::info::make_info;
use crate::object::session::SessionBody;
use crate::object::{Errhandler, Group, Info, Session};
use contract::abi::*;
use contract::gate;
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

/// MPI_Session_init. Where it is the first to want MPI, all ranks must.
pub fn session_init(
    info: &'static Info,
    handler: &'static Errhandler,
    out: &mut &'static Session,
) -> i32 {
    let asked = info.body.value(THREAD_LEVEL);
    let level = |name: &CString| LEVELS.iter().find(|level| level.0 == name.as_c_str());
    let required = asked
        .as_ref()
        .and_then(level)
        .map_or(THREAD_SINGLE, |level| level.1);
    let made = init_finalize::start_for_session(required).and_then(|provided| {
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
    Out::from(out).give(made)
}

/// MPI_Session_finalize.
pub fn session_finalize(session: &mut &'static Session) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    session.release();
    *session = Session::null();
    SUCCESS
}

/// MPI_Session_get_num_psets.
pub fn session_get_num_psets(
    session: &'static Session,
    _info: &'static Info,
    mut n: Out<'_, i32>,
) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    n.set(SETS.len() as i32);
    SUCCESS
}

/// MPI_Session_get_nth_pset. With room for nothing it only tells how much there should be.
///
/// # Safety
/// `name` has room for as many bytes as `length` says.
pub unsafe fn session_get_nth_pset(
    session: &'static Session,
    _info: &'static Info,
    n: i32,
    mut length: InOut<'_, i32>,
    name: *mut c_char,
) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    let Some(set) = usize::try_from(n).ok().and_then(|n| SETS.get(n)) else {
        return ERR_ARG;
    };
    let bytes = set.to_bytes_with_nul();
    let room = usize::try_from(length.get()).unwrap_or(0);
    if let Some(last) = room.min(bytes.len()).checked_sub(1) {
        // SAFETY: `last + 1` bytes are at most the room that the caller promises.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), name, last);
            name.add(last).write(0);
        }
    }
    length.set(bytes.len() as i32);
    SUCCESS
}

/// The world ranks of a process set.
fn members(name: &CStr) -> Result<Arc<[u32]>, i32> {
    let name = name.to_bytes();
    let set = SETS
        .iter()
        .position(|set| set.to_bytes().eq_ignore_ascii_case(name));
    match set {
        Some(0) => Ok((0..gate().lower.size.load(Ordering::Acquire)).collect()),
        Some(_) => Ok(Arc::from([own_world_rank()])),
        None => Err(ERR_ARG),
    }
}

/// MPI_Session_get_pset_info.
pub fn session_get_pset_info(
    session: &'static Session,
    name: &CStr,
    out: &mut &'static Info,
) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    let made = members(name).and_then(|members| {
        let size = CString::new(members.len().to_string()).map_err(|_| ERR_INTERN)?;
        make_info(vec![(c"mpi_size".to_owned(), size)])
    });
    Out::from(out).give(made)
}

/// MPI_Session_get_info.
pub fn session_get_info(session: &'static Session, out: &mut &'static Info) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    Out::from(out).give(make_info(session.body.info.clone()))
}

/// MPI_Group_from_session_pset.
pub fn group_from_session_pset(
    session: &'static Session,
    name: &CStr,
    out: &mut &'static Group,
) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    Out::from(out).give(members(name).and_then(make_group))
}
