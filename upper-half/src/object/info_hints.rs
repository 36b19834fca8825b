//! The hints about communicators and windows that the standard names. The application reads them back; the library
//! below does not get them. Other hints are ignored, as the standard allows.

use crate::object::info::{update, Entry};
use core::ffi::CStr;

/// The keys that are known, with the value that holds where the application has said nothing.
pub(crate) struct KnownHints(&'static [(&'static CStr, Option<&'static CStr>)]);

/// MPI 4.0 §7.4.4, MPI 4.1 §7.4.4.
pub(crate) const OF_COMMUNICATORS: KnownHints = KnownHints(&[
    (c"mpi_assert_no_any_tag", None),
    (c"mpi_assert_no_any_source", None),
    (c"mpi_assert_exact_length", None),
    (c"mpi_assert_allow_overtaking", None),
    (c"mpi_assert_strict_persistent_collective_ordering", None),
    (c"mpi_assert_memory_alloc_kinds", None),
]);

/// MPI 4.0 §12.2.
pub(crate) const OF_WINDOWS: KnownHints = KnownHints(&[
    (c"no_locks", None),
    (c"accumulate_ordering", Some(c"rar,raw,war,waw")),
    (c"accumulate_ops", Some(c"same_op_no_op")),
    (c"mpi_accumulate_granularity", None),
    (c"same_size", None),
    (c"same_disp_unit", None),
    (c"alloc_shared_noncontig", None),
    (c"mpi_minimum_memory_alignment", None),
    (c"mpi_assert_memory_alloc_kinds", None),
]);

impl KnownHints {
    /// The hints of a new object.
    pub fn initial(&self, given: Vec<Entry>) -> Vec<Entry> {
        let default =
            |(key, value): &(&CStr, Option<&CStr>)| Some(((*key).to_owned(), (*value)?.to_owned()));
        let mut hints = self.0.iter().filter_map(default).collect();
        self.take(&mut hints, given);
        hints
    }

    /// Takes over what is given of the known ones; the others stay as they are.
    pub fn take(&self, hints: &mut Vec<Entry>, given: Vec<Entry>) {
        let known = |(key, _): &Entry| self.0.iter().any(|(known, _)| *known == key.as_c_str());
        let given = given.into_iter().filter(known);
        given.for_each(|entry| update(hints, entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hints_are_kept_and_others_ignored() {
        let entry = |key: &CStr, value: &CStr| (key.to_owned(), value.to_owned());
        let mut hints = OF_WINDOWS.initial(vec![
            entry(c"no_locks", c"true"),
            entry(c"invalid", c"true"),
        ]);
        OF_WINDOWS.take(&mut hints, vec![entry(c"accumulate_ops", c"same_op")]);
        let expected = [
            entry(c"accumulate_ordering", c"rar,raw,war,waw"),
            entry(c"accumulate_ops", c"same_op"),
            entry(c"no_locks", c"true"),
        ];
        assert_eq!(hints, expected);
    }
}
