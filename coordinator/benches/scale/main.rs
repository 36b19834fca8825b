//! Cost of a checkpoint as jobs grow: `cargo bench -p stasis-coordinator`. The tables are in
//! `docs/protocol.md`. With the argument `late` only the table of late ranks is made.

mod machine;
mod simulation;

use simulation::{simulate, simulate_late, Costs, Job};

/// A job of the usual size.
const USUAL: Job = Job {
    ranks: 10_000,
    clocks: 4,
    skew: 0,
    fan_out: None,
    late: None,
};

fn main() {
    if !std::env::args().any(|argument| argument == "late") {
        on_time();
    }
    late();
}

/// Jobs without a late rank.
fn on_time() {
    println!("measured: the coordinator's machine");
    machine::measure();
    println!("\nsimulated: the control plane, {}", Costs::USUAL);
    println!("{}", simulation::HEAD);
    let usual = USUAL;
    let star_and_tree = |job: Job| {
        simulate(&job, &Costs::USUAL);
        let fan_out = Some(64);
        simulate(&Job { fan_out, ..job }, &Costs::USUAL);
    };
    for ranks in [1_000, 10_000, 100_000] {
        star_and_tree(Job { ranks, ..usual });
    }
    // The star of a million takes ten times as long as that of a hundred thousand, in the simulation as in
    // reality.
    for (ranks, fan_out) in [(1_000_000, 64), (100_000, 8), (100_000, 256)] {
        let fan_out = Some(fan_out);
        let job = Job {
            ranks,
            fan_out,
            ..usual
        };
        simulate(&job, &Costs::USUAL);
    }
    for clocks in [16, 256] {
        star_and_tree(Job { clocks, ..usual });
    }
    for skew in [100_000, 2_000_000] {
        star_and_tree(Job { skew, ..usual });
    }
}

/// Jobs with late ranks.
fn late() {
    println!("\nsimulated: one rank in 1,000 is late for a collective operation");
    println!("{}", simulation::HEAD_OF_LATE);
    for ranks in [1_000, 10_000, 100_000, 1_000_000] {
        let fan_out = Some(64);
        for seconds in [0, 1, 10, 60] {
            let job = Job {
                ranks,
                fan_out,
                ..USUAL
            };
            simulate_late(&job, 1_000_000 * seconds, &Costs::USUAL);
        }
    }
}
