//! Persistent collective operations: the request keeps a closure that starts the non-blocking operation.
//!
//! Arguments are converted when the request is made. The closure holds objects as `upper_half::ObjectRef`, which keeps
//! them alive until the request is freed. It reads their lower handles at each start, because a restart changes them.
//! Arrays of counts and displacements remain the application's, as MPI requires.

use super::convert::Body;
use super::{call_below, finish, guard, reduction, tools};
use crate::Function;

/// The body of the function that makes a persistent request.
pub fn body(function: &Function) -> Vec<String> {
    let mut body = Body::for_persistent(function);
    let mut started = function.started_as().unwrap_or_default();
    if function.is_large() && function.folded().is_none() {
        started.push_str("_c");
    }
    let mut lines = vec![guard(function)];
    lines.extend(super::reduced::test(function));
    lines.append(&mut body.objects);
    lines.append(&mut body.decode);
    lines.extend(reduction(function));
    lines.extend(tools::told(function));
    lines.append(&mut body.kept);
    lines.push(
        "let start = move |comm_: &'static Comm, request_lower: *mut usize| -> (i32, \
         upper_half::request::Scratch) {"
            .to_owned(),
    );
    lines.append(&mut body.handles);
    let scratch = match body.boxes_words {
        true => "Some(handles)",
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
