//! The status of the coordinator for users: stage, progress, and the reason for a wait.

use std::collections::BTreeMap;

use super::{Action, ClientId, Coordinator, RankSlot, StageState, STALLED_TICKS};
use crate::protocol::messages::{Doing, Progress, RankStatus, Status, ToClient};
use crate::protocol::state::{RankState, Stage};
use crate::protocol::wording;

impl Coordinator {
    /// Sends the progress of the checkpoint to the clients, if it has changed. It runs at ticks, so that
    /// the number of messages does not grow with the number of ranks.
    pub(super) fn progress(&mut self, out: &mut Vec<Action>) {
        let stage = self.stage();
        let ranks = self.config.size;
        let Some(current) = self.current.as_mut().filter(|a| !a.clients.is_empty()) else {
            return;
        };
        let done = current.stage.done();
        // Looking at all ranks costs too much in large jobs to be done at each tick of a long wait.
        let told = current.progress.as_ref();
        if told.is_some_and(|told| (told.stage, told.done) == (stage, done)) {
            return;
        }
        let bytes = match &current.stage {
            StageState::Preparing => return,
            StageState::Asking { .. }
            | StageState::Approaching { .. }
            | StageState::Draining { .. } => 0,
            StageState::Saving { saved, .. } | StageState::Committing { saved } => {
                saved.values().map(|summary| summary.bytes).sum()
            }
        };
        let progress = Progress {
            stage,
            done,
            ranks,
            missing: wording::ranks(current.stage.missing(ranks)),
            bytes,
        };
        let clients = current.clients.iter();
        let reply =
            |client: &ClientId| Action::Reply(*client, ToClient::Progress(progress.clone()));
        out.extend(clients.map(reply));
        current.progress = Some(progress);
    }

    /// The reason why the checkpoint in progress waits, if it waits for ranks.
    pub(super) fn waits_for(&self) -> Option<String> {
        let current = self.current.as_ref()?;
        let missing = || wording::ranks(current.stage.missing(self.config.size));
        Some(match &current.stage {
            StageState::Preparing | StageState::Committing { .. } => return None,
            StageState::Asking { .. } => format!("no answer yet from {}", missing()),
            StageState::Approaching { states, ticks, .. } => {
                wording::approach(states, *ticks >= STALLED_TICKS)
            }
            StageState::Draining { .. } => {
                format!("{} must still stop and drain messages in flight", missing())
            }
            StageState::Saving { .. } => {
                let meanwhile = current.went_on.map_or("", |_| "; the job runs on");
                format!("{} must still write the image{meanwhile}", missing())
            }
        })
    }

    pub(super) fn status(&self, mut told: BTreeMap<u32, Doing>) -> Status {
        let ranks = self
            .slots
            .iter()
            .zip(0..)
            .map(|(slot, rank)| self.rank_status(rank, slot, told.remove(&rank)));
        Status {
            size: self.config.size,
            stage: self.stage(),
            waiting: self.waits_for(),
            committed: self.committed,
            last: self.last.clone(),
            in_memory: self.in_memory.clone().map(Box::new),
            failure: self.failure.clone(),
            next: None,
            ranks: ranks.collect(),
        }
    }

    /// The stage for the user.
    pub(super) fn stage(&self) -> Stage {
        let went_on = self.current.as_ref().and_then(|a| a.went_on);
        match self.current.as_ref().map(|a| &a.stage) {
            None if self.ending => Stage::Ending,
            None if self.queued.as_ref().is_some_and(|queued| !queued.held_back) => {
                Stage::WaitingForInit
            }
            None => Stage::Idle,
            Some(StageState::Preparing) => Stage::Preparing,
            Some(StageState::Asking { .. }) => Stage::Asking,
            Some(StageState::Approaching { .. }) => Stage::Approaching,
            Some(StageState::Draining { .. }) => Stage::Draining,
            Some(StageState::Saving { .. }) if went_on.is_some() => Stage::SavingInBackground,
            Some(StageState::Saving { .. }) => Stage::Saving,
            Some(StageState::Committing { .. }) => Stage::Committing,
        }
    }

    fn rank_status(&self, rank: u32, slot: &RankSlot, doing: Option<Doing>) -> RankStatus {
        let (host, pid, state) = match slot {
            RankSlot::Absent => ("", 0, RankState::Absent),
            RankSlot::Here { host, pid } => (host.as_str(), *pid, self.doing(rank)),
            RankSlot::Finished { host, pid } => (host.as_str(), *pid, RankState::Finished),
            RankSlot::Lost { host, pid } => (host.as_str(), *pid, RankState::Lost),
        };
        RankStatus {
            rank,
            host: host.into(),
            pid,
            state,
            doing,
        }
    }

    fn doing(&self, rank: u32) -> RankState {
        use crate::protocol::messages::Activity::*;
        match self.current.as_ref().map(|a| &a.stage) {
            Some(StageState::Approaching { states, .. }) => match states.get(&rank) {
                Some(s) if s.reached => RankState::Reached,
                Some(s) => match s.activity {
                    Running => RankState::Computing,
                    Collective { .. } => RankState::InCollective,
                    Waiting { .. } => RankState::WaitingForMessage,
                    Parked { .. } => RankState::Parked,
                },
                None => RankState::Running,
            },
            Some(StageState::Draining { drained }) if drained.contains_key(&rank) => {
                RankState::Drained
            }
            Some(StageState::Saving { saved, .. }) if saved.contains_key(&rank) => RankState::Saved,
            Some(StageState::Saving { copied, .. }) if copied.contains(&rank) => RankState::Copied,
            Some(StageState::Saving { .. }) => RankState::Saving,
            _ => RankState::Running,
        }
    }
}
