//! Making and freeing windows, flushing them at the cut, and making them again at a restart.
//!
//! Making a window is two collective operations: a duplicate of the application's communicator, and in its clock the
//! rest. The object appears inside the second, so that at a cut all members have it or none. The first is where members
//! wait for a late one, as they do in the barrier of MPI_Win_free. Hints are not passed on:
//! one of them (`no_locks`) would forbid what every window does here.
//!
//! # Safety
//! Crossings get the window's memory, which the application or the window keeps until the window is freed.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see the head

use crate::argument::{Buffer, Out};
use crate::attribute::callbacks;
use crate::comm::construct::construct;
use crate::crossing::mpi_result::check;
use crate::crossing::stubs;
use crate::object::comm::closing::farewell;
use crate::object::info_hints::OF_WINDOWS;
use crate::object::lower_handle::{named, Fresh, Unparked};
use crate::object::table::Body;
use crate::object::win::parts::OwnPart;
use crate::object::win::segments::Segments;
use crate::object::win::{Memory, Units, WinBody};
use crate::object::{Comm, Info, Win};
use crate::quiesce::collective_gate::{collective_begin, collective_end};
use crate::quiesce::retractable::first_call;
use crate::rma::{accumulate, lower_window, node_parts};
use contract::abi::*;
use core::ffi::c_void;
use core::sync::atomic::Ordering;

/// MPI_Win_create.
pub fn win_create(
    base: Buffer<'static>,
    size: isize,
    disp_unit: i32,
    info: &'static Info,
    comm: &'static Comm,
    win: &mut &'static Win,
) -> i32 {
    let (place, memory) = ((base.address(), size), |_| Ok(Memory::Application));
    let made = create(
        WIN_FLAVOR_CREATE,
        place,
        disp_unit,
        info,
        comm,
        OwnPart::new(0),
        memory,
    );
    Out::from(win).give(made)
}

/// MPI_Win_allocate.
pub fn win_allocate(
    size: isize,
    disp_unit: i32,
    info: &'static Info,
    comm: &'static Comm,
    mut baseptr: Out<'_, usize>,
    win: &mut &'static Win,
) -> i32 {
    let Ok(bytes) = usize::try_from(size) else {
        return ERR_ARG;
    };
    let part = OwnPart::new(bytes);
    let base = part.as_ref().map_or(0, OwnPart::memory);
    let (place, memory) = ((base, size), |_| Ok(Memory::Allocated));
    let made = create(
        WIN_FLAVOR_ALLOCATE,
        place,
        disp_unit,
        info,
        comm,
        part,
        memory,
    );
    if made.is_ok() {
        baseptr.set(base);
    }
    Out::from(win).give(made)
}

/// MPI_Win_allocate_shared.
pub fn win_allocate_shared(
    size: isize,
    disp_unit: i32,
    info: &'static Info,
    comm: &'static Comm,
    mut baseptr: Out<'_, usize>,
    win: &mut &'static Win,
) -> i32 {
    let apart = info.body.value(c"alloc_shared_noncontig");
    let apart = apart.is_some_and(|value| value.as_c_str() == c"true");
    let memory = |comm| Segments::make(comm, size, disp_unit, apart).map(Memory::Shared);
    let (place, part) = ((0, size), OwnPart::new(0));
    let made = create(
        WIN_FLAVOR_SHARED,
        place,
        disp_unit,
        info,
        comm,
        part,
        memory,
    );
    if let Ok(made) = &made {
        baseptr.set(made.body.base);
    }
    Out::from(win).give(made)
}

/// MPI_Win_create_dynamic. Displacements are addresses.
pub fn win_create_dynamic(info: &'static Info, comm: &'static Comm, win: &mut &'static Win) -> i32 {
    let memory = |_| Ok(Memory::Application);
    let (place, part) = ((0, 0), OwnPart::new(0));
    let made = create(WIN_FLAVOR_DYNAMIC, place, 1, info, comm, part, memory);
    Out::from(win).give(made)
}

/// Makes a window. `memory` runs inside the collective operation; where it makes what all members
/// share, its own part of that takes the place of `base`.
fn create(
    flavor: i32,
    (base, bytes): (usize, isize),
    unit: i32,
    info: &'static Info,
    comm: &'static Comm,
    part: Option<OwnPart>,
    memory: impl FnOnce(&'static Comm) -> Result<Memory, i32>,
) -> Result<&'static Win, i32> {
    let part = part.ok_or(ERR_NO_MEM)?;
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
    let own = construct(
        comm,
        "window",
        false,
        |made| named::MPI_Comm_dup(comm, made),
        |_| Ok(None),
    )?;
    let token = collective_begin(own);
    let made = Units::gather(own, unit).and_then(|units| {
        let memory = memory(own)?;
        let base = match &memory {
            Memory::Shared(segments) => segments.of(own.body.rank).start,
            Memory::Application | Memory::Allocated => base,
        };
        let (memory, place) = ((memory, Some(part)), (base, bytes));
        let body = WinBody::new(own, flavor, memory, place, (unit, units), hints);
        let made = Win::make(Win::null_lower(), body)?;
        // A window that the library has refused is given up: a checkpoint must not find it.
        make_below(made, token.fresh(), false).inspect_err(|_| made.release())?;
        Ok(made)
    });
    collective_end(token);
    if made.is_err() {
        farewell(own);
    }
    made
}

