//! The relocation of images that their ranks cannot read, because they are in local directories of other machines. A
//! rank that can read such an image copies it to the checkpoint directory. The image may be in the local directory of
//! its rank's former machine, or on the machine of a partner.
//!
//! MPI is initialised by then, and the ranks agree with collective operations. The images themselves take their usual
//! way, through the checkpoint directory, which all ranks can read.

use ::restart::RestartError;
use anyhow::Result;
use ckpt_image::{set_name, FileSystem, ImageError, Set};
use job_spec::RestartSpec;

use crate::console;
use crate::mpi::world::{self, World};
use crate::options;
use crate::start::keeper;

use super::copy;

/// The sets that all ranks have chosen.
pub struct Choices {
    /// Number of the oldest, 0 if a rank has none.
    pub oldest: u64,
    /// Number of the newest.
    pub newest: u64,
    /// Whether a rank cannot read its image.
    some_away: bool,
}

impl Choices {
    /// Tells all ranks what each has chosen, and whether it cannot read its image (`away`).
    pub fn gather(set: Option<&Set>, away: bool) -> Result<Choices> {
        let number = i64::try_from(set.map_or(0, Set::number))?;
        let (oldest, newest) = world::extremes(number)?;
        Ok(Choices {
            oldest: oldest.cast_unsigned(),
            newest: newest.cast_unsigned(),
            some_away: world::minimum(i64::from(!away))? == 0,
        })
    }

    /// Whether all ranks have chosen the same set.
    pub fn agree(&self) -> bool {
        self.oldest == self.newest
    }

    /// Copies the images of all ranks with `away` to the set, if all ranks have chosen the same set. An image that no
    /// rank can read stays missing. Returns whether copies were tried, the same value in all ranks.
    pub fn fetch(&self, set: Option<&Set>, away: bool, world: &World) -> Result<bool> {
        let Some(set) = set.filter(|_| self.some_away && self.agree()) else {
            return Ok(false);
        };
        let all: Vec<bool> = world::gather_values(&away, world.size)?;
        let away = (0..).zip(all).filter(|(_, away)| *away);
        for (rank, _) in away {
            // The lowest rank that can read the image copies it.
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

    /// Tells `stasis run`, if that has started the job, of a set that cannot be used because an image of it is damaged,
    /// or out of reach of all ranks. That is the set of this rank after [`Choices::fetch`], or a newer one that others
    /// have chosen: they cannot know that this machine has lost an image. `failed` is the reason why this rank cannot
    /// use its image. Returns whether the job starts again without the set, the same in all ranks.
    pub fn leave_out(
        &self,
        set: Option<&Set>,
        failed: Option<&anyhow::Error>,
        rank: u32,
        options: &RestartSpec,
    ) -> Result<bool> {
        let away = self.out_of_reach(set, rank, options);
        let told = match (&away, set.zip(failed)) {
            (Some(why), _) => keeper::unusable(self.newest, why),
            (None, Some((set, why))) => tell_damage(set, why),
            (None, None) => false,
        };
        Ok(world::minimum(-i64::from(told))? < 0)
    }

    /// Why the newest set is out of reach of this rank.
    fn out_of_reach(
        &self,
        set: Option<&Set>,
        rank: u32,
        options: &RestartSpec,
    ) -> Option<ImageError> {
        if self.agree() && !self.some_away {
            return None;
        }
        let its = match set.filter(|set| set.number() == self.newest) {
            Some(set) => Some(set.clone()),
            None => self.newest_set(options),
        };
        its.and_then(|set| set.check_reach(rank).err())
    }

    /// The newest set, if this rank can open it, which has chosen another one.
    fn newest_set(&self, options: &RestartSpec) -> Option<Set> {
        let key = options::key(&options.checkpoints).ok()?;
        let name = set_name(self.newest);
        Set::open(copy::directory(options), &name, key.as_ref()).ok()
    }
}

/// Tells `stasis run` that this rank's image of the set is damaged, if that is why the rank has failed. Returns whether
/// the job starts again without the set.
pub fn tell_damage(set: &Set, failed: &anyhow::Error) -> bool {
    let image = match failed.downcast_ref() {
        Some(RestartError::Image(why)) => Some(why),
        _ => failed.downcast_ref::<ImageError>(),
    };
    let damage = image.and_then(ImageError::damage_of_set);
    damage.is_some_and(|why| keeper::unusable(set.number(), why))
}

/// Copies the image of `rank`. After a failure the restart of that rank reports the missing image.
fn bring(set: &Set, rank: u32, own: u32) {
    let name = set.name();
    console::say(
        own,
        format_args!("copies the image of rank {rank} to {name}: that rank cannot reach it"),
    );
    if let Err(why) = set.drain(&FileSystem::default(), rank) {
        console::say(
            own,
            format_args!("cannot copy the image of rank {rank}: {why}"),
        );
    }
}
