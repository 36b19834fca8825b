//! The checkpoint protocol, and the control plane that carries it.
//!
//! The protocol (intent → targets → reached → stopped and drained → saved → committed → resumed) is
//! two pure state machines: [`coordinator::Coordinator`], of which a job has one, and
//! [`rank::Rank`], of which every rank has one. Neither does I/O nor reads a clock, so the tests
//! drive the very code that runs in production through every interleaving they can think of.
//!
//! Around them: [`server`] (threads and sockets around the coordinator, in rank 0's lower half),
//! [`schedule`] (which checkpoints are due that nobody asks for), [`agent`] (the same around a rank's
//! machine), [`client`] (what the `stasis` command uses),
//! [`job`] (the file by which the command finds a job) and [`protocol`] (what is said).

pub mod addresses;
pub mod agent;
pub mod client;
pub mod coordinator;
pub mod frame;
pub mod job;
pub mod protocol;
pub mod rank;
mod release;
pub mod schedule;
pub mod server;
pub mod shared;
mod words;
