//! All paths through a [`World`].
//!
//! Moves whose order nobody can see are made at once, in a fixed order ([`World::settled`]). Time
//! passes only where nothing else can move, or as a fault. A state from which nothing moves must be
//! the end; a state from which a path leads back to itself would mean that a checkpoint may take for
//! ever, and is looked for, too. That is what the model checkers at hand do not do (`stateright`
//! takes a way back for a way that was seen to end), beside starting threads and keeping a copy of
//! the path for every state; it visits the same states (`second_opinion.rs`).

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use super::digest::{digest, Digested};
use super::process::Job;
use super::program::Program;
use super::{Move, Variant, World};
use stasis_coordinator::protocol::ToRank;

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Different states.
    pub states: usize,
    /// What goes wrong, and how it comes to that.
    pub wrong: Option<String>,
}

/// Visits every state, until something is wrong.
pub fn explore(program: &Program, variant: Variant, requests: u32) -> Found {
    let mut exploration = Exploration {
        program,
        seen: Digests::default(),
        on_path: Digests::default(),
        path: Vec::new(),
    };
    let start = World::new(program, variant, requests).settled(program);
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
    /// Digests of all states that were met.
    seen: Digests,
    /// Of those on the present path.
    on_path: Digests,
    path: Vec<Step>,
}

/// A state on the present path.
struct Step {
    world: World,
    digest: u128,
    /// How the path came here.
    by: Option<Move>,
    /// What has not been followed yet.
    next: Vec<(Move, World)>,
}

impl Exploration<'_> {
    /// Goes on to a state, if it is new.
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

/// Moves after which a world that nobody influences counts as going on for ever.
const ENDLESS: usize = 10_000;

impl World {
    /// The world once every move has been made whose order nobody can see; but not those that may
    /// also go wrong.
    pub fn settled(mut self, program: &Program) -> World {
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

    /// The settled world after a move, if that is possible.
    pub fn after(&self, program: &Program, m: Move) -> Option<World> {
        let mut world = self.clone();
        world.make(program, m).then(|| world.settled(program))
    }

    /// What follows from here; or what is wrong here.
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
                    (*m, after.settled(program))
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

    /// Moves whose order nobody can see, so that they may be made at once, in turn:
    ///
    /// - A checkpoint is asked for at the first possible moment: that ranks hear of it arbitrarily
    ///   late is the same as asking later. When none is pending or wanted any more, any order will do.
    /// - The disk answers, background work goes on, threads stop once they are told to: whoever waits
    ///   for these does nothing else, and a late stop is the same as hearing of it late. An image that
    ///   is written from a copy is on disk at any time.
    /// - What a rank tells is heard, and its agent looks, as soon as possible; what differs if it does
    ///   not is for `late_reports` to find out.
    /// - Before a rank hears of a checkpoint, it makes no difference whether what it does apart from
    ///   collective operations comes before or after.
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

/// A move that may go wrong instead, by a fault.
fn twin(m: Move) -> Option<Move> {
    match m {
        Move::Store => Some(Move::StoreFails),
        Move::Job(r) => Some(Move::JobFails(r)),
        _ => None,
    }
}
