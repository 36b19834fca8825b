//! Large counts: the `_c` functions of MPI 4.
//!
//! A large count need not reach the library below: one element of a datatype that holds them all is
//! the same data. So a count that does not fit an int is folded into such a datatype ([`fold`]),
//! which is a virtual datatype like any other, and the call goes on as that of the ordinary form:
//! counting, draining, pending and persistent operations and their restart have no case for large
//! counts, and every library serves them. Large-count constructors of datatypes are made of ordinary
//! ones in the same way (`compose.rs`), which is what a restart does too.
//!
//! What cannot be folded crosses as it is: arrays of counts, reductions, sizes in bytes. Over a
//! library that has no such function the lower half uses the ordinary one for counts that fit it, and
//! refuses others by name.
//!
//! # Safety
//! Crossings pass words of live objects; out parameters are the application's, as MPI prescribes them.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head
#![allow(clippy::too_many_arguments)] // MPI's own signatures

mod compose;
mod constructors;

pub(crate) use compose::compose;
pub use constructors::*;

use crate::code::check;
use crate::datatype::{create, type_commit};
use crate::lower::named;
use crate::object::{Comm, Datatype, Op};
use crate::unsupported;
use constructors::contiguous;
use contract::abi::{ERR_TYPE, ERR_UNSUPPORTED_OPERATION, SUCCESS};
use core::sync::atomic::Ordering;

/// A number of elements that fits an int, and their datatype: what a large count and its datatype
/// fold into.
pub struct Fold {
    count: i32,
    datatype: &'static Datatype,
    /// Whether the datatype was made for this, and ends with it. Operations under way keep it.
    made: bool,
}

impl Fold {
    /// How many elements.
    #[inline(always)]
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Their datatype.
    #[inline(always)]
    pub fn datatype(&self) -> &'static Datatype {
        self.datatype
    }
}

impl Drop for Fold {
    #[inline(always)]
    fn drop(&mut self) {
        if self.made {
            self.datatype.release();
        }
    }
}

/// Folds `count` elements of a datatype into as many as an int can tell.
#[inline(always)]
pub fn fold(count: i64, datatype: &'static Datatype) -> Result<Fold, i32> {
    match i32::try_from(count) {
        Ok(count) => Ok(Fold {
            count,
            datatype,
            made: false,
        }),
        Err(_) => fold_into_one(count, datatype),
    }
}

#[cold]
fn fold_into_one(count: i64, datatype: &'static Datatype) -> Result<Fold, i32> {
    if count < 0 || datatype.is_null() {
        // Wrong, unless it is not looked at: that is seen below.
        return Ok(Fold {
            count: if count < 0 { -1 } else { 1 },
            datatype,
            made: false,
        });
    }
    if !datatype.body.committed.load(Ordering::Relaxed) {
        return Err(ERR_TYPE);
    }
    let mut fold = Fold {
        count: 1,
        datatype: Datatype::null(),
        made: true,
    };
    // SAFETY: crosses with live datatypes; places for one are locals.
    unsafe {
        check(create(contiguous(count, datatype), &raw mut fold.datatype))?;
        check(type_commit(&raw mut fold.datatype))?;
    }
    Ok(fold)
}

/// Whether an operation can be applied to so many elements: the library below tells a user-defined
/// one how many there are by an int. `name` is the function that wants it.
#[inline(always)]
pub fn may_reduce(op: &'static Op, count: i64, name: &str) -> Result<(), i32> {
    if count > i64::from(i32::MAX) && op.body.is_user_defined() {
        unsupported(
            name,
            "an operation of the program's own is applied to at most 2147483647 elements at a time; \
             reduce them in parts",
        );
        return Err(ERR_UNSUPPORTED_OPERATION);
    }
    Ok(())
}

/// MPI_Pack_size_c. The ordinary form serves sizes of which even twice as much fits an int.
pub unsafe fn pack_size_c(
    count: i64,
    datatype: &'static Datatype,
    comm: &'static Comm,
    size: *mut i64,
) -> i32 {
    let bytes = count.saturating_mul(datatype.body.size());
    // SAFETY: crosses with live objects; the caller's place for a size.
    unsafe {
        match i32::try_from(count) {
            Ok(count) if bytes <= i64::from(i32::MAX / 2) => {
                let mut small = 0;
                let code = named::MPI_Pack_size(count, datatype, comm, &raw mut small);
                if code == SUCCESS {
                    *size = small.into();
                }
                code
            }
            _ => named::MPI_Pack_size_c(count, datatype, comm, size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_passed_on() {
        crate::object::init();
        let double = Datatype::at(contract::abi::datatype::DOUBLE as u32);
        for count in [0, -3, i32::MAX, i32::MIN] {
            let fold = fold(count.into(), double).expect("nothing to make");
            assert_eq!(
                (fold.count(), fold.datatype().index()),
                (count, double.index())
            );
        }
    }

    #[test]
    fn what_is_wrong_is_left_to_the_library() {
        crate::object::init();
        let double = Datatype::at(contract::abi::datatype::DOUBLE as u32);
        assert_eq!(fold(i64::MIN, double).map(|fold| fold.count()), Ok(-1));
        let of_nothing = fold(1 << 40, Datatype::null()).expect("nothing to make");
        assert!(of_nothing.datatype().is_null());
    }
}
