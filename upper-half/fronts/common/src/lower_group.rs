//! A group in the lower half. Groups exist in the upper half only. The few crossings that take a group (one-sided
//! synchronisation) get a lower group that lives as long as the call.
//!
//! # Safety
//! The crossings that are called here write to locals, and read arrays of the length that they are given.
#![allow(unsafe_code)]

use contract::abi::SUCCESS;
use upper_half::object::{Comm, Group};
use upper_half::stubs;

/// A group of the lower half, freed on drop.
pub struct LowerGroup {
    lower_handle: usize,
}

impl LowerGroup {
    /// Makes a lower group with the processes of `group` in the same order.
    ///
    /// # Errors
    /// The error class of the library's `MPI_Comm_group` or `MPI_Group_incl`, or of a process that no rank is.
    pub fn of(group: &'static Group) -> Result<LowerGroup, i32> {
        let ranks = world_ranks(group)?;
        let world = Comm::at(contract::abi::comm::COMM_WORLD as u32);
        let (mut all, mut lower_handle) = (0, 0);
        // SAFETY: the crossings write handles to the locals `all` and `lower handle`, and read the `ranks.len()`
        // entries of `ranks`.
        unsafe {
            check(stubs::MPI_Comm_group(world.lower(), &mut all))?;
            let made =
                stubs::MPI_Group_incl(all, ranks.len() as i32, ranks.as_ptr(), &mut lower_handle);
            stubs::MPI_Group_free(&mut all);
            check(made)?;
        }
        Ok(LowerGroup { lower_handle })
    }

    /// The lower half's handle of the group.
    pub fn read_lower(&self) -> usize {
        self.lower_handle
    }
}

impl Drop for LowerGroup {
    fn drop(&mut self) {
        if Group::at(contract::abi::group::GROUP_EMPTY as u32).has_lower(self.lower_handle) {
            return;
        }
        // SAFETY: `of` made this group, and nothing frees it before. MPI keeps a group alive that an operation still
        // uses.
        unsafe {
            stubs::MPI_Group_free(&mut self.lower_handle);
        }
    }
}

/// Ranks in MPI_COMM_WORLD of the processes of `group`.
fn world_ranks(group: &'static Group) -> Result<Vec<i32>, i32> {
    let world = Comm::at(contract::abi::comm::COMM_WORLD as u32);
    let mut size = 0;
    let mut all = Group::null();
    check(upper_half::group_size(group, (&mut size).into()))?;
    check(upper_half::comm_group(world, &mut all))?;
    let own: Vec<i32> = (0..size).collect();
    let mut ranks = vec![0; own.len()];
    let translated =
        upper_half::group_translate_ranks(group, size, &own, all, ranks.as_mut_slice().into());
    upper_half::group_free(&mut all);
    check(translated).map(|()| ranks)
}

fn check(code: i32) -> Result<(), i32> {
    if code == SUCCESS {
        Ok(())
    } else {
        Err(code)
    }
}
