//! Integers and special addresses: the standard ABI's values to the native library's and back.
//!
//! Ranks and tags are translated for every message, so an ordinary value costs one compare. All other values are looked
//! up in a table that the library's own C compiler made (see `build.rs`).
//!
//! # Safety
//! The C table is constant and ends with an entry of group -1, before which every entry is whole.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use contract::abi;

use super::native;

/// Return value of native functions without an error.
pub const NATIVE_SUCCESS: c_int = 0;

/// A negative rank or tag that is invalid in both libraries, so that the library reports it.
const INVALID: i32 = i32::MIN;

// Both libraries chose the standard's number, so values that may be MPI_UNDEFINED pass unchanged.
const _: () = assert!(mpi_sys::MPI_UNDEFINED == abi::UNDEFINED);
const _: () = assert!(mpi_sys::MPI_SUCCESS as c_int == NATIVE_SUCCESS);

/// Groups of the C table, in the order of `GROUPS` in `build.rs`.
#[derive(Clone, Copy)]
enum Group {
    Error = 0,
    ThreadLevel = 1,
    Comparison = 2,
    Topology = 3,
    SplitType = 4,
    Order = 5,
    Distribution = 6,
    DistributionArg = 7,
    Combiner = 8,
    TypeClass = 9,
    LockType = 10,
    WinAssert = 11,
    AccessMode = 12,
    Whence = 13,
    Keyval = 14,
    Verbosity = 15,
    Bind = 16,
    Scope = 17,
    PvarClass = 18,
}

#[repr(C)]
struct Entry {
    group: c_int,
    standard: c_int,
    native: c_int,
}

// SAFETY: as `build.rs` writes them in C; the functions have no requirement.
unsafe extern "C" {
    static stasis_values: [Entry; 0];
    safe fn stasis_unweighted() -> *mut c_int;
    safe fn stasis_weights_empty() -> *mut c_int;
}

/// All entries of a group.
fn entries(group: Group) -> impl Iterator<Item = &'static Entry> {
    let mut next = (&raw const stasis_values).cast::<Entry>();
    std::iter::from_fn(move || {
        // SAFETY: `next` has not passed the table's last entry, at which it stays.
        let entry: &'static Entry = unsafe { &*next };
        if entry.group < 0 {
            return None;
        }
        // An entry that is not the last has another behind it.
        next = next.wrapping_add(1);
        Some(entry)
    })
    .filter(move |entry| entry.group == group as c_int)
}

fn to_native(group: Group, standard: i32) -> Option<i32> {
    entries(group)
        .find(|entry| entry.standard == standard)
        .map(|entry| entry.native)
}

fn to_standard(group: Group, native: i32) -> Option<i32> {
    entries(group)
        .find(|entry| entry.native == native)
        .map(|entry| entry.standard)
}

/// Functions that translate by the table. Values that are not in the table stay unchanged, so that the library reports
/// them.
macro_rules! by_table {
    ($lookup:ident: $($name:ident $group:ident;)*) => {
        $(#[doc = concat!("Translates a value of group ", stringify!($group), ".")]
        #[cold]
        pub fn $name(value: i32) -> i32 {
            $lookup(Group::$group, value).unwrap_or(value)
        })*
    };
}

by_table! { to_native:
    thread_level_native ThreadLevel;
    split_type_native SplitType;
    order_native Order;
    distribution_native Distribution;
    distribution_arg_native DistributionArg;
    type_class_native TypeClass;
    lock_type_native LockType;
    whence_native Whence;
    keyval_native Keyval;
    pvar_class_native PvarClass;
}

by_table! { to_standard:
    thread_level_standard ThreadLevel;
    comparison_standard Comparison;
    topology_standard Topology;
    combiner_standard Combiner;
    keyval_standard Keyval;
    verbosity_standard Verbosity;
    bind_standard Bind;
    scope_standard Scope;
    pvar_class_standard PvarClass;
}

/// The library's class for a standard error class.
#[cold]
pub fn error_native(standard: i32) -> i32 {
    match standard {
        abi::SUCCESS => NATIVE_SUCCESS,
        _ => to_native(Group::Error, standard).unwrap_or(mpi_sys::MPI_ERR_OTHER as i32),
    }
}

/// The standard error class for a class (not code) of the library.
#[cold]
pub fn error_standard(native: i32) -> i32 {
    match native {
        NATIVE_SUCCESS => abi::SUCCESS,
        _ => to_standard(Group::Error, native).unwrap_or(abi::ERR_OTHER),
    }
}

fn bits(group: Group, from: i32, pair: fn(&Entry) -> (i32, i32)) -> i32 {
    entries(group)
        .map(pair)
        .filter(|(have, _)| from & have != 0)
        .fold(0, |to, (_, bit)| to | bit)
}

fn forward(entry: &Entry) -> (i32, i32) {
    (entry.standard, entry.native)
}

fn backward(entry: &Entry) -> (i32, i32) {
    (entry.native, entry.standard)
}

/// The library's assertion bits for windows.
pub fn win_assert_native(standard: i32) -> i32 {
    bits(Group::WinAssert, standard, forward)
}

/// The library's access mode bits for files.
pub fn access_mode_native(standard: i32) -> i32 {
    bits(Group::AccessMode, standard, forward)
}

