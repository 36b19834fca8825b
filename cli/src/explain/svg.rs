//! A picture of who needs whom. Ranks that are in the same place are one node on a circle. An arrow leads to a node
//! with a rank that is needed. Nodes of a deadlock are red, and so are the arrows between them.

use std::f64::consts::TAU;
use std::fmt::Write;

use coordinator::protocol::rank_set::RankSet;

use super::job::{Job, Place};
use super::text;
use super::wait_graph::Verdict;

const NODE_WIDTH: f64 = 190.0;
const NODE_HEIGHT: f64 = 46.0;
/// Room around the nodes, and for the verdict below them.
const MARGIN: f64 = 30.0;
/// Width of a letter, at most: a browser may have another font.
const LETTER: f64 = 8.0;
/// Length of the circle that a node takes.
const SPACING: f64 = 260.0;

/// A node: ranks, their place, and its middle.
struct Node {
    ranks: RankSet,
    title: String,
    place: String,
    middle: (f64, f64),
    is_stuck: bool,
}

/// The picture.
pub fn picture(job: &Job, verdict: &Verdict) -> String {
    let stuck = match verdict {
        Verdict::Deadlock { stuck, .. } => stuck.clone(),
        Verdict::Free | Verdict::HeldUp(_) | Verdict::Moving => RankSet::default(),
    };
    let places = text::places(job);
    let lines = text::of_verdict(job, verdict);
    let letters = lines.iter().map(|line| line.chars().count()).max();
    let text_width = letters.unwrap_or(0) as f64 * LETTER;
    let radius = (places.len() as f64 * SPACING / TAU).max(120.0);
    let (width, height) = (
        (2.0 * radius + NODE_WIDTH).max(text_width) + 2.0 * MARGIN,
        2.0 * (radius + MARGIN) + NODE_HEIGHT,
    );
    let middle = (width / 2.0, height / 2.0);
    let count = places.len();
    let nodes: Vec<Node> = places
        .into_iter()
        .enumerate()
        .map(|(at, (ranks, place))| {
            let angle = TAU * (at as f64 / count as f64 - 0.25);
            let first = ranks.iter().next();
            Node {
                title: first.map(|rank| function(job, rank)).unwrap_or_default(),
                is_stuck: first.is_some_and(|rank| stuck.contains(rank)),
                middle: (
                    middle.0 + radius * angle.cos(),
                    middle.1 + radius * angle.sin(),
                ),
                ranks,
                place,
            }
        })
        .collect();
    let total = height + 18.0 * lines.len() as f64 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {total:.0}\" width=\"{width:.0}\" \
         height=\"{total:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <defs>{}{}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        arrowhead("needs", "#555"),
        arrowhead("stuck", "#c00"),
    );
    let graph = job.graph();
    for node in &nodes {
        for other in &nodes {
            let needs = node.ranks.iter().any(|rank| {
                let need = graph.need(rank);
                need.is_some_and(|need| need.ranks().iter().any(|rank| other.ranks.contains(*rank)))
            });
            if needs {
                svg += &arrow(node, other);
            }
        }
    }
    nodes.iter().for_each(|node| svg += &drawn(node));
    for (at, line) in lines.iter().enumerate() {
        let y = height + 18.0 * at as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{MARGIN}\" y=\"{y:.0}\" xml:space=\"preserve\">{}</text>",
            escaped(line)
        );
    }
    svg + "</svg>\n"
}

/// The function that a rank is in, or a word for its place.
fn function(job: &Job, rank: u32) -> String {
    match job.place(rank) {
        Some(Place::Calls(calls)) => {
            let call = calls.first().and_then(|call| call.function.as_deref());
            text::function(call).to_owned()
        }
        Some(Place::Computes(_)) => "no call of MPI".to_owned(),
        Some(Place::Ended) => "ended".to_owned(),
        Some(Place::Moves) => "goes on".to_owned(),
        Some(Place::Absent) => "before MPI_Init".to_owned(),
        Some(Place::Silent) | None => "no answer".to_owned(),
    }
}

fn arrowhead(name: &str, colour: &str) -> String {
    format!(
        "<marker id=\"{name}\" viewBox=\"0 0 10 10\" refX=\"10\" refY=\"5\" markerWidth=\"9\" markerHeight=\"9\" \
         orient=\"auto-start-reverse\"><path d=\"M0 0 10 5 0 10z\" fill=\"{colour}\"/></marker>"
    )
}

/// An arrow from a node to another one, or to itself. Arrows in both directions bend apart.
fn arrow(from: &Node, to: &Node) -> String {
    let (name, colour) = match from.is_stuck && to.is_stuck {
        true => ("stuck", "#c00"),
        false => ("needs", "#555"),
    };
    let (x, y) = from.middle;
    let path = if std::ptr::eq(from, to) {
        let top = y - NODE_HEIGHT / 2.0;
        format!(
            "M{:.1} {top:.1} C{:.1} {:.1} {:.1} {:.1} {:.1} {top:.1}",
            x - 30.0,
            x - 40.0,
            top - 28.0,
            x + 40.0,
            top - 28.0,
            x + 30.0
        )
    } else {
        let (dx, dy) = (to.middle.0 - x, to.middle.1 - y);
        let length = dx.hypot(dy).max(1.0);
        let bend = (-dy / length * 26.0, dx / length * 26.0);
        let control = (x + dx / 2.0 + bend.0, y + dy / 2.0 + bend.1);
        let begin = edge(from.middle, control);
        let end = edge(to.middle, control);
        format!(
            "M{:.1} {:.1} Q{:.1} {:.1} {:.1} {:.1}",
            begin.0, begin.1, control.0, control.1, end.0, end.1
        )
    };
    format!(
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" marker-end=\"url(#{name})\"/>\n"
    )
}

/// The point of a node's border in the direction of another point.
fn edge(middle: (f64, f64), towards: (f64, f64)) -> (f64, f64) {
    let (dx, dy) = (towards.0 - middle.0, towards.1 - middle.1);
    let across =
        (NODE_WIDTH / 2.0 / dx.abs().max(0.01)).min(NODE_HEIGHT / 2.0 / dy.abs().max(0.01));
    (middle.0 + dx * across, middle.1 + dy * across)
}

fn drawn(node: &Node) -> String {
    let (x, y) = node.middle;
    let (border, fill) = match node.is_stuck {
        true => ("#c00", "#fee"),
        false => ("#555", "#eef"),
    };
    let ranks = shortened(&text::whose(&node.ranks));
    format!(
        "<g><title>{}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{NODE_WIDTH}\" height=\"{NODE_HEIGHT}\" rx=\"6\" \
         fill=\"{fill}\" stroke=\"{border}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
         font-weight=\"bold\">{}</text><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>\n",
        escaped(&format!("{}: {}", text::whose(&node.ranks), node.place)),
        x - NODE_WIDTH / 2.0,
        y - NODE_HEIGHT / 2.0,
        y - 5.0,
        escaped(&ranks),
        y + 14.0,
        escaped(&shortened(&node.title)),
    )
}

/// At most as many letters as a node has room for.
fn shortened(text: &str) -> String {
    const ROOM: usize = 26;
    match text.chars().count() > ROOM {
        true => text.chars().take(ROOM - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
