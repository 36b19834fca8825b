//! Pictures of a job's checkpoints, as SVG. Each mark has a tip that browsers show under the pointer.

use history::text::{self, span};
use maud::{html, Markup};

use super::story::{Outcome, Run, Seconds, Story, Taken};

/// Width of all pictures, in units of SVG.
const WIDTH: f64 = 900.0;
/// Room at the left for labels of rows and values.
const LEFT: f64 = 90.0;
/// Room at the right.
const RIGHT: f64 = 10.0;
/// Height of a run's row.
const ROW: f64 = 18.0;
/// Height of a picture of values.
const VALUES: f64 = 140.0;
/// Most runs that have a row; the newest ones are shown.
const MOST_ROWS: usize = 60;
/// Most bars of a picture; the newest checkpoints are shown.
const MOST_BARS: usize = 400;

/// The stretch of time that a picture shows.
struct Axis {
    begin: Seconds,
    end: Seconds,
}

impl Axis {
    fn of(runs: &[Run]) -> Axis {
        let begin = runs.first().map_or(0.0, |run| run.begin);
        let end = runs.iter().map(|run| run.end).fold(begin, Seconds::max);
        // A job without a duration has a picture, too.
        let end = end.max(begin + 1e-3);
        Axis { begin, end }
    }

    fn x(&self, time: Seconds) -> f64 {
        let part = (time - self.begin) / (self.end - self.begin);
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn labels(&self, y: f64) -> Markup {
        html! {
            text x=(LEFT) y=(y) { (moment(self.begin)) }
            text x=(WIDTH - RIGHT) y=(y) text-anchor="end" { (moment(self.end)) }
        }
    }
}

/// The runs as bars over time, with a mark for each checkpoint and one for each failure.
pub fn runs(story: &Story) -> Markup {
    let shown = newest(&story.runs, MOST_ROWS);
    let first = story.runs.len() - shown.len();
    let axis = Axis::of(shown);
    let height = ROW * (shown.len() as f64 + 1.5);
    let odd = in_odd_allocations(shown);
    picture(
        "Runs of the job over time",
        height,
        html! {
            @for (row, run) in shown.iter().enumerate() {
                (self::run(run, first + row + 1, row as f64 * ROW, &axis, odd[row]))
            }
            (axis.labels(height - 4.0))
        },
    )
}

/// For each run, whether its allocation is the second, the fourth and so on: these have another colour.
fn in_odd_allocations(runs: &[Run]) -> Vec<bool> {
    let changes = runs
        .windows(2)
        .map(|pair| pair[0].start.allocation != pair[1].start.allocation);
    let mut is_odd = false;
    let all = std::iter::once(false).chain(changes);
    all.map(|changes| {
        is_odd ^= changes;
        is_odd
    })
    .collect()
}

fn run(run: &Run, number: usize, y: f64, axis: &Axis, is_odd: bool) -> Markup {
    let (from, to) = (axis.x(run.begin), axis.x(run.end));
    let how = match &run.outcome {
        Outcome::Open => "no end is noted".to_owned(),
        Outcome::Gone => "killed".to_owned(),
        Outcome::Running => "it runs".to_owned(),
        Outcome::Killed => "ended by stasis stop".to_owned(),
        Outcome::Ended => "ended".to_owned(),
        Outcome::Stopped(set) => format!("ended with {set}"),
        Outcome::Failed(what) => format!("failed: {what}"),
    };
    let tip = format!(
        "run {number}: {} over {} on {}{}, {how}",
        span(run.duration()),
        run.start.mpi,
        run.start.host,
        match &run.start.allocation {
            Some(id) => format!(", allocation {id}"),
            None => String::new(),
        }
    );
    let middle = y + ROW / 2.0;
    let class = if is_odd { "run odd" } else { "run" };
    html! {
        text x=(LEFT - 8.0) y=(y + ROW - 5.0) text-anchor="end" { "run " (number) }
        rect class=(class) x=(from) y=(y + 3.0) width=((to - from).max(1.0)) height=(ROW - 6.0) { title { (tip) } }
        @for taken in &run.taken {
            line.cut x1=(axis.x(taken.checkpoint.cut)) x2=(axis.x(taken.checkpoint.cut)) y1=(y + 1.0) y2=(y + ROW - 1.0) {
                title { (about(taken)) }
            }
        }
        @if matches!(run.outcome, Outcome::Failed(_) | Outcome::Gone) {
            path.failed d={ "M" (to - 4.0) " " (middle - 4.0) "l8 8m0 -8l-8 8" } { title { (tip) } }
        }
    }
}

/// Work that a failure would have lost at each moment, and at `most`: a saw whose teeth end at cuts.
pub fn at_risk(story: &Story, most: Seconds) -> Markup {
    let shown = newest(&story.runs, MOST_ROWS);
    let axis = Axis::of(shown);
    let most = most.max(1e-9);
    let tooth = |run: &Run| {
        let mut points = Vec::new();
        for (begin, end) in run.stretches() {
            points.push((axis.x(begin), 0.0));
            points.push((axis.x(end), (end - begin) / most));
        }
        points.push((axis.x(run.end), 0.0));
        let points = points
            .into_iter()
            .map(|(x, part)| format!("{x:.1},{:.1}", at(part)));
        points.collect::<Vec<_>>().join(" ")
    };
    picture(
        "Work that a failure would have lost",
        VALUES + ROW,
        html! {
            (scale(&span(most)))
            @for run in shown { polygon.risk points=(tooth(run)) {} }
            (axis.labels(VALUES + ROW - 4.0))
        },
    )
}

/// A bar for each checkpoint.
fn bars(name: &str, story: &Story, value: fn(&Taken) -> f64, label: fn(f64) -> String) -> Markup {
    let all: Vec<&Taken> = story.taken().collect();
    let shown = newest(&all, MOST_BARS);
    let most = shown.iter().map(|taken| value(taken)).fold(0.0, f64::max);
    let step = (WIDTH - LEFT - RIGHT) / shown.len().max(1) as f64;
    let set = |taken: Option<&&Taken>| {
        taken
            .map_or("", |taken| taken.checkpoint.set.as_str())
            .to_owned()
    };
    picture(
        name,
        VALUES + ROW,
        html! {
            (scale(&label(most)))
            @for (place, taken) in shown.iter().enumerate() {
                @let top = at(value(taken) / most.max(1e-9));
                rect class=(if taken.checkpoint.increment_of.is_some() { "bar increment" } else { "bar" })
                    x=(LEFT + place as f64 * step) y=(top) width=((step * 0.8).clamp(0.5, 40.0))
                    height=(VALUES - top) { title { (about(taken)) } }
            }
            text x=(LEFT) y=(VALUES + ROW - 4.0) { (set(shown.first())) }
            text x=(WIDTH - RIGHT) y=(VALUES + ROW - 4.0) text-anchor="end" { (set(shown.last())) }
        },
    )
}

/// The pause of each checkpoint.
pub fn pauses(story: &Story) -> Markup {
    let pause = |taken: &Taken| taken.checkpoint.pause_seconds;
    bars("Pause of each checkpoint", story, pause, span)
}

/// The length of each checkpoint's images.
pub fn sizes(story: &Story) -> Markup {
    let bytes = |taken: &Taken| taken.checkpoint.bytes as f64;
    bars("Size of each checkpoint", story, bytes, |bytes| {
        text::bytes(bytes as u64)
    })
}

/// Height of a value, given as a part of the greatest one.
fn at(part: f64) -> f64 {
    const TOP: f64 = 8.0;
    VALUES - part.clamp(0.0, 1.0) * (VALUES - TOP)
}

fn scale(most: &str) -> Markup {
    html! {
        text x=(LEFT - 8.0) y=(at(1.0) + 5.0) text-anchor="end" { (most) }
        text x=(LEFT - 8.0) y=(at(0.0)) text-anchor="end" { "0" }
        line.axis x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at(0.0)) y2=(at(0.0)) {}
        line.axis x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at(1.0)) y2=(at(1.0)) {}
    }
}

pub fn picture(name: &str, height: f64, content: Markup) -> Markup {
    html! {
        figure {
            figcaption { (name) }
            svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(name) { (content) }
        }
    }
}

/// The tip of a checkpoint.
fn about(taken: &Taken) -> String {
    let Taken { time, checkpoint } = taken;
    format!(
        "{} {}: {} in {}, pause {}",
        moment(*time),
        checkpoint.set,
        text::bytes(checkpoint.bytes),
        span(checkpoint.total_seconds),
        span(checkpoint.pause_seconds)
    )
}

/// A time of the calendar.
pub fn moment(time: Seconds) -> String {
    text::moment(time as u64).unwrap_or_default()
}

/// The last `most` elements.
pub fn newest<T>(all: &[T], most: usize) -> &[T] {
    &all[all.len().saturating_sub(most)..]
}
