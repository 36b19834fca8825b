//! Generator of a front's C functions, the entry points of one application ABI.
//!
//! The text is the same for all ABIs. It uses the types and conversions of the front's hand-written module `abi`
//! (`abi::Comm`, `abi::comm`, `abi::rank_in` ...), and those of `stasis_front_common`. `PMPI_Xxx` is the function, and
//! `MPI_Xxx` jumps to it. So a profiling library that is loaded before the front replaces `MPI_Xxx`, and the front
//! never calls an `MPI_` name.
//!
//! The order of the steps in a function makes it correct across a checkpoint. First it takes the guard, and converts
//! arguments to objects, which stay valid across a restart. A collective operation then starts its clock, which may
//! park the thread, and the job may be restarted there. Only after that it reads the lower handles from the
//! objects.

pub mod convert;
mod data;
mod device;
mod persistent;
mod profiled;
mod received;
mod reduced;
mod signature;
mod special;
mod tools;

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
use upper_half::argument::{pass, App, Local};
use upper_half::object::{
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win,
};
use upper_half::CallGuard;

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

/// Result of a call that is left to the library.
const NOT_REDUCED: i32 = i32::MIN;

#[inline(always)]
fn world() -> &'static Comm {
    Comm::at(contract::abi::comm::COMM_WORLD as u32)
}
"#;

/// Source of a front's C functions: each function of the table.
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
    if let Some(lines) = reduced::body(function) {
        let name = reduced::name_of(function);
        writeln!(text, "\n#[cold]\n#[inline(never)]")?;
        writeln!(text, "unsafe fn {name}({params}) -> i32 {{")?;
        for line in lines {
            writeln!(text, "    {line}")?;
        }
        writeln!(text, "}}")?;
    }
    let name = &function.name;
    let body = special::body(function).unwrap_or_else(|| body(function));
    writeln!(text, "\n/// `{name}` under its profiling name.")?;
    writeln!(text, "#[no_mangle]")?;
    writeln!(
        text,
        "pub unsafe extern \"C\" fn P{name}({params}) -> {result} {{"
    )?;
    for line in device::test(function).into_iter().chain(body) {
        writeln!(text, "    {line}")?;
    }
    writeln!(text, "}}\n\n/// `{name}`: one jump, for any arguments.")?;
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

/// The statement that takes the guard of a function.
fn guard(function: &Function) -> String {
    /// Functions that any thread may call at any time, with any thread level (MPI 5.0, §11.4 and §11.6.2).
    const FOR_ANY_THREAD: [&str; 6] = [
        "MPI_Initialized",
        "MPI_Finalized",
        "MPI_Query_thread",
        "MPI_Is_thread_main",
        "MPI_Get_version",
        "MPI_Get_library_version",
    ];
    let enter = match FOR_ANY_THREAD.contains(&function.name.as_str()) {
        true => "enter_any",
        false => "enter_of",
    };
    format!("let _guard = CallGuard::{enter}({});", function.slot)
}

/// The body of a function that the core implements.
fn core(function: &Function) -> Vec<String> {
    let mut body = Body::for_core(function);
    special::outputs(function, &mut body);
    let call = format!("{}({})", special::core_path(function), body.args.join(", "));
    let mut lines = vec![guard(function)];
    lines.append(&mut body.objects);
    lines.append(&mut body.decode);
    lines.append(&mut body.arrays);
    if function.returns != Returns::Error {
        lines.push(call);
        return lines;
    }
    lines.extend(tools::told(function));
    lines.push(format!("let code = {call};"));
    finish(function, body, lines)
}

/// The body of a function that crosses.
fn crossing(function: &Function) -> Vec<String> {
    let mut body = Body::for_crossing(function);
    let crosses_as = match function.folded() {
        Some(_) => function.ordinary_name(),
        None => &function.name,
    };
    let call = call_below(crosses_as, &body);
    let mut lines = vec![guard(function)];
    lines.extend(reduced::test(function));
    lines.append(&mut body.objects);
    lines.append(&mut body.decode);
    if function.returns != Returns::Error {
        lines.push(call);
        return lines;
    }
    lines.extend(positioning(function));
    lines.extend(reduction(function));
    lines.extend(tools::told(function));
    let clock = clocked(function);
    if let (Class::Collective | Class::FileCollective, Some(comm)) = (function.class, &clock) {
        lines.extend(retractable(function, comm, &mut body, &call));
        body.success.extend(received::told(function, true));
        return finish(function, body, lines);
    }
    if let Some(comm) = &clock {
        let begin = match body.request.is_empty() {
            true => "collective_begin_blocking",
            false => "collective_begin",
        };
        lines.push(format!("let clock = upper_half::{begin}({comm});"));
    }
    lines.append(&mut body.handles);
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
        // The function that makes the request also ends the operation on the clock.
        (true, false) => lines.push(started("upper_half::collective_end(clock); code")),
        (false, true) => {}
        (false, false) => lines.push(started("code")),
    }
    finish(function, body, lines)
}

/// A blocking collective operation, also on a file, which the upper half may have to make again after a restart: the
/// lower handles are read by the call itself.
fn retractable(function: &Function, comm: &str, body: &mut Body, call: &str) -> Vec<String> {
    let mut lines = vec![format!(
        "let code = upper_half::collective({comm}, {}, &mut |code| {{",
        inputs(function)
    )];
    lines.append(&mut body.handles);
    // Not in tail position: the return address of the crossing shows which function was called.
    lines.push(format!("*code = {call};"));
    lines.push("});".to_owned());
    lines
}

