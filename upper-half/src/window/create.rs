//! Windows are made, freed, flushed at the cut, and made again by a restart.
//!
//! Making one is two collective operations: a duplicate of the application's communicator, and in
//! its clock the rest. The object appears inside the second, so that at a cut all members have it or
//! none. Hints are not passed on: one of them (`no_locks`) would forbid what every window does here.
//!
//! # Safety
//! As for `window`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use super::shared::Segments;
use super::units::Units;
use super::{accumulate, below, WinBody};
use crate::code::{check, give};
use crate::comm_create::construct;
use crate::environment::{alloc_mem, free_mem};
use crate::hints::OF_WINDOWS;
use crate::lower::{self, named, Fresh};
use crate::message::{collective_begin, collective_end};
use crate::object::{Body, Comm, Info, Win};
use crate::{attribute, comm_free};
use contract::abi::*;
use core::ffi::c_void;
use core::sync::atomic::Ordering;

/// To whom a window's memory belongs.
pub(super) enum Memory {
    /// The application, which keeps it.
    Application,
    /// The window: from MPI_Alloc_mem.
    Allocated,
    /// All members: from MPI_Win_allocate_shared.
    Shared(Segments),
}

/// MPI_Win_create.
pub unsafe fn win_create(
    base: *mut c_void,
    size: isize,
    disp_unit: i32,
    info: &'static Info,
    comm: &'static Comm,
    win: *mut &'static Win,
) -> i32 {
    let (place, memory) = ((base as usize, size), |_| Ok(Memory::Application));
    // SAFETY: passed on.
    unsafe {
        let made = create(WIN_FLAVOR_CREATE, place, disp_unit, info, comm, memory);
        give(made, win)
    }
}

/// MPI_Win_allocate.
pub unsafe fn win_allocate(
    size: isize,
    disp_unit: i32,
    info: &'static Info,
    comm: &'static Comm,
    baseptr: *mut c_void,
    win: *mut &'static Win,
) -> i32 {
    let mut base = 0;
    // SAFETY: passed on; `baseptr` is a `void **`.
    unsafe {
        let code = alloc_mem(size, info, (&raw mut base).cast());
        if code != SUCCESS {
            return code;
        }
        let (place, memory) = ((base, size), |_| Ok(Memory::Allocated));
        let made = create(WIN_FLAVOR_ALLOCATE, place, disp_unit, info, comm, memory);
        match made {
            Ok(_) => baseptr.cast::<usize>().write(base),
            Err(_) => _ = free_mem(base as *const c_void),
        }
        give(made, win)
    }
}

/// MPI_Win_allocate_shared.
pub unsafe fn win_allocate_shared(
    size: isize,
    disp_unit: i32,
    info: &'static Info,
    comm: &'static Comm,
    baseptr: *mut c_void,
    win: *mut &'static Win,
) -> i32 {
    let apart = info.body.value(c"alloc_shared_noncontig");
    let apart = apart.is_some_and(|value| value.as_c_str() == c"true");
    // SAFETY: passed on; `baseptr` is a `void **`.
    unsafe {
        let memory = |comm| Segments::make(comm, size, disp_unit, apart).map(Memory::Shared);
        let made = create(WIN_FLAVOR_SHARED, (0, size), disp_unit, info, comm, memory);
        if let Ok(made) = &made {
            baseptr.cast::<usize>().write(made.body.base);
        }
        give(made, win)
    }
}

/// MPI_Win_create_dynamic. Displacements are addresses.
pub unsafe fn win_create_dynamic(
    info: &'static Info,
    comm: &'static Comm,
    win: *mut &'static Win,
) -> i32 {
    let memory = |_| Ok(Memory::Application);
    // SAFETY: passed on.
    unsafe {
        let made = create(WIN_FLAVOR_DYNAMIC, (0, 0), 1, info, comm, memory);
        give(made, win)
    }
}

