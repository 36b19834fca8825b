//! Generator of the crossing stubs: upper-half's modules `crossing::stubs` and `object::lower_handle::named`.

use std::fmt::Write;

use contract::{Service, SLOTS_ADDRESS};

use super::lower_type::{identifier, lower_result, lower_signature, lower_type};
use crate::{Direction, Function, Kind, Length, Param, Returns};

/// The services: name of the function, slot, type in `contract::service`, signature. The generated code asserts that
/// the signature is that of the type.
const SERVICES: &[(&str, Service, &str, &str)] = &[
    (
        "predefined",
        Service::Predefined,
        "Predefined",
        "(kind: u32, standard: usize) -> usize",
    ),
    (
        "init",
        Service::Init,
        "Init",
        "(required: i32, provided: *mut i32, tag_ub: *mut i32) -> i32",
    ),
    ("finalize", Service::Finalize, "Finalize", "() -> i32"),
    (
        "recv",
        Service::Recv,
        "Recv",
        "(buf: *mut u8, count: i32, datatype: usize, source: i32, tag: i32, comm: usize, \
         status: *mut Status, request: *mut usize) -> i32",
    ),
    (
        "probe",
        Service::Probe,
        "Probe",
        "(source: i32, tag: i32, comm: usize, status: *mut Status) -> i32",
    ),
    (
        "mprobe",
        Service::Mprobe,
        "Mprobe",
        "(source: i32, tag: i32, comm: usize, message: *mut usize, status: *mut Status) -> i32",
    ),
    (
        "wait_one",
        Service::WaitOne,
        "WaitOne",
        "(request: *mut usize, status: *mut Status) -> i32",
    ),
    (
        "wait_all",
        Service::WaitAll,
        "WaitAll",
        "(count: i32, requests: *mut usize, statuses: *mut Status) -> i32",
    ),
    (
        "wait_any",
        Service::WaitAny,
        "WaitAny",
        "(count: i32, requests: *mut usize, index: *mut i32, status: *mut Status) -> i32",
    ),
    (
        "wait_some",
        Service::WaitSome,
        "WaitSome",
        "(count: i32, requests: *mut usize, outcount: *mut i32, indices: *mut i32, \
         statuses: *mut Status) -> i32",
    ),
    ("notify", Service::Notify, "Notify", "()"),
    (
        "clock_target",
        Service::ClockTarget,
        "ClockTarget",
        "(clock_id: u64) -> u64",
    ),
    (
        "fatal",
        Service::Fatal,
        "Fatal",
        "(text: *const u8, length: usize, exit_code: i32) -> !",
    ),
    (
        "op_create",
        Service::OpCreate,
        "OpCreate",
        "(callback: OpCallback, data: usize, commute: i32) -> usize",
    ),
    (
        "op_release",
        Service::OpRelease,
        "OpRelease",
        "(lower: usize)",
    ),
    ("yield_now", Service::Yield, "Yield", "()"),
    (
        "message",
        Service::Message,
        "Message",
        "(text: *const u8, length: usize)",
    ),
    (
        "error_string",
        Service::ErrorString,
        "ErrorString",
        "(buf: *mut u8, len: usize) -> usize",
    ),
    ("call_ended", Service::CallEnded, "CallEnded", "()"),
    (
        "synchronize",
        Service::Synchronize,
        "Synchronize",
        "() -> u32",
    ),
    (
        "map_peer",
        Service::MapPeer,
        "MapPeer",
        "(process: i32, descriptor: i32, bytes: usize, mark: u64) -> usize",
    ),
    (
        "unmap_peer",
        Service::UnmapPeer,
        "UnmapPeer",
        "(address: usize, bytes: usize)",
    ),
    (
        "stages_begin",
        Service::StagesBegin,
        "StagesBegin",
        "(epoch: *mut u64, incarnation: *mut u32) -> i32",
    ),
    (
        "stages_write",
        Service::StagesWrite,
        "StagesWrite",
        "(epoch: u64, bytes: *const u8, length: usize) -> i32",
    ),
    (
        "stages_read",
        Service::StagesRead,
        "StagesRead",
        "(epoch: u64, buf: *mut u8, len: usize) -> usize",
    ),
    (
        "send_receive",
        Service::SendReceive,
        "SendReceive",
        "(messages: *mut Exchange, status: *mut Status) -> i32",
    ),
    (
        "record_room",
        Service::RecordRoom,
        "RecordRoom",
        "() -> i32",
    ),
    (
        "replay_call",
        Service::ReplayCall,
        "ReplayCall",
        "(thread: u32, call: *const contract::record::Call) -> i32",
    ),
    (
        "replay_outcome",
        Service::ReplayOutcome,
        "ReplayOutcome",
        "(thread: u32, call: *const contract::record::Call, what: u32, numbers: *mut i32) -> i32",
    ),
    (
        "replay_binding",
        Service::ReplayBinding,
        "ReplayBinding",
        "(posting: u64, numbers: *mut i32) -> i32",
    ),
    (
        "replay_digest",
        Service::ReplayDigest,
        "ReplayDigest",
        "(thread: u32, bytes: u64, crc: u32)",
    ),
    (
        "tool_options",
        Service::ToolOptions,
        "ToolOptions",
        "(tool: u32, buf: *mut u8, len: usize) -> usize",
    ),
    (
        "replay_turn",
        Service::ReplayTurn,
        "ReplayTurn",
        "(thread: u32, looks: i32) -> u64",
    ),
];

