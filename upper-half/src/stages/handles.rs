//! The handlers by which a program and its libraries save their handles (MPIX_Serialize_handler_register and its like).
//!
//! A rank that was started anew gets its handles by them. The objects themselves are in the record of the epoch anyway.
//!
//! # Safety
//! A handler is called as the C function that the program has registered. Of the arrays that a serialize handler gives,
//! as many handles of the application's ABI are read as `MPIX_Handles` says.
#![allow(unsafe_code)]

use crate::crossing::app_abi::{abi, laid_out};
use crate::crossing::call_guard;
use crate::object::table::Body;
use crate::object::{CommBody, GroupBody};
use crate::runtime::lock::Lock;
use contract::abi::{ERR_ARG, SUCCESS};
use contract::HandleKind;
use core::ffi::c_void;
use core::ptr::null_mut;

/// What one handler has given, as indices of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) communicators: Vec<u32>,
    pub(super) groups: Vec<u32>,
}

/// What the handlers gave last, or what the record has that was gone back to.
pub(super) static KEPT: Lock<Vec<Kept>> = Lock::new(Vec::new());

/// Addresses of the registered functions, in order.
static SERIALIZE: Lock<Vec<usize>> = Lock::new(Vec::new());
static DESERIALIZE: Lock<Vec<usize>> = Lock::new(Vec::new());

/// Which handler.
#[derive(Clone, Copy)]
pub(super) enum Handler {
    Serialize,
    Deserialize,
}

/// `MPIX_Handles`.
#[repr(C)]
struct Handles {
    communicators: *mut c_void,
    comm_size: i32,
    groups: *mut c_void,
    group_size: i32,
}

type Serialize = unsafe extern "C" fn(*mut Handles);
type Deserialize = unsafe extern "C" fn(Handles);

/// Registers a handler. One that is there keeps its place: programs register again after a fault.
pub(super) fn register(which: Handler, function: *mut c_void) -> i32 {
    if function.is_null() {
        return ERR_ARG;
    }
    let mut all = match which {
        Handler::Serialize => SERIALIZE.lock(),
        Handler::Deserialize => DESERIALIZE.lock(),
    };
    if !all.contains(&(function as usize)) {
        all.push(function as usize);
    }
    SUCCESS
}

/// Runs the serialize handlers.
pub(super) fn serialize() -> Vec<Kept> {
    let all = SERIALIZE.lock().clone();
    let run = |function: usize| {
        let mut handles = Handles {
            communicators: null_mut(),
            comm_size: 0,
            groups: null_mut(),
            group_size: 0,
        };
        call_guard::outside(|| {
            // SAFETY: see the head.
            unsafe { core::mem::transmute::<usize, Serialize>(function)(&raw mut handles) };
        });
        Kept {
            communicators: read(HandleKind::Comm, handles.communicators, handles.comm_size),
            groups: read(HandleKind::Group, handles.groups, handles.group_size),
        }
    };
    all.into_iter().map(run).collect()
}

/// Runs the deserialize handlers: each gets what the serialize handler in its place has given.
pub(super) fn deserialize() {
    let all = DESERIALIZE.lock().clone();
    let kept = KEPT.lock().clone();
    for (function, kept) in all.into_iter().zip(kept) {
        let communicators = kept.communicators.iter().map(|&index| {
            let comm = CommBody::table().get(index);
            comm.map_or_else(
                || CommBody::table().at(CommBody::NULL as u32).handle(),
                |comm| comm.handle(),
            )
        });
        let groups = kept.groups.iter().map(|&index| {
            let group = GroupBody::table().get(index);
            group.map_or_else(
                || GroupBody::table().at(GroupBody::NULL as u32).handle(),
                |group| group.handle(),
            )
        });
        let (mut communicators, mut groups) = (laid_out(communicators), laid_out(groups));
        let handles = Handles {
            communicators: communicators.as_mut_ptr().cast(),
            comm_size: kept.communicators.len() as i32,
            groups: groups.as_mut_ptr().cast(),
            group_size: kept.groups.len() as i32,
        };
        call_guard::outside(|| {
            // SAFETY: see the head.
            unsafe { core::mem::transmute::<usize, Deserialize>(function)(handles) };
        });
    }
}

/// The indices of an array of handles.
fn read(kind: HandleKind, array: *mut c_void, count: i32) -> Vec<u32> {
    let count = usize::try_from(count).unwrap_or(0);
    if array.is_null() {
        return Vec::new();
    }
    let handle = |i: usize| {
        // SAFETY: entry `i` of the handler's array; see the head.
        let value = unsafe {
            match abi().handle_size {
                4 => array.cast::<u32>().add(i).read_unaligned() as usize,
                _ => array.cast::<usize>().add(i).read_unaligned(),
            }
        };
        (abi().index_of)(kind, value)
    };
    (0..count).map(handle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_laid_out_as_the_application_has_them() {
        // Unit tests have handles of 8 bytes.
        let mut words = laid_out([3usize, 7].into_iter());
        assert_eq!(words, [3, 7]);
        assert_eq!(read(HandleKind::Comm, words.as_mut_ptr().cast(), 2), [3, 7]);
        assert!(read(HandleKind::Comm, null_mut(), 2).is_empty());
    }
}
