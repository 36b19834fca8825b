//! The waits of the threads of a rank, in memory of the upper half that the agent reads at any time, for `stasis
//! explain`. The upper half writes it while the phase is [`crate::Phase::Explain`] or a checkpoint is pending, and for
//! a blocking send that may wait for its receiver. Usual calls write nothing.
//!
//! A part that changes as a whole has a version, which is odd while it is written: a reader that finds the same even
//! version before and after has read one state.

use core::mem::{offset_of, size_of};
use core::sync::atomic::{fence, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Threads of which a rank can tell at one time what they wait for.
pub const WAIT_SLOTS: usize = 32;
/// Things that one thread can name of those that it waits for.
pub const WAIT_ENTRIES: usize = 24;
/// Messages that a rank can name of those that no receive has asked for.
pub const UNASKED_ENTRIES: usize = 64;
/// Communicators whose names a rank can tell.
pub const NAME_ENTRIES: usize = 128;
/// Longest name of a communicator that is told, in bytes.
pub const NAME_BYTES: usize = 64;

/// [`WaitEntry::peer`] of a message from any process of the communicator.
pub const ANY_PEER: u32 = u32::MAX;
/// [`WaitEntry::tag`] that matches every message.
pub const ANY_TAG: i32 = -1;
/// [`WaitEntry::tag`] that is not told.
pub const SOME_TAG: i32 = -2;
/// [`WaitEntry::amount`] that is not told.
pub const SOME_AMOUNT: u64 = u64::MAX;

/// Kind of a [`WaitEntry`].
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// A message that matches a receive or a probe.
    Message = 0,
    /// The receiver of a message that this rank sends.
    Receiver = 1,
    /// The other members of a collective operation.
    Members = 2,
    /// Something that any rank may bring about.
    Anyone = 3,
}

/// Bit of [`WaitSlot::how`]: one of the entries is enough.
pub const ONE_IS_ENOUGH: u32 = 1;

/// Something that a thread waits for.
#[repr(C)]
pub struct WaitEntry {
    /// A [`WaitKind`].
    pub kind: AtomicU32,
    /// World rank of the other side, or [`ANY_PEER`].
    pub peer: AtomicU32,
    /// Tag, [`ANY_TAG`] or [`SOME_TAG`].
    pub tag: AtomicI32,
    /// Unused.
    pub reserved: AtomicU32,
    /// Id of the communicator.
    pub comm: AtomicU64,
    /// Bytes of the message, or of the room for it; the number of a collective operation; or [`SOME_AMOUNT`].
    pub amount: AtomicU64,
}

/// The wait of one thread.
#[repr(C)]
pub struct WaitSlot {
    /// Virtual id of the thread; 0 in a free slot.
    pub thread: AtomicU32,
    /// [`ONE_IS_ENOUGH`], or 0.
    pub how: AtomicU32,
    /// Version of the fields below.
    pub version: AtomicU64,
    /// Number of valid entries.
    pub entries_used: AtomicU32,
    /// Number of further things that have no entry.
    pub more: AtomicU32,
    /// The things that it waits for.
    pub entries: [WaitEntry; WAIT_ENTRIES],
}

/// Messages that have come and that no receive has asked for.
#[repr(C)]
pub struct Unasked {
    /// Number of the agent's last question.
    pub asked: AtomicU32,
    /// Number of the question that is answered.
    pub answered: AtomicU32,
    /// Version of the fields below.
    pub version: AtomicU64,
    /// Number of valid entries.
    pub entries_used: AtomicU32,
    /// Number of further messages.
    pub more: AtomicU32,
    /// The messages: sender, tag, communicator, bytes.
    pub entries: [WaitEntry; UNASKED_ENTRIES],
}

/// Name of a communicator.
#[repr(C)]
pub struct CommName {
    /// Id of the communicator; 0 in a free entry.
    pub id: AtomicU64,
    /// The name in UTF-8, cut off at its length, followed by zeros.
    pub text: [AtomicU64; NAME_BYTES / 8],
}

/// All of it.
#[repr(C)]
pub struct WaitReports {
    /// Whether several threads may be in MPI at the same time.
    pub multiple: AtomicU32,
    /// Unused.
    pub reserved: AtomicU32,
    /// Messages that no receive has asked for.
    pub unasked: Unasked,
    /// Names of communicators, of those that have one of their own.
    pub names: [CommName; NAME_ENTRIES],
    /// The waits of the threads.
    pub slots: [WaitSlot; WAIT_SLOTS],
}