/// Source of upper-half's module `crossing::stubs`: one stub and one declaration for each function of the table, and a
/// module `service` with the same for the services.
///
/// A stub is `movabs rax, [slot]; jmp stasis_cross`. `stasis_cross` is part of upper-half.
pub fn stubs() -> String {
    let mut text = String::new();
    write_stubs(&mut text).expect("writing to a string cannot fail");
    text
}

fn write_stubs(text: &mut String) -> std::fmt::Result {
    let functions = || crate::functions().iter().filter(|f| f.crosses());
    writeln!(
        text,
        "// Generated from the table of MPI functions; do not edit.\n"
    )?;
    writeln!(text, "use core::ffi::{{c_char, c_void}};")?;
    writeln!(text, "use contract::abi::Status;\n")?;
    writeln!(text, "core::arch::global_asm!(r#\"")?;
    writeln!(text, ".pushsection .text.stasis_stubs,\"ax\",@progbits")?;
    for (name, service, _, _) in SERVICES {
        write_stub(text, &format!("service_{name}"), *service as usize)?;
    }
    for function in functions() {
        write_stub(text, &function.name, function.slot)?;
    }
    writeln!(text, ".popsection\n\"#);\n")?;
    writeln!(text, "// SAFETY: each has the signature of the table's function. One that takes only numbers is safe.")?;
    writeln!(text, "unsafe extern \"C\" {{")?;
    for function in functions() {
        let takes_numbers = function.params.iter().all(is_number);
        writeln!(
            text,
            "    /// Crosses to `{}` of the MPI library.",
            function.name
        )?;
        writeln!(
            text,
            "    #[link_name = \"stasis_cross_{}\"]",
            function.name
        )?;
        writeln!(
            text,
            "    pub {} fn {}{};",
            keyword(takes_numbers),
            function.name,
            lower_signature(function)
        )?;
    }
    writeln!(text, "}}\n")?;
    write_services(text)
}

/// Source of upper-half's module `object::lower_handle::named`: the same functions with objects instead of
/// handles.
pub fn named() -> String {
    let mut text = String::new();
    write_named(&mut text).expect("writing to a string cannot fail");
    text
}

