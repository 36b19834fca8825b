//! All programs of a given size, up to symmetry.
//!
//! A program is a set of events, messages and collective operations. For every rank it has an order of the
//! operations that the events need: one of each member for a blocking collective, initiation and completion
//! for a non-blocking one, and so on. All orders are enumerated that keep each event's own operations in
//! order, and the collectives of one communicator in the same order in all ranks. Three kinds of programs
//! are left out: incorrect ones, which may hang without a checkpoint; those with an idle rank, which
//! smaller programs cover; and those that differ from another only in the names of ranks, communicators and
//! requests.

use std::collections::{BTreeMap, BTreeSet};

use super::explore::explore;
use super::program::{Op, Program};
use super::Variant;

/// Size and kinds of the enumerated programs.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Exact number of ranks.
    pub ranks: u32,
    /// Largest number of communicators, with any members; several may have the same.
    pub comms: usize,
    /// Exact number of events.
    pub events: usize,
    /// Kinds of messages.
    pub messages: Messages,
    /// Kinds of collective operations.
    pub collectives: Collectives,
}

/// Mode of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sending {
    /// Buffered by the library.
    Eager,
    /// Blocks until the message is received.
    Rendezvous,
    /// Non-blocking, complete when the message is received.
    Started,
}

/// Mode of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receiving {
    Named,
    AnySource,
    /// A receive that is posted first and waited for later.
    Posted,
    PostedAnySource,
}

/// Kinds of messages in the programs.
#[derive(Clone, Copy, Debug)]
pub enum Messages {
    /// Every mode of send with every mode of receive.
    All,
    /// The modes that differ most in their demands on a checkpoint.
    Few,
    /// Buffered sends and blocking receives only.
    One,
}

impl Messages {
    fn kinds(self) -> Vec<(Sending, Receiving)> {
        use {Receiving::*, Sending::*};
        match self {
            Messages::All => [Eager, Rendezvous, Started]
                .into_iter()
                .flat_map(|s| [Named, AnySource, Posted, PostedAnySource].map(|r| (s, r)))
                .collect(),
            Messages::Few => vec![(Eager, Named), (Rendezvous, Posted)],
            Messages::One => vec![(Eager, Named)],
        }
    }
}

/// Kinds of collective operations in the programs.
#[derive(Clone, Copy, Debug)]
pub enum Collectives {
    All,
    Blocking,
}