/// Makes a window. `memory` runs inside the collective operation; where it makes what all members
/// share, its own part of that takes the place of `base`.
unsafe fn create(
    flavor: i32,
    (base, bytes): (usize, isize),
    unit: i32,
    info: &'static Info,
    comm: &'static Comm,
    memory: impl FnOnce(&'static Comm) -> Result<Memory, i32>,
) -> Result<&'static Win, i32> {
    if comm.body.size == 0 || comm.body.inter {
        return Err(ERR_COMM);
    }
    if bytes < 0 {
        return Err(ERR_SIZE);
    }
    if unit <= 0 {
        return Err(ERR_DISP);
    }
    let hints = OF_WINDOWS.initial(info.body.entries());
    // SAFETY: see the module's head.
    unsafe {
        let duplicate = |word| named::MPI_Comm_dup(comm, word);
        let own = construct(comm, "window", false, duplicate, |_| Ok(None))?;
        let token = collective_begin(own);
        let made = Units::gather(own, unit).and_then(|units| {
            let memory = memory(own)?;
            let base = match &memory {
                Memory::Shared(segments) => segments.of(own.body.rank).start,
                Memory::Application | Memory::Allocated => base,
            };
            let body = WinBody::new(own, flavor, memory, (base, bytes), (unit, units), hints);
            let made = Win::make(Win::null_word(), body)?;
            make_below(made, [token.fresh(), token.fresh()]).inspect_err(|_| forget(made))?;
            Ok(made)
        });
        collective_end(token);
        if made.is_err() {
            comm_free::farewell(own);
        }
        made
    }
}

/// Gives up a window that the library has refused: a checkpoint must not find it.
///
/// # Safety
/// Nobody has its handle.
unsafe fn forget(win: &'static Win) {
    if let Memory::Shared(segments) = &win.body.memory {
        // SAFETY: the caller's promise.
        unsafe { segments.unmap() };
    }
    win.release();
}

/// Unit of displacements in windows below, where operations of any element of a datatype must be had; see
/// [`Units`].
const BYTES: i32 = 1;

