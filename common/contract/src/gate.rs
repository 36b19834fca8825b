//! The gate: the structure that both halves read and write. Its address is fixed and in upper-half memory, so it is
//! saved with the application, and each later lower half finds it again.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Number of slots in the table of lower functions: services, the MPI functions, more services.
pub const SLOTS: usize = 1024;

/// Number of clocks, and so of communicators that a rank can have at one time.
pub const CLOCKS: usize = 1 << 16;

/// Id of the clock that counts the collective operations of drains. Its target is the number of them that other ranks
/// have begun. A rank begins the missing ones in its next drain, and not before, on its way to the targets.
pub const DRAIN_CLOCK: u64 = 3;

/// For this id, [`crate::Service::ClockTarget`] tells at once whether the targets of the pending checkpoint are known:
/// 1 or 0.
pub const TARGETS_ARE_KNOWN: u64 = u64::MAX;

/// Id of the clock of the process with this world rank that begins when the process makes its first synchronous send.
/// Its target tells the other ranks so.
pub const fn synchronous_sends_clock(rank: u32) -> u64 {
    SYNCHRONOUS_SENDS_CLOCKS | rank as u64
}

const SYNCHRONOUS_SENDS_CLOCKS: u64 = 2 << 32;

/// Whether a clock with this id counts the collective operations of a communicator.
pub const fn is_clock_of_communicator(id: u64) -> bool {
    !matches!(id, 0 | DRAIN_CLOCK) && id >> 32 != SYNCHRONOUS_SENDS_CLOCKS >> 32
}

/// Number of ranks that [`Activity`] can list.
pub const ACTIVITY_RANKS: usize = 64;

/// Bit of [`LowerInfo::features`]: communicators of one group share a clock, as in the published algorithm. Only tests
/// that show its deadlock set it.
pub const GROUP_CLOCKS: u32 = 1 << 1;

/// Bit of [`LowerInfo::features`]: a barrier precedes each blocking collective operation, as in the algorithm that was
/// published before that one. Only comparisons with it set the bit.
pub const TWO_PHASE_COMMIT: u32 = 1 << 2;

/// Bit of [`LowerInfo::features`]: the MPI library calls [`Gate::turn`] while a thread waits in it, so that a blocking
/// collective operation can be retracted.
pub const RETRACTABLE: u32 = 1 << 3;

/// Bit of [`LowerInfo::features`]: the rank has reached the call of [`TOOL_BREAK`]. The upper half sets it, calls
/// [`crate::Service::Notify`], sets [`WAITS_AT_BREAK`], and goes on when the lower half has cleared both.
pub const AT_BREAK: u32 = 1 << 4;

/// Bit of [`LowerInfo::features`]: the thread is back in the upper half, so that the process can be stopped.
pub const WAITS_AT_BREAK: u32 = 1 << 5;

/// Bit of [`LowerInfo::features`]: the program has freed the request of a receive under way, whose data come unseen.
/// The upper half sets it if [`TOOL_CONTENTS`] is set.
pub const FREED_RECEIVE: u32 = 1 << 6;

/// Bit of the word at [`Gate::tools`]: the program has loaded CUDA's driver. Calls look whether their buffers are
/// memory of a GPU.
pub const CUDA: u32 = 1 << 2;

/// File name of the library of CUDA's driver, by which programs load it.
pub const CUDA_DRIVER: &core::ffi::CStr = c"libcuda.so.1";

/// Bits of [`LowerInfo::features`] that turn tools on. The upper half tests all of them together.
pub const TOOLS: u32 = 0xff00;

/// Bit of [`LowerInfo::features`]: collective operations are reduced to messages, those that
/// [`crate::service::ToolOptions`] selects.
pub const TOOL_REDUCE: u32 = 1 << 8;

/// Bit of [`LowerInfo::features`], beside [`TOOL_REDUCE`]: a tool between the application and MPI sees these messages.
/// It has no option.
pub const TOOL_REDUCE_VISIBLE: u32 = 1 << 13;

/// Bit of [`LowerInfo::features`]: candidates of receives and probes from any source are held back at random. The
/// option is the seed, a number.
pub const TOOL_PERTURB: u32 = 1 << 9;

