//! The checkpoints in memory: for each rank a child that has a copy of its memory. Only the newest one is kept. While
//! the next one is being taken, there are two.
//!
//! A child on another machine than `stasis run` is held by the [node keeper](crate::node_keeper) there. Words of
//! different connections come in any order.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;

use ckpt_image::SetId;
use dump::HeldImage;
use nix::unistd::Pid;

use crate::leases::Id;

/// Why a checkpoint in memory is lost.
pub const COPY_KILLED: &str =
    "a process that held it was killed, perhaps by the kernel for want of memory";

/// Number of sets that were given up and are remembered, since a word about them may still come. There are two sets at
/// a time.
const REMEMBERED: usize = 8;

/// A rank's image in memory.
pub enum Image {
    /// On this machine.
    Here(HeldImage),
    /// In the hands of the node keeper that has this connection.
    At(Id),
}

impl Image {
    fn here(&self) -> Option<&HeldImage> {
        match self {
            Image::Here(image) => Some(image),
            Image::At(_) => None,
        }
    }

    fn node(&self) -> Option<Id> {
        match self {
            Image::Here(_) => None,
            Image::At(node) => Some(*node),
        }
    }
}

/// A message about checkpoints in memory.
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
        image: Image,
    },
    /// All ranks have handed over their images of the set.
    Held(SetId),
    /// The set was given up by the ranks.
    NotHeld(SetId),
    /// A node keeper has lost its images of the set, for this reason.
    Lost(SetId, String),
}

/// A checkpoint in memory.
pub struct MemorySet {
    id: SetId,
    number: u64,
    ranks: u32,
    images: BTreeMap<u32, Image>,
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

    /// The images on this machine, in the order of ranks.
    pub fn images(&self) -> Vec<&HeldImage> {
        self.images.values().filter_map(Image::here).collect()
    }

    /// The node keepers that have images, and how many each has.
    pub fn nodes(&self) -> BTreeMap<Id, usize> {
        let mut nodes = BTreeMap::new();
        for node in self.images.values().filter_map(Image::node) {
            *nodes.entry(node).or_default() += 1;
        }
        nodes
    }

    /// Process ids of the children on this machine.
    pub fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        let here = self.images.values().filter_map(Image::here);
        here.map(|image| Pid::from_raw(image.pid()))
    }

    fn is_whole(&self) -> bool {
        self.images.len() == self.ranks as usize
    }

    fn lives(&self) -> bool {
        let mut here = self.images.values().filter_map(Image::here);
        here.all(HeldImage::lives)
    }

    fn is_at(&self, node: Id) -> bool {
        let mut nodes = self.images.values().filter_map(Image::node);
        nodes.any(|its| its == node)
    }
}

/// The checkpoints in memory of a job.
#[derive(Default)]
pub struct MemorySets {
    sets: Vec<MemorySet>,
    /// The sets that were given up last. An image of them may still come.
    given_up: VecDeque<SetId>,
    /// The set that rank 0 has called held before its first image was known.
    early: Option<SetId>,
    /// Number of the set from which the job could go on last.
    newest: Option<u64>,
    /// The node keepers that have not been told yet to give up their images of a set.
    untold: Vec<(Id, SetId)>,
}

impl MemorySets {
    /// Notes a message. If the job has lost a set from which it could have gone on, returns the reason.
    pub fn note(&mut self, word: Word) -> Option<String> {
        let lost = match word {
            Word::Holds {
                set,
                number,
                rank,
                ranks,
                image,
            } => {
                self.hold((set, number, ranks), rank, image);
                None
            }
            Word::Held(set) => self.commit(set),
            Word::NotHeld(set) => {
                self.give_up(|its| its.id == set);
                self.remember(set);
                None
            }
            Word::Lost(set, why) => {
                let lost = self.give_up(|its| its.id == set);
                self.remember(set);
                lost.then_some(why)
            }
        };
        // An image may come after the word of rank 0.
        let usable = self
            .sets
            .iter()
            .filter(|set| set.committed && set.is_whole());
        if let Some(newest) = usable.map(|set| set.number).max() {
            if self.newest.replace(newest) != Some(newest) {
                tracing::info!(set = newest, "a checkpoint is in memory");
            }
            self.give_up(|set| set.number < newest);
        }
        lost
    }

