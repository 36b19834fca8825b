//! Values that the ABIs of Open MPI and MPICH have in common.

use contract::abi as standard;

use crate::{translate_bits, translate_in, translate_out};

/// MPI_UNDEFINED is the same in the standard ABI, so that functions may return it without a translation.
const UNDEFINED: i32 = -32766;
const _: () = assert!(UNDEFINED == standard::UNDEFINED);

/// MPI_DISPLACEMENT_CURRENT.
const DISPLACEMENT_CURRENT: i64 = -54_278_278;

translate_in! {
    /// A level of thread support from the application.
    thread_level_in {
        0 => THREAD_SINGLE,
        1 => THREAD_FUNNELED,
        2 => THREAD_SERIALIZED,
        3 => THREAD_MULTIPLE,
    }
}
translate_out! {
    /// A level of thread support for the application.
    thread_level_out {
        THREAD_SINGLE => 0,
        THREAD_FUNNELED => 1,
        THREAD_SERIALIZED => 2,
        THREAD_MULTIPLE => 3,
    }
}
translate_out! {
    /// The result of a comparison of two objects.
    comparison_out { IDENT => 0, CONGRUENT => 1, SIMILAR => 2, UNEQUAL => 3 }
}
translate_in! {
    /// The position to which a file offset is relative.
    whence_in { 600 => SEEK_SET, 602 => SEEK_CUR, 604 => SEEK_END }
}
translate_bits! {
    access_mode_in, access_mode_out {
        MODE_CREATE = 1,
        MODE_RDONLY = 2,
        MODE_WRONLY = 4,
        MODE_RDWR = 8,
        MODE_DELETE_ON_CLOSE = 16,
        MODE_UNIQUE_OPEN = 32,
        MODE_EXCL = 64,
        MODE_APPEND = 128,
        MODE_SEQUENTIAL = 256,
    }
}

/// A displacement in a file, or MPI_DISPLACEMENT_CURRENT. Any other negative value becomes an invalid one.
#[inline(always)]
pub fn displacement_in(displacement: i64) -> i64 {
    match displacement {
        DISPLACEMENT_CURRENT => standard::DISPLACEMENT_CURRENT,
        negative if negative < 0 => i64::MIN,
        displacement => displacement,
    }
}
