//! The page about the profile of a job's MPI calls.

use history::text::{bytes, span};
use maud::{html, Markup};
use profile::file::{Communicator, Datatype, Function, Rank, SizeClass};
use profile::sum::{FunctionSum, Sums};
use profile::text::{class, name, percent};
use profile::Job;

use super::chart::picture;
use super::page::{document, listed, table};

/// Width of the pictures, in units of SVG.
const WIDTH: f64 = 900.0;
/// Room for the labels at the left, and for values at the right.
const LABELS: f64 = 230.0;
const VALUES: f64 = 90.0;
/// Height of a bar with its gap.
const ROW: f64 = 18.0;
/// Most bars of a picture.
const MOST_BARS: usize = 20;
/// Most rows of a table of communicators or ranks.
const MOST_ROWS: usize = 500;

/// The page about the job in `directory`, whose name is only displayed.
pub fn profile_page(directory: &str, job: &Job) -> String {
    let sums = &job.sums;
    let content = html! {
        h1 { "MPI calls" }
        p { "Checkpoint directory " code { (directory) } }
        (figures(sums))
        (time(sums))
        (sizes(&sums.message_sizes))
        h2 { "Functions" }
        (functions(&sums.functions))
        h2 { "Communicators" }
        (communicators(&sums.communicators))
        h2 { "Datatypes" }
        (datatypes(&sums.datatypes))
        h2 { "Ranks" }
        (ranks(&job.ranks))
        h2 { "Functions of each rank" }
        @for rank in job.ranks.iter().take(MOST_ROWS) {
            (functions_of(rank))
        }
    };
    document(directory, &content)
}

fn figures(sums: &Sums) -> Markup {
    let all = [
        ("Ranks", format!("{} of {}", sums.known_ranks, sums.size)),
        ("Time since MPI_Init", span(sums.elapsed_seconds)),
        ("Share of it in MPI", percent(sums.mpi_share)),
        ("Calls", sums.calls.to_string()),
        (
            "Calls a second and rank",
            format!("{:.0}", sums.calls_per_second),
        ),
    ];
    listed(&all)
}

/// A bar for each function: its time.
fn time(sums: &Sums) -> Markup {
    let bar = |sum: &FunctionSum| {
        let share = sum.all.seconds / sums.mpi_seconds.max(f64::MIN_POSITIVE);
        (
            sum.all.function.clone(),
            share,
            format!("{} {}", span(sum.all.seconds), percent(share)),
        )
    };
    let shown: Vec<_> = sums.functions.iter().take(MOST_BARS).map(bar).collect();
    bars("Time in functions, of all ranks", &shown)
}

/// A bar for each class of bytes: its calls.
fn sizes(sizes: &[SizeClass]) -> Markup {
    let most = sizes.iter().map(|size| size.calls).max().unwrap_or(0);
    let bar = |size: &SizeClass| {
        let part = size.calls as f64 / most.max(1) as f64;
        (class(size), part, size.calls.to_string())
    };
    let shown: Vec<_> = sizes.iter().map(bar).collect();
    bars("Calls that send, by the size of their data", &shown)
}

/// Bars with a label, a part of the longest one, and a value.
fn bars(name: &str, shown: &[(String, f64, String)]) -> Markup {
    let longest = shown.iter().map(|bar| bar.1).fold(1e-9, f64::max);
    let room = WIDTH - LABELS - VALUES;
    picture(
        name,
        ROW * shown.len() as f64,
        html! {
            @for (row, (label, part, value)) in shown.iter().enumerate() {
                @let y = row as f64 * ROW;
                @let width = (part / longest * room).max(1.0);
                text x=(LABELS - 8.0) y=(y + ROW - 5.0) text-anchor="end" { (label) }
                rect.bar x=(LABELS) y=(y + 3.0) width=(width) height=(ROW - 6.0) { title { (label) ": " (value) } }
                text x=(LABELS + width + 6.0) y=(y + ROW - 5.0) { (value) }
            }
        },
    )
}

/// The time of one call, which is mostly short.
fn of_one(seconds: f64) -> String {
    match seconds < 1e-3 {
        true => format!("{:.2} us", seconds * 1e6),
        false => span(seconds),
    }
}

fn functions(functions: &[FunctionSum]) -> Markup {
    let row = |sum: &FunctionSum| {
        let all = &sum.all;
        let average = match all.calls {
            0 => 0.0,
            calls => all.seconds / calls as f64,
        };
        html! { tr {
            td { (all.function) }
            td { (all.calls) }
            td { (bytes(all.bytes)) }
            td { (span(all.seconds)) }
            td { (of_one(average)) }
            td { (span(sum.least_seconds)) }
            td { (span(sum.most_seconds)) }
            td { "rank " (sum.slowest_rank) }
        } }
    };
    let rows: Vec<Markup> = functions.iter().map(row).collect();
    table(
        &[
            "function",
            "calls",
            "data",
            "time",
            "of one call",
            "shortest of a rank",
            "longest",
            "of",
        ],
        &rows,
    )
}

fn communicators(communicators: &[Communicator]) -> Markup {
    let row = |comm: &Communicator| {
        html! { tr {
            td { (name(comm)) }
            td { (comm.processes) }
            td { (comm.calls) }
            td { (bytes(comm.bytes)) }
            td { (span(comm.seconds)) }
        } }
    };
    let rows: Vec<Markup> = communicators.iter().take(MOST_ROWS).map(row).collect();
    table(
        &["communicator", "processes", "calls", "data", "time"],
        &rows,
    )
}

fn datatypes(datatypes: &[Datatype]) -> Markup {
    let row = |datatype: &Datatype| {
        html! { tr { td { (datatype.datatype) } td { (datatype.calls) } td { (bytes(datatype.bytes)) } } }
    };
    let rows: Vec<Markup> = datatypes.iter().map(row).collect();
    table(&["datatype", "calls", "data"], &rows)
}

fn ranks(ranks: &[Rank]) -> Markup {
    let row = |rank: &Rank| {
        let longest = rank
            .functions
            .iter()
            .max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        html! { tr {
            td { (rank.rank) }
            td { (span(rank.elapsed_seconds)) }
            td { (span(rank.mpi_seconds)) }
            td { (rank.threads) }
            td { (rank.calls()) }
            td { @if let Some(longest) = longest { (longest.function) " " (span(longest.seconds)) } }
        } }
    };
    let rows: Vec<Markup> = ranks.iter().take(MOST_ROWS).map(row).collect();
    table(
        &[
            "rank",
            "since MPI_Init",
            "in MPI",
            "threads",
            "calls",
            "longest in",
        ],
        &rows,
    )
}

/// The functions of one rank, shown when its line is opened.
fn functions_of(rank: &Rank) -> Markup {
    let mut functions: Vec<&Function> = rank.functions.iter().collect();
    functions.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let row = |function: &&Function| {
        html! { tr {
            td { (function.function) }
            td { (function.calls) }
            td { (bytes(function.bytes)) }
            td { (span(function.seconds)) }
        } }
    };
    let rows: Vec<Markup> = functions.iter().map(row).collect();
    html! {
        details {
            summary { "rank " (rank.rank) }
            (table(&["function", "calls", "data", "time"], &rows))
        }
    }
}
