//! Ranks that hold up a checkpoint: those that are held in one call, and those that do not answer. When one of them has
//! done so for as long as the checkpoint's patience, it is named with its stack, and the checkpoint is given up. A rank
//! that merely computes is waited for.

use std::collections::{BTreeMap, BTreeSet};

use history::event::Cause;

use super::{
    Action, Coordinator, InProgress, Queued, RankSlot, StageState, Time, EVENTS_HINT, LATE_PRINTED,
};
use crate::protocol::messages::{Details, Doing, State, ToClient, ToRank, WantedStacks};
use crate::protocol::rank_set::RankSet;
use crate::protocol::wording;

/// Shortest time between two questions to ranks that are late.
const QUESTION_INTERVAL: Time = 1_000_000;

/// Questions in the time of a patience.
const QUESTIONS: Time = 8;

/// Number of late ranks that are asked whether they live.
const ASKED: usize = 64;

/// Longest time for the answer with a stack.
const STACK_LIMIT: Time = 3_000_000;

/// The ranks that hold up the checkpoint in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stuck {
    /// Ranks that are held in a call, and the time of the first report of it.
    held: BTreeMap<u32, Time>,
    /// Ranks that have not answered, and the time of the first question.
    silent: BTreeMap<u32, Time>,
    /// Time of the last question.
    asked: Time,
    /// The question for the stacks of ranks that are about to be named.
    naming: Option<Naming>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Naming {
    question: u64,
    since: Time,
    ranks: BTreeSet<u32>,
    told: BTreeMap<u32, Doing>,
}

impl Stuck {
    /// A checkpoint begins, or enters its next stage.
    pub(super) fn begin(now: Time) -> Stuck {
        Stuck {
            asked: now,
            ..Stuck::default()
        }
    }

    /// A rank has reported its progress.
    pub(super) fn reported(&mut self, rank: u32, state: &State, now: Time) {
        match state.held {
            true => drop(self.held.entry(rank).or_insert(now)),
            false => drop(self.held.remove(&rank)),
        }
    }

    /// A rank has sent something.
    pub(super) fn heard(&mut self, rank: u32) {
        self.silent.remove(&rank);
    }

    /// An answer to a question; returns whether it is one with a stack.
    pub(super) fn told(&mut self, rank: u32, question: u64, doing: &Doing) -> bool {
        let naming = self.naming.as_mut();
        let naming = naming.filter(|naming| naming.question == question);
        let told = naming.map(|naming| naming.told.insert(rank, doing.clone()));
        told.is_some()
    }

    /// Ranks that are held or silent since a time before `latest`.
    fn since(&self, latest: Time) -> BTreeMap<u32, Time> {
        let all = self.held.iter().chain(&self.silent);
        let early = all.filter(|(_, since)| **since <= latest);
        early.map(|(rank, since)| (*rank, *since)).collect()
    }
}

/// Asks one rank what it does, and for its stack where that is wanted.
fn ask(rank: u32, question: u64, stacks: WantedStacks) -> Action {
    let details = Details {
        stacks,
        ..Details::default()
    };
    Action::Tell(rank, ToRank::Tell { question, details })
}

