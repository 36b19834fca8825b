//! Counters of the program's calls of MPI (`stasis launch --profile`), in memory of the upper half. The lower half
//! reads them at any time. An image has them, so a restarted job goes on counting.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::SLOTS;

/// Classes of sizes: class 0 is of no bytes, class `n` of at least `2^(n-1)` bytes and of less than `2^n`. The last one
/// has no upper end.
pub const SIZE_CLASSES: usize = 36;
/// Communicators that are counted one by one. The last entry is for all others.
pub const COMM_ENTRIES: usize = 64;
/// [`CommCounts::id`] of the entry for all others.
pub const OTHER_COMMS: u64 = u64::MAX;
/// Longest name of a communicator, in bytes. A longer one is cut off.
pub const NAME_BYTES: usize = 64;
/// Entries of predefined datatypes, by their standard value.
pub const NAMED_TYPES: usize = 0x400;
/// Entries of derived datatypes, by their combiner.
pub const DERIVED_TYPES: usize = 32;
/// The combiner of the first of them.
pub const FIRST_COMBINER: i32 = 101;

/// Calls and bytes.
#[repr(C)]
pub struct Counts {
    /// Number of calls.
    pub calls: AtomicU64,
    /// Bytes of the data that they name.
    pub bytes: AtomicU64,
}

/// The calls of one function.
#[repr(C)]
pub struct FunctionCounts {
    /// Calls, counted when they begin, and bytes.
    pub all: Counts,
    /// Nanoseconds of the calls that are over.
    pub time: AtomicU64,
    /// Calls that name data, by the class of their bytes.
    pub sizes: [AtomicU64; SIZE_CLASSES],
}

/// The calls over one communicator.
#[repr(C)]
pub struct CommCounts {
    /// Id of the communicator, [`OTHER_COMMS`], or 0 in a free entry.
    pub id: AtomicU64,
    /// Number of its processes, in the local group.
    pub size: AtomicU32,
    /// Unused.
    pub reserved: AtomicU32,
    /// Calls and bytes.
    pub all: Counts,
    /// Nanoseconds of the calls that are over.
    pub time: AtomicU64,
    /// Its name at the first call, in UTF-8, followed by zeros.
    pub name: [AtomicU64; NAME_BYTES / 8],
}

/// All of it.
#[repr(C)]
pub struct Profile {
    /// The program's clock in nanoseconds when it began to call MPI.
    pub begun: AtomicU64,
    /// The same when the last call was over.
    pub last: AtomicU64,
    /// Nanoseconds of all calls that are over, of all threads.
    pub time: AtomicU64,
    /// Threads that have called MPI since.
    pub threads: AtomicU32,
    /// Unused.
    pub reserved: AtomicU32,
    /// By the functions' slots in the gate.
    pub functions: [FunctionCounts; SLOTS],
    /// By communicator.
    pub comms: [CommCounts; COMM_ENTRIES],
    /// By predefined datatype.
    pub named_types: [Counts; NAMED_TYPES],
    /// By the combiner of derived datatypes.
    pub derived_types: [Counts; DERIVED_TYPES],
}

const _: () = {
    assert!(size_of::<FunctionCounts>() == 24 + SIZE_CLASSES * 8);
    assert!(size_of::<CommCounts>() == 40 + NAME_BYTES);
    assert!(offset_of!(Profile, functions) == 32);
    assert!(offset_of!(Profile, comms) == 32 + SLOTS * size_of::<FunctionCounts>());
};

impl Counts {
    const fn new() -> Counts {
        Counts {
            calls: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }
}

impl Profile {
    /// No calls.
    pub const fn new() -> Profile {
        Profile {
            begun: AtomicU64::new(0),
            last: AtomicU64::new(0),
            time: AtomicU64::new(0),
            threads: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            functions: [const {
                FunctionCounts {
                    all: Counts::new(),
                    time: AtomicU64::new(0),
                    sizes: [const { AtomicU64::new(0) }; SIZE_CLASSES],
                }
            }; SLOTS],
            comms: [const {
                CommCounts {
                    id: AtomicU64::new(0),
                    size: AtomicU32::new(0),
                    reserved: AtomicU32::new(0),
                    all: Counts::new(),
                    time: AtomicU64::new(0),
                    name: [const { AtomicU64::new(0) }; NAME_BYTES / 8],
                }
            }; COMM_ENTRIES],
            named_types: [const { Counts::new() }; NAMED_TYPES],
            derived_types: [const { Counts::new() }; DERIVED_TYPES],
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Profile::new()
    }
}

/// The class of a number of bytes.
pub fn size_class(bytes: u64) -> usize {
    let bits = (u64::BITS - bytes.leading_zeros()) as usize;
    bits.min(SIZE_CLASSES - 1)
}
