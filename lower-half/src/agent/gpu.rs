//! The agent's part in what becomes of the program's GPUs at a checkpoint (`upper-half/src/gpu.rs`).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use contract::{gate, GpuCall, GpuState};

/// The driver's error for work that has not ended in time.
const CUDA_ERROR_NOT_READY: u32 = 600;

fn state_is(state: GpuState) -> bool {
    gate().gpu.state.load(Ordering::Acquire) == state as u32
}

fn set(state: GpuState) {
    gate().gpu.state.store(state as u32, Ordering::Release);
    loader::futex_wake(&gate().gpu.state);
}

/// Waits until the upper half has answered.
fn until_not(state: GpuState) {
    while state_is(state) {
        loader::futex_wait(&gate().gpu.state, state as u32, 0);
    }
}

/// Moves what the program has on its GPUs into its memory. The program runs, but its calls that use a GPU wait until
/// [`thaw`].
///
/// # Errors
/// Work on a GPU does not end within `patience`, or the driver cannot do this. The GPUs run on.
pub fn freeze(patience: Duration) -> Result<()> {
    until_not(GpuState::Thaw);
    if !state_is(GpuState::Running) {
        return Ok(());
    }
    let begun = Instant::now();
    let gpu = &gate().gpu;
    let limit = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
    gpu.patience.store(limit.max(1), Ordering::Relaxed);
    set(GpuState::Freeze);
    until_not(GpuState::Freeze);
    if !state_is(GpuState::Failed) {
        tracing::info!(took = ?begun.elapsed(), frozen = state_is(GpuState::Frozen), "GPUs");
        return Ok(());
    }
    let (call, error) = (
        gpu.call.load(Ordering::Relaxed),
        gpu.error.load(Ordering::Relaxed),
    );
    set(GpuState::Running);
    if call == GpuCall::None as u32 {
        bail!("cannot save what it has on its GPUs: CUDA's driver is older than 570. Update the driver of this machine");
    }
    if (call, error) == (GpuCall::Lock as u32, CUDA_ERROR_NOT_READY) {
        bail!(
            "its work on a GPU has not ended within {} s. Ask again, with a longer --patience",
            patience.as_secs()
        );
    }
    let name = match call == GpuCall::Lock as u32 {
        true => "cuCheckpointProcessLock",
        false => "cuCheckpointProcessCheckpoint",
    };
    bail!(
        "cannot save what it has on its GPUs: {name} of CUDA's driver returned {error} (docs/not-supported.md says \
         what the driver does not save)"
    )
}

/// Undoes [`freeze`], or what it did before the process was restarted. Does not wait for it.
pub fn thaw() {
    if state_is(GpuState::Frozen) {
        set(GpuState::Thaw);
    }
}
