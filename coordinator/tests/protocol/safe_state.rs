//! The protocol reaches a safe state from anywhere, and no other state is ever cut. Tests are random
//! programs under random interleavings, small programs under all of them, and the two holes of the
//! published algorithm (docs/internals/collectives.md). They must hang as published and must not hang as
//! built.

use crate::simulator::explore::explore;
use crate::simulator::path::random_path;
use crate::simulator::program::{random, Op, Program, Random};
use crate::simulator::Variant;

fn barrier(comm: usize) -> Op {
    Op::Collective { comm, early: false }
}
fn send(to: u32) -> Op {
    Op::Send {
        to,
        tag: 0,
        rendezvous: false,
    }
}
fn recv(from: u32) -> Op {
    Op::Recv {
        from: Some(from),
        tag: 0,
    }
}

/// First hole: the order of initiations matters per communicator only.
fn crossed_initiations() -> Program {
    let start = |a, b| {
        vec![
            Op::Initiate {
                comm: a,
                request: a,
            },
            Op::Initiate {
                comm: b,
                request: b,
            },
            Op::Wait { request: a },
            Op::Wait { request: b },
        ]
    };
    Program::new(&[&[0, 1], &[0, 1]], vec![start(0, 1), start(1, 0)])
}

/// A target raised for the second collective remains after its checkpoint was abandoned. It must not make
/// rank 1 begin the collective in the next checkpoint.
fn raised_and_given_up() -> Program {
    let start = Op::Initiate {
        comm: 1,
        request: 0,
    };
    let wait = Op::Wait { request: 0 };
    Program::new(
        &[&[0, 1], &[0, 1]],
        vec![vec![barrier(0), start, wait], vec![start, barrier(0), wait]],
    )
}

/// Second hole: A = 0, B = 1, C = 2; G = {A, C}; H = {B, D}, D = 3.
fn crossed_message() -> Program {
    Program::new(
        &[&[0, 2], &[1, 3]],
        vec![
            vec![recv(1), barrier(0)],
            vec![barrier(1), send(0)],
            vec![barrier(0)],
            vec![barrier(1)],
        ],
    )
}

/// The same dependence through a waiting rank, and through a receive from any source.
fn crossed_message_through_others() -> Program {
    Program::new(
        &[&[0, 2], &[1]],
        vec![
            vec![Op::Recv { from: None, tag: 0 }, barrier(0)],
            vec![barrier(1), barrier(1), send(3)],
            vec![barrier(0)],
            vec![recv(1), send(0)],
        ],
    )
}

const FAILING: Variant = Variant {
    faults: 3,
    ..Variant::OURS
};

#[test]
fn hole_1_a_clock_per_group_hangs() {
    let found = explore(&crossed_initiations(), Variant::PER_GROUP, 1);
    assert!(found.wrong.unwrap().starts_with("hangs"));
}

#[test]
fn hole_1_a_clock_per_communicator_does_not() {
    let found = explore(&crossed_initiations(), Variant::OURS, 1);
    assert_eq!(found.wrong, None);
}

#[test]
fn hole_2_parking_without_release_hangs() {
    let found = explore(&crossed_message(), Variant::NO_RELEASE, 1);
    assert!(found.wrong.unwrap().starts_with("hangs"));
}

#[test]
fn hole_2_with_release_does_not() {
    let found = explore(&crossed_message(), Variant::OURS, 1);
    assert_eq!(found.wrong, None);
}

#[test]
fn hole_2_through_other_ranks_and_any_source() {
    let program = crossed_message_through_others();
    let mut seeds = Random(3);
    let mut hangs = 0;
    for _ in 0..500 {
        let world = random_path(&program, Variant::OURS, 1, &mut seeds).unwrap();
        assert_eq!(world.committed, 1);
        hangs += u32::from(random_path(&program, Variant::NO_RELEASE, 1, &mut seeds).is_err());
    }
    assert!(hangs > 0, "the published form must hang on some path");
}