/// Bit of [`LowerInfo::features`], on one rank: it stops before one of its calls. The option is how many calls from now
/// that is, counted from 1.
pub const TOOL_BREAK: u32 = 1 << 10;

/// Bit of [`LowerInfo::features`]: calls are counted ([`crate::profile`]). It has no option. A restarted job goes on
/// counting without it.
pub const TOOL_PROFILE: u32 = 1 << 11;

/// Bit of [`LowerInfo::features`]: what crossings return is recorded, or comes from such a record. The upper half makes
/// the same crossings in both runs, whatever the time. It has no option.
pub const TOOL_CONTENTS: u32 = 1 << 12;

/// State of the rank in the checkpoint protocol. The agent writes it, and each wrapper reads it.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No checkpoint is pending.
    Run = 0,
    /// The ranks run to their targets. A thread parks before a collective operation that would pass its target.
    Approach = 1,
    /// All ranks have reached their targets. Threads stop as soon as possible.
    Stop = 2,
    /// The agent wants to know what the threads wait for. Waiting functions return and tell it ([`Gate::waits`]);
    /// nothing is held back, and no message is pulled. Upper halves without [`Gate::waits`] do not know this phase.
    Explain = 3,
}

/// Progress of the application from `MPI_Init` to `MPI_Finalize`: the values of [`Gate::mpi_state`].
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiState {
    /// Before `MPI_Init`.
    NotInitialised = 0,
    /// After `MPI_Init` and before `MPI_Finalize`.
    Initialised = 1,
    /// After `MPI_Finalize`.
    Finalised = 2,
}

/// Kind of activity that the upper half reports to the agent while a checkpoint is pending.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// Computing, or in a local function.
    Running = 0,
    /// Inside a collective operation in the lower half.
    Collective = 1,
    /// Waiting for a message from one of the listed ranks.
    Waiting = 2,
    /// Parked before a collective operation that would pass its target.
    Parked = 3,
    /// Parked before `MPI_Finalize`.
    Finalising = 4,
}

/// Activity report of the rank, valid while `phase` is not `Run`. The writer stores `kind` last, with release ordering,
/// and then calls the service `notify`.
#[repr(C)]
pub struct Activity {
    /// An [`ActivityKind`].
    pub kind: AtomicU32,
    /// For `Waiting`: number of valid entries of `ranks`, or -1 for any rank of the job.
    pub nranks: AtomicI32,
    /// For `Collective`, `Parked` and `Finalising`: id of the communicator's clock.
    pub clock_id: AtomicU64,
    /// For `Parked` and `Finalising`: sequence number that the operation would have.
    pub clock_seq: AtomicU64,
    /// For `Waiting`: world ranks from which a message ends the wait.
    pub ranks: [AtomicU32; ACTIVITY_RANKS],
}

/// Collective clock of one communicator (docs/internals/collectives.md).
#[repr(C)]
pub struct Clock {
    /// Id on which the members agree; 0 in a free entry. It is stored last when a clock is made.
    pub id: AtomicU64,
    /// Number of collective operations that this rank has started.
    pub seq: AtomicU64,
    /// Number of collective operations that this rank has left. It is `seq` outside of any operation. A non-blocking
    /// operation counts as left after its start.
    pub left: AtomicU64,
    /// Highest sequence number that may start while a checkpoint is pending.
    pub target: AtomicU64,
}

/// Entry points of the upper half's MPI library. The lower half calls them on a thread of the upper half, with that
/// thread's FS base. They are 0 while no such library is loaded.
#[repr(C)]
pub struct UpperEntry {
    /// `extern "C" fn() -> i32`: drains messages and completes operations. 0 means that the drain is complete.
    pub drain: AtomicUsize,
    /// `extern "C" fn()`: creates all MPI objects again in a new lower half. On an error it ends the job itself, with
    /// the reason: its caller runs with the upper FS base and can call no function of the lower half.
    pub rebuild: AtomicUsize,
    /// `extern "C" fn(buf: *mut u8, len: usize) -> usize`: writes the reason why no checkpoint can be taken now, in
    /// UTF-8, and returns its length; 0 if a checkpoint can be taken. It is called before `drain`, when all threads are
    /// parked.
    pub refusal: AtomicUsize,
    /// Hash of the table of MPI functions from which the library was generated.
    pub table_hash: AtomicU64,
    /// Address of `[u64; world_size]`: messages sent to each world rank, counted at the start of the send.
    pub sent: AtomicUsize,
    /// Address of `[u64; world_size]`: messages received from each world rank, counted at completion.
    pub received: AtomicUsize,
}

