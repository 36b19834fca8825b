//! A rank's side of the protocol, as a pure state machine: [`Rank::on`] takes what happened and
//! returns what is to be done, in order.
//!
//! What it relies on in the wrappers of collective operations (upper half), with `c` the clock of
//! the communicator:
//!
//! ```text
//! c.seq += 1; compiler fence
//! if phase != Run:                      # slow path
//!     clock_target(0)                   # until the targets are known
//!     while phase != Run and c.seq > c.target:
//!         s = c.seq; c.seq -= 1; activity = Parked(c.id, s); notify
//!         until phase == Run or c.target >= s: pull messages, yield
//!         c.seq += 1
//!     activity = Collective(c.id); notify
//! the operation
//! c.left = c.seq; activity = Running; notify if phase != Run
//! ```
//!
//! The activity is the wrapper's alone, also when a checkpoint ends: the next one may begin before a
//! parked thread has noticed. A clock that a constructor makes gets its target from
//! `clock_target(id)` and is stored before the constructor's own clock is left. A blocking receive,
//! probe or wait says `Waiting` while it cannot complete, and a test or probe that found nothing
//! says so too, since the program may be polling. A constructor over a group that has no clock in
//! common (MPI_Comm_create_group) makes a clock for itself on entry, with its target.
//!
//! A non-blocking collective is "the operation" in its initiation alone. The agent's membarrier
//! between setting the phase and reading the clocks makes sure that either the agent sees the
//! increment or the wrapper sees the phase.

use std::collections::BTreeMap;

use crate::agent::SaveOrder;
use crate::protocol::{Activity, FromRank, Outcome, State, Summary, ToRank};
use crate::shared::Part;

/// One collective clock, as the agent read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockView {
    /// Id of the communicator.
    pub id: u64,
    /// Collectives started.
    pub seq: u64,
    /// Collectives left again.
    pub left: u64,
}

/// What the agent sees when it looks at the rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// All clocks in use.
    pub clocks: Vec<ClockView>,
    /// What the rank says it does.
    pub activity: Activity,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The coordinator said something.
    Message(ToRank),
    /// The coordinator is gone.
    Gone,
    /// The agent has looked (after [`Effect::Approach`], and whenever the rank notified).
    Look(View),
    /// Nothing has happened for a little while: whatever was last seen is worth telling.
    Settled,
    /// The end of [`Effect::Stop`].
    Stopped(Result<Vec<Part>, String>),
    /// In the course of [`Effect::Save`]: nothing that the threads do any more can get into the image.
    Copied,
    /// The end of [`Effect::Save`].
    Saved(Result<Summary, String>),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send to the coordinator.
    Send(FromRank),
    /// Set the phase to Approach so that all threads see it, then look.
    Approach,
    /// These are all targets now; store them in the clocks, and 0 in all others, then look.
    Targets(BTreeMap<u64, u64>),
    /// Stop all threads and drain, in the background.
    Stop,
    /// Write the image, in the background.
    Save(SaveOrder),
    /// Set the phase to Run and let all threads go, while images are written.
    GoOn,
    /// The checkpoint is over while background work goes on: let it end as soon as it can.
    Hurry,
    /// Set the phase to Run and let all threads go.
    Resume(Outcome),
    /// The checkpoint is committed and the process is to end.
    Exit {
        /// Name of the set.
        set: String,
    },
    /// The coordinator does not want this rank: tell people why.
    Rejected(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    /// Intent was heard; the clocks are (about to be) sent.
    Intended,
    /// Targets are known and are being reached.
    Approaching {
        version: u64,
        /// What the coordinator was told last.
        told: Option<State>,
        /// What was seen last.
        seen: Option<State>,
    },
    Stopping,
    Drained,
    Saving,
    /// The memory is copied, the image is being written; the threads still stand.
    Copied,
    Saved,
    /// The threads run, the image is being written.
    Writing,
    /// The threads run, the image is on disk.
    Written,
    /// Over, but background work has not ended yet. An intent may already have come after it.
    Leaving {
        outcome: Outcome,
        next: Option<u64>,
    },
}

/// A rank's machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rank {
    stage: Stage,
    epoch: u64,
    targets: BTreeMap<u64, u64>,
}

impl Default for Rank {
    fn default() -> Self {
        Self::new()
    }
}

