//! Paper 003: Cooperman, Li and Zhao, collective operations by messages, and messages in a recorded order.

use super::measure::{Lab, Program, Rounds, Way, NATIVE, STASIS};
use super::page::{Item, Outcome, Paper, Row};
use super::programs::{cp2k, espresso};
use super::rows_or_why;
use crate::harness::mpi::cores;
use anyhow::Result;

pub const PAPER: Paper = Paper {
    number: "003",
    title: "Debugging MPI Implementations via Reduction-to-Primitives",
    setting: "Measured on Cori (Haswell, Aries), with 64 and 128 ranks on 4 nodes.",
    items: &[
        Item {
            name: "Figure 4",
            what: "The run time of a loop of MPI_Reduce and one of MPI_Alltoall with each collective operation made of \
                   messages (`--reduce all`), and with the order of messages recorded, too (`--record`).",
            theirs: "Compared with MANA without the tools, in seconds: Reduce 94, 138, 1294; Alltoall 43, 93, 593.",
            differs: "fewer ranks than 128, so that an operation is few messages; 2 KiB for each rank; the loops \
                      of 2 ranks have 200,000 operations, since 100 take no time here. The tools are compared with Stasis \
                      without them, as the paper compares with MANA. Figures of 2026-11-29 and before have no rows that \
                      compare them with native runs, and none of a replay or of digests (`--digests all`)",
            columns: ("compared with, s", "ours, s"),
            measure: loops,
        },
        Item {
            name: "Figure 5",
            what: "The run time of applications with the tools.",
            theirs: "VASP5 takes 2,191 s without the tools, and CP2K 181 s.",
            differs: "Quantum ESPRESSO instead of VASP, and two molecules of water for CP2K; as many ranks as processors \
                      instead of 128 and 64, and seconds instead of 3 and 36 minutes: the start of the tools weighs \
                      more, and there are fewer messages to record",
            columns: ("compared with, s", "ours, s"),
            measure: applications,
        },
    ],
};

const REDUCED: Way = Way::with_flags("reduced", &["--reduce", "all"]);
const RECORDED: Way = Way::with_flags("recorded", &["--record", "DIR/record"]);
const BOTH: Way = Way::with_flags(
    "reduced and recorded",
    &["--reduce", "all", "--record", "DIR/record"],
);
const BCAST: Way = Way::with_flags(
    "bcast and recorded",
    &["--reduce", "Bcast", "--record", "DIR/record"],
);

const DIGESTED: Way = Way::with_flags(
    "recorded with digests",
    &["--record", "DIR/record", "--digests", "all"],
);
const REPLAYED: Way =
    Way::with_flags("replayed", &["--replay", "DIR/record"]).behind(&["--record", "DIR/record"]);

/// Further rows, which the paper does not have.
const OURS: [(&str, &str, Way); 2] = [
    ("recorded with digests", "", DIGESTED),
    ("replayed", "", REPLAYED),
];

/// Rows of the tools, behind one of Stasis without them: each compared with that, as in the paper, and with the native
/// run.
fn rows(
    label: &str,
    paper: &'static str,
    rounds: &Rounds,
    ways: &[(&str, &'static str, Way)],
) -> Result<Vec<Row>> {
    let row = |name: &str, paper, base: Way, way: Way| {
        let label = format!("{label}, {name} / {}", base.name);
        Row::ratio(label, paper, rounds, "seconds", (base, way))
    };
    let mut all = vec![row("Stasis", paper, NATIVE, STASIS)?];
    for (name, paper, way) in ways {
        all.push(row(name, paper, STASIS, *way)?);
        all.push(row(name, "", NATIVE, *way)?);
    }
    Ok(all)
}

/// The native run, that under Stasis, and those with tools.
fn all_ways(tools: &[(&str, &'static str, Way)]) -> Vec<Way> {
    let tools = tools.iter().map(|(_, _, way)| *way);
    [NATIVE, STASIS].into_iter().chain(tools).collect()
}

fn loops(lab: &Lab) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for ranks in lab.scales() {
        let times = match *ranks {
            ranks if ranks > cores() => "2000",
            2 => lab.sized("200000", "100"),
            _ => "20000",
        };
        for (operation, reduced, both) in
            [("reduce", "1.47", "13.77"), ("alltoall", "2.16", "13.79")]
        {
            let program = Program::own(lab.mpi(), *ranks, "loops", &[operation, times])?;
            let label = format!("{operation}, {ranks} ranks");
            let paper = [
                ("by messages", reduced, REDUCED),
                ("by messages, recorded", both, BOTH),
            ];
            let ways = [&paper[..], &OURS].concat();
            let rounds = lab.compare(&program, &all_ways(&ways))?;
            all.extend(rows(&label, "1.5 and more (MANA)", &rounds, &ways)?);
        }
    }
    Ok(all)
}

fn applications(lab: &Lab) -> Result<Vec<Row>> {
    let ranks = lab.ranks(128);
    let vasp = [
        ("recorded", "3.1 (VASP5)", RECORDED),
        ("by messages", "4.6 (VASP5)", REDUCED),
        ("by messages, recorded", "> 6.6 (VASP5)", BOTH),
    ];
    let whole = [&vasp[..], &OURS].concat();
    let quick = [&vasp[2..], &OURS].concat();
    let mut all = application(
        lab,
        "Quantum ESPRESSO",
        &espresso(ranks),
        &lab.sized(whole, quick),
    );
    let bcast = [("Bcast by messages, recorded", "4.1", BCAST)];
    let bcast = [&bcast[..], &OURS].concat();
    all.extend(application(lab, "CP2K", &cp2k(ranks), &bcast));
    let bugs = "the tools find planted bugs: `bisect/`, `record/` and `hunt/` in `cargo xtask test --list`";
    all.push(Row::new(
        "a wrong library or a race",
        "",
        Outcome::Seen(bugs.into()),
    ));
    Ok(all)
}

fn application(
    lab: &Lab,
    label: &str,
    program: &Program,
    tools: &[(&str, &'static str, Way)],
) -> Vec<Row> {
    let measured = lab
        .compare(program, &all_ways(tools))
        .and_then(|rounds| rows(label, "1.2 (MANA)", &rounds, tools));
    rows_or_why(label, measured)
}
