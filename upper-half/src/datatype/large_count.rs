//! Large counts: the `_c` functions of MPI 4.
//!
//! A large count need not reach the library below: one element of a datatype that holds all elements is the same data.
//! So a count that does not fit an int is folded into such a datatype ([`fold`]), which is a virtual datatype like any
//! other, and the call goes on as that of the ordinary form. So counting, draining, pending and persistent operations
//! and their restart have no case for large counts, and every library serves them. Large-count constructors of
//! datatypes are made of ordinary ones in the same way (`compose.rs`), by a restart too.
//!
//! Arrays of counts, reductions, and sizes in bytes cannot be folded, and cross as they are. Over a library that has no
//! such function the lower half uses the ordinary one for counts that fit it, and refuses others by name.

use crate::argument::Out;
use crate::crossing::mpi_result::check;
use crate::crossing::report::unsupported;
use crate::datatype::commit_free::type_commit;
use crate::datatype::large_constructors::contiguous;
use crate::datatype::make::make_datatype;
use crate::object::lower_handle::named;
use crate::object::{Comm, Datatype, Op};
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
///
/// # Errors
/// `MPI_ERR_TYPE` if the datatype is not committed, or the error class of the one that has them all.
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
        datatype: make_datatype(contiguous(count, datatype))?,
        made: true,
    };
    check(type_commit(&mut fold.datatype))?;
    Ok(fold)
}

/// Whether an operation can be applied to that number of elements: the library below tells a user-defined
/// one how many there are by an int. `name` is the function that wants it.
///
/// # Errors
/// `MPI_ERR_UNSUPPORTED_OPERATION`, after a message that names the function.
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
pub fn pack_size_c(
    count: i64,
    datatype: &'static Datatype,
    comm: &'static Comm,
    mut size: Out<'_, i64>,
) -> i32 {
    let bytes = count.saturating_mul(datatype.body.size());
    let (mut small, mut large) = (0, 0);
    let code = match i32::try_from(count) {
        Ok(count) if bytes <= i64::from(i32::MAX / 2) => {
            let code = named::MPI_Pack_size(count, datatype, comm, &mut small);
            large = small.into();
            code
        }
        _ => named::MPI_Pack_size_c(count, datatype, comm, &mut large),
    };
    if code == SUCCESS {
        size.set(large);
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::init;

    #[test]
    fn what_fits_is_passed_on() {
        init();
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
        init();
        let double = Datatype::at(contract::abi::datatype::DOUBLE as u32);
        assert_eq!(fold(i64::MIN, double).map(|fold| fold.count()), Ok(-1));
        let of_nothing = fold(1 << 40, Datatype::null()).expect("nothing to make");
        assert!(of_nothing.datatype().is_null());
    }
}
