//! Receives the messages of `tell.rs`.

use crate::object::request::State;
use crate::pt2pt::post;
use crate::pt2pt::tell::{args, UnderWay};
use contract::abi::{Status, ANY_SOURCE, ERR_REQUEST, SUCCESS};

/// The next message that has come, and the world rank that has sent it. Otherwise its receive stays posted, in `next`.
pub(crate) fn hear<T: Copy>(
    next: &mut Option<UnderWay<T>>,
    tag: i32,
    blank: T,
) -> Result<Option<(u32, T)>, i32> {
    let (request, message) = match next.take() {
        Some(posted) => posted,
        None => {
            let mut place = Box::new(blank);
            let request = post::post(args(&mut place, ANY_SOURCE, tag))?;
            (request, place)
        }
    };
    if request.body.state.get() != State::Done {
        *next = Some((request, message));
        return Ok(None);
    }
    let mut status = Status::EMPTY;
    let error = request.result(&mut status);
    request.recycle();
    match error {
        Some(SUCCESS) => Ok(Some((status.source as u32, *message))),
        error => Err(error.unwrap_or(ERR_REQUEST)),
    }
}
