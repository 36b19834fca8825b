//! The checkpoint protocol, and the control plane that carries it.
//!
//! The protocol has these stages: intent → targets → reached → stopped and drained → saved → committed →
//! resumed. It consists of two pure state machines: a job has one [`protocol::coordinator::Coordinator`],
//! and every rank has one [`protocol::rank::Rank`]. Neither does I/O nor reads a clock, so the tests drive
//! the code of production through all interleavings.
//!
//! | module | content |
//! |---|---|
//! | [`protocol`] | the messages and the two machines |
//! | [`net`] | connections, the [`net::tree`] of a large job and its [`net::relay`]s |
//! | [`server`] | threads and sockets around the coordinator, in rank 0's lower half |
//! | [`agent`] | the same around a rank's machine |
//! | [`chronicle`] | what happens to the job, for its history |
//! | [`schedule`] | checkpoints that are due without a command |
//! | [`partner`] | copies of images on other machines |
//! | [`client`] | the connection of the `stasis` command to a job |
//! | [`job_file`], [`claim`] | the file by which commands find a job, and by which a job owns its directory |
//! | [`private_file`] | such files are written whole, and are read only if others cannot have written them |
//!
//! # Examples
//! The machine of a job of one rank, without the network around it. A checkpoint begins with the preparation of its
//! set, and the rank's intent to stop.
//!
//! ```
//! use history::event::Cause;
//! use stasis_coordinator::protocol::coordinator::{Action, Config, Coordinator, Event};
//!
//! let mut coordinator = Coordinator::new(Config::new(1));
//! let (rank, host) = (0, "node1".to_owned());
//! assert_eq!(coordinator.on(0, Event::Connected { rank, host, pid: 7 }), []);
//! let asked = coordinator.on(1, Event::Request {
//!     client: None,
//!     cause: Cause::Interval,
//!     stop: false,
//!     patience: None,
//! });
//! assert_eq!(asked, [Action::Prepare(1)]);
//! assert!(coordinator.busy());
//! ```

pub mod agent;
mod child_programs;
pub mod chronicle;
pub mod claim;
pub mod client;
mod job_directory;
pub mod job_file;
pub mod net;
pub mod partner;
pub mod private_file;
pub mod process_liveness;
pub mod protocol;
pub mod schedule;
pub mod server;
mod threads;
