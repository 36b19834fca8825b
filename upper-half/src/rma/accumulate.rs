//! Operations that change a target's memory atomically. They are done here in direct windows, which have no window
//! below, and in others over a library that does them wrong. That is Open MPI, whose osc/rdma and
//! osc/pt2pt spoil memory with pairs that have gaps, add complex numbers as integers, and lose what MPI_Get_accumulate
//! fetches by derived datatypes (4.1.4; 5.0 counts the bytes of such pairs in the same way). Natively a window of
//! MPI_Win_allocate on one node is spared most of that; no window below is one.
//!
//! | elements | done |
//! |---|---|
//! | integers of 4 and 8 bytes | below, by atomic operations, which are right and fast; what MPI_Get_accumulate of
//! derived datatypes fetches, element by element |
//! | all others | here: fetched, combined, and put back, under a mutex at the target (`passive_target::changing`) |
//!
//! MPI wants operations to be atomic to each other if their elements are of the same predefined datatype (MPI-3.1
//! §11.7.1), so the choice may depend on that alone.
//!
//! Each function is that of MPI of the same name; the request-based forms are these and a request that is done
//! ([`request()`]).
//!
//! # Safety
//! Buffers are the application's, see [`Buffer`], or memory that is kept until the operations on it are complete.
#![allow(unsafe_code)]
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::argument::{pass, App, Buffer};
use crate::crossing::mpi_result::code_of;
use crate::crossing::stubs;
use crate::datatype::extent::span;
use crate::object::datatype::element_of;
use crate::object::{Datatype, Op, Request, Win};
use crate::request::started_operation::done_access_request;
use crate::rma::lower_window::{At, Data};
use crate::rma::typed_copy::{combine, may_combine, transfer, Elements, Room};
use crate::rma::{lower_window, passive_target, typed_copy};
use contract::abi::*;
use core::ffi::c_char;

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
pub(crate) fn is_to_be_done_here() -> bool {
    let mut text = [0_u8; MAX_LIBRARY_VERSION_STRING];
    let (place, mut length) = (text.as_mut_ptr().cast::<c_char>(), 0);
    // SAFETY: room for the longest text there is.
    let code = unsafe { stubs::MPI_Get_library_version(place, &raw mut length) };
    code == SUCCESS && text.starts_with(WRONG)
}

/// MPI_Accumulate.
pub fn accumulate(
    origin: Buffer<'static>,
    origin_count: i32,
    origin_datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    target_count: i32,
    target_datatype: &'static Datatype,
    op: &'static Op,
    win: &'static Win,
) -> i32 {
    let origin = Data::new(origin, origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    let change = |target| {
        combine(origin, target, op, win)?;
        Ok(op.index() as usize != op::NO_OP)
    };
    let by_library = |at| lower_window::accumulate(origin, at, op, win);
    code_of(done(win, rank, displacement, target, change, by_library))
}

/// MPI_Get_accumulate.
pub fn get_accumulate(
    origin: Buffer<'static>,
    origin_count: i32,
    origin_datatype: &'static Datatype,
    result: Buffer<'static>,
    result_count: i32,
    result_datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    target_count: i32,
    target_datatype: &'static Datatype,
    op: &'static Op,
    win: &'static Win,
) -> i32 {
    let origin = Data::new(origin, origin_count, origin_datatype);
    let result = Data::new(result, result_count, result_datatype);
    let target = (target_count, target_datatype);
    let fetches = op.index() as usize == op::NO_OP;
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
        true => lower_window::get_accumulate(origin, result, at, op, win),
        false => by_elements(origin, result, (rank, displacement), target, op, win),
    };
    code_of(done(win, rank, displacement, target, change, by_library))
}

