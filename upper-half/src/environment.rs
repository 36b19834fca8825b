//! Start and end of MPI, and what the process is asked about itself.
//!
//! # Safety
//! Out parameters are the application's, as MPI prescribes them. Bodies of predefined
//! communicators are replaced while MPI is not initialised yet, when nobody may use them.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::code::check;
use crate::comm::CommBody;
use crate::lower::{self, service};
use crate::object::{
    Body, Comm, Datatype, DatatypeBody, ErrhandlerBody, FileBody, GroupBody, Info, InfoBody,
    MessageBody, Object, OpBody, RequestBody, WinBody,
};
use crate::{
    attribute, comm_free, datatype, error, file, id, message, session, stand_in, start, system,
    threads, wrapper,
};
use contract::abi::*;
use contract::{gate, MpiState};
use core::ffi::{c_void, CStr};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::alloc::Layout;
use std::sync::Arc;

/// How far the application has come by MPI_Init and MPI_Finalize, as opposed to sessions: what lies
/// below may be initialised before the one and after the other.
static WORLD_MODEL: AtomicU32 = AtomicU32::new(MpiState::NotInitialised as u32);

fn world_model_is(state: MpiState) -> bool {
    WORLD_MODEL.load(Ordering::Acquire) == state as u32
}

fn set_world_model(state: MpiState) {
    WORLD_MODEL.store(state as u32, Ordering::Release);
}

/// The process that initialised what lies below: not a child of it.
static OWNER: AtomicI32 = AtomicI32::new(0);

static PROVIDED: AtomicI32 = AtomicI32::new(THREAD_SINGLE);
static MAIN_THREAD: AtomicU32 = AtomicU32::new(0);

static INTERNAL_WORLD: AtomicUsize = AtomicUsize::new(0);
static INTERNAL_SELF: AtomicUsize = AtomicUsize::new(0);
static WORLD_GROUP: AtomicUsize = AtomicUsize::new(0);
static SYNC: AtomicPtr<Comm> = AtomicPtr::new(core::ptr::null_mut());

/// Word of the duplicate of MPI_COMM_WORLD that the drain uses, and constructors for what the library
/// below tells other ranks in messages. It is never swept.
pub(crate) fn internal_world() -> usize {
    INTERNAL_WORLD.load(Ordering::Relaxed)
}

/// Word of the duplicate of MPI_COMM_SELF that the drain uses.
pub(crate) fn internal_self() -> usize {
    INTERNAL_SELF.load(Ordering::Relaxed)
}

/// Word of the group of all processes.
pub(crate) fn world_group() -> usize {
    WORLD_GROUP.load(Ordering::Relaxed)
}

/// A duplicate of MPI_COMM_WORLD whose messages are drained like the application's: constructors
/// that must wait for each other by messages use it.
pub(crate) fn sync_comm() -> &'static Comm {
    // SAFETY: set in MPI_Init to an object that lives for ever.
    unsafe { &*SYNC.load(Ordering::Acquire) }
}

/// Asks the lower half for its words of a kind's predefined objects. Those that its library lacks
/// get the null object's: using one is then an error there.
fn learn<B: Body>() {
    let word = |value: usize| {
        // SAFETY: a service without further conditions.
        unsafe { service::predefined(B::KIND as u32, value) }
    };
    let null = word(B::NULL);
    for &(_, value) in B::PREDEFINED {
        let known = word(value);
        let object = Object::<B>::at(value as u32);
        object.set_lower(if known == usize::MAX { null } else { known });
    }
}

/// Learns the lower words of all predefined objects, in MPI_Init and at every restart.
///
/// # Safety
/// Crosses; MPI must be initialised below.
pub(crate) unsafe fn learn_predefined() {
    learn::<CommBody>();
    learn::<GroupBody>();
    learn::<DatatypeBody>();
    learn::<OpBody>();
    learn::<ErrhandlerBody>();
    learn::<InfoBody>();
    learn::<RequestBody>();
    learn::<MessageBody>();
    learn::<WinBody>();
    learn::<FileBody>();
    // SAFETY: the datatypes have their words.
    unsafe { stand_in::fill_in() };
    let null = Datatype::null().lower();
    for &(_, value) in DatatypeBody::PREDEFINED {
        let known = Datatype::at(value as u32);
        if known.lower() != null {
            // SAFETY: the datatype has its word.
            unsafe { datatype::learn_size(known) };
        }
    }
}

