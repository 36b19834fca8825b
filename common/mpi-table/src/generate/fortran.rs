//! Generator of the Fortran functions of a front whose C handles are pointers: `mpi_xxx_` and its spellings.
//!
//! Each is a thin layer over the C function of the same front, so that the meaning of a function is written once. The
//! text uses the conversions of the front's hand-written module `fortran` (`buffer`, `Name`, `Status` ...), and that
//! module's `special` for functions without rules. Arguments are passed by reference. The lengths of strings follow all
//! other arguments.
//!
//! Names in the generated text, for a parameter `x`: `x` is the application's argument, `x_` the argument of the C
//! function.

mod argument;
mod sizeof;

use std::fmt::Write;

use crate::generate::lower_type::identifier;
use crate::{Direction, Function, Kind, Param, Returns};
use argument::Layer;

const HEAD: &str = r#"// Generated from the table of MPI functions; do not edit.

use core::ffi::{c_char, c_void};
use stasis_front_common as common;
use stasis_front_common::Scratch;
use upper_half::CallGuard;

use super::special;
use super::{Name, Status, Statuses, Text};
use crate::abi;
use crate::functions as c;
"#;

/// Whether a function exists in C only.
pub(super) fn is_for_c_alone(function: &Function) -> bool {
    let name = &function.name;
    name.starts_with("MPI_T_")
        || name.starts_with("MPI_Status_c2f")
        || name.starts_with("MPI_Status_f")
        || name.ends_with("_c2f")
        || name.ends_with("_f2c")
        || function.is_of_mpi_4()
}

/// Functions in `special`: those with callbacks in Fortran's convention, those of attributes, and MPI_Buffer_detach,
/// which returns more in C than in Fortran.
const SPECIAL: &[&str] = &[
    "MPI_Comm_create_keyval",
    "MPI_Type_create_keyval",
    "MPI_Win_create_keyval",
    "MPI_Keyval_create",
    "MPI_Comm_set_attr",
    "MPI_Type_set_attr",
    "MPI_Win_set_attr",
    "MPI_Attr_put",
    "MPI_Comm_get_attr",
    "MPI_Type_get_attr",
    "MPI_Win_get_attr",
    "MPI_Attr_get",
    "MPI_Comm_create_errhandler",
    "MPI_Win_create_errhandler",
    "MPI_File_create_errhandler",
    "MPI_Errhandler_create",
    "MPI_Op_create",
    "MPI_Grequest_start",
    "MPI_Buffer_detach",
];

/// Functions that are older than the Fortran kind for addresses. Addresses are plain integers there.
const SHORT_ADDRESSES: &[&str] = &[
    "MPI_Address",
    "MPI_Type_hvector",
    "MPI_Type_hindexed",
    "MPI_Type_struct",
    "MPI_Type_extent",
    "MPI_Type_lb",
    "MPI_Type_ub",
];

/// Functions with a second name, for a TYPE(C_PTR) instead of an integer.
const POINTERS: &[&str] = &[
    "MPI_Alloc_mem",
    "MPI_Win_allocate",
    "MPI_Win_allocate_shared",
    "MPI_Win_shared_query",
];

/// Source of a front's Fortran functions: each function of the table that exists in Fortran.
pub fn fortran() -> String {
    fortran_of(crate::functions())
}

fn fortran_of(functions: &[Function]) -> String {
    let mut text = String::from(HEAD);
    for function in functions.iter().filter(|f| !is_for_c_alone(f)) {
        write_function(&mut text, function).expect("writing to a string cannot fail");
    }
    sizeof::write(&mut text).expect("writing to a string cannot fail");
    text
}

/// Whether the addresses of a function are plain integers.
fn short_addresses(function: &Function) -> bool {
    SHORT_ADDRESSES.contains(&function.name.as_str())
}

/// The parameters in Fortran. MPI_Init has no command line there.
fn params(function: &Function) -> impl Iterator<Item = &Param> {
    let starts = function.name.starts_with("MPI_Init");
    function
        .params
        .iter()
        .filter(move |param| !(starts && param.kind == Kind::Pointer))
}

fn fortran_type(function: &Function, param: &Param) -> &'static str {
    match param.kind {
        Kind::SendBuffer
        | Kind::RecvBuffer
        | Kind::Weights
        | Kind::Status
        | Kind::Pointer
        | Kind::Callback => "*mut c_void",
        Kind::String => "*mut c_char",
        Kind::Aint if !short_addresses(function) => "*mut isize",
        Kind::Offset | Kind::Count => "*mut i64",
        _ => "*mut i32",
    }
}

