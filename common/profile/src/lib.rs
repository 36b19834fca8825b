//! The profile of a job's MPI calls (`stasis launch --profile`): a file for each rank in the checkpoint directory,
//! their sums, and these as text.
//!
//! | module | content |
//! |---|---|
//! | [`mod@file`] | the numbers of one rank, and its file |
//! | [`sum`] | the sums over the ranks |
//! | [`text`] | the sums as users read them |
//!
//! # Examples
//! ```
//! use stasis_profile::{file, file::Function, text, Job, Rank};
//!
//! let directory = tempfile::tempdir()?;
//! for rank in 0..2 {
//!     let seconds = 1.5;
//!     let reduced = Function { function: "MPI_Allreduce".into(), calls: 10, seconds, ..Function::default() };
//!     let of_rank = Rank { rank, size: 2, elapsed_seconds: 6.0, mpi_seconds: seconds, threads: 1, ..Rank::default() };
//!     Rank { functions: vec![reduced], ..of_rank }.write(directory.path())?;
//! }
//! let job = Job::of(file::read(directory.path())?).unwrap();
//! assert_eq!(job.sums.calls, 20);
//! assert!(text::heading(&job.sums).contains("25.0 % of it in MPI, 20 calls"));
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod file;
pub mod sum;
pub mod text;

pub use file::Rank;
pub use sum::Job;
