//! The ranks bring the memory that they share back together, step by step (`restart::SharedMemory`).

use anyhow::Result;
use restart::{Claim, Made, Opened, SharedMemory};
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::mpi::world::{self, World};
use crate::BAD_IMAGE;

/// Makes, opens and fills what this rank's image shares. Where one rank cannot, all end here, before
/// anything of an upper half is mapped.
pub fn restore(opened: &Opened, world: Option<&World>) -> Result<SharedMemory> {
    let Some(world) = world else {
        return Ok(opened.share_alone()?);
    };
    let nothing = opened.image().shared().is_empty();
    if world::minimum(i64::from(nothing))? == 1 {
        return Ok(SharedMemory::default());
    }
    let rank = world.rank as usize;
    let claims: Vec<Claim> = together(world, Claim::of(opened.image()))?;
    let mut shared = SharedMemory::default();
    let made: Vec<Vec<Made>> = together(world, {
        SharedMemory::new(opened.set().name(), rank, &claims).and_then(|new| {
            shared = new;
            shared.make()
        })
    })?;
    together::<(), _>(world, shared.join(rank, &claims, &made))?;
    together::<(), _>(world, shared.fill(opened.image()))?;
    Ok(shared)
}

/// What the step came to in each rank. Where it failed in one, that one says so and the others end.
fn together<T, E>(world: &World, result: Result<T, E>) -> Result<Vec<T>>
where
    T: Serialize + DeserializeOwned,
    E: std::error::Error + Send + Sync + 'static,
{
    let all: Vec<Option<T>> = world::gather_values(&result.as_ref().ok(), world.size)?;
    if let Some(all) = all.into_iter().collect() {
        return Ok(all);
    }
    world::finalize();
    match result {
        Err(error) => Err(error.into()),
        // The rank that cannot says why.
        Ok(_) => std::process::exit(BAD_IMAGE),
    }
}