/// Makes the communicators that this library uses itself, and gives the word of [`sync_comm`].
///
/// # Safety
/// Crosses; collective over the world.
pub(crate) unsafe fn make_internal() -> Result<usize, i32> {
    let world = Comm::at(comm::COMM_WORLD as u32).lower();
    let own = Comm::at(comm::COMM_SELF as u32).lower();
    let mut sync = 0;
    // SAFETY: pointers to a local and to words that nobody else uses now.
    unsafe {
        check(lower::MPI_Comm_dup(world, INTERNAL_WORLD.as_ptr()))?;
        check(lower::MPI_Comm_dup(world, &raw mut sync))?;
        check(lower::MPI_Comm_dup(own, INTERNAL_SELF.as_ptr()))?;
        // Of the duplicate: MPICH 4.0 makes no communicator of a group over one that was not asked
        // for its own before (it crashes).
        check(lower::MPI_Comm_group(
            internal_world(),
            WORLD_GROUP.as_ptr(),
        ))?;
    }
    Ok(sync)
}

/// Settles all that depends on the world, after the lower half has initialised MPI.
unsafe fn settle(tag_ub: i32) -> Result<(), i32> {
    let rank = gate().lower.rank.load(Ordering::Acquire);
    let size = gate().lower.size.load(Ordering::Acquire);
    let everyone: Arc<[u32]> = (0..size).collect();
    let initial = |value: usize, id: u64, members: Arc<[u32]>, name: &CStr| {
        let body = CommBody::initial(id, members, name)?;
        // SAFETY: MPI is not initialised yet as far as the application knows.
        unsafe { CommBody::table().replace(value as u32, body) };
        Ok::<(), i32>(())
    };
    // SAFETY: MPI is initialised below, and every rank is here.
    unsafe {
        learn_predefined();
        initial(
            comm::COMM_WORLD,
            id::WORLD,
            everyone.clone(),
            c"MPI_COMM_WORLD",
        )?;
        initial(
            comm::COMM_SELF,
            id::of_self(rank),
            Arc::from([rank]),
            c"MPI_COMM_SELF",
        )?;
        let word = make_internal()?;
        let body = CommBody::initial(id::INTERNAL_WORLD, everyone, c"a communicator of Stasis")?;
        let sync = Comm::make(word, body)?;
        SYNC.store(core::ptr::from_ref(sync).cast_mut(), Ordering::Release);
    }
    attribute::init(tag_ub, size as i32);
    message::init(size as usize)
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

/// What a session needs below; gives the thread level that there is.
pub(crate) fn start_for_session(required: i32) -> Result<i32, i32> {
    if gate().mpi_is(MpiState::Finalised) {
        error::unsupported(
            "MPI_Session_init after MPI_Finalize",
            "finalise MPI when the last session has begun",
        );
        return Err(ERR_UNSUPPORTED_OPERATION);
    }
    bring_up(required)
}

/// Initialises what lies below, unless it is; gives the thread level that there is.
fn bring_up(required: i32) -> Result<i32, i32> {
    start::require_lower_half();
    if gate().mpi_is(MpiState::Initialised) {
        return Ok(PROVIDED.load(Ordering::Relaxed));
    }
    if gate().mpi_is(MpiState::Finalised) {
        return Err(ERR_OTHER);
    }
    let (mut provided, mut tag_ub) = (THREAD_SINGLE, attribute::TAG_UB_LIMIT);
    // SAFETY: pointers to locals.
    unsafe {
        check(service::init(required, &raw mut provided, &raw mut tag_ub))?;
        threads::level_is(provided);
        settle(tag_ub)?;
    }
    PROVIDED.store(provided, Ordering::Relaxed);
    OWNER.store(system::process_id(), Ordering::Relaxed);
    MAIN_THREAD.store(wrapper::thread_id(), Ordering::Relaxed);
    gate().set_mpi(MpiState::Initialised);
    Ok(provided)
}

/// What a failed initialisation means: there is no communicator yet to raise it on.
fn cannot_start(code: i32, function: &str) -> i32 {
    if !gate().mpi_is(MpiState::NotInitialised) {
        return code;
    }
    let text = error::text_of(code).unwrap_or_default();
    error::fatal(&format!("{function} failed: {text}"), 1)
}

/// MPI_Init.
pub unsafe fn init(_argc: *mut c_void, _argv: *mut c_void) -> i32 {
    match initialise(THREAD_SINGLE) {
        Ok(_) => SUCCESS,
        Err(code) => cannot_start(code, "MPI_Init"),
    }
}

/// MPI_Init_thread.
pub unsafe fn init_thread(
    _argc: *mut c_void,
    _argv: *mut c_void,
    required: i32,
    provided: *mut i32,
) -> i32 {
    match initialise(required) {
        Ok(level) => {
            // SAFETY: MPI's contract for an out parameter.
            unsafe { *provided = level };
            SUCCESS
        }
        Err(code) => cannot_start(code, "MPI_Init_thread"),
    }
}

/// MPI_Finalize. Where a session lives on, what lies below does too, until the process ends.
pub unsafe fn finalize() -> i32 {
    if !world_model_is(MpiState::Initialised) {
        return ERR_OTHER;
    }
    let own = Comm::at(comm::COMM_SELF as u32);
    let code = attribute::delete(&own.body.attributes, own.handle());
    if code != SUCCESS {
        return code;
    }
    set_world_model(MpiState::Finalised);
    if session::any() {
        return SUCCESS;
    }
    // SAFETY: the application makes no MPI call any more.
    unsafe { take_down() }
}

/// To be called when the process ends: what was brought up for sessions, which are all finalised, is
/// finalised now.
pub fn at_exit() {
    if !start::has_lower_half() || !gate().mpi_is(MpiState::Initialised) {
        return;
    }
    let done = !world_model_is(MpiState::Initialised) && !session::any();
    if done && OWNER.load(Ordering::Relaxed) == system::process_id() {
        let _guard = wrapper::Wrapper::enter_any();
        // SAFETY: no code of the application's runs after this. There is nobody to tell of an error.
        unsafe { take_down() };
    }
}

/// Finalises what lies below: like any collective operation, that is not started past a checkpoint's
/// targets.
unsafe fn take_down() -> i32 {
    // SAFETY: crossings; the application makes no MPI call any more.
    unsafe {
        let token = message::finalize_begin();
        comm_free::last_sweeps();
        stand_in::free();
        let code = service::finalize();
        gate().set_mpi(MpiState::Finalised);
        file::forget_kept();
        message::collective_end(token);
        code
    }
}

/// MPI_Initialized.
pub unsafe fn initialized(flag: *mut i32) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *flag = i32::from(!world_model_is(MpiState::NotInitialised)) };
    SUCCESS
}