/// Description of the lower half. It is written at launch and again at each restart.
#[repr(C)]
pub struct LowerInfo {
    /// Hash of the table of MPI functions from which the lower half was generated.
    pub table_hash: AtomicU64,
    /// Rank in MPI_COMM_WORLD, valid after MPI is initialised.
    pub rank: AtomicU32,
    /// Size of MPI_COMM_WORLD, valid after MPI is initialised.
    pub size: AtomicU32,
    /// Bit 0: `wrfsbase` is available, as in each thread block. Other bits: [`GROUP_CLOCKS`], [`TWO_PHASE_COMMIT`],
    /// [`RETRACTABLE`], [`AT_BREAK`], [`WAITS_AT_BREAK`], [`FREED_RECEIVE`], and those of [`TOOLS`].
    pub features: AtomicU32,
    /// Number of restarts of this job.
    pub epoch: AtomicU32,
    /// Address of the lower-half routine that crosses without `wrfsbase` (`crossing.rs` in `upper-half`).
    pub cross_slow: AtomicUsize,
}

/// The gate.
#[repr(C)]
pub struct Gate {
    /// `b"STASIS\0\0"` as a little-endian number.
    pub magic: AtomicU64,
    /// Version of the contract: [`crate::VERSION`].
    pub version: AtomicU32,
    /// Phase of the rank: a [`Phase`].
    pub phase: AtomicU32,
    /// Number of entries of the clock table that have been in use.
    pub clocks_used: AtomicU32,
    /// Progress of the application: an [`MpiState`]. The upper half writes it.
    pub mpi_state: AtomicU32,
    /// Description of the lower half.
    pub lower: LowerInfo,
    /// Entry points of the upper half.
    pub upper: UpperEntry,
    /// Activity report of the rank.
    pub activity: Activity,
    /// Addresses of the lower half's functions, by slot: a [`crate::Service`], or the slot of an MPI function.
    pub slots: [AtomicUsize; SLOTS],
    /// Address of the rank's [`crate::recorder::Recorder`], in lower-half memory; zero for none, and in images.
    pub recorder: AtomicUsize,
    /// `extern "C" fn()` of the upper half: a thread that waits in the MPI library, and may have to stop there, looks
    /// for what the checkpoint wants. The lower half calls it on that thread while `phase` is not `Run`, with the upper
    /// FS base. It may call the MPI library. 0 in upper halves that do not have it.
    pub turn: AtomicUsize,
    /// `extern "C" fn() -> u32` of the upper half: makes it a survivor of another rank's death (MPI Stages). Its calls
    /// fail until the program asks for the reload. Called as `drain` is. The result is 0 if it is a survivor now, else
    /// a [`NoSurvivor`]. The address is 0 in upper halves that do not have it.
    pub stages: AtomicUsize,
    /// Address of the [`crate::record::Record`] of the run, in lower-half memory; zero if it is neither recorded nor
    /// replayed. The lower half writes it before `MPI_Init` returns, and before the objects of a restarted job are
    /// made.
    pub record: AtomicUsize,
    /// Address of the upper half's [`crate::waits::WaitReports`]. 0 in upper halves that do not have them.
    pub waits: AtomicUsize,
    /// The request to freeze or thaw the program's GPUs, and its answer.
    pub gpu: Gpu,
    /// Address of the upper half's [`crate::profile::Profile`]. 0 if calls are not counted, and in upper halves that
    /// do not have it.
    pub profile: AtomicUsize,
    /// Address of the upper half's word, an `AtomicU32`, that calls test for anything out of the ordinary: the loader
    /// sets [`CUDA`] in it. 0 in upper halves that do not have it.
    pub tools: AtomicUsize,
}

