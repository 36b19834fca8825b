//! The profile of a job's MPI calls (`stasis launch --profile`): a file for each rank in the checkpoint directory,
//! their sums, and these as text.
//!
//! | module | content |
//! |---|---|
//! | [`mod@file`] | the numbers of one rank, and its file |
//! | [`sum`] | the sums over the ranks |
//! | [`text`] | the sums as users read them |

pub mod file;
pub mod sum;
pub mod text;

pub use file::Rank;
pub use sum::Job;
