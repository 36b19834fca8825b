//! Applications of user-defined operations. The function may have other effects than its result, so a run of one rank
//! alone calls it as the library has called it in the recorded run, on copies of the vectors.

use core::ffi::c_void;

use contract::HandleKind;

use super::io::{put, take};
use super::region::{span, Region};
use crate::mpi::user_op::{self, Applied};
use crate::mpi::{live_datatypes, predefined};

/// The event of an application; `None` if it cannot be recorded.
pub fn event(applied: &Applied) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (is_predefined, datatype) = told(applied.datatype)?;
    for number in [
        applied.data as i64,
        applied.length.into(),
        is_predefined.into(),
        datatype.cast_signed(),
    ] {
        put(&mut bytes, number);
    }
    for vector in [applied.invec, applied.inoutvec] {
        let region = Region::of(vector, applied.length.into(), applied.datatype);
        for part in region.parts() {
            part.save(part.count(), &mut bytes).ok()?;
        }
    }
    Some(bytes)
}

/// Applies the operation of an event; `None` if that is not possible.
pub fn apply(mut bytes: &[u8]) -> Option<()> {
    let mut number = || take(&mut bytes);
    let (data, length) = (number()? as usize, number()? as i32);
    let (is_predefined, datatype) = (number()? != 0, number()?.cast_unsigned());
    let datatype = meant(is_predefined, datatype)?;
    let (begin, room) = span(datatype, length.into())?;
    let mut vectors = [(); 2].map(|()| vec![0_u128; room.div_ceil(size_of::<u128>())]);
    let [invec, inoutvec] = vectors.each_mut().map(|vector| {
        let start = vector.as_mut_ptr().cast::<c_void>();
        start.wrapping_byte_offset(-begin)
    });
    for vector in [invec, inoutvec] {
        let region = Region::of(vector, length.into(), datatype);
        for part in region.parts() {
            part.load(part.count(), &mut bytes).ok()?;
        }
    }
    user_op::apply(&Applied {
        data,
        invec,
        inoutvec,
        length,
        datatype,
    })
}

/// A datatype as another process knows it: by its standard value, or by its number among those that were made.
fn told(datatype: usize) -> Option<(bool, u64)> {
    match predefined::standard(HandleKind::Datatype as u32, datatype) {
        Some(standard) => Some((true, standard as u64)),
        None => Some((false, live_datatypes::number(datatype)?)),
    }
}

fn meant(is_predefined: bool, told: u64) -> Option<usize> {
    match is_predefined {
        true => Some(predefined::lower(
            HandleKind::Datatype as u32,
            usize::try_from(told).ok()?,
        )),
        false => live_datatypes::with_number(told),
    }
}
