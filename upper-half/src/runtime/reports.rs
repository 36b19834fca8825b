//! What this rank tells the agent of its waits, where the agent reads it.

use contract::waits::WaitReports;

/// The reports.
pub(crate) static REPORTS: WaitReports = WaitReports::new();
