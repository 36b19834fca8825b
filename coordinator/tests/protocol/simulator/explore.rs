//! All paths through a [`World`].
//!
//! Moves whose order nobody can see are made at once, in a fixed order ([`World::settled`]). Time
//! passes only where nothing else can move, or as a fault. A state from which nothing moves must be
//! the end; a state from which a path leads back to itself would mean that a checkpoint may take for
//! ever, and is looked for, too. That is what the model checkers at hand do not do (`stateright`
//! takes a way back for a way that was seen to end), beside starting threads and keeping a copy of
//! the path for every state; it visits the same states (`second_opinion.rs`).

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

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
        seen: HashSet::new(),
        on_path: HashSet::new(),
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

struct Exploration<'a> {
    program: &'a Program,
    /// Digests of all states that were met.
    seen: HashSet<u128>,
    /// Of those on the present path.
    on_path: HashSet<u128>,
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

/// States are told apart by 128 bits, to keep millions of them in memory.
fn digest(world: &World) -> u128 {
    let mut digest = Digest(0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f);
    world.hash(&mut digest);
    u128::from(digest.0) << 64 | u128::from(digest.1)
}

/// Two lanes of folded multiplication.
struct Digest(u64, u64);

impl Digest {
    fn add(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, 0xa076_1d64_78bd_642f);
        self.1 = fold(self.1.rotate_left(23) ^ word, 0xe703_7ed1_a0b4_28db);
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut all = [0; 8];
            all[..word.len()].copy_from_slice(word);
            self.add(u64::from_le_bytes(all) ^ (word.len() as u64) << 56);
        }
    }
    fn write_u8(&mut self, n: u8) {
        self.add(n.into());
    }
    fn write_u32(&mut self, n: u32) {
        self.add(n.into());
    }
    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }
    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }
    fn write_isize(&mut self, n: isize) {
        self.add(n as u64);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
