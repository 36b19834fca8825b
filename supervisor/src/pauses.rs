//! The pauses before the starts of a job that makes no progress, as those of systemd and Kubernetes: what has refused a
//! start may pass (a file server that is started again, a full file system), and takes longer than a start.

use std::time::Duration;

/// Longest pause. An incarnation that has lived longer has made progress.
pub const LONGEST: Duration = Duration::from_secs(60);

/// Counts the incarnations in a row that have made no progress.
#[derive(Debug, Default)]
pub struct Pauses {
    idle: u32,
}

impl Pauses {
    /// The pause before the next start, for an incarnation that has lived for this time. `failures` counts those in a
    /// row without a new checkpoint. After progress there is none.
    ///
    /// # Examples
    /// ```
    /// use stasis_supervisor::pauses::{Pauses, LONGEST};
    /// use std::time::Duration;
    ///
    /// let mut pauses = Pauses::default();
    /// let second = Duration::from_secs(1);
    /// let mut next = |failures| pauses.after(second, failures).as_secs();
    /// assert_eq!((1..9).map(&mut next).collect::<Vec<_>>(), [0, 1, 2, 4, 8, 16, 32, 60]);
    /// // There is a new checkpoint, or the incarnation has lived long enough.
    /// assert_eq!(next(1), 0);
    /// assert_eq!(next(2), 1);
    /// assert_eq!(pauses.after(LONGEST, 3), Duration::ZERO);
    /// ```
    pub fn after(&mut self, lived: Duration, failures: u32) -> Duration {
        if failures <= 1 || lived >= LONGEST {
            self.idle = 0;
            return Duration::ZERO;
        }
        self.idle += 1;
        let doubled = 1_u64.checked_shl(self.idle - 1).unwrap_or(u64::MAX);
        Duration::from_secs(doubled).min(LONGEST)
    }
}
