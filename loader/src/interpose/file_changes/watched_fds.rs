//! One word for each descriptor: whether a write through it may change data that the undo journal has to record first.
//!
//! Each write of the application reads it. The default is yes: for a descriptor that was never examined, whose number
//! refers to another file now, or whose flags have changed, and for every one when the journal starts a segment.

use core::sync::atomic::{AtomicU32, Ordering};

const LIMIT: usize = 1 << 16;
/// State of each descriptor, valid for the segment that it was stored in.
static STATES: [AtomicU32; LIMIT] = [const { AtomicU32::new(0) }; LIMIT];
/// Number of the segment, in steps of [`STEP`]; 0 before the first.
static SEGMENT: AtomicU32 = AtomicU32::new(0);

const STEP: u32 = 4;
const PASSES: u32 = 1;
const WATCHED: u32 = 2;
const APPENDS: u32 = 3;

fn state(fd: i32) -> Option<&'static AtomicU32> {
    STATES.get(usize::try_from(fd).ok()?)
}

fn is(fd: i32, what: u32) -> bool {
    let now = SEGMENT.load(Ordering::Relaxed) | what;
    state(fd).is_some_and(|state| state.load(Ordering::Relaxed) == now)
}

fn set(fd: i32, what: u32) {
    if let Some(state) = state(fd) {
        state.store(SEGMENT.load(Ordering::Relaxed) | what, Ordering::Relaxed);
    }
}

/// Starts a segment.
pub fn begin() {
    forget_all();
}

/// Whether changes are journaled at all.
pub fn is_on() -> bool {
    SEGMENT.load(Ordering::Relaxed) != 0
}

/// Whether a change of the file through the descriptor may have to be journaled.
pub fn may_change(fd: i32) -> bool {
    is_on() && !is(fd, PASSES)
}

/// Whether a write through the descriptor may have to be journaled. Appended bytes lie behind all old content.
pub fn may_overwrite(fd: i32) -> bool {
    may_change(fd) && !is(fd, APPENDS)
}

/// Whether the descriptor was examined and is journaled.
pub fn is_watched(fd: i32) -> bool {
    is(fd, WATCHED)
}

/// Marks the descriptor: writes are to be journaled.
pub fn watch(fd: i32) {
    set(fd, WATCHED);
}

/// Marks the descriptor: writes append, and other changes are to be journaled.
pub fn let_append(fd: i32) {
    set(fd, APPENDS);
}

/// Marks the descriptor: writes need no journal record.
pub fn let_pass(fd: i32) {
    set(fd, PASSES);
}

/// Forgets all descriptors: several numbers may share the flags that have changed.
pub fn forget_all() {
    SEGMENT.fetch_add(STEP, Ordering::Relaxed);
}

/// Forgets a descriptor whose number or flags have changed.
pub fn forget(fd: i32) {
    set(fd, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_state_is_valid_for_one_segment() {
        assert!(!may_change(7));
        begin();
        assert!(may_change(7));
        let_pass(7);
        assert!(!may_change(7) && may_change(8));
        forget(7);
        assert!(may_change(7) && !is_watched(7));
        let_append(7);
        assert!(may_change(7) && !may_overwrite(7) && may_overwrite(8));
        watch(7);
        assert!(may_change(7) && may_overwrite(7) && is_watched(7));
        begin();
        assert!(!is_watched(7));
        let_pass(LIMIT as i32);
        assert!(may_change(LIMIT as i32) && may_change(-1));
    }
}
