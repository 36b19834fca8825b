//! A group in the lower half. Groups live in the upper half alone; the few crossings that take one
//! (one-sided synchronisation) get it made for the length of the call.
//!
//! # Safety
//! The crossings and core functions called here write to locals and to arrays of the length that
//! they are given.
#![allow(unsafe_code)]

use contract::abi::SUCCESS;
use upper_half::lower;
use upper_half::object::{Comm, Group};

/// A lower group, freed on drop.
pub struct LowerGroup {
    word: usize,
}

impl LowerGroup {
    /// Makes the lower group with the same processes in the same order, or gives the error class.
    pub fn of(group: &'static Group) -> Result<LowerGroup, i32> {
        let ranks = world_ranks(group)?;
        let world = Comm::at(contract::abi::comm::COMM_WORLD as u32);
        let (mut all, mut word) = (0, 0);
        // SAFETY: see the module's head.
        unsafe {
            check(lower::MPI_Comm_group(world.lower(), &mut all))?;
            let made = lower::MPI_Group_incl(all, ranks.len() as i32, ranks.as_ptr(), &mut word);
            lower::MPI_Group_free(&mut all);
            check(made)?;
        }
        Ok(LowerGroup { word })
    }

    /// The lower half's word for it.
    pub fn word(&self) -> usize {
        self.word
    }
}

impl Drop for LowerGroup {
    fn drop(&mut self) {
        if Group::at(contract::abi::group::GROUP_EMPTY as u32).has_word(self.word) {
            return;
        }
        // SAFETY: made by `of`, and MPI keeps a group alive that an operation still uses.
        unsafe {
            lower::MPI_Group_free(&mut self.word);
        }
    }
}

fn world_ranks(group: &'static Group) -> Result<Vec<i32>, i32> {
    let world = Comm::at(contract::abi::comm::COMM_WORLD as u32);
    let mut size = 0;
    let mut all = Group::null();
    // SAFETY: see the module's head.
    unsafe {
        check(upper_half::group_size(group, &mut size))?;
        check(upper_half::comm_group(world, &mut all))?;
        let own: Vec<i32> = (0..size).collect();
        let mut ranks = vec![0; own.len()];
        let translated =
            upper_half::group_translate_ranks(group, size, own.as_ptr(), all, ranks.as_mut_ptr());
        upper_half::group_free(&mut all);
        check(translated).map(|()| ranks)
    }
}

fn check(code: i32) -> Result<(), i32> {
    if code == SUCCESS {
        Ok(())
    } else {
        Err(code)
    }
}
