//! Callbacks of the services into the checkpoint agent, which is not part of this folder.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use contract::record::{Binding, Call, Outcome, ENDED, NO_COMM};

/// The end of a run of one rank alone.
pub enum Ending {
    /// The record ends, for this reason.
    Record(String),
    /// The run makes another crossing than the recorded one: that one, and this one.
    Other(String, String),
    /// The record is damaged.
    Damaged(String),
}

/// Whether the record has the outcome of a call ([`contract::service::ReplayOutcome`]), and its two numbers.
pub type Told = (i32, [i32; 2]);

/// Functions of the agent that services call. Until hooks are set, nothing happens.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// MPI is initialised: connect this rank (rank, number of ranks) to the coordinator.
    pub connected: fn(u32, u32),
    /// MPI is about to be finalised.
    pub finalizing: fn(),
    /// The program is about to end the job with this code, by MPI_Abort.
    pub aborting: fn(i32),
    /// This rank is about to end the job, because it cannot go on.
    pub failing: fn(),
    /// This rank is about to end the job with this code, and cannot call MPI_Abort (MPI Stages).
    pub ending: fn(i32),
    /// Clocks or activity changed.
    pub notify: fn(),
    /// The target of a clock, as for `contract::service::ClockTarget`.
    pub clock_target: fn(u64) -> u64,
    /// A call of the application is over, as for `contract::service::CallEnded`.
    pub call_ended: fn(),
    /// The epoch to go on from and the number of the job's start, under MPI Stages.
    pub stages_begin: fn() -> Option<(u64, u32)>,
    /// Keeps the state of MPI at the end of an epoch.
    pub stages_write: fn(u64, &[u8]) -> anyhow::Result<()>,
    /// Reads it.
    pub stages_read: fn(u64) -> anyhow::Result<Vec<u8>>,
    /// The options of a tool, as for `contract::service::ToolOptions`.
    pub tool_options: fn(u32) -> String,
    /// Makes room in the record of the run; whether there is any.
    pub record_room: fn() -> bool,
    /// Whether it is the turn of a thread of the replayed run, as for `contract::service::ReplayTurn`.
    pub replay_turn: fn(u32, bool) -> u64,
    /// The replayed run makes a call, as for `contract::service::ReplayCall`.
    pub replay_call: fn(u32, &Call) -> i32,
    /// Its outcome, as for `contract::service::ReplayOutcome`.
    pub replay_outcome: fn(u32, Option<&Call>, Outcome) -> Told,
    /// What a posted receive got, as for `contract::service::ReplayBinding`.
    pub replay_binding: fn(u64) -> (Binding, [i32; 2]),
    /// Compares digests, as for `contract::service::ReplayDigest`.
    pub replay_digest: fn(u32, u64, u32),
    /// Results of crossings are recorded no more, for this reason.
    pub contents_end: fn(&str),
    /// A rank that runs alone cannot go on.
    pub solo_ended: fn(Ending) -> !,
}

impl Hooks {
    /// None.
    pub const NONE: Hooks = Hooks {
        connected: |_, _| {},
        finalizing: || {},
        aborting: |_| {},
        failing: || {},
        ending: |_| {},
        notify: || {},
        clock_target: |_| 0,
        call_ended: || {},
        stages_begin: || None,
        stages_write: |_, _| Ok(()),
        stages_read: |_| Ok(Vec::new()),
        tool_options: |_| String::new(),
        record_room: || false,
        replay_turn: |_, _| NO_COMM,
        replay_call: |_, _| ENDED,
        replay_outcome: |_, _, _| (ENDED, [0; 2]),
        replay_binding: |_| (Binding::Unbound, [0; 2]),
        replay_digest: |_, _, _| {},
        contents_end: |_| {},
        solo_ended: |_| std::process::abort(),
    };
}

/// While the functions of MPI fail, since another rank has died (`broken_off.rs`): ends that, before MPI is
/// initialised.
static BROKEN_OFF: Mutex<Option<fn()>> = Mutex::new(None);

fn broken_off() -> MutexGuard<'static, Option<fn()>> {
    BROKEN_OFF.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions of MPI fail from now on, until `end` is called.
pub(super) fn break_off(end: fn()) {
    *broken_off() = Some(end);
}

/// Whether the functions of MPI fail.
pub(super) fn is_broken_off() -> bool {
    broken_off().is_some()
}

/// MPI is about to be initialised.
pub(super) fn initialising() {
    let end = broken_off().take();
    if let Some(end) = end {
        end();
    }
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Sets the hooks, once for the process.
pub fn set_hooks(hooks: Hooks) {
    HOOKS.get_or_init(|| hooks);
}

/// The hooks in force.
pub(super) fn hooks() -> &'static Hooks {
    HOOKS.get().unwrap_or(&Hooks::NONE)
}

/// The program is about to end the job with this code.
pub(super) fn aborting(code: i32) {
    (hooks().aborting)(code);
}

/// This rank is about to end the job, because it cannot go on.
pub(super) fn failing() {
    (hooks().failing)();
}
