//! The receives under way, which fill their memory at some time before they are complete. They have numbers, in the
//! order in which they begin, which are the same in the recorded run and in that of one rank alone.

use std::collections::{HashMap, VecDeque};

use super::region::Region;

/// A receive under way, or a persistent one.
#[derive(Clone)]
pub struct Pending {
    handle: usize,
    /// Where it puts what it receives.
    pub region: Region,
    /// Whether the status tells how much that is.
    pub by_status: bool,
    /// For a persistent request: whether it was started.
    started: Option<bool>,
}

/// All of them.
#[derive(Default)]
pub struct Pendings {
    last: u64,
    by_number: HashMap<u64, Pending>,
    /// The library may give several operations that are complete at once the same handle.
    by_handle: HashMap<usize, VecDeque<u64>>,
}

impl Pendings {
    /// A receive begins with this handle.
    pub fn begin(&mut self, handle: usize, region: Region, by_status: bool, is_persistent: bool) {
        self.last += 1;
        let pending = Pending {
            handle,
            region,
            by_status,
            started: is_persistent.then_some(false),
        };
        self.by_number.insert(self.last, pending);
        self.by_handle
            .entry(handle)
            .or_default()
            .push_back(self.last);
    }

    /// The persistent request with this handle is started.
    pub fn start(&mut self, handle: usize) {
        if let Some(pending) = self.number(handle).and_then(|n| self.by_number.get_mut(&n)) {
            pending.started = Some(true);
        }
    }

    /// Whether a receive with this handle is under way.
    pub fn is_under_way(&self, handle: usize) -> bool {
        let pending = self.number(handle).and_then(|n| self.by_number.get(&n));
        pending.is_some_and(|pending| pending.started != Some(false))
    }

    fn number(&self, handle: usize) -> Option<u64> {
        self.by_handle.get(&handle)?.front().copied()
    }

    /// The number of the receive under way with this handle, which is complete now.
    pub fn completed(&self, handle: usize) -> Option<u64> {
        self.is_under_way(handle).then(|| self.number(handle))?
    }

    /// Takes the receive with this number, unless it is persistent: that one can be started again.
    pub fn take(&mut self, number: u64) -> Option<Pending> {
        let pending = self.by_number.get_mut(&number)?;
        if let Some(started) = &mut pending.started {
            *started = false;
            return Some(pending.clone());
        }
        self.forget(number)
    }

    /// The persistent request with this handle is freed.
    pub fn free(&mut self, handle: usize) {
        if let Some(number) = self.number(handle) {
            self.forget(number);
        }
    }

    fn forget(&mut self, number: u64) -> Option<Pending> {
        let pending = self.by_number.remove(&number)?;
        if let Some(numbers) = self.by_handle.get_mut(&pending.handle) {
            numbers.retain(|its| *its != number);
            if numbers.is_empty() {
                self.by_handle.remove(&pending.handle);
            }
        }
        Some(pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(pendings: &mut Pendings, handle: usize, is_persistent: bool) {
        pendings.begin(handle, Region::none(), true, is_persistent);
    }

    #[test]
    fn operations_with_one_handle_are_completed_in_their_order() {
        let mut pendings = Pendings::default();
        for handle in [7, 7, 8] {
            begin(&mut pendings, handle, false);
        }
        for (handle, number) in [(7, 1), (8, 3), (7, 2)] {
            assert_eq!(pendings.completed(handle), Some(number));
            assert!(pendings.take(number).is_some() && pendings.take(number).is_none());
        }
        assert_eq!(pendings.completed(7), None);
    }

    #[test]
    fn a_persistent_receive_is_complete_once_for_each_start() {
        let mut pendings = Pendings::default();
        begin(&mut pendings, 7, true);
        for _ in 0..2 {
            assert_eq!(pendings.completed(7), None);
            pendings.start(7);
            assert_eq!(pendings.completed(7), Some(1));
            assert!(pendings.take(1).is_some());
        }
        pendings.free(7);
        assert!(pendings.take(1).is_none());
    }
}
