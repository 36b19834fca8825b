//! Point-to-point communication: the functions of MPI.
//!
//! While no checkpoint is pending the functions count (`quiesce/bookmarks.rs`) and call the lower half. A blocking call
//! never leaves a frame there: the services that it uses return when a checkpoint is requested, and the wait goes on in
//! `quiesce/wait_loop.rs`.

pub(crate) mod bsend_buffer;
mod hear;
mod isendrecv;
pub(crate) mod kept;
pub(crate) mod local_copy;
pub(crate) mod matched;
pub(crate) mod partition_matching;
pub(crate) mod partitioned;
pub(crate) mod persistent_message;
pub(crate) mod post;
pub(crate) mod probe;
mod receipts;
pub(crate) mod receipts_heard;
pub(crate) mod receive;
pub(crate) mod send;
mod send_below;
mod sendrecv_replace;
mod status;
mod synchronous_sends;
mod taken_sends;
mod tell;
pub(crate) mod vain_probes;

pub use bsend_buffer::{buffer_attach, buffer_attach_c, buffer_detach, buffer_detach_c};
pub use isendrecv::{isendrecv, isendrecv_replace};
pub use matched::{improbe, imrecv, mprobe, mrecv};
pub use partitioned::{parrived, pready, pready_list, pready_range, precv_init, psend_init};
pub use persistent_message::recv_init;
pub use probe::{iprobe, probe};
pub use receive::{irecv, recv, sendrecv};
pub use send::{
    bsend, bsend_init, ibsend, irsend, isend, issend, rsend, rsend_init, send, send_init, ssend,
    ssend_init,
};
pub use sendrecv_replace::sendrecv_replace;
pub use status::{
    get_count, get_count_c, get_elements, get_elements_x, get_elements_x as get_elements_c,
    status_set_cancelled, status_set_elements, status_set_elements_x,
    status_set_elements_x as status_set_elements_c, test_cancelled,
};
