//! The protocol's machines, as production runs them, in a simulated job: chosen and random programs
//! (`safe_state`), all programs of some sizes under every interleaving (`all_programs`), and another
//! model checker's opinion of that (`second_opinion`).

mod all_programs;
mod safe_state;
mod second_opinion;
mod simulator;

/// Worlds are copied at every step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
