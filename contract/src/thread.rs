//! The per-thread block, found at GS base by assembly on both sides of a crossing.

/// Nested crossings (upper → lower → callback → lower ...) that one thread can have.
pub const SIDE_STACK_DEPTH: usize = 64;

/// Bit of [`ThreadBlock::on_leaving`], set by the stop signal when the thread could not stop at once.
pub const STOP_WANTED: u32 = 1;

/// Bit of [`ThreadBlock::on_leaving`]: tell the service `CallEnded`. Only where a test wants to know.
pub const TELL_CALLS: u32 = 2;

/// Bit of [`ThreadBlock::in_wrapper`]: the thread has made no MPI call yet but such as any thread may make
/// at any time. The sign, so that counting a wrapper tells of it.
pub const NO_CALL_YET: u32 = 1 << 31;

/// State of one upper-half thread. It lies in *lower-half* memory: a restart makes a new one.
/// Offsets are used by assembly; they are asserted below.
#[repr(C)]
pub struct ThreadBlock {
    /// Address of this block itself, so that `mov %gs:0` yields a pointer.
    pub this: usize,
    /// FS base of the lower half's thread.
    pub lower_fs: usize,
    /// FS base of the upper half's thread.
    pub upper_fs: usize,
    /// Next free entry of `side`; the depth is 0 when it equals the address of `side`.
    pub side_top: usize,
    /// How many wrappers of the upper half's MPI library the thread is in, and [`NO_CALL_YET`].
    pub in_wrapper: u32,
    /// What the thread has to do on leaving its outermost wrapper: [`STOP_WANTED`], [`TELL_CALLS`].
    /// Zero nearly always.
    pub on_leaving: u32,
    /// Non-zero where `wrfsbase` may be used.
    pub fsgsbase: u32,
    /// Virtual thread id, as the application knows it.
    pub tid: u32,
    /// Stack pointer of the vDSO call that the thread is in, or 0: see the loader's `vdso.rs`.
    pub vdso_sp: usize,
    /// Return addresses of crossings under way.
    pub side: [usize; SIDE_STACK_DEPTH],
}

const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(ThreadBlock, this) == 0);
    assert!(offset_of!(ThreadBlock, lower_fs) == 8);
    assert!(offset_of!(ThreadBlock, upper_fs) == 16);
    assert!(offset_of!(ThreadBlock, side_top) == 24);
    assert!(offset_of!(ThreadBlock, in_wrapper) == 32);
    assert!(offset_of!(ThreadBlock, on_leaving) == 36);
    assert!(offset_of!(ThreadBlock, fsgsbase) == 40);
    assert!(offset_of!(ThreadBlock, tid) == 44);
    assert!(offset_of!(ThreadBlock, vdso_sp) == 48);
    assert!(offset_of!(ThreadBlock, side) == 56);
};
