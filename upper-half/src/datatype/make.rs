//! Datatypes in the lower half, made of the recorded call of their constructor: when the application makes one, and at
//! every restart.
//!
//! # Safety
//! Crossings pass arrays of the recorded call. Each array is as long as the count beside it says.
#![allow(unsafe_code)]

use crate::argument::{Input, Out};
use crate::crossing::mpi_result::check;
use crate::crossing::stubs;
use crate::datatype::compose;
use crate::datatype::extent::learn_size;
use crate::object::datatype::{Contents, DatatypeBody};
use crate::object::lower_handle::{named, Fresh, Unparked};
use crate::object::Datatype;
use contract::abi::*;

/// The first `n` entries of a recorded array. A negative number is for the library to refuse.
fn first<T>(entries: &[T], n: i32) -> Result<Input<'_, T>, i32> {
    let n = usize::try_from(n).unwrap_or(0);
    entries.get(..n).map(Input::from).ok_or(ERR_ARG)
}

/// Reads a constructor's arrays out of its recorded integers, in order.
struct Integers<'a>(&'a [i32]);

impl<'a> Integers<'a> {
    fn one(&mut self) -> i32 {
        let first = self.0.first().copied().unwrap_or(0);
        self.0 = self.0.get(1..).unwrap_or_default();
        first
    }

    fn many(&mut self, n: i32) -> Result<Input<'a, i32>, i32> {
        let array = first(self.0, n)?;
        self.0 = &self.0[usize::try_from(n).unwrap_or(0)..];
        Ok(array)
    }
}

/// Makes the datatype in the lower half: when the application makes it, and at every restart. The datatypes of its
/// contents must have their lower handles.
pub(crate) fn make_datatype_below<'a>(
    contents: &Contents,
    unparked: &'a Unparked,
) -> Result<Fresh<'a, DatatypeBody>, i32> {
    if !contents.counts.is_empty() {
        return match narrowed(contents) {
            Some(ordinary) => make_datatype_below(&ordinary, unparked),
            None => compose::compose(contents, unparked),
        };
    }
    let types = &contents.datatypes;
    let old = types.first().copied().unwrap_or_else(Datatype::null);
    let addresses = |n: i32| first(&contents.addresses, n);
    let address = |i: usize| contents.addresses.get(i).copied().unwrap_or(0);
    let mut integers = Integers(&contents.integers);
    let i = &mut integers;
    let mut made = unparked.fresh();
    let out = &mut made;
    let code = match contents.combiner {
        COMBINER_DUP => named::MPI_Type_dup(old, out),
        COMBINER_CONTIGUOUS => named::MPI_Type_contiguous(i.one(), old, out),
        COMBINER_VECTOR => named::MPI_Type_vector(i.one(), i.one(), i.one(), old, out),
        COMBINER_HVECTOR => named::MPI_Type_create_hvector(i.one(), i.one(), address(0), old, out),
        COMBINER_INDEXED => {
            let n = i.one();
            named::MPI_Type_indexed(n, i.many(n)?, i.many(n)?, old, out)
        }
        COMBINER_HINDEXED => {
            let n = i.one();
            named::MPI_Type_create_hindexed(n, i.many(n)?, addresses(n)?, old, out)
        }
        COMBINER_INDEXED_BLOCK => {
            let n = i.one();
            named::MPI_Type_create_indexed_block(n, i.one(), i.many(n)?, old, out)
        }
        COMBINER_HINDEXED_BLOCK => {
            let n = i.one();
            named::MPI_Type_create_hindexed_block(n, i.one(), addresses(n)?, old, out)
        }
        COMBINER_STRUCT => {
            let n = i.one();
            let (lengths, places) = (i.many(n)?, addresses(n)?);
            let lower_handles: Vec<_> = types.iter().map(|child| unparked.held(child)).collect();
            let lower_handles = first(&lower_handles, n)?.as_ptr().cast();
            let (lengths, places) = (lengths.as_ptr(), places.as_ptr());
            // SAFETY: `first` has checked the length of each array. A held lower handle has the layout of a lower
            // handle.
            unsafe { stubs::MPI_Type_create_struct(n, lengths, places, lower_handles, out.place()) }
        }
        COMBINER_SUBARRAY => {
            let n = i.one();
            let (sizes, subsizes, starts) = (i.many(n)?, i.many(n)?, i.many(n)?);
            named::MPI_Type_create_subarray(n, sizes, subsizes, starts, i.one(), old, out)
        }
        COMBINER_DARRAY => {
            let (size, rank, n) = (i.one(), i.one(), i.one());
            let (gsizes, distribs, dargs, psizes) =
                (i.many(n)?, i.many(n)?, i.many(n)?, i.many(n)?);
            named::MPI_Type_create_darray(
                size,
                rank,
                n,
                gsizes,
                distribs,
                dargs,
                psizes,
                i.one(),
                old,
                out,
            )
        }
        COMBINER_RESIZED => named::MPI_Type_create_resized(old, address(0), address(1), out),
        COMBINER_F90_INTEGER => named::MPI_Type_create_f90_integer(i.one(), out),
        COMBINER_F90_REAL => named::MPI_Type_create_f90_real(i.one(), i.one(), out),
        COMBINER_F90_COMPLEX => named::MPI_Type_create_f90_complex(i.one(), i.one(), out),
        _ => ERR_INTERN,
    };
    check(code).map(|()| made)
}