/// Effect of a blocking collective operation on its inputs.
fn inputs(function: &Function) -> String {
    if let (true, Some(file)) = (function.class.is_file(), input(function, Kind::File)) {
        return match function.positioning() {
            Some(Positioning::Own) if function.name.contains("_at_") => {
                "upper_half::Inputs::Stay".to_owned()
            }
            Some(Positioning::Own) => format!("upper_half::Inputs::Pointer({file}_)"),
            // Each member knows only where the shared pointer is now.
            Some(Positioning::Shared) => "upper_half::Inputs::Change".to_owned(),
            None => "upper_half::Inputs::Stay".to_owned(),
        };
    }
    let sendbuf = "abi::buffer(sendbuf as _) as _";
    let recvbuf = "abi::buffer(recvbuf as _) as _";
    // Of all blocks, one for each process: in place there is no remote group.
    let blocks = "(recvcount as i64).saturating_mul(i64::from(comm_.body.size))";
    let has = |name: &str| {
        let mut params = function.params.iter();
        params.any(|param| param.name == name && param.array.is_none())
    };
    let root = match input(function, Kind::Rank) {
        Some(root) => format!("Some(abi::rank_in({root}))"),
        None => "None".to_owned(),
    };
    let of_reduction = |op: &str, recvbuf: &str, count: &str| {
        format!(
            "upper_half::Inputs::of_reduction({sendbuf}, {recvbuf}, comm_, {root}, {count}, datatype_, {op}_)"
        )
    };
    match input(function, Kind::Op) {
        Some(op) if has("count") => of_reduction(op, recvbuf, "count as i64"),
        Some(op) if has("recvcount") => of_reduction(op, recvbuf, blocks),
        // With a count for each process the inputs are not kept.
        Some(op) => of_reduction(op, recvbuf, "i64::MAX"),
        None if function.name.contains("Alltoall") => match has("recvcount") {
            true => {
                format!("upper_half::Inputs::in_place({sendbuf}, {recvbuf}, {blocks}, recvtype_)")
            }
            false => format!("upper_half::Inputs::unless_in_place({sendbuf}, {recvbuf})"),
        },
        None if is_gather(function) => {
            let block = match (has("recvcount"), function.folded()) {
                (true, None) => "common::block(recvcount, comm_.body.rank)",
                (true, Some(_)) => "common::block(recvcount_fold.count(), comm_.body.rank)",
                (false, _) => "common::listed_block(recvcounts, displs, comm_.body.rank)",
            };
            format!(
                "upper_half::Inputs::of_gather({sendbuf}, {recvbuf}, comm_, {root}, recvtype_, || {block})"
            )
        }
        None => "upper_half::Inputs::Stay".to_owned(),
    }
}

/// Whether a process that receives may have its own block in the receive buffer.
fn is_gather(function: &Function) -> bool {
    ["MPI_Gather", "MPI_Allgather"]
        .iter()
        .any(|name| function.name.starts_with(name))
}

/// For an access to a window: the window, and the name and the arguments of the upper half's own function. That
/// function serves windows of one process, which do not exist in the lower half, and accumulation where the library
/// does it wrong. The front makes the request of both the upper half's and the library's operation.
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

/// The method of a window's body that says whether the upper half serves the access, and the module that serves it.
fn here(function: &Function) -> (&'static str, &'static str) {
    match function.accumulates() {
        true => ("accumulates_here", "accumulate"),
        false => ("is_direct", "direct_window"),
    }
}

/// The call of a stub.
fn call_below(name: &str, body: &Body) -> String {
    format!("upper_half::stubs::{name}({})", body.args.join(", "))
}

/// Adds the lines after the call: the outputs and the error handler.
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

/// The reason why a function is refused, and what to do instead.
fn advice(function: &Function) -> &'static str {
    match function.class {
        Class::Process => {
            "its processes would not be part of the job, so a checkpoint could not contain the messages \
             between them and the job; start all ranks with the launcher, or run the program without Stasis"
        }
        Class::File => {
            "the MPI library would call functions of the program from inside the lower half; convert the \
             data in the program"
        }
        _ => "run the program without Stasis",
    }
}

fn refusal(function: &Function) -> Vec<String> {
    let mut lines = vec![guard(function)];
    lines.extend(decoded_error_object(function));
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

/// The statement that marks or checks a file before its file pointers are used.
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

/// The check that the operation can be applied to that number of elements. Only large counts need it.
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

/// The communicator whose clock counts the call, if the function is a collective operation that crosses.
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

/// The name of the single input handle of that kind, if there is one.
fn input(function: &Function, kind: Kind) -> Option<&str> {
    function
        .params
        .iter()
        .find(|p| p.kind == kind && p.direction == Direction::In && p.array.is_none())
        .map(|p| p.name.as_str())
}

/// The parameter whose error handler is called after an error.
fn error_object(function: &Function) -> Option<(String, Kind)> {
    let of = |kind| input(function, kind).map(|name| (name.to_owned(), kind));
    let of_own = [Kind::Win, Kind::File, Kind::Session]
        .into_iter()
        .find_map(of);
    of_own.or_else(|| {
        // A file that could not be opened has no error handler yet. That of MPI_FILE_NULL is called.
        if function.class.is_file() {
            None
        } else {
            of(Kind::Comm)
        }
    })
}

/// The statement that decodes it, where nothing else is decoded.
fn decoded_error_object(function: &Function) -> Option<String> {
    let (name, kind) = error_object(function)?;
    Some(format!(
        "let {name}_ = abi::{}({name});",
        convert::decoder(kind)
    ))
}

/// The expression that raises `code` on the right object. Its value is the result of the function.
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

/// Whether the function gets requests or messages. The operation of one may be what has failed.
fn names_operations(function: &Function) -> bool {
    function.params.iter().any(|param| {
        matches!(param.kind, Kind::Request | Kind::Message) && param.direction != Direction::Out
    })
}

#[cfg(test)]
pub mod tests;