#[test]
fn targets_of_an_abandoned_checkpoint_are_cleared() {
    let fault = Variant {
        faults: 1,
        ..Variant::OURS
    };
    let kept = Variant {
        targets_are_forgotten: false,
        retracts: false,
        ..fault
    };
    let program = raised_and_given_up();
    assert_eq!(explore(&program, fault, 2).wrong, None);
    let hangs = explore(&program, kept, 2).wrong.unwrap();
    assert!(hangs.starts_with("hangs"), "{hangs}");
}

#[test]
fn small_programs_under_every_interleaving() {
    let programs = [
        // An unreached rank passes a target on its way.
        Program::new(
            &[&[0, 1]],
            vec![vec![barrier(0), barrier(0)], vec![barrier(0), barrier(0)]],
        ),
        // A rendezvous across the cut.
        Program::new(
            &[&[0, 1]],
            vec![
                vec![
                    Op::Send {
                        to: 1,
                        tag: 0,
                        rendezvous: true,
                    },
                    barrier(0),
                ],
                vec![recv(0), barrier(0)],
            ],
        ),
        // A message that has matched a posted receive and is not completed yet.
        Program::new(
            &[&[0], &[1]],
            vec![
                vec![
                    Op::Irecv {
                        from: Some(1),
                        tag: 5,
                        request: 1,
                    },
                    recv(1),
                    barrier(0),
                    Op::Wait { request: 1 },
                ],
                vec![
                    Op::Send {
                        to: 0,
                        tag: 5,
                        rendezvous: false,
                    },
                    barrier(1),
                    send(0),
                ],
            ],
        ),
    ];
    for program in &programs {
        let found = explore(program, Variant::OURS, 1);
        assert_eq!(found.wrong, None);
        assert!(found.states > 100, "only {} states", found.states);
    }
}

fn random_programs(seed: u64, rounds: usize, variant: Variant) -> (u32, u32, u64) {
    let mut seeds = Random(seed);
    let (mut committed, mut failed, mut versions) = (0, 0, 0);
    for round in 0..rounds {
        let size = 1 + seeds.below(6) as u32;
        let events = 5 + seeds.below(60);
        let program = random(size, events, &mut seeds);
        // The program must be right without checkpoints; otherwise a hang proves nothing.
        random_path(&program, variant, 0, &mut seeds)
            .unwrap_or_else(|hang| panic!("round {round}: the program itself hangs\n{hang}"));
        let world = random_path(&program, variant, 3, &mut seeds)
            .unwrap_or_else(|hang| panic!("round {round}: hangs\n{hang}\n{program:?}"));
        // The coordinator may have died before all checkpoints were requested.
        assert!(world.committed + world.failed == 3 || variant.faults > 0);
        committed += world.committed;
        failed += world.failed;
        versions = versions.max(world.versions);
    }
    (committed, failed, versions)
}

#[test]
fn random_programs_reach_a_safe_state_and_end() {
    let (committed, failed, versions) = random_programs(1, 300, Variant::OURS);
    assert_eq!((committed, failed), (900, 0));
    assert!(
        versions > 1,
        "no target was ever raised: the programs are too tame"
    );
}

#[test]
fn random_programs_go_on_when_checkpoints_fail() {
    let (committed, failed, _) = random_programs(7, 200, FAILING);
    assert!(
        committed > 0 && failed > 0,
        "{committed} committed, {failed} failed"
    );
}

#[test]
fn random_programs_hang_with_the_published_variants() {
    for variant in [Variant::PER_GROUP, Variant::NO_RELEASE] {
        let mut seeds = Random(11);
        let mut hangs = (0..2000).filter(|_| {
            let program = random(4, 40, &mut seeds);
            random_path(&program, variant, 3, &mut seeds).is_err()
        });
        assert!(hangs.next().is_some(), "{variant:?} never hung");
    }
}
