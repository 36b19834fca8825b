//! What requests of partitioned communication hold, and the announcements that wait for their receives.

use crate::object::request::Request;

use super::operation::{Args, State};
use crate::profile::Repeated;
use crate::runtime::lock::Lock;
use core::cell::Cell;
use core::sync::atomic::AtomicI32;

/// Tag of announcements: constructors of communicators have those below.
pub(crate) const ANNOUNCEMENT: i32 = 0x8000;

/// The first tag of a channel. Receipts have the one before (`synchronous.rs`).
pub(crate) const FIRST_CHANNEL: i32 = ANNOUNCEMENT + 2;

/// What a request of partitioned communication holds.
pub(crate) struct Partitioned {
    /// The request that moves all partitions; a receive has none before its announcement.
    pub(crate) whole: Cell<Option<&'static Request>>,
    pub(crate) sends: bool,
    pub(crate) partitions: i32,
    /// Partitions that are not ready yet.
    pub(crate) missing: AtomicI32,
    /// World rank of the other side.
    pub(crate) peer: u32,
    /// What a status says.
    pub(crate) source: i32,
    pub(crate) tag: i32,
    /// Profile data of one start; `None` without a profile.
    pub(crate) repeated: Option<Repeated>,
}

impl Partitioned {
    /// The request that moves all partitions, while it does.
    pub(crate) fn whole(&self) -> Option<&'static Request> {
        let whole = self.whole.get()?;
        (whole.body.state.get() != State::Inactive).then_some(whole)
    }
}

/// What a send tells its receiver when it is made.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Announcement {
    pub(crate) comm: u64,
    pub(crate) tag: i64,
    pub(crate) channel: i64,
}

/// Announcements and the receives that they are for.
pub(crate) struct Matching {
    /// Sends of announcements that may still be under way, and what they send.
    pub(crate) told: Vec<(&'static Request, Box<Announcement>)>,
    /// The receive of the next announcement, and the place for it.
    pub(crate) next: Option<(&'static Request, Box<Announcement>)>,
    /// What was announced, by whom, for which no receive has been made.
    pub(crate) heard: Vec<(u32, Announcement)>,
    /// Receives without an announcement, in the order in which they were made, with communicator and what
    /// they are to receive.
    pub(crate) waiting: Vec<(&'static Request, u64, Args)>,
    pub(crate) channel: i32,
}

pub(crate) static MATCHING: Lock<Matching> = Lock::new(Matching {
    told: Vec::new(),
    next: None,
    heard: Vec::new(),
    waiting: Vec::new(),
    channel: FIRST_CHANNEL - 1,
});
