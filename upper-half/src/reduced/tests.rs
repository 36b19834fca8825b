//! The algorithms, carried out by a simulation: every rank's schedule runs as far as its messages let it, and the
//! operation is one that is not commutative.
//!
//! # Safety
//! A buffer is that of one number, which lives as long as the simulation.
#![allow(unsafe_code)]

use super::linear::Ranks;
use super::role::Role;
use super::Schedule;
use crate::argument::Buffer;
use crate::object::datatype::Extents;
use crate::object::request::schedule::{Data, Message, Step};
use crate::object::{init, Datatype, Op};
use core::cell::Cell;
use std::collections::{HashMap, VecDeque};

/// Largest number of processes.
const MOST: i32 = 9;

/// x -> a x + b modulo a prime, and the composition of two: associative, and not commutative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Affine(u32, u32);

impl Affine {
    fn of(rank: i32) -> Affine {
        Affine(3 + rank as u32, 7 * rank as u32 + 1)
    }

    fn then(self, next: Affine) -> Affine {
        const PRIME: u64 = 65_521;
        let (a, b) = (u64::from(self.0), u64::from(self.1));
        let (c, d) = (u64::from(next.0), u64::from(next.1));
        Affine((a * c % PRIME) as u32, ((c * b + d) % PRIME) as u32)
    }

    /// Of the ranks below `count`, in their order.
    fn of_all(count: i32) -> Affine {
        let all = (1..count).map(Affine::of);
        all.fold(Affine::of(0), Affine::then)
    }
}

fn data(place: &mut Affine) -> Data {
    let long = Datatype::at(contract::abi::datatype::INT64_T as u32);
    let size = size_of::<Affine>() as isize;
    long.body.extents.get_or_init(|| Extents {
        lower_bound: 0,
        extent: size,
        true_lower_bound: 0,
        true_extent: size,
    });
    let buffer = Buffer::of_own(core::ptr::from_mut(place).cast());
    Data::new(buffer, 1, long)
}

/// The number in a buffer; none where there is no data.
fn place<'a>(data: Data) -> Option<&'a Cell<Affine>> {
    let number = data.buffer.as_ptr().cast::<Cell<Affine>>();
    // SAFETY: see the module's head.
    unsafe { number.as_ref() }
}

fn read(data: Data) -> Affine {
    place(data).map_or(Affine::default(), Cell::get)
}

fn write(data: Data, value: Affine) {
    if let Some(place) = place(data) {
        place.set(value);
    }
}

fn follow(step: Step) {
    match step {
        Step::Copy { from, into } => write(into, read(from)),
        Step::Combine { from, into, .. } => write(into, read(from).then(read(into))),
    }
}

/// Runs the schedules of all ranks; panics if they wait for ever.
fn simulate(mut schedules: Vec<Schedule>) {
    let mut sent: HashMap<(i32, i32), VecDeque<Affine>> = HashMap::new();
    let mut waits: Vec<VecDeque<(Data, i32)>> = schedules.iter().map(|_| VecDeque::new()).collect();
    let mut steps: Vec<Vec<Step>> = schedules.iter().map(|_| Vec::new()).collect();
    loop {
        let mut moved = false;
        for rank in 0..schedules.len() {
            while let Some(&(into, from)) = waits[rank].front() {
                let queue = sent.entry((from, rank as i32)).or_default();
                let Some(value) = queue.pop_front() else {
                    break;
                };
                write(into, value);
                waits[rank].pop_front();
                moved = true;
            }
            if !waits[rank].is_empty() {
                continue;
            }
            core::mem::take(&mut steps[rank])
                .into_iter()
                .for_each(follow);
            let Some(round) = schedules[rank].rounds.pop_front() else {
                continue;
            };
            moved = true;
            for message in round.messages {
                match message {
                    Message::Send(data, to) => {
                        let queue = sent.entry((rank as i32, to)).or_default();
                        queue.push_back(read(data));
                    }
                    Message::Receive(data, from) => waits[rank].push_back((data, from)),
                }
            }
            steps[rank] = round.steps;
        }
        if !moved {
            break;
        }
    }
    assert!(waits.iter().all(VecDeque::is_empty), "waits for ever");
    assert!(sent.values().all(VecDeque::is_empty), "nobody receives");
}

/// Runs an operation of `count` ranks whose part of each is made by `part`, with the rank's own number and a place for
/// the result; the results.
fn results(count: i32, mut part: impl FnMut(&mut Schedule, Ranks, Data, Data)) -> Vec<Affine> {
    init();
    let mut own: Vec<Affine> = (0..count).map(Affine::of).collect();
    let mut results = vec![Affine::default(); count as usize];
    let places = own.iter_mut().zip(&mut results).enumerate();
    let schedules = places.map(|(rank, (own, result))| {
        let mut schedule = Schedule::alone();
        let me = Some(rank as i32);
        part(&mut schedule, Ranks { count, me }, data(own), data(result));
        schedule
    });
    simulate(schedules.collect());
    results
}

fn op() -> &'static Op {
    Op::at(contract::abi::op::SUM as u32)
}

/// All numbers of processes and roots.
fn all() -> impl Iterator<Item = (i32, i32)> {
    (1..=MOST).flat_map(|count| (0..count).map(move |root| (count, root)))
}

#[test]
fn everyone_gets_the_roots_data() {
    for (count, root) in all() {
        for trees in [false, true] {
            let got = results(count, |plan, ranks, own, into| {
                plan.copy(own, into);
                plan.then();
                match trees {
                    true => plan.tree_bcast(ranks, root, into),
                    false => plan.linear_bcast(ranks, ranks.role_with(root), into),
                }
            });
            assert!(
                got.iter().all(|got| *got == Affine::of(root)),
                "{count} {root}"
            );
        }
    }
}

