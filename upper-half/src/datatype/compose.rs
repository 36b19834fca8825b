//! Datatypes of large counts, made below of ordinary constructors, so that every library has them, and a restart under
//! another library too. Too many repetitions are made in pieces, and a block that is too long is one element of a
//! datatype of its own. Only elements that lie apart, and are more than an int can count, go to a large-count
//! constructor below, in libraries that have one.
//!
//! # Safety
//! Arrays have the lengths that are passed beside them.
#![allow(unsafe_code)]

use crate::argument::Input;
use crate::crossing::mpi_result::check;
use crate::crossing::report::unsupported;
use crate::crossing::stubs;
use crate::object::datatype::Contents;
use crate::object::lower_handle::{named, Fresh, Held, Unparked};
use crate::object::DatatypeBody;
use contract::abi::*;

/// Elements of which more than an int can tell are made.
const PIECE: i64 = 1 << 30;

/// A datatype of the contents, or one that was made of them.
type Element<'a> = Held<'a, DatatypeBody>;

/// A datatype below, which ends with this: what is made from it keeps what it needs.
struct Made<'a>(Fresh<'a, DatatypeBody>);

impl<'a> Made<'a> {
    /// What `constructor` makes.
    fn by(
        unparked: &'a Unparked,
        constructor: impl FnOnce(&mut Fresh<'a, DatatypeBody>) -> i32,
    ) -> Result<Made<'a>, i32> {
        let mut made = unparked.fresh();
        check(constructor(&mut made)).map(|()| Made(made))
    }

    /// The datatype, which is the caller's to free.
    fn keep(mut self) -> Fresh<'a, DatatypeBody> {
        let none = self.0.another();
        core::mem::replace(&mut self.0, none)
    }

    fn element(&self) -> Element<'_> {
        self.0.held()
    }

    /// The same with these bounds, which a constructor may have rounded.
    fn bounded(self, unparked: &'a Unparked, bounds: Bounds) -> Result<Made<'a>, i32> {
        if Bounds::of(self.element())? == bounds {
            return Ok(self);
        }
        let (lower, extent) = (bounds.lower as isize, bounds.extent()? as isize);
        Made::by(unparked, |made| {
            named::MPI_Type_create_resized(&self.0, lower, extent, made)
        })
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // A failure leaks below.
            named::MPI_Type_free(&mut self.0);
        }
    }
}

/// Where a datatype begins and ends, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    lower: i64,
    upper: i64,
}

impl Bounds {
    /// Those of a datatype below.
    fn of(element: Element<'_>) -> Result<Bounds, i32> {
        let (mut lower, mut extent) = (0, 0);
        check(named::MPI_Type_get_extent(element, &mut lower, &mut extent))?;
        let lower = lower as i64;
        Ok(Bounds {
            lower,
            upper: lower + extent as i64,
        })
    }

    fn extent(self) -> Result<i64, i32> {
        self.upper.checked_sub(self.lower).ok_or(ERR_ARG)
    }

    /// Of `n` such, the first at `displacement`, each `stride` bytes from the one before.
    fn repeated(self, n: i64, displacement: i64, stride: i64) -> Result<Bounds, i32> {
        let last = product(n - 1, stride)?;
        let moved = |bound: i64, by: i64| {
            let sum = bound.checked_add(displacement)?.checked_add(by);
            sum.filter(|_| n > 0)
        };
        Ok(Bounds {
            lower: moved(self.lower, last.min(0)).ok_or(ERR_ARG)?,
            upper: moved(self.upper, last.max(0)).ok_or(ERR_ARG)?,
        })
    }
}

fn product(a: i64, b: i64) -> Result<i64, i32> {
    a.checked_mul(b).ok_or(ERR_ARG)
}

/// `n` elements, each `stride` bytes from the one before, by one constructor below.
fn vector<'a>(
    unparked: &'a Unparked,
    n: i64,
    stride: i64,
    element: Element<'_>,
) -> Result<Made<'a>, i32> {
    Made::by(unparked, |made| match i32::try_from(n) {
        Ok(n) => named::MPI_Type_create_hvector(n, 1, stride as isize, element, made),
        Err(_) => named::MPI_Type_create_hvector_c(n, 1, stride, element, made),
    })
}

