//! Windows of one process. Its operations reach nobody else's memory, so nothing lies below: data is
//! copied from datatype to datatype here, and each operation is complete when its call returns. A
//! library that makes such windows from memory of its own alone (Open MPI 4.1, where threads may call
//! it) serves them too, and a cut finds nothing under way.
//!
//! Each function is that of MPI of the same name; the request-based forms are these and a request
//! that is done ([`request`]).
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; what lies outside of the
//! window is refused. Crossings pass words of live datatypes.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::code::{check, code_of};
use crate::datatype::{element_of, span};
use crate::lower;
use crate::message::copy;
use crate::object::{Datatype, Op, Win};
use contract::abi::*;
use core::ffi::c_void;
use core::sync::atomic::{fence, Ordering};

pub use crate::message::done_access_request as request;

/// Elements of a datatype, somewhere.
type Data = (*mut c_void, i32, &'static Datatype);

/// MPI_Put.
pub unsafe fn put(
    origin: *const c_void,
    origin_count: i32,
    origin_datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    target_count: i32,
    target_datatype: &'static Datatype,
    win: &'static Win,
) -> i32 {
    let origin = (origin.cast_mut(), origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    // SAFETY: passed on.
    at(win, rank, displacement, target, |target| unsafe {
        transfer(origin, target, win)
    })
}

/// MPI_Get.
pub unsafe fn get(
    origin: *mut c_void,
    origin_count: i32,
    origin_datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    target_count: i32,
    target_datatype: &'static Datatype,
    win: &'static Win,
) -> i32 {
    let origin = (origin, origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    // SAFETY: passed on.
    at(win, rank, displacement, target, |target| unsafe {
        transfer(target, origin, win)
    })
}

/// MPI_Accumulate.
pub unsafe fn accumulate(
    origin: *const c_void,
    origin_count: i32,
    origin_datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    target_count: i32,
    target_datatype: &'static Datatype,
    op: &'static Op,
    win: &'static Win,
) -> i32 {
    let origin = (origin.cast_mut(), origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    at(win, rank, displacement, target, |target| {
        let _alone = win.body.changing.lock();
        // SAFETY: passed on.
        unsafe { combine(origin, target, op, win) }
    })
}

/// MPI_Get_accumulate.
pub unsafe fn get_accumulate(
    origin: *const c_void,
    origin_count: i32,
    origin_datatype: &'static Datatype,
    result: *mut c_void,
    result_count: i32,
    result_datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    target_count: i32,
    target_datatype: &'static Datatype,
    op: &'static Op,
    win: &'static Win,
) -> i32 {
    let origin = (origin.cast_mut(), origin_count, origin_datatype);
    let result = (result, result_count, result_datatype);
    let target = (target_count, target_datatype);
    at(win, rank, displacement, target, |target| {
        let _alone = win.body.changing.lock();
        may_combine(op)?;
        // SAFETY: passed on.
        unsafe {
            transfer(target, result, win)?;
            combine(origin, target, op, win)
        }
    })
}

/// MPI_Fetch_and_op.
pub unsafe fn fetch_and_op(
    origin: *const c_void,
    result: *mut c_void,
    datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    op: &'static Op,
    win: &'static Win,
) -> i32 {
    // SAFETY: passed on.
    unsafe {
        get_accumulate(
            origin,
            1,
            datatype,
            result,
            1,
            datatype,
            rank,
            displacement,
            1,
            datatype,
            op,
            win,
        )
    }
}

/// MPI_Compare_and_swap.
pub unsafe fn compare_and_swap(
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    win: &'static Win,
) -> i32 {
    if !datatype.is_predefined() {
        return ERR_TYPE;
    }
    at(win, rank, displacement, (1, datatype), |(target, ..)| {
        let bytes = datatype.body.size() as usize;
        let _alone = win.body.changing.lock();
        // SAFETY: one element of a datatype without gaps each, as MPI prescribes.
        unsafe {
            let [target, result] = [target, result].map(|place| place.cast::<u8>());
            let [origin, compare] = [origin, compare].map(|place| place.cast::<u8>());
            core::ptr::copy(target, result, bytes);
            let found = core::slice::from_raw_parts(result, bytes);
            if found == core::slice::from_raw_parts(compare, bytes) {
                core::ptr::copy(origin, target, bytes);
            }
        }
        Ok(())
    })
}

/// MPI_Win_flush: everything is complete.
pub fn win_flush(rank: i32, win: &'static Win) -> i32 {
    match rank {
        0 | PROC_NULL => win_sync(win),
        _ => ERR_RANK,
    }
}

/// MPI_Win_flush_local.
pub fn win_flush_local(rank: i32, win: &'static Win) -> i32 {
    win_flush(rank, win)
}

/// MPI_Win_flush_all.
pub fn win_flush_all(win: &'static Win) -> i32 {
    win_sync(win)
}

/// MPI_Win_flush_local_all.
pub fn win_flush_local_all(win: &'static Win) -> i32 {
    win_sync(win)
}

/// MPI_Win_sync: for threads.
pub fn win_sync(_win: &'static Win) -> i32 {
    fence(Ordering::SeqCst);
    SUCCESS
}

/// Does something with the elements at a displacement, unless nobody's are asked for.
fn at(
    win: &'static Win,
    rank: i32,
    displacement: isize,
    (count, datatype): (i32, &'static Datatype),
    access: impl FnOnce(Data) -> Result<(), i32>,
) -> i32 {
    match rank {
        PROC_NULL => return SUCCESS,
        0 => {}
        _ => return ERR_RANK,
    }
    if count < 0 {
        return ERR_COUNT;
    }
    let body = &win.body;
    let from = displacement.wrapping_mul(body.unit as isize);
    let place = body.base.wrapping_add_signed(from);
    code_of(
        within(win, place, count, datatype)
            .and_then(|()| access((place as *mut c_void, count, datatype))),
    )
}

/// Whether the elements lie in memory of the window.
fn within(
    win: &'static Win,
    place: usize,
    count: i32,
    datatype: &'static Datatype,
) -> Result<(), i32> {
    if datatype.is_null() {
        return Err(ERR_TYPE);
    }
    let (below, bytes) = span(count, datatype)?;
    let Some(start) = place.checked_add_signed(below) else {
        return Err(ERR_RMA_RANGE);
    };
    let inside = |&(base, size): &(usize, isize)| {
        let end = base.saturating_add_signed(size);
        start >= base && start.checked_add(bytes).is_some_and(|last| last <= end)
    };
    let body = &win.body;
    let lies = match body.flavor {
        _ if bytes == 0 => true,
        WIN_FLAVOR_DYNAMIC => body.attached.lock().iter().any(inside),
        _ => inside(&(body.base, body.bytes)),
    };
    if lies {
        Ok(())
    } else {
        Err(ERR_RMA_RANGE)
    }
}

/// Copies the elements of one place to another.
unsafe fn transfer(from: Data, to: Data, win: &'static Win) -> Result<(), i32> {
    if from.1 < 0 || to.1 < 0 {
        return Err(ERR_COUNT);
    }
    if from.2.is_null() || to.2.is_null() {
        return Err(ERR_TYPE);
    }
    if bytes(from) > bytes(to) {
        return Err(ERR_TRUNCATE);
    }
    // SAFETY: passed on.
    unsafe { copy(from, to, win.body.comm) }
}

fn may_combine(op: &'static Op) -> Result<(), i32> {
    match op.is_null() || op.body.is_user_defined() {
        true => Err(ERR_OP),
        false => Ok(()),
    }
}

/// Combines the elements of one place with those of another, which get the result.
unsafe fn combine(from: Data, to: Data, op: &'static Op, win: &'static Win) -> Result<(), i32> {
    may_combine(op)?;
    match op.index() as usize {
        op::NO_OP => return Ok(()),
        // SAFETY: passed on.
        op::REPLACE => return unsafe { transfer(from, to, win) },
        _ => {}
    }
    if from.1 < 0 {
        return Err(ERR_COUNT);
    }
    let (Some(element), Some(other)) = (element_of(from.2), element_of(to.2)) else {
        return Err(ERR_TYPE);
    };
    if element.index() != other.index() {
        return Err(ERR_TYPE);
    }
    if bytes(from) > bytes(to) {
        return Err(ERR_TRUNCATE);
    }
    if bytes(from) == 0 {
        return Ok(());
    }
    // SAFETY: the application's elements, and memory for as many.
    unsafe {
        let from = Elements::of(from, element, win)?;
        let mut to = Elements::of(to, element, win)?;
        let (values, sums) = (from.place, to.place);
        let (element, op) = (element.lower(), op.lower());
        check(lower::MPI_Reduce_local(
            values, sums, from.count, element, op,
        ))?;
        to.give_back(win)
    }
}

/// Data as elements of a predefined datatype, one after the other: where they lie, if they lie so
/// there, or else in memory of its own.
struct Elements {
    place: *mut c_void,
    count: i32,
    element: &'static Datatype,
    /// Where they came from, and the memory.
    copied: Option<(Data, Vec<u128>)>,
}

impl Elements {
    unsafe fn of(data: Data, element: &'static Datatype, win: &'static Win) -> Result<Self, i32> {
        let (place, count, datatype) = data;
        if datatype.index() == element.index() {
            return Ok(Elements {
                place,
                count,
                element,
                copied: None,
            });
        }
        let count = i32::try_from(bytes(data) / element.body.size()).map_err(|_| ERR_COUNT)?;
        let (_, room) = span(count, element)?;
        let room = room.div_ceil(size_of::<u128>());
        let mut memory = Vec::new();
        memory.try_reserve_exact(room).map_err(|_| ERR_NO_MEM)?;
        memory.resize(room, 0_u128);
        let place = memory.as_mut_ptr().cast();
        // SAFETY: the application's data, and room for them.
        unsafe { transfer(data, (place, count, element), win)? };
        Ok(Elements {
            place,
            count,
            element,
            copied: Some((data, memory)),
        })
    }

    /// Puts them back to where they came from.
    unsafe fn give_back(&mut self, win: &'static Win) -> Result<(), i32> {
        match self.copied.take() {
            // SAFETY: what was taken from there fits there.
            Some((data, _memory)) => unsafe {
                transfer((self.place, self.count, self.element), data, win)
            },
            None => Ok(()),
        }
    }
}

/// How many bytes of data there are.
fn bytes((_, count, datatype): Data) -> i64 {
    i64::from(count) * datatype.body.size()
}
