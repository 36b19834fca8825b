//! `stasis explain`: the waits of the ranks of a job for each other, and the stacks of its threads.
//!
//! | module | has |
//! |---|---|
//! | [`wait_graph`] | needs of ranks, and the verdict; knows nothing of MPI |
//! | [`operations`] | what is known of MPI's functions |
//! | [`job`] | the calls of a job's ranks, from what the agents tell, and the needs that follow |
//! | [`ask`] | the question to a running job |
//! | [`text`], [`json`], [`svg`] | the answer |
//! | [`stacks`] | the tree of all threads' stacks |
//! | [`findings`] | both, for a job that makes no progress |

pub mod ask;
pub mod findings;
pub mod job;
pub mod json;
pub mod operations;
pub mod stacks;
pub mod svg;
pub mod text;
pub mod wait_graph;
