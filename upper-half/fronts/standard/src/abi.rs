//! Types and values of the standard ABI (MPI 5.0, chapter "Application Binary Interface"). The generated functions use
//! the names that are defined here. The core uses the same values, so most translations change nothing.
//!
//! # Safety
//! A status is read or written only at an address for which the caller promises that it is valid.
#![allow(unsafe_code)]

use contract::abi as standard;
use contract::HandleKind;
use core::ffi::c_void;
use stasis_front_common::{AttributeValues, INVALID};
use upper_half::object as upper;
use upper_half::object::{Body, Object};

/// MPI_Status.
pub type Status = standard::Status;

/// The object of a handle. An invalid handle gives the null object.
#[inline(always)]
fn object<B: Body>(handle: usize) -> &'static Object<B> {
    let index = u32::try_from(handle).ok();
    index
        .and_then(|index| B::table().get(index))
        .unwrap_or_else(Object::null)
}

macro_rules! handles {
    ($($kind:ident: $decode:ident, $encode:ident, $to_fortran:ident, $from_fortran:ident;)*) => {
        $(
            #[doc = concat!("MPI_", stringify!($kind), "'s type in C: a pointer.")]
            pub type $kind = usize;

            /// The object of a handle.
            #[inline(always)]
            pub fn $decode(handle: $kind) -> &'static upper::$kind {
                object(handle)
            }

            /// The handle of an object.
            #[inline(always)]
            pub fn $encode(object: &'static upper::$kind) -> $kind {
                object.handle()
            }

            /// The handle for Fortran.
            pub fn $to_fortran(handle: $kind) -> i32 {
                $decode(handle).index() as i32
            }

            /// The handle from Fortran.
            pub fn $from_fortran(fortran: i32) -> $kind {
                $encode(stasis_front_common::f2c(fortran))
            }
        )*

        /// The index of the object of an application's handle.
        pub fn index_of(kind: HandleKind, handle: usize) -> u32 {
            match kind {
                $(HandleKind::$kind => $decode(handle).index(),)*
            }
        }
    };
}

handles! {
    Comm: comm, comm_out, comm_c2f, comm_f2c;
    Group: group, group_out, group_c2f, group_f2c;
    Datatype: datatype, datatype_out, datatype_c2f, datatype_f2c;
    Op: op, op_out, op_c2f, op_f2c;
    Errhandler: errhandler, errhandler_out, errhandler_c2f, errhandler_f2c;
    Info: info, info_out, info_c2f, info_f2c;
    Request: request, request_out, request_c2f, request_f2c;
    Message: message, message_out, message_c2f, message_f2c;
    Win: win, win_out, win_c2f, win_f2c;
    File: file, file_out, file_c2f, file_f2c;
    Session: session, session_out, session_c2f, session_f2c;
}

/// A data buffer. MPI_BOTTOM and MPI_IN_PLACE have the core's values.
#[inline(always)]
pub fn buffer(buffer: *const c_void) -> *mut c_void {
    buffer.cast_mut()
}

/// Weights of edges. MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY have the core's values.
#[inline(always)]
pub fn weights(weights: *const i32) -> *mut i32 {
    weights.cast_mut()
}

/// Whether `status` is MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE.
#[inline(always)]
pub fn ignored(status: *const Status) -> bool {
    status.is_null()
}

/// Reads a status.
#[inline(always)]
pub fn status_in(status: &Status) -> standard::Status {
    *status
}

/// Writes a status.
///
/// # Safety
/// `to` must be valid for writing a status.
#[inline(always)]
pub unsafe fn status_out(status: &standard::Status, to: *mut Status) {
    // SAFETY: the caller promises that `to` is valid for writing a status.
    unsafe { to.write(*status) }
}

/// [`status_out`] for the core.
///
/// # Safety
/// `to` must be valid for writing a status.
pub unsafe fn write_status(status: &standard::Status, to: *mut u8) {
    // SAFETY: the caller promises that `to` is valid for writing a status. Its alignment does not matter.
    unsafe { to.cast::<Status>().write_unaligned(*status) }
}

/// [`status_in`] for the core.
///
/// # Safety
/// `from` must be valid for reading a status.
pub unsafe fn read_status(from: *const u8) -> standard::Status {
    // SAFETY: the caller promises that `from` is valid for reading a status. Its alignment does not matter.
    unsafe { from.cast::<Status>().read_unaligned() }
}

macro_rules! unchanged {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(value: i32) -> i32 {
            value
        }
    )*};
}

