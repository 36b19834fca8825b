//! Cost of a checkpoint for the coordinator's machine as jobs grow: processor time of all its steps, and
//! largest memory. Measured.
//!
//! Every rank reports four clocks of its own node's kind (WORLD, its node's, two more). On the way to the
//! targets it waits once for a message. Then it reaches them, drains and saves.

use std::time::Instant;

use history::event::Cause;
use stasis_coordinator::protocol::coordinator::{Action, Config, Coordinator, Event, PartialSet};
use stasis_coordinator::protocol::{Activity, FromRank, State, Summary, WaitTarget};

const RANKS_OF_A_NODE: u32 = 100;

/// Prints the table.
pub fn measure() {
    println!("     ranks   connect  approach     drain      save   us/rank  resident");
    for size in [1_000, 10_000, 100_000, 1_000_000] {
        one(size);
    }
}

fn one(size: u32) {
    let mut job = Coordinator::new(Config::new(size));
    let begun = Instant::now();
    for rank in 0..size {
        let host = format!("node{}", rank / RANKS_OF_A_NODE);
        job.on(
            0,
            Event::Connected {
                rank,
                host,
                pid: rank,
            },
        );
    }
    let connected = begun.elapsed();
    let client = None;
    job.on(
        0,
        Event::Request {
            client,
            cause: Cause::Command,
            stop: false,
            patience: None,
        },
    );
    let partial = PartialSet {
        set: "ckpt-1".into(),
        id: vec![0; 16],
        directory: Some("/scratch/ckpt-1.partial".into()),
        parent: None,
    };
    job.on(0, Event::Prepared(1, Ok(partial)));
    let mut everyone = |now: u64, message: &dyn Fn(u32) -> FromRank| {
        let mut last = vec![];
        for rank in 0..size {
            last = job.on(now, Event::Message(rank, message(rank)));
        }
        last
    };
    everyone(0, &|rank| FromRank::Clocks {
        epoch: 1,
        clocks: vec![
            (1, 50),
            (u64::from(rank / RANKS_OF_A_NODE) << 40, 20),
            (7, 3),
            (8, 4),
        ],
    });
    let state = |reached, activity| {
        FromRank::State(State {
            epoch: 1,
            version: 1,
            reached,
            held: false,
            activity,
        })
    };
    everyone(0, &|_| state(false, Activity::Running));
    everyone(0, &|rank| {
        let left = (rank + size - 1) % size;
        let waiting = Activity::Waiting {
            on: WaitTarget::Ranks(vec![left]),
            sent: vec![((rank + 1) % size, 9)],
            received: vec![(left, 9)],
        };
        state(false, waiting)
    });
    let last = everyone(0, &|_| state(true, Activity::Running));
    assert!(matches!(last[..], [Action::Send(_)]), "told to stop");
    let approached = begun.elapsed();
    everyone(0, &|_| FromRank::Drained {
        epoch: 1,
        shared: vec![],
    });
    let drained = begun.elapsed();
    let last = everyone(0, &|rank| FromRank::Saved {
        epoch: 1,
        summary: Summary {
            digest: format!("{rank:064x}"),
            ..Summary::default()
        },
    });
    assert!(matches!(last[..], [Action::Commit(..)]), "told to commit");
    let saved = begun.elapsed();
    println!(
        "{size:>10} {:>8.3}s {:>8.3}s {:>8.3}s {:>8.3}s {:>9.2} {:>6} MiB",
        connected.as_secs_f64(),
        (approached - connected).as_secs_f64(),
        (drained - approached).as_secs_f64(),
        (saved - drained).as_secs_f64(),
        saved.as_secs_f64() * 1e6 / f64::from(size),
        resident_mib()
    );
}

/// Largest resident memory of this process so far.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}