/// `n` elements, each `stride` bytes from the one before, in pieces if that is needed.
fn repeat<'a>(
    unparked: &'a Unparked,
    n: i64,
    stride: i64,
    element: Element<'_>,
) -> Result<Made<'a>, i32> {
    let fits = i32::try_from(n).is_ok();
    // Intel MPI cannot tell how many blocks a structure of pieces has, if an int cannot.
    if fits || Bounds::of(element)?.extent()? != stride {
        let whole = vector(unparked, n, stride, element);
        if fits || whole.as_ref().err() != Some(&ERR_UNSUPPORTED_OPERATION) {
            return whole;
        }
    }
    let pieces = i32::try_from(n / PIECE).map_err(|_| ERR_COUNT)?;
    if pieces < 0 {
        return Err(ERR_COUNT);
    }
    let piece = vector(unparked, PIECE, stride, element)?;
    let (count, size) = (pieces.into(), product(PIECE, stride)?);
    let whole = vector(unparked, count, size, piece.element())?;
    let rest = vector(unparked, n % PIECE, stride, element)?;
    let bounds = Bounds::of(element)?.repeated(n, 0, stride)?;
    let at = product(n - n % PIECE, stride)?;
    let types = [whole.element(), rest.element()];
    structure(unparked, &[1, 1], &[0, at as isize], &types)?.bounded(unparked, bounds)
}

/// Elements of several datatypes: how many of each, and at how many bytes. The arrays have the same length.
fn structure<'a>(
    unparked: &'a Unparked,
    lengths: &[i32],
    at: &[isize],
    types: &[Element<'_>],
) -> Result<Made<'a>, i32> {
    if at.len() != lengths.len() || types.len() != lengths.len() {
        return Err(ERR_INTERN);
    }
    let n = i32::try_from(lengths.len()).map_err(|_| ERR_COUNT)?;
    let (lengths, at, types) = (lengths.as_ptr(), at.as_ptr(), types.as_ptr().cast());
    // SAFETY: n entries each, since the three have the same length. A held lower handle has the layout of a lower
    // handle.
    Made::by(unparked, |made| unsafe {
        stubs::MPI_Type_create_struct(n, lengths, at, types, made.place())
    })
}

/// A block of elements: how many, at how many bytes, and what they are.
struct Block<'a> {
    length: i64,
    at: i64,
    element: Element<'a>,
}

/// Blocks one beside the other. MPI_Type_create_struct rounds the extent up, the other
/// constructors do not.
fn blocks<'a>(unparked: &'a Unparked, all: &[Block<'_>], rounded: bool) -> Result<Made<'a>, i32> {
    let long = |block: &Block<'_>| match i32::try_from(block.length) {
        Ok(_) => Ok(None),
        Err(_) => {
            let stride = Bounds::of(block.element)?.extent()?;
            repeat(unparked, block.length, stride, block.element).map(Some)
        }
    };
    let long = all.iter().map(long).collect::<Result<Vec<_>, i32>>()?;
    let (mut lengths, mut places, mut types) = (Vec::new(), Vec::new(), Vec::new());
    let mut bounds: Option<Bounds> = None;
    for (block, long) in all.iter().zip(&long) {
        let of_element = Bounds::of(block.element)?;
        let stride = of_element.extent()?;
        let (length, element) = match long {
            Some(long) => (1, long.element()),
            None => (block.length as i32, block.element),
        };
        lengths.push(length);
        places.push(block.at as isize);
        types.push(element);
        if block.length > 0 {
            let one = of_element.repeated(block.length, block.at, stride)?;
            let all = bounds.unwrap_or(one);
            bounds = Some(Bounds {
                lower: all.lower.min(one.lower),
                upper: all.upper.max(one.upper),
            });
        }
    }
    let whole = structure(unparked, &lengths, &places, &types)?;
    match bounds.filter(|_| !rounded) {
        Some(bounds) => whole.bounded(unparked, bounds),
        None => Ok(whole),
    }
}

/// A part of an array: by dimension, the fastest first, its size there, and the part's and its start.
fn subarray<'a>(
    unparked: &'a Unparked,
    dimensions: impl Iterator<Item = (i64, i64, i64)>,
    element: Element<'_>,
) -> Result<Made<'a>, i32> {
    let mut stride = Bounds::of(element)?.extent()?;
    let (mut part, mut at) = (None::<Made<'a>>, 0_i64);
    for (size, subsize, start) in dimensions {
        let inner = part.as_ref().map_or(element, Made::element);
        part = Some(repeat(unparked, subsize, stride, inner)?);
        at = at.checked_add(product(start, stride)?).ok_or(ERR_ARG)?;
        stride = product(stride, size)?;
    }
    let element = part.as_ref().map_or(element, Made::element);
    let whole = Bounds {
        lower: 0,
        upper: stride,
    };
    structure(unparked, &[1], &[at as isize], &[element])?.bounded(unparked, whole)
}

