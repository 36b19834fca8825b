//! The crossing stubs: what upper-half's module `lower` consists of.

use std::fmt::Write;
use std::mem::offset_of;

use contract::{Gate, Service, GATE_ADDRESS};

use super::lower_type::{identifier, lower_result, lower_signature, lower_type};
use crate::{Direction, Param};

/// A service: its function's name, its slot, its type in `contract::service`, its signature.
/// The generated code asserts that the signature is that of the type.
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
        "(word: usize)",
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
    ("settle", Service::Settle, "Settle", "() -> u32"),
];

/// Source of upper-half's module `lower`: one stub and one declaration for every function of the
/// table, and a module `service` with the same for the services.
///
/// A stub is `movabs rax, [slot]; jmp stasis_cross`; `stasis_cross` is upper-half's own.
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
    writeln!(text, "extern \"C\" {{")?;
    for function in functions() {
        writeln!(
            text,
            "    /// Crosses to `{}` of the MPI library below.",
            function.name
        )?;
        writeln!(
            text,
            "    #[link_name = \"stasis_cross_{}\"]",
            function.name
        )?;
        writeln!(
            text,
            "    pub fn {}{};",
            function.name,
            lower_signature(function)
        )?;
    }
    writeln!(text, "}}\n")?;
    write_named(text)?;
    write_services(text)
}

/// The same functions with objects in the place of their handles: the module `named`.
fn write_named(text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "/// The same functions, each of which reads the handles of what it is given in the crossing itself."
    )?;
    writeln!(text, "pub mod named {{")?;
    writeln!(text, "    use super::*;")?;
    writeln!(text, "    use crate::object::*;\n")?;
    let named = |param: &Param| is_named(param).then(|| format!("{:?}Body", param.kind));
    let functions = crate::functions().iter().filter(|f| f.crosses());
    for function in functions.filter(|f| f.params.iter().any(is_named)) {
        let typed = |param: &Param| match named(param) {
            Some(body) => format!("{}: impl Below<{body}>", identifier(param)),
            None => format!("{}: {}", identifier(param), lower_type(param)),
        };
        let given = |param: &Param| match is_named(param) {
            true => format!("{}.word()", identifier(param)),
            false => identifier(param),
        };
        let params: Vec<String> = function.params.iter().map(typed).collect();
        let given: Vec<String> = function.params.iter().map(given).collect();
        let (name, result) = (&function.name, lower_result(function));
        writeln!(text, "    /// As [`super::{name}`].")?;
        writeln!(text, "    #[inline(always)]")?;
        writeln!(
            text,
            "    pub unsafe fn {name}({}) -> {result} {{",
            params.join(", ")
        )?;
        writeln!(text, "        // SAFETY: the caller's promise.")?;
        writeln!(
            text,
            "        unsafe {{ super::{name}({}) }}",
            given.join(", ")
        )?;
        writeln!(text, "    }}")?;
    }
    writeln!(text, "}}\n")
}

/// Whether it is one handle that the function is given.
fn is_named(param: &Param) -> bool {
    let plain = param.array.is_none() && !param.kind.is_pointer();
    param.kind.is_handle() && plain && param.direction == Direction::In
}

fn write_stub(text: &mut String, name: &str, slot: usize) -> std::fmt::Result {
    let symbol = format!("stasis_cross_{name}");
    let slot_address = GATE_ADDRESS + offset_of!(Gate, slots) + slot * size_of::<usize>();
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
    writeln!(
        text,
        "/// The lower half's services beside the MPI functions."
    )?;
    writeln!(text, "pub mod service {{")?;
    writeln!(text, "    use contract::abi::Status;")?;
    writeln!(text, "    use contract::service::OpCallback;\n")?;
    writeln!(text, "    extern \"C\" {{")?;
    for (name, _, typed, signature) in SERVICES {
        writeln!(
            text,
            "        /// Crosses to [`contract::service::{typed}`]."
        )?;
        writeln!(
            text,
            "        #[link_name = \"stasis_cross_service_{name}\"]"
        )?;
        writeln!(text, "        pub fn {name}{signature};")?;
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
        assert_eq!(slots, (0..=Service::Settle as usize).collect::<Vec<_>>());
    }

    #[test]
    fn declares_with_lower_types() {
        let text = stubs();
        let waitall = "pub fn MPI_Waitall(count: i32, array_of_requests: *mut usize, \
                       array_of_statuses: *mut Status) -> i32;";
        let wtime = "pub fn MPI_Wtime() -> f64;";
        let barrier = "pub unsafe fn MPI_Barrier(comm: impl Below<CommBody>) -> i32 {";
        assert!(text.contains(barrier) && text.contains("super::MPI_Barrier(comm.word())"));
        let alltoallw = "sendtypes: *const usize, recvbuf: *mut c_void";
        for declaration in [waitall, wtime, alltoallw] {
            assert!(text.contains(declaration), "{declaration}");
        }
    }
}