impl Rank {
    /// A rank of a job in which no checkpoint is pending.
    pub fn new() -> Self {
        Rank {
            stage: Stage::Idle,
            epoch: 0,
            targets: BTreeMap::new(),
        }
    }

    /// Target of a clock in the pending checkpoint: `None` while they are not known yet, 0 for a
    /// clock without one.
    pub fn target(&self, id: u64) -> Option<u64> {
        match self.stage {
            Stage::Intended => None,
            _ => Some(self.targets.get(&id).copied().unwrap_or(0)),
        }
    }

    /// All targets of the pending checkpoint.
    pub fn targets(&self) -> &BTreeMap<u64, u64> {
        &self.targets
    }

    /// No checkpoint is pending here.
    pub fn idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// The agent should look when notified, and give [`Input::Settled`] when it is quiet.
    pub fn watching(&self) -> bool {
        matches!(self.stage, Stage::Approaching { .. })
    }

    /// Something was seen that the coordinator has not been told: [`Input::Settled`] would tell it.
    pub fn unsettled(&self) -> bool {
        matches!(&self.stage, Stage::Approaching { told, seen, .. } if told != seen)
    }

    /// Takes what happened and returns what is to be done.
    pub fn on(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Message(message) => self.message(message),
            Input::Gone => {
                let reason = "the connection to the coordinator (in rank 0) broke".to_string();
                self.over(Outcome::Abandoned { reason })
            }
            Input::Look(view) => self.look(&view),
            Input::Settled => self.tell(),
            Input::Stopped(result) => self.worked(Stage::Drained, result, |epoch, shared| {
                FromRank::Drained { epoch, shared }
            }),
            Input::Copied if self.stage == Stage::Saving => {
                self.stage = Stage::Copied;
                let epoch = self.epoch;
                vec![Effect::Send(FromRank::Copied { epoch })]
            }
            // The checkpoint is over already.
            Input::Copied => vec![],
            Input::Saved(result) => {
                let then = match self.stage {
                    Stage::Writing => Stage::Written,
                    _ => Stage::Saved,
                };
                self.worked(then, result, |epoch, summary| FromRank::Saved {
                    epoch,
                    summary,
                })
            }
        }
    }

    fn message(&mut self, message: ToRank) -> Vec<Effect> {
        match message {
            ToRank::Rejected { reason } => vec![Effect::Rejected(reason)],
            // The agent answers.
            ToRank::Tell { .. } => vec![],
            ToRank::Intent { epoch } => self.intent(epoch),
            ToRank::Targets {
                epoch,
                version,
                targets,
            } if epoch == self.epoch => {
                match &mut self.stage {
                    Stage::Intended => {
                        self.stage = Stage::Approaching {
                            version,
                            told: None,
                            seen: None,
                        };
                    }
                    Stage::Approaching { version: v, .. } => *v = version,
                    _ => return vec![],
                }
                for (id, target) in targets {
                    let t = self.targets.entry(id).or_insert(0);
                    *t = target.max(*t);
                }
                vec![Effect::Targets(self.targets.clone())]
            }
            ToRank::Stop { epoch } if epoch == self.epoch && self.watching() => {
                self.stage = Stage::Stopping;
                vec![Effect::Stop]
            }
            ToRank::Save {
                epoch,
                set,
                id,
                directory,
                parent,
                shared,
                stop,
            } if epoch == self.epoch && self.stage == Stage::Drained => {
                self.stage = Stage::Saving;
                vec![Effect::Save(SaveOrder {
                    set,
                    id,
                    directory,
                    parent,
                    shared,
                    stop,
                })]
            }
            ToRank::GoOn { epoch } if epoch == self.epoch => {
                self.stage = match self.stage {
                    Stage::Copied => Stage::Writing,
                    Stage::Saved => Stage::Written,
                    _ => return vec![],
                };
                vec![Effect::GoOn]
            }
            ToRank::Resume { epoch, outcome } if epoch == self.epoch => self.over(outcome),
            // The end of an attempt that this rank has not begun, as it was still leaving the
            // one before.
            ToRank::Resume { epoch, .. } => {
                if let Stage::Leaving { next, .. } = &mut self.stage {
                    next.take_if(|e| *e == epoch);
                }
                vec![]
            }
            // Of an attempt that is over for this rank.
            ToRank::Targets { .. }
            | ToRank::Stop { .. }
            | ToRank::Save { .. }
            | ToRank::GoOn { .. } => vec![],
        }
    }

    fn intent(&mut self, epoch: u64) -> Vec<Effect> {
        if let Stage::Leaving { next, .. } = &mut self.stage {
            *next = Some(epoch);
            return vec![];
        }
        self.epoch = epoch;
        self.targets.clear();
        self.stage = Stage::Intended;
        vec![Effect::Approach]
    }

    fn look(&mut self, view: &View) -> Vec<Effect> {
        match &mut self.stage {
            Stage::Intended => {
                // Those never used have no target, and every rank has one of its own at least.
                let used = view.clocks.iter().filter(|c| c.seq > 0);
                let clocks = used.map(|c| (c.id, c.seq)).collect();
                vec![Effect::Send(FromRank::Clocks {
                    epoch: self.epoch,
                    clocks,
                })]
            }
            Stage::Approaching {
                version,
                told,
                seen,
            } => {
                let targets = &self.targets;
                let at_target = |c: &ClockView| {
                    c.left == c.seq && c.left >= targets.get(&c.id).copied().unwrap_or(0)
                };
                // A collective that was entered before the intent has not told of itself.
                let inside = view.clocks.iter().find(|c| c.left != c.seq);
                let activity = match (&view.activity, inside) {
                    (Activity::Running, Some(c)) => Activity::Collective { id: c.id },
                    (activity, _) => activity.clone(),
                };
                let reached = view.clocks.iter().all(at_target)
                    && !matches!(activity, Activity::Collective { .. });
                let (epoch, version) = (self.epoch, *version);
                let state = State {
                    epoch,
                    version,
                    reached,
                    activity,
                };
                // A change of activity alone is told when it has settled: a rank that exchanges
                // messages all the time would otherwise flood the coordinator.
                let news = told
                    .as_ref()
                    .is_none_or(|t| (t.version, t.reached) != (state.version, state.reached));
                *seen = Some(state);
                if news {
                    self.tell()
                } else {
                    vec![]
                }
            }
            _ => vec![],
        }
    }

    fn tell(&mut self) -> Vec<Effect> {
        match &mut self.stage {
            Stage::Approaching { told, seen, .. } if told != seen => {
                told.clone_from(seen);
                seen.iter()
                    .map(|s| Effect::Send(FromRank::State(s.clone())))
                    .collect()
            }
            _ => vec![],
        }
    }

    /// Background work has ended.
    fn worked<T>(
        &mut self,
        then: Stage,
        result: Result<T, String>,
        message: impl FnOnce(u64, T) -> FromRank,
    ) -> Vec<Effect> {
        if let Stage::Leaving { outcome, next } = &self.stage {
            let (outcome, next) = (outcome.clone(), *next);
            self.stage = Stage::Idle;
            let mut effects = vec![Effect::Resume(outcome)];
            effects.extend(next.map(|epoch| self.intent(epoch)).unwrap_or_default());
            return effects;
        }
        let epoch = self.epoch;
        match result {
            Ok(value) => {
                self.stage = then;
                vec![Effect::Send(message(epoch, value))]
            }
            Err(reason) => {
                self.stage = Stage::Idle;
                vec![
                    Effect::Send(FromRank::Refused {
                        epoch,
                        reason: reason.clone(),
                    }),
                    Effect::Resume(Outcome::Abandoned { reason }),
                ]
            }
        }
    }

    fn over(&mut self, outcome: Outcome) -> Vec<Effect> {
        match self.stage {
            Stage::Idle => vec![],
            Stage::Leaving { .. } => vec![],
            Stage::Stopping | Stage::Saving | Stage::Copied | Stage::Writing => {
                // What is copied need not be awaited for the threads to go on.
                let copied = self.stage == Stage::Copied;
                self.stage = Stage::Leaving {
                    outcome,
                    next: None,
                };
                let go_on = copied.then_some(Effect::GoOn);
                go_on.into_iter().chain([Effect::Hurry]).collect()
            }
            Stage::Intended
            | Stage::Approaching { .. }
            | Stage::Drained
            | Stage::Saved
            | Stage::Written => {
                self.stage = Stage::Idle;
                match outcome {
                    Outcome::Exit { set } => vec![Effect::Exit { set }],
                    outcome => vec![Effect::Resume(outcome)],
                }
            }
        }
    }
}