/// The standard's access mode bits for files.
pub fn access_mode_standard(native: i32) -> i32 {
    bits(Group::AccessMode, native, backward)
}

/// The library's value for a rank.
#[inline(always)]
pub fn rank_native(standard: i32) -> i32 {
    if standard >= 0 {
        return standard;
    }
    special_rank_native(standard)
}

#[cold]
fn special_rank_native(standard: i32) -> i32 {
    match standard {
        abi::ANY_SOURCE => mpi_sys::MPI_ANY_SOURCE,
        abi::PROC_NULL => mpi_sys::MPI_PROC_NULL,
        abi::ROOT => mpi_sys::MPI_ROOT,
        abi::UNDEFINED => mpi_sys::MPI_UNDEFINED,
        _ => INVALID,
    }
}

/// The standard's value for a rank.
#[inline(always)]
pub fn rank_standard(native: i32) -> i32 {
    if native >= 0 {
        return native;
    }
    special_rank_standard(native)
}

#[cold]
fn special_rank_standard(native: i32) -> i32 {
    match native {
        mpi_sys::MPI_ANY_SOURCE => abi::ANY_SOURCE,
        mpi_sys::MPI_PROC_NULL => abi::PROC_NULL,
        mpi_sys::MPI_ROOT => abi::ROOT,
        _ => native,
    }
}

/// The library's value for a tag.
#[inline(always)]
pub fn tag_native(standard: i32) -> i32 {
    if standard >= 0 {
        return standard;
    }
    special_tag_native(standard)
}

#[cold]
fn special_tag_native(standard: i32) -> i32 {
    match standard {
        abi::ANY_TAG => mpi_sys::MPI_ANY_TAG,
        _ => INVALID,
    }
}

/// The standard's value for a tag.
#[inline(always)]
pub fn tag_standard(native: i32) -> i32 {
    match native {
        mpi_sys::MPI_ANY_TAG => abi::ANY_TAG,
        _ => native,
    }
}

/// The library's address for a data buffer: MPI_IN_PLACE differs, MPI_BOTTOM is null for all.
#[inline(always)]
pub fn buffer(standard: *mut c_void) -> *mut c_void {
    if native::IN_PLACE != abi::IN_PLACE && standard as usize == abi::IN_PLACE {
        return native::IN_PLACE as *mut c_void;
    }
    standard
}

/// The library's address for edge weights.
pub fn weights(standard: *mut c_int) -> *mut c_int {
    match standard as usize {
        abi::UNWEIGHTED => stasis_unweighted(),
        abi::WEIGHTS_EMPTY => stasis_weights_empty(),
        _ => standard,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_ranks_and_tags_map_both_ways() {
        for rank in [
            abi::ANY_SOURCE,
            abi::PROC_NULL,
            abi::ROOT,
            abi::UNDEFINED,
            0,
            7,
        ] {
            assert_eq!(rank_standard(rank_native(rank)), rank);
        }
        for tag in [abi::ANY_TAG, 0, 32767] {
            assert_eq!(tag_standard(tag_native(tag)), tag);
        }
        assert_eq!((rank_native(-77), tag_native(-77)), (INVALID, INVALID));
    }

    #[test]
    fn constants_map_both_ways() {
        for level in [
            abi::THREAD_SINGLE,
            abi::THREAD_SERIALIZED,
            abi::THREAD_MULTIPLE,
        ] {
            assert_eq!(thread_level_standard(thread_level_native(level)), level);
        }
        let there_and_back =
            |group, value| to_native(group, value).and_then(|native| to_standard(group, native));
        for kind in [abi::CART, abi::GRAPH, abi::DIST_GRAPH, abi::UNDEFINED] {
            assert_eq!(there_and_back(Group::Topology, kind), Some(kind));
        }
        for combiner in abi::COMBINER_NAMED..=abi::COMBINER_RESIZED {
            assert_eq!(there_and_back(Group::Combiner, combiner), Some(combiner));
        }
        for class in [
            abi::SUCCESS,
            abi::ERR_TRUNCATE,
            abi::ERR_IN_STATUS,
            abi::ERR_WIN,
        ] {
            assert_eq!(error_standard(error_native(class)), class);
        }
        assert_eq!(comparison_standard(0), abi::IDENT);
        assert_eq!(distribution_arg_native(5), 5);
    }

    #[test]
    fn bits_map_one_by_one() {
        let mode = abi::MODE_CREATE | abi::MODE_RDWR | abi::MODE_APPEND;
        assert_eq!(access_mode_standard(access_mode_native(mode)), mode);
        assert_eq!(win_assert_native(0), 0);
        assert_ne!(win_assert_native(abi::MODE_NOSTORE | abi::MODE_NOPUT), 0);
    }

    #[test]
    fn special_addresses() {
        assert_eq!(
            buffer(abi::IN_PLACE as *mut c_void) as usize,
            native::IN_PLACE
        );
        assert!(buffer(std::ptr::null_mut()).is_null());
        assert_eq!(weights(4096 as *mut c_int) as usize, 4096);
        assert_eq!(weights(abi::UNWEIGHTED as *mut c_int), stasis_unweighted());
    }
}
