//! Messages: sends and receives, requests and their completion, the collective clocks, and the safe
//! state of all these.
//!
//! While no checkpoint is pending the functions here count, and call the lower half. What a
//! checkpoint needs beside the counts stands in the request objects. The waiting calls never leave a
//! frame in the lower half: the services they use come back when a checkpoint is asked for, and the
//! wait goes on here (`park.rs`), where this rank pulls messages that nobody has asked for yet
//! (`unexpected.rs`), tells on whom it waits (`activity.rs`), and stops when all do.
//! At the cut `drain.rs` leaves nothing under way; `rebuild.rs` posts the unmatched receives again.

mod activity;
mod batch;
mod blame;
mod buffer;
mod collective;
mod copy;
mod counts;
mod drain;
#[cfg(test)]
mod fake;
mod grequest;
mod isendrecv;
mod matched;
mod park;
mod partitioned;
mod persistent;
mod probe;
mod rebuild;
mod receive;
mod repeated;
mod replaced;
mod request;
mod send;
mod status;
mod sweep;
mod test;
#[cfg(test)]
mod tests;
mod two_phase;
mod unexpected;
mod wait;
mod words;

pub use blame::raise_request;
pub(crate) use blame::take as forget_blame;
pub use buffer::{buffer_attach, buffer_attach_c, buffer_detach, buffer_detach_c};
pub(crate) use collective::duplication_request;
pub use collective::{
    access_request, collective_begin, collective_begin_unmade, collective_end, collective_request,
    done_access_request, file_collective_request, file_request, finalize_begin, Token,
};
pub(crate) use copy::copy;
pub(crate) use drain::drain;
pub use grequest::{grequest_complete, grequest_is_fortran, grequest_start};
pub use isendrecv::{isendrecv, isendrecv_replace};
pub use matched::{improbe, imrecv, mprobe, mrecv, MessageBody};
pub(crate) use park::wait_until;
pub use partitioned::{parrived, pready, pready_list, pready_range, precv_init, psend_init};
pub use persistent::{recv_init, start, startall};
pub use probe::{iprobe, probe};
pub(crate) use rebuild::rebuild;
pub use receive::{irecv, recv, sendrecv};
pub use repeated::{collective_init, Starter};
pub use replaced::sendrecv_replace;
pub use request::{RequestBody, Scratch};
pub use send::{
    bsend, bsend_init, ibsend, irsend, isend, issend, rsend, rsend_init, send, send_init, ssend,
    ssend_init,
};
pub use status::{
    get_count, get_count_c, get_elements, get_elements_x, get_elements_x as get_elements_c,
    status_set_cancelled, status_set_elements, status_set_elements_x,
    status_set_elements_x as status_set_elements_c, test_cancelled,
};
pub use test::{request_get_status, test, testall, testany, testsome};
pub use two_phase::collective_begin_blocking;
pub(crate) use unexpected::leave;
pub use wait::{cancel, request_free, wait, waitall, waitany, waitsome};

/// To be called when MPI is initialised and the size of the world is known.
pub(crate) fn init(world_size: usize) -> Result<(), i32> {
    counts::init(world_size);
    drain::init()
}

/// Whether a non-blocking collective operation is under way: it may use operations and datatypes
/// that the application has freed.
pub(crate) fn collectives_pending() -> bool {
    request::pending().any(|request| request.body.kind.get().is_collective())
}

/// Why no checkpoint may be taken now, if that is so.
pub(crate) fn refusal() -> Option<&'static str> {
    drain::has_failed().then_some(
        "in an earlier checkpoint of this job an operation of Stasis's own failed in the MPI \
         library; restart the job from its last good checkpoint to take new ones",
    )
}
