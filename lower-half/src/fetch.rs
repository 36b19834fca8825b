//! Images that their ranks do not reach, because they lie in local directories of other machines, are brought
//! to the checkpoint directory by ranks that reach them: the image's own machine may have another rank now, or
//! a partner has kept a copy.
//!
//! MPI is up then, and what the ranks agree upon goes over it; the images themselves go by way of the checkpoint
//! directory, which all see and where they were to go anyway.

use anyhow::Result;
use ckpt_image::{Disk, Set};

use crate::mpi::world::{self, World};

/// Has the images of all ranks that are `away` brought to the set, if all ranks have chosen the same one and
/// somebody reaches them. Returns whether that was tried, which it is in all ranks or in none.
pub fn images(set: Option<&Set>, away: bool, world: &World) -> Result<bool> {
    if world::minimum(i64::from(!away))? == 1 {
        return Ok(false);
    }
    let number = i64::try_from(set.map_or(0, Set::number))?;
    let (oldest, newest) = world::extremes(number)?;
    let Some(set) = set.filter(|_| oldest == newest) else {
        return Ok(false);
    };
    let all: Vec<bool> = world::gather_values(&away, world.size)?;
    let away = (0..).zip(all).filter(|(_, away)| *away);
    for (rank, _) in away {
        // The lowest of those that can does it.
        let offer = match set.reaches(rank) {
            true => i64::from(world.rank),
            false => i64::MAX,
        };
        if world::minimum(offer)? == i64::from(world.rank) {
            bring(set, rank, world.rank);
        }
    }
    world::minimum(0)?;
    set.look_again();
    Ok(true)
}

/// Where it fails, the image's own rank finds it missing.
fn bring(set: &Set, rank: u32, own: u32) {
    let name = set.name();
    crate::say(
        own,
        format_args!("brings the image of rank {rank} to {name}: that rank cannot reach it"),
    );
    if let Err(why) = set.bring(&Disk::default(), rank) {
        crate::say(
            own,
            format_args!("the image of rank {rank} could not be brought: {why}"),
        );
    }
}
