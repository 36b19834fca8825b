//! The protocol under every program of a size, up to symmetry, and under every interleaving of each. No
//! checkpoint makes a job hang or run for ever. No cut falls inside a collective, and no message is lost,
//! doubled or overtaken at a cut. Without a fault every checkpoint is taken; with one the job runs on. The
//! published variants fail here.
//!
//! `cargo test` checks the smallest sizes; `cargo xtask test --full` all of them (the ignored tests).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use crate::simulator::enumerate::{endless_programs, programs, Collectives, Messages, Scope};
use crate::simulator::explore::explore;
use crate::simulator::program::Program;
use crate::simulator::Variant;

const fn scope(ranks: u32, events: usize, messages: Messages) -> Scope {
    Scope {
        ranks,
        comms: 3,
        events,
        messages,
        collectives: Collectives::All,
    }
}

const fn blocking(scope: Scope) -> Scope {
    Scope {
        collectives: Collectives::Blocking,
        ..scope
    }
}

const SHORT: [Scope; 5] = [
    scope(1, 2, Messages::All),
    scope(1, 3, Messages::All),
    scope(2, 1, Messages::All),
    scope(2, 2, Messages::Few),
    scope(3, 1, Messages::All),
];
const LONG: [Scope; 6] = [
    scope(2, 2, Messages::All),
    scope(2, 3, Messages::Few),
    scope(3, 2, Messages::Few),
    blocking(scope(3, 3, Messages::One)),
    blocking(scope(4, 3, Messages::One)),
    scope(4, 2, Messages::One),
];

/// Blocking collective operations that have begun are completed before the cut, as with a library that gives no turns.
const COMPLETES: Variant = Variant {
    retracts: false,
    ..Variant::OURS
};
/// Only the first call of each blocking collective operation is retracted.
const SEVERAL_CALLS: Variant = Variant {
    several_calls: true,
    ..Variant::OURS
};
/// Sends that wait for their receivers are synchronous.
const SYNCHRONOUS: Variant = Variant {
    synchronous: true,
    ..Variant::OURS
};
const FAULT: Variant = Variant {
    faults: 1,
    ..Variant::OURS
};
const LATE: Variant = Variant {
    late_reports: true,
    ..Variant::OURS
};
const COPIES: Variant = Variant {
    copies: true,
    ..Variant::OURS
};
const COPIES_AND_FAULT: Variant = Variant {
    copies: true,
    ..FAULT
};
const FORGETFUL_DRAIN: Variant = Variant {
    drain_catches_up: false,
    ..FAULT
};

/// A program with more states than this is printed, to show progress.
const LARGE: usize = 10_000_000;

/// Results of all programs of some scopes.
#[derive(Default)]
struct Tally {
    programs: usize,
    states: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

/// Checks all programs on all processors.
fn check(scopes: &[Scope], variant: Variant, requests: u32) -> Tally {
    check_of(scopes, programs, variant, requests)
}

fn check_of(
    scopes: &[Scope],
    programs: fn(Scope) -> BTreeSet<Program>,
    variant: Variant,
    requests: u32,
) -> Tally {
    let begun = Instant::now();
    let mut all = Tally::default();
    for scope in scopes {
        let programs: Vec<Program> = programs(*scope).into_iter().collect();
        let (next, states) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|threads| {
            for _ in 0..workers {
                threads.spawn(|| {
                    while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let found = explore(program, variant, requests);
                        states.fetch_add(found.states, Ordering::Relaxed);
                        all.wrong.lock().unwrap().extend(found.wrong);
                        if found.states > LARGE {
                            println!("{} states: {program:?}", found.states);
                        }
                    }
                });
            }
        });
        let states = states.into_inner();
        println!(
            "{} ranks, {} events, {:?} messages, {:?} collectives: {} programs, {states} states ({:.0} s so far)",
            scope.ranks,
            scope.events,
            scope.messages,
            scope.collectives,
            programs.len(),
            begun.elapsed().as_secs_f64()
        );
        all.programs += programs.len();
        all.states.fetch_add(states, Ordering::Relaxed);
    }
    all
}

/// Checks that no program fails, and that the number of programs is the expected one.
fn all_right(scopes: &[Scope], variant: Variant, requests: u32, programs: usize) {
    is_right(check(scopes, variant, requests), programs);
}

fn is_right(tally: Tally, programs: usize) {
    let wrong = tally.wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} wrong, first: {}",
        wrong.len(),
        wrong[0]
    );
    assert!(
        tally.programs >= programs,
        "only {} programs",
        tally.programs
    );
}

fn hangs(scopes: &[Scope], variant: Variant, requests: u32) {
    let wrong = check(scopes, variant, requests).wrong.into_inner().unwrap();
    println!("{} of these programs fail", wrong.len());
    assert!(wrong.iter().any(|w| w.starts_with("hangs")), "none hangs");
}

#[test]
fn every_small_program_is_checkpointed() {
    all_right(&SHORT, Variant::OURS, 1, 300);
}

