//! One random path through a [`World`].

use super::program::{Program, Random};
use super::{Move, Variant, World};

/// Number of consecutive ticks after which a world without other moves counts as hanging.
const PATIENCE: u32 = 16;

/// Follows one random path to the end. `Err` describes a hang or a violated invariant.
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
        // Requests come at any time, not always at once; faults are rare.
        moves.retain(|m| *m != Move::Request);
        if random.chance(5) {
            moves.insert(0, Move::Request);
        }
        if random.chance(1) {
            let mut faults = world.faults();
            random.shuffle(&mut faults);
            moves.splice(0..0, faults);
        }
        if random.chance(2) {
            moves.insert(0, Move::Tick);
        }
        if moves.into_iter().any(|m| world.make(program, m)) {
            idle = 0;
            if world.broken.is_some() {
                return Err(world.describe(program));
            }
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