unchanged! {
    /// A rank from the application.
    rank_in
    /// A rank for the application.
    rank_out
    /// A tag from the application.
    tag_in
    /// A keyval from the application.
    keyval_in
    /// A keyval for the application.
    keyval_out
    /// An error code from the application.
    error_in
    /// An error code for the application.
    error_out
    /// A level of thread support from the application.
    thread_level_in
    /// A level of thread support for the application.
    thread_level_out
    /// The result of a comparison of two objects.
    comparison_out
    /// A kind of topology.
    topology_out
    /// The order of an array, from the application.
    order_in
    /// The order of an array, for the application.
    order_out
    /// A distribution of an array, from the application.
    distribution_in
    /// A distribution of an array, for the application.
    distribution_out
    /// The constructor of a datatype.
    combiner_out
    /// A class of datatypes.
    type_class_in
    /// The type of a lock on a window.
    lock_type_in
    /// The position to which a file offset is relative.
    whence_in
    /// Assertions about a window.
    window_assert_in
    /// The access mode of a file, from the application.
    access_mode_in
    /// The access mode of a file, for the application.
    access_mode_out
}

/// Constants to which predefined attributes point.
pub static ATTRIBUTE_VALUES: AttributeValues = AttributeValues {
    proc_null: standard::PROC_NULL,
    any_source: standard::ANY_SOURCE,
    flavors: [
        standard::WIN_FLAVOR_CREATE,
        standard::WIN_FLAVOR_ALLOCATE,
        standard::WIN_FLAVOR_DYNAMIC,
        standard::WIN_FLAVOR_SHARED,
    ],
    models: [standard::WIN_UNIFIED, standard::WIN_SEPARATE],
};

/// The type by which MPI_Comm_split_type splits. The types that are new in MPI 4.1 are not supported.
#[inline(always)]
pub fn split_type_in(split_type: i32) -> i32 {
    match split_type {
        standard::COMM_TYPE_SHARED
        | standard::COMM_TYPE_HW_GUIDED
        | standard::COMM_TYPE_HW_UNGUIDED
        | standard::UNDEFINED => split_type,
        _ => INVALID,
    }
}

/// The standard's MPI_DISTRIBUTE_DFLT_DARG. The core uses a value that is not a block size.
const DFLT_DARG: i32 = 19;

/// An argument of a distribution from the application, or MPI_DISTRIBUTE_DFLT_DARG.
#[inline(always)]
pub fn distribution_arg_in(arg: i32) -> i32 {
    match arg {
        DFLT_DARG => standard::DISTRIBUTE_DFLT_DARG,
        arg => arg,
    }
}

/// An argument of a distribution for the application, or MPI_DISTRIBUTE_DFLT_DARG.
pub fn distribution_arg_out(arg: i32) -> i32 {
    match arg {
        standard::DISTRIBUTE_DFLT_DARG => DFLT_DARG,
        arg => arg,
    }
}

/// A displacement in a file, or MPI_DISPLACEMENT_CURRENT. Any other negative value becomes an invalid one.
#[inline(always)]
pub fn displacement_in(displacement: i64) -> i64 {
    match displacement {
        standard::DISPLACEMENT_CURRENT => displacement,
        negative if negative < 0 => i64::MIN,
        displacement => displacement,
    }
}

#[cfg(test)]
mod tests {
    //! The library's constructor runs before the tests, so the objects exist.

    use super::*;

    #[test]
    fn handles_are_the_standards_values() {
        for &(name, value) in standard::datatype::ALL {
            assert_eq!(datatype(value).index() as usize, value, "{name}");
            assert_eq!(datatype_out(datatype(value)), value, "{name}");
        }
        assert_eq!(comm(standard::comm::COMM_SELF).handle(), 0x102);
        assert_eq!(index_of(HandleKind::Op, standard::op::SUM), 0x21);
    }

    #[test]
    fn an_invalid_handle_gives_the_null_object() {
        for wrong in [0, 0x21, 0x103, 0x400, 0x10_0000, usize::MAX] {
            assert!(comm(wrong).is_null(), "{wrong:#x}");
        }
        assert_eq!(file_c2f(file_f2c(77)), standard::file::FILE_NULL as i32);
    }

    #[test]
    fn the_default_argument_is_no_block_size() {
        assert_eq!(distribution_arg_out(distribution_arg_in(19)), 19);
        assert_eq!(distribution_arg_in(18), 18);
        assert_eq!(split_type_in(standard::COMM_TYPE_RESOURCE_GUIDED), INVALID);
        assert_eq!(displacement_in(-2), i64::MIN);
    }
}
