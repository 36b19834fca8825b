//! Parser of the table's text. It accepts only what it understands completely: a guess would make wrong wrappers.

use std::collections::HashSet;

use crate::schema::{spelled, CLASSES, KINDS, VIAS};
use crate::{Class, Direction, Function, Kind, Length, Param, Returns, Via};

/// A mistake in the table, and its line.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line} of the MPI table: {what}")]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// Kind of the mistake.
    pub what: Mistake,
}

/// A mistake in the table.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Mistake {
    /// An indented line that does not follow a function.
    #[error("an indented line must continue the function above it")]
    Continuation,
    /// A function before the first section.
    #[error("a function needs a `[class via]` section above it")]
    NoSection,
    /// A section that does not consist of two known words.
    #[error("`{0}` is not a section; write `[class via]`, as the head of the table says")]
    Section(String),
    /// A function that is not `MPI_Name(...)`.
    #[error("`{0}` is not of the form MPI_Name(parameters) -> result")]
    Form(String),
    /// A parameter that is not `[direction] kind name[length]`.
    #[error("parameter `{0}` is not of the form [in|out|inout] kind name[length]")]
    Param(String),
    /// An unknown kind.
    #[error("there is no kind `{0}`")]
    Kind(String),
    /// A length that names no parameter, or one of the wrong kind.
    #[error("the length `{0}` is neither a number, `*`, a parameter, nor size/in/out of a comm")]
    Length(String),
    /// An unknown result.
    #[error("`{0}` is not a result of a function")]
    Returns(String),
    /// A name that occurs twice.
    #[error("`{0}` occurs twice")]
    Twice(String),
}

/// Parses `text`. The functions get successive slots from `first_slot` on.
///
/// # Errors
/// The first [`Mistake`], with its line.
pub fn parse(text: &str, first_slot: usize) -> Result<Vec<Function>, ParseError> {
    let mut functions: Vec<Function> = Vec::new();
    let mut names = HashSet::new();
    let mut heading = String::new();
    let mut section = None;
    for (line, statement) in statements(text)? {
        let at = |what| ParseError { line, what };
        if let Some(words) = statement.strip_prefix("## ") {
            words.clone_into(&mut heading);
        } else if let Some(words) = statement.strip_prefix('[') {
            section = Some(parse_section(words).map_err(at)?);
        } else {
            let (class, via) = section.ok_or(at(Mistake::NoSection))?;
            let (name, params, returns) = parse_function(&statement).map_err(at)?;
            let slot = first_slot + functions.len();
            let heading = heading.clone();
            let function = Function {
                name,
                heading,
                class,
                via,
                returns,
                params,
                slot,
            };
            for form in function.with_forms() {
                if !names.insert(form.name.clone()) {
                    return Err(at(Mistake::Twice(form.name)));
                }
                functions.push(form);
            }
        }
    }
    Ok(functions)
}

/// Joins continued lines and removes comments. Each statement has the number of its first line.
fn statements(text: &str) -> Result<Vec<(usize, String)>, ParseError> {
    let mut statements: Vec<(usize, String)> = Vec::new();
    let mut may_continue = false;
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        let words = line.trim();
        if words.is_empty() || (line.starts_with('#') && !line.starts_with("## ")) {
            may_continue = false;
        } else if line.starts_with([' ', '\t']) {
            match statements.last_mut().filter(|_| may_continue) {
                Some((_, statement)) => {
                    statement.push(' ');
                    statement.push_str(words);
                }
                None => {
                    return Err(ParseError {
                        line: line_number,
                        what: Mistake::Continuation,
                    })
                }
            }
        } else {
            statements.push((line_number, words.to_owned()));
            may_continue = line.starts_with("MPI_");
        }
    }
    Ok(statements)
}

fn parse_section(words: &str) -> Result<(Class, Via), Mistake> {
    let mistake = || Mistake::Section(format!("[{words}"));
    let inside = words.strip_suffix(']').ok_or_else(mistake)?;
    let (class, via) = inside.split_once(' ').ok_or_else(mistake)?;
    match (spelled(CLASSES, class), spelled(VIAS, via)) {
        (Some(class), Some(via)) => Ok((class, via)),
        _ => Err(mistake()),
    }
}

fn parse_function(text: &str) -> Result<(String, Vec<Param>, Returns), Mistake> {
    let form = || Mistake::Form(text.to_owned());
    let (name, rest) = text.split_once('(').ok_or_else(form)?;
    let (inside, after) = rest.rsplit_once(')').ok_or_else(form)?;
    // The last parenthesis closes the list, because the list may contain `size(comm)`.
    let well_named = name.strip_prefix("MPI_").is_some_and(is_identifier);
    if !well_named {
        return Err(form());
    }
    let mut params: Vec<Param> = Vec::new();
    for param in inside
        .split(',')
        .map(str::trim)
        .filter(|param| !param.is_empty())
    {
        let param = parse_param(param)?;
        if params.iter().any(|other| other.name == param.name) {
            return Err(Mistake::Twice(param.name));
        }
        params.push(param);
    }
    for param in &params {
        check_length(param, &params)?;
    }
    Ok((name.to_owned(), params, parse_returns(after.trim())?))
}