/// Makes the datatype of a large-count constructor whose counts do not all fit an int. The datatypes of its contents
/// must have their lower handles.
pub(crate) fn compose<'a>(
    contents: &Contents,
    unparked: &'a Unparked,
) -> Result<Fresh<'a, DatatypeBody>, i32> {
    let counts = &contents.counts[..];
    let count = |i: usize| counts.get(i).copied().unwrap_or(0);
    let n = usize::try_from(count(0)).map_err(|_| ERR_COUNT)?;
    let datatypes = contents.datatypes.iter();
    let elements: Vec<_> = datatypes.map(|child| unparked.held(child)).collect();
    let old = *elements.first().ok_or(ERR_TYPE)?;
    let extent = || Bounds::of(old)?.extent();
    // Blocks whose lengths and displacements follow the count, or that are all of one length.
    let listed = |length: Option<i64>, unit: i64| -> Result<Vec<Block<'_>>, i32> {
        let displacements = if length.is_some() { 2 } else { 1 + n };
        let block = |i: usize| {
            Ok(Block {
                length: length.unwrap_or_else(|| count(1 + i)),
                at: product(count(displacements + i), unit)?,
                element: elements.get(i).copied().unwrap_or(old),
            })
        };
        (0..n).map(block).collect()
    };
    let vector = |stride: i64| {
        let block = repeat(unparked, count(1), extent()?, old)?;
        repeat(unparked, count(0), stride, block.element())
    };
    let made = match contents.combiner {
        COMBINER_CONTIGUOUS => repeat(unparked, count(0), extent()?, old),
        COMBINER_VECTOR => vector(product(count(2), extent()?)?),
        COMBINER_HVECTOR => vector(count(2)),
        COMBINER_INDEXED => blocks(unparked, &listed(None, extent()?)?, false),
        COMBINER_HINDEXED => blocks(unparked, &listed(None, 1)?, false),
        COMBINER_INDEXED_BLOCK => blocks(unparked, &listed(Some(count(1)), extent()?)?, false),
        COMBINER_HINDEXED_BLOCK => blocks(unparked, &listed(Some(count(1)), 1)?, false),
        COMBINER_STRUCT => blocks(unparked, &listed(None, 1)?, true),
        COMBINER_SUBARRAY => {
            let dims = counts.len() / 3;
            let dimension = |i: usize| (count(i), count(dims + i), count(2 * dims + i));
            match contents.integers.get(1) {
                Some(&ORDER_FORTRAN) => subarray(unparked, (0..dims).map(dimension), old),
                _ => subarray(unparked, (0..dims).rev().map(dimension), old),
            }
        }
        COMBINER_DARRAY => darray(unparked, contents, old),
        _ => Err(ERR_INTERN),
    };
    made.map(Made::keep)
}

/// An array that is distributed in ways of its own is the library's to describe, if it can.
fn darray<'a>(
    unparked: &'a Unparked,
    contents: &Contents,
    old: Element<'_>,
) -> Result<Made<'a>, i32> {
    let [size, rank, ndims, arrays @ .., order] = &contents.integers[..] else {
        return Err(ERR_INTERN);
    };
    let dims = contents.counts.len();
    if usize::try_from(*ndims) != Ok(dims) || arrays.len() != 3 * dims {
        return Err(ERR_ARG);
    }
    let array = |i: usize| Input::from(&arrays[i * dims..]);
    let made = Made::by(unparked, |made| {
        named::MPI_Type_create_darray_c(
            *size,
            *rank,
            *ndims,
            Input::from(&contents.counts[..]),
            array(0),
            array(1),
            array(2),
            *order,
            old,
            made,
        )
    });
    if made.as_ref().err() == Some(&ERR_UNSUPPORTED_OPERATION) {
        unsupported(
            "MPI_Type_create_darray_c",
            "this MPI library distributes at most 2147483647 elements in a dimension",
        );
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_what_is_repeated() {
        let int = Bounds { lower: 0, upper: 4 };
        let far = int.repeated(1 << 33, 0, 4).expect("in range");
        assert_eq!((far.lower, far.upper), (0, 1 << 35));
        let back = int.repeated(3, 100, -8).expect("in range");
        assert_eq!((back.lower, back.upper), (84, 104));
        assert_eq!(int.repeated(i64::MAX, 0, 4), Err(ERR_ARG));
    }
}
