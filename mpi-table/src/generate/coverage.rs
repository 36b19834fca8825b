//! The documentation's page on which functions are served, and how.

use std::fmt::Write;

use crate::schema::{spelled_as, CLASSES, VIAS};
use crate::{Class, Function, Via};

/// A page in Markdown with every function, its class, who serves it, and what that means.
pub fn coverage() -> String {
    let mut text = String::new();
    write_coverage(&mut text).expect("writing to a string cannot fail");
    text
}

fn write_coverage(text: &mut String) -> std::fmt::Result {
    let functions = crate::functions();
    writeln!(text, "# MPI functions: what is served, and how\n")?;
    writeln!(
        text,
        "Generated from `mpi-table/mpi-3.1.table` by `mpi_table::generate::coverage`.\n"
    )?;
    writeln!(text, "| via | functions | meaning |\n|---|---:|---|")?;
    for (name, via) in VIAS {
        let count = functions
            .iter()
            .filter(|function| function.via == *via)
            .count();
        writeln!(text, "| {name} | {count} | {} |", meaning(*via))?;
    }
    let mut heading = "";
    for function in functions {
        if function.heading != heading {
            heading = &function.heading;
            writeln!(text, "\n## {heading}\n")?;
            writeln!(text, "| function | class | via | note |\n|---|---|---|---|")?;
        }
        let class = spelled_as(CLASSES, function.class);
        let via = spelled_as(VIAS, function.via);
        writeln!(
            text,
            "| `{}` | {class} | {via} | {} |",
            function.name,
            note(function)
        )?;
    }
    Ok(())
}

fn meaning(via: Via) -> &'static str {
    match via {
        Via::Core => "implemented in the upper half; its state is part of the checkpoint",
        Via::Direct => "converted and passed to the MPI library below",
        Via::Refuse => "not supported: the call answers with its name, through the error handler",
    }
}

fn note(function: &Function) -> &'static str {
    match (function.class, function.via) {
        (_, Via::Refuse) => "not supported",
        (Class::Tool, _) => "shows no variables",
        (Class::Collective | Class::CollectiveNonblocking, _) => "counted by its communicator",
        (Class::FileCollective | Class::FileCollectiveNonblocking, _) => "counted by its file",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_function_has_a_line() {
        let page = super::coverage();
        for function in crate::functions() {
            assert!(
                page.contains(&format!("| `{}` | ", function.name)),
                "{}",
                function.name
            );
        }
        let spawn = "| `MPI_Comm_spawn` | process | refuse | not supported |";
        assert!(page.contains(spawn), "{page}");
    }
}