fn write_named(text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "// Generated from the table of MPI functions; do not edit.\n"
    )?;
    let functions = crate::functions().iter().filter(|f| f.crosses());
    let takes_objects = |function: &&Function| {
        let mut params = function.params.iter();
        params.any(|param| is_named(param) || is_room(param))
    };
    for function in functions.filter(takes_objects) {
        let safe = |param: &Param| safe(param).or_else(|| safe_array(function, param));
        let is_safe = function.params.iter().all(|param| safe(param).is_some());
        let typed = |param: &Param| {
            let safe = safe(param).filter(|_| is_safe).map(|safe| safe.0);
            let named = is_named(param).then(|| format!("impl Below<{:?}Body>", param.kind));
            let typed = named.or(safe).unwrap_or_else(|| lower_type(param));
            // Only a mutable array of results gives its place.
            let keyword = if typed.starts_with("Output") {
                "mut "
            } else {
                ""
            };
            format!("{keyword}{}: {typed}", identifier(param))
        };
        let given = |param: &Param| {
            let given = match safe(param) {
                _ if is_named(param) => ".read_lower()",
                Some((_, given)) if is_safe => given,
                _ => "",
            };
            format!("{}{given}", identifier(param))
        };
        let params: Vec<String> = function.params.iter().map(typed).collect();
        let given: Vec<String> = function.params.iter().map(given).collect();
        let (name, result) = (&function.name, lower_result(function));
        let (keyword, why) = match is_safe {
            true => ("", "handles of live objects, numbers, places for these, and arrays that are long enough"),
            false => (
                "unsafe ",
                "the caller promises what the function of the table requires",
            ),
        };
        writeln!(text, "/// As [`stubs::{name}`].")?;
        writeln!(text, "#[inline(always)]")?;
        writeln!(
            text,
            "pub {keyword}fn {name}({}) -> {result} {{",
            params.join(", ")
        )?;
        for param in function.params.iter().filter(|_| is_safe) {
            if let Some(Length::Param(count)) = &param.array {
                let array = identifier(param);
                writeln!(
                    text,
                    "    if usize::try_from({count}).is_ok_and(|count| count > {array}.len()) {{"
                )?;
                writeln!(text, "        return ERR_ARG;\n    }}")?;
            }
        }
        writeln!(text, "    // SAFETY: {why}.")?;
        writeln!(text, "    unsafe {{ stubs::{name}({}) }}", given.join(", "))?;
        writeln!(text, "}}\n")?;
    }
    Ok(())
}

/// Type of a parameter that no promise goes with, and how a stub gets its value: an object, a number, a place for a
/// handle, a number or a status, a string. A function is safe if all its parameters are such.
fn safe(param: &Param) -> Option<(String, &'static str)> {
    let single = param.array.is_none();
    let scalar = single && !param.kind.is_pointer() && !param.kind.is_handle();
    let target = lower_type(param);
    let target = target.trim_start_matches("*mut ");
    match (param.kind, param.direction) {
        _ if is_named(param) => Some((String::new(), "")),
        _ if is_room(param) => Some((format!("impl Room<{:?}Body>", param.kind), ".room()")),
        (_, Direction::In) if scalar => Some((target.to_owned(), "")),
        (_, Direction::Out | Direction::InOut) if scalar => Some((format!("&mut {target}"), "")),
        (Kind::Status, Direction::Out) if single => Some((
            "Option<&mut Status>".to_owned(),
            ".map_or(core::ptr::null_mut(), core::ptr::from_mut)",
        )),
        (Kind::Status, Direction::In) if single => Some(("&Status".to_owned(), "")),
        (Kind::Status, Direction::InOut) if single => Some(("&mut Status".to_owned(), "")),
        (Kind::String, Direction::In) if single => Some(("&CStr".to_owned(), ".as_ptr()")),
        _ => None,
    }
}

/// The same for an array of numbers whose length another parameter says.
fn safe_array(function: &Function, param: &Param) -> Option<(String, &'static str)> {
    let Some(Length::Param(count)) = &param.array else {
        return None;
    };
    let is_count = |other: &Param| other.name == *count && is_number(other);
    let says = function.params.iter().any(is_count) && function.returns == Returns::Error;
    if !says || param.kind.is_pointer() || param.kind.is_handle() || param.kind == Kind::Status {
        return None;
    }
    let array = lower_type(param);
    let entry = array.rsplit(' ').next()?;
    match param.direction {
        Direction::In => Some((format!("Input<'_, {entry}>"), ".as_ptr()")),
        Direction::Out => Some((format!("Output<'_, {entry}>"), ".as_ptr()")),
        Direction::InOut => None,
    }
}

/// Whether the parameter is a number that is passed by value.
fn is_number(param: &Param) -> bool {
    let by_value = param.array.is_none() && !param.kind.is_pointer();
    by_value && param.direction == Direction::In && !param.kind.is_handle()
}

fn keyword(safe: bool) -> &'static str {
    match safe {
        true => "safe",
        false => "unsafe",
    }
}

/// Whether the parameter is a single input handle.
fn is_named(param: &Param) -> bool {
    let plain = param.array.is_none() && !param.kind.is_pointer();
    param.kind.is_handle() && plain && param.direction == Direction::In
}

