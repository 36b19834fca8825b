//! The thread block, which assembly on both sides of a crossing reads at the GS base.

use core::mem::{align_of, offset_of, size_of};
use core::sync::atomic::{AtomicU32, AtomicUsize};

/// Number of nested crossings (upper half, lower half, callback, lower half ...) that one thread can have.
pub const SIDE_STACK_DEPTH: usize = 64;

/// Bit of [`ThreadBlock::on_leaving`]: the thread stops. The stop signal sets it when the thread could not stop at
/// once.
pub const STOP_WANTED: u32 = 1;

/// Bit of [`ThreadBlock::on_leaving`]: the service `CallEnded` is called. Only tests set it.
pub const TELL_CALLS: u32 = 2;

/// Bit of [`ThreadBlock::on_leaving`]: the thread's call is noted as over ([`crate::profile`]).
pub const COUNT_CALLS: u32 = 4;

/// Bit of [`ThreadBlock::on_leaving`]: the thread has its turn among the threads of a recorded or replayed rank, and
/// gives it up.
pub const HAS_TURN: u32 = 8;

/// Bit of [`ThreadBlock::in_wrapper`]: the thread has called MPI functions, and its calls are counted
/// ([`crate::profile`]). [`NO_CALL_YET`] stays set, so that each call is seen.
pub const COUNTED: u32 = 1 << 30;

/// Bit of [`ThreadBlock::in_wrapper`]: the thread has called no MPI function yet, except those that any thread may call
/// at any time. It is the sign bit, so that the instruction that counts a wrapper also tests it.
pub const NO_CALL_YET: u32 = 1 << 31;

/// State of one thread of the upper half. It is in lower-half memory, so a restart makes a new one.
///
/// Its fields are integers, or atomics where code other than assembly reads them ([`SharedThreadBlock`]).
#[repr(C)]
pub struct ThreadBlock<Word = usize, Half = u32> {
    /// Address of this block, so that `mov %gs:0` gives a pointer to it.
    pub this: Word,
    /// FS base of the lower half's thread.
    pub lower_fs: Word,
    /// FS base of the upper half's thread.
    pub upper_fs: Word,
    /// Address of the next free entry of `side`. It is the address of `side` when no crossing is in progress.
    pub side_top: Word,
    /// Number of wrappers of MPI functions that the thread is in, [`NO_CALL_YET`] and [`COUNTED`].
    pub in_wrapper: Half,
    /// Actions at the end of the outermost wrapper: [`STOP_WANTED`], [`TELL_CALLS`], [`COUNT_CALLS`], [`HAS_TURN`].
    /// Usually 0.
    pub on_leaving: Half,
    /// Whether `wrfsbase` is available: not 0 if it is.
    pub fsgsbase: Half,
    /// Virtual thread id, which the application knows.
    pub tid: Half,
    /// Stack pointer of the vDSO call that the thread is in, or 0 (the loader's `vdso.rs`).
    pub vdso_sp: Word,
    /// Return addresses of the crossings in progress.
    pub side: [Word; SIDE_STACK_DEPTH],
    /// Address of the upper half's record of the retractable operation that the thread is in, or 0.
    pub inside: Word,
    /// Number of crossings that the thread has begun.
    pub crossings: Word,
    /// Number by which the thread is known in every run of the program: 0 for the initial thread, which gives its
    /// children the numbers from 1 on. Other threads give theirs a number that depends on their own.
    pub number: Half,
    /// How many threads the thread has created.
    pub births: Half,
}

/// A [`ThreadBlock`] that assembly and handlers change while other code reads it.
pub type SharedThreadBlock = ThreadBlock<AtomicUsize, AtomicU32>;

/// Offsets of the fields, for assembly: `gs:[{lower_fs}]` with `lower_fs = const ThreadBlock::LOWER_FS`.
impl ThreadBlock {
    /// Offset of [`ThreadBlock::lower_fs`].
    pub const LOWER_FS: usize = offset_of!(ThreadBlock, lower_fs);
    /// Offset of [`ThreadBlock::upper_fs`].
    pub const UPPER_FS: usize = offset_of!(ThreadBlock, upper_fs);
    /// Offset of [`ThreadBlock::side_top`].
    pub const SIDE_TOP: usize = offset_of!(ThreadBlock, side_top);
    /// Offset of [`ThreadBlock::in_wrapper`].
    pub const IN_WRAPPER: usize = offset_of!(ThreadBlock, in_wrapper);
    /// Offset of [`ThreadBlock::on_leaving`].
    pub const ON_LEAVING: usize = offset_of!(ThreadBlock, on_leaving);
    /// Offset of [`ThreadBlock::fsgsbase`].
    pub const FSGSBASE: usize = offset_of!(ThreadBlock, fsgsbase);
    /// Offset of [`ThreadBlock::tid`].
    pub const TID: usize = offset_of!(ThreadBlock, tid);
    /// Offset of [`ThreadBlock::vdso_sp`].
    pub const VDSO_SP: usize = offset_of!(ThreadBlock, vdso_sp);
    /// Offset of [`ThreadBlock::inside`].
    pub const INSIDE: usize = offset_of!(ThreadBlock, inside);
    /// Offset of [`ThreadBlock::crossings`].
    pub const CROSSINGS: usize = offset_of!(ThreadBlock, crossings);
    /// Offset of [`ThreadBlock::number`].
    pub const NUMBER: usize = offset_of!(ThreadBlock, number);
}

// The code of a saved upper half contains these offsets.
const _: () = {
    assert!(offset_of!(ThreadBlock, this) == 0);
    assert!(ThreadBlock::LOWER_FS == 8);
    assert!(ThreadBlock::UPPER_FS == 16);
    assert!(ThreadBlock::SIDE_TOP == 24);
    assert!(ThreadBlock::IN_WRAPPER == 32);
    assert!(ThreadBlock::ON_LEAVING == 36);
    assert!(ThreadBlock::FSGSBASE == 40);
    assert!(ThreadBlock::TID == 44);
    assert!(ThreadBlock::VDSO_SP == 48);
    assert!(offset_of!(ThreadBlock, side) == 56);
    assert!(ThreadBlock::INSIDE == 568);
    assert!(ThreadBlock::CROSSINGS == 576);
    assert!(ThreadBlock::NUMBER == 584);
    assert!(offset_of!(ThreadBlock, births) == 588);
    // Atomics have the size of their integers, and here their alignment, too.
    assert!(size_of::<SharedThreadBlock>() == size_of::<ThreadBlock>());
    assert!(align_of::<SharedThreadBlock>() == align_of::<ThreadBlock>());
};
