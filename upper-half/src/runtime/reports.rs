//! The reports of this rank about its waits, where the agent reads them.

use contract::waits::WaitReports;

/// The reports.
pub(crate) static REPORTS: WaitReports = WaitReports::new();
