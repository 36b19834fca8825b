//! The page: figures, pictures and tables in one file, which needs nothing else.

use history::event::RankTime;
use history::text::{self, span};
use maud::{html, Markup, PreEscaped, DOCTYPE};

use super::chart::{self, moment, newest};
use super::story::{Figures, Outcome, Run, Story, Taken};
use crate::ui::text::library;

/// Most rows of a table; the newest ones are shown.
const MOST_ROWS: usize = 500;

const STYLE: &str = include_str!("page.css");

/// The page about the job in `directory`, whose name is only displayed.
pub fn page(directory: &str, story: &Story) -> String {
    let figures = story.figures();
    let program = story.runs.last().map(|run| run.start.program.join(" "));
    let content = html! {
        h1 { (program.unwrap_or_default()) }
        p { "Checkpoint directory " code { (directory) } }
        @if story.shortened {
            p { "The history was longer than its file may be: the oldest events are missing." }
        }
        (self::figures(&figures))
        (chart::runs(story))
        (chart::at_risk(story, figures.most_at_risk))
        @if story.taken().next().is_some() {
            (chart::pauses(story))
            (chart::sizes(story))
        }
        h2 { "Runs" }
        (runs(story))
        h2 { "Checkpoints" }
        (checkpoints(story))
        @if !story.remarks.is_empty() {
            h2 { "Failures and warnings" }
            (remarks(story))
        }
    };
    document(directory, &content)
}

/// A page with this content, which needs no other file.
pub fn document(directory: &str, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Stasis: " (directory) }
                style { (PreEscaped(STYLE)) }
            }
            body { (content) }
        }
    };
    page.into_string()
}

fn figures(figures: &Figures) -> Markup {
    let share = match figures.running > 0.0 {
        true => 100.0 * figures.pause / figures.running,
        false => 0.0,
    };
    let all = [
        ("Time of all runs", span(figures.running)),
        ("Restarts", figures.restarts.to_string()),
        ("Work lost by restarts", span(figures.lost)),
        ("Checkpoints", figures.checkpoints.to_string()),
        ("Written", text::bytes(figures.bytes)),
        (
            "Pauses",
            format!("{} ({share:.3} % of the time)", span(figures.pause)),
        ),
        (
            "A failure would have lost",
            format!(
                "{} on average, {} at most",
                span(figures.mean_at_risk),
                span(figures.most_at_risk)
            ),
        ),
    ];
    listed(&all)
}

/// Figures with their names.
pub fn listed(all: &[(&str, String)]) -> Markup {
    html! {
        dl {
            @for (name, value) in all {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}

fn runs(story: &Story) -> Markup {
    let shown = newest(&story.runs, MOST_ROWS);
    let first = story.runs.len() - shown.len() + 1;
    let cells = |(number, run): (usize, &Run)| {
        html! { tr {
            td { (number) }
            td { (moment(run.begin)) }
            td { (span(run.duration())) }
            td { (run.from.as_deref().unwrap_or("the beginning")) }
            td { (run.lost.map(span).unwrap_or_default()) }
            td { (run.start.ranks) }
            td { (library(&run.start.mpi)) }
            td { (run.start.host) }
            td { (run.start.allocation.as_deref().unwrap_or("")) }
            td { (outcome(&run.outcome)) }
        } }
    };
    let rows: Vec<Markup> = (first..).zip(shown).map(cells).collect();
    table(
        &[
            "",
            "begin",
            "time",
            "from",
            "lost",
            "ranks",
            "MPI library",
            "host of rank 0",
            "allocation",
            "end",
        ],
        &rows,
    )
}

fn outcome(outcome: &Outcome) -> Markup {
    match outcome {
        Outcome::Open => html! { "not noted" },
        Outcome::Gone => html! { span.bad { "killed" } },
        Outcome::Running => html! { "it runs" },
        Outcome::Killed => html! { "ended by stasis stop" },
        Outcome::Ended => html! { "ended" },
        Outcome::Stopped(set) => html! { "ended with " (set) },
        Outcome::Failed(what) => html! { span.bad { (what) } },
    }
}

fn checkpoints(story: &Story) -> Markup {
    let all: Vec<&Taken> = story.taken().collect();
    let cells = |taken: &&Taken| {
        let checkpoint = &taken.checkpoint;
        let causes: Vec<&str> = checkpoint
            .asked_by
            .iter()
            .map(|cause| cause.word())
            .collect();
        html! { tr {
            td { (checkpoint.set) }
            td { (moment(taken.time)) }
            td { (causes.join(", ").replace('_', " ")) }
            td { (text::bytes(checkpoint.bytes)) }
            td { (text::bytes(checkpoint.memory_bytes)) }
            td { (checkpoint.increment_of.as_deref().unwrap_or("")) }
            td { (span(checkpoint.pause_seconds)) }
            td { (span(checkpoint.total_seconds)) }
            td { (slow(&checkpoint.slowest.drain)) }
            td { (slow(&checkpoint.slowest.copy)) }
            td { (slow(&checkpoint.slowest.save)) }
            td { (checkpoint.pause_because.as_deref().unwrap_or("")) }
        } }
    };
    let rows: Vec<Markup> = newest(&all, MOST_ROWS).iter().map(cells).collect();
    table(
        &[
            "checkpoint",
            "committed",
            "asked by",
            "size",
            "memory",
            "increment of",
            "pause",
            "total",
            "slowest to drain",
            "to copy",
            "to save",
            "why it stood still",
        ],
        &rows,
    )
}

/// The slowest ranks and their times.
fn slow(ranks: &[RankTime]) -> String {
    let one = |slow: &RankTime| format!("rank {} {}", slow.rank, span(slow.seconds));
    ranks.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn remarks(story: &Story) -> Markup {
    let shown = newest(&story.remarks, MOST_ROWS).iter();
    let rows: Vec<Markup> = shown
        .map(|remark| html! { tr { td { (moment(remark.time)) } td { (remark.text) } } })
        .collect();
    table(&["time", ""], &rows)
}

pub fn table(heads: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div.table { table {
            thead { tr { @for head in heads { th { (head) } } } }
            tbody { @for row in rows { (row) } }
        } }
    }
}
