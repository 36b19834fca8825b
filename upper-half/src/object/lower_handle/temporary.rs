//! Objects below that the upper half makes for one crossing, or for a few, and frees afterwards.

use super::sealed::ReadLower;
use super::{named, Below, Slot};
use crate::object::table::Object;
use crate::object::{GroupBody, InfoBody};
use contract::abi::{group, SUCCESS};
use core::mem::ManuallyDrop;

/// Makes a crossing that takes `object`, and frees that afterwards. The crossing may be abandoned
/// (`quiesce/retractable.rs`): until it has returned nothing has a destructor. What is abandoned is of a lower half
/// that is gone.
pub(crate) fn with<T>(object: T, crossing: impl FnOnce(&T) -> i32) -> i32 {
    let kept = ManuallyDrop::new(object);
    let code = crossing(&kept);
    drop(ManuallyDrop::into_inner(kept));
    code
}

/// An info object below.
pub struct CrossingInfo(Slot<InfoBody>);

impl CrossingInfo {
    /// The info object that a call makes; the null one if the call fails.
    pub(crate) fn made(call: impl FnOnce(&mut Slot<InfoBody>) -> i32) -> CrossingInfo {
        let mut info = Slot::null();
        match call(&mut info) {
            SUCCESS => CrossingInfo(info),
            _ => CrossingInfo(Slot::null()),
        }
    }

    /// The lower handle.
    ///
    /// # Safety
    /// It is used in the expression of a crossing.
    pub unsafe fn read_lower(&self) -> usize {
        self.0.read_lower()
    }
}

impl Drop for CrossingInfo {
    fn drop(&mut self) {
        if !self.0.is_null() {
            named::MPI_Info_free(&mut self.0);
        }
    }
}

impl ReadLower for &CrossingInfo {
    #[inline(always)]
    fn read_lower(self) -> usize {
        self.0.read_lower()
    }
}

impl Below<InfoBody> for &CrossingInfo {}

/// A group below.
pub(crate) struct LowerGroup(Slot<GroupBody>);

impl LowerGroup {
    /// The group that a call makes.
    pub(crate) fn made(call: impl FnOnce(&mut Slot<GroupBody>) -> i32) -> Result<LowerGroup, i32> {
        let mut group = Slot::null();
        match call(&mut group) {
            SUCCESS => Ok(LowerGroup(group)),
            code => Err(code),
        }
    }
}

impl Drop for LowerGroup {
    fn drop(&mut self) {
        // The predefined empty group may not be freed.
        let empty = Object::<GroupBody>::at(group::GROUP_EMPTY as u32);
        if !empty.has_lower(self.0.read_lower()) {
            named::MPI_Group_free(&mut self.0);
        }
    }
}

impl ReadLower for &LowerGroup {
    #[inline(always)]
    fn read_lower(self) -> usize {
        self.0.read_lower()
    }
}

impl Below<GroupBody> for &LowerGroup {}
