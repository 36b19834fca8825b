//! The page with the papers' tables and figures beside ours, and a picture of each.

use super::super::paired::Paired;
use super::super::range;
use super::measure::{Lab, Missing, Rounds, Way};
use crate::harness::mpi::cores;
use anyhow::{Context, Result};
use plotters::prelude::*;
use std::fmt::Write;
use std::path::Path;

/// The greatest ratio of a picture. Longer bars end there.
const MOST_RATIO: f64 = 6.0;
/// The most bars of a picture.
const MOST_BARS: usize = 40;

/// Width of the labels of a picture, in pixels: the longest fits.
const Y_LABELS: u32 = 440;

/// Longest line of a paragraph.
const COLUMNS: usize = 120;

/// One paper.
pub struct Paper {
    /// Its number, as an argument of the command.
    pub number: &'static str,
    pub title: &'static str,
    /// Where its figures were measured.
    pub setting: &'static str,
    pub items: &'static [Item],
}

/// A table or a figure of a paper.
pub struct Item {
    /// Its name in the paper.
    pub name: &'static str,
    /// What it measures.
    pub what: &'static str,
    /// The paper's result, in words.
    pub theirs: &'static str,
    /// How ours differs.
    pub differs: &'static str,
    /// Our columns: what the ratios are formed with, and ours. Labels name the ways where rows are compared with
    /// different ones.
    pub columns: (&'static str, &'static str),
    pub measure: fn(&Lab) -> Result<Vec<Row>>,
}

impl Item {
    /// Its name in names of files and in arguments.
    pub fn slug(&self) -> String {
        let name = self.name.to_lowercase();
        name.replace(", ", "-").replace([' ', '.'], "-")
    }
}

/// One line of a table.
pub struct Row {
    pub label: String,
    /// The paper's figure. It begins with the ratio, if ours is one.
    pub paper: &'static str,
    pub outcome: Outcome,
}

/// What there is to say of a row.
pub enum Outcome {
    /// Figures of all rounds; the first ones, if there are any, are what ours are compared with.
    Measured {
        base: Vec<f64>,
        ours: Vec<f64>,
        ranks: usize,
    },
    /// A result that is no number.
    Seen(String),
    /// Something that does not exist yet, or not here.
    Without(String),
    /// A measurement that has failed.
    Failed(String),
}

impl Row {
    pub fn new(label: impl Into<String>, paper: &'static str, outcome: Outcome) -> Row {
        Row {
            label: label.into(),
            paper,
            outcome,
        }
    }

    /// A row of a figure in two ways.
    pub fn ratio(
        label: impl Into<String>,
        paper: &'static str,
        rounds: &Rounds,
        figure: &str,
        (base, ours): (Way, Way),
    ) -> Result<Row> {
        let measured = Outcome::Measured {
            base: rounds.of(base.name, figure)?,
            ours: rounds.of(ours.name, figure)?,
            ranks: rounds.ranks,
        };
        Ok(Row::new(label, paper, measured))
    }

    /// A row of a figure that is compared with nothing.
    pub fn alone(
        label: impl Into<String>,
        paper: &'static str,
        rounds: &Rounds,
        figure: &str,
        way: Way,
    ) -> Result<Row> {
        let measured = Outcome::Measured {
            base: vec![],
            ours: rounds.of(way.name, figure)?,
            ranks: rounds.ranks,
        };
        Ok(Row::new(label, paper, measured))
    }

    /// A row that says why it has no figure.
    pub fn without(label: impl Into<String>, paper: &'static str, why: &str) -> Row {
        Row::new(
            label,
            paper,
            Outcome::Without(format!("*not measured*: {why}")),
        )
    }

    /// The message of a measurement that has failed.
    pub fn failure(&self) -> Option<String> {
        match &self.outcome {
            Outcome::Failed(why) => Some(format!("{}: {why}", self.label)),
            _ => None,
        }
    }

    fn line(&self) -> String {
        let (label, paper) = (&self.label, self.paper);
        match &self.outcome {
            Outcome::Measured { base, ours, ranks } => {
                let marked = if *ranks > cores() {
                    ", *oversubscribed*"
                } else {
                    ""
                };
                let (base, shown, ratio) = match base.is_empty() {
                    true => (String::new(), spread(range(ours)), String::new()),
                    false => {
                        let paired = Paired::new(base.clone(), ours.clone());
                        let ratio = spread(paired.spread());
                        (spread(range(base)), number(paired.ours()), ratio)
                    }
                };
                let rounds = ours.len();
                format!("| {label} | {paper} | {base} | {shown} | {ratio} | {ranks}{marked} | {rounds} |")
            }
            Outcome::Seen(text) | Outcome::Without(text) => {
                format!("| {label} | {paper} | | {text} | | | |")
            }
            Outcome::Failed(why) => {
                let why = why.lines().next().unwrap_or_default();
                format!("| {label} | {paper} | | **failed**: {why} | | | |")
            }
        }
    }
}

