//! Generator of functions that find those of an MPI library of the standard ABI by name, for `common/mpi-abi`. The
//! types of the standard ABI are those of a crossing, with handles of their own types.

use std::fmt::Write;

use super::lower_type::{identifier, lower_result, lower_type};
use crate::{Direction, Function, Kind, Param};

/// Source of the functions, of `NAMES` and of `FUNCTIONS`, the addresses.
pub fn by_name() -> String {
    let mut text = String::new();
    let functions = crate::functions().iter();
    let all: Vec<&Function> = functions.filter(|f| f.is_of_standard_abi()).collect();
    write_all(&mut text, &all).expect("writing to a string cannot fail");
    text
}

fn write_all(text: &mut String, all: &[&Function]) -> std::fmt::Result {
    let number = all.len();
    writeln!(
        text,
        "// Generated from the table of MPI functions; do not edit.\n"
    )?;
    writeln!(text, "static NAMES: [&core::ffi::CStr; {number}] = [")?;
    for function in all {
        writeln!(text, "    c\"{}\",", function.name)?;
    }
    writeln!(
        text,
        "];\n\nstatic FUNCTIONS: [AtomicPtr<c_void>; {number}] =\n    \
         [const {{ AtomicPtr::new(missing as *mut c_void) }}; {number}];\n"
    )?;
    for (place, function) in all.iter().enumerate() {
        write_function(text, place, function)?;
    }
    Ok(())
}

fn write_function(text: &mut String, place: usize, function: &Function) -> std::fmt::Result {
    let types: Vec<String> = function
        .params
        .iter()
        .map(|p| native_type(function, p))
        .collect();
    let names: Vec<String> = function.params.iter().map(identifier).collect();
    let params = names.iter().zip(&types);
    let params: Vec<String> = params
        .map(|(name, kind)| format!("{name}: {kind}"))
        .collect();
    let (name, result) = (&function.name, lower_result(function));
    writeln!(
        text,
        "/// {name}\n///\n/// # Safety\n/// That of the library's function.\n#[inline]\n\
         #[allow(clippy::too_many_arguments)]\n\
         pub unsafe fn {name}({}) -> {result} {{",
        params.join(", ")
    )?;
    writeln!(
        text,
        "    // SAFETY: see the head of the crate.\n    unsafe {{\n        \
         let found = FUNCTIONS[{place}].load(Ordering::Relaxed);\n        \
         type Found = unsafe extern \"C\" fn({}) -> {result};\n        \
         core::mem::transmute::<*mut c_void, Found>(found)({})\n    }}\n}}\n",
        types.join(", "),
        names.join(", ")
    )
}

/// Type of a parameter in the standard ABI.
fn native_type(function: &Function, param: &Param) -> String {
    if param.kind == Kind::Callback && function.name == "MPI_Op_create" {
        return "MPI_User_function".to_owned();
    }
    let scalar = match param.kind {
        Kind::Status => "MPI_Status",
        kind => match handle(kind) {
            Some(name) => name,
            None => return lower_type(param),
        },
    };
    let is_pointer = param.kind.is_pointer() || param.array.is_some();
    match (param.direction, is_pointer) {
        (Direction::In, false) => scalar.to_owned(),
        (Direction::In, true) => format!("*const {scalar}"),
        (Direction::Out | Direction::InOut, _) => format!("*mut {scalar}"),
    }
}

fn handle(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Comm => "MPI_Comm",
        Kind::Group => "MPI_Group",
        Kind::Datatype => "MPI_Datatype",
        Kind::Op => "MPI_Op",
        Kind::Errhandler => "MPI_Errhandler",
        Kind::Info => "MPI_Info",
        Kind::Request => "MPI_Request",
        Kind::Message => "MPI_Message",
        Kind::Win => "MPI_Win",
        Kind::File => "MPI_File",
        Kind::Session => "MPI_Session",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_the_types_of_the_standard() {
        let text = by_name();
        let send = "pub unsafe fn MPI_Send(buf: *const c_void, count: i32, datatype: MPI_Datatype, dest: i32, \
                    tag: i32, comm: MPI_Comm) -> i32 {";
        assert!(text.contains(send));
        assert!(text.contains("fn MPI_Wtime() -> f64"));
        assert!(!text.contains("fn MPI_Address("));
    }
}
