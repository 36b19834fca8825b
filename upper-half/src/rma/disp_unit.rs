//! Units of displacements. The application gives displacements in units of the target's choice; the windows below count
//! in bytes, so that each element of a datatype can be reached by itself (see [`accumulate`](super::accumulate)).

use crate::comm::numbers::gather;
use crate::object::win::Units;
use crate::object::Comm;

impl Units {
    /// Those of all members, who call this inside a counted collective operation.
    pub(crate) fn gather(comm: &'static Comm, own: i32) -> Result<Units, i32> {
        let all = gather(comm, [i64::from(own)])?;
        let all: Box<[i32]> = all.iter().map(|[unit]| *unit as i32).collect();
        Ok(match all.iter().all(|unit| *unit == own) {
            true => Units::Same(own),
            false => Units::Each(all),
        })
    }
}
