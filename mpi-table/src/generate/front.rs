//! The functions of a front: the C entry points of one application ABI.
//!
//! The text is the same for all ABIs; it names the types and conversions of the front crate's
//! hand-written module `abi` (`abi::Comm`, `abi::comm`, `abi::rank_in` ...), and those of
//! `stasis_front_common`. `PMPI_Xxx` is the function; `MPI_Xxx` jumps to it, so that a profiling
//! library loaded before ours takes its place and ours never calls through an `MPI_` name.
//!
//! The order inside a function is what keeps it right across a checkpoint: first the guard, then
//! arguments to objects (which stay valid across a restart), then, for a collective, the clock
//! (which may park the thread, and the job may be restarted there), and only then objects to the
//! lower half's words.

pub mod convert;
mod persistent;
mod signature;
mod special;

use std::fmt::Write;

use crate::generate::lower_type::identifier;
use crate::{Class, Direction, Function, Kind, Positioning, Returns, Via};
use convert::Body;
use signature::Signature;

const HEAD: &str = r#"// Generated from the table of MPI functions; do not edit.

use contract::abi::Status;
use core::ffi::{c_char, c_void};
use stasis_front_common as common;
use stasis_front_common::Scratch;
use upper_half::object::{
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win,
};
use upper_half::Wrapper;

use crate::abi;

#[cold]
#[inline(never)]
fn failed_comm(comm: &'static Comm, code: i32, name: &'static str) -> i32 {
    abi::error_out(upper_half::raise_comm(comm, code, name))
}

#[cold]
#[inline(never)]
fn failed_request(code: i32, name: &'static str) -> i32 {
    abi::error_out(upper_half::raise_request(code, name))
}

#[cold]
#[inline(never)]
fn failed_win(win: &'static Win, code: i32, name: &'static str) -> i32 {
    abi::error_out(upper_half::raise_win(win, code, name))
}

#[cold]
#[inline(never)]
fn failed_file(file: &'static File, code: i32, name: &'static str) -> i32 {
    abi::error_out(upper_half::raise_file(file, code, name))
}

#[cold]
#[inline(never)]
fn failed_session(session: &'static Session, code: i32, name: &'static str) -> i32 {
    abi::error_out(upper_half::raise_session(session, code, name))
}

#[inline(always)]
fn world() -> &'static Comm {
    Comm::at(contract::abi::comm::COMM_WORLD as u32)
}
"#;

/// Source of a front's functions, for every function of the table.
pub fn front() -> String {
    front_of(crate::functions(), crate::hash())
}

fn front_of(functions: &[Function], hash: u64) -> String {
    let mut text = String::from(HEAD);
    write_functions(&mut text, functions, hash).expect("writing to a string cannot fail");
    text
}

fn write_functions(text: &mut String, functions: &[Function], hash: u64) -> std::fmt::Result {
    writeln!(
        text,
        "\n/// Hash of the table from which this was generated."
    )?;
    writeln!(text, "pub const TABLE_HASH: u64 = {hash:#018x};")?;
    for function in functions {
        write_function(text, function)?;
    }
    Ok(())
}

fn write_function(text: &mut String, function: &Function) -> std::fmt::Result {
    let Signature { params, result } = Signature::of(function);
    let name = &function.name;
    let body = special::body(function).unwrap_or_else(|| body(function));
    writeln!(text, "\n/// `{name}` under its profiling name.")?;
    writeln!(text, "#[no_mangle]")?;
    writeln!(
        text,
        "pub unsafe extern \"C\" fn P{name}({params}) -> {result} {{"
    )?;
    for line in body {
        writeln!(text, "    {line}")?;
    }
    writeln!(
        text,
        "}}\n\n/// `{name}`: one jump, whatever the arguments."
    )?;
    writeln!(text, "#[no_mangle]\n#[unsafe(naked)]")?;
    writeln!(text, "pub unsafe extern \"C\" fn {name}() {{")?;
    writeln!(
        text,
        "    core::arch::naked_asm!(\"jmp {{}}\", sym P{name})\n}}"
    )
}

fn body(function: &Function) -> Vec<String> {
    match function.via {
        _ if function.class == Class::CollectivePersistent => persistent::body(function),
        Via::Core => core(function),
        Via::Direct => crossing(function),
        Via::Refuse => refusal(function),
    }
}

const GUARD: &str = "let _guard = Wrapper::enter();";