/// The ordinary constructor's call for a large-count constructor's, if all its counts fit.
fn narrowed(contents: &Contents) -> Option<Contents> {
    let counts = &contents.counts;
    let ints = |counts: &[i64]| -> Option<Vec<i32>> {
        counts.iter().map(|&count| count.try_into().ok()).collect()
    };
    // How many of the large counts are addresses in the ordinary form: those at the end.
    let blocks = counts
        .first()
        .map_or(0, |&n| usize::try_from(n).unwrap_or(0));
    let addresses = match contents.combiner {
        COMBINER_HVECTOR => 1,
        COMBINER_HINDEXED | COMBINER_HINDEXED_BLOCK | COMBINER_STRUCT => blocks,
        COMBINER_RESIZED => counts.len(),
        _ => 0,
    };
    let (counts, addresses) = counts.split_at(counts.len().checked_sub(addresses)?);
    let before = match contents.combiner {
        COMBINER_SUBARRAY => 1,
        COMBINER_DARRAY => 3,
        _ => 0,
    };
    let (first, last) = contents.integers.split_at_checked(before)?;
    Some(Contents {
        combiner: contents.combiner,
        integers: [first, &ints(counts)?, last].concat(),
        addresses: addresses.iter().map(|&address| address as isize).collect(),
        counts: vec![],
        datatypes: contents.datatypes.clone(),
    })
}

/// Makes a datatype below from its recorded call, and an object of it with this body.
pub(crate) fn make_object(
    contents: Contents,
    body: impl FnOnce(Contents) -> DatatypeBody,
) -> Result<&'static Datatype, i32> {
    // SAFETY: the thread does not park where a datatype is made.
    let unparked = unsafe { Unparked::new() };
    let below = make_datatype_below(&contents, &unparked)?;
    for child in &contents.datatypes {
        child.retain();
    }
    let made = Datatype::make_of(below, body(contents))?;
    learn_size(made);
    Ok(made)
}

/// Makes a datatype for the application from its recorded call.
pub(crate) fn make_datatype(contents: Contents) -> Result<&'static Datatype, i32> {
    if contents.datatypes.iter().any(|child| child.is_null()) {
        return Err(ERR_TYPE);
    }
    make_object(contents, DatatypeBody::new)
}

/// Ends a constructor: makes the datatype of its recorded call, or gives the error.
pub(crate) fn create_datatype(contents: Contents, new: &mut &'static Datatype) -> i32 {
    Out::from(new).give(make_datatype(contents))
}

