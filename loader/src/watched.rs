//! Which descriptors may change what the undo journal has to note first.
//!
//! Each write of the application looks here, so it is one word. A descriptor that nobody has looked at counts as
//! one that may; it does again when its number is given to another file, when its flags change, and when the
//! journal begins a new segment.

use core::sync::atomic::{AtomicU32, Ordering};

const LIMIT: usize = 1 << 16;
/// What is noted of a descriptor counts as long as it is of the present segment.
static STATES: [AtomicU32; LIMIT] = [const { AtomicU32::new(0) }; LIMIT];
/// Counts segments, in steps of [`STEP`]; 0 before the first.
static SEGMENT: AtomicU32 = AtomicU32::new(0);

const STEP: u32 = 4;
const PASSES: u32 = 1;
const WATCHED: u32 = 2;

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

/// A segment begins.
pub fn begin() {
    SEGMENT.fetch_add(STEP, Ordering::Relaxed);
}

/// Whether changes are noted at all.
pub fn is_on() -> bool {
    SEGMENT.load(Ordering::Relaxed) != 0
}

/// Whether something that is written through the descriptor may have to be noted.
pub fn may_change(fd: i32) -> bool {
    is_on() && !is(fd, PASSES)
}

/// Whether it was looked at, and is to be noted.
pub fn is_watched(fd: i32) -> bool {
    is(fd, WATCHED)
}

/// What is written through the descriptor is to be noted.
pub fn watch(fd: i32) {
    set(fd, WATCHED);
}

/// Nothing that is written through the descriptor is to be noted.
pub fn let_pass(fd: i32) {
    set(fd, PASSES);
}

/// The number is another file's from now on, or the file's flags are others.
pub fn forget(fd: i32) {
    set(fd, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_descriptor_lasts_as_long_as_the_segment() {
        assert!(!may_change(7));
        begin();
        assert!(may_change(7));
        let_pass(7);
        assert!(!may_change(7) && may_change(8));
        forget(7);
        assert!(may_change(7) && !is_watched(7));
        watch(7);
        assert!(may_change(7) && is_watched(7));
        begin();
        assert!(!is_watched(7));
        let_pass(LIMIT as i32);
        assert!(may_change(LIMIT as i32) && may_change(-1));
    }
}