fn parse_param(text: &str) -> Result<Param, Mistake> {
    let mistake = || Mistake::Param(text.to_owned());
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let direction = match words.first() {
        Some(&"in") => Some(Direction::In),
        Some(&"out") => Some(Direction::Out),
        Some(&"inout") => Some(Direction::InOut),
        _ => None,
    };
    if direction.is_some() {
        words.remove(0);
    }
    let [kind, name] = words[..] else {
        return Err(mistake());
    };
    let kind_of = |kind| spelled(KINDS, kind).ok_or_else(|| Mistake::Kind(kind.to_owned()));
    let (kind, other) = match kind.split_once('/') {
        Some((kind, large)) => (kind_of(kind)?, Some(kind_of(large)?)),
        None => (kind_of(kind)?, None),
    };
    let (name, array) = match name.split_once('[') {
        Some((name, length)) => {
            let length = length.strip_suffix(']').ok_or_else(mistake)?;
            (name, Some(parse_length(length)?))
        }
        None => (name, None),
    };
    if !is_identifier(name) {
        return Err(mistake());
    }
    let direction = direction.unwrap_or(match kind {
        Kind::RecvBuffer => Direction::Out,
        _ => Direction::In,
    });
    Ok(Param {
        name: name.to_owned(),
        kind,
        direction,
        array,
        other,
    })
}

fn parse_length(text: &str) -> Result<Length, Mistake> {
    let of = |function: &str| {
        let inside = text
            .strip_prefix(function)?
            .strip_prefix('(')?
            .strip_suffix(')')?;
        Some(inside.to_owned())
    };
    if text == "*" {
        Ok(Length::Opaque)
    } else if let Ok(bytes) = text.parse() {
        Ok(Length::Bytes(bytes))
    } else if let Some(comm) = of("size") {
        Ok(Length::CommSize(comm))
    } else if let Some(comm) = of("in") {
        Ok(Length::Neighbours(comm, true))
    } else if let Some(comm) = of("out") {
        Ok(Length::Neighbours(comm, false))
    } else if is_identifier(text) {
        Ok(Length::Param(text.to_owned()))
    } else {
        Err(Mistake::Length(text.to_owned()))
    }
}

/// Checks that a length names a parameter that can be a length.
fn check_length(param: &Param, params: &[Param]) -> Result<(), Mistake> {
    let named = |name: &str, kinds: &[Kind]| {
        let found = params.iter().find(|other| other.name == name);
        found.is_some_and(|other| kinds.contains(&other.kind) && other.array.is_none())
    };
    let (name, fits) = match &param.array {
        None | Some(Length::Opaque) => return Ok(()),
        Some(Length::Bytes(bytes)) => (bytes.to_string(), param.kind == Kind::String),
        Some(Length::Param(name)) => (
            name.clone(),
            named(name, &[Kind::Int, Kind::IntOrUndefined, Kind::Count]),
        ),
        Some(Length::CommSize(comm) | Length::Neighbours(comm, _)) => {
            (comm.clone(), named(comm, &[Kind::Comm]))
        }
    };
    fits.then_some(()).ok_or(Mistake::Length(name))
}