/// The guard of a function.
fn guard(function: &Function) -> &'static str {
    /// What any thread may call at any time, whatever the thread level (MPI-5.0, 11.6.2 and 11.4).
    const FOR_ANY_THREAD: [&str; 6] = [
        "MPI_Initialized",
        "MPI_Finalized",
        "MPI_Query_thread",
        "MPI_Is_thread_main",
        "MPI_Get_version",
        "MPI_Get_library_version",
    ];
    match FOR_ANY_THREAD.contains(&function.name.as_str()) {
        true => "let _guard = Wrapper::enter_any();",
        false => GUARD,
    }
}

/// The hand-written function of the upper half does it.
fn core(function: &Function) -> Vec<String> {
    let mut body = Body::for_core(function);
    special::outputs(function, &mut body);
    let call = format!("{}({})", special::core_path(function), body.args.join(", "));
    let mut lines = vec![guard(function).to_owned()];
    lines.append(&mut body.objects);
    lines.append(&mut body.decode);
    if function.returns != Returns::Error {
        lines.push(call);
        return lines;
    }
    lines.push(format!("let code = {call};"));
    finish(function, body, lines)
}

/// Conversion and a crossing.
fn crossing(function: &Function) -> Vec<String> {
    let mut body = Body::for_crossing(function);
    let crosses_as = match function.folded() {
        Some(_) => function.ordinary_name(),
        None => &function.name,
    };
    let call = call_below(crosses_as, &body);
    let mut lines = vec![GUARD.to_owned()];
    lines.append(&mut body.objects);
    lines.append(&mut body.decode);
    if function.returns != Returns::Error {
        lines.push(call);
        return lines;
    }
    lines.extend(positioning(function));
    lines.extend(reduction(function));
    let clock = clocked(function);
    if let Some(comm) = &clock {
        let begin = match body.request.is_empty() {
            true => "collective_begin_blocking",
            false => "collective_begin",
        };
        lines.push(format!("let clock = upper_half::{begin}({comm});"));
    }
    lines.append(&mut body.words);
    match of_window(function) {
        Some((win, name, args)) => {
            let (asked, module) = here(function);
            lines.push(format!(
                "let code = match {win}_.body.{asked}() {{ \
                 true => upper_half::{module}::{name}({args}), false => {call} }};"
            ));
        }
        None => lines.push(format!("let code = {call};")),
    }
    let started = |otherwise: &str| {
        format!(
            "let code = if code == contract::abi::SUCCESS {{ {} }} else {{ {otherwise} }};",
            body.request
        )
    };
    match (clock.is_some(), body.request.is_empty()) {
        (true, true) => lines.push("upper_half::collective_end(clock);".to_owned()),
        // Making the request ends the clock.
        (true, false) => lines.push(started("upper_half::collective_end(clock); code")),
        (false, true) => {}
        (false, false) => lines.push(started("code")),
    }
    finish(function, body, lines)
}

/// For what is done with a window: the window, and the name and the arguments of the upper half's own function,
/// for windows of one process, below which there is none, and, if it accumulates, over libraries that do that
/// wrong. A request is made here, as that of what was started below is.
fn of_window(function: &Function) -> Option<(String, String, String)> {
    if function.class != Class::Window {
        return None;
    }
    let mut ordinary = function.clone();
    ordinary.params.retain(|param| param.kind != Kind::Request);
    let win = input(function, Kind::Win)?.to_owned();
    let name = match function.folded() {
        Some(_) => function.snake_name().trim_end_matches("_c").to_owned(),
        None => function.snake_name(),
    };
    let name = match ordinary.params.len() == function.params.len() {
        true => name,
        false => name.trim_start_matches('r').to_owned(),
    };
    let args = Body::for_core(&ordinary).args.join(", ");
    Some((win, name, args))
}

/// Whether something is done with a window in the upper half, as asked of its body, and the module that does it.
fn here(function: &Function) -> (&'static str, &'static str) {
    match function.accumulates() {
        true => ("accumulates_here", "accumulate"),
        false => ("is_alone", "alone"),
    }
}

/// The call of a stub.
fn call_below(name: &str, body: &Body) -> String {
    format!("upper_half::lower::{name}({})", body.args.join(", "))
}

/// What follows the call: outputs, and the error handler.
fn finish(function: &Function, mut body: Body, mut lines: Vec<String>) -> Vec<String> {
    lines.append(&mut body.always);
    lines.push(format!(
        "if code != contract::abi::SUCCESS {{ return {}; }}",
        failure(function, "code")
    ));
    lines.append(&mut body.success);
    lines.push("contract::abi::SUCCESS".to_owned());
    lines
}

/// Why a function is refused, and what to do instead.
fn advice(function: &Function) -> &'static str {
    match function.class {
        Class::Process => {
            "processes that it starts or reaches are not part of the job, so that no checkpoint could \
             hold what goes between; start all ranks by mpirun, or run the program without Stasis"
        }
        Class::File => {
            "the library below would call functions of the program from its inside; convert the data \
             in the program"
        }
        _ => "run the program without Stasis",
    }
}