#[test]
fn every_small_program_is_checkpointed_without_retraction() {
    all_right(&SHORT, COMPLETES, 1, 300);
}

#[test]
fn every_small_program_whose_operations_make_several_calls_is_checkpointed() {
    all_right(&SHORT, SEVERAL_CALLS, 1, 300);
}

#[test]
fn every_small_program_that_sends_synchronously_is_checkpointed() {
    all_right(&SHORT, SYNCHRONOUS, 1, 300);
}

#[test]
fn programs_that_send_synchronously_go_on_after_a_fault() {
    let variant = Variant {
        faults: 1,
        ..SYNCHRONOUS
    };
    all_right(&SHORT[2..3], variant, 2, 14);
}

/// Checks all programs of a scope in which ranks stay outside of a collective operation, or of a message, for ever.
fn waits_for_nobody(scope: Scope, variant: Variant, requests: u32, programs: usize) {
    let scope = blocking(scope);
    is_right(
        check_of(&[scope], endless_programs, variant, requests),
        programs,
    );
}

#[test]
fn a_checkpoint_waits_for_nobody() {
    let scope = scope(2, 2, Messages::Few);
    waits_for_nobody(scope, Variant::OURS, 1, 50);
    waits_for_nobody(scope, SEVERAL_CALLS, 1, 50);
}

#[test]
fn a_checkpoint_after_a_fault_waits_for_nobody() {
    waits_for_nobody(scope(2, 1, Messages::All), FAULT, 2, 5);
}

#[test]
fn a_checkpoint_that_copies_memory_waits_for_nobody() {
    waits_for_nobody(scope(2, 1, Messages::All), COPIES, 2, 5);
}

#[test]
fn a_checkpoint_with_late_reports_waits_for_nobody() {
    waits_for_nobody(scope(2, 1, Messages::All), LATE, 1, 5);
}

#[test]
#[ignore = "long: cargo xtask test --full"]
fn a_checkpoint_of_more_ranks_waits_for_nobody() {
    let two = scope(2, 2, Messages::Few);
    waits_for_nobody(two, FAULT, 2, 50);
    waits_for_nobody(two, COPIES, 2, 50);
    waits_for_nobody(two, LATE, 1, 50);
    let three = scope(3, 2, Messages::One);
    waits_for_nobody(three, Variant::OURS, 1, 50);
    waits_for_nobody(three, SEVERAL_CALLS, 1, 50);
}

/// The test above finds what it is for.
#[test]
fn a_checkpoint_without_retraction_waits() {
    let scopes = [blocking(scope(2, 1, Messages::One))];
    let tally = check_of(&scopes, endless_programs, COMPLETES, 1);
    assert!(!tally.wrong.into_inner().unwrap().is_empty(), "none waits");
}

#[test]
fn every_small_program_goes_on_after_a_fault_and_is_checkpointed() {
    all_right(&SHORT[2..3], FAULT, 2, 14);
}

#[test]
fn operations_of_several_calls_go_on_after_a_fault() {
    let variant = Variant {
        faults: 1,
        ..SEVERAL_CALLS
    };
    all_right(&SHORT[2..3], variant, 2, 14);
}

#[test]
fn ranks_go_on_while_copied_memory_is_written() {
    all_right(&SHORT[..3], COPIES, 2, 200);
}

#[test]
fn resumed_ranks_survive_a_fault() {
    all_right(&SHORT[2..3], COPIES_AND_FAULT, 2, 14);
}

#[test]
fn clocks_of_groups_hang_as_published() {
    hangs(&SHORT[3..4], Variant::PER_GROUP, 1);
}

#[test]
fn drains_that_ignore_abandoned_drains_hang() {
    hangs(&SHORT[2..3], FORGETFUL_DRAIN, 2);
}

#[test]
fn reports_of_ranks_may_be_late() {
    all_right(&SHORT[2..3], LATE, 1, 14);
}

#[test]
#[ignore = "long: cargo xtask test --full"]
fn every_program_is_checkpointed() {
    all_right(&LONG, Variant::OURS, 1, 10_000);
}

#[test]
#[ignore = "long: cargo xtask test --full"]
fn every_program_goes_on_after_a_fault_and_is_checkpointed() {
    all_right(&SHORT[3..], FAULT, 2, 100);
}

#[test]
#[ignore = "long: cargo xtask test --full"]
fn ranks_go_on_while_copied_memory_is_written_in_more_programs() {
    all_right(&SHORT[3..], COPIES, 2, 100);
}

#[test]
#[ignore = "long: cargo xtask test --full"]
fn parking_without_release_hangs_as_published() {
    hangs(&LONG[3..4], Variant::NO_RELEASE, 1);
}

#[test]
#[ignore = "long: cargo xtask test --full"]
fn reports_of_ranks_may_be_late_in_more_programs() {
    all_right(&SHORT[3..4], LATE, 1, 100);
}
