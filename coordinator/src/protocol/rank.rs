//! A rank's side of the protocol, as a pure state machine. [`Rank::on`] takes an input and returns the
//! effects to carry out, in order.
//!
//! It relies on this order in the wrappers of collective operations (upper half). `c` is the clock of the
//! communicator:
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
//! A blocking operation that can be retracted counts at its end. Until then it is *before* the cut for its rank: as if
//! the rank were parked before it (`upper-half/src/quiesce/retractable.rs`):
//!
//! ```text
//! s = c.seq + 1; activity = Collective(c.id); compiler fence
//! while phase != Run and s > c.target:          # slow path, from here on as above
//!     activity = Parked(c.id, s); notify
//!     until phase == Run or c.target >= s: pull messages, yield
//! the operation; while phase != Run, the library calls now and then:
//!     pull messages; activity = Parked(c.id, s) if s > c.target else Collective(c.id); notify
//!     if phase == Stop: stop; after a restart: again from the top
//! c.seq = s; compiler fence
//! while phase != Run and s > c.target:
//!     c.seq = s - 1; activity = Parked(c.id, s); notify
//!     until phase == Run or c.target >= s: pull messages, yield
//!     if phase == Stop: stop; after a restart: again from the top
//!     c.seq = s
//! c.left = s; activity = Running; notify if phase != Run
//! ```
//!
//! Only the wrapper writes the activity, also when a checkpoint ends: the next one may begin before a
//! parked thread has noticed. A clock that a constructor makes gets its target from `clock_target(id)`. It
//! is stored before the constructor's own clock is left. A blocking receive, probe or wait reports
//! `Waiting` while it cannot complete. A test or probe without a result reports it too, since the program
//! may be polling. A constructor over a group without a common clock (MPI_Comm_create_group) makes a clock
//! for itself on entry, with its target.
//!
//! For a non-blocking collective, "the operation" is its initiation alone. The agent calls membarrier
//! between setting the phase and reading the clocks. So either the agent sees the increment, or the wrapper
//! sees the phase.

use std::collections::BTreeMap;

use crate::protocol::messages::{Activity, FromRank, Outcome, State, Summary, ToRank};
use crate::protocol::rank_set::RankSet;
use crate::protocol::region_assignment::{SharedRange, WriteAssignment};

/// One collective clock, as read by the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockView {
    /// Id of the communicator.
    pub id: u64,
    /// Collectives started.
    pub seq: u64,
    /// Collectives completed.
    pub left: u64,
}

/// Snapshot of the rank that the agent takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// All clocks in use.
    pub clocks: Vec<ClockView>,
    /// Activity that the rank reports.
    pub activity: Activity,
    /// Whether a thread cannot be stopped now: it is in a call of the MPI library that is no wait, or in the kernel
    /// where no signal reaches it. The other ranks would stand still for as long as that lasts.
    pub held: bool,
}

/// An input of the machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// A message from the coordinator.
    Message(ToRank),
    /// The connection to the coordinator is closed.
    Gone,
    /// A snapshot, taken after [`Effect::Approach`] and after each notification of the rank.
    Look(View),
    /// No notification has come for a short time: the last snapshot is now worth reporting.
    Debounced,
    /// Result of [`Effect::Stop`].
    Stopped(Result<Vec<SharedRange>, String>),
    /// The memory is copied in the course of [`Effect::Save`]: later writes of the threads do not reach the
    /// image.
    Copied,
    /// Result of [`Effect::Save`].
    Saved(Result<Summary, String>),
}

/// Order to write an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveOrder {
    /// Name of the set after its commit.
    pub set: String,
    /// Id in the set's images.
    pub id: Vec<u8>,
    /// Directory of the images before the commit; none if the images stay in memory.
    pub directory: Option<String>,
    /// Id of the parent set; none for a full set.
    pub parent: Option<Vec<u8>>,
    /// Assignment of the shared memory that [`crate::agent::Process::stop`] has reported.
    pub shared: Vec<WriteAssignment>,
    /// Whether the job ends with this checkpoint. The threads then do not go on.
    pub stop: bool,
}

