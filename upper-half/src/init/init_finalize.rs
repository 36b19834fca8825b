//! MPI_Init, MPI_Finalize, MPI_Abort, and queries about the state of MPI.
//!
//! # Safety
//! Bodies of predefined communicators are replaced while MPI is not initialised yet, when no code may use them. No
//! thread parks in MPI_Init.
#![allow(unsafe_code)]

use crate::argument::Out;
use crate::attribute::predefined::TAG_UB_LIMIT;
use crate::attribute::{callbacks, predefined};
use crate::breakpoint;
use crate::comm::free;
use crate::crossing::call_guard::CallGuard;
use crate::crossing::mpi_result::check;
use crate::crossing::report::{fatal, has_lower_half, require_lower_half, unsupported};
use crate::crossing::stubs::service;
use crate::crossing::{call_guard, thread_level};
use crate::datatype::substitute;
use crate::error::class;
use crate::gpu;
use crate::init::predefined::learn_predefined;
use crate::io::retained_files;
use crate::object::comm::comm_id::{INTERNAL_WORLD, WORLD};
use crate::object::comm::internal::{make_internal, SYNC};
use crate::object::comm::{comm_id, CommBody};
use crate::object::lower_handle::{named, Unparked};
use crate::object::session::any_session;
use crate::object::table::Body;
use crate::object::Comm;
use crate::perturb;
use crate::profile;
use crate::quiesce;
use crate::quiesce::collective_gate::collective_end;
use crate::quiesce::progress;
use crate::quiesce::retractable::first_call_of_finalize;
use crate::record::{log, mode};
use crate::reduced::channel;
use crate::runtime::syscall;
use crate::stages::{reload, state};
use contract::abi::*;
use contract::recorder::Event;
use contract::{gate, MpiState};
use core::ffi::{c_void, CStr};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::Arc;

/// How far the application has come by MPI_Init and MPI_Finalize. Sessions do not count: because of them, the library
/// below may be initialised before MPI_Init and after MPI_Finalize.
static WORLD_MODEL: AtomicU32 = AtomicU32::new(MpiState::NotInitialised as u32);

fn world_model_is(state: MpiState) -> bool {
    WORLD_MODEL.load(Ordering::Acquire) == state as u32
}

fn set_world_model(state: MpiState) {
    WORLD_MODEL.store(state as u32, Ordering::Release);
}

/// The process that initialised the library below. A child of it must not finalise that library.
static OWNER: AtomicI32 = AtomicI32::new(0);

static PROVIDED: AtomicI32 = AtomicI32::new(THREAD_SINGLE);
static MAIN_THREAD: AtomicU32 = AtomicU32::new(0);

/// Sets all that depends on the world, after the lower half has initialised MPI.
fn adopt_world(tag_ub: i32) -> Result<(), i32> {
    let rank = gate().lower.rank.load(Ordering::Acquire);
    let size = gate().lower.size.load(Ordering::Acquire);
    let everyone: Arc<[u32]> = (0..size).collect();
    let initial = |value: usize, id: u64, members: Arc<[u32]>, name: &CStr| {
        let body = CommBody::initial(id, members, name)?;
        // SAFETY: MPI is not initialised yet as far as the application knows.
        unsafe { CommBody::table().replace(value as u32, body) };
        Ok::<(), i32>(())
    };
    learn_predefined();
    initial(comm::COMM_WORLD, WORLD, everyone.clone(), c"MPI_COMM_WORLD")?;
    initial(
        comm::COMM_SELF,
        comm_id::of_self(rank),
        Arc::from([rank]),
        c"MPI_COMM_SELF",
    )?;
    // SAFETY: see the module's head.
    let unparked = unsafe { Unparked::new() };
    let _ = channel::turn_on();
    let below = make_internal(&unparked)?;
    // After these: MPI_Comm_idup duplicates a channel, and constructors over older communicators do not wait for that.
    channel::of_predefined(&unparked)?;
    let body = CommBody::initial(INTERNAL_WORLD, everyone, c"a communicator of Stasis")?;
    let sync = Comm::make_of(below, body)?;
    SYNC.store(core::ptr::from_ref(sync).cast_mut(), Ordering::Release);
    predefined::init(tag_ub, size as i32);
    quiesce::init(size as usize)
}

/// MPI_Init, once.
fn initialise(required: i32) -> Result<i32, i32> {
    if !world_model_is(MpiState::NotInitialised) {
        return Err(ERR_OTHER);
    }
    let provided = bring_up(required)?;
    set_world_model(MpiState::Initialised);
    Ok(provided)
}

/// Initialises the library below for a session, and gives the thread level that there is.
pub(crate) fn start_for_session(required: i32) -> Result<i32, i32> {
    if gate().mpi_is(MpiState::Finalised) {
        unsupported(
            "MPI_Session_init after MPI_Finalize",
            "finalise MPI when the last session has begun",
        );
        return Err(ERR_UNSUPPORTED_OPERATION);
    }
    bring_up(required)
}

