//! Undo journals: records of the changes that a job has made to its files since a checkpoint. With them a restart
//! restores every file to its state at the checkpoint.
//!
//! Each rank writes a journal of its own while it runs ([`Journal`]), in *segments*: one from each cut to the next.
//! Before the first change of a block, a name or a length in a segment, the journal records the old state. A restart
//! from a set reads all segments that begin at the set's cut or later, of all ranks ([`Plan::read`]), and restores, for
//! every file, the earliest state in them ([`Plan::apply`]). A repeated or an interrupted and repeated undo has the
//! same result. [`Plan::outlook`] predicts the changes.
//!
//! ```text
//! CHECKPOINTS/undo/rank-3/00000002-ckpt-5/log      the records (record.rs)
//!                                        /kept-1   a link to a file that the job has unlinked
//!                 shared.renewed                    files that an undo has created again (history.rs)
//! ```
//!
//! The journal costs nothing before the first checkpoint. After it, a file that is only appended to has one short
//! record in each segment, a new file two. Only calls that overwrite, truncate, unlink or rename old state have to read
//! it first.
//!
//! A record is in the page cache before the change that it undoes is made, so it survives any end of the job's
//! processes. Nothing is synced: after a power failure a file may have changes that the journal lacks. The checksums in
//! the image then detect this, as they detect changes by another program.
#![warn(clippy::missing_errors_doc)]

mod apply;
mod blocks;
mod history;
mod journal;
mod outlook;
mod plan;
mod record;
mod segment;

pub use apply::{Done, Keeper};
pub use journal::{Current, Facts, Journal, Name, Place, Read};
pub use outlook::{Change, Deed, Outlook};
pub use plan::{Plan, Share, View};
pub use record::{is_local, keeps_numbers, now, Cut, Identity};
pub use segment::{forget, prune, DIRECTORY};
