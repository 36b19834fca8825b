//! Times as the kernel has them.

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;

/// `struct timespec`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timespec {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds below one second.
    pub nanoseconds: i64,
}

impl Timespec {
    /// Converts from nanoseconds.
    pub fn new(ns: i64) -> Self {
        Self {
            seconds: ns.div_euclid(SECOND),
            nanoseconds: ns.rem_euclid(SECOND),
        }
    }

    /// Converts to nanoseconds, saturating (292 years).
    pub fn ns(&self) -> i64 {
        let seconds = self.seconds.saturating_mul(SECOND);
        seconds.saturating_add(self.nanoseconds)
    }

    /// Whether the kernel accepts it as a duration.
    pub fn is_span(&self) -> bool {
        self.seconds >= 0 && (0..SECOND).contains(&self.nanoseconds)
    }
}