/// The rows that a measurement has, or the one that says why it has none.
pub fn rows_or_why(label: &str, rows: Result<Vec<Row>>) -> Vec<Row> {
    rows.unwrap_or_else(|error| {
        let outcome = match error.downcast_ref::<Missing>() {
            Some(Missing(why)) => Outcome::Without(format!("*not measured*: {why}")),
            None => Outcome::Failed(format!("{error:#}")),
        };
        vec![Row::new(label, "", outcome)]
    })
}

/// An item with its rows.
pub struct Filled {
    pub item: &'static Item,
    pub rows: Vec<Row>,
}

impl Filled {
    /// Its rows as text.
    pub fn write(&self, machine: &str) -> Written {
        Written {
            item: self.item,
            rows: self.rows.iter().map(Row::line).collect(),
            machine: machine.to_owned(),
        }
    }
}

/// An item as the page has it.
pub struct Written {
    item: &'static Item,
    rows: Vec<String>,
    machine: String,
}

const MACHINE: &str = "*Machine*: ";
const DIFFERS: &str = ". *Differs from the paper in*: ";

impl Written {
    /// The rows and the machine of an item from the section of its paper on the page.
    pub fn kept(section: &str, item: &'static Item) -> Written {
        let mut tables = section.split("\n### ").skip(1);
        let is_its = |table: &&str| {
            let title = table.lines().next().unwrap_or_default();
            title
                .split_once(", ")
                .is_some_and(|(_, name)| name == item.name)
        };
        let table = tables.find(is_its).unwrap_or_default();
        let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
        let mut rows: Vec<String> = rows.map(str::to_owned).collect();
        if rows.is_empty() {
            rows.push("| all |  | | *not measured yet* | | | |".to_owned());
        }
        let about = table.split(MACHINE).nth(1).unwrap_or_default();
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        let machine = about.split(DIFFERS).next().unwrap_or_default();
        Written {
            item,
            rows,
            machine: match machine {
                "" => "none".to_owned(),
                machine => machine.to_owned(),
            },
        }
    }
}

impl Written {
    fn bars(&self) -> Vec<Bar<'_>> {
        self.rows.iter().filter_map(|row| Bar::of(row)).collect()
    }

    /// The bars of its pictures, with their files. A table has no picture. A picture that no screen would show whole is
    /// divided by the number of ranks.
    fn pictures(&self, paper: &Paper) -> Vec<(String, Vec<Bar<'_>>)> {
        let bars = self.bars();
        if bars.len() < 2 || !self.item.name.starts_with("Figure") {
            return Vec::new();
        }
        let stem = format!("{}-{}", paper.number, self.item.slug());
        if bars.len() <= MOST_BARS {
            return vec![(format!("{stem}.svg"), bars)];
        }
        let mut pictures: Vec<(String, Vec<Bar<'_>>)> = Vec::new();
        for bar in bars {
            let file = format!("{stem}-ranks-{}.svg", bar.ranks);
            match pictures.iter_mut().find(|(name, _)| *name == file) {
                Some((_, its)) => its.push(bar),
                None => pictures.push((file, vec![bar])),
            }
        }
        pictures
    }
}

/// The section of a paper. Draws its pictures into the folder.
pub fn section(paper: &Paper, items: &[Written], pictures: &Path) -> Result<String> {
    let title = format!("## Paper {}: {}", paper.number, paper.title);
    let mut page = format!("{title}\n\n{}\n", wrapped(paper.setting));
    for written in items {
        let item = written.item;
        let (base, ours) = item.columns;
        write!(
            page,
            "\n### {}, {}\n\n{}\n\n",
            paper.number,
            item.name,
            wrapped(item.what)
        )?;
        write!(
            page,
            "{}\n\n",
            wrapped(&format!("*The paper*: {}", item.theirs))
        )?;
        for (file, bars) in written.pictures(paper) {
            draw(item, &bars, &pictures.join(&file)).with_context(|| file.clone())?;
            writeln!(
                page,
                "![{} of paper {}](papers/{file})\n",
                item.name, paper.number
            )?;
        }
        let ratio = match base.is_empty() {
            true => String::new(),
            false => quotient(item),
        };
        writeln!(
            page,
            "| | the paper's | {base} | {ours} | {ratio} | ranks | rounds |"
        )?;
        page += "|---|---|---|---|---|---|---|\n";
        for row in &written.rows {
            writeln!(page, "{row}")?;
        }
        let about = format!("{MACHINE}{}{DIFFERS}{}.", written.machine, item.differs);
        write!(page, "\n{}\n", wrapped(&about))?;
    }
    Ok(page)
}

/// A paragraph in lines.
pub fn wrapped(paragraph: &str) -> String {
    let (mut text, mut length) = (String::new(), 0);
    for word in paragraph.split_whitespace() {
        let more = word.chars().count() + 1;
        if length > 0 {
            let breaks = length + more > COLUMNS;
            text.push(if breaks { '\n' } else { ' ' });
            length = if breaks { 0 } else { length };
        }
        text += word;
        length += more;
    }
    text
}

/// Beginning of the title of a column with figures of different ways, which the labels name.
pub const COMPARED: &str = "compared with";

