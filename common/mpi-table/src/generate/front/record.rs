//! The statement that tells the record of the run of a call.

use super::input;
use crate::generate::lower_type::identifier;
use crate::{Class, Function, Kind, Param};

/// The statement, for a function whose calls are recorded. It follows the conversion of the arguments.
pub fn note(function: &Function) -> Option<String> {
    if !function.is_recorded() {
        return None;
    }
    let comm = match input(function, Kind::Comm) {
        Some(comm) => format!("Some({comm}_)"),
        None => "None".to_owned(),
    };
    let or_zero = |kind, decode: &str| match input(function, kind) {
        Some(name) => format!("abi::{decode}({name})"),
        None => "0".to_owned(),
    };
    let (peer, tag) = (or_zero(Kind::Rank, "rank_in"), or_zero(Kind::Tag, "tag_in"));
    let data = data(function);
    let bytes = match (&data, requests(function)) {
        (Some((_, count, datatype)), _) => {
            format!("i64::from({count}).saturating_mul({datatype}_.body.size())")
        }
        (None, Some(count)) => format!("i64::from({count})"),
        (None, None) => "0".to_owned(),
    };
    let is_sent = function.class == Class::Send && !function.name.contains("_init");
    let sent = match data.filter(|_| is_sent) {
        Some((buffer, count, datatype)) => {
            format!("Some((pass(App(abi::buffer({buffer} as _))), {count}, {datatype}_))")
        }
        None => "None".to_owned(),
    };
    Some(format!(
        "if upper_half::is_recorded() {{ \
         upper_half::note_call({}, {comm}, ({peer}, {tag}), {bytes}, {sent}); }}",
        function.slot
    ))
}

/// The first buffer with a count and a datatype that are single: its name and expressions of these.
fn data(function: &Function) -> Option<(String, String, String)> {
    let folded = function.folded().unwrap_or_default();
    let mut params = function.params.iter().peekable();
    while let Some(buffer) = params.next() {
        if !matches!(buffer.kind, Kind::SendBuffer | Kind::RecvBuffer) {
            continue;
        }
        let count = params.peek()?;
        let is_count = matches!(count.kind, Kind::Int | Kind::Count) && count.array.is_none();
        let datatype = function.params.iter().find(|param| is_datatype(param))?;
        if !is_count {
            return None;
        }
        let name = identifier(count);
        let folds = folded.iter().any(|(other, _)| other == count);
        let expression = match (folds, count.kind) {
            (true, _) => format!("{name}_fold.count()"),
            (false, Kind::Int) => name,
            (false, _) => return None,
        };
        return Some((identifier(buffer), expression, identifier(datatype)));
    }
    None
}

fn is_datatype(param: &Param) -> bool {
    param.kind == Kind::Datatype && param.array.is_none()
}

/// The number of requests.
fn requests(function: &Function) -> Option<String> {
    let named = |name: &str| function.param(name).filter(|param| param.array.is_none());
    let count = ["incount", "count"].into_iter().find_map(named)?;
    (function.class == Class::Completion).then(|| identifier(count))
}
