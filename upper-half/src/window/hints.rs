//! Hints about windows: those that MPI 4.0 §12.2 names, which the application reads back; the library below is
//! told none of them. Others are ignored, as the standard allows.

use crate::info::{update, Entry};
use core::ffi::CStr;

/// Keys, with the value that holds where the application has said nothing.
const KNOWN: [(&CStr, Option<&CStr>); 9] = [
    (c"no_locks", None),
    (c"accumulate_ordering", Some(c"rar,raw,war,waw")),
    (c"accumulate_ops", Some(c"same_op_no_op")),
    (c"mpi_accumulate_granularity", None),
    (c"same_size", None),
    (c"same_disp_unit", None),
    (c"alloc_shared_noncontig", None),
    (c"mpi_minimum_memory_alignment", None),
    (c"mpi_assert_memory_alloc_kinds", None),
];

/// The hints of a new window.
pub(super) fn initial(given: Vec<Entry>) -> Vec<Entry> {
    let default =
        |(key, value): &(&CStr, Option<&CStr>)| Some(((*key).to_owned(), (*value)?.to_owned()));
    let mut hints = KNOWN.iter().filter_map(default).collect();
    take(&mut hints, given);
    hints
}

/// Takes over what is given of the known ones; the others stay as they are.
pub(super) fn take(hints: &mut Vec<Entry>, given: Vec<Entry>) {
    let known = |(key, _): &Entry| KNOWN.iter().any(|(known, _)| *known == key.as_c_str());
    given
        .into_iter()
        .filter(known)
        .for_each(|entry| update(hints, entry));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hints_are_kept_and_others_ignored() {
        let entry = |key: &CStr, value: &CStr| (key.to_owned(), value.to_owned());
        let mut hints = initial(vec![
            entry(c"no_locks", c"true"),
            entry(c"invalid", c"true"),
        ]);
        take(&mut hints, vec![entry(c"accumulate_ops", c"same_op")]);
        let expected = [
            entry(c"accumulate_ordering", c"rar,raw,war,waw"),
            entry(c"accumulate_ops", c"same_op"),
            entry(c"no_locks", c"true"),
        ];
        assert_eq!(hints, expected);
    }
}
