//! Persistent collectives: a closure that starts the non-blocking operation, kept by the request.
//!
//! All is converted when the request is made. Objects go into the closure as `upper_half::Kept`, which
//! keeps them alive until the request is freed, and become words at every start, for a restart changes
//! those. Arrays of counts and displacements stay the application's, as MPI has it.

use super::convert::Body;
use super::{call_below, finish, reduction, GUARD};
use crate::Function;

/// The body of the function that makes such a request.
pub fn body(function: &Function) -> Vec<String> {
    let mut body = Body::for_persistent(function);
    let mut started = function.started_as().unwrap_or_default();
    if function.is_large() && function.folded().is_none() {
        started.push_str("_c");
    }
    let mut lines = vec![GUARD.to_owned()];
    lines.append(&mut body.objects);
    lines.append(&mut body.decode);
    lines.extend(reduction(function));
    lines.append(&mut body.kept);
    lines.push(
        "let start = move |comm_: &'static Comm, request_word: *mut usize| -> (i32, \
         upper_half::message::Scratch) {"
            .to_owned(),
    );
    lines.append(&mut body.words);
    let scratch = match body.boxes_words {
        true => "Some(words)",
        false => "None",
    };
    lines.push(format!(
        "let code = {}; (code, {scratch}) }};",
        call_below(&started, &body)
    ));
    lines.push(
        "let code = match upper_half::collective_init(comm_, Box::new(start)) { Ok(object) => { \
         *request = abi::request_out(object); contract::abi::SUCCESS } Err(code) => code };"
            .to_owned(),
    );
    finish(function, body, lines)
}
