//! The sums as users read them.

use std::fmt::Write;

use history::text::{bytes, span};

use crate::file::{Communicator, SizeClass};
use crate::sum::{Job, Sums};

/// Rows of a table that are shown; the page and the JSON have all.
const MOST_ROWS: usize = 12;

/// The profile in lines, without a line break at its end.
pub fn of(job: &Job) -> String {
    let mut text = heading(&job.sums);
    write_tables(&mut text, &job.sums).expect("writing to a string cannot fail");
    text
}

/// One line: the share of MPI and the rate of calls.
pub fn heading(sums: &Sums) -> String {
    let of_all = match sums.known_ranks == sums.size as usize {
        true => String::new(),
        false => format!("{} of ", sums.known_ranks),
    };
    let ranks = match sums.size {
        1 => "1 rank".to_owned(),
        ranks => format!("{ranks} ranks"),
    };
    format!(
        "profile of {of_all}{ranks}, {} since MPI_Init: {} of it in MPI, {} calls, {:.0} a second and rank",
        span(sums.elapsed_seconds),
        percent(sums.mpi_share),
        sums.calls,
        sums.calls_per_second
    )
}

/// A share from 0 to 1, such as `3.1 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The bytes of a class, such as `1.0 KiB to 2.0 KiB`.
pub fn class(size: &SizeClass) -> String {
    match size.from_bytes {
        0 => "0 B".to_owned(),
        1 => "1 B".to_owned(),
        from => format!("{} to {}", bytes(from), bytes(2 * from)),
    }
}

/// The name of a communicator, or what is known of it.
pub fn name(comm: &Communicator) -> String {
    match (comm.name.as_str(), &comm.id) {
        ("", Some(id)) => format!("unnamed {id}"),
        ("", None) => "all others".to_owned(),
        (name, _) => visible(name),
    }
}

/// A name that a program has given, with control characters made visible: they would break a table.
fn visible(name: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    name.chars().map(shown).collect()
}

fn write_tables(text: &mut String, sums: &Sums) -> std::fmt::Result {
    let rest = |text: &mut String, all: usize| match all.saturating_sub(MOST_ROWS) {
        0 => Ok(()),
        more => write!(text, "\n  ... and {more} more"),
    };
    write!(
        text,
        "\n  {:<28} {:>12} {:>10} {:>9} {:>7}  slowest rank",
        "function", "calls", "data", "time", "of MPI"
    )?;
    for sum in sums.functions.iter().take(MOST_ROWS) {
        let all = &sum.all;
        write!(
            text,
            "\n  {:<28} {:>12} {:>10} {:>9} {:>7}  {}: {}",
            all.function,
            all.calls,
            bytes(all.bytes),
            span(all.seconds),
            percent(all.seconds / sums.mpi_seconds.max(f64::MIN_POSITIVE)),
            sum.slowest_rank,
            span(sum.most_seconds)
        )?;
    }
    rest(text, sums.functions.len())?;
    if !sums.message_sizes.is_empty() {
        write!(
            text,
            "\n  {:<28} {:>12}",
            "data of a call that sends", "calls"
        )?;
        for size in &sums.message_sizes {
            write!(text, "\n  {:<28} {:>12}", class(size), size.calls)?;
        }
    }
    if !sums.communicators.is_empty() {
        write!(
            text,
            "\n  {:<28} {:>12} {:>10} {:>9} {:>9}",
            "communicator", "calls", "data", "time", "processes"
        )?;
        for comm in sums.communicators.iter().take(MOST_ROWS) {
            write!(
                text,
                "\n  {:<28} {:>12} {:>10} {:>9} {:>9}",
                name(comm),
                comm.calls,
                bytes(comm.bytes),
                span(comm.seconds),
                comm.processes
            )?;
        }
        rest(text, sums.communicators.len())?;
    }
    if !sums.datatypes.is_empty() {
        write!(
            text,
            "\n  {:<28} {:>12} {:>10}",
            "datatype", "calls", "data"
        )?;
        for datatype in sums.datatypes.iter().take(MOST_ROWS) {
            let data = bytes(datatype.bytes);
            write!(
                text,
                "\n  {:<28} {:>12} {data:>10}",
                datatype.datatype, datatype.calls
            )?;
        }
        rest(text, sums.datatypes.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum::tests::job;

    #[test]
    fn names_stay_in_their_line() {
        let comm = Communicator {
            name: "a\n\u{1b}b é".into(),
            ..Communicator::default()
        };
        assert_eq!(name(&comm), "a\\n\\u{1b}b é");
    }

    #[test]
    fn lines_fit_a_terminal() {
        let text = of(&job());
        let heading = "profile of 2 ranks, 4.0 s since MPI_Init: 25.0 % of it in MPI, 8 calls, 1 a second and rank\n";
        assert!(text.starts_with(heading), "{text}");
        assert!(text.lines().skip(1).all(|line| line.len() <= 92), "{text}");
        let send: Vec<&str> = text.lines().filter(|l| l.contains("MPI_Send")).collect();
        let words: Vec<&str> = send[0].split_whitespace().collect();
        assert_eq!(words[..4], ["MPI_Send", "5", "50", "B"]);
        assert!(text.contains("unnamed 7") && text.contains("8 B to 16 B"));
    }
}
