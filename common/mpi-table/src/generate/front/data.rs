//! The data that a function's arguments describe, and the operation that it is a form of.

use crate::generate::lower_type::identifier;
use crate::{Class, Function, Kind, Param};

/// The first buffer of a function.
pub struct Data {
    pub buffer: String,
    /// Expression of its count, and the same as an `i64`.
    pub count: String,
    pub wide: String,
    pub datatype: String,
}

/// The first buffer with a count and a datatype that are single.
pub fn data(function: &Function, folds: bool) -> Option<Data> {
    let folded = function.folded().filter(|_| folds).unwrap_or_default();
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
        let is_folded = folded.iter().any(|(other, _)| other == count);
        let count_is = match is_folded {
            true => format!("{name}_fold.count()"),
            false => name,
        };
        let wide = match (is_folded, count.kind) {
            (false, Kind::Count) => count_is.clone(),
            _ => format!("i64::from({count_is})"),
        };
        return Some(Data {
            buffer: identifier(buffer),
            count: count_is,
            wide,
            datatype: identifier(datatype),
        });
    }
    None
}

fn is_datatype(param: &Param) -> bool {
    param.kind == Kind::Datatype && param.array.is_none()
}

/// Name of the blocking function behind `MPI_`: of MPI_Iscan_c and MPI_Scan_init it is Scan.
pub fn base_name(function: &Function) -> String {
    let name = function.name.trim_start_matches("MPI_");
    let name = name.trim_end_matches("_c").trim_end_matches("_init");
    if function.class != Class::CollectiveNonblocking {
        return name.to_owned();
    }
    let name = name.trim_start_matches('I');
    let (first, rest) = name.split_at(1);
    first.to_ascii_uppercase() + rest
}
