//! The names that the application has given to communicators, where the agent reads them. A rank that is stuck in the
//! library cannot be asked for them.

use crate::runtime::lock::Lock;
use crate::runtime::reports::REPORTS;
use contract::waits::{CommName, NAME_BYTES};
use core::ffi::CStr;
use core::sync::atomic::Ordering;

static WRITING: Lock<()> = Lock::new(());

fn entry(id: u64) -> Option<&'static CommName> {
    let mut names = REPORTS.names.iter();
    names.find(|name| name.id.load(Ordering::Relaxed) == id)
}

/// The communicator with this id has a name now. When too many have one, the name is not told.
pub(crate) fn set(id: u64, name: &CStr) {
    let _alone = WRITING.lock();
    let Some(entry) = entry(id).or_else(|| entry(0)) else {
        return;
    };
    entry.id.store(0, Ordering::Release);
    let mut bytes = [0; NAME_BYTES];
    for (byte, letter) in bytes.iter_mut().zip(name.to_bytes()) {
        *byte = *letter;
    }
    for (word, bytes) in entry.text.iter().zip(bytes.chunks_exact(8)) {
        let bytes = bytes.try_into().unwrap_or_default();
        word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }
    entry.id.store(id, Ordering::Release);
}

/// The communicator with this id is no more.
pub(crate) fn forget(id: u64) {
    let _alone = WRITING.lock();
    if let Some(entry) = entry(id) {
        entry.id.store(0, Ordering::Release);
    }
}