/// Title of the ratios.
fn quotient(item: &Item) -> String {
    let (base, ours) = item.columns;
    match base.starts_with(COMPARED) {
        true => "ratio".to_owned(),
        false => format!("{} / {}", without_unit(ours), without_unit(base)),
    }
}

/// The title of a column without the unit behind a comma.
fn without_unit(title: &str) -> &str {
    title.split(',').next().unwrap_or(title)
}

fn spread((lowest, middle, highest): (f64, f64, f64)) -> String {
    format!(
        "{} ({} to {})",
        number(middle),
        number(lowest),
        number(highest)
    )
}

/// Three digits or more.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 100.0 || value == 0.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        value if value >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// A line of a picture: the ratio, or the figure of a row that has none.
struct Bar<'a> {
    label: &'a str,
    ranks: &'a str,
    range: (f64, f64, f64),
    /// The paper's ratio.
    paper: Option<f64>,
    is_ratio: bool,
}

impl Bar<'_> {
    /// The bar of a line of a table; none if it has no figure.
    fn of(row: &str) -> Option<Bar<'_>> {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, label, paper, _, ours, ratio, ranks, ..] = cells[..] else {
            return None;
        };
        let is_ratio = !ratio.is_empty();
        let word = paper.split(' ').next().unwrap_or_default();
        Some(Bar {
            label,
            ranks,
            range: range_of(if is_ratio { ratio } else { ours })?,
            paper: word.parse().ok().filter(|_| is_ratio),
            is_ratio,
        })
    }
}

/// Lowest, median and highest, from the text that `spread` makes of them.
fn range_of(text: &str) -> Option<(f64, f64, f64)> {
    let (middle, rest) = text.split_once(" (")?;
    let (lowest, highest) = rest.strip_suffix(')')?.split_once(" to ")?;
    let number = |text: &str| text.parse().ok();
    Some((number(lowest)?, number(middle)?, number(highest)?))
}

/// Medians as bars, spreads as lines, and the paper's ratios as points.
fn draw(item: &Item, bars: &[Bar<'_>], file: &Path) -> Result<()> {
    let (_, ours) = item.columns;
    let is_ratio = bars.iter().any(|bar| bar.is_ratio);
    let axis = match is_ratio {
        true => {
            let has_papers = bars.iter().any(|bar| bar.paper.is_some());
            let circles = if has_papers {
                "; circles: the paper's"
            } else {
                ""
            };
            let ratio = quotient(item);
            format!("{ratio}: median, lowest and highest{circles}")
        }
        false => format!("{ours}: median, lowest and highest"),
    };
    let highest = bars
        .iter()
        .map(|bar| bar.range.2)
        .chain(bars.iter().filter_map(|bar| bar.paper));
    let highest = highest
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max)
        * 1.05;
    let most = match is_ratio {
        true => highest.clamp(1.2, MOST_RATIO),
        false => highest.max(f64::MIN_POSITIVE),
    };
    let rows = bars.len() as f64;
    let area = SVGBackend::new(file, (1110, 80 + 18 * bars.len() as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .x_label_area_size(44)
        .y_label_area_size(Y_LABELS)
        .build_cartesian_2d(0.0..most, rows..0.0)?;
    let (blue, red) = (RGBColor(90, 120, 160), RGBColor(190, 60, 40));
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .y_labels(0)
        .light_line_style(WHITE)
        .x_desc(axis)
        .label_style(("sans-serif", 13))
        .draw()?;
    for (at, bar) in bars.iter().enumerate() {
        let (top, middle) = (at as f64, at as f64 + 0.5);
        let (lowest, whole, highest) = bar.range;
        let [lowest, median, highest] = [lowest, whole, highest].map(|value| value.min(most));
        chart.draw_series([Rectangle::new(
            [(0.0, top + 0.15), (median, top + 0.85)],
            blue.mix(0.6).filled(),
        )])?;
        chart.draw_series(LineSeries::new(
            [(lowest, middle), (highest, middle)],
            BLACK,
        ))?;
        let circles = bar
            .paper
            .map(|paper| Circle::new((paper.min(most), middle), 4, red.stroke_width(2)));
        chart.draw_series(circles)?;
        let (right, row) = chart.plotting_area().map_coordinate(&(most, middle));
        // Of what ends at the edge the number is given.
        let cut = [Some(whole), bar.paper].map(|value| value.filter(|value| *value > most));
        let cut = match cut {
            [Some(ours), Some(paper)] => format!("{}; the paper's {}", number(ours), number(paper)),
            [Some(ours), None] => number(ours),
            [None, Some(paper)] => format!("the paper's {}", number(paper)),
            [None, None] => String::new(),
        };
        let width = 7 * cut.chars().count() as i32;
        area.draw(&Text::new(
            cut,
            (right - width - 8, row - 6),
            ("sans-serif", 12),
        ))?;
        let place = (12, row - 6);
        let label = bar.label.replace('`', "");
        area.draw(&Text::new(label, place, ("sans-serif", 13)))?;
    }
    if is_ratio {
        chart.draw_series(LineSeries::new([(1.0, 0.0), (1.0, rows)], BLACK.mix(0.5)))?;
    }
    area.present()?;
    Ok(())
}
