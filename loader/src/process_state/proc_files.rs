//! Settings of the process that are files of /proc: what of it a core dump holds, and how soon the kernel kills it for
//! want of memory.
//!
//! As with other settings, only what the program itself has changed is saved: what differs from the start of the
//! process, which [`note_start`] records.

use crate::sys::mutex::lock_of;
use serde::{Deserialize, Serialize};
use std::fs;
use std::sync::Mutex;

/// Names, with what has to be written before the value that was read.
const FILES: [(&str, &str); 2] = [("coredump_filter", "0x"), ("oom_score_adj", "")];

/// Values of [`FILES`]; none where the kernel has no such file.
type Values = [Option<String>; FILES.len()];

static START: Mutex<Values> = Mutex::new([const { None }; FILES.len()]);

/// Values that the program has changed. The version of the section *proc files* (`ckpt-image/src/format/section.rs`)
/// changes with any change here or in [`FILES`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcFiles {
    changed: Values,
}

fn values() -> Values {
    FILES.map(|(name, _)| {
        let text = fs::read_to_string(format!("/proc/self/{name}")).ok()?;
        Some(text.trim().to_owned())
    })
}

/// Records the values at the start of the process.
pub(super) fn note_start() {
    *lock_of(&START) = values();
}

/// Values that the program has changed.
pub(super) fn of_process() -> ProcFiles {
    let start = lock_of(&START);
    let mut changed = values();
    for (now, was) in changed.iter_mut().zip(start.iter()) {
        if now == was {
            *now = None;
        }
    }
    ProcFiles { changed }
}

impl ProcFiles {
    /// Whether none was changed.
    pub fn is_empty(&self) -> bool {
        self.changed.iter().all(Option::is_none)
    }

    /// Sets the values. Returns a warning for each that is not permitted here.
    pub(super) fn restore(&self) -> Vec<String> {
        let all = FILES.iter().zip(&self.changed);
        let refused = all.filter_map(|((name, prefix), value)| {
            let value = value.as_ref()?;
            let written = fs::write(format!("/proc/self/{name}"), format!("{prefix}{value}"));
            let why = written.err()?;
            Some(format!(
                "the program had set /proc/self/{name} to {value}, which is not permitted here: {why}; it goes on with \
                 that of its launcher"
            ))
        });
        refused.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_is_set_again() {
        note_start();
        assert!(of_process().is_empty());
        fs::write("/proc/self/coredump_filter", "0x15").unwrap();
        let changed = of_process();
        assert_eq!(changed.changed, [Some("00000015".to_owned()), None]);
        fs::write("/proc/self/coredump_filter", "0x33").unwrap();
        assert_eq!(changed.restore(), Vec::<String>::new());
        assert_eq!(of_process(), changed);
    }
}
