//! Generator of the lower half's functions that record what crossings return, or answer from such a record. Each has
//! the signature of its stub, names what the call writes by kind and length, and leaves to `Io` whether that is written
//! to the record or read from it: so both have one text.
//!
//! The generated text uses `mpi_sys`, lower-half's modules `adapter` and `handwritten`, and `crossing`, `refused`,
//! `live_comm` and `Io` of its folder `mpi/contents`.

use std::fmt::Write;

use super::adapter::{capacity, fill_slot, is_hand_written};
use super::lower_type::{identifier, lower_signature};
use crate::{Class, Direction, Function, Kind, Length, Param, Returns};

/// Functions that complete or start requests: lower-half's `mpi/contents/completions.rs` has them.
const HAND_WRITTEN: &[&str] = &[
    "MPI_Test",
    "MPI_Testall",
    "MPI_Testany",
    "MPI_Testsome",
    "MPI_Start",
    "MPI_Request_free",
];

/// The treatment of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    /// The library is called, also in a run of one rank alone: it concerns this process only.
    Live,
    /// The same, with a communicator that the library must have.
    LiveWithComm,
    /// The record gets its results.
    Recorded,
    /// The same, by hand-written code.
    ByHand,
    /// Its results cannot be recorded.
    Refused,
}

fn treatment(function: &Function) -> Treatment {
    let name = function.name.as_str();
    let has = |kind| function.params.iter().any(|param| param.kind == kind);
    let handles = || {
        function
            .params
            .iter()
            .filter(|param| param.kind.is_handle())
    };
    let of_types = |param: &Param| matches!(param.kind, Kind::Datatype | Kind::Op);
    let is_local = matches!(function.class, Class::Local | Class::Object);
    let packs = name.starts_with("MPI_Pack") || name.starts_with("MPI_Unpack");
    if HAND_WRITTEN.contains(&name) {
        Treatment::ByHand
    } else if function.returns != Returns::Error {
        Treatment::Live
    } else if name == "MPI_Abort" || packs && has(Kind::Comm) {
        Treatment::LiveWithComm
    } else if is_local && handles().next().is_some() && handles().all(of_types) {
        Treatment::Live
    } else if is_refused(function) {
        Treatment::Refused
    } else {
        Treatment::Recorded
    }
}

/// Whether the call writes what its parameters do not tell, or other processes write to the caller's memory later on.
fn is_refused(function: &Function) -> bool {
    let name = function.ordinary_name();
    let is_written = |param: &Param| param.direction != Direction::In;
    let is_unknown = |param: &Param| {
        let opaque = param.array == Some(Length::Opaque) || param.kind == Kind::Pointer;
        let several =
            param.array.is_some() && (param.kind.is_handle() || param.kind == Kind::Status);
        is_written(param) && (opaque && name != "MPI_Buffer_detach" || several)
            || matches!(param.kind, Kind::Callback | Kind::Win | Kind::Session)
    };
    matches!(
        function.class,
        Class::Window | Class::Tool | Class::Completion
    ) && name != "MPI_Cancel"
        || function.class.is_file() && (name.ends_with("_begin") || name.ends_with("_end"))
        || function.params.iter().any(is_unknown)
}

/// Source of the functions, and of `fill_slots`, which writes their addresses into the gate.
pub fn contents() -> String {
    let mut text = "// Generated from the table of MPI functions; do not edit.\n\n".to_owned();
    write_all(&mut text).expect("writing to a string cannot fail");
    text
}

fn write_all(text: &mut String) -> std::fmt::Result {
    let functions = crate::functions().iter().filter(|f| f.crosses());
    let functions: Vec<_> = functions.map(|f| (f, treatment(f))).collect();
    for (function, treatment) in &functions {
        let body = match treatment {
            Treatment::Live | Treatment::ByHand => continue,
            Treatment::LiveWithComm => format!("    {}\n", real(function, true)),
            Treatment::Refused => format!(
                "    refused({}, || unsafe {{ {} }})\n",
                function.slot,
                real(function, false)
            ),
            Treatment::Recorded => recorded(function),
        };
        writeln!(
            text,
            "unsafe extern \"C\" fn {}{} {{\n{body}}}\n",
            function.name,
            lower_signature(function)
        )?;
    }
    writeln!(
        text,
        "/// Writes the addresses of these functions into their slots."
    )?;
    writeln!(text, "pub(super) fn fill_slots(slots: &[AtomicUsize]) {{")?;
    for (function, treatment) in &functions {
        let path = match treatment {
            Treatment::Live => continue,
            Treatment::ByHand => "completions::",
            _ => "",
        };
        fill_slot(text, function, path)?;
    }
    writeln!(text, "}}")
}

