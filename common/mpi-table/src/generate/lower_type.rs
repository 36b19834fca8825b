//! Types of MPI functions in a crossing from the upper half to the lower half. A handle is a lower handle, a status has
//! the standard's layout, and anything else is as in C, with the standard ABI's values.

use crate::{Direction, Function, Kind, Param, Returns};

/// Rust type of a parameter in a crossing.
pub fn lower_type(param: &Param) -> String {
    let scalar = match param.kind {
        Kind::SendBuffer | Kind::RecvBuffer | Kind::Pointer | Kind::Callback => "c_void",
        Kind::String => "c_char",
        Kind::Status => "Status",
        Kind::Aint => "isize",
        Kind::Offset | Kind::Count => "i64",
        Kind::Double => "f64",
        kind if kind.is_handle() => "usize",
        _ => "i32",
    };
    let is_pointer = param.kind.is_pointer() || param.array.is_some();
    match (param.direction, is_pointer) {
        (Direction::In, false) => scalar.to_owned(),
        (Direction::In, true) => format!("*const {scalar}"),
        (Direction::Out | Direction::InOut, _) => format!("*mut {scalar}"),
    }
}

/// Rust type of a function's result in a crossing.
pub fn lower_result(function: &Function) -> &'static str {
    match function.returns {
        Returns::Error | Returns::Fint => "i32",
        Returns::Double => "f64",
        Returns::Aint => "isize",
        Returns::Handle(_) => "usize",
    }
}

/// The parameter's name as a valid identifier of Rust.
pub fn identifier(param: &Param) -> String {
    match param.name.as_str() {
        "type" | "ref" | "in" | "fn" | "mod" | "move" | "match" | "loop" => {
            format!("{}_", param.name)
        }
        name => name.to_owned(),
    }
}

/// `(name: type, ...) -> type` of a function in a crossing.
pub fn lower_signature(function: &Function) -> String {
    let params: Vec<String> = function
        .params
        .iter()
        .map(|param| format!("{}: {}", identifier(param), lower_type(param)))
        .collect();
    format!("({}) -> {}", params.join(", "), lower_result(function))
}
