//! The gate: the one structure that both halves see, at a fixed address in upper-half memory, so
//! that it is saved with the application and found again by any later lower half.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Number of slots in the lower function table (services first, then MPI functions).
pub const SLOTS: usize = 1024;

/// Number of clocks, that is, of live communicators per rank.
pub const CLOCKS: usize = 1 << 16;

/// Id of the clock that counts the operations of drains. Its target says how many other ranks have
/// begun: a rank begins those that it lacks in its next drain, not on its way to the targets.
pub const DRAIN_CLOCK: u64 = 3;

/// How many ranks [`Activity`] can name one by one.
pub const ACTIVITY_RANKS: usize = 64;

/// Bit of [`LowerInfo::features`]: communicators of one group share a clock, as in the published
/// algorithm. Only to show that it hangs.
pub const GROUP_CLOCKS: u32 = 1 << 1;

/// Bit of [`LowerInfo::features`]: a barrier precedes every blocking collective operation, as in the
/// algorithm that was published before. Only to compare with it.
pub const TWO_PHASE_COMMIT: u32 = 1 << 2;

/// What the rank is to do about a checkpoint. Written by the agent, read by every wrapper.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No checkpoint is under way.
    Run = 0,
    /// Targets are being reached: run, but park before a collective that passes its target.
    Approach = 1,
    /// Every rank has reached its targets: stop as soon as possible.
    Stop = 2,
}

/// Where the application stands between `MPI_Init` and `MPI_Finalize`; the values of
/// [`Gate::mpi_state`].
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiState {
    /// Before `MPI_Init`.
    NotInitialised = 0,
    /// Between the two.
    Initialised = 1,
    /// After `MPI_Finalize`.
    Finalised = 2,
}

/// What the upper half tells the agent it is doing, while a checkpoint is pending.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// Computing, or in a local call.
    Running = 0,
    /// Inside a collective operation in the lower half.
    Collective = 1,
    /// Waiting for a message from one of the named ranks.
    Waiting = 2,
    /// Parked before a collective that would pass its target.
    Parked = 3,
    /// The same before `MPI_Finalize`.
    Finalising = 4,
}

/// The rank's activity report (see [`ActivityKind`]); valid while `phase` is not `Run`.
/// Writers store `kind` last, with release ordering, then call the service `notify`.
#[repr(C)]
pub struct Activity {
    /// An [`ActivityKind`].
    pub kind: AtomicU32,
    /// For Waiting: how many world ranks of `ranks` count; -1 means any rank of the job.
    pub nranks: AtomicI32,
    /// For Collective, Parked and Finalising: the communicator's id.
    pub clock_id: AtomicU64,
    /// For Parked and Finalising: the sequence number that the operation would have.
    pub clock_seq: AtomicU64,
    /// For Waiting: world ranks whose message would help.
    pub ranks: [AtomicU32; ACTIVITY_RANKS],
}

/// The collective clock of one communicator (docs/internals/collectives.md).
#[repr(C)]
pub struct Clock {
    /// Id on which all members agree; 0 marks a free entry. Stored last when a clock is made.
    pub id: AtomicU64,
    /// Collectives started by this rank.
    pub seq: AtomicU64,
    /// Collectives that this rank has left again (equal to `seq` outside of any; non-blocking ones
    /// count as left once they are initiated).
    pub left: AtomicU64,
    /// Highest sequence number that may be started while a checkpoint is pending.
    pub target: AtomicU64,
}

/// Entry points of the upper half's MPI library, called by the lower half with the upper FS on a
/// thread of the upper half. Zero where no such library is loaded.
#[repr(C)]
pub struct UpperEntry {
    /// `extern "C" fn() -> i32`: pull what is under way, finish what must be (0 = drained).
    pub drain: AtomicUsize,
    /// `extern "C" fn()`: make all MPI objects anew in the fresh lower half, or end the job with the
    /// reason: the caller has the upper thread pointer, and so nothing of the lower half to do it.
    pub rebuild: AtomicUsize,
    /// `extern "C" fn(buf: *mut u8, len: usize) -> usize`: why no checkpoint may be taken now, as
    /// UTF-8 (length; 0 = it may). Called when all threads are parked, before `drain`.
    pub refusal: AtomicUsize,
    /// Hash of the function table that the library was generated from.
    pub table_hash: AtomicU64,
    /// Messages sent to each world rank, counted at the start of the send (`[u64; world_size]`).
    pub sent: AtomicUsize,
    /// Messages received from each world rank, counted at completion (`[u64; world_size]`).
    pub received: AtomicUsize,
}

/// What the lower half tells about itself; filled at launch and again at every restart.
#[repr(C)]
pub struct LowerInfo {
    /// Hash of the function table that the lower half was generated from.
    pub table_hash: AtomicU64,
    /// This process's rank in MPI_COMM_WORLD; valid once MPI is initialised.
    pub rank: AtomicU32,
    /// Size of MPI_COMM_WORLD; valid once MPI is initialised.
    pub size: AtomicU32,
    /// Bit 0: `wrfsbase` may be used. Mirrored in every thread block. [`GROUP_CLOCKS`],
    /// [`TWO_PHASE_COMMIT`].
    pub features: AtomicU32,
    /// How often this job has been restarted.
    pub epoch: AtomicU32,
    /// Lower-half routine for crossing without `wrfsbase`; see `upper-half`'s `crossing.rs`.
    pub cross_slow: AtomicUsize,
}

/// The gate itself.
#[repr(C)]
pub struct Gate {
    /// `b"STASIS\0\0"` as a little-endian number.
    pub magic: AtomicU64,
    /// [`crate::VERSION`].
    pub version: AtomicU32,
    /// A [`Phase`].
    pub phase: AtomicU32,
    /// One past the highest clock ever used.
    pub clocks_used: AtomicU32,
    /// An [`MpiState`]. Written by the upper half.
    pub mpi_state: AtomicU32,
    /// About the lower half.
    pub lower: LowerInfo,
    /// About the upper half.
    pub upper: UpperEntry,
    /// What the rank is doing.
    pub activity: Activity,
    /// Addresses of the lower half's functions, by [`crate::Service`] or table index.
    pub slots: [AtomicUsize; SLOTS],
}

impl Gate {
    /// Whether the application stands there now.
    pub fn mpi_is(&self, state: MpiState) -> bool {
        self.mpi_state.load(Ordering::Acquire) == state as u32
    }

    /// The application has come there.
    pub fn set_mpi(&self, state: MpiState) {
        self.mpi_state.store(state as u32, Ordering::Release);
    }
}

const _: () = assert!(core::mem::size_of::<Gate>() <= crate::GATE_BYTES);
const _: () = assert!(core::mem::offset_of!(Gate, phase) == 12);
const _: () = assert!(core::mem::offset_of!(Gate, lower) == 24);
const _: () = assert!(core::mem::offset_of!(Gate, upper) == 56);
const _: () = assert!(core::mem::offset_of!(Gate, activity) == 104);
const _: () = assert!(core::mem::offset_of!(Gate, slots) == 384);
const _: () = assert!(core::mem::size_of::<Clock>() == 32);

/// The gate. Only to be called once the loader has mapped it.
#[allow(unsafe_code)]
pub fn gate() -> &'static Gate {
    // SAFETY: the loader maps GATE_BYTES zeroed bytes there before any upper-half code runs, never
    // unmaps them, and all fields are atomics for which zero is valid.
    unsafe { &*(crate::GATE_ADDRESS as *const Gate) }
}