fn parse_returns(text: &str) -> Result<Returns, Mistake> {
    if text.is_empty() {
        return Ok(Returns::Error);
    }
    let mistake = || Mistake::Returns(text.to_owned());
    match text.strip_prefix("-> ").ok_or_else(mistake)? {
        "error" => Ok(Returns::Error),
        "double" => Ok(Returns::Double),
        "aint" => Ok(Returns::Aint),
        "fint" => Ok(Returns::Fint),
        kind => match spelled(KINDS, kind) {
            Some(kind) if kind.is_handle() => Ok(Returns::Handle(kind)),
            _ => Err(mistake()),
        },
    }
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> (usize, Mistake) {
        let error = parse(text, 32).expect_err("the table is wrong");
        (error.line, error.what)
    }

    #[test]
    fn reads_a_function() {
        let text = "# head\n## Sending\n[send core]\n\nMPI_Send(sendbuf buf, int count,\n    \
                    out status s[count], recvbuf r) -> comm\n";
        let functions = parse(text, 32).expect("a good table");
        let [send] = &functions[..] else {
            panic!("one function: {functions:?}")
        };
        assert_eq!(
            (send.name.as_str(), send.slot, send.class),
            ("MPI_Send", 32, Class::Send)
        );
        assert_eq!(
            (send.via, send.returns),
            (Via::Core, Returns::Handle(Kind::Comm))
        );
        assert_eq!(send.heading, "Sending");
        assert_eq!(send.snake_name(), "send");
        assert_eq!(send.params[0].direction, Direction::In);
        assert_eq!(
            send.params[2].array,
            Some(Length::Param("count".to_owned()))
        );
        assert_eq!(send.params[3].direction, Direction::Out);
    }

    #[test]
    fn reads_lengths() {
        let text = "[local direct]\nMPI_X(comm c, int a[size(c)], int b[in(c)], int d[out(c)], \
                    int e[*], out string f[64])";
        let functions = parse(text, 0).expect("a good table");
        let lengths: Vec<_> = functions[0]
            .params
            .iter()
            .filter_map(|p| p.array.clone())
            .collect();
        let comm = || "c".to_owned();
        assert_eq!(
            lengths,
            [
                Length::CommSize(comm()),
                Length::Neighbours(comm(), true),
                Length::Neighbours(comm(), false),
                Length::Opaque,
                Length::Bytes(64),
            ]
        );
    }

    #[test]
    fn large_forms_follow_their_ordinary_ones() {
        let text = "[local core]\nMPI_X(int/count count, int tag, aint/count at[count])\nMPI_Y()";
        let functions = parse(text, 7).expect("a good table");
        let slots: Vec<_> = functions
            .iter()
            .map(|f| (f.name.as_str(), f.slot))
            .collect();
        assert_eq!(slots, [("MPI_X", 7), ("MPI_X_c", 8), ("MPI_Y", 9)]);
        let kinds = |n: usize| functions[n].params.iter().map(|p| (p.kind, p.other));
        assert_eq!(
            kinds(0).collect::<Vec<_>>(),
            [
                (Kind::Int, Some(Kind::Count)),
                (Kind::Int, None),
                (Kind::Aint, Some(Kind::Count)),
            ]
        );
        assert_eq!(
            kinds(1).collect::<Vec<_>>(),
            [
                (Kind::Count, Some(Kind::Int)),
                (Kind::Int, None),
                (Kind::Count, Some(Kind::Aint)),
            ]
        );
        assert_eq!(functions[1].snake_name(), "x_c");
    }

    #[test]
    fn persistent_forms_follow_non_blocking_ones() {
        let text = "[collective-nonblocking direct]\nMPI_Ineighbor_x(int/count n, comm comm, \
                    out request request)\nMPI_Ibarrier(comm comm, out request request)";
        let functions = parse(text, 7).expect("a good table");
        let names: Vec<_> = functions
            .iter()
            .map(|f| (f.name.as_str(), f.slot))
            .collect();
        assert_eq!(
            names,
            [
                ("MPI_Ineighbor_x", 7),
                ("MPI_Ineighbor_x_c", 8),
                ("MPI_Neighbor_x_init", 9),
                ("MPI_Neighbor_x_init_c", 10),
                ("MPI_Ibarrier", 11),
                ("MPI_Barrier_init", 12),
            ]
        );
        let large = &functions[3];
        let params: Vec<_> = large
            .params
            .iter()
            .map(|p| (p.name.as_str(), p.kind))
            .collect();
        assert_eq!(params[0], ("n", Kind::Count));
        assert_eq!(
            params[2..],
            [("info", Kind::Info), ("request", Kind::Request)]
        );
        assert_eq!(large.started_as().as_deref(), Some("MPI_Ineighbor_x"));
        assert_eq!(functions[4].started_as(), None);
        let crossing = |n: usize| functions[n].crosses();
        assert!(crossing(0) && !crossing(2) && !crossing(3));
    }

    #[test]
    fn names_line_and_mistake() {
        let section = |words: &str| Mistake::Section(words.to_owned());
        assert_eq!(mistake("\n[local cor]"), (2, section("[local cor]")));
        assert_eq!(mistake("[locl core]"), (1, section("[locl core]")));
        assert_eq!(mistake("MPI_X()"), (1, Mistake::NoSection));
        assert_eq!(
            mistake("[local core]\n  MPI_X()"),
            (2, Mistake::Continuation)
        );
        let in_section = |line: &str| mistake(&format!("[local core]\n{line}"));
        let text = |words: &str| words.to_owned();
        assert_eq!(in_section("PMPI_X()"), (2, Mistake::Form(text("PMPI_X()"))));
        assert_eq!(in_section("MPI_X"), (2, Mistake::Form(text("MPI_X"))));
        assert_eq!(in_section("MPI_X(int)"), (2, Mistake::Param(text("int"))));
        assert_eq!(
            in_section("MPI_X(into a)"),
            (2, Mistake::Kind(text("into")))
        );
        assert_eq!(
            in_section("MPI_X(int a[b])"),
            (2, Mistake::Length(text("b")))
        );
        assert_eq!(
            in_section("MPI_X(int a[7])"),
            (2, Mistake::Length(text("7")))
        );
        assert_eq!(
            in_section("MPI_X(int a) -> int"),
            (2, Mistake::Returns(text("-> int")))
        );
        assert_eq!(
            in_section("MPI_X(int a, int a)"),
            (2, Mistake::Twice(text("a")))
        );
        assert_eq!(
            in_section("MPI_X()\nMPI_X()"),
            (3, Mistake::Twice(text("MPI_X")))
        );
        assert_eq!(
            in_section("MPI_X_c()\nMPI_X(int/count n)"),
            (3, Mistake::Twice(text("MPI_X_c")))
        );
        assert_eq!(
            in_section("MPI_X(int/long n)"),
            (2, Mistake::Kind(text("long")))
        );
    }
}
