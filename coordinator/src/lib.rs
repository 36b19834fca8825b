//! The checkpoint protocol, and the control plane that carries it.
//!
//! The protocol (intent → targets → reached → stopped and drained → saved → committed → resumed) is
//! two pure state machines: [`coordinator::Coordinator`], of which a job has one, and
//! [`rank::Rank`], of which every rank has one. Neither does I/O nor reads a clock, so the tests
//! drive the very code that runs in production through every interleaving they can think of.
//!
//! Around them: [`server`] (threads and sockets around the coordinator, in rank 0's lower half),
//! [`relay`] (what stands between it and the ranks of a large job, in the shape of a [`tree`]),
//! [`schedule`] (which checkpoints are due that nobody asks for), [`agent`] (the same around a rank's
//! machine), [`partner`] (copies of images on other machines), [`client`] (what the `stasis` command uses),
//! [`job`] (the file by which the command finds a job) and [`protocol`] (what is said).

pub mod addresses;
pub mod agent;
mod below;
pub mod bundle;
pub mod client;
pub mod coordinator;
mod door;
pub mod frame;
pub mod job;
pub mod partner;
mod place;
mod process;
pub mod protocol;
pub mod rank;
pub mod ranks;
pub mod relay;
mod release;
mod routes;
pub mod schedule;
pub mod server;
pub mod shared;
mod socket;
mod started;
pub mod stream;
pub mod tree;
mod words;
