//! Two ways through a [`World`]: one random path, or all of them.

use std::collections::HashSet;

use super::program::{Program, Random};
use super::{Move, Variant, World};

/// Ticks in a row after which a world in which nothing else moves counts as hanging.
const PATIENCE: u32 = 16;

/// Follows one random path to the end. `Err` describes a hang.
pub fn random_path(
    program: &Program,
    variant: Variant,
    requests: u32,
    random: &mut Random,
) -> Result<World, String> {
    let mut world = World::new(program, variant, requests);
    let mut idle = 0;
    for _ in 0..200_000 {
        let mut moves = world.moves();
        random.shuffle(&mut moves);
        // Requests come at any time, not always at once.
        let early = random.chance(97);
        let failing = random.chance(95);
        moves.retain(|m| !(early && *m == Move::Request));
        moves.retain(|m| !(failing && matches!(m, Move::JobFails(_) | Move::StoreFails)));
        if random.chance(2) {
            moves.insert(0, Move::Tick);
        }
        if moves.into_iter().any(|m| world.make(program, m)) {
            idle = 0;
            continue;
        }
        if world.make(program, Move::Request) {
            continue;
        }
        if world.done(program) {
            return Ok(world);
        }
        idle += 1;
        if idle > PATIENCE {
            return Err(world.describe(program));
        }
        world.make(program, Move::Tick);
    }
    Err(format!("goes on for ever\n{}", world.describe(program)))
}

/// What [`everything`] found.
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// First hang, if any.
    pub hang: Option<String>,
    /// The largest number of checkpoints that any ending has committed.
    pub committed: u32,
}

/// Visits every state that can be reached until one hangs, except that time passes only where nothing else can
/// move, and that what nobody can see the order of is done at once ([`World::urgent`]).
pub fn everything(program: &Program, variant: Variant, requests: u32) -> Explored {
    let start = World::new(program, variant, requests);
    let mut seen = HashSet::from([digest(&start)]);
    let mut todo = vec![start];
    let mut found = Explored {
        states: 0,
        hang: None,
        committed: 0,
    };
    while let Some(world) = todo.pop() {
        found.states += 1;
        let mut moved = false;
        if let Some(next) = world.urgent(program) {
            if seen.insert(digest(&next)) {
                todo.push(next);
            }
            continue;
        }
        for m in world.moves() {
            let mut next = world.clone();
            if next.make(program, m) {
                moved |= m != Move::Request;
                if seen.insert(digest(&next)) {
                    todo.push(next);
                }
            }
        }
        if moved {
            continue;
        }
        if world.done(program) {
            found.committed = found.committed.max(world.committed);
            continue;
        }
        let mut next = world.clone();
        for _ in 0..PATIENCE {
            next.make(program, Move::Tick);
        }
        if digest(&next) == digest(&world) || !able(program, &next) {
            found.hang = Some(world.describe(program));
            return found;
        } else if seen.insert(digest(&next)) {
            todo.push(next);
        }
    }
    found
}

fn able(program: &Program, world: &World) -> bool {
    let mut moves = world.moves().into_iter();
    moves.any(|m| m != Move::Request && world.clone().make(program, m))
}

/// States are told apart by 128 bits, to keep millions of them in memory.
fn digest(world: &World) -> u128 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        world.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}