/// Request to the thread of the upper half that freezes the program's GPUs, and its answer.
#[repr(C)]
pub struct Gpu {
    /// A [`GpuState`]. Both sides wait for a change by the kernel's futex.
    pub state: AtomicU32,
    /// Longest time in milliseconds that work of the program on a GPU is waited for. The agent writes it before it
    /// asks.
    pub patience: AtomicU32,
    /// The [`GpuCall`] that has failed, while the state is [`GpuState::Failed`].
    pub call: AtomicU32,
    /// The error that this call has returned.
    pub error: AtomicU32,
}

/// State of the program's GPUs.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuState {
    /// No thread serves requests.
    Unserved = 0,
    /// The program uses its GPUs, or has none.
    Running = 1,
    /// The agent asks for a freeze: what the GPUs hold is to be copied to the program's memory, and their devices
    /// closed.
    Freeze = 2,
    /// They are frozen. A call of the program waits.
    Frozen = 3,
    /// The agent asks to undo a freeze.
    Thaw = 4,
    /// They cannot be frozen, and run on. The agent answers with [`GpuState::Running`].
    Failed = 5,
}

/// A call of CUDA's driver.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuCall {
    /// None: the driver does not have these calls.
    None = 0,
    /// cuCheckpointProcessLock.
    Lock = 1,
    /// cuCheckpointProcessCheckpoint.
    Checkpoint = 2,
}

/// Reason why a rank cannot keep its memory over another rank's death.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSurvivor {
    /// It is in MPI_Finalize, or through.
    Finalises = 1,
    /// It has windows or open files of MPI, or sessions.
    Objects = 2,
    /// It has requests or messages of a kind that cannot be dropped.
    Requests = 3,
}

impl Gate {
    /// Whether the application is in that state.
    pub fn mpi_is(&self, state: MpiState) -> bool {
        self.mpi_state.load(Ordering::Acquire) == state as u32
    }

    /// Sets the state of the application.
    pub fn set_mpi(&self, state: MpiState) {
        self.mpi_state.store(state as u32, Ordering::Release);
    }
}

/// Address of the first slot. A slot is a word.
pub const SLOTS_ADDRESS: usize = crate::GATE_ADDRESS + offset_of!(Gate, slots);

/// Address of [`LowerInfo::cross_slow`], for assembly.
pub const CROSS_SLOW_ADDRESS: usize =
    crate::GATE_ADDRESS + offset_of!(Gate, lower) + offset_of!(LowerInfo, cross_slow);

// The code of a saved upper half contains these addresses and offsets.
const _: () = {
    assert!(size_of::<Gate>() <= crate::GATE_BYTES);
    assert!(offset_of!(Gate, phase) == 12);
    assert!(offset_of!(Gate, lower) == 24);
    assert!(offset_of!(LowerInfo, cross_slow) == 24);
    assert!(offset_of!(Gate, upper) == 56);
    assert!(offset_of!(Gate, activity) == 104);
    assert!(offset_of!(Gate, slots) == 384);
    assert!(offset_of!(Gate, recorder) == 8576);
    assert!(offset_of!(Gate, turn) == 8584);
    assert!(offset_of!(Gate, stages) == 8592);
    assert!(offset_of!(Gate, record) == 8600);
    assert!(offset_of!(Gate, waits) == 8608);
    assert!(offset_of!(Gate, gpu) == 8616);
    assert!(size_of::<Gpu>() == 16);
    assert!(offset_of!(Gate, profile) == 8632);
    assert!(offset_of!(Gate, tools) == 8640);
    assert!(size_of::<Clock>() == 32);
};

/// The gate. It must not be called before the loader has mapped the gate.
#[allow(unsafe_code)]
pub fn gate() -> &'static Gate {
    // SAFETY: the loader maps GATE_BYTES zeroed bytes at that address before any upper-half code runs, and never unmaps
    // them. All fields are atomics, and zero is a valid value of each.
    unsafe { &*(crate::GATE_ADDRESS as *const Gate) }
}
