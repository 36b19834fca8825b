//! Algorithms of few steps. Where a source names no other, Thakur, Rabenseifner, Gropp, "Optimization of Collective
//! Communication Operations in MPICH" (2005) describes them. A reduction combines neighbouring ranges of ranks, so
//! that an operation need not be commutative. But how the ranges are bracketed depends on the number of processes.

use super::linear::{Block, Ranks};
use crate::object::request::schedule::{Data, Schedule};
use crate::object::Op;

impl Schedule {
    /// Dissemination (Hensgen, Finkel, Manber 1988): in step k each process hears of 2^k more.
    pub(super) fn tree_barrier(&mut self, ranks: Ranks) {
        let (count, me) = (ranks.count, ranks.me.unwrap_or_default());
        let mut distance = 1;
        while distance < count {
            self.receive(Data::none(), (me + count - distance) % count);
            self.send(Data::none(), (me + distance) % count);
            self.then();
            distance *= 2;
        }
    }

    /// Binomial tree: in each step those that have the data give it to as many others.
    pub(super) fn tree_bcast(&mut self, ranks: Ranks, root: i32, data: Data) {
        let (count, me) = (ranks.count, ranks.me.unwrap_or_default());
        let from_root = (me + count - root) % count;
        let mut distance = 1;
        while distance < count && from_root & distance == 0 {
            distance *= 2;
        }
        if from_root != 0 {
            self.receive(data, (me + count - distance) % count);
            self.then();
        }
        while distance > 1 {
            distance /= 2;
            if from_root + distance < count {
                self.send(data, (me + distance) % count);
            }
        }
    }

    /// Binomial tree towards rank 0, in the order of ranks, and from there to the root. `into` counts in the root.
    pub(super) fn tree_reduce(
        &mut self,
        ranks: Ranks,
        root: i32,
        own: Data,
        into: Option<Data>,
        op: &'static Op,
    ) -> Result<(), i32> {
        let (count, me) = (ranks.count, ranks.me.unwrap_or_default());
        let (mut sum, mut next) = (self.room(own)?, self.room(own)?);
        self.copy(own, sum);
        self.then();
        let mut distance = 1;
        while distance < count && me & distance == 0 {
            if me + distance < count {
                self.receive(next, me + distance);
                self.combine(sum, next, op);
                self.then();
                (sum, next) = (next, sum);
            }
            distance *= 2;
        }
        if me != 0 {
            self.send(sum, me - distance);
            self.then();
        }
        match into {
            Some(into) if me == 0 => self.copy(sum, into),
            Some(into) => self.receive(into, 0),
            None if me == 0 => self.send(sum, root),
            None => {}
        }
        Ok(())
    }

    /// Ring: in each step every process passes on the block that it got last.
    pub(super) fn ring(
        &mut self,
        ranks: Ranks,
        own: Option<Data>,
        block: Block<'_>,
    ) -> Result<(), i32> {
        let (count, me) = (ranks.count, ranks.me.unwrap_or_default());
        if let Some(own) = own {
            self.copy(own, block(me)?);
            self.then();
        }
        for step in 1..count {
            self.receive(
                block((me + count - step) % count)?,
                (me + count - 1) % count,
            );
            self.send(block((me + count - step + 1) % count)?, (me + 1) % count);
            self.then();
        }
        Ok(())
    }

    /// Pairwise exchange: in step k with the processes k before and k behind.
    pub(super) fn pairwise(
        &mut self,
        ranks: Ranks,
        given: Block<'_>,
        got: Block<'_>,
        in_place: bool,
    ) -> Result<(), i32> {
        let (count, me) = (ranks.count, ranks.me.unwrap_or_default());
        if !in_place {
            self.copy(given(me)?, got(me)?);
        }
        for step in 1..count {
            self.then();
            let (behind, before) = ((me + step) % count, (me + count - step) % count);
            self.receive(got(before)?, before);
            self.send(given(behind)?, behind);
        }
        Ok(())
    }

    /// Prefixes by doubling (Hillis, Steele 1986): in step k each process gets what the one 2^k before has combined.
    /// `into` holds this process's own data, and then 0 OP ... OP its own.
    pub(super) fn tree_scan(
        &mut self,
        ranks: Ranks,
        into: Data,
        op: &'static Op,
    ) -> Result<(), i32> {
        let (count, me) = (ranks.count, ranks.me.unwrap_or_default());
        let before = self.room(into)?;
        let mut distance = 1;
        while distance < count {
            if me + distance < count {
                self.send(into, me + distance);
            }
            if me >= distance {
                self.receive(before, me - distance);
                self.combine(before, into, op);
            }
            self.then();
            distance *= 2;
        }
        Ok(())
    }

    /// Everyone's data goes to the next rank.
    pub(super) fn shift(&mut self, ranks: Ranks, own: Data, into: Data) {
        let me = ranks.me.unwrap_or_default();
        if me > 0 {
            self.receive(into, me - 1);
        }
        if me + 1 < ranks.count {
            self.send(own, me + 1);
        }
    }
}