/// Unit of displacements in windows below, where operations of any element of a datatype must be had; see
/// [`Units`].
const BYTES: i32 = 1;

/// Maps the parts of all members here, or makes the windows below for what cannot be reached so, and the epoch on them
/// that never ends. All members call this.
fn make_below(win: &'static Win, mut data: Fresh<'_, WinBody>, restarted: bool) -> Result<(), i32> {
    let body = &win.body;
    node_parts::map(body, restarted)?;
    let here = body.is_direct() || accumulate::is_to_be_done_here();
    body.accumulates_here.store(here, Ordering::Relaxed);
    if body.is_direct() {
        return Ok(());
    }
    let mut locks = data.another();
    let (comm, no_hints) = (body.comm, Info::null());
    let over = |(start, bytes, unit), made: &mut Fresh<'_, WinBody>| {
        // SAFETY: memory that lives as long as the window.
        unsafe { named::MPI_Win_create(start, bytes, unit, no_hints, comm, made.place()) }
    };
    check(match body.flavor {
        WIN_FLAVOR_DYNAMIC => named::MPI_Win_create_dynamic(no_hints, comm, &mut data),
        _ => over((body.base as *mut c_void, body.bytes, BYTES), &mut data),
    })?;
    check(named::MPI_Win_lock_all(0, &data))?;
    if let (None, Some(part)) = (body.parts().of(0), &body.part) {
        check(over(part.head().locks.place(), &mut locks))?;
        check(named::MPI_Win_lock_all(0, &locks))?;
        body.locks_below.take(locks);
    }
    for &(base, bytes) in body.attached.lock().iter() {
        // SAFETY: the application keeps what it has attached.
        check(unsafe { named::MPI_Win_attach(&data, base as *mut c_void, bytes) })?;
    }
    win.take(data);
    Ok(())
}

/// MPI_Win_free.
///
/// # Safety
/// Nobody uses the window's memory any more.
pub unsafe fn win_free(win: &mut &'static Win) -> i32 {
    let given = *win;
    if given.is_null() {
        return ERR_WIN;
    }
    let code = callbacks::delete(&given.body.attributes, given.handle());
    if code != SUCCESS {
        return code;
    }
    let comm = given.body.comm;
    let flushed = lower_window::flush_all(given);
    let (token, met) = first_call(comm, &mut |code| *code = named::MPI_Barrier(comm));
    // SAFETY: the application gives the window up on all ranks.
    let result = flushed
        .and(check(met))
        .and_then(|()| unsafe { free_below(given) });
    collective_end(token);
    if let Err(code) = result {
        return code;
    }
    given.release();
    farewell(comm);
    *win = Win::null();
    SUCCESS
}

/// Frees the windows below. All members call this, after they have flushed them and waited for each other.
///
/// # Safety
/// Nobody uses the window any more.
unsafe fn free_below(win: &'static Win) -> Result<(), i32> {
    let body = &win.body;
    if !body.is_direct() {
        check(named::MPI_Win_unlock_all(win))?;
        // SAFETY: the caller's promise: no other thread uses the handle.
        check(unsafe { stubs::MPI_Win_free(win.lower_ptr()) })?;
        if body.parts().of(0).is_none() {
            let locks = &body.locks_below;
            check(named::MPI_Win_unlock_all(locks))?;
            // SAFETY: as above.
            check(unsafe { stubs::MPI_Win_free(locks.place()) })?;
        }
    }
    node_parts::free(body);
    Ok(())
}

/// MPI_Win_attach.
pub unsafe fn win_attach(win: &'static Win, base: *mut c_void, size: isize) -> i32 {
    if win.body.flavor != WIN_FLAVOR_DYNAMIC {
        return ERR_RMA_FLAVOR;
    }
    let code = match win.body.is_direct() {
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
    let code = match (win.body.is_direct(), region) {
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
pub fn win_shared_query(
    win: &'static Win,
    rank: i32,
    mut size: Out<'_, isize>,
    mut disp_unit: Out<'_, i32>,
    mut baseptr: Out<'_, usize>,
) -> i32 {
    let Memory::Shared(segments) = &win.body.memory else {
        return ERR_RMA_FLAVOR;
    };
    let segment = match rank {
        PROC_NULL => segments.first_used(),
        rank if (0..win.body.comm.body.size).contains(&rank) => segments.of(rank),
        _ => return ERR_RANK,
    };
    size.set(segment.bytes);
    disp_unit.set(segment.unit);
    baseptr.set(segment.start);
    SUCCESS
}

/// Completes, here and at their targets, all operations of this rank: part of the drain.
///
/// All ranks must be in the drain, or in calls that help others along.
pub(crate) fn flush() -> Result<(), i32> {
    for win in WinBody::table().dynamic() {
        lower_window::flush_all(win)?;
    }
    Ok(())
}

/// Makes every window below anew, in the order of their communicators' ids, as those themselves are. Every rank calls
/// this after it has made its communicators.
pub(crate) fn restore_windows(unparked: &Unparked) -> Result<(), (i32, String)> {
    let mut all: Vec<_> = WinBody::table().dynamic().collect();
    all.sort_unstable_by_key(|win| win.body.comm.body.id);
    for win in all {
        make_below(win, unparked.fresh(), true).map_err(|code| {
            let (bytes, size) = (win.body.bytes, win.body.comm.body.size);
            (
                code,
                format!("a window of {bytes} bytes here, {size} processes"),
            )
        })?;
    }
    Ok(())
}
