//! Calls that programs make in a run, by `stasis profile`.

use super::super::{compile, figures as times_of, median};
use super::imports::feature;
use super::measure::pattern;
use super::measure::{Figures, Lab, Program, Rounds, Way, STASIS};
use super::page::{rows_or_why, Outcome, Row};
use super::programs::{espresso, lammps};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Under Stasis with all calls counted.
const PROFILED: Way = Way::profiled(figures);
const KINDS: [&str; 2] = ["point-to-point", "collective"];
/// The first rank and the middle one, as the paper has them.
const SHOWN: [usize; 2] = [0, 1];

/// Figures from what `stasis profile --json` prints: for each rank the seconds and the percentage that it computes, for
/// each kind of operation the calls, those a second, the percentage of the time, and that of small messages, and for
/// each function the calls and the percentage of the time.
fn figures(profile: &Value) -> Result<Figures> {
    let mut figures = Figures::new();
    for (rank, told) in (0..).zip(profile["ranks"].as_array().context("no ranks")?) {
        let elapsed = told["elapsed_seconds"].as_f64().context("no time")?;
        let mut computes = 100.0;
        for kind in KINDS {
            let functions = told["functions"].as_array().context("no functions")?.iter();
            let its =
                |function: &&Value| function["function"].as_str().and_then(feature) == Some(kind);
            let functions: Vec<&Value> = functions.filter(its).collect();
            let sum = |of: &str| {
                functions
                    .iter()
                    .filter_map(|function| function[of].as_f64())
                    .sum::<f64>()
            };
            // Of messages those that are sent: a receive only knows its room.
            let (below, words) = match kind {
                "collective" => (128, ""),
                _ => (1024, "send"),
            };
            let (mut small, mut sized) = (0.0, 0.0);
            for function in &functions {
                let name = function["function"].as_str().unwrap_or_default();
                let calls = function["calls"].as_f64().unwrap_or(0.0);
                let sizes = function["sizes"].as_array().map_or(&[][..], Vec::as_slice);
                let sizes = sizes.iter().filter(|_| name.to_lowercase().contains(words));
                for size in sizes {
                    let calls = size["calls"].as_f64().unwrap_or(0.0);
                    sized += calls;
                    small += calls * f64::from(u8::from(size["from_bytes"].as_u64() < Some(below)));
                }
                let seconds = function["seconds"].as_f64().unwrap_or(0.0);
                figures.insert(format!("{rank}/{name}"), calls);
                figures.insert(format!("{rank}/time/{name}"), 100.0 * seconds / elapsed);
            }
            let mut add =
                |name: &str, figure: f64| figures.insert(format!("{rank}/{kind}/{name}"), figure);
            add("calls", sum("calls"));
            add("rate", sum("calls") / elapsed);
            add("time", 100.0 * sum("seconds") / elapsed);
            add("small", 100.0 * small / f64::max(sized, 1.0));
            computes -= 100.0 * sum("seconds") / elapsed;
        }
        figures.insert(format!("{rank}/computes"), computes);
        figures.insert(format!("{rank}/seconds"), elapsed);
    }
    Ok(figures)
}

/// Rows of all programs.
fn of_programs(lab: &Lab, rows: impl Fn(&str, &Rounds) -> Result<Vec<Row>>) -> Result<Vec<Row>> {
    let programs = [
        ("LAMMPS", Ok(lammps(lab))),
        ("Quantum ESPRESSO", Ok(espresso(2))),
        ("SW4 (`patterns.c`)", pattern(lab, "sw4", 2)),
        ("CoMD (`patterns.c`)", pattern(lab, "comd", 2)),
        ("LULESH (`patterns.c`)", pattern(lab, "lulesh", 2)),
    ];
    let of_one = |(name, program): (&str, Result<Program>)| {
        let measured = program.and_then(|program| lab.compare(&program, &[PROFILED]));
        rows_or_why(name, measured.and_then(|rounds| rows(name, &rounds)))
    };
    Ok(programs.into_iter().flat_map(of_one).collect())
}