    fn hold(&mut self, (set, number, ranks): (SetId, u64, u32), rank: u32, image: Image) {
        if self.given_up.contains(&set) {
            self.untold.extend(image.node().map(|node| (node, set)));
            return;
        }
        let at = self.sets.iter().position(|its| its.id == set);
        let at = at.unwrap_or_else(|| {
            self.sets.push(MemorySet {
                id: set,
                number,
                ranks,
                images: BTreeMap::new(),
                committed: self.early == Some(set),
            });
            self.sets.len() - 1
        });
        self.sets[at].images.insert(rank, image);
    }

    fn commit(&mut self, set: SetId) -> Option<String> {
        match self.sets.iter_mut().find(|its| its.id == set) {
            Some(its) => {
                its.committed = true;
                None
            }
            None if self.given_up.contains(&set) => Some(COPY_KILLED.to_owned()),
            None => {
                self.early = Some(set);
                None
            }
        }
    }

    /// Gives up these sets. Returns whether the job could have gone on from one.
    fn give_up(&mut self, which: impl Fn(&MemorySet) -> bool) -> bool {
        let mut lost = false;
        for set in std::mem::take(&mut self.sets) {
            if !which(&set) {
                self.sets.push(set);
                continue;
            }
            lost |= set.committed;
            self.remember(set.id);
            let nodes = set.nodes().into_keys();
            self.untold.extend(nodes.map(|node| (node, set.id)));
        }
        lost
    }

    fn remember(&mut self, set: SetId) {
        self.given_up.retain(|its| *its != set);
        self.given_up.push_back(set);
        if self.given_up.len() > REMEMBERED {
            self.given_up.pop_front();
        }
    }

    /// The node keepers that are to give up their images of a set since the last call.
    pub fn untold(&mut self) -> Vec<(Id, SetId)> {
        std::mem::take(&mut self.untold)
    }

