//! Datatypes of large counts, made below of ordinary constructors: what is repeated too often is
//! repeated in pieces, and a block that is too long is one element of a datatype of its own. So
//! every library has them, and a restart under another one too. Only what lies apart more often than an
//! int can tell goes to a large-count constructor below, where there is one.
//!
//! # Safety
//! Crossings pass words of live datatypes and arrays of the lengths beside them.

use crate::code::check;
use crate::datatype::Contents;
use crate::object::Datatype;
use crate::{lower, unsupported};
use contract::abi::*;

/// Elements of which more than an int can tell are made.
const PIECE: i64 = 1 << 30;

/// A datatype below, which ends with this: what is made from it keeps what it needs.
struct Made(usize);

impl Made {
    /// What `constructor` makes.
    fn by(constructor: impl FnOnce(*mut usize) -> i32) -> Result<Made, i32> {
        let mut word = Datatype::null_word();
        check(constructor(&raw mut word)).map(|()| Made(word))
    }

    /// The word, which is the caller's to free.
    fn keep(self) -> usize {
        let word = self.0;
        core::mem::forget(self);
        word
    }

    /// The same with these bounds, which a constructor may have rounded.
    fn bounded(self, bounds: Bounds) -> Result<Made, i32> {
        if Bounds::of(self.0)? == bounds {
            return Ok(self);
        }
        let extent = bounds.extent()?;
        // SAFETY: a live datatype.
        Made::by(|out| unsafe {
            lower::MPI_Type_create_resized(self.0, bounds.lower as isize, extent as isize, out)
        })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: made here, and nobody else knows the word. A failure leaks below.
        unsafe { lower::MPI_Type_free(&raw mut self.0) };
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
    fn of(word: usize) -> Result<Bounds, i32> {
        let (mut lower, mut extent) = (0, 0);
        // SAFETY: places for two numbers.
        check(unsafe { lower::MPI_Type_get_extent(word, &raw mut lower, &raw mut extent) })?;
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

/// `n` elements, each `stride` bytes from the one before.
fn repeat(n: i64, stride: i64, element: usize) -> Result<Made, i32> {
    let vector = |n: i32, stride: i64, element: usize| {
        // SAFETY: a live datatype.
        Made::by(|out| unsafe {
            lower::MPI_Type_create_hvector(n, 1, stride as isize, element, out)
        })
    };
    if let Ok(n) = i32::try_from(n) {
        return vector(n, stride, element);
    }
    let dense = Bounds::of(element)?.extent()? == stride;
    if !dense {
        // Intel MPI cannot tell how many blocks a structure of pieces has, if an int cannot.
        // SAFETY: a live datatype.
        let whole =
            Made::by(|out| unsafe { lower::MPI_Type_create_hvector_c(n, 1, stride, element, out) });
        if whole.as_ref().err() != Some(&ERR_UNSUPPORTED_OPERATION) {
            return whole;
        }
    }
    let pieces = i32::try_from(n / PIECE).map_err(|_| ERR_COUNT)?;
    if pieces < 0 {
        return Err(ERR_COUNT);
    }
    let piece = vector(PIECE as i32, stride, element)?;
    let whole = vector(pieces, product(PIECE, stride)?, piece.0)?;
    let rest = vector((n % PIECE) as i32, stride, element)?;
    let bounds = Bounds::of(element)?.repeated(n, 0, stride)?;
    let at = product(n - n % PIECE, stride)?;
    structure(&[1, 1], &[0, at as isize], &[whole.0, rest.0])?.bounded(bounds)
}

fn structure(lengths: &[i32], at: &[isize], types: &[usize]) -> Result<Made, i32> {
    let n = i32::try_from(lengths.len()).map_err(|_| ERR_COUNT)?;
    // SAFETY: n entries each, of live datatypes.
    Made::by(|out| unsafe {
        lower::MPI_Type_create_struct(n, lengths.as_ptr(), at.as_ptr(), types.as_ptr(), out)
    })
}

/// A block of elements: how many, at how many bytes, and what they are.
struct Block {
    length: i64,
    at: i64,
    element: usize,
}

/// Blocks one beside the other. MPI_Type_create_struct rounds the extent up, the other
/// constructors do not.
fn blocks(all: &[Block], rounded: bool) -> Result<Made, i32> {
    let mut made = Vec::new();
    let (mut lengths, mut places, mut types) = (Vec::new(), Vec::new(), Vec::new());
    let mut bounds: Option<Bounds> = None;
    for block in all {
        let of_element = Bounds::of(block.element)?;
        let stride = of_element.extent()?;
        let (length, element) = match i32::try_from(block.length) {
            Ok(length) => (length, block.element),
            Err(_) => {
                made.push(repeat(block.length, stride, block.element)?);
                (1, made.last().map_or(block.element, |made| made.0))
            }
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
    let whole = structure(&lengths, &places, &types)?;
    match bounds.filter(|_| !rounded) {
        Some(bounds) => whole.bounded(bounds),
        None => Ok(whole),
    }
}

/// A part of an array: by dimension, the fastest first, its size there, and the part's and its start.
fn subarray(
    dimensions: impl Iterator<Item = (i64, i64, i64)>,
    element: usize,
) -> Result<Made, i32> {
    let mut stride = Bounds::of(element)?.extent()?;
    let (mut part, mut at) = (None, 0_i64);
    for (size, subsize, start) in dimensions {
        let inner = part.as_ref().map_or(element, |part: &Made| part.0);
        part = Some(repeat(subsize, stride, inner)?);
        at = at.checked_add(product(start, stride)?).ok_or(ERR_ARG)?;
        stride = product(stride, size)?;
    }
    let element = part.as_ref().map_or(element, |part| part.0);
    let whole = Bounds {
        lower: 0,
        upper: stride,
    };
    structure(&[1], &[at as isize], &[element])?.bounded(whole)
}

/// Makes the datatype of a large-count constructor whose counts do not all fit an int.
///
/// # Safety
/// Crosses; the contents' datatypes must have their words.
pub(crate) unsafe fn compose(contents: &Contents) -> Result<usize, i32> {
    let counts = &contents.counts[..];
    let count = |i: usize| counts.get(i).copied().unwrap_or(0);
    let n = usize::try_from(count(0)).map_err(|_| ERR_COUNT)?;
    let old = contents.datatypes.first().ok_or(ERR_TYPE)?.lower();
    let extent = || Bounds::of(old)?.extent();
    // Blocks whose lengths and displacements follow the count, or that are all of one length.
    let listed = |length: Option<i64>, unit: i64| -> Result<Vec<Block>, i32> {
        let displacements = if length.is_some() { 2 } else { 1 + n };
        let block = |i: usize| {
            Ok(Block {
                length: length.unwrap_or_else(|| count(1 + i)),
                at: product(count(displacements + i), unit)?,
                element: contents.datatypes.get(i).map_or(old, |child| child.lower()),
            })
        };
        (0..n).map(block).collect()
    };
    let vector = |stride: i64| {
        let block = repeat(count(1), extent()?, old)?;
        repeat(count(0), stride, block.0)
    };
    let made = match contents.combiner {
        COMBINER_CONTIGUOUS => repeat(count(0), extent()?, old),
        COMBINER_VECTOR => vector(product(count(2), extent()?)?),
        COMBINER_HVECTOR => vector(count(2)),
        COMBINER_INDEXED => blocks(&listed(None, extent()?)?, false),
        COMBINER_HINDEXED => blocks(&listed(None, 1)?, false),
        COMBINER_INDEXED_BLOCK => blocks(&listed(Some(count(1)), extent()?)?, false),
        COMBINER_HINDEXED_BLOCK => blocks(&listed(Some(count(1)), 1)?, false),
        COMBINER_STRUCT => blocks(&listed(None, 1)?, true),
        COMBINER_SUBARRAY => {
            let dims = counts.len() / 3;
            let dimension = |i: usize| (count(i), count(dims + i), count(2 * dims + i));
            match contents.integers.get(1) {
                Some(&ORDER_FORTRAN) => subarray((0..dims).map(dimension), old),
                _ => subarray((0..dims).rev().map(dimension), old),
            }
        }
        // SAFETY: passed on.
        COMBINER_DARRAY => unsafe { darray(contents, old) },
        _ => Err(ERR_INTERN),
    };
    made.map(Made::keep)
}

/// An array that is distributed in ways of its own is the library's to describe, if it can.
unsafe fn darray(contents: &Contents, old: usize) -> Result<Made, i32> {
    let [size, rank, ndims, arrays @ .., order] = &contents.integers[..] else {
        return Err(ERR_INTERN);
    };
    let dims = contents.counts.len();
    let array = |i: usize| arrays[i * dims..].as_ptr();
    // SAFETY: recorded so: as many entries each as there are dimensions.
    let made = Made::by(|out| unsafe {
        lower::MPI_Type_create_darray_c(
            *size,
            *rank,
            *ndims,
            contents.counts.as_ptr(),
            array(0),
            array(1),
            array(2),
            *order,
            old,
            out,
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
