//! Operations that change a target's memory atomically: in windows of one process, where nothing lies below, and
//! in those of several over a library that does them wrong. That is Open MPI, whose osc/rdma and osc/pt2pt spoil
//! memory with pairs that have gaps, add complex numbers as integers, and lose what MPI_Get_accumulate fetches by
//! derived datatypes (4.1.4; 5.0 counts the bytes of such pairs in the same way). Natively a window of
//! MPI_Win_allocate on one node is spared most of that; no window below is one.
//!
//! | elements | done |
//! |---|---|
//! | integers of 4 and 8 bytes | below, by atomic operations, which are right and fast; what MPI_Get_accumulate of derived datatypes fetches, element by element |
//! | all others | here: fetched, combined, and put back, while a word at the target keeps all others off ([`lock::changing`]) |
//!
//! MPI wants operations to be atomic to each other where their elements are of the same predefined datatype
//! (MPI-3.1 §11.7.1), so that which way is taken may depend on that alone.
//!
//! Each function is that of MPI of the same name; the request-based forms are these and a request that is done
//! ([`request`]).
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it. Crossings pass words of live objects.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use super::below::At;
use super::data::{self, combine, may_combine, room, transfer, Data, Elements};
use super::{below, lock};
use crate::code::code_of;
use crate::datatype::{element_of, span};
use crate::lower;
use crate::message::done_access_request;
use crate::object::{Datatype, Op, Request, Win};
use contract::abi::*;
use core::ffi::{c_char, c_void};

/// What MPI_Get_library_version begins with of the library that does them wrong.
const WRONG: &[u8] = b"Open MPI";

/// The datatypes that the library's atomic operations are for.
const INTEGERS: [usize; 16] = [
    datatype::INT,
    datatype::UNSIGNED,
    datatype::LONG,
    datatype::UNSIGNED_LONG,
    datatype::LONG_LONG,
    datatype::UNSIGNED_LONG_LONG,
    datatype::INT32_T,
    datatype::UINT32_T,
    datatype::INT64_T,
    datatype::UINT64_T,
    datatype::AINT,
    datatype::OFFSET,
    datatype::COUNT,
    datatype::INTEGER,
    datatype::INTEGER4,
    datatype::INTEGER8,
];

/// Whether the library below is one that does such operations wrong.
///
/// # Safety
/// Crosses.
pub(super) unsafe fn is_to_be_done_here() -> bool {
    let mut text = [0_u8; MAX_LIBRARY_VERSION_STRING];
    let (place, mut length) = (text.as_mut_ptr().cast::<c_char>(), 0);
    // SAFETY: room for the longest text there is.
    let code = unsafe { lower::MPI_Get_library_version(place, &raw mut length) };
    code == SUCCESS && text.starts_with(WRONG)
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
    // SAFETY: passed on.
    unsafe {
        let change = |target| {
            combine(origin, target, op, win)?;
            Ok(op.index() as usize != op::NO_OP)
        };
        let by_library = |at| below::accumulate(origin, at, op, win);
        code_of(done(win, rank, displacement, target, change, by_library))
    }
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
    let fetches = op.index() as usize == op::NO_OP;
    // SAFETY: passed on.
    unsafe {
        let change = |target| {
            may_combine(op)?;
            transfer(target, result, win)?;
            combine(origin, target, op, win)?;
            Ok(!fetches)
        };
        let layouts = [target_datatype, result_datatype, origin_datatype];
        let looked_at = if fetches { 2 } else { 3 };
        let plain = layouts[..looked_at].iter().all(|d| d.is_predefined());
        let by_library = |at| match plain || !win.body.accumulates_here() {
            true => below::get_accumulate(origin, result, at, op, win),
            false => by_elements(origin, result, (rank, displacement), target, op, win),
        };
        code_of(done(win, rank, displacement, target, change, by_library))
    }
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
        if is_for_library(datatype, win) {
            let at = at(win, rank, displacement, (1, datatype));
            return code_of(below::fetch_and_op(origin, result, at, op, win));
        }
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
    // SAFETY: passed on.
    unsafe {
        let change = |target: Data| {
            // One element of a datatype without gaps each, as MPI prescribes.
            let bytes = datatype.body.size() as usize;
            let [target, result] = [target.0, result].map(|place| place.cast::<u8>());
            let [origin, compare] = [origin, compare].map(|place| place.cast::<u8>());
            core::ptr::copy(target, result, bytes);
            let [found, compare] =
                [result.cast_const(), compare].map(|at| core::slice::from_raw_parts(at, bytes));
            let equal = found == compare;
            if equal {
                core::ptr::copy(origin, target, bytes);
            }
            Ok(equal)
        };
        let by_library = |at| below::compare_and_swap(origin, compare, result, at, win);
        let target = (1, datatype);
        code_of(done(win, rank, displacement, target, change, by_library))
    }
}

