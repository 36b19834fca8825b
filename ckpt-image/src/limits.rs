//! Limits and versions that several modules and the error messages use.

/// Version of the file format. A reader refuses any other.
pub const FORMAT_VERSION: u32 = 1;

/// Largest number of sets in a chain of increments: a restart reads all of them.
pub const LONGEST_CHAIN: usize = 100;

/// Number of failed restarts after which a set is used only if it is named.
pub(crate) const MOST_ATTEMPTS: u32 = 3;