/// The call of the library's adapter.
fn real(function: &Function, replaces_comm: bool) -> String {
    let given = |param: &Param| match replaces_comm && param.kind == Kind::Comm {
        true => format!("live_comm({})", identifier(param)),
        false => identifier(param),
    };
    let given: Vec<String> = function.params.iter().map(given).collect();
    let module = match is_hand_written(function) {
        true => "handwritten",
        false => "adapter",
    };
    format!("{module}::{}({})", function.name, given.join(", "))
}

fn recorded(function: &Function) -> String {
    let key = function.params.iter().filter(|param| {
        let by_value = param.array.is_none() && !param.kind.is_pointer() && !param.kind.is_handle();
        // Addresses are other ones in each process.
        by_value
            && param.direction == Direction::In
            && !matches!(param.kind, Kind::Aint | Kind::Double)
    });
    let key: Vec<String> = key
        .map(|param| format!("i64::from({})", identifier(param)))
        .collect();
    let written = function
        .params
        .iter()
        .filter(|param| param.direction != Direction::In);
    let mut outs: Vec<String> = written.filter_map(|param| out(function, param)).collect();
    outs.extend(data(function));
    let outs = match outs.is_empty() {
        true => "|_| ()".to_owned(),
        false => format!("|io| unsafe {{ {} }}", outs.join(" ")),
    };
    format!(
        "    let real = || unsafe {{ {} }};\n    crossing({}, &[{}], real, {outs})\n",
        real(function, false),
        function.slot,
        key.join(", "),
    )
}

/// The statement for what a call writes, other than data.
fn out(function: &Function, param: &Param) -> Option<String> {
    let name = identifier(param);
    let kind = param.kind;
    Some(match (kind, &param.array) {
        (Kind::RecvBuffer | Kind::Pointer, _) => return None,
        (kind, _) if kind.is_handle() => match param.direction {
            Direction::Out => format!("io.made({name}, HandleKind::{kind:?});"),
            _ => format!("io.changed({name}, HandleKind::{kind:?});"),
        },
        (Kind::String, Some(Length::Bytes(bytes))) => format!("io.text({name}, {bytes});"),
        (Kind::Flag, None) if function.class == Class::Receive => format!("io.looked({name});"),
        (_, Some(length)) => format!("io.array({name}, {});", entries(function, length)),
        (_, None) => format!("io.array({name}, 1);"),
    })
}

/// Number of entries of an array, which a run of one rank alone reads from the record where the library tells it.
fn entries(function: &Function, length: &Length) -> String {
    let told = capacity(function, length);
    match length {
        Length::CommSize(_) | Length::Neighbours(..) => format!("io.size(|| {told})"),
        _ => told,
    }
}

/// The statements for the data that a call receives.
fn data(function: &Function) -> Vec<String> {
    let params = &function.params;
    let Some(buffer) = params.iter().find(|param| param.kind == Kind::RecvBuffer) else {
        return Vec::new();
    };
    let status = params.iter().find(|param| param.kind == Kind::Status);
    let request = params
        .iter()
        .find(|param| param.kind == Kind::Request && param.direction == Direction::Out);
    let region = region(function, buffer);
    // After an error, arrays of counts need not be valid.
    let condition = match of_some(function) {
        Some(condition) => format!("io.has_data() && {condition}"),
        None => "io.has_data()".to_owned(),
    };
    let region = format!("if {condition} {{ {region} }} else {{ Region::none() }}");
    let given = match (request, status) {
        (Some(request), _) => {
            let request = identifier(request);
            let is_persistent = function.name.contains("_init");
            // All others receive messages, whose lengths are in their statuses.
            let by_status = !of_all(function);
            format!("io.later({request}, region, {is_persistent}, {by_status});")
        }
        (None, Some(status)) => format!("io.received(region, {});", identifier(status)),
        (None, None) => "io.data(&region, None);".to_owned(),
    };
    vec![format!("let region = {region};"), given]
}

/// Whether the function is collective, so that it fills the whole buffer.
fn of_all(function: &Function) -> bool {
    matches!(
        function.class,
        Class::Collective | Class::CollectiveNonblocking
    )
}

/// The condition under which this process receives something.
fn of_some(function: &Function) -> Option<String> {
    let name = &function.name;
    function.param("root")?;
    if name.contains("cast") {
        Some("!io.is_sender(comm, root)".to_owned())
    } else if name.contains("catter") {
        Some("recvbuf as usize != abi::IN_PLACE".to_owned())
    } else {
        Some("io.is_root(comm, root)".to_owned())
    }
}