/// Whether the parameter is the place of a single handle that the call makes, changes or frees. The place of a new
/// request is none: the operation may write to its other results until the request is complete.
fn is_room(param: &Param) -> bool {
    let plain = param.array.is_none() && !param.kind.is_pointer();
    let written = match param.kind {
        Kind::Request => param.direction == Direction::InOut,
        _ => param.direction != Direction::In,
    };
    param.kind.is_handle() && plain && written
}

fn write_stub(text: &mut String, name: &str, slot: usize) -> std::fmt::Result {
    let symbol = format!("stasis_cross_{name}");
    let slot_address = SLOTS_ADDRESS + slot * size_of::<usize>();
    writeln!(
        text,
        ".globl {symbol}\n.hidden {symbol}\n.type {symbol},@function\n.p2align 4"
    )?;
    writeln!(
        text,
        "{symbol}:\nmovabs rax, [{slot_address:#x}]\njmp stasis_cross"
    )?;
    writeln!(text, ".size {symbol}, . - {symbol}")
}

fn write_services(text: &mut String) -> std::fmt::Result {
    writeln!(text, "/// The services of the lower half.")?;
    writeln!(text, "pub mod service {{")?;
    writeln!(text, "    use contract::abi::Status;")?;
    writeln!(
        text,
        "    use contract::service::{{Exchange, OpCallback}};\n"
    )?;
    writeln!(text, "    // SAFETY: each has the type that is asserted below. One that takes only numbers is safe.")?;
    writeln!(text, "    unsafe extern \"C\" {{")?;
    for (name, _, typed, signature) in SERVICES {
        // The standard value of a predefined object is a number like others.
        let taken = signature.split("->").next().unwrap_or(signature);
        let taken = taken.replace("standard: usize", "");
        let takes_words = ["*", "usize", "Callback"]
            .iter()
            .any(|word| taken.contains(word));
        writeln!(
            text,
            "        /// Crosses to [`contract::service::{typed}`]."
        )?;
        writeln!(
            text,
            "        #[link_name = \"stasis_cross_service_{name}\"]"
        )?;
        writeln!(
            text,
            "        pub {} fn {name}{signature};",
            keyword(!takes_words)
        )?;
    }
    writeln!(text, "    }}\n")?;
    for (name, _, typed, _) in SERVICES {
        writeln!(text, "    const _: contract::service::{typed} = {name};")?;
    }
    writeln!(text, "}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_has_its_stub() {
        let slots: Vec<usize> = SERVICES
            .iter()
            .map(|(_, slot, _, _)| *slot as usize)
            .collect();
        let last = Service::ReplayTurn as usize..contract::SLOTS;
        assert!(contract::END_OF_MPI_SLOTS <= last.start);
        assert_eq!(
            slots,
            (0..contract::FIRST_MPI_SLOT)
                .chain(last)
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn declares_with_lower_types() {
        let text = stubs();
        let waitall = "pub unsafe fn MPI_Waitall(count: i32, array_of_requests: *mut usize, \
                       array_of_statuses: *mut Status) -> i32;";
        let wtime = "pub safe fn MPI_Wtime() -> f64;";
        let barrier = "pub fn MPI_Barrier(comm: impl Below<CommBody>) -> i32 {";
        let named = named();
        assert!(named.contains(barrier) && named.contains("stubs::MPI_Barrier(comm.read_lower())"));
        let bcast = "pub unsafe fn MPI_Bcast(buffer: *mut c_void, ";
        assert!(named.contains(bcast));
        let position = "(fh: impl Below<FileBody>, offset: &mut i64) -> i32 {";
        assert!(named.contains(position));
        let free = "pub fn MPI_Comm_free(comm: impl Room<CommBody>) -> i32 {";
        assert!(named.contains(free) && named.contains("stubs::MPI_Comm_free(comm.room())"));
        let idup = "pub unsafe fn MPI_Comm_idup(comm: impl Below<CommBody>, newcomm: *mut usize, ";
        assert!(named.contains(idup));
        let incl = "(group: impl Below<GroupBody>, n: i32, ranks: Input<'_, i32>, newgroup: ";
        assert!(named.contains(incl) && named.contains("|count| count > ranks.len()"));
        let alltoallw = "sendtypes: *const usize, recvbuf: *mut c_void";
        for declaration in [waitall, wtime, alltoallw] {
            assert!(text.contains(declaration), "{declaration}");
        }
    }
}
