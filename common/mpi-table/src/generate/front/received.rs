//! The statements that tell the debugging tools what a collective operation has received, or will receive.

use super::data::base_name;
use super::input;
use crate::generate::lower_type::identifier;
use crate::{Class, Function, Kind};

/// The statement, for a blocking function whose result is in one piece of memory. It follows the call that has
/// succeeded. `folds` is whether large counts are folded into datatypes.
pub fn told(function: &Function, folds: bool) -> Option<String> {
    let result = result(function, folds).filter(|_| function.class == Class::Collective)?;
    Some(format!(
        "if upper_half::tools::any() {{ upper_half::told::received({result}); }}"
    ))
}

/// The same for a non-blocking function, whose request is `object`.
pub fn will_receive(function: &Function, folds: bool) -> Option<String> {
    let starts = function.class == Class::CollectiveNonblocking;
    let result = result(function, folds).filter(|_| starts)?;
    Some(format!(
        "if upper_half::tools::any() {{ upper_half::told::will_receive(object, {result}); }}"
    ))
}

/// The communicator, whether this process has a result, and its buffer, count and datatype.
fn result(function: &Function, folds: bool) -> Option<String> {
    let root = input(function, Kind::Rank).map(|root| format!("abi::rank_in({root}) as i32"));
    let at_root = |is: &str| Some(format!("comm_.body.rank {is} {}", root.as_ref()?));
    let blocks = " * i64::from(comm_.body.size)";
    let all = "true".to_owned();
    // Its buffer, count and datatype, the number of blocks, and who has a result.
    let (buffer, count, datatype, times, gets) = match base_name(function).as_str() {
        "Bcast" => ("buffer", "count", "datatype", "", at_root("!=")?),
        "Scatter" | "Scatterv" => ("recvbuf", "recvcount", "recvtype", "", all),
        "Gather" => ("recvbuf", "recvcount", "recvtype", blocks, at_root("==")?),
        "Allgather" | "Alltoall" => ("recvbuf", "recvcount", "recvtype", blocks, all),
        "Reduce" => ("recvbuf", "count", "datatype", "", at_root("==")?),
        "Allreduce" | "Scan" => ("recvbuf", "count", "datatype", "", all),
        "Exscan" => {
            let gets = "comm_.body.rank != 0".to_owned();
            ("recvbuf", "count", "datatype", "", gets)
        }
        "Reduce_scatter_block" => ("recvbuf", "recvcount", "datatype", "", all),
        "Reduce_scatter" => ("recvbuf", "recvcounts", "datatype", "", all),
        _ => return None,
    };
    let folded = function.folded().filter(|_| folds).unwrap_or_default();
    let is_folded = folded.iter().any(|(folded, _)| folded.name == count);
    let param = function.param(count)?;
    let name = identifier(param);
    let count = match (is_folded, param.array.is_some()) {
        (true, _) => format!("{name}_fold.count()"),
        (false, true) => format!("*{name}.add(comm_.body.rank as usize)"),
        (false, false) => name,
    };
    Some(format!(
        "comm_, {gets}, pass(App(abi::buffer({buffer} as _))), {count} as i64{times}, {datatype}_"
    ))
}
