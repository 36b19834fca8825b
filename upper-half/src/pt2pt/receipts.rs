//! Receipts: the receiver of a synchronous message that a drain has pulled tells the sender when a receive has asked
//! for the message. Only then is the send complete for the application (`receipts_heard.rs`).

use crate::object::request::synchronous::RECEIPT;
use crate::object::unexpected::Entry;
use crate::pt2pt::tell::{tell, UnderWay};
use crate::runtime::lock::Lock;

/// Receipts that may still be under way.
static TOLD: Lock<Vec<UnderWay<u64>>> = Lock::new(Vec::new());

/// The application has asked for an early message. A receipt that cannot be sent is lost, and the sender waits.
#[inline]
pub(crate) fn give(entry: &mut Entry) {
    if let Some((sender, send)) = entry.receipt.take() {
        let _ = tell(&mut TOLD.lock(), sender, RECEIPT, send);
    }
}