fn signature(function: &Function) -> String {
    let mut list: Vec<String> = params(function)
        .map(|param| format!("{}: {}", identifier(param), fortran_type(function, param)))
        .collect();
    if function.returns == Returns::Error {
        list.push("ierror: *mut i32".to_owned());
    }
    list.extend(
        params(function)
            .filter(|param| param.kind == Kind::String)
            .map(|param| format!("{}_len: i32", identifier(param))),
    );
    list.join(", ")
}

fn write_function(text: &mut String, function: &Function) -> std::fmt::Result {
    let name = &function.name;
    let snake = function.snake_name();
    let result = match function.returns {
        Returns::Double => " -> f64",
        Returns::Aint => " -> isize",
        _ => "",
    };
    writeln!(text, "\n/// `{name}` for Fortran.")?;
    writeln!(text, "#[no_mangle]")?;
    writeln!(
        text,
        "pub unsafe extern \"C\" fn ompi_{snake}_f({}){result} {{",
        signature(function)
    )?;
    for line in body(function) {
        writeln!(text, "    {line}")?;
    }
    writeln!(text, "}}")?;
    write_spellings(text, &snake, name)?;
    if POINTERS.contains(&name.as_str()) {
        let second = format!("{name}_cptr");
        writeln!(text, "spellings! {{ ompi_{snake}_f: ompi_{snake}_cptr_f }}")?;
        write_spellings(text, &snake, &second)?;
    }
    Ok(())
}

/// Writes the symbol names that compilers derive from a function's name, and from its profiling name.
fn write_spellings(text: &mut String, snake: &str, name: &str) -> std::fmt::Result {
    let (small, large) = (name.to_ascii_lowercase(), name.to_ascii_uppercase());
    let spellings: Vec<String> = [
        small.clone(),
        format!("{small}_"),
        format!("{small}__"),
        large,
        format!("{name}_f"),
        format!("{name}_f08"),
    ]
    .iter()
    .flat_map(|spelling| {
        let profiling = if spelling.starts_with('m') { "p" } else { "P" };
        [spelling.clone(), format!("{profiling}{spelling}")]
    })
    .collect();
    let spellings = spellings.join(", ");
    writeln!(text, "spellings! {{ ompi_{snake}_f: {spellings} }}")
}

/// Guard around allocations. A thread that stops inside the upper half's allocator would keep it locked, and the drain
/// allocates.
const GUARD: &str = "let _guard = CallGuard::enter();";

/// Whether the conversion of an argument may allocate. The guard of the C function ends before that memory is freed.
fn takes_memory(param: &Param) -> bool {
    param.array.is_some() || param.kind == Kind::String
}

fn body(function: &Function) -> Vec<String> {
    if SPECIAL.contains(&function.name.as_str()) {
        let args: Vec<String> = params(function).map(identifier).collect();
        let call = format!("special::{}({})", function.snake_name(), args.join(", "));
        return vec![format!("super::finish(ierror, {call});")];
    }
    let mut layer = Layer::default();
    if function.name.starts_with("MPI_Init") {
        let command_line = function.params.iter().filter(|p| p.kind == Kind::Pointer);
        let nulls = command_line.map(|_| "core::ptr::null_mut()".to_owned());
        layer.args.extend(nulls);
    }
    for param in params(function) {
        layer.add(function, param);
    }
    let call = format!("c::P{}({})", function.name, layer.args.join(", "));
    let mut lines = Vec::new();
    if params(function).any(takes_memory) {
        lines.push(GUARD.to_owned());
    }
    lines.append(&mut layer.decode);
    if function.returns != Returns::Error {
        lines.push(call);
        return lines;
    }
    lines.push(format!("let code = {call};"));
    lines.append(&mut layer.always);
    if !layer.success.is_empty() {
        let success = layer.success.join(" ");
        lines.push(format!("if code == contract::abi::SUCCESS {{ {success} }}"));
    }
    lines.push("super::finish(ierror, code);".to_owned());
    lines
}

/// The flag that says whether the other outputs are set.
fn found(function: &Function) -> Option<&Param> {
    function
        .params
        .iter()
        .find(|param| param.kind == Kind::Flag && param.direction == Direction::Out)
}

#[cfg(test)]
mod tests;
