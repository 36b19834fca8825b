//! Calls of the application.

use crate::argument::Buffer;
use crate::object::{Comm, Datatype};
use crate::record::{digests, log, mode, replay};
use contract::record::Call;

/// The application calls a function of MPI. `sent` is the data that the call sends, if it is known.
pub(crate) fn note_call(
    function: u32,
    comm: Option<&'static Comm>,
    (peer, tag): (i32, i32),
    count: i64,
    sent: Option<(Buffer<'_>, i32, &'static Datatype)>,
) {
    let call = Call {
        function,
        peer,
        comm: comm.map_or(0, |comm| comm.body.id),
        tag,
        count,
    };
    if mode::recording() {
        log::write_call(&call);
    } else if mode::replaying() && !log::ask_call(&call) {
        replay::go_on_alone();
    }
    if let (Some((buffer, count, datatype)), Some(comm)) = (sent, comm) {
        if log::digests_of_sends() {
            digests::of_data(buffer, count, datatype, comm);
        }
    }
}
