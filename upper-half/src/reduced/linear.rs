//! Linear algorithms: every message goes to or from one process, and reductions are made in the order of ranks. So the
//! result of a reduction depends on nothing but the data.
//!
//! After Cooperman, Li, Zhao, "Debugging MPI Implementations via Reduction-to-Primitives", whose Collective-to-P2P
//! reduces each function to messages that a reader can check by eye.

use super::role::Role;
use crate::object::request::schedule::{Data, Schedule};
use crate::object::Op;

/// The elements for or from a rank.
pub(super) type Block<'a> = &'a dyn Fn(i32) -> Result<Data, i32>;

impl Schedule {
    /// The root's data goes to everyone else.
    pub(super) fn linear_bcast(&mut self, ranks: Ranks, role: Role, data: Data) {
        match role {
            Role::Root => ranks.others().for_each(|rank| self.send(data, rank)),
            Role::With(root) => self.receive(data, root),
            Role::Beside => {}
        }
    }

    /// Everyone's data comes to the root. The root has its own in its place already if `own` is `None`.
    pub(super) fn linear_gather(
        &mut self,
        ranks: Ranks,
        role: Role,
        own: Option<Data>,
        block: Block<'_>,
    ) -> Result<(), i32> {
        match (role, own) {
            (Role::Root, own) => {
                for rank in ranks.others() {
                    self.receive(block(rank)?, rank);
                }
                if let (Some(own), Some(me)) = (own, ranks.me) {
                    self.copy(own, block(me)?);
                }
            }
            (Role::With(root), Some(own)) => self.send(own, root),
            (Role::With(_) | Role::Beside, _) => {}
        }
        Ok(())
    }

    /// Everyone gets its block of the root's data. The root keeps its own where it is if `own` is `None`.
    pub(super) fn linear_scatter(
        &mut self,
        ranks: Ranks,
        role: Role,
        block: Block<'_>,
        own: Option<Data>,
    ) -> Result<(), i32> {
        match (role, own) {
            (Role::Root, own) => {
                for rank in ranks.others() {
                    self.send(block(rank)?, rank);
                }
                if let (Some(own), Some(me)) = (own, ranks.me) {
                    self.copy(block(me)?, own);
                }
            }
            (Role::With(root), Some(own)) => self.receive(own, root),
            (Role::With(_) | Role::Beside, _) => {}
        }
        Ok(())
    }

    /// Everyone gives a block to each, and gets one from each. This process's own is in its place already if all is
    /// done `in_place`.
    pub(super) fn linear_exchange(
        &mut self,
        ranks: Ranks,
        given: Block<'_>,
        got: Block<'_>,
        in_place: bool,
    ) -> Result<(), i32> {
        for rank in ranks.others() {
            self.receive(got(rank)?, rank);
        }
        for rank in ranks.others() {
            self.send(given(rank)?, rank);
        }
        match ranks.me {
            Some(me) if !in_place => self.copy(given(me)?, got(me)?),
            _ => {}
        }
        Ok(())
    }

    /// The first process waits until all are here, and tells them.
    pub(super) fn linear_barrier(&mut self, ranks: Ranks) -> Result<(), i32> {
        let role = ranks.role_with(0);
        self.linear_gather(ranks, role, Some(Data::none()), &|_| Ok(Data::none()))?;
        self.then();
        self.linear_bcast(ranks, role, Data::none());
        Ok(())
    }

    /// Everyone's data comes to the root, which combines it in the order of ranks: ((0 OP 1) OP 2) OP 3 ...
    pub(super) fn linear_reduce(
        &mut self,
        ranks: Ranks,
        role: Role,
        own: Data,
        into: Data,
        op: &'static Op,
    ) -> Result<(), i32> {
        match role {
            Role::Beside => return Ok(()),
            Role::With(root) => {
                self.send(own, root);
                return Ok(());
            }
            Role::Root => {}
        }
        let (mut sum, mut next) = (self.room(into)?, self.room(into)?);
        for rank in ranks.all() {
            let place = if rank == 0 { sum } else { next };
            match ranks.me == Some(rank) {
                true => self.copy(own, place),
                false => self.receive(place, rank),
            }
            if rank > 0 {
                self.combine(sum, next, op);
                (sum, next) = (next, sum);
            }
            self.then();
        }
        self.copy(sum, into);
        Ok(())
    }

    /// Everyone sends its data to all of the other group, and combines what that group sends.
    pub(super) fn each_reduces(
        &mut self,
        ranks: Ranks,
        own: Data,
        into: Data,
        op: &'static Op,
    ) -> Result<(), i32> {
        let mut sum: Option<Data> = None;
        for rank in ranks.all() {
            let got = self.room(into)?;
            self.receive(got, rank);
            self.send(own, rank);
            if let Some(sum) = sum.replace(got) {
                self.combine(sum, got, op);
            }
        }
        if let Some(sum) = sum {
            self.copy(sum, into);
        }
        Ok(())
    }

    /// Partial results go from rank to rank. `into` holds this process's own data, and then 0 OP ... OP its own.
    pub(super) fn linear_scan(
        &mut self,
        ranks: Ranks,
        into: Data,
        op: &'static Op,
    ) -> Result<(), i32> {
        let me = ranks.me.unwrap_or_default();
        if me > 0 {
            let before = self.room(into)?;
            self.receive(before, me - 1);
            self.combine(before, into, op);
            self.then();
        }
        if me + 1 < ranks.count {
            self.send(into, me + 1);
        }
        Ok(())
    }

    /// The same without this process's own data, which `own` holds. `into` of the first process stays as it is.
    pub(super) fn linear_exscan(&mut self, ranks: Ranks, own: Data, into: Data, op: &'static Op) {
        let me = ranks.me.unwrap_or_default();
        if me > 0 {
            self.receive(into, me - 1);
            self.combine(into, own, op);
            self.then();
        }
        if me + 1 < ranks.count {
            self.send(own, me + 1);
        }
    }
}

/// The ranks that an operation addresses: of the remote group of an inter-communicator.
#[derive(Clone, Copy)]
pub(super) struct Ranks {
    pub(super) count: i32,
    /// This process, if it is one of them.
    pub(super) me: Option<i32>,
}

impl Ranks {
    pub(super) fn all(self) -> impl Iterator<Item = i32> {
        0..self.count
    }

    /// All but this process.
    pub(super) fn others(self) -> impl Iterator<Item = i32> {
        self.all().filter(move |rank| Some(*rank) != self.me)
    }

    /// This process's part if a rank of its own group is the root.
    pub(super) fn role_with(self, root: i32) -> Role {
        match self.me == Some(root) {
            true => Role::Root,
            false => Role::With(root),
        }
    }
}
