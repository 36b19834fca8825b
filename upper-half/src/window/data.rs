//! Elements of datatypes that lie somewhere: copied and combined with others. What operations of windows do where
//! they are done here ([`alone`](super::alone), [`accumulate`](super::accumulate)).
//!
//! # Safety
//! Places are the application's, under the promises that MPI asks of it, or memory of ours with the same
//! layout; what lies outside of a window is refused. Crossings pass words of live datatypes.
#![allow(unsafe_code)]

use super::below;
use crate::datatype::{element_of, span};
use crate::message::copy;
use crate::object::{Datatype, Op, Win};
use contract::abi::*;
use core::ffi::c_void;

/// Elements of a datatype, somewhere.
pub(super) type Data = (*mut c_void, i32, &'static Datatype);

/// The elements at a displacement of this process's part of a window.
pub(super) fn of_window(
    win: &'static Win,
    displacement: isize,
    (count, datatype): (i32, &'static Datatype),
) -> Result<Data, i32> {
    if count < 0 {
        return Err(ERR_COUNT);
    }
    let body = &win.body;
    let from = displacement.wrapping_mul(body.unit as isize);
    let place = body.base.wrapping_add_signed(from);
    within(win, place, count, datatype)?;
    Ok((place as *mut c_void, count, datatype))
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
pub(super) unsafe fn transfer(from: Data, to: Data, win: &'static Win) -> Result<(), i32> {
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

/// Whether an operation may be one of a window.
pub(super) fn may_combine(op: &'static Op) -> Result<(), i32> {
    match op.is_null() || op.body.is_user_defined() {
        true => Err(ERR_OP),
        false => Ok(()),
    }
}

/// Combines the elements of one place with those of another, which get the result.
pub(super) unsafe fn combine(
    from: Data,
    to: Data,
    op: &'static Op,
    win: &'static Win,
) -> Result<(), i32> {
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
        below::reduce_local(values, sums, (from.count, element), op)?;
        to.give_back(win)
    }
}

/// Data as elements of a predefined datatype, one after the other: where they lie, if they lie so
/// there, or else in memory of its own.
pub(super) struct Elements {
    pub(super) place: *mut c_void,
    pub(super) count: i32,
    element: &'static Datatype,
    /// Where they came from, and the memory.
    copied: Option<(Data, Vec<u128>)>,
}

impl Elements {
    /// The elements of `data`.
    ///
    /// # Safety
    /// The application's data, of `element`s.
    pub(super) unsafe fn of(
        data: Data,
        element: &'static Datatype,
        win: &'static Win,
    ) -> Result<Self, i32> {
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
        let (memory, place) = room(count, element)?;
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
    pub(super) unsafe fn give_back(&mut self, win: &'static Win) -> Result<(), i32> {
        match self.copied.take() {
            // SAFETY: what was taken from there fits there.
            Some((data, _memory)) => unsafe {
                transfer((self.place, self.count, self.element), data, win)
            },
            None => Ok(()),
        }
    }
}

/// Memory for elements with the layout of a datatype, and the address that it is given by.
pub(super) fn room(
    count: i32,
    datatype: &'static Datatype,
) -> Result<(Vec<u128>, *mut c_void), i32> {
    let (start, bytes) = span(count, datatype)?;
    let words = bytes.div_ceil(size_of::<u128>());
    let mut memory = Vec::new();
    memory.try_reserve_exact(words).map_err(|_| ERR_NO_MEM)?;
    memory.resize(words, 0_u128);
    let place = memory.as_mut_ptr().cast::<u8>().wrapping_offset(-start);
    Ok((memory, place.cast()))
}

/// How many bytes of data there are.
fn bytes((_, count, datatype): Data) -> i64 {
    i64::from(count) * datatype.body.size()
}