/// The request of an operation of this module on `rank`, which is complete then.
///
/// # Safety
/// Crosses; the window lives.
pub unsafe fn request(rank: i32, win: &'static Win) -> Result<&'static Request, i32> {
    if rank != PROC_NULL {
        // SAFETY: passed on.
        unsafe { below::flush(rank, win)? };
    }
    done_access_request()
}

/// Whether there is a window below, and a datatype's elements are such that its atomic operations are right.
#[inline(always)]
fn is_for_library(datatype: &'static Datatype, win: &'static Win) -> bool {
    let element = (!win.body.is_alone()).then(|| element_of(datatype));
    element
        .flatten()
        .is_some_and(|element| INTEGERS.contains(&(element.index() as usize)))
}

/// Where elements of `rank` are, for the window below.
fn at(
    win: &'static Win,
    rank: i32,
    displacement: isize,
    (count, datatype): (i32, &'static Datatype),
) -> At {
    At {
        rank,
        place: win.body.in_bytes(displacement, rank),
        count,
        datatype,
    }
}

/// Does an operation on elements of `rank`: as the library does it, where it does it right, or by `change`.
unsafe fn done(
    win: &'static Win,
    rank: i32,
    displacement: isize,
    target: (i32, &'static Datatype),
    change: impl FnOnce(Data) -> Result<bool, i32>,
    by_library: impl FnOnce(At) -> Result<(), i32>,
) -> Result<(), i32> {
    // SAFETY: passed on.
    let here = !is_for_library(target.1, win)
        && unsafe { self::change(win, rank, displacement, target, change)? };
    match here {
        true => Ok(()),
        false => by_library(at(win, rank, displacement, target)),
    }
}

/// Changes elements of `rank`: `change` gets them, where they lie or as a copy with the same layout, and says
/// whether they are other ones then. Whether that was done, see [`lock::changing`].
unsafe fn change(
    win: &'static Win,
    rank: i32,
    displacement: isize,
    (count, datatype): (i32, &'static Datatype),
    change: impl FnOnce(Data) -> Result<bool, i32>,
) -> Result<bool, i32> {
    if rank == PROC_NULL {
        return Ok(true);
    }
    if !(0..win.body.comm.body.size).contains(&rank) {
        return Err(ERR_RANK);
    }
    if rank == win.body.comm.body.rank {
        let own = data::of_window(win, displacement, (count, datatype))?;
        // SAFETY: passed on.
        return unsafe { lock::changing(win, rank, || change(own).map(drop)) };
    }
    if count < 0 {
        return Err(ERR_COUNT);
    }
    if datatype.is_null() {
        return Err(ERR_TYPE);
    }
    let (_memory, place) = room(count, datatype)?;
    let copy = (place, count, datatype);
    // SAFETY: room for the elements, and the caller's promise.
    unsafe {
        lock::changing(win, rank, || {
            let there = at(win, rank, displacement, (count, datatype));
            below::get(copy, there, win)?;
            below::flush(rank, win)?;
            if change(copy)? {
                below::put(copy, there, win)?;
                below::flush(rank, win)?;
            }
            Ok(())
        })
    }
}

/// MPI_Get_accumulate of integers, each by itself.
unsafe fn by_elements(
    origin: Data,
    result: Data,
    (rank, displacement): (i32, isize),
    target: (i32, &'static Datatype),
    op: &'static Op,
    win: &'static Win,
) -> Result<(), i32> {
    if rank == PROC_NULL {
        return Ok(());
    }
    may_combine(op)?;
    let Some(element) = element_of(target.1) else {
        return Err(ERR_TYPE);
    };
    let places = places(target, element, win)?;
    let own = |data: Data| match element_of(data.2) {
        Some(same) if same.index() == element.index() => Ok(data),
        _ => Err(ERR_TYPE),
    };
    let size = element.body.size() as usize;
    let of_both = |elements: &Elements| match usize::try_from(elements.count) {
        Ok(count) if count >= places.len() => Ok(elements.place),
        _ => Err(ERR_TRUNCATE),
    };
    let start = at(win, rank, displacement, (1, element));
    // SAFETY: the application's elements and room for them, each of which is used up to its count, until they are
    // flushed.
    unsafe {
        let mut fetched = Elements::of(own(result)?, element, win)?;
        let given = match op.index() as usize {
            op::NO_OP => None,
            _ => Some(Elements::of(own(origin)?, element, win)?),
        };
        let to = of_both(&fetched)?;
        // MPI_NO_OP looks at none of them.
        let from = given.as_ref().map_or(Ok(to), of_both)?;
        let begun = places.iter().enumerate().try_for_each(|(nth, place)| {
            let there = At {
                place: start.place.wrapping_add(*place),
                ..start
            };
            below::fetch_and_op(
                from.byte_add(nth * size),
                to.byte_add(nth * size),
                there,
                op,
                win,
            )
        });
        // Those that were begun write to this memory, even if another could not be.
        below::flush(rank, win)?;
        begun?;
        fetched.give_back(win)
    }
}

/// Where the elements of a datatype lie, in bytes from its address on: what comes out when memory in which every
/// place has its own number is copied to elements that lie together.
fn places(
    (count, datatype): (i32, &'static Datatype),
    element: &'static Datatype,
    win: &'static Win,
) -> Result<Vec<isize>, i32> {
    let size = element.body.size();
    let elements = i64::from(count) * datatype.body.size() / size;
    let elements = i32::try_from(elements).map_err(|_| ERR_COUNT)?;
    let (start, _) = span(count, datatype)?;
    let (mut memory, numbered) = room(count, datatype)?;
    let (mut numbers, together) = room(elements, element)?;
    let unit = size as usize;
    for (number, place) in bytes_of(&mut memory).chunks_exact_mut(unit).enumerate() {
        place.copy_from_slice(&number.to_ne_bytes()[..unit]);
    }
    // SAFETY: room for the elements, with numbers in it, and room for them alone.
    unsafe {
        transfer(
            (numbered, count, datatype),
            (together, elements, element),
            win,
        )?;
    }
    let place = |number: &[u8]| {
        let mut whole = [0; size_of::<usize>()];
        whole[..unit].copy_from_slice(number);
        start + (usize::from_ne_bytes(whole) * unit) as isize
    };
    let numbers = bytes_of(&mut numbers).chunks_exact(unit);
    Ok(numbers.take(elements as usize).map(place).collect())
}

fn bytes_of(memory: &mut [u128]) -> &mut [u8] {
    // SAFETY: the same memory, any of whose bytes may have any value.
    unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), size_of_val(memory)) }
}
