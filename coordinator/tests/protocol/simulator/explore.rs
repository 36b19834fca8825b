//! All paths through a [`World`].
//!
//! Moves with an unobservable order are made at once, in a fixed order ([`World::normalized`]). Time passes
//! only where nothing else can move, or as a fault. A state without moves must be the end. A path from a
//! state back to itself would mean that a checkpoint may take for ever, so such paths are searched for too.
//! Other model checkers do not do that (`stateright` takes a way back for a way that was seen to end); they
//! also start threads and keep a copy of the path for every state. Our explorer visits the same states
//! (`second_opinion.rs`).

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use super::digest::{digest, Digested};
use super::process::Job;
use super::program::Program;
use super::{Move, Variant, World};
use stasis_coordinator::protocol::ToRank;

/// Result of an exploration.
#[derive(Debug, Default)]
pub struct Found {
    /// Number of different states.
    pub states: usize,
    /// Description of the first failure, with the path to it.
    pub wrong: Option<String>,
}

/// Visits every state, until a failure.
pub fn explore(program: &Program, variant: Variant, requests: u32) -> Found {
    let mut exploration = Exploration {
        program,
        seen: Digests::default(),
        on_path: Digests::default(),
        path: Vec::new(),
    };
    let start = World::new(program, variant, requests).normalized(program);
    let mut wrong = exploration.enter(None, start).err();
    while let (None, Some(step)) = (&wrong, exploration.path.last_mut()) {
        match step.next.pop() {
            Some((m, world)) => wrong = exploration.enter(Some(m), world).err(),
            None => {
                exploration.on_path.remove(&step.digest);
                exploration.path.pop();
            }
        }
    }
    Found {
        states: exploration.seen.len(),
        wrong: wrong.map(|wrong| exploration.tell(&wrong)),
    }
}

type Digests = HashSet<u128, BuildHasherDefault<Digested>>;

struct Exploration<'a> {
    program: &'a Program,
    /// Digests of all visited states.
    seen: Digests,
    /// Digests of the states on the present path.
    on_path: Digests,
    path: Vec<Step>,
}

/// A state on the present path.
struct Step {
    world: World,
    digest: u128,
    /// Move that led to the state.
    by: Option<Move>,
    /// Successors that are not followed yet.
    next: Vec<(Move, World)>,
}

impl Exploration<'_> {
    /// Enters a state, if it is new.
    fn enter(&mut self, by: Option<Move>, world: World) -> Result<(), String> {
        let digest = digest(&world);
        let new = self.seen.insert(digest);
        if !new && !self.on_path.contains(&digest) {
            return Ok(());
        }
        let next = match new {
            true => world.successors(self.program),
            false => Err("goes on for ever".to_string()),
        };
        let (next, found) = match next {
            Ok(next) => (next, Ok(())),
            Err(wrong) => (Vec::new(), Err(wrong)),
        };
        self.on_path.insert(digest);
        self.path.push(Step {
            world,
            digest,
            by,
            next,
        });
        found
    }

    fn tell(&self, wrong: &str) -> String {
        let moves: Vec<Move> = self.path.iter().filter_map(|step| step.by).collect();
        let last = self.path.last();
        let last = last.map(|step| step.world.describe(self.program));
        format!(
            "{wrong}\n{}{:?}\n{moves:?}",
            last.unwrap_or_default(),
            self.program
        )
    }
}

/// Number of moves after which an uninfluenced world counts as going on for ever.
const ENDLESS: usize = 10_000;

impl World {
    /// The world after every move with an unobservable order; moves that may also fail are left out.
    pub fn normalized(mut self, program: &Program) -> World {
        for _ in 0..ENDLESS {
            if self.broken.is_some() {
                return self;
            }
            let m = self
                .urgent(program)
                .into_iter()
                .find(|m| (self.faults_left == 0 || twin(*m).is_none()) && self.make(program, *m));
            if m.is_none() {
                return self;
            }
        }
        self.broken = Some("goes on for ever".to_string());
        self
    }

    /// The normalized world after a move, if the move is possible.
    pub fn after(&self, program: &Program, m: Move) -> Option<World> {
        let mut world = self.clone();
        world.make(program, m).then(|| world.normalized(program))
    }

    /// The successors of this state, or its failure.
    pub fn successors(&self, program: &Program) -> Result<Vec<(Move, World)>, String> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let mut trial = self.clone();
        let mut follow = |moves: &[Move]| -> Vec<(Move, World)> {
            let mut one = |m: &Move| {
                let possible = trial.make(program, *m);
                possible.then(|| {
                    let after = std::mem::replace(&mut trial, self.clone());
                    (*m, after.normalized(program))
                })
            };
            moves.iter().filter_map(&mut one).collect()
        };
        for m in self.urgent(program) {
            let next = follow(&[Some(m), twin(m)].into_iter().flatten().collect::<Vec<_>>());
            if !next.is_empty() {
                return Ok(next);
            }
        }
        let mut next = follow(&self.moves());
        if next.is_empty() && !self.done(program) {
            next = follow(&[Move::Tick]);
            if next.is_empty() {
                return Err("hangs".to_string());
            }
        }
        next.extend(follow(&self.faults()));
        Ok(next)
    }

    /// Moves with an unobservable order, which may be made at once, in turn:
    ///
    /// - A checkpoint is requested at the first possible moment. Receiving the intent arbitrarily late is
    ///   the same as requesting later. When no checkpoint is pending or requested any more, any order will
    ///   do.
    /// - The disk answers, background work goes on, and threads stop once they are ordered to. The ranks
    ///   that wait for these do nothing else, and a late stop is the same as a late order. An image that is
    ///   written from a copy is on disk at any time.
    /// - Reports of ranks are received, and agents take snapshots, as soon as possible. The variant
    ///   `late_reports` covers the rest.
    /// - Before a rank has received the intent, its actions other than collective operations may come
    ///   before or after it.
    fn urgent(&self, program: &Program) -> Vec<Move> {
        let ended = self.committed + self.failed > 0 && self.requests_left == 0;
        if self.idle() && (ended || self.coordinator_dead) {
            return self.moves();
        }
        let mut moves = vec![Move::Request, Move::Store];
        if self.variant.late_reports {
            return moves;
        }
        let ranks = 0..self.processes.len() as u32;
        for (r, p) in ranks.zip(&self.processes) {
            moves.extend([Move::Look(r), Move::Hear(r)]);
            if p.job != Some(Job::Write) {
                moves.push(Move::Job(r));
            }
            if matches!(p.inbox.front(), Some(ToRank::Save { .. })) {
                moves.push(Move::Agent(r));
            }
            let op = program.ops[r as usize].get(p.pc);
            if p.machine.idle() && op.is_some_and(|op| !op.is_collective()) {
                moves.push(Move::App(r));
            }
        }
        moves
    }
}

/// The failing variant of a move, by a fault.
fn twin(m: Move) -> Option<Move> {
    match m {
        Move::Store => Some(Move::StoreFails),
        Move::Job(r) => Some(Move::JobFails(r)),
        _ => None,
    }
}
