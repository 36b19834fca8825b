//! The memory that has to be left on a machine while it has checkpoints in memory.

use dump::MemoryBudget;

const LEAST_LEFT: u64 = 128 << 20;

/// Whether the memory of this machine still suffices for checkpoints in memory; otherwise why not.
///
/// # Errors
/// The reason why it does not.
pub fn suffices() -> Result<(), String> {
    let budget = MemoryBudget::for_each_of(1);
    match budget.bytes < LEAST_LEFT {
        false => Ok(()),
        true => Err(format!(
            "memory is short: {} MiB are left ({})",
            budget.bytes >> 20,
            budget.limit
        )),
    }
}
