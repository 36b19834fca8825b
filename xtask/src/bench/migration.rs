//! `cargo xtask bench migration`: 8 KiB around a ring of eight ranks that migrates between networks, nodes and MPI
//! libraries, drawn as Figure 2 of Hursey et al., Interconnect Agnostic Checkpoint/Restart in Open MPI. All ranks share
//! the processors of one machine, so the figure shows the migration and the cost of a lap there, not the speed of a
//! network.

use super::{median, prepare};
use crate::harness::migration_ring::{self, Leg, Travelled};
use crate::harness::mpi::Mpi;
use crate::harness::nodes::{Nodes, Placement};
use crate::harness::paths;
use anyhow::{Context, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

const fn leg(name: &'static str, mpi: Mpi, nodes: usize, transport: Transport) -> Leg {
    Leg {
        name,
        mpi,
        placement: Placement {
            nodes,
            ranks: 8 / nodes,
            transport,
        },
    }
}

type Transport = &'static [(&'static str, &'static str)];

const SHARED_MEMORY: Transport = &[("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,vader")];
const TCP: Transport = &[("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,vader,tcp")];
const UCX: Transport = &[
    ("OMPI_MCA_pml", "ucx"),
    ("OMPI_MCA_opal_common_ucx_tls", "any"),
    ("OMPI_MCA_opal_common_ucx_devices", "any"),
    ("UCX_TLS", "tcp,self"),
];
const OFI: Transport = &[
    ("OMPI_MCA_pml", "cm"),
    ("OMPI_MCA_mtl", "ofi"),
    ("OMPI_MCA_mtl_ofi_provider_include", "tcp"),
];
const UCX_BELOW_MPICH: Transport = &[("UCX_TLS", "tcp,self")];

const LEGS: [Leg; 10] = [
    leg("Open MPI, 1 node", Mpi::OpenMpi, 1, SHARED_MEMORY),
    leg("Open MPI, 8 nodes", Mpi::OpenMpi, 8, TCP),
    leg("Open MPI, 4 nodes", Mpi::OpenMpi, 4, TCP),
    leg("Open MPI, 2 nodes", Mpi::OpenMpi, 2, TCP),
    leg("Open MPI, 2 nodes, UCX", Mpi::OpenMpi, 2, UCX),
    leg("Open MPI, 2 nodes, OFI", Mpi::OpenMpi, 2, OFI),
    leg("MPICH, 8 nodes", Mpi::Mpich, 8, UCX_BELOW_MPICH),
    leg("MPICH, 2 nodes", Mpi::Mpich, 2, UCX_BELOW_MPICH),
    leg("MPICH, 1 node", Mpi::Mpich, 1, &[]),
    leg("Open MPI, 1 node", Mpi::OpenMpi, 1, SHARED_MEMORY),
];

/// Options of `cargo xtask bench migration`.
#[derive(clap::Args)]
pub struct Options {
    /// Steps on each leg
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// Laps per step, of which the mean is drawn
    #[arg(long, default_value_t = 5)]
    laps: usize,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Runs the migration, draws the figure and prints the results. Needs root, for the nodes.
pub fn run(options: &Options) -> Result<()> {
    let dir = prepare(options.no_setup)?;
    let nodes = Nodes::start(8, &dir)?;
    let way = migration_ring::travel(
        Mpi::OpenMpi,
        &LEGS,
        options.steps,
        options.laps,
        &nodes,
        &dir,
    )?;
    println!("| leg | network | lap, µs | through the switch, MiB | from the last step to the next leg's first, s |");
    println!("|---|---|---|---|---|");
    for (number, (leg, travelled)) in LEGS.iter().zip(&way).enumerate() {
        let laps = travelled.steps.iter().map(|step| step.lap).collect();
        let gap = gap(&way, number);
        println!(
            "| {} | {} | {:.0} | {:.1} | {} |",
            leg.name,
            network(leg),
            median(laps),
            travelled.carried as f64 / f64::from(1 << 20),
            gap.map_or(String::new(), |gap| format!("{gap:.2}"))
        );
    }
    let picture = paths::root().join("docs/migration.svg");
    draw(&way, options.laps, &picture).context("drawing")?;
    println!("\ndrawn into {}", picture.display());
    Ok(())
}

/// Seconds from the last step of a leg to the first of the next one; none after the last leg.
fn gap(way: &[Travelled], leg: usize) -> Option<f64> {
    let next = way.get(leg + 1)?.steps.first()?;
    Some(next.end - way[leg].steps.last()?.end)
}

/// The explanation of the spikes in the picture.
fn legend(laps: usize) -> String {
    format!(
        "A high spike is a migration (checkpoint, kill, restart). It took the seconds beside it, and shows their mean over \
         {laps} laps."
    )
}

fn network(leg: &Leg) -> String {
    let settings = leg.placement.transport.iter();
    let settings: Vec<String> = settings.map(|(k, v)| format!("{k}={v}")).collect();
    match settings.is_empty() {
        true => "as the library chooses".into(),
        false => settings.join(" "),
    }
}

/// Microseconds over steps; the legs are bands, and the migrations have labels.
fn draw(way: &[Travelled], laps_of_step: usize, picture: &Path) -> Result<()> {
    let steps = way.iter().map(|leg| leg.steps.len()).sum::<usize>() as f64;
    let laps = || way.iter().flat_map(|leg| &leg.steps).map(|step| step.lap);
    let lowest = laps().fold(f64::INFINITY, f64::min);
    let highest = laps().fold(0.0, f64::max);
    let (low, high) = (lowest * 0.7, highest * 4.0);
    let area = SVGBackend::new(picture, (1200, 520)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..steps, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .x_label_formatter(&|step| format!("{step:.0}"))
        .y_label_formatter(&|lap| format!("{lap:.0}"))
        .x_desc("step")
        .y_desc("8 KiB around 8 ranks, µs")
        .label_style(("sans-serif", 14))
        .draw()?;
    let mut from = 0.0;
    for (number, (leg, travelled)) in LEGS.iter().zip(way).enumerate() {
        let to = from + travelled.steps.len() as f64;
        if number % 2 == 1 {
            let band = Rectangle::new(
                [(from, low), (to, high)],
                RGBColor(90, 120, 160).mix(0.1).filled(),
            );
            chart.draw_series([band])?;
        }
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        let style = style.pos(Pos::new(HPos::Center, VPos::Top));
        for (line, text) in leg.name.split(", ").enumerate() {
            let height = high * 0.8 / 1.6f64.powi(line as i32);
            chart.draw_series([Text::new(text, ((from + to) / 2.0, height), style.clone())])?;
        }
        from = to;
    }
    let points = way.iter().flat_map(|leg| &leg.steps).enumerate();
    let points = points.map(|(number, step)| (number as f64 + 0.5, step.lap));
    chart.draw_series(LineSeries::new(points, RGBColor(20, 70, 140)))?;
    let style = ("sans-serif", 13).into_font().color(&BLACK);
    let style = style.pos(Pos::new(HPos::Left, VPos::Top));
    let beside = steps * 0.004;
    let mut from = 0.0;
    for (leg, travelled) in way.iter().enumerate() {
        from += travelled.steps.len() as f64;
        let next = way.get(leg + 1).and_then(|next| next.steps.first());
        if let (Some(gap), Some(spike)) = (gap(way, leg), next) {
            let place = (from + 0.5 + beside, spike.lap);
            chart.draw_series([Text::new(format!("{gap:.2} s"), place, style.clone())])?;
        }
    }
    let first = way.first().map_or(0, |leg| leg.steps.len()) as f64;
    let place = (first + beside, low * 1.5);
    chart.draw_series([Text::new(legend(laps_of_step), place, style)])?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{legend, LEGS};
    use crate::harness::paths;

    #[test]
    fn the_picture_and_the_table_are_of_these_legs() {
        let read = |name| std::fs::read_to_string(paths::root().join(name)).unwrap();
        let (picture, table) = (read("docs/migration.svg"), read("docs/migration.md"));
        let mut rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
        for leg in LEGS {
            let row = rows.next().unwrap();
            assert!(row.starts_with(&format!("| {} | ", leg.name)), "{row}");
            for word in leg.name.split(", ") {
                assert!(picture.contains(&format!("{word}\n")), "{word}");
            }
            let gap = row.trim_end_matches('|').rsplit('|').next().unwrap().trim();
            assert!(picture.contains(&format!("\n{gap} s\n")) || gap.is_empty());
        }
        assert_eq!(rows.next(), None);
        assert!(picture.contains(&legend(5)));
    }
}
