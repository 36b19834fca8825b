//! Recovery of a job inside its allocation: `stasis run` starts the job, and starts it again from its newest checkpoint
//! when a part of it has died.
//!
//! An *incarnation* is one start of the job. Its ranks connect to `stasis run`. On its own machine the *keeper* sees
//! the death of a rank in its pidfd. A rank of another machine holds a *lease*. A rank that ends by its own will says
//! so before. The next incarnation starts when every process of the last one is dead. A *standby world* is an
//! incarnation that is started before it is needed.
//!
//! | module | content |
//! |---|---|
//! | [`command_line`] | the user's line, and the words that are put into it |
//! | [`run_file`] | the file by which a rank finds its keeper |
//! | [`messages`] | what a rank and its keeper say to each other |
//! | [`rank`] | a rank's side, in the lower half |
//! | [`keeper`] | the ranks of this machine |
//! | [`recovery`] | the machine that decides; it is pure |
//! | [`memory_sets`] | the checkpoints in memory |
//! | [`child_parts`] | the descriptors of the children that have them |
//! | [`node_keeper`] | the process that has them on another machine |
//! | [`node_messages`] | what it and `stasis run` say to each other |
//! | [`rescue`] | a checkpoint in memory that is written, after a failure |
//! | [`pauses`] | the pauses before the starts of a job that makes no progress |
//! | [`standby`] | the machine of the standby world; it is pure, too |
//! | [`standby_world`] | the processes of the standby world |
//! | [`input`] | standard input of a launcher that was started as a standby world |
//! | [`remote`] | the ranks of other machines |
//! | [`leases`] | their leases; it is pure |
//! | [`hosts`] | machines that are left out |
//! | [`epochs`] | the states of MPI that a job of MPI Stages has written |
//! | [`hang`] | the watch for a job without progress |
//! | [`processes`] | the processes below `stasis run` |
//! | [`exit_signal`] | the signal that has killed a rank |
//! | [`unblocked`] | commands that are started with no signal blocked |
//! | [`run`] | threads, signals and processes around the machine |
//!
//! # Examples
//! The machine that decides, without the job around it. `most` failures in a row without a new checkpoint end the job.
//!
//! ```
//! use stasis_supervisor::recovery::{Departure, Order, Policy, Recovery, RecoverOn};
//!
//! let mut job = Recovery::new(Policy { on: RecoverOn::Signals, most: 20 });
//! // Rank 3 is killed, so what is left of the incarnation is killed, too.
//! assert_eq!(job.rank_left(Some(3), Departure::Lost, false), Some(Order::Kill));
//! // The next incarnation starts when every process is dead. The newest checkpoint is ckpt-7.
//! assert_eq!(job.all_dead(Some(7)), Some(Order::Start { failures: 1 }));
//! // A rank that ends with an exit code of its own is no failure: the user has asked for signals alone. The launcher
//! // may end the others for it.
//! let order = job.rank_left(Some(0), Departure::Exits(2), false);
//! assert_eq!(order, Some(Order::AwaitEnd));
//! ```

pub mod child_parts;
pub mod command_line;
pub mod epochs;
pub mod exit_signal;
pub mod hang;
pub mod hosts;
pub mod input;
pub mod keeper;
pub mod leases;
pub mod memory_sets;
pub mod messages;
pub mod node_keeper;
pub mod node_messages;
pub mod pauses;
pub mod processes;
pub mod rank;
pub mod recovery;
pub mod remote;
pub mod rescue;
pub mod run;
pub mod run_file;
pub mod standby;
pub mod standby_world;
pub mod unblocked;
