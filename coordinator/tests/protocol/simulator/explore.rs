//! All paths through a [`World`].
//!
//! Moves whose order nobody can see are made at once, in a fixed order ([`World::urgent`]). Time
//! passes only where nothing else can move, or as a fault. A state from which nothing moves must be
//! the end; a state from which a path leads back to itself would mean that a checkpoint may take for
//! ever, and is looked for, too. That is what the model checkers at hand do not do (`stateright`
//! takes a way back for a way that was seen to end), beside starting threads and keeping a copy of
//! the path for every state; it visits the same states (`second_opinion.rs`).

use std::collections::HashMap;
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
    let start = World::new(program, variant, requests);
    if let Some(wrong) = start.wrong(program) {
        let wrong = format!("{wrong} at once\n{}", start.describe(program));
        return Found {
            states: 1,
            wrong: Some(wrong),
        };
    }
    // Whether the state is on the present path.
    let mut seen = HashMap::from([(digest(&start), true)]);
    let mut path = vec![Step::new(start, None, program)];
    while let Some(step) = path.last_mut() {
        let Some(m) = step.moves.pop() else {
            seen.insert(digest(&step.world), false);
            path.pop();
            continue;
        };
        let mut next = step.world.clone();
        if !next.make(program, m) {
            continue;
        }
        let wrong = match seen.get(&digest(&next)) {
            Some(true) => Some("goes on for ever".to_string()),
            Some(false) => continue,
            None => next.wrong(program),
        };
        seen.insert(digest(&next), true);
        path.push(Step::new(next, Some(m), program));
        if let Some(wrong) = wrong {
            return Found {
                states: seen.len(),
                wrong: Some(tell(program, &path, &wrong)),
            };
        }
    }
    Found {
        states: seen.len(),
        wrong: None,
    }
}

/// A state on the present path.
struct Step {
    world: World,
    /// How the path came here.
    by: Option<Move>,
    /// What has not been followed yet.
    moves: Vec<Move>,
}

impl Step {
    fn new(world: World, by: Option<Move>, program: &Program) -> Step {
        let moves = world.next_moves(program);
        Step { world, by, moves }
    }
}

fn tell(program: &Program, path: &[Step], wrong: &str) -> String {
    let moves: Vec<Move> = path.iter().filter_map(|step| step.by).collect();
    let last = path.last().map(|step| step.world.describe(program));
    format!(
        "{wrong}\n{}{program:?}\n{moves:?}",
        last.unwrap_or_default()
    )
}

impl World {
    /// The moves to follow from here; most of them are possible.
    pub fn next_moves(&self, program: &Program) -> Vec<Move> {
        if self.broken.is_some() {
            return vec![];
        }
        let mut trial = self.clone();
        let urgent = self
            .urgent(program)
            .into_iter()
            .find(|m| trial.make(program, *m));
        if let Some(m) = urgent {
            // It may go wrong instead.
            let twin = match m {
                Move::Store => Some(Move::StoreFails),
                Move::Job(r) => Some(Move::JobFails(r)),
                _ => None,
            };
            let twin = twin.filter(|_| self.faults_left > 0);
            return [m].into_iter().chain(twin).collect();
        }
        let mut moves = Vec::new();
        for m in self.moves() {
            if trial.make(program, m) {
                moves.push(m);
                trial = self.clone();
            }
        }
        if moves.is_empty() && !self.done(program) {
            moves.push(Move::Tick);
        }
        moves.extend(self.faults());
        moves
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

    /// What is wrong with this state, if anything.
    pub fn wrong(&self, program: &Program) -> Option<String> {
        if self.broken.is_some() {
            return self.broken.clone();
        }
        let stuck = |m: &Move| !self.clone().make(program, *m);
        let hangs = !self.done(program)
            && self.urgent(program).iter().all(stuck)
            && self.moves().iter().all(stuck)
            && stuck(&Move::Tick);
        hangs.then(|| "hangs".to_string())
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
