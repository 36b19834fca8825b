//! The protocol's machines of production in a simulated job: chosen and random programs (`safe_state`), all
//! programs of some sizes under every interleaving (`all_programs`), and a check of the latter by another
//! model checker (`second_opinion`).

mod all_programs;
mod safe_state;
mod second_opinion;
mod simulator;

/// Worlds are copied at every step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