impl Collectives {
    /// Whether each kind is blocking.
    fn kinds(self) -> &'static [bool] {
        match self {
            Collectives::All => &[true, false],
            Collectives::Blocking => &[true],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Message {
        from: u32,
        to: u32,
        send: Sending,
        receive: Receiving,
    },
    Collective {
        comm: usize,
        blocking: bool,
    },
}

/// Members of a communicator, one bit each.
type Members = u32;

/// All programs of a scope.
pub fn programs(scope: Scope) -> BTreeSet<Program> {
    let mut made = BTreeSet::new();
    let all: Vec<Members> = (1..1 << scope.ranks).collect();
    for count in 0..=scope.comms.min(scope.events) {
        multisets(&all, count, &mut |comms| of_comms(scope, comms, &mut made));
    }
    made.retain(|program| explore(program, Variant::OURS, 0).wrong.is_none());
    made
}

/// All programs of a scope in which one rank computes for ever. The computation takes the place of one of its
/// operations and of those after it.
pub fn endless_programs(scope: Scope) -> BTreeSet<Program> {
    let cut = |program: &Program| {
        let places = (0..).zip(&program.ops).collect::<Vec<_>>();
        let places = places
            .into_iter()
            .flat_map(|(r, ops)| (0..ops.len()).map(move |at| (r, at)));
        let endless = places.map(|(r, at): (usize, usize)| {
            let mut program = program.clone();
            program.ops[r].truncate(at);
            program.ops[r].push(Op::Never);
            program
        });
        endless.collect::<Vec<_>>()
    };
    programs(scope).iter().flat_map(cut).collect()
}

fn of_comms(scope: Scope, comms: &[Members], made: &mut BTreeSet<Program>) {
    // One of the equivalent namings of the ranks suffices: one with the communicators first.
    if permutations(scope.ranks)
        .iter()
        .any(|names| renamed(comms, names) < comms.to_vec())
    {
        return;
    }
    let mut choices = Vec::new();
    for comm in 0..comms.len() {
        let kinds = scope.collectives.kinds().iter();
        choices.extend(kinds.map(|&blocking| Event::Collective { comm, blocking }));
    }
    for (from, to) in (0..scope.ranks).flat_map(|f| (0..scope.ranks).map(move |t| (f, t))) {
        if from != to {
            let kinds = scope.messages.kinds().into_iter();
            choices.extend(kinds.map(|(send, receive)| Event::Message {
                from,
                to,
                send,
                receive,
            }));
        }
    }
    multisets(&choices, scope.events, &mut |events| {
        let used = |comm| {
            events
                .iter()
                .any(|e| matches!(e, Event::Collective { comm: c, .. } if *c == comm))
        };
        if (0..comms.len()).all(used) {
            // The order of one communicator's collectives matters, and that of one pair's messages.
            for order in orders(events) {
                of_events(scope, comms, &order, made);
            }
        }
    });
}

/// All distinct orders of the events that share a communicator or a pair of ranks.
fn orders(events: &[Event]) -> BTreeSet<Vec<Event>> {
    let class = |event: &Event| match *event {
        Event::Collective { comm, .. } => (0, comm as u32, 0),
        Event::Message { from, to, .. } => (1, from, to),
    };
    let mut orders = BTreeSet::new();
    for names in permutations(events.len() as u32) {
        let mut order: Vec<Event> = names.iter().map(|i| events[*i as usize]).collect();
        order.sort_by_key(class);
        orders.insert(order);
    }
    orders
}

fn of_events(scope: Scope, comms: &[Members], events: &[Event], made: &mut BTreeSet<Program>) {
    let mut ranks: Vec<Vec<Vec<Op>>> = Vec::new();
    for rank in 0..scope.ranks {
        let parts: Vec<SharedRange> = parts(comms, events, rank);
        if parts.is_empty() {
            return;
        }
        let mut ways = Vec::new();
        interleave(&parts, &mut vec![0; parts.len()], &mut vec![], &mut ways);
        ranks.push(ways);
    }
    let members = |bits: &Members| (0..scope.ranks).filter(|r| bits >> r & 1 == 1).collect();
    let lists: Vec<Vec<u32>> = comms.iter().map(members).collect();
    let lists: Vec<&[u32]> = lists.iter().map(Vec::as_slice).collect();
    let names = permutations(scope.ranks);
    product(&ranks, &mut vec![], &mut |ops| {
        let program = Program::new(&lists, ops.to_vec());
        let least = names.iter().map(|n| canonical(&program, n)).min();
        made.extend(least);
    });
}

/// Operations that an event needs of one rank, in order, and the class that they must not overtake.
struct SharedRange {
    ops: Vec<Op>,
    /// Parts of one class begin in their order.
    class: (u32, u32),
}

fn parts(comms: &[Members], events: &[Event], rank: u32) -> Vec<SharedRange> {
    let mut parts = Vec::new();
    for (request, event) in events.iter().enumerate() {
        let wait = Op::Wait { request };
        let (ops, class) = match *event {
            Event::Collective { comm, blocking } if comms[comm] >> rank & 1 == 1 => {
                let ops = match blocking {
                    true => vec![Op::Collective { comm, early: false }],
                    false => vec![Op::Initiate { comm, request }, wait],
                };
                (ops, (0, comm as u32))
            }
            Event::Message { from, to, send, .. } if from == rank => {
                let rendezvous = send == Sending::Rendezvous;
                let ops = match send {
                    Sending::Started => vec![
                        Op::Isend {
                            to,
                            tag: 0,
                            request,
                        },
                        wait,
                    ],
                    _ => vec![Op::Send {
                        to,
                        tag: 0,
                        rendezvous,
                    }],
                };
                (ops, (1, to))
            }
            Event::Message {
                from, to, receive, ..
            } if to == rank => {
                let any = matches!(receive, Receiving::AnySource | Receiving::PostedAnySource);
                let from = (!any).then_some(from);
                let ops = match receive {
                    Receiving::Named | Receiving::AnySource => vec![Op::Recv { from, tag: 0 }],
                    _ => vec![
                        Op::Irecv {
                            from,
                            tag: 0,
                            request,
                        },
                        wait,
                    ],
                };
                (ops, (2, from.unwrap_or(u32::MAX)))
            }
            _ => continue,
        };
        parts.push(SharedRange { ops, class });
    }
    parts
}

fn interleave(
    parts: &[SharedRange],
    at: &mut Vec<usize>,
    ops: &mut Vec<Op>,
    ways: &mut Vec<Vec<Op>>,
) {
    if parts
        .iter()
        .zip(at.iter())
        .all(|(part, i)| *i == part.ops.len())
    {
        ways.push(ops.clone());
        return;
    }
    for i in 0..parts.len() {
        let later = || {
            parts[..i]
                .iter()
                .zip(at.iter())
                .any(|(p, at)| *at == 0 && p.class == parts[i].class)
        };
        if at[i] == parts[i].ops.len() || (at[i] == 0 && later()) {
            continue;
        }
        ops.push(parts[i].ops[at[i]]);
        at[i] += 1;
        interleave(parts, at, ops, ways);
        at[i] -= 1;
        ops.pop();
    }
}

/// The program with renamed ranks, and with communicators and requests in the order of their use.
fn canonical(program: &Program, names: &[u32]) -> Program {
    let mut ops = vec![vec![]; names.len()];
    for (rank, list) in program.ops.iter().enumerate() {
        ops[names[rank] as usize].clone_from(list);
    }
    let mut comms = BTreeMap::new();
    for list in &mut ops {
        let mut requests = BTreeMap::new();
        let mut request = |r: &mut usize| {
            let next = requests.len();
            *r = *requests.entry(*r).or_insert(next);
        };
        let mut comm = |c: &mut usize| {
            let next = comms.len();
            *c = *comms.entry(*c).or_insert(next);
        };
        let name = |r: &mut u32| *r = names[*r as usize];
        for op in list {
            match op {
                Op::Compute | Op::Never | Op::Create { .. } | Op::CreateGroup { .. } => {}
                Op::Send { to, .. } => name(to),
                Op::Isend { to, request: r, .. } => {
                    name(to);
                    request(r);
                }
                Op::Recv { from, .. } => from.iter_mut().for_each(name),
                Op::Irecv {
                    from, request: r, ..
                } => {
                    from.iter_mut().for_each(name);
                    request(r);
                }
                Op::Wait { request: r } => request(r),
                Op::Collective { comm: c, .. } => comm(c),
                Op::Initiate {
                    comm: c,
                    request: r,
                } => {
                    comm(c);
                    request(r);
                }
            }
        }
    }
    let mut members = vec![vec![]; program.comms.len()];
    for (old, new) in comms {
        let renamed = program.comms[old]
            .members
            .iter()
            .map(|m| names[*m as usize]);
        members[new] = renamed.collect();
        members[new].sort_unstable();
    }
    let members: Vec<&[u32]> = members.iter().map(Vec::as_slice).collect();
    Program::new(&members, ops)
}

fn renamed(comms: &[Members], names: &[u32]) -> Vec<Members> {
    let one = |bits: &Members| {
        let bit = |(rank, name): (usize, &u32)| (bits >> rank & 1) << name;
        names.iter().enumerate().map(bit).sum()
    };
    let mut comms: Vec<Members> = comms.iter().map(one).collect();
    comms.sort_unstable();
    comms
}

fn permutations(n: u32) -> Vec<Vec<u32>> {
    let mut all = vec![vec![]];
    for i in 0..n {
        let longer = |p: &Vec<u32>| -> Vec<Vec<u32>> {
            let insert = |at: usize| {
                let mut p = p.clone();
                p.insert(at, i);
                p
            };
            (0..=p.len()).map(insert).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// All multisets of `count` items, in order.
fn multisets<T: Copy>(items: &[T], count: usize, give: &mut dyn FnMut(&[T])) {
    fn go<T: Copy>(items: &[T], count: usize, some: &mut Vec<T>, give: &mut dyn FnMut(&[T])) {
        if count == 0 {
            return give(some);
        }
        for (i, item) in items.iter().enumerate() {
            some.push(*item);
            go(&items[i..], count - 1, some, give);
            some.pop();
        }
    }
    go(items, count, &mut vec![], give);
}

fn product<T: Clone>(lists: &[Vec<T>], some: &mut Vec<T>, give: &mut dyn FnMut(&[T])) {
    match lists.get(some.len()) {
        None => give(some),
        Some(list) => {
            for item in list {
                some.push(item.clone());
                product(lists, some, give);
                some.pop();
            }
        }
    }
}
