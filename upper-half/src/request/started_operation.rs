//! Requests of operations other than messages, which were started in the lower half.

use crate::object::comm::NOBODY;
use crate::object::request::pair::Pair;
use crate::object::request::{Kind, Scratch, State};
use crate::object::{Comm, Request};
use crate::quiesce::collective_gate::{collective_end, Token};
use crate::request::lifecycle;
use contract::abi::{Status, SUCCESS};

/// Makes the request of a non-blocking collective operation that was started in the lower half under
/// `lower handle`, and ends `token`: once it is initiated it goes on by itself. `scratch` is kept until it
/// is complete.
///
/// # Errors
/// `MPI_ERR_NO_MEM` if there are too many requests.
pub fn collective_request(
    token: Token,
    lower_handle: usize,
    scratch: Scratch,
) -> Result<&'static Request, i32> {
    let (comm, number) = (token.comm, token.number());
    collective_end(token);
    make(Kind::Collective, comm, lower_handle, |request| {
        request.is_operation(number);
        request.keep_scratch(scratch);
    })
}

/// Makes the request of a duplication, which is the operation of `token`: `duplicate` may be used under its lower
/// handle once it is complete.
pub(crate) fn duplication_request(
    token: &Token,
    lower_handle: usize,
    duplicate: (&'static Comm, usize),
) -> Result<&'static Request, i32> {
    make(Kind::Collective, token.comm, lower_handle, |request| {
        request.is_operation(token.number());
        request.completes_duplicate(duplicate);
    })
}

/// Makes the request of two operations that were started over `comm`.
pub(crate) fn request_of_both(
    comm: &'static Comm,
    main: &'static Request,
    other: &'static Request,
) -> Result<&'static Request, i32> {
    let request = lifecycle::acquire(Kind::Pair, NOBODY, comm)?;
    request.body.pair.set(Some(Box::new(Pair {
        main,
        other,
        _copy: None,
    })));
    // Only now, or a sweep would look for a pair that is not there.
    request.body.state.set(State::Upper);
    Ok(request)
}

/// Makes the request of an operation on a window, started in the lower half under `lower handle`.
///
/// # Errors
/// As for [`collective_request`].
pub fn access_request(lower_handle: usize, scratch: Scratch) -> Result<&'static Request, i32> {
    make(Kind::Access, Comm::null(), lower_handle, |request| {
        request.keep_scratch(scratch);
    })
}

/// Makes the request of an operation on a window that is complete already.
///
/// # Errors
/// As for [`collective_request`].
pub fn done_access_request() -> Result<&'static Request, i32> {
    let request = lifecycle::acquire(Kind::Access, NOBODY, Comm::null())?;
    request.complete(&Status::EMPTY, SUCCESS);
    Ok(request)
}

/// Makes the request of an operation of this process on a file, started in the lower half under `lower handle`.
///
/// # Errors
/// As for [`collective_request`].
pub fn file_request(lower_handle: usize) -> Result<&'static Request, i32> {
    make(Kind::File, Comm::null(), lower_handle, |_| {})
}

/// The same for a non-blocking collective operation on a file; ends `token`.
///
/// # Errors
/// As for [`collective_request`].
pub fn file_collective_request(token: Token, lower_handle: usize) -> Result<&'static Request, i32> {
    let comm = token.comm;
    collective_end(token);
    make(
        Kind::FileCollective,
        Comm::null(),
        lower_handle,
        |request| {
            request.belongs_to_file(comm);
        },
    )
}

/// Makes the request of an operation that was started under `lower handle`, with what `keep` gives it.
fn make(
    kind: Kind,
    comm: &'static Comm,
    lower_handle: usize,
    keep: impl FnOnce(&'static Request),
) -> Result<&'static Request, i32> {
    let request = lifecycle::acquire(kind, NOBODY, comm)?;
    keep(request);
    request.started(lower_handle);
    Ok(request)
}
