//! Copying and combining elements of datatypes: what operations of windows do that are done here
//! ([`direct_window`](super::direct_window), [`accumulate`](super::accumulate)).
//!
//! # Safety
//! Elements lie in a window, which is checked, or in memory of ours that spans them.
#![allow(unsafe_code)]

use crate::argument::{pass, App, Buffer};
use crate::datatype::extent::span;
use crate::object::datatype::element_of;
use crate::object::{Datatype, Op, Win};
use crate::pt2pt::local_copy::copy;
use crate::rma::lower_window;
use crate::rma::lower_window::Data;
use contract::abi::*;
use core::ffi::c_void;

/// The elements at a displacement of a member's window, if that is reached by loads and stores here: this rank's own,
/// and in a direct window that of each member. The address is void after the thread may have parked.
#[inline]
pub(crate) fn of_window(
    win: &'static Win,
    rank: i32,
    displacement: isize,
    (count, datatype): (i32, &'static Datatype),
) -> Result<Option<Data<'static>>, i32> {
    if count < 0 {
        return Err(ERR_COUNT);
    }
    let body = &win.body;
    let memory = match body.parts().of(rank) {
        Some(part) if body.is_direct() => (part.base, part.bytes),
        _ if rank == body.comm.body.rank => (body.base, body.bytes),
        _ => return Ok(None),
    };
    let place = memory
        .0
        .wrapping_add_signed(body.in_bytes(displacement, rank));
    within(win, memory, place, count, datatype)?;
    // SAFETY: the elements lie in the window, whose memory is there until it is freed.
    let place = unsafe { pass(App(place as *mut c_void)) };
    Ok(Some(Data::new(place, count, datatype)))
}

/// Whether the elements lie in memory of the window.
#[inline]
fn within(
    win: &'static Win,
    memory: (usize, isize),
    place: usize,
    count: i32,
    datatype: &'static Datatype,
) -> Result<(), i32> {
    if datatype.is_null() {
        return Err(ERR_TYPE);
    }
    let (below, bytes) = span(count.into(), datatype)?;
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
        _ => inside(&memory),
    };
    if lies {
        Ok(())
    } else {
        Err(ERR_RMA_RANGE)
    }
}

/// Copies the elements of one place to another.
#[inline]
pub(crate) fn transfer(from: Data<'_>, to: Data<'_>, win: &'static Win) -> Result<(), i32> {
    if from.count < 0 || to.count < 0 {
        return Err(ERR_COUNT);
    }
    if from.datatype.is_null() || to.datatype.is_null() {
        return Err(ERR_TYPE);
    }
    if bytes(from) > bytes(to) {
        return Err(ERR_TRUNCATE);
    }
    copy(
        (from.place, from.count, from.datatype),
        (to.place, to.count, to.datatype),
        win.body.comm,
    )
}

/// Whether an operation may be one of a window.
pub(crate) fn may_combine(op: &'static Op) -> Result<(), i32> {
    match op.is_null() || op.body.is_user_defined() {
        true => Err(ERR_OP),
        false => Ok(()),
    }
}

/// Combines the elements of one place with those of another, which get the result.
pub(crate) fn combine(
    from: Data<'_>,
    to: Data<'_>,
    op: &'static Op,
    win: &'static Win,
) -> Result<(), i32> {
    may_combine(op)?;
    match op.index() as usize {
        op::NO_OP => return Ok(()),
        op::REPLACE => return transfer(from, to, win),
        _ => {}
    }
    if from.count < 0 {
        return Err(ERR_COUNT);
    }
    let (Some(element), Some(other)) = (element_of(from.datatype), element_of(to.datatype)) else {
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
    let from = Elements::of(from, element, win)?;
    let mut to = Elements::of(to, element, win)?;
    lower_window::reduce_local(from.data(), to.data(), op)?;
    to.give_back(win)
}

/// Data as elements of a predefined datatype, one after the other: where they lie, if they lie so
/// there, or else in memory of its own.
pub(crate) enum Elements<'a> {
    InPlace(Data<'a>),
    /// The memory, and where they came from.
    Copied(Room, Data<'a>),
}

impl<'a> Elements<'a> {
    /// The elements of `data`, which are `element`s.
    pub(crate) fn of(
        data: Data<'a>,
        element: &'static Datatype,
        win: &'static Win,
    ) -> Result<Self, i32> {
        if data.datatype.index() == element.index() {
            return Ok(Elements::InPlace(data));
        }
        let count = i32::try_from(bytes(data) / element.body.size()).map_err(|_| ERR_COUNT)?;
        let room = Room::new(count, element)?;
        transfer(data, room.data(), win)?;
        Ok(Elements::Copied(room, data))
    }

    /// All of them.
    pub(crate) fn data(&self) -> Data<'_> {
        match self {
            Elements::InPlace(data) => *data,
            Elements::Copied(room, _) => room.data(),
        }
    }

    /// One of them.
    pub(crate) fn nth(&self, nth: usize) -> Result<Buffer<'_>, i32> {
        let Data {
            place,
            count,
            datatype,
        } = self.data();
        if usize::try_from(count).map_or(true, |count| nth >= count) {
            return Err(ERR_TRUNCATE);
        }
        let size = datatype.body.size() as usize;
        let one = place.as_ptr().wrapping_byte_add(nth * size);
        // SAFETY: an element of those that the place is valid for, since there are more.
        Ok(unsafe { pass(App(one)) })
    }

    /// Puts them back to where they came from.
    pub(crate) fn give_back(&mut self, win: &'static Win) -> Result<(), i32> {
        match self {
            Elements::InPlace(_) => Ok(()),
            Elements::Copied(room, data) => transfer(room.data(), *data, win),
        }
    }
}

/// Memory for elements with the layout of a datatype.
pub(crate) struct Room {
    memory: Vec<u128>,
    /// The address that the memory is given by.
    place: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
}

impl Room {
    pub(crate) fn new(count: i32, datatype: &'static Datatype) -> Result<Room, i32> {
        let (start, bytes) = span(count.into(), datatype)?;
        let words = bytes.div_ceil(size_of::<u128>());
        let mut memory = Vec::new();
        memory.try_reserve_exact(words).map_err(|_| ERR_NO_MEM)?;
        memory.resize(words, 0_u128);
        let place = memory.as_mut_ptr().cast::<u8>().wrapping_offset(-start);
        Ok(Room {
            place: place.cast(),
            memory,
            count,
            datatype,
        })
    }

    /// The elements in it.
    pub(crate) fn data(&self) -> Data<'_> {
        // SAFETY: the memory spans that many elements of the datatype.
        let place = unsafe { pass(App(self.place)) };
        Data::new(place, self.count, self.datatype)
    }

    /// Its bytes, from the first that belongs to an element on.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let length = size_of_val(&self.memory[..]);
        // SAFETY: the same memory, any of whose bytes may have any value.
        unsafe { core::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), length) }
    }
}

/// How many bytes of data there are.
fn bytes(data: Data<'_>) -> i64 {
    i64::from(data.count) * data.datatype.body.size()
}