/// Initialises the library below, unless it is, and gives the thread level that there is.
fn bring_up(required: i32) -> Result<i32, i32> {
    require_lower_half();
    if gate().mpi_is(MpiState::Initialised) {
        return Ok(PROVIDED.load(Ordering::Relaxed));
    }
    if gate().mpi_is(MpiState::Finalised) {
        return Err(ERR_OTHER);
    }
    let (mut provided, mut tag_ub) = (THREAD_SINGLE, TAG_UB_LIMIT);
    // SAFETY: places of two locals.
    check(unsafe { service::init(required, &raw mut provided, &raw mut tag_ub) })?;
    log::begin();
    perturb::begin();
    breakpoint::begin();
    profile::begin();
    thread_level::level_is(provided);
    adopt_world(tag_ub)?;
    PROVIDED.store(provided, Ordering::Relaxed);
    OWNER.store(syscall::process_id(), Ordering::Relaxed);
    MAIN_THREAD.store(call_guard::thread_id(), Ordering::Relaxed);
    gate().set_mpi(MpiState::Initialised);
    call_guard::record(Event::Mpi, [MpiState::Initialised as u64, 0]);
    reload::in_init();
    gpu::start();
    Ok(provided)
}

/// Ends the process after a failed initialisation, since there is no communicator yet to raise the error on.
fn cannot_start(code: i32, function: &str) -> i32 {
    if !gate().mpi_is(MpiState::NotInitialised) {
        return code;
    }
    let text = class::text_of(code).unwrap_or_default();
    fatal(&format!("{function} failed: {text}"), 1)
}

/// MPI_Init.
pub fn init(_argc: *mut c_void, _argv: *mut c_void) -> i32 {
    match initialise(THREAD_SINGLE) {
        Ok(_) => SUCCESS,
        Err(code) => cannot_start(code, "MPI_Init"),
    }
}

/// MPI_Init_thread.
pub fn init_thread(
    _argc: *mut c_void,
    _argv: *mut c_void,
    required: i32,
    mut provided: Out<'_, i32>,
) -> i32 {
    match initialise(required) {
        Ok(level) => {
            provided.set(level);
            SUCCESS
        }
        Err(code) => cannot_start(code, "MPI_Init_thread"),
    }
}

/// MPI_Finalize. While a session lives on, the library below stays initialised, until the process ends.
pub fn finalize() -> i32 {
    if !world_model_is(MpiState::Initialised) {
        return ERR_OTHER;
    }
    if state::is_broken() {
        return ERR_TRY_RELOAD;
    }
    let own = Comm::at(comm::COMM_SELF as u32);
    let code = callbacks::delete(&own.body.attributes, own.handle());
    if code != SUCCESS {
        return code;
    }
    set_world_model(MpiState::Finalised);
    breakpoint::end();
    if any_session() {
        return SUCCESS;
    }
    take_down()
}

/// To be called when the process ends: finalises the library below if it was initialised for sessions, and all of them
/// are finalised.
pub fn at_exit() {
    if !has_lower_half() || !gate().mpi_is(MpiState::Initialised) {
        return;
    }
    let done = !world_model_is(MpiState::Initialised) && !any_session();
    if done && OWNER.load(Ordering::Relaxed) == syscall::process_id() {
        let _guard = CallGuard::enter_any(0);
        // There is nobody to tell of an error.
        let _ = take_down();
    }
}

/// Finalises the library below. The application makes no MPI call any more. Like any collective operation, this is not
/// started past a checkpoint's targets. The ranks wait for each other in a barrier, where a checkpoint finds those that
/// a late one keeps waiting.
fn take_down() -> i32 {
    let world = Comm::at(comm::COMM_WORLD as u32);
    state::finalizes();
    // If the barrier fails, so does what follows, which says so.
    let token = first_call_of_finalize(&mut |code| *code = named::MPI_Barrier(world));
    if mode::recording() {
        // Receives that nobody has asked for since they are complete, such as those that were freed.
        progress::requests();
    }
    free::last_sweeps();
    substitute::free();
    profile::settle();
    let code = service::finalize();
    gate().set_mpi(MpiState::Finalised);
    call_guard::record(Event::Mpi, [MpiState::Finalised as u64, 0]);
    retained_files::remove_retained();
    collective_end(token);
    code
}

/// MPI_Initialized.
pub fn initialized(mut flag: Out<'_, i32>) -> i32 {
    flag.set(i32::from(!world_model_is(MpiState::NotInitialised)));
    SUCCESS
}

/// MPI_Finalized.
pub fn finalized(mut flag: Out<'_, i32>) -> i32 {
    flag.set(i32::from(world_model_is(MpiState::Finalised)));
    SUCCESS
}

/// MPI_Abort.
pub fn abort(comm: &'static Comm, code: i32) -> i32 {
    if gate().mpi_is(MpiState::Initialised) && comm.body.size != 0 {
        named::MPI_Abort(comm, code);
    }
    fatal("MPI_Abort was called", if code == 0 { 1 } else { code })
}

/// MPI_Query_thread.
pub fn query_thread(mut provided: Out<'_, i32>) -> i32 {
    provided.set(PROVIDED.load(Ordering::Relaxed));
    SUCCESS
}

/// MPI_Is_thread_main.
pub fn is_thread_main(mut flag: Out<'_, i32>) -> i32 {
    let main = MAIN_THREAD.load(Ordering::Relaxed);
    flag.set(i32::from(main == call_guard::thread_id()));
    SUCCESS
}
