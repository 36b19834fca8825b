//! The functions that the rules do not cover.

use super::convert::{decoder, Body};
use crate::generate::lower_type::identifier;
use crate::{Function, Kind, Returns};

/// The body of a function that needs neither the core nor a crossing.
pub fn body(function: &Function) -> Option<Vec<String>> {
    let name = |index: usize| identifier(&function.params[index]);
    let expression = match (function.name.as_str(), function.returns) {
        ("MPI_Aint_add", _) => format!("{}.wrapping_add({})", name(0), name(1)),
        ("MPI_Aint_diff", _) => format!("{}.wrapping_sub({})", name(0), name(1)),
        // A Fortran status, with or without mpi_f08, is the C status as an array of integers.
        (
            "MPI_Status_c2f" | "MPI_Status_f2c" | "MPI_Status_c2f08" | "MPI_Status_f082c",
            Returns::Error,
        ) => {
            return Some(vec![
                format!(
                    "if abi::ignored({} as _) {{ return failed_comm(world(), \
                     contract::abi::ERR_ARG, \"{}\"); }}",
                    name(0),
                    function.name
                ),
                format!(
                    "core::ptr::copy_nonoverlapping({}.cast::<u8>(), {}.cast::<u8>(), \
                     size_of::<abi::Status>());",
                    name(0),
                    name(1)
                ),
                "contract::abi::SUCCESS".to_owned(),
            ]);
        }
        (_, Returns::Fint) => {
            format!("abi::{}_c2f({})", decoder(function.params[0].kind), name(0))
        }
        (_, Returns::Handle(kind)) => format!("abi::{}_f2c({})", decoder(kind), name(0)),
        _ => return None,
    };
    Some(vec![expression])
}

/// Adds outputs that need more than the translation of their type.
pub fn outputs(function: &Function, body: &mut Body) {
    match function.name.as_str() {
        "MPI_Type_get_contents" | "MPI_Type_get_contents_c" => body.success.push(
            "common::contents_out(datatype_, array_of_integers, abi::order_out, \
             abi::distribution_out, abi::distribution_arg_out);"
                .to_owned(),
        ),
        "MPI_Comm_get_attr" | "MPI_Attr_get" | "MPI_Win_get_attr" => {
            let keyval = function
                .params
                .iter()
                .find(|param| param.kind == Kind::Keyval);
            let keyval = keyval.map(identifier).unwrap_or_default();
            body.success.push(format!(
                "if *flag != 0 {{ common::attribute_out(abi::keyval_in({keyval}), \
                 attribute_val.cast(), &abi::ATTRIBUTE_VALUES); }}"
            ));
        }
        _ => {}
    }
}

/// Path of the core's function.
pub fn core_path(function: &Function) -> String {
    match function.name.as_str() {
        // `upper_half::start` starts the core.
        "MPI_Start" => "upper_half::request::start".to_owned(),
        _ if function.folded().is_some() => {
            let name = function.snake_name();
            format!("upper_half::{}", name.trim_end_matches("_c"))
        }
        _ => format!("upper_half::{}", function.snake_name()),
    }
}
