//! The part of a collective function for operations that are reduced to messages (`upper_half::reduced`): a function
//! beside the wrapper, which the wrapper calls while a tool is on. It returns `NOT_REDUCED` if the call is left to the
//! library.
//!
//! Its arguments are those of a function of the core, without the request.

use super::convert::{boxed_arrays, Body};
use super::data::base_name;
use super::{failure, profiled, received, tools};
use crate::generate::lower_type::identifier;
use crate::{Class, Function, Kind, Length, Param};

/// The statement of the wrapper.
pub fn test(function: &Function) -> Option<String> {
    let is = is_reduced(function);
    let arguments: Vec<String> = function.params.iter().map(identifier).collect();
    is.then(|| {
        format!(
            "if upper_half::tools::any() {{ let code = {}({}); if code != NOT_REDUCED {{ return code; }} }}",
            name_of(function),
            arguments.join(", ")
        )
    })
}

fn is_reduced(function: &Function) -> bool {
    matches!(
        function.class,
        Class::Collective | Class::CollectiveNonblocking | Class::CollectivePersistent
    )
}

/// Name of the function beside the wrapper.
pub fn name_of(function: &Function) -> String {
    format!("reduced_{}", function.name)
}

/// Its body.
pub fn body(function: &Function) -> Option<Vec<String>> {
    if !is_reduced(function) {
        return None;
    }
    let mut planned = function.clone();
    let of_plan = |param: &Param| !matches!(param.kind, Kind::Request | Kind::Info);
    planned.params.retain(of_plan);
    if base_name(function) == "Reduce_scatter" {
        // The table has the remote group's size in the place of the local one's.
        let counts = planned
            .params
            .iter_mut()
            .filter(|param| param.array.is_some());
        counts.for_each(|param| param.array = Some(Length::Param("comm_.body.size".to_owned())));
    }
    let mut body = Body::for_core(&planned);
    let persistent = function.class == Class::CollectivePersistent;
    let mut lines = Vec::new();
    lines.append(&mut body.objects);
    lines.append(&mut body.decode);
    lines.append(&mut body.arrays);
    if persistent {
        let mut again = Vec::new();
        for name in Body::kept_objects(&planned) {
            lines.push(format!(
                "let {name}kept = upper_half::ObjectRef::new({name});"
            ));
            again.push(format!("let {name} = {name}kept.object();"));
        }
        for name in boxed_arrays(&planned).map(identifier) {
            lines.push(format!(
                "let {name}_kept: Vec<_> = (0..{name}_len) \
                 .map(|entry| upper_half::ObjectRef::new(*{name}_.add(entry))).collect();"
            ));
            again.push(format!(
                "let mut {name}_again: Vec<_> = {name}_kept.iter().map(|kept| kept.object()).collect(); \
                 let {name}_ = {name}_again.as_mut_ptr();"
            ));
        }
        lines.push(format!(
            "let plan = move |comm_: &'static Comm, algorithm| {{ {} {} }};",
            again.join(" "),
            plan(&planned, &body.args)
        ));
    } else {
        lines.push(format!(
            "let plan = |algorithm| {};",
            plan(&planned, &body.args)
        ));
    }
    let before_call = tools::before_call(function, false).unwrap_or_default();
    let notes = profiled::notes(function, false).unwrap_or_default();
    lines.push(format!("let told = || {{ {notes} {before_call} }};"));
    let (how, planner) = match function.class {
        Class::Collective => ("blocking", "plan"),
        Class::CollectiveNonblocking => ("nonblocking", "plan"),
        _ => ("persistent", "Box::new(plan)"),
    };
    lines.push(format!(
        "let made = upper_half::reduced::{how}(upper_half::reduced::Function::{}, comm_, told, {planner});",
        variant(&base_name(function))
    ));
    let failed = failure(&planned, "code").replace(
        &format!("\"{}\"", planned.name),
        &format!("\"{}\"", function.name),
    );
    let outcome = match function.class {
        Class::Collective => {
            let received = received::told(function, false).unwrap_or_default();
            format!(
                "Some(contract::abi::SUCCESS) => {{ {received} contract::abi::SUCCESS }} \
                 Some(code) => {failed}"
            )
        }
        _ => {
            let result = received::will_receive(function, false).unwrap_or_default();
            format!(
                "Some(Ok(object)) => {{ {result} *request = abi::request_out(object); contract::abi::SUCCESS }} \
                 Some(Err(code)) => {failed}"
            )
        }
    };
    lines.push(format!("match made {{ None => NOT_REDUCED, {outcome} }}"));
    Some(lines)
}

/// The call that makes the schedule.
fn plan(function: &Function, arguments: &[String]) -> String {
    format!(
        "upper_half::reduced::{}({}, algorithm)",
        base_name(function).to_ascii_lowercase(),
        arguments.join(", ")
    )
}

/// Name of the variant of `upper_half::reduced::Function`: Reduce_scatter is ReduceScatter.
fn variant(name: &str) -> String {
    let parts = name.split('_').map(|part| {
        let (first, rest) = part.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    parts.collect()
}
