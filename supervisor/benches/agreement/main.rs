//! Time to agree on the epoch from which a job of MPI Stages goes on, and to commit it, as jobs grow: `cargo bench -p
//! stasis-supervisor`. The table is in `docs/measured.md`.
//!
//! The processor time of a message, and of the look at the records of all ranks, is measured on this machine. Other
//! work on the machine does not count. The network is simulated. A node has one rank. The
//! records are in TMPDIR, two or three of each rank.

mod measured;
mod simulation;
mod votes;

use std::time::Duration;

use measured::{Directory, Message};
use simulation::{Costs, Network, Shape};
use votes::Votes;

/// Latency of a message, as in `docs/protocol.md`.
const LATENCY: Duration = Duration::from_micros(20);

fn main() {
    let message = Message::measure();
    let costs = Costs {
        latency: LATENCY,
        send: message.send,
        receive: message.receive,
    };
    println!(
        "a message: latency {LATENCY:?} (assumed), {:?} to send and {:?} to receive (measured on this machine)",
        costs.send, costs.receive
    );
    println!(
        "\n| nodes | Stasis: agreed | committed | agree/commit, star: agreed | committed | \
         agree/commit, tree of 64: agreed | committed | serial: agreed | committed |\n|---|---|---|---|---|---|---|---|---|"
    );
    for nodes in [10, 100, 1_000, 10_000, 100_000] {
        let times = of(nodes, &costs);
        let times: Vec<String> = times.iter().map(|time| shown(*time)).collect();
        println!("| {nodes} | {} |", times.join(" | "));
    }
}

/// The columns of a job of this number of nodes.
fn of(nodes: u32, costs: &Costs) -> [Duration; 8] {
    // Every third rank has written an epoch more than the others when the last rank dies, which has not.
    let newest = |rank: u32| {
        if rank % 3 == 1 && rank + 1 < nodes {
            8
        } else {
            7
        }
    };
    let directory = Directory::with(nodes, newest);
    let failed = nodes - 1;

    let serial = directory.read_each();
    let listed = directory.agree();
    let asked = Network::new(nodes, Shape::Star, costs).ask(failed);
    let agreed = asked + listed.took;
    let removed = directory.begin(listed.epoch);
    let committed = agreed + removed + Network::new(nodes, Shape::Star, costs).welcome();

    let vote = |shape| {
        let mut votes = Votes::new(failed, nodes, newest);
        let times = Network::new(nodes, shape, costs).vote(&mut votes);
        assert_eq!(votes.committed(), listed.epoch, "both ways agree");
        times
    };
    let (star, tree) = (vote(Shape::Star), vote(Shape::Tree));

    assert_eq!(serial.epoch, listed.epoch, "the serial way agrees");
    let told = serial.took + Network::new(nodes, Shape::Star, costs).tell();
    [
        agreed,
        committed,
        star.0,
        star.1,
        tree.0,
        tree.1,
        serial.took,
        told,
    ]
}

fn shown(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    match millis {
        ..10.0 => format!("{millis:.2} ms"),
        ..1000.0 => format!("{millis:.0} ms"),
        _ => format!("{:.1} s", millis / 1e3),
    }
}