/// An effect that the agent carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send to the coordinator.
    Send(FromRank),
    /// Set the phase to Approach so that all threads see it, then take a snapshot.
    Approach,
    /// Store these targets in their clocks, and 0 in all other clocks, then take a snapshot.
    Targets(BTreeMap<u64, u64>),
    /// Stop all threads and drain messages, in the background.
    Stop,
    /// Write the image, in the background.
    Save(SaveOrder),
    /// Set the phase to Run and resume all threads, while images are written.
    ResumeWhileSaving,
    /// The checkpoint is over while background work continues: end that work as soon as possible.
    CancelWork,
    /// Set the phase to Run and resume all threads.
    Resume(Outcome),
    /// The checkpoint is committed, and the process ends.
    Exit {
        /// Name of the set.
        set: String,
    },
    /// The coordinator has rejected this rank: report the reason to the user.
    Rejected(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    /// Intent was received; the clocks are sent, or about to be.
    Intended,
    /// Targets are known; the rank runs to them.
    Approaching {
        version: u64,
        /// State last sent to the coordinator.
        told: Option<State>,
        /// State of the last snapshot.
        seen: Option<State>,
    },
    Stopping,
    Drained,
    Saving,
    /// The memory is copied and the image is being written; the threads are stopped.
    Copied,
    Saved,
    /// The threads run and the image is being written.
    Writing,
    /// The threads run and the image is on disk.
    Written,
    /// The checkpoint is over, but background work has not ended. The next intent may already have come.
    Leaving {
        outcome: Outcome,
        next: Option<u64>,
    },
}

/// A rank's state machine.
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
    /// A rank without a pending checkpoint.
    pub fn new() -> Self {
        Rank {
            stage: Stage::Idle,
            epoch: 0,
            targets: BTreeMap::new(),
        }
    }

    /// Target of a clock in the pending checkpoint: `None` while targets are unknown, 0 for a clock without
    /// one.
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

    /// Whether no checkpoint is pending in this rank.
    pub fn idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Whether the agent takes a snapshot at each notification, and gives [`Input::Debounced`] after a quiet
    /// time.
    pub fn watching(&self) -> bool {
        matches!(self.stage, Stage::Approaching { .. })
    }

    /// Whether the last snapshot is not reported yet; [`Input::Debounced`] reports it.
    pub fn has_unreported(&self) -> bool {
        matches!(&self.stage, Stage::Approaching { told, seen, .. } if told != seen)
    }

    /// Handles an input and returns the effects to carry out, in order.
    pub fn on(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Message(message) => self.message(message),
            Input::Gone => {
                let reason = "the connection to the coordinator (in rank 0) broke".to_string();
                let late = RankSet::default();
                self.over(Outcome::Abandoned { reason, late })
            }
            Input::Look(view) => self.look(&view),
            Input::Debounced => self.tell(),
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
            // The agent answers this itself.
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
                vec![Effect::ResumeWhileSaving]
            }
            ToRank::Resume { epoch, outcome } if epoch == self.epoch => self.over(outcome),
            // The end of an attempt that this rank has not begun, because it was still leaving the previous
            // one.
            ToRank::Resume { epoch, .. } => {
                if let Stage::Leaving { next, .. } = &mut self.stage {
                    next.take_if(|e| *e == epoch);
                }
                vec![]
            }
            // A message of an attempt that is over for this rank.
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
                // Unused clocks have no target, and every rank has at least one clock of its own.
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
                // A collective entered before the intent has not reported itself.
                let inside = view.clocks.iter().find(|c| c.left != c.seq);
                let activity = match (&view.activity, inside) {
                    (Activity::Running, Some(c)) => Activity::Collective { id: c.id },
                    (activity, _) => activity.clone(),
                };
                let reached = !view.held
                    && view.clocks.iter().all(at_target)
                    && !matches!(activity, Activity::Collective { .. });
                let (epoch, version) = (self.epoch, *version);
                let state = State {
                    epoch,
                    version,
                    reached,
                    held: view.held,
                    activity,
                };
                // A change of activity alone is reported only after it has been stable for a short time. A rank that
                // exchanges messages all the time would otherwise flood the coordinator.
                let changed = told
                    .as_ref()
                    .is_none_or(|t| (t.version, t.reached) != (state.version, state.reached));
                *seen = Some(state);
                if changed {
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

    /// Handles the end of background work.
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
                    Effect::Resume(Outcome::Abandoned {
                        reason,
                        late: RankSet::default(),
                    }),
                ]
            }
        }
    }

    fn over(&mut self, outcome: Outcome) -> Vec<Effect> {
        match self.stage {
            Stage::Idle => vec![],
            Stage::Leaving { .. } => vec![],
            Stage::Stopping | Stage::Saving | Stage::Copied | Stage::Writing => {
                // Threads need not wait for the background writing of copied memory.
                let copied = self.stage == Stage::Copied;
                self.stage = Stage::Leaving {
                    outcome,
                    next: None,
                };
                let resume = copied.then_some(Effect::ResumeWhileSaving);
                resume.into_iter().chain([Effect::CancelWork]).collect()
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
