//! `cargo xtask bench imb`: the Intel MPI Benchmarks, as PyPI has them, natively and under Stasis over Intel MPI, drawn
//! into docs/imb.svg: the time of each operation over the size of its messages.

use super::paired::Paired;
use super::{in_turn, median, prepare, Way};
use crate::build::pypi;
use crate::harness::mpi::Mpi;
use crate::harness::paths;
use anyhow::{bail, ensure, Context, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// The programs and their operations.
const PROGRAMS: [(&str, &[&str]); 3] = [
    (
        "IMB-MPI1",
        &[
            "PingPong",
            "Sendrecv",
            "Exchange",
            "Bcast",
            "Allreduce",
            "Allgather",
            "Alltoall",
        ],
    ),
    ("IMB-NBC", &["Ibcast", "Iallreduce"]),
    ("IMB-RMA", &["Unidir_put", "Unidir_get", "Accumulate"]),
];

/// Panels in a row of the picture.
const COLUMNS: usize = 4;

/// Options of `cargo xtask bench imb`.
#[derive(clap::Args)]
pub struct Options {
    /// Pairs of runs (native, Stasis)
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The largest messages have 2 to this power bytes
    #[arg(long, default_value_t = 20)]
    largest: u32,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Microseconds by operation and bytes.
type Times = BTreeMap<(String, u64), f64>;

/// Runs all programs, prints the ratios and draws the picture.
pub fn run(options: &Options) -> Result<()> {
    let dir = prepare(options.no_setup)?;
    let mpi = Mpi::Intel;
    if let Some(why) = pypi::missing(&[mpi], None) {
        bail!("{why}");
    }
    let bin = pypi::bin(mpi).context("Intel MPI has a folder")?;
    let mut all: BTreeMap<Way, Vec<Times>> = BTreeMap::new();
    for round in 0..options.rounds {
        for way in in_turn([Way::Native, Way::Stasis], round) {
            let mut times = Times::new();
            for (program, operations) in PROGRAMS {
                let name = format!("{program}-{round}");
                let finished = way.run(mpi, &dir, &name, |command| {
                    command.arg(bin.join(program)).args(operations);
                    command.args(["-npmin", "2", "-time", "0.3", "-msglog"]);
                    command.arg(format!("3:{}", options.largest));
                })?;
                times.extend(parse(&finished.stdout, TIMES)?);
            }
            all.entry(way).or_default().push(times);
        }
    }
    let (native, stasis) = (&all[&Way::Native], &all[&Way::Stasis]);
    let operations = PROGRAMS.iter().flat_map(|(_, operations)| *operations);
    let mut panels = Vec::new();
    println!(
        "| operation | 8 B: native, µs | Stasis / native | all sizes: least | median | greatest |"
    );
    println!("|---|---|---|---|---|---|");
    for operation in operations {
        let panel = Panel::of(operation, native, stasis)?;
        println!("{}", panel.row());
        panels.push(panel);
    }
    let picture = paths::root().join("docs/imb.svg");
    draw(&panels, &picture).context("drawing")?;
    println!("\ndrawn into {}", picture.display());
    Ok(())
}

/// Titles of columns with the time of an operation.
pub const TIMES: &[&str] = &["t_avg[usec]", "t_ovrl[usec]", "t[usec]"];
/// Title of the column with the percentage of a non-blocking operation that a computation hides.
pub const OVERLAP: &[&str] = &["overlap[%]"];

/// Figures by operation and bytes in the tables that a program prints, of the first of these columns that there is. Of
/// several tables of one operation the first counts.
pub fn parse(printed: &str, columns: &[&str]) -> Result<Times> {
    let mut times = Times::new();
    let (mut operation, mut column) = (String::new(), None);
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["#", "Benchmarking", name, ..] = words[..] {
            operation = name.to_owned();
            column = None;
        } else if words.first() == Some(&"#bytes") {
            let named = |name: &str| words.iter().position(|word| *word == name);
            column = columns.iter().copied().find_map(named);
        } else if let (Some(column), Ok(bytes)) = (column, words.first().unwrap_or(&"").parse()) {
            let time = words.get(column).context("a line that is too short")?;
            times
                .entry((operation.clone(), bytes))
                .or_insert(time.parse()?);
        }
    }
    ensure!(!times.is_empty(), "the benchmark printed no table");
    Ok(times)
}

/// The figures of one operation.
struct Panel {
    operation: &'static str,
    /// Bytes, microseconds natively and under Stasis, and the ratio.
    points: Vec<(u64, f64, f64, f64)>,
}

impl Panel {
    fn of(operation: &'static str, native: &[Times], stasis: &[Times]) -> Result<Panel> {
        let sizes = native.first().into_iter().flat_map(Times::keys);
        let sizes = sizes.filter(|(name, bytes)| name == operation && *bytes > 0);
        let points = sizes.map(|key| {
            let of = |runs: &[Times]| -> Result<Vec<f64>> {
                let times: Option<Vec<f64>> =
                    runs.iter().map(|run| run.get(key).copied()).collect();
                times.with_context(|| format!("no time of {operation} with {} bytes", key.1))
            };
            let paired = Paired::new(of(native)?, of(stasis)?);
            Ok((key.1, paired.base(), paired.ours(), paired.ratio()))
        });
        let points: Vec<_> = points.collect::<Result<_>>()?;
        ensure!(!points.is_empty(), "no times of {operation}");
        Ok(Panel { operation, points })
    }

    fn row(&self) -> String {
        let mut ratios: Vec<f64> = self.points.iter().map(|point| point.3).collect();
        ratios.sort_by(f64::total_cmp);
        let (_, native, _, ratio) = self.points[0];
        format!(
            "| {} | {native:.2} | {ratio:.3} | {:.3} | {:.3} | {:.3} |",
            self.operation,
            ratios[0],
            median(ratios.clone()),
            ratios[ratios.len() - 1]
        )
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let times = || self.points.iter().flat_map(|point| [point.1, point.2]);
        let lowest = times().fold(f64::INFINITY, f64::min) * 0.7;
        let highest = times().fold(0.0, f64::max) * 1.4;
        let bytes = |point: &(u64, f64, f64, f64)| point.0 as f64;
        let (first, last) = (
            bytes(&self.points[0]),
            bytes(&self.points[self.points.len() - 1]),
        );
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .caption(self.operation, ("sans-serif", 16))
            .x_label_area_size(34)
            .y_label_area_size(52)
            .build_cartesian_2d((first..last).log_scale(), (lowest..highest).log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_label_formatter(&|bytes| size(*bytes))
            .y_label_formatter(&|time| format!("{time}"))
            .x_desc("bytes")
            .y_desc("µs")
            .label_style(("sans-serif", 12))
            .draw()?;
        let native = self.points.iter().map(|point| (bytes(point), point.1));
        let stasis = self.points.iter().map(|point| (bytes(point), point.2));
        let (grey, blue) = (RGBColor(150, 150, 150), RGBColor(20, 70, 140));
        chart
            .draw_series(LineSeries::new(native, grey.stroke_width(4)))?
            .label("native")
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], grey.stroke_width(4)));
        chart
            .draw_series(LineSeries::new(stasis, blue.stroke_width(1)))?
            .label("Stasis")
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], blue));
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font(("sans-serif", 12))
            .draw()?;
        Ok(())
    }
}

fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= f64::from(1 << 20) => format!("{:.0} Mi", bytes / f64::from(1 << 20)),
        bytes if bytes >= 1024.0 => format!("{:.0} Ki", bytes / 1024.0),
        bytes => format!("{bytes:.0}"),
    }
}

fn draw(panels: &[Panel], picture: &Path) -> Result<()> {
    let rows = panels.len().div_ceil(COLUMNS);
    let area = SVGBackend::new(picture, (1280, 300 * rows as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    for (panel, area) in panels.iter().zip(area.split_evenly((rows, COLUMNS))) {
        panel.draw(&area)?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{parse, OVERLAP, TIMES};

    #[test]
    fn reads_the_tables_of_all_programs() {
        let printed = "# Benchmarking PingPong\n# #processes = 2\n\
                       #bytes #repetitions t[usec] Mbytes/sec\n 8 1000 0.50 16.00\n 16 1000 0.60 26.0\n\
                       # Benchmarking Bcast\n#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec]\n 8 10 1.0 3.0 2.0\n\
                       # Benchmarking Ibcast\n#bytes #repetitions t_ovrl[usec] t_pure[usec]\n 8 10 4.0 3.0\n";
        let times = parse(printed, TIMES).unwrap();
        let of = |name: &str, bytes| times[&(name.to_owned(), bytes)];
        assert_eq!([of("PingPong", 8), of("PingPong", 16)], [0.5, 0.6]);
        assert_eq!([of("Bcast", 8), of("Ibcast", 8)], [2.0, 4.0]);
        let overlap = "# Benchmarking Ibcast\n#bytes t_ovrl[usec] overlap[%]\n 8 4.0 12.5\n";
        let overlap = parse(overlap, OVERLAP).unwrap();
        assert_eq!(overlap[&("Ibcast".to_owned(), 8)], 12.5);
        assert!(parse("nothing", TIMES).is_err());
    }
}