#[test]
fn the_root_gets_the_result_in_the_order_of_ranks() {
    for (count, root) in all() {
        for trees in [false, true] {
            let got = results(count, |plan, ranks, own, into| {
                let role = ranks.role_with(root);
                let into_root = (role == Role::Root).then_some(into);
                let made = match trees {
                    true => plan.tree_reduce(ranks, root, own, into_root, op()),
                    false => plan.linear_reduce(ranks, role, own, into, op()),
                };
                made.expect("room");
            });
            assert_eq!(got[root as usize], Affine::of_all(count), "{count} {root}");
        }
    }
}

#[test]
fn prefixes_are_in_the_order_of_ranks() {
    for count in 1..=MOST {
        for trees in [false, true] {
            let scans = results(count, |plan, ranks, own, into| {
                plan.copy(own, into);
                plan.then();
                match trees {
                    true => plan.tree_scan(ranks, into, op()).expect("room"),
                    false => plan.linear_scan(ranks, into, op()).expect("room"),
                }
            });
            let exclusive = results(count, |plan, ranks, own, into| {
                if trees {
                    plan.tree_scan(ranks, own, op()).expect("room");
                    plan.then();
                    plan.shift(ranks, own, into);
                } else {
                    plan.linear_exscan(ranks, own, into, op());
                }
            });
            for rank in 0..count {
                assert_eq!(scans[rank as usize], Affine::of_all(rank + 1), "{count}");
                if rank > 0 {
                    assert_eq!(exclusive[rank as usize], Affine::of_all(rank), "{count}");
                }
            }
        }
    }
}

#[test]
fn every_block_comes_to_its_place() {
    init();
    for count in 1..=MOST {
        for trees in [false, true] {
            let n = count as usize;
            let block = |from: usize, to: usize| Affine(from as u32 + 1, to as u32 + 1);
            let mut given: Vec<Vec<Affine>> = (0..n)
                .map(|from| (0..n).map(|to| block(from, to)).collect())
                .collect();
            let mut got = vec![vec![Affine::default(); n]; n];
            let mut schedules = Vec::new();
            for me in 0..n {
                let given: Vec<Data> = given[me].iter_mut().map(data).collect();
                let got: Vec<Data> = got[me].iter_mut().map(data).collect();
                let (given, got) = (
                    |to: i32| Ok(given[to as usize]),
                    |from: i32| Ok(got[from as usize]),
                );
                let me = Some(me as i32);
                let mut plan = Schedule::alone();
                let made = match trees {
                    true => plan.pairwise(Ranks { count, me }, &given, &got, false),
                    false => plan.linear_exchange(Ranks { count, me }, &given, &got, false),
                };
                made.expect("blocks");
                schedules.push(plan);
            }
            simulate(schedules);
            for (to, got) in got.iter().enumerate() {
                let expected: Vec<_> = (0..n).map(|from| block(from, to)).collect();
                assert_eq!(*got, expected, "{count}");
            }
        }
    }
}

#[test]
fn a_ring_brings_every_block_to_everyone() {
    init();
    for count in 1..=MOST {
        let n = count as usize;
        let mut own: Vec<Affine> = (0..count).map(Affine::of).collect();
        let mut got = vec![vec![Affine::default(); n]; n];
        let mut schedules = Vec::new();
        for (me, (own, got)) in own.iter_mut().zip(&mut got).enumerate() {
            let blocks: Vec<Data> = got.iter_mut().map(data).collect();
            let me = Some(me as i32);
            let mut plan = Schedule::alone();
            plan.ring(Ranks { count, me }, Some(data(own)), &|rank| {
                Ok(blocks[rank as usize])
            })
            .expect("blocks");
            schedules.push(plan);
        }
        simulate(schedules);
        let expected: Vec<_> = (0..count).map(Affine::of).collect();
        assert!(got.iter().all(|got| *got == expected), "{count}");
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_are_there() {
    init();
    for count in 2..=MOST {
        for (late, trees) in (0..count).flat_map(|late| [(late, false), (late, true)]) {
            let schedules: Vec<Schedule> = (0..count)
                .map(|rank| {
                    let ranks = Ranks {
                        count,
                        me: Some(rank),
                    };
                    let mut plan = Schedule::alone();
                    match trees {
                        true => plan.tree_barrier(ranks),
                        false => plan.linear_barrier(ranks).expect("no data"),
                    }
                    plan
                })
                .collect();
            assert!(
                count == 1 || left_without(schedules, late).is_empty(),
                "{count} {late}"
            );
        }
    }
}

/// The ranks that leave a barrier without the one that is late.
fn left_without(mut schedules: Vec<Schedule>, late: i32) -> Vec<usize> {
    let mut sent: HashMap<(i32, i32), u32> = HashMap::new();
    let mut waits: Vec<Vec<i32>> = schedules.iter().map(|_| Vec::new()).collect();
    let mut left = Vec::new();
    loop {
        let mut moved = false;
        for rank in (0..schedules.len()).filter(|rank| *rank as i32 != late) {
            let mut of = |from: &i32| {
                let number = sent.entry((*from, rank as i32)).or_default();
                let there = *number > 0;
                *number -= u32::from(there);
                !there
            };
            waits[rank].retain(&mut of);
            if !waits[rank].is_empty() || left.contains(&rank) {
                continue;
            }
            moved = true;
            let Some(round) = schedules[rank].rounds.pop_front() else {
                left.push(rank);
                continue;
            };
            for message in round.messages {
                match message {
                    Message::Send(_, to) => *sent.entry((rank as i32, to)).or_default() += 1,
                    Message::Receive(_, from) => waits[rank].push(from),
                }
            }
        }
        if !moved {
            return left;
        }
    }
}