    /// Whether there is no set.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Descriptors to poll: there is something to [look at](Self::lose) when one is ready.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let images = self.sets.iter().flat_map(|set| set.images.values());
        images.filter_map(Image::here).map(HeldImage::end)
    }

    /// Process ids of the children on this machine.
    pub fn pids(&self) -> impl Iterator<Item = Pid> + '_ {
        self.sets.iter().flat_map(MemorySet::pids)
    }

    /// Gives up the sets that have lost a child on this machine. Returns whether the job could have gone on from one.
    pub fn lose(&mut self) -> bool {
        self.give_up(|set| !set.lives())
    }

    /// Gives up the sets with images at this node keeper, which has ended. Returns whether the job could have gone on
    /// from one.
    pub fn lose_node(&mut self, node: Id) -> bool {
        let lost = self.give_up(|set| set.is_at(node));
        self.untold.retain(|(its, _)| *its != node);
        lost
    }

    /// Gives up those that are older than a checkpoint that is written.
    pub fn written(&mut self, number: u64) {
        self.give_up(|set| set.number <= number);
    }

    /// Gives up all of them.
    pub fn clear(&mut self) {
        self.give_up(|_| true);
    }

    /// Gives up all of them, and waits until their processes on this machine are dead.
    pub fn end(&mut self) {
        let sets = std::mem::take(&mut self.sets).into_iter();
        for image in sets.flat_map(|set| set.images.into_values()) {
            if let Image::Here(image) = image {
                image.end_now();
            }
        }
    }

    /// The newest set from which the job can go on. The others are given up.
    pub fn take(&mut self) -> Option<MemorySet> {
        let can = |set: &MemorySet| set.committed && set.is_whole() && set.lives();
        let at = self.sets.iter().rposition(can);
        let newest = at.map(|at| self.sets.remove(at));
        self.clear();
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: SetId = SetId([1; 16]);
    const NEW: SetId = SetId([2; 16]);
    const NODES: [Id; 2] = [10, 11];

    /// A job with one rank on each of two nodes.
    fn holds(set: SetId, rank: u32) -> Word {
        Word::Holds {
            set,
            number: set.0[0].into(),
            rank,
            ranks: 2,
            image: Image::At(NODES[rank as usize]),
        }
    }

    fn note_all(sets: &mut MemorySets, words: Vec<Word>) {
        for word in words {
            assert_eq!(sets.note(word), None);
        }
    }

    /// One whole set, from which the job could go on.
    fn with_old() -> MemorySets {
        let mut sets = MemorySets::default();
        note_all(
            &mut sets,
            vec![holds(OLD, 0), holds(OLD, 1), Word::Held(OLD)],
        );
        assert_eq!(sets.untold(), []);
        sets
    }

    fn taken(sets: &mut MemorySets) -> Option<SetId> {
        sets.take().map(|set| set.id())
    }

    #[test]
    fn a_set_takes_the_place_of_the_older_one_in_all_orders_of_its_words() {
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let mut sets = with_old();
            for (said, word) in order.into_iter().enumerate() {
                assert_eq!(sets.untold(), [], "after {said} words");
                let word = match word {
                    2 => Word::Held(NEW),
                    rank => holds(NEW, rank),
                };
                assert_eq!(sets.note(word), None);
            }
            assert_eq!(sets.untold(), NODES.map(|node| (node, OLD)));
            let set = sets.take().unwrap();
            assert_eq!(set.id(), NEW);
            assert_eq!(set.nodes(), BTreeMap::from(NODES.map(|node| (node, 1))));
        }
    }

    #[test]
    fn a_set_that_is_not_whole_does_not_replace_the_older_one() {
        let mut sets = with_old();
        note_all(&mut sets, vec![Word::Held(NEW), holds(NEW, 1)]);
        assert_eq!(taken(&mut sets), Some(OLD));
        // Its image is given up with it.
        assert_eq!(sets.untold(), [(NODES[1], NEW)]);
    }

    #[test]
    fn a_node_that_has_ended_takes_all_sets_with_it() {
        let mut sets = with_old();
        note_all(&mut sets, vec![holds(NEW, 0)]);
        assert!(sets.lose_node(NODES[0]));
        // That node cannot be told any more.
        assert_eq!(sets.untold(), [(NODES[1], OLD)]);
        assert_eq!(sets.note(Word::Held(NEW)).as_deref(), Some(COPY_KILLED));
        assert_eq!(taken(&mut sets), None);
    }

    #[test]
    fn a_lost_copy_is_told_if_the_job_could_have_gone_on_from_it() {
        let why = "it is dead";
        let mut sets = with_old();
        note_all(&mut sets, vec![holds(NEW, 0), Word::Lost(NEW, why.into())]);
        assert_eq!(sets.note(Word::Lost(OLD, why.into())).as_deref(), Some(why));
        assert_eq!(taken(&mut sets), None);
    }

    #[test]
    fn an_image_of_a_set_that_was_given_up_is_given_up() {
        let mut sets = with_old();
        note_all(&mut sets, vec![Word::NotHeld(NEW), holds(NEW, 1)]);
        assert_eq!(sets.untold(), [(NODES[1], NEW)]);
        assert_eq!(taken(&mut sets), Some(OLD));
    }

    #[test]
    fn a_checkpoint_on_disk_replaces_older_ones_in_memory() {
        let mut sets = with_old();
        note_all(&mut sets, vec![holds(NEW, 0), holds(NEW, 1)]);
        sets.written(OLD.0[0].into());
        assert_eq!(sets.untold(), NODES.map(|node| (node, OLD)));
        note_all(&mut sets, vec![Word::Held(NEW)]);
        assert_eq!(taken(&mut sets), Some(NEW));
    }
}