fn region(function: &Function, buffer: &Param) -> String {
    let name = identifier(buffer);
    let has = |name: &str| function.param(name).is_some();
    let reduces = has("op");
    let Some(counts) = function.param("recvcounts") else {
        if !has("recvcount") {
            return format!("Region::of({name}, count.into(), datatype)");
        }
        let datatype = match has("recvtype") {
            true => "recvtype",
            false => "datatype",
        };
        let is_one = reduces || function.name.contains("catter") || !of_all(function);
        let blocks = match (is_one, function.name.contains("eighbor")) {
            (true, _) => return format!("Region::of({name}, recvcount.into(), {datatype})"),
            (false, true) => Length::Neighbours("comm".to_owned(), true),
            (false, false) => Length::CommSize("comm".to_owned()),
        };
        let blocks = capacity(function, &blocks);
        return format!("io.blocks({name}, recvcount.into(), {datatype}, || {blocks})");
    };
    let (counts_name, length) = (identifier(counts), counts.array.as_ref());
    let length = length.map_or_else(|| "0".to_owned(), |length| capacity(function, length));
    if reduces {
        return format!("io.own_block({name}, {counts_name}, datatype, comm)");
    }
    let displs = match has("rdispls") {
        true => "rdispls",
        false => "displs",
    };
    match has("recvtypes") {
        true => {
            format!("io.blocks_of_types({name}, {counts_name}, {displs}, recvtypes, || {length})")
        }
        false => {
            format!("io.blocks_at({name}, {counts_name}, {displs}, recvtype, || {length})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> &'static Function {
        let mut functions = crate::functions().iter();
        functions.find(|f| f.name == name).expect("in the table")
    }

    #[test]
    fn the_treatment_follows_from_kinds_and_class() {
        for (name, expected) in [
            ("MPI_Type_vector", Treatment::Live),
            ("MPI_Reduce_local", Treatment::Live),
            ("MPI_Get_elements", Treatment::Live),
            ("MPI_Wtime", Treatment::Live),
            ("MPI_Pack", Treatment::LiveWithComm),
            ("MPI_Irecv", Treatment::Recorded),
            ("MPI_Comm_split", Treatment::Recorded),
            ("MPI_Group_incl", Treatment::Recorded),
            ("MPI_File_read_at", Treatment::Recorded),
            ("MPI_Buffer_detach", Treatment::Recorded),
            ("MPI_Cancel", Treatment::Recorded),
            ("MPI_Test", Treatment::ByHand),
            ("MPI_Put", Treatment::Refused),
            ("MPI_Win_create", Treatment::Refused),
            ("MPI_File_read_all_begin", Treatment::Refused),
            ("MPI_Comm_get_attr", Treatment::Refused),
            ("MPI_T_init_thread", Treatment::Refused),
        ] {
            assert_eq!(treatment(function(name)), expected, "{name}");
        }
    }

    #[test]
    fn data_are_where_the_function_receives_them() {
        for (name, expected) in [
            ("MPI_Irecv", "{ Region::of(buf, count.into(), datatype) } else { Region::none() }; io.later(request, region, false, true);"),
            ("MPI_Recv_init", "io.later(request, region, true, true);"),
            ("MPI_Mrecv", "io.changed(message, HandleKind::Message); io.array(status, 1); let region"),
            ("MPI_Bcast", "&& !io.is_sender(comm, root) { Region::of(buffer, count.into(), datatype) }"),
            ("MPI_Gather", "&& io.is_root(comm, root) { io.blocks(recvbuf, recvcount.into(), recvtype, || \
                            array::comm_size(handle(comm))) }"),
            ("MPI_Ialltoallw", "io.blocks_of_types(recvbuf, recvcounts, rdispls, recvtypes, || "),
            ("MPI_Gatherv", "io.blocks_at(recvbuf, recvcounts, displs, recvtype, || "),
            ("MPI_Scatterv", "Region::of(recvbuf, recvcount.into(), recvtype)"),
            ("MPI_Reduce_scatter", "io.own_block(recvbuf, recvcounts, datatype, comm)"),
            ("MPI_Reduce_scatter_block", "Region::of(recvbuf, recvcount.into(), datatype)"),
            ("MPI_Neighbor_allgather", "array::neighbours(handle(comm)).0"),
            ("MPI_Sendrecv", "{ Region::of(recvbuf, recvcount.into(), recvtype) } else { Region::none() }; io.received(region, status);"),
            ("MPI_Dims_create", "io.array(dims, array::length(ndims));"),
        ] {
            let body = recorded(function(name));
            assert!(body.contains(expected), "{name}: {body}");
        }
        assert!(recorded(function("MPI_Barrier")).contains("|_| ()"));
        assert!(recorded(function("MPI_Send"))
            .contains("&[i64::from(count), i64::from(dest), i64::from(tag)]"));
    }

    #[test]
    fn every_length_is_known() {
        assert!(!contents().contains("compile_error"));
    }
}
