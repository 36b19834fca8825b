//! Recovery of a job inside its allocation: `stasis run` starts the job, and starts it again from its newest checkpoint
//! when a part of it has died.
//!
//! An *incarnation* is one start of the job. Its ranks connect to the *keeper*, which is a part of `stasis run`. The
//! keeper sees the death of a rank in its pidfd. A rank that ends by its own will says so before. The next incarnation
//! starts when every process of the last one is dead.
//!
//! | module | content |
//! |---|---|
//! | [`command_line`] | the user's line, and the words that are put into it |
//! | [`run_file`] | the file by which a rank finds its keeper |
//! | [`messages`] | what a rank and its keeper say to each other |
//! | [`rank`] | a rank's side, in the lower half |
//! | [`keeper`] | the keeper's side: the ranks of this machine |
//! | [`recovery`] | the machine that decides; it is pure |
//! | [`epochs`] | the states of MPI that a job of MPI Stages has written |
//! | [`hang`] | the watch for a job without progress |
//! | [`processes`] | the processes below `stasis run` |
//! | [`run`] | threads, signals and processes around the machine |

pub mod command_line;
pub mod epochs;
pub mod hang;
pub mod keeper;
pub mod messages;
pub mod processes;
pub mod rank;
pub mod recovery;
pub mod run;
pub mod run_file;