/// The entries of several arrays, after the values `before` and before the values `after`.
pub(crate) fn listed<T: Copy>(before: &[T], arrays: &[Input<'_, T>], after: &[T]) -> Vec<T> {
    let entries: usize = arrays.iter().map(|array| array.len()).sum();
    let mut all = Vec::with_capacity(before.len() + entries + after.len());
    all.extend_from_slice(before);
    for array in arrays {
        all.extend(array.iter());
    }
    all.extend_from_slice(after);
    all
}

/// The recorded form of a constructor with one old datatype.
pub(crate) fn of_one(
    combiner: i32,
    integers: Vec<i32>,
    addresses: Vec<isize>,
    old: &'static Datatype,
) -> Contents {
    Contents {
        combiner,
        integers,
        addresses,
        counts: vec![],
        datatypes: vec![old],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::contents::{type_get_contents, type_get_envelope, type_get_envelope_c};
    use crate::datatype::name_address::type_get_name;
    use crate::object::init;
    use core::ffi::{c_char, CStr};

    fn record(contents: Contents) -> &'static Datatype {
        init();
        for child in &contents.datatypes {
            child.retain();
        }
        Datatype::make(0, DatatypeBody::new(contents)).expect("a datatype")
    }

    #[test]
    fn contents_come_back_as_the_standard_orders_them() {
        init();
        let int = Datatype::at(datatype::INT as u32);
        let integers = vec![2, 3, 1, 0, 4];
        let made = record(of_one(COMBINER_INDEXED, integers.clone(), vec![], int));
        let envelope = |of| {
            let mut numbers = [0; 4];
            let [i, a, d, combiner] = numbers.each_mut().map(Out::from);
            (type_get_envelope(of, i, a, d, combiner), numbers)
        };
        assert_eq!(envelope(made), (SUCCESS, [5, 0, 1, COMBINER_INDEXED]));
        assert_eq!(envelope(int), (SUCCESS, [0, 0, 0, COMBINER_NAMED]));
        let mut got = [0; 5];
        let mut types = [Datatype::null()];
        let mut contents = |room| {
            let integers = (&mut got[..room]).into();
            let addresses = (&mut [][..]).into();
            type_get_contents(made, room as i32, 0, 1, integers, addresses, &mut types)
        };
        assert_eq!((contents(5), contents(4)), (SUCCESS, ERR_ARG));
        assert_eq!(got.as_slice(), integers);
        assert_eq!(types[0].index(), int.index());
    }

    #[test]
    fn large_counts_that_fit_are_those_of_the_ordinary_constructor() {
        init();
        let int = Datatype::at(datatype::INT as u32);
        let large = |combiner, integers: &[i32], counts: &[i64]| Contents {
            combiner,
            integers: integers.to_vec(),
            addresses: vec![],
            counts: counts.to_vec(),
            datatypes: vec![int],
        };
        let narrow = |contents| {
            let narrowed = narrowed(&contents)?;
            Some((narrowed.integers, narrowed.addresses))
        };
        let hvector = large(COMBINER_HVECTOR, &[], &[3, 4, 1 << 40]);
        assert_eq!(narrow(hvector), Some((vec![3, 4], vec![1 << 40])));
        let hindexed = large(COMBINER_HINDEXED, &[], &[2, 5, 6, 1 << 40, -8]);
        assert_eq!(narrow(hindexed), Some((vec![2, 5, 6], vec![1 << 40, -8])));
        let subarray = large(COMBINER_SUBARRAY, &[1, ORDER_C], &[9, 3, 2]);
        assert_eq!(narrow(subarray), Some((vec![1, 9, 3, 2, ORDER_C], vec![])));
        assert_eq!(narrow(large(COMBINER_CONTIGUOUS, &[], &[1 << 31])), None);
        let made = record(large(COMBINER_CONTIGUOUS, &[], &[7]));
        let (mut n, mut combiner) = ([0_i64; 4], 0);
        let mut small = [0_i32; 3];
        let [i, a, c, d] = n.each_mut().map(Out::from);
        let code = type_get_envelope_c(made, i, a, c, d, (&mut combiner).into());
        assert_eq!((code, n), (SUCCESS, [0, 0, 1, 1]));
        let [i, a, d] = small.each_mut().map(Out::from);
        let code = type_get_envelope(made, i, a, d, (&mut combiner).into());
        assert_eq!(code, ERR_TYPE);
    }

    #[test]
    fn arrays_that_are_too_short_do_not_reach_the_library() {
        init();
        let int = Datatype::at(datatype::INT as u32);
        let refused = |combiner, integers: &[i32], addresses: &[isize]| {
            let call = of_one(combiner, integers.to_vec(), addresses.to_vec(), int);
            make_datatype(call).map(drop)
        };
        assert_eq!(refused(COMBINER_INDEXED, &[2, 1, 1, 0], &[]), Err(ERR_ARG));
        assert_eq!(refused(COMBINER_HINDEXED, &[2, 1, 1], &[0]), Err(ERR_ARG));
        assert_eq!(refused(COMBINER_STRUCT, &[2, 1, 1], &[0, 8]), Err(ERR_ARG));
    }

    #[test]
    fn children_are_kept_while_they_are_used() {
        init();
        let int = Datatype::at(datatype::INT as u32);
        let child = record(of_one(COMBINER_CONTIGUOUS, vec![2], vec![], int));
        let parent = record(of_one(COMBINER_CONTIGUOUS, vec![2], vec![], child));
        assert_eq!(child.references(), 2);
        let mut types = [Datatype::null()];
        let mut got = [0];
        let (integers, addresses) = ((&mut got[..]).into(), (&mut [][..]).into());
        type_get_contents(parent, 1, 0, 1, integers, addresses, &mut types);
        assert_eq!(child.references(), 3);
        assert!(child.index() < parent.index());
    }

    #[test]
    fn names_of_predefined_datatypes() {
        init();
        let mut name = [0 as c_char; 64];
        let mut length = 0;
        let twoint = Datatype::at(datatype::TWOINT as u32);
        type_get_name(twoint, (&mut name[..]).into(), (&mut length).into());
        let bytes = name.map(|byte| byte as u8);
        assert_eq!(CStr::from_bytes_until_nul(&bytes), Ok(c"MPI_2INT"));
        assert_eq!(length, 8);
    }
}