fn refusal(function: &Function) -> Vec<String> {
    let mut lines = vec![GUARD.to_owned()];
    if let Some(param) = error_object(function) {
        let (name, decode) = (&param.0, convert::decoder(param.1));
        lines.push(format!("let {name}_ = abi::{decode}({name});"));
    }
    lines.push(format!(
        "upper_half::unsupported(\"{}\", \"{}\");",
        function.name,
        advice(function)
    ));
    lines.push(failure(
        function,
        "contract::abi::ERR_UNSUPPORTED_OPERATION",
    ));
    lines
}

/// What the file is told, or asked, before its pointers are used.
fn positioning(function: &Function) -> Option<String> {
    let file = input(function, Kind::File)?;
    Some(match function.positioning()? {
        Positioning::Shared => format!("{file}_.body.shares_pointer();"),
        Positioning::Own => format!(
            "if {file}_.body.is_sequential() {{ return {}; }}",
            failure(function, "contract::abi::ERR_UNSUPPORTED_OPERATION")
        ),
    })
}

/// Whether its operation can be applied to so many elements, which only large counts leave open.
fn reduction(function: &Function) -> Option<String> {
    let op = input(function, Kind::Op)?;
    let mut counts = function.params.iter().filter(|p| p.kind == Kind::Count);
    let count = counts.next().filter(|_| function.folded().is_none())?;
    let name = identifier(count);
    let total = match &count.array {
        Some(length) => format!("common::total({name}, {})", convert::entries(length)),
        // One block for each process.
        None if name == "recvcount" => {
            format!("{name}.saturating_mul(common::collective_size(comm_) as i64)")
        }
        None => name,
    };
    Some(format!(
        "if let Err(code) = upper_half::may_reduce({op}_, {total}, \"{}\") {{ return {}; }}",
        function.name,
        failure(function, "code")
    ))
}

/// The communicator whose clock counts the call, if it is a collective that crosses directly.
fn clocked(function: &Function) -> Option<String> {
    match function.class {
        Class::Collective | Class::CollectiveNonblocking | Class::ObjectCollective => {
            input(function, Kind::Comm).map(|comm| format!("{comm}_"))
        }
        Class::FileCollective | Class::FileCollectiveNonblocking => {
            input(function, Kind::File).map(|file| format!("{file}_.body.comm()"))
        }
        _ => None,
    }
}

/// The name of the input handle of that kind, if there is one.
fn input(function: &Function, kind: Kind) -> Option<&str> {
    function
        .params
        .iter()
        .find(|p| p.kind == kind && p.direction == Direction::In && p.array.is_none())
        .map(|p| p.name.as_str())
}

/// The parameter whose error handler answers for a failure.
fn error_object(function: &Function) -> Option<(String, Kind)> {
    let of = |kind| input(function, kind).map(|name| (name.to_owned(), kind));
    let of_own = [Kind::Win, Kind::File, Kind::Session]
        .into_iter()
        .find_map(of);
    of_own.or_else(|| {
        // A file that could not be opened has no handler yet: MPI_FILE_NULL's is meant.
        if function.class.is_file() {
            None
        } else {
            of(Kind::Comm)
        }
    })
}

/// The expression that raises `code` on the right object, and is what the function then returns.
fn failure(function: &Function, code: &str) -> String {
    let name = &function.name;
    if function.class == Class::Tool {
        return format!("abi::error_out({code})");
    }
    match error_object(function) {
        Some((object, Kind::Win)) => format!("failed_win({object}_, {code}, \"{name}\")"),
        Some((object, Kind::File)) => format!("failed_file({object}_, {code}, \"{name}\")"),
        Some((object, Kind::Session)) => {
            format!("failed_session({object}_, {code}, \"{name}\")")
        }
        Some((object, _)) => format!("failed_comm({object}_, {code}, \"{name}\")"),
        None if function.class.is_file() => {
            format!("failed_file(File::null(), {code}, \"{name}\")")
        }
        None if names_operations(function) => format!("failed_request({code}, \"{name}\")"),
        None => format!("failed_comm(world(), {code}, \"{name}\")"),
    }
}

/// Whether the function is given requests or messages: the operation behind one may have failed.
fn names_operations(function: &Function) -> bool {
    function.params.iter().any(|param| {
        matches!(param.kind, Kind::Request | Kind::Message) && param.direction != Direction::Out
    })
}

#[cfg(test)]
pub mod tests;
