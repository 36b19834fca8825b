//! `stasis explain`: the waits of the ranks of a job for each other.
//!
//! | module | has |
//! |---|---|
//! | [`wait_graph`] | needs of ranks, and the verdict; knows nothing of MPI |
//! | [`operations`] | what is known of MPI's functions |
//! | [`job`] | the calls of a job's ranks, from what the agents tell, and the needs that follow |
//! | [`ask`] | the question to a running job |
//! | [`text`], [`json`], [`svg`] | the answer |

pub mod ask;
pub mod job;
pub mod json;
pub mod operations;
pub mod svg;
pub mod text;
pub mod wait_graph;
