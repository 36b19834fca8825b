//! The wait of a thread: the ranks, for the coordinator ([`WaitSet`]), and in detail, for `stasis explain`
//! (`contract::waits`). It is collected while a checkpoint is pending or the agent asks, never in a usual call. Only a
//! blocking send that may wait for its receiver tells so beforehand, since it has no look at the phase.

use crate::crossing::call_guard::thread_id;
use crate::object::comm::{peer_of, NOBODY};
use crate::object::request::synchronous;
use crate::object::Comm;
use crate::quiesce::wait_report::WaitSet;
use crate::runtime::lock::multiple;
use crate::runtime::reports::REPORTS;
use contract::abi;
use contract::waits::{
    self, WaitFor, WaitKind, WaitSlot, ANY_PEER, ANY_TAG, ONE_IS_ENOUGH, SOME_AMOUNT, SOME_TAG,
    WAIT_ENTRIES,
};
use contract::Activity;
use core::cell::Cell;
use core::sync::atomic::Ordering;

/// The wait of one thread.
pub(crate) struct Waits {
    set: WaitSet,
    how: u32,
    entries: [WaitFor; WAIT_ENTRIES],
    used: usize,
    more: u32,
}

impl Waits {
    pub(crate) fn new() -> Waits {
        Waits {
            set: WaitSet::new(),
            how: 0,
            entries: [WaitFor::ANYONE; WAIT_ENTRIES],
            used: 0,
            more: 0,
        }
    }

    fn add(&mut self, wait: WaitFor) {
        match self.entries.get_mut(self.used) {
            Some(entry) => {
                *entry = wait;
                self.used += 1;
            }
            None => self.more += 1,
        }
    }

    /// One of the things is enough.
    pub(crate) fn one_is_enough(&mut self) {
        self.how |= ONE_IS_ENOUGH;
    }

    /// A message for a receive or a probe with these arguments. `room` is the size of the buffer in bytes.
    pub(crate) fn message(&mut self, comm: &'static Comm, source: i32, tag: i32, room: u64) {
        let peer = match source {
            abi::ANY_SOURCE => {
                let peers = comm.body.peers().iter();
                peers.for_each(|&peer| self.set.add(peer));
                ANY_PEER
            }
            rank => peer_of(comm, rank),
        };
        if peer == NOBODY && source != abi::ANY_SOURCE {
            return;
        }
        self.set.add(peer);
        self.add(WaitFor {
            kind: WaitKind::Message,
            peer,
            tag: told_tag(tag),
            comm: comm.body.id,
            amount: room,
        });
    }

    /// The message of a world rank with this tag.
    pub(crate) fn message_of(&mut self, peer: u32, tag: i32) {
        self.set.add(peer);
        self.add(WaitFor {
            kind: WaitKind::Message,
            peer,
            tag,
            comm: 0,
            amount: SOME_AMOUNT,
        });
    }

    /// The receiver of a message. The coordinator is told only where the receiver leaves the message, since otherwise a
    /// receiver that waits or drains pulls it.
    pub(crate) fn receiver(&mut self, comm: &'static Comm, peer: u32, tag: i32, bytes: u64) {
        if peer != NOBODY {
            if synchronous::are_used() {
                self.set.add(peer);
            }
            let bytes = match bytes {
                SOME_AMOUNT => BLOCKING_SEND.get(),
                bytes => bytes,
            };
            self.add(sending(comm, peer, tag, bytes));
        }
    }

    /// The members of a communicator, for a non-blocking collective operation with this number.
    pub(crate) fn members(&mut self, comm: &'static Comm, number: u64) {
        self.add(WaitFor {
            kind: WaitKind::Members,
            peer: ANY_PEER,
            tag: SOME_TAG,
            comm: comm.body.id,
            amount: number,
        });
    }

    /// Something that any rank may bring about.
    pub(crate) fn anyone(&mut self) {
        self.set.add_all();
        self.add(WaitFor::ANYONE);
    }

    /// Something that the library completes by itself, or that other threads bring about.
    pub(crate) fn something(&mut self) {
        self.add(WaitFor::ANYONE);
    }

    /// Writes the ranks as the activity; whether that changed anything.
    pub(crate) fn show(&self, activity: &Activity) -> bool {
        self.set.show(activity)
    }
}

thread_local! {
    /// Bytes of the message that the thread sends in a blocking call. A request does not know them.
    static BLOCKING_SEND: Cell<u64> = const { Cell::new(SOME_AMOUNT) };
}

/// Waits for a request of a blocking send of this number of bytes.
pub(crate) fn in_blocking_send<T>(bytes: u64, wait: impl FnOnce() -> T) -> T {
    BLOCKING_SEND.set(bytes);
    let result = wait();
    BLOCKING_SEND.set(SOME_AMOUNT);
    result
}

fn sending(comm: &'static Comm, peer: u32, tag: i32, bytes: u64) -> WaitFor {
    WaitFor {
        kind: WaitKind::Receiver,
        peer,
        tag,
        comm: comm.body.id,
        amount: bytes,
    }
}

fn told_tag(tag: i32) -> i32 {
    match tag {
        abi::ANY_TAG => ANY_TAG,
        tag => tag,
    }
}

/// The place in which a thread tells what it waits for. It is free again when this is dropped.
pub(crate) struct Report(Option<&'static WaitSlot>);

impl Report {
    /// Nothing is told yet.
    pub(crate) const fn new() -> Report {
        Report(None)
    }

    /// Tells what the calling thread waits for.
    pub(crate) fn tell(&mut self, waits: &Waits) {
        let Some(slot) = self.slot() else {
            return;
        };
        waits::write(&slot.version, || {
            slot.how.store(waits.how, Ordering::Relaxed);
            slot.more.store(waits.more, Ordering::Relaxed);
            let used = waits.entries.iter().take(waits.used);
            for (entry, wait) in slot.entries.iter().zip(used) {
                entry.store(wait);
            }
            slot.entries_used
                .store(waits.used as u32, Ordering::Relaxed);
        });
    }

    /// Tells that the calling thread sends a message, and may wait for its receiver.
    pub(crate) fn tell_send(&mut self, comm: &'static Comm, peer: u32, tag: i32, bytes: u64) {
        let Some(slot) = self.slot() else {
            return;
        };
        waits::write(&slot.version, || {
            slot.how.store(0, Ordering::Relaxed);
            slot.more.store(0, Ordering::Relaxed);
            let [first, ..] = &slot.entries;
            first.store(&sending(comm, peer, tag, bytes));
            slot.entries_used.store(1, Ordering::Relaxed);
        });
    }

    /// The thread's slot; none if too many threads wait.
    fn slot(&mut self) -> Option<&'static WaitSlot> {
        if self.0.is_none() {
            self.0 = take(thread_id().max(1));
        }
        self.0
    }
}

/// A slot for the calling thread. Without several threads in MPI it is the first one, in any state: a thread that left
/// by longjmp may have left it behind.
fn take(thread: u32) -> Option<&'static WaitSlot> {
    if !multiple() {
        let slot = REPORTS.slots.first()?;
        slot.thread.store(thread, Ordering::Relaxed);
        return Some(slot);
    }
    let free = |slot: &&WaitSlot| {
        let taken = slot
            .thread
            .compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    };
    REPORTS.slots.iter().find(free)
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            waits::write(&slot.version, || {
                slot.entries_used.store(0, Ordering::Relaxed);
            });
            slot.thread.store(0, Ordering::Release);
        }
    }
}