/// MPI_Finalized.
pub unsafe fn finalized(flag: *mut i32) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *flag = i32::from(world_model_is(MpiState::Finalised)) };
    SUCCESS
}

/// MPI_Abort.
pub fn abort(comm: &'static Comm, code: i32) -> i32 {
    if gate().mpi_is(MpiState::Initialised) && comm.body.size != 0 {
        // SAFETY: a live communicator's word.
        unsafe { lower::MPI_Abort(comm.lower(), code) };
    }
    error::fatal("MPI_Abort was called", if code == 0 { 1 } else { code })
}

/// MPI_Query_thread.
pub unsafe fn query_thread(provided: *mut i32) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *provided = PROVIDED.load(Ordering::Relaxed) };
    SUCCESS
}

/// MPI_Is_thread_main.
pub unsafe fn is_thread_main(flag: *mut i32) -> i32 {
    let main = MAIN_THREAD.load(Ordering::Relaxed);
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *flag = i32::from(main == wrapper::thread_id()) };
    SUCCESS
}

/// Bytes before memory of MPI_Alloc_mem, which hold its size; also its alignment.
const HEAD: usize = 64;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(HEAD)?, HEAD).ok()
}

/// MPI_Alloc_mem: memory of the upper half, so that it is saved.
pub unsafe fn alloc_mem(size: isize, _info: &'static Info, baseptr: *mut c_void) -> i32 {
    let Ok(bytes) = usize::try_from(size) else {
        return ERR_ARG;
    };
    let Some(layout) = layout(bytes) else {
        return ERR_NO_MEM;
    };
    // SAFETY: the layout is not empty; the head is inside; `baseptr` is a `void **`.
    unsafe {
        let start = std::alloc::alloc(layout);
        if start.is_null() {
            return ERR_NO_MEM;
        }
        start.cast::<usize>().write(bytes);
        baseptr.cast::<*mut u8>().write(start.add(HEAD));
    }
    SUCCESS
}

/// MPI_Free_mem.
pub unsafe fn free_mem(base: *const c_void) -> i32 {
    if base.is_null() {
        return SUCCESS;
    }
    // SAFETY: MPI's contract: memory of MPI_Alloc_mem.
    unsafe {
        let start = base.cast_mut().cast::<u8>().sub(HEAD);
        let Some(layout) = layout(start.cast::<usize>().read()) else {
            return ERR_BASE;
        };
        std::alloc::dealloc(start, layout);
    }
    SUCCESS
}
