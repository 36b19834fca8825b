//! The first synchronous send of a process. From then on other ranks leave the process's messages where they are until
//! all ranks have stopped: a send that ends before that has been received indeed. So none of its sends may wait in the
//! library, where the thread could not stop; `pt2pt/send.rs` waits for them in the upper half.
//!
//! The other ranks learn it from a clock that this process alone has. While a checkpoint is pending, the first send is
//! held back like a collective operation of the process alone, until the others can have learned it.

use crate::object::comm::collective_clock;
use crate::object::request::synchronous;
use crate::object::Comm;
use crate::quiesce::collective_gate::pass;
use crate::quiesce::wait_loop;
use contract::abi::comm::COMM_WORLD;
use contract::synchronous_sends_clock;
use core::sync::atomic::{AtomicBool, Ordering};

/// To be called before each synchronous send. The thread may stop: the caller holds no lock.
#[inline]
pub(crate) fn begin_use() -> Result<(), i32> {
    match synchronous::are_used() {
        true => Ok(()),
        false => first_use(),
    }
}

#[cold]
fn first_use() -> Result<(), i32> {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, Ordering::AcqRel) {
        wait_loop::wait_until(|| synchronous::are_used() || !BEGUN.load(Ordering::Acquire));
        return begin_use();
    }
    let own = Comm::at(COMM_WORLD as u32).body.rank as u32;
    let clock = collective_clock::make_for(synchronous_sends_clock(own))
        .inspect_err(|_| BEGUN.store(false, Ordering::Release))?;
    pass(clock);
    synchronous::use_them();
    Ok(())
}
