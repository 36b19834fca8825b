//! The part of the statement of tools that tells the profile of a call: its communicator, and how much data it names
//! (`upper_half::profile`).
//!
//! The data are those that the process gives: of an exchange those that it sends, of a receive the room for the
//! message, of a scatter the part that it gets. Of arguments that a process need not pass, none is read.

use super::convert::entries;
use super::data::{self, base_name};
use super::input;
use crate::generate::lower_type::identifier;
use crate::{Class, Function, Kind, Param};

/// The statement, of a function that has a communicator or data. `folds` is whether large counts are folded into
/// datatypes.
pub fn notes(function: &Function, folds: bool) -> Option<String> {
    let comm = input(function, Kind::Comm);
    let data = given(function, folds);
    if comm.is_none() && data.is_none() {
        return None;
    }
    let repeats = match function.class {
        Class::CollectivePersistent => format!(
            " upper_half::profile::repeats({});",
            optional(collective(function, folds))
        ),
        _ => String::new(),
    };
    Some(format!(
        "upper_half::profile::notes({}, {}, {});{repeats}",
        function.slot,
        optional(comm.map(|comm| format!("{comm}_"))),
        optional(data)
    ))
}

/// Expression of a value that may be absent.
fn optional(value: Option<String>) -> String {
    value.map_or("None".to_owned(), |value| format!("Some({value})"))
}

/// Expression of the data: the number of elements, and the datatype.
fn given(function: &Function, folds: bool) -> Option<String> {
    match function.class {
        Class::Collective | Class::CollectiveNonblocking => collective(function, folds),
        // A function that makes a persistent request moves nothing. Each start does.
        _ if function.ordinary_name().ends_with("_init") => None,
        _ => data::data(function, folds)
            .map(|data| format!("({}, Some({}_))", data.wide, data.datatype))
            .or_else(|| one_element(function)),
    }
}

/// The data of a function of windows without a count.
fn one_element(function: &Function) -> Option<String> {
    let datatype = input(function, Kind::Datatype)?;
    let is_one = function.class == Class::Window && function.param("result_addr").is_some();
    (is_one && function.param("origin_count").is_none()).then(|| format!("(1, Some({datatype}_))"))
}

fn collective(function: &Function, folds: bool) -> Option<String> {
    let name = base_name(function);
    let gives = |side: &str| side_data(function, side, &name, folds);
    let all = match name.as_str() {
        "Barrier" => return None,
        "Scatter" | "Scatterv" => either("recvbuf", &gives("recv")?, &gives("send")?),
        _ if function.param("sendcount").is_some() || function.param("sendcounts").is_some() => {
            match function.param("sendbuf").is_some() && !name.starts_with("Neighbor") {
                true => either("sendbuf", &gives("send")?, &gives("recv")?),
                false => gives("send")?,
            }
        }
        _ => reduction(function, &name, folds)?,
    };
    Some(match input(function, Kind::Rank) {
        Some(root) => format!(
            "if upper_half::profile::has_data(abi::rank_in({root}), {}) {{ {all} }} else {{ (0, None) }}",
            name == "Bcast"
        ),
        None => all,
    })
}

/// One of two, depending on whether a buffer is MPI_IN_PLACE.
fn either(buffer: &str, usual: &str, in_place: &str) -> String {
    format!(
        "if upper_half::profile::in_place(abi::buffer({buffer} as _) as _) {{ {in_place} }} else {{ {usual} }}"
    )
}

/// The data of a broadcast or a reduction.
fn reduction(function: &Function, name: &str, folds: bool) -> Option<String> {
    let datatype = input(function, Kind::Datatype)?;
    let count = match name {
        "Reduce_scatter" => total(function.param("recvcounts")?),
        "Reduce_scatter_block" => format!(
            "({}).saturating_mul(i64::from(comm_.body.size))",
            single(function, function.param("recvcount")?, folds)
        ),
        _ => single(function, function.param("count")?, folds),
    };
    Some(format!("({count}, Some({datatype}_))"))
}

/// The data on the side `send` or `recv` that belong to this process.
fn side_data(function: &Function, side: &str, name: &str, folds: bool) -> Option<String> {
    let datatype = format!("Some({side}type_)");
    let exchanges = name.contains("lltoall");
    if let Some(count) = function.param(&format!("{side}count")) {
        let count = single(function, count, folds);
        let blocks = match (exchanges, name.starts_with("Neighbor")) {
            (false, _) => None,
            (true, true) => Some("common::neighbours(comm_, false)"),
            (true, false) => Some("common::collective_size(comm_)"),
        };
        let count = match blocks {
            Some(blocks) => format!("({count}).saturating_mul({blocks} as i64)"),
            None => count,
        };
        return Some(format!("({count}, {datatype})"));
    }
    let counts = function.param(&format!("{side}counts"))?;
    let types = format!("{side}types");
    Some(match (exchanges, function.param(&types)) {
        (_, Some(_)) => {
            let (count, length) = (entry(counts, "at"), length(counts));
            format!(
                "((0..{length}).map(|at| ({count}).saturating_mul(\
                 abi::datatype(*{types}.add(at)).body.size())).sum::<i64>(), None)"
            )
        }
        (true, None) => format!("({}, {datatype})", total(counts)),
        // Of a gather or scatter in place, the own block.
        (false, None) => format!(
            "({}, {datatype})",
            entry(counts, "common::entries(comm_.body.rank)")
        ),
    })
}

fn length(counts: &Param) -> String {
    counts.array.as_ref().map(entries).unwrap_or_default()
}

/// The sum of an array of counts.
fn total(counts: &Param) -> String {
    format!(
        "(0..{}).map(|at| {}).sum::<i64>()",
        length(counts),
        entry(counts, "at")
    )
}

/// An entry of an array of counts, as an `i64`.
fn entry(counts: &Param, at: &str) -> String {
    wide(counts, &format!("*{}.add({at})", identifier(counts)))
}

/// A count, as an `i64`.
fn single(function: &Function, count: &Param, folds: bool) -> String {
    let name = identifier(count);
    let folded = function.folded().filter(|_| folds).unwrap_or_default();
    match folded.iter().any(|(other, _)| *other == count) {
        true => format!("i64::from({name}_fold.count())"),
        false => wide(count, &name),
    }
}

/// The value of a parameter, as an `i64`.
fn wide(param: &Param, value: &str) -> String {
    match param.kind {
        Kind::Count => value.to_owned(),
        _ => format!("i64::from({value})"),
    }
}
