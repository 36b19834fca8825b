//! The statement that tells the debugging tools of a call.

use super::data::{data, Data};
use super::{input, profiled};
use crate::generate::lower_type::identifier;
use crate::{Class, Function, Kind};

/// The statement, for a function whose calls are recorded or may wait in the library. It follows the conversion of the
/// arguments.
pub fn told(function: &Function) -> Option<String> {
    let statement = match function.is_recorded() {
        true => before_call(function, true),
        false => may_wait(function).then(|| "upper_half::told::before_other_call();".to_owned()),
    };
    let notes = profiled::notes(function, true).unwrap_or_default();
    statement.map(|statement| format!("if upper_half::tools::any() {{ {notes} {statement} }}"))
}

/// The call in the statement, for a function whose calls are recorded. `folds` is whether large counts are folded into
/// datatypes.
pub fn before_call(function: &Function, folds: bool) -> Option<String> {
    let start = |requests: &str| {
        let slot = function.slot;
        Some(format!(
            "upper_half::told::before_start({slot}, {requests});"
        ))
    };
    match function.name.as_str() {
        "MPI_Start" => return start("&[request_]"),
        "MPI_Startall" => {
            let requests = "array_of_requests_";
            return start(&format!(
                "core::slice::from_raw_parts({requests}, {requests}len)"
            ));
        }
        _ => {}
    }
    let polls = matches!(
        function.class,
        Class::Send | Class::Receive | Class::SendReceive | Class::Completion
    );
    let comm = match input(function, Kind::Comm) {
        Some(comm) => format!("Some({comm}_)"),
        None => "None".to_owned(),
    };
    let or_zero = |kind, decode: &str| match input(function, kind) {
        Some(name) => format!("abi::{decode}({name})"),
        None => "0".to_owned(),
    };
    let (peer, tag) = (or_zero(Kind::Rank, "rank_in"), or_zero(Kind::Tag, "tag_in"));
    let data = data(function, folds);
    let bytes = match (&data, requests(function)) {
        (Some(Data { wide, datatype, .. }), _) => {
            format!("{wide}.saturating_mul({datatype}_.body.size())")
        }
        (None, Some(count)) => format!("i64::from({count})"),
        (None, None) => "0".to_owned(),
    };
    let is_sent = function.class == Class::Send && !function.name.contains("_init");
    let sent = match data.filter(|_| is_sent) {
        Some(Data {
            buffer,
            count,
            datatype,
            ..
        }) => {
            format!("Some((pass(App(abi::buffer({buffer} as _))), {count}, {datatype}_))")
        }
        None => "None".to_owned(),
    };
    Some(format!(
        "upper_half::told::before_call({}, {polls}, {comm}, ({peer}, {tag}), {bytes}, {sent});",
        function.slot
    ))
}

/// Whether a function whose calls are not recorded may wait for other processes in the library.
fn may_wait(function: &Function) -> bool {
    match function.class {
        Class::Window
        | Class::File
        | Class::FileCollective
        | Class::FileCollectiveNonblocking
        | Class::Process => true,
        _ => ["MPI_Buffer_detach", "MPI_Session_finalize"].contains(&function.ordinary_name()),
    }
}

/// The number of requests.
fn requests(function: &Function) -> Option<String> {
    let named = |name: &str| function.param(name).filter(|param| param.array.is_none());
    let count = ["incount", "count"].into_iter().find_map(named)?;
    (function.class == Class::Completion).then(|| identifier(count))
}
