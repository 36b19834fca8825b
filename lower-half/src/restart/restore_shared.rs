//! The restore of memory that ranks share. The ranks take the steps of `restart::SharedMemory` together.

use ::restart::{CreatedObject, Opened, SharedClaim, SharedMemory};
use anyhow::Result;
use ckpt_image::kind;
use job_spec::ExitCode;
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::mpi::world::{self, World};

/// Creates, opens and fills the shared objects of this rank's image. If one rank fails, all ranks end here, before any
/// memory of an upper half is mapped.
pub fn restore(opened: &Opened, world: Option<&World>) -> Result<SharedMemory> {
    let Some(world) = world else {
        return Ok(opened.share_alone()?);
    };
    let nothing = opened.image().shared().is_empty();
    if world::minimum(i64::from(nothing))? == 1 {
        return Ok(SharedMemory::default());
    }
    let rank = world.rank as usize;
    let claims: Vec<SharedClaim> = together(world, SharedClaim::of(opened.image()))?;
    let mut shared = SharedMemory::default();
    let created: Vec<Vec<CreatedObject>> = together(world, {
        SharedMemory::new(opened.set().name(), rank, &claims).and_then(|new| {
            shared = new;
            shared.create()
        })
    })?;
    together::<(), _>(world, shared.join(rank, &claims, &created))?;
    together::<(), _>(world, shared.fill(opened.image()))?;
    Ok(shared)
}

/// Maps the memory of this rank's image, and tells the loader what it has to know of that.
pub fn map(opened: &mut Opened, shared: &SharedMemory) -> Result<()> {
    opened.map(shared)?;
    if opened.maps_files_to_write() {
        loader::note_shared_file();
    }
    if opened.section(kind::GUARD_PAGES).is_some() {
        loader::note_guard_pages();
    }
    loader::set_shm_ids(shared.segments().to_vec());
    Ok(())
}

/// The results of a step in all ranks. If the step failed in a rank, that rank returns its error and the others end.
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
        // The rank that failed prints the reason.
        Ok(_) => std::process::exit(ExitCode::Image.number()),
    }
}