const _: () = {
    assert!(size_of::<WaitEntry>() == 32);
    assert!(size_of::<WaitSlot>() == 24 + WAIT_ENTRIES * 32);
    assert!(size_of::<Unasked>() == 24 + UNASKED_ENTRIES * 32);
    assert!(size_of::<CommName>() == 8 + NAME_BYTES);
    assert!(offset_of!(WaitReports, unasked) == 8);
    assert!(offset_of!(WaitReports, names) == 8 + size_of::<Unasked>());
    assert!(
        offset_of!(WaitReports, slots)
            == offset_of!(WaitReports, names) + NAME_ENTRIES * size_of::<CommName>()
    );
};

/// A [`WaitEntry`] as plain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitFor {
    /// Kind of the thing.
    pub kind: WaitKind,
    /// See [`WaitEntry::peer`].
    pub peer: u32,
    /// See [`WaitEntry::tag`].
    pub tag: i32,
    /// See [`WaitEntry::comm`].
    pub comm: u64,
    /// See [`WaitEntry::amount`].
    pub amount: u64,
}

impl WaitFor {
    /// A place holder.
    pub const ANYONE: WaitFor = WaitFor {
        kind: WaitKind::Anyone,
        peer: ANY_PEER,
        tag: SOME_TAG,
        comm: 0,
        amount: SOME_AMOUNT,
    };
}

impl WaitEntry {
    const fn new() -> WaitEntry {
        WaitEntry {
            kind: AtomicU32::new(0),
            peer: AtomicU32::new(0),
            tag: AtomicI32::new(0),
            reserved: AtomicU32::new(0),
            comm: AtomicU64::new(0),
            amount: AtomicU64::new(0),
        }
    }

    /// Stores the values. The caller has begun to write the part.
    #[inline]
    pub fn store(&self, values: &WaitFor) {
        self.kind.store(values.kind as u32, Ordering::Relaxed);
        self.peer.store(values.peer, Ordering::Relaxed);
        self.tag.store(values.tag, Ordering::Relaxed);
        self.comm.store(values.comm, Ordering::Relaxed);
        self.amount.store(values.amount, Ordering::Relaxed);
    }

    /// Loads the values.
    pub fn load(&self) -> WaitFor {
        let kinds = [WaitKind::Message, WaitKind::Receiver, WaitKind::Members];
        let kind = self.kind.load(Ordering::Relaxed);
        let kind = kinds.into_iter().find(|known| *known as u32 == kind);
        WaitFor {
            kind: kind.unwrap_or(WaitKind::Anyone),
            peer: self.peer.load(Ordering::Relaxed),
            tag: self.tag.load(Ordering::Relaxed),
            comm: self.comm.load(Ordering::Relaxed),
            amount: self.amount.load(Ordering::Relaxed),
        }
    }
}

/// Writes a part as a whole: `body` between two steps of its version. One thread at a time writes a part.
#[inline]
pub fn write(version: &AtomicU64, body: impl FnOnce()) {
    let now = version.load(Ordering::Relaxed);
    version.store(now | 1, Ordering::Relaxed);
    fence(Ordering::Release);
    body();
    version.store((now | 1).wrapping_add(1), Ordering::Release);
}

/// Reads a part as a whole; none if it is written all the time.
pub fn read<T>(version: &AtomicU64, mut body: impl FnMut() -> T) -> Option<T> {
    const ATTEMPTS: usize = 1000;
    for _ in 0..ATTEMPTS {
        let before = version.load(Ordering::Acquire);
        let value = body();
        fence(Ordering::Acquire);
        if before & 1 == 0 && version.load(Ordering::Relaxed) == before {
            return Some(value);
        }
        core::hint::spin_loop();
    }
    None
}

impl WaitReports {
    /// Nobody waits.
    pub const fn new() -> WaitReports {
        WaitReports {
            multiple: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            unasked: Unasked {
                asked: AtomicU32::new(0),
                answered: AtomicU32::new(0),
                version: AtomicU64::new(0),
                entries_used: AtomicU32::new(0),
                more: AtomicU32::new(0),
                entries: [const { WaitEntry::new() }; UNASKED_ENTRIES],
            },
            names: [const {
                CommName {
                    id: AtomicU64::new(0),
                    text: [const { AtomicU64::new(0) }; NAME_BYTES / 8],
                }
            }; NAME_ENTRIES],
            slots: [const {
                WaitSlot {
                    thread: AtomicU32::new(0),
                    how: AtomicU32::new(0),
                    version: AtomicU64::new(0),
                    entries_used: AtomicU32::new(0),
                    more: AtomicU32::new(0),
                    entries: [const { WaitEntry::new() }; WAIT_ENTRIES],
                }
            }; WAIT_SLOTS],
        }
    }
}

impl Default for WaitReports {
    fn default() -> Self {
        WaitReports::new()
    }
}