impl Coordinator {
    /// Asks late ranks whether they live, and gives the checkpoint up if a rank has been stuck for too long. Returns
    /// whether it was given up.
    pub(super) fn check_stuck(&mut self, now: Time, out: &mut Vec<Action>) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        let patience = current.patience;
        let waits = matches!(
            current.stage,
            StageState::Asking { .. }
                | StageState::Approaching { .. }
                | StageState::Draining { .. }
        );
        if patience == 0 || !waits {
            return false;
        }
        let pause = (patience / QUESTIONS).max(QUESTION_INTERVAL).min(patience);
        if now.saturating_sub(current.stuck.asked) >= pause {
            current.stuck.asked = now;
            self.queries += 1;
            let question = self.queries;
            for rank in current.stage.missing(self.config.size).take(ASKED) {
                current.stuck.silent.entry(rank).or_insert(now);
                out.push(ask(rank, question, WantedStacks::None));
            }
        }
        let stuck = current.stuck.since(now.saturating_sub(patience));
        if stuck.is_empty() {
            current.stuck.naming = None;
            return false;
        }
        let Some(naming) = &current.stuck.naming else {
            self.queries += 1;
            let held = stuck
                .keys()
                .filter(|rank| current.stuck.held.contains_key(rank));
            let ranks: BTreeSet<u32> = held.copied().take(LATE_PRINTED).collect();
            let question = self.queries;
            out.extend(
                ranks
                    .iter()
                    .map(|rank| ask(*rank, question, WantedStacks::Stuck)),
            );
            current.stuck.naming = Some(Naming {
                question,
                since: now,
                ranks,
                told: BTreeMap::new(),
            });
            return false;
        };
        let all_told = naming
            .ranks
            .iter()
            .all(|rank| naming.told.contains_key(rank));
        if !all_told && now.saturating_sub(naming.since) < STACK_LIMIT {
            return false;
        }
        let reason = self.reason(&stuck, now);
        self.abandon_stuck(reason, now, out);
        true
    }

    /// The text that names the stuck ranks, for the user.
    fn reason(&self, stuck: &BTreeMap<u32, Time>, now: Time) -> String {
        let Some(current) = &self.current else {
            return String::new();
        };
        let told = current.stuck.naming.as_ref().map(|naming| &naming.told);
        let named = stuck.iter().take(LATE_PRINTED).map(|(rank, since)| {
            let process = match self.slots.get(*rank as usize) {
                Some(RankSlot::Here { host, pid }) => format!(" (process {pid} on {host})"),
                _ => String::new(),
            };
            let seconds = now.saturating_sub(*since) / 1_000_000;
            let doing = told.and_then(|told| told.get(rank));
            match (current.stuck.held.contains_key(rank), doing) {
                (true, Some(doing)) => wording::stuck(*rank, &process, seconds, doing),
                (true, None) => format!(
                    "rank {rank}{process} has been stuck in one call for {seconds} s, and does not tell in which"
                ),
                (false, _) => format!(
                    "rank {rank}{process} has not answered for {seconds} s: is it stopped (by SIGSTOP or a debugger), \
                     or its machine down?"
                ),
            }
        });
        let named: Vec<String> = named.collect();
        let more = match stuck.len().saturating_sub(LATE_PRINTED) {
            0 => String::new(),
            more => format!("\nand {more} other ranks"),
        };
        let patience = current.patience as f64 / 1e6;
        format!(
            "{}{more}\nA checkpoint can be taken when the rank goes on; `--patience SECONDS` waits longer than {patience} s; \
             {EVENTS_HINT}",
            named.join("\n")
        )
    }

    /// Gives up the checkpoint in progress because of stuck ranks. It is tried again if the job is to end with it, or
    /// if others have asked for it than commands that get this answer.
    fn abandon_stuck(&mut self, reason: String, now: Time, out: &mut Vec<Action>) {
        let Some(current) = &mut self.current else {
            return;
        };
        let (stop, begun) = (current.stop, current.begun);
        let mut causes = current.asked_by.iter();
        let unattended = causes.any(|cause| *cause != Cause::Command);
        let again = stop || unattended || current.clients.is_empty() && !current.in_memory;
        // The job is to end with it: the commands go on waiting.
        let waiting = match stop {
            true => std::mem::take(&mut current.clients),
            false => BTreeSet::new(),
        };
        super::answer(
            waiting.clone(),
            &ToClient::Note(format!(
                "a checkpoint was given up, and is tried again soon: {reason}"
            )),
            out,
        );
        if !waiting.is_empty() {
            let queued = self.queued.get_or_insert_with(|| Queued {
                held_back: true,
                ..Queued::begin(begun)
            });
            queued.stop = true;
            queued.clients.extend(waiting);
        }
        self.abandon_late(reason, RankSet::default(), now, out);
        if again {
            out.push(Action::Again { stop });
        }
    }
}

impl InProgress {
    /// Enters a stage.
    pub(super) fn enter(&mut self, stage: StageState, now: Time) {
        self.stuck = Stuck::begin(now);
        self.stage = stage;
    }
}