/// Makes the windows below, and the epoch on them that never ends.
///
/// # Safety
/// Crosses; all members do the same.
unsafe fn make_below(
    win: &'static Win,
    [mut data, mut locks]: [Fresh<'_, WinBody>; 2],
) -> Result<(), i32> {
    let body = &win.body;
    if body.is_alone() {
        return Ok(());
    }
    let (comm, no_hints) = (body.comm, Info::null());
    // SAFETY: memory that lives as long as the window.
    unsafe {
        check(match body.flavor {
            WIN_FLAVOR_DYNAMIC => named::MPI_Win_create_dynamic(no_hints, comm, data.place()),
            _ => {
                let base = body.base as *mut c_void;
                named::MPI_Win_create(base, body.bytes, BYTES, no_hints, comm, data.place())
            }
        })?;
        check(named::MPI_Win_lock_all(0, &data))?;
        let (words, bytes, unit) = body.locks.place();
        check(named::MPI_Win_create(
            words,
            bytes,
            unit,
            no_hints,
            comm,
            locks.place(),
        ))?;
        check(named::MPI_Win_lock_all(0, &locks))?;
        for &(base, bytes) in body.attached.lock().iter() {
            check(named::MPI_Win_attach(&data, base as *mut c_void, bytes))?;
        }
    }
    win.take(data);
    body.locks_below.take(locks);
    body.guards.forget();
    // SAFETY: passed on.
    unsafe {
        let here = accumulate::is_to_be_done_here();
        body.accumulates_here.store(here, Ordering::Relaxed);
        match here {
            true => body.guards.make(body.comm),
            false => Ok(()),
        }
    }
}

/// MPI_Win_free.
pub unsafe fn win_free(win: *mut &'static Win) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *win };
    if given.is_null() {
        return ERR_WIN;
    }
    let code = attribute::delete(&given.body.attributes, given.handle());
    if code != SUCCESS {
        return code;
    }
    let comm = given.body.comm;
    // SAFETY: see the module's head; the application gives the window up on all ranks.
    unsafe {
        let token = collective_begin(comm);
        let result = free_below(given);
        collective_end(token);
        if let Err(code) = result {
            return code;
        }
        match &given.body.memory {
            Memory::Application => {}
            Memory::Allocated => _ = free_mem(given.body.base as *const c_void),
            Memory::Shared(segments) => segments.unmap(),
        }
        given.release();
        comm_free::farewell(comm);
        *win = Win::null();
    }
    SUCCESS
}

unsafe fn free_below(win: &'static Win) -> Result<(), i32> {
    if win.body.is_alone() {
        return Ok(());
    }
    let locks = &win.body.locks_below;
    // SAFETY: live windows; their epochs are ours.
    unsafe {
        check(named::MPI_Win_flush_all(win))?;
        check(named::MPI_Barrier(win.body.comm))?;
        check(named::MPI_Win_unlock_all(win))?;
        check(named::MPI_Win_unlock_all(locks))?;
        check(lower::MPI_Win_free(win.lower_ptr()))?;
        check(lower::MPI_Win_free(locks.place()))?;
        win.body.guards.free()
    }
}

/// MPI_Win_attach.
pub unsafe fn win_attach(win: &'static Win, base: *mut c_void, size: isize) -> i32 {
    if win.body.flavor != WIN_FLAVOR_DYNAMIC {
        return ERR_RMA_FLAVOR;
    }
    let code = match win.body.is_alone() {
        true => SUCCESS,
        // SAFETY: the application's memory.
        false => unsafe { named::MPI_Win_attach(win, base, size) },
    };
    if code == SUCCESS {
        win.body.attached.lock().push((base as usize, size));
    }
    code
}

/// MPI_Win_detach.
pub unsafe fn win_detach(win: &'static Win, base: *const c_void) -> i32 {
    if win.body.flavor != WIN_FLAVOR_DYNAMIC {
        return ERR_RMA_FLAVOR;
    }
    let mut attached = win.body.attached.lock();
    let region = attached.iter().position(|(at, _)| *at == base as usize);
    let code = match (win.body.is_alone(), region) {
        (true, Some(_)) => SUCCESS,
        (true, None) => ERR_BASE,
        // SAFETY: the application's memory.
        (false, _) => unsafe { named::MPI_Win_detach(win, base) },
    };
    if let (SUCCESS, Some(region)) = (code, region) {
        attached.swap_remove(region);
    }
    code
}

/// MPI_Win_shared_query.
pub unsafe fn win_shared_query(
    win: &'static Win,
    rank: i32,
    size: *mut isize,
    disp_unit: *mut i32,
    baseptr: *mut c_void,
) -> i32 {
    let Memory::Shared(segments) = &win.body.memory else {
        return ERR_RMA_FLAVOR;
    };
    let segment = match rank {
        PROC_NULL => segments.first_used(),
        rank if (0..win.body.comm.body.size).contains(&rank) => segments.of(rank),
        _ => return ERR_RANK,
    };
    // SAFETY: MPI's contract for out parameters; `baseptr` is a `void **`.
    unsafe {
        *size = segment.bytes;
        *disp_unit = segment.unit;
        baseptr.cast::<usize>().write(segment.start);
    }
    SUCCESS
}

/// Completes, here and at their targets, all operations of this rank: part of the drain.
///
/// # Safety
/// Crosses; all ranks are in the drain, or in calls that help others along.
pub(crate) unsafe fn flush() -> Result<(), i32> {
    for win in WinBody::table().dynamic() {
        // SAFETY: a live window in an epoch.
        unsafe { below::flush_all(win)? };
    }
    Ok(())
}

/// Makes every window below anew, in the order of their communicators' ids, as those themselves are.
///
/// # Safety
/// Crosses; every rank does the same, after its communicators.
pub(crate) unsafe fn rebuild() -> Result<(), (i32, String)> {
    let mut all: Vec<_> = WinBody::table().dynamic().collect();
    all.sort_unstable_by_key(|win| win.body.comm.body.id);
    for win in all {
        // SAFETY: passed on; nothing parks before the program goes on.
        unsafe { make_below(win, [Fresh::null(), Fresh::null()]) }.map_err(|code| {
            let (bytes, size) = (win.body.bytes, win.body.comm.body.size);
            (
                code,
                format!("a window of {bytes} bytes here, {size} processes"),
            )
        })?;
    }
    Ok(())
}