/// MPI_Fetch_and_op.
pub fn fetch_and_op(
    origin: Buffer<'static>,
    result: Buffer<'static>,
    datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    op: &'static Op,
    win: &'static Win,
) -> i32 {
    if is_for_library(datatype, win) {
        let at = at(win, rank, displacement, (1, datatype));
        return code_of(lower_window::fetch_and_op(origin, result, at, op, win));
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

/// MPI_Compare_and_swap.
pub fn compare_and_swap(
    origin: Buffer<'static>,
    compare: Buffer<'static>,
    result: Buffer<'static>,
    datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    win: &'static Win,
) -> i32 {
    if !datatype.is_predefined() {
        return ERR_TYPE;
    }
    let change = |target: Data<'static>| {
        let bytes = datatype.body.size() as usize;
        let [target, origin, compare, result] =
            [target.place, origin, compare, result].map(|place| place.as_ptr().cast::<u8>());
        // SAFETY: one element of a datatype without gaps each, as MPI prescribes.
        Ok(unsafe {
            core::ptr::copy(target, result, bytes);
            let [found, compare] =
                [result, compare].map(|place| core::slice::from_raw_parts(place, bytes));
            let equal = found == compare;
            if equal {
                core::ptr::copy(origin, target, bytes);
            }
            equal
        })
    };
    let by_library = |at| lower_window::compare_and_swap(origin, compare, result, at, win);
    let target = (1, datatype);
    code_of(done(win, rank, displacement, target, change, by_library))
}

/// The request of an operation of this module on `rank`, which is complete then.
///
/// # Errors
/// The error class of the library's flush; `MPI_ERR_NO_MEM` if there are too many requests.
pub fn request(rank: i32, win: &'static Win) -> Result<&'static Request, i32> {
    if rank != PROC_NULL {
        lower_window::flush(rank, win)?;
    }
    done_access_request()
}

/// Whether there is a window below, and a datatype's elements are such that its atomic operations are right.
#[inline(always)]
fn is_for_library(datatype: &'static Datatype, win: &'static Win) -> bool {
    let element = (!win.body.is_direct()).then(|| element_of(datatype));
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
fn done(
    win: &'static Win,
    rank: i32,
    displacement: isize,
    target: (i32, &'static Datatype),
    change: impl FnOnce(Data<'static>) -> Result<bool, i32>,
    by_library: impl FnOnce(At) -> Result<(), i32>,
) -> Result<(), i32> {
    let here =
        !is_for_library(target.1, win) && self::change(win, rank, displacement, target, change)?;
    match here {
        true => Ok(()),
        false => by_library(at(win, rank, displacement, target)),
    }
}

/// Changes elements of `rank`: `change` gets them, where they lie or as a copy with the same layout, and says
/// whether they are other ones then. Whether that was done, see [`passive_target::changing`].
fn change(
    win: &'static Win,
    rank: i32,
    displacement: isize,
    (count, datatype): (i32, &'static Datatype),
    change: impl FnOnce(Data<'static>) -> Result<bool, i32>,
) -> Result<bool, i32> {
    if rank == PROC_NULL {
        return Ok(true);
    }
    if !(0..win.body.comm.body.size).contains(&rank) {
        return Err(ERR_RANK);
    }
    if count < 0 {
        return Err(ERR_COUNT);
    }
    if datatype.is_null() {
        return Err(ERR_TYPE);
    }
    passive_target::changing(win, rank, || {
        // Only here: while the thread waited for its turn, the job may have been restarted on other nodes.
        let near = typed_copy::of_window(win, rank, displacement, (count, datatype))?;
        if let Some(near) = near {
            return change(near).map(drop);
        }
        let room = Room::new(count, datatype)?;
        let there = at(win, rank, displacement, (count, datatype));
        // SAFETY: the room is kept until the operations on it are complete.
        let copy = unsafe { lent(room.data()) };
        lower_window::get(copy, there, win)?;
        lower_window::flush(rank, win)?;
        if change(copy)? {
            lower_window::put(copy, there, win)?;
            lower_window::flush(rank, win)?;
        }
        Ok(())
    })
}

/// Data for operations on a window.
///
/// # Safety
/// The data is there until they are complete.
unsafe fn lent(data: Data<'_>) -> Data<'static> {
    // SAFETY: the caller's promise.
    let place = unsafe { pass(App(data.place.as_ptr())) };
    Data::new(place, data.count, data.datatype)
}

/// MPI_Get_accumulate of integers, each by itself.
fn by_elements(
    origin: Data<'static>,
    result: Data<'static>,
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
    let own = |data: Data<'static>| match element_of(data.datatype) {
        Some(same) if same.index() == element.index() => Ok(data),
        _ => Err(ERR_TYPE),
    };
    let of_both = |elements: &Elements<'_>| match usize::try_from(elements.data().count) {
        Ok(count) if count >= places.len() => Ok(()),
        _ => Err(ERR_TRUNCATE),
    };
    let start = at(win, rank, displacement, (1, element));
    let mut fetched = Elements::of(own(result)?, element, win)?;
    let given = match op.index() as usize {
        op::NO_OP => None,
        _ => Some(Elements::of(own(origin)?, element, win)?),
    };
    of_both(&fetched)?;
    given.as_ref().map_or(Ok(()), of_both)?;
    // MPI_NO_OP looks at none of them.
    let from = given.as_ref().unwrap_or(&fetched);
    let begun = places.iter().enumerate().try_for_each(|(nth, place)| {
        let there = At {
            place: start.place.wrapping_add(*place),
            ..start
        };
        // SAFETY: the elements are kept until they are flushed.
        let [from, to] = unsafe {
            [from.nth(nth)?, fetched.nth(nth)?].map(|one| lent(Data::new(one, 1, element)).place)
        };
        lower_window::fetch_and_op(from, to, there, op, win)
    });
    // Those that were begun write to this memory, even if another could not be.
    lower_window::flush(rank, win)?;
    begun?;
    fetched.give_back(win)
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
    let (start, _) = span(count.into(), datatype)?;
    let mut numbered = Room::new(count, datatype)?;
    let mut numbers = Room::new(elements, element)?;
    let unit = size as usize;
    for (number, place) in numbered.bytes().chunks_exact_mut(unit).enumerate() {
        place.copy_from_slice(&number.to_ne_bytes()[..unit]);
    }
    transfer(numbered.data(), numbers.data(), win)?;
    let place = |number: &[u8]| {
        let mut whole = [0; size_of::<usize>()];
        whole[..unit].copy_from_slice(number);
        start + (usize::from_ne_bytes(whole) * unit) as isize
    };
    let numbers = numbers.bytes().chunks_exact(unit);
    Ok(numbers.take(elements as usize).map(place).collect())
}