/// The calls a second of a program, as rows of paper 000.
pub fn rates(lab: &Lab, label: &str, program: &Program, papers: [&'static str; 2]) -> Vec<Row> {
    let measured = lab
        .compare(program, &[PROFILED])
        .and_then(|rounds: Rc<Rounds>| {
            let row = |(kind, paper): (&str, &'static str)| {
                Row::alone(
                    format!("{label}, {kind}"),
                    paper,
                    &rounds,
                    &format!("0/{kind}/rate"),
                    PROFILED,
                )
            };
            ["collective", "point-to-point"]
                .into_iter()
                .zip(papers)
                .map(row)
                .collect()
        });
    rows_or_why(label, measured)
}

/// What the counting adds to a ping-pong of `examples/bench/calls.c`.
pub fn ping_pong(lab: &Lab) -> Result<Vec<Row>> {
    let binary = compile(lab.mpi(), "bench/calls.c", "calls", &[])?;
    let program = Program {
        name: "ping-pong".into(),
        mpi: lab.mpi(),
        ranks: 2,
        words: vec![binary.to_string_lossy().into_owned()],
        environment: &[],
        package: None,
        is_slow: true,
        progress: None,
        read: |printed, _| {
            let times = times_of(printed)?;
            Ok(times
                .into_iter()
                .map(|(name, (_, median))| (name, median))
                .collect())
        },
    };
    let rounds = lab.compare(&program, &[STASIS, PROFILED])?;
    let sizes = [
        ("8 B", "pingpong_8", "1.3"),
        ("4 KiB", "pingpong_4k", ""),
        ("64 KiB", "pingpong_64k", ""),
    ];
    let sizes = sizes
        .into_iter()
        .chain([("1 MiB", "pingpong_1m", "1 for 256 KB")]);
    let row = |(size, figure, paper)| Row::ratio(size, paper, &rounds, figure, (STASIS, PROFILED));
    sizes.map(row).collect()
}

/// The communication calls of rank 0.
pub fn calls(lab: &Lab) -> Result<Vec<Row>> {
    of_programs(lab, |name, rounds| {
        let names = rounds.names(PROFILED.name);
        let names: BTreeSet<&str> = names
            .iter()
            .filter_map(|name| name.strip_prefix("0/MPI_"))
            .collect();
        let names = Vec::from_iter(names).join(", ");
        Ok(vec![Row::new(name, "", Outcome::Seen(names))])
    })
}

/// The calls of each kind.
pub fn counts(lab: &Lab) -> Result<Vec<Row>> {
    let calls = [
        ("point-to-point, calls", "point-to-point/calls"),
        ("collective, calls", "collective/calls"),
    ];
    of_programs(lab, |name, rounds| of_ranks(name, rounds, &calls))
}

/// The time in the calls of each kind and in the computation, and of all.
pub fn times(lab: &Lab) -> Result<Vec<Row>> {
    of_programs(lab, |name, rounds| {
        let shares = [
            ("point-to-point, % of the time", "point-to-point/time"),
            ("collective, % of the time", "collective/time"),
            ("computation, % of the time", "computes"),
        ];
        let mut rows = of_ranks(name, rounds, &shares)?;
        for rank in SHOWN {
            let seconds = median(rounds.of(PROFILED.name, &format!("{rank}/seconds"))?);
            let all = Outcome::Seen(format!("{seconds:.2} s"));
            rows.push(Row::new(format!("{name}, rank {rank}, all"), "", all));
        }
        Ok(rows)
    })
}

/// Figures of the ranks that are shown, each with its label.
fn of_ranks(name: &str, rounds: &Rounds, figures: &[(&str, &str)]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for rank in SHOWN {
        for (label, figure) in figures {
            let label = format!("{name}, rank {rank}, {label}");
            let figure = format!("{rank}/{figure}");
            rows.push(Row::alone(label, "", rounds, &figure, PROFILED)?);
        }
    }
    Ok(rows)
}

/// Each function of a kind with its calls and its percentage of the time, the longest first.
pub fn functions(lab: &Lab, kind: &'static str) -> Result<Vec<Row>> {
    of_programs(lab, |name, rounds| {
        let row = |rank: usize| {
            let names = rounds.names(PROFILED.name).into_iter();
            let of_rank = format!("{rank}/MPI_");
            let names = names.filter_map(|name| name.strip_prefix(&of_rank));
            let names = names.filter(|name| feature(&format!("MPI_{name}")) == Some(kind));
            let mut all = Vec::new();
            for name in names {
                let of = |figure: String| Ok(median(rounds.of(PROFILED.name, &figure)?));
                let calls: Result<f64> = of(format!("{of_rank}{name}"));
                let time: Result<f64> = of(format!("{rank}/time/MPI_{name}"));
                all.push((name, calls?, time?));
            }
            all.sort_by(|one, other| other.2.total_cmp(&one.2));
            let told = all
                .iter()
                .map(|(name, calls, time)| format!("{name} {calls:.0} ({time:.1} %)"));
            let told = match all.is_empty() {
                true => "none".to_owned(),
                false => Vec::from_iter(told).join(", "),
            };
            Ok(Row::new(
                format!("{name}, rank {rank}"),
                "",
                Outcome::Seen(told),
            ))
        };
        SHOWN.into_iter().map(row).collect()
    })
}

/// The shares of small messages.
pub fn sizes(lab: &Lab) -> Result<Vec<Row>> {
    of_programs(lab, |name, rounds| {
        let small = [
            ("point-to-point", "below 1 KiB", "60"),
            ("collective", "below 128 B", "90"),
        ];
        let row = |(kind, limit, paper)| {
            let label = format!("{name}, {kind}, {limit}, %");
            Row::alone(label, paper, rounds, &format!("0/{kind}/small"), PROFILED)
        };
        small.into_iter().map(row).collect()
    })
}
