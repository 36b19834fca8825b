//! The C signature of a function in an application's ABI.

use super::convert::type_name;
use crate::generate::lower_type::identifier;
use crate::{Direction, Function, Kind, Param, Returns};

/// Signature of a function, as text.
pub struct Signature {
    /// `name: type, ...`
    pub params: String,
    /// Type of the result.
    pub result: String,
}

impl Signature {
    /// The signature of a function.
    pub fn of(function: &Function) -> Signature {
        let params: Vec<String> = function
            .params
            .iter()
            .map(|param| format!("{}: {}", identifier(param), c_type(param)))
            .collect();
        Signature {
            params: params.join(", "),
            result: match function.returns {
                Returns::Error | Returns::Fint => "i32".to_owned(),
                Returns::Double => "f64".to_owned(),
                Returns::Aint => "isize".to_owned(),
                Returns::Handle(kind) => format!("abi::{}", type_name(kind)),
            },
        }
    }
}

fn c_type(param: &Param) -> String {
    let scalar = match param.kind {
        Kind::SendBuffer | Kind::RecvBuffer | Kind::Pointer | Kind::Callback => "c_void".to_owned(),
        Kind::String => "c_char".to_owned(),
        Kind::Status => "abi::Status".to_owned(),
        Kind::Aint => "isize".to_owned(),
        Kind::Offset | Kind::Count => "i64".to_owned(),
        Kind::Double => "f64".to_owned(),
        kind if kind.is_handle() => format!("abi::{}", type_name(kind)),
        _ => "i32".to_owned(),
    };
    let pointer = param.kind.is_pointer() || param.array.is_some();
    match (param.direction, pointer) {
        (Direction::In, false) => scalar,
        (Direction::In, true) => format!("*const {scalar}"),
        (Direction::Out | Direction::InOut, _) => format!("*mut {scalar}"),
    }
}
