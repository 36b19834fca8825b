//! Callbacks of the services into the checkpoint agent, which is not part of this folder.

use std::sync::OnceLock;

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
    /// Clocks or activity changed.
    pub notify: fn(),
    /// The target of a clock, as for `contract::service::ClockTarget`.
    pub clock_target: fn(u64) -> u64,
    /// A call of the application is over, as for `contract::service::CallEnded`.
    pub call_ended: fn(),
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Sets the hooks, once for the process.
pub fn set_hooks(hooks: Hooks) {
    HOOKS.get_or_init(|| hooks);
}

/// The hooks in force.
pub(super) fn hooks() -> &'static Hooks {
    const NONE: Hooks = Hooks {
        connected: |_, _| {},
        finalizing: || {},
        aborting: |_| {},
        failing: || {},
        notify: || {},
        clock_target: |_| 0,
        call_ended: || {},
    };
    HOOKS.get().unwrap_or(&NONE)
}

/// The program is about to end the job with this code.
pub(super) fn aborting(code: i32) {
    (hooks().aborting)(code);
}

/// This rank is about to end the job, because it cannot go on.
pub(super) fn failing() {
    (hooks().failing)();
}
