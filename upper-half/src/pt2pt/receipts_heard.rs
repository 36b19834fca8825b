//! The sender of a synchronous message that a drain has pulled hears that a receive has asked for it (`receipts.rs`).

use crate::object::request::synchronous::{self, RECEIPT};
use crate::pt2pt::hear::hear;
use crate::pt2pt::tell::UnderWay;
use crate::request::lifecycle::finish_send;
use crate::runtime::lock::Lock;

/// The receive of the next receipt.
static NEXT: Lock<Option<UnderWay<u64>>> = Lock::new(None);

/// Completes the sends whose receipts have come.
#[inline]
pub(crate) fn listen() {
    if synchronous::any_early() {
        // A receipt that cannot be received now is tried again at the next look.
        let _ = listen_for_all();
    }
}

#[cold]
fn listen_for_all() -> Result<(), i32> {
    let mut next = NEXT.lock();
    while synchronous::any_early() {
        let Some((_, send)) = hear(&mut next, RECEIPT, 0)? else {
            break;
        };
        if let Some(request) = synchronous::receipted(send) {
            finish_send(request);
        }
    }
    Ok(())
}
