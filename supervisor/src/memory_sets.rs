//! The checkpoints in memory: for each rank a child that has a copy of its memory. Only the newest one is kept. While
//! the next one is being taken, there are two.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use ckpt_image::SetId;
use dump::HeldImage;
use nix::unistd::Pid;

/// A message of a rank about checkpoints in memory.
pub enum Word {
    /// A rank has handed over its image.
    Holds {
        /// The set.
        set: SetId,
        /// Its number.
        number: u64,
        /// The rank.
        rank: u32,
        /// Number of ranks of the job.
        ranks: u32,
        /// The image.
        image: HeldImage,
    },
    /// All ranks have handed over their images of the set.
    Held(SetId),
    /// The set was given up.
    NotHeld(SetId),
}

/// A checkpoint in memory.
pub struct MemorySet {
    id: SetId,
    number: u64,
    ranks: u32,
    images: BTreeMap<u32, HeldImage>,
    /// Whether the job can go on from it.
    committed: bool,
}

impl MemorySet {
    /// Its id.
    pub fn id(&self) -> SetId {
        self.id
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The images, in the order of ranks.
    pub fn images(&self) -> Vec<&HeldImage> {
        self.images.values().collect()
    }

    /// Process ids of the children.
    pub fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.images.values().map(|image| Pid::from_raw(image.pid()))
    }

    fn is_whole(&self) -> bool {
        self.images.len() == self.ranks as usize
    }

    fn lives(&self) -> bool {
        self.images.values().all(HeldImage::lives)
    }
}

/// The checkpoints in memory of a job.
#[derive(Default)]
pub struct MemorySets {
    sets: Vec<MemorySet>,
    /// The set that was given up last. An image of it may still come.
    refused: Option<SetId>,
}

impl MemorySets {
    /// Notes what a rank has said. False if it is about a set that is lost already.
    pub fn note(&mut self, word: Word) -> bool {
        match word {
            Word::Holds { set, .. } if self.refused == Some(set) => {}
            Word::Holds {
                set,
                number,
                rank,
                ranks,
                image,
            } => {
                let at = self.sets.iter().position(|its| its.id == set);
                let at = at.unwrap_or_else(|| {
                    self.sets.push(MemorySet {
                        id: set,
                        number,
                        ranks,
                        images: BTreeMap::new(),
                        committed: false,
                    });
                    self.sets.len() - 1
                });
                self.sets[at].images.insert(rank, image);
            }
            Word::Held(set) => {
                let Some(its) = self.sets.iter_mut().find(|its| its.id == set) else {
                    return false;
                };
                its.committed = true;
                tracing::info!(set = its.number, "a checkpoint is in memory");
            }
            Word::NotHeld(set) => {
                self.refused = Some(set);
                self.sets.retain(|its| its.id != set);
            }
        }
        // An image may come after the word of rank 0.
        let newest = self
            .sets
            .iter()
            .rposition(|set| set.committed && set.is_whole());
        self.sets.drain(..newest.unwrap_or(0));
        true
    }

    /// Whether there is a child.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Descriptors to poll: there is something to [look at](Self::lose) when one is ready.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let images = self.sets.iter().flat_map(|set| set.images.values());
        images.map(HeldImage::end)
    }

    /// Process ids of the children.
    pub fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.sets.iter().flat_map(MemorySet::pids)
    }

    /// Gives up the sets of which a child has ended. Whether the job could have gone on from one.
    pub fn lose(&mut self) -> bool {
        let lost = self.sets.iter().any(|set| set.committed && !set.lives());
        self.sets.retain(MemorySet::lives);
        lost
    }

    /// Gives up those that are older than a checkpoint that is written.
    pub fn written(&mut self, number: u64) {
        self.sets.retain(|set| set.number > number);
    }

    /// Gives up all of them.
    pub fn clear(&mut self) {
        self.sets.clear();
    }

    /// Gives up all of them, and waits until their processes are dead.
    pub fn end(&mut self) {
        for set in std::mem::take(&mut self.sets) {
            for (_, image) in set.images {
                image.end_now();
            }
        }
    }

    /// The newest set from which the job can go on. The others are given up.
    pub fn take(&mut self) -> Option<MemorySet> {
        let sets = std::mem::take(&mut self.sets).into_iter();
        sets.rev()
            .find(|set| set.committed && set.is_whole() && set.lives())
    }
}
