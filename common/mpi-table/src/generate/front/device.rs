//! The statement that refuses buffers in memory of a GPU (`upper_half::device_buffer`). It comes before the guard.

use super::{data, decoded_error_object, failure, input};
use crate::generate::lower_type::identifier;
use crate::{Function, Kind, Param};

/// The statement, for a function with buffers.
pub fn test(function: &Function) -> Option<String> {
    let buffers: Vec<&Param> = function.params.iter().filter(|p| is_buffer(p)).collect();
    if buffers.is_empty() {
        return None;
    }
    let pointers: Vec<String> = buffers
        .iter()
        .map(|buffer| format!("{} as _", identifier(buffer)))
        .collect();
    let refused = buffers.iter().enumerate().map(|(at, buffer)| {
        let mut conditions = vec![format!("found & {} != 0", 1 << at)];
        conditions.extend(is_used(function, buffer));
        format!(
            "if {} {{ upper_half::device_buffer::refused(\"{}\", {} as _); return {}; }}",
            conditions.join(" && "),
            function.name,
            identifier(buffer),
            failure(function, "contract::abi::ERR_BUFFER"),
        )
    });
    let object = decoded_error_object(function).unwrap_or_default();
    Some(format!(
        "if upper_half::tools::any() {{ let found = upper_half::device_buffer::find(&[{}]); if found != 0 {{ \
         let _guard = CallGuard::enter_of({}); {object} {} }} }}",
        pointers.join(", "),
        function.slot,
        refused.collect::<Vec<_>>().join(" else "),
    ))
}

fn is_buffer(param: &Param) -> bool {
    matches!(param.kind, Kind::SendBuffer | Kind::RecvBuffer)
}

/// The conditions under which the call uses the buffer: an address that is not used may be any.
fn is_used(function: &Function, buffer: &Param) -> Vec<String> {
    let mut conditions: Vec<String> = Vec::new();
    let after = function.params.iter().skip_while(|param| *param != buffer);
    let is_count = |param: &&Param| {
        let number = matches!(param.kind, Kind::Int | Kind::Count | Kind::Aint);
        number && (param.name.contains("count") || param.name.contains("size"))
    };
    if let Some(count) = after.clone().find(is_count) {
        let name = identifier(count);
        conditions.extend(count.array.is_none().then(|| format!("{name} != 0")));
    }
    if let (Some(root), Some(comm)) = (function.param("root"), input(function, Kind::Comm)) {
        let at_root = format!(
            "upper_half::device_buffer::is_root({comm}_, abi::rank_in({}))",
            identifier(root)
        );
        let base = data::base_name(function);
        let sends = buffer.kind == Kind::SendBuffer;
        let of_root = match base.trim_end_matches('v') {
            "Scatter" => sends,
            "Gather" | "Reduce" => !sends,
            _ => false,
        };
        conditions.push(match of_root {
            true => at_root,
            false => format!(
                "abi::rank_in({}) != contract::abi::PROC_NULL",
                identifier(root)
            ),
        });
    } else if let Some(peer) = after.clone().find(|param| param.kind == Kind::Rank) {
        conditions.push(format!(
            "abi::rank_in({}) != contract::abi::PROC_NULL",
            identifier(peer)
        ));
    }
    conditions
}
