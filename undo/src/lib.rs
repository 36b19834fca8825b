//! Undo journals: what a job has done to its files since a checkpoint, so that a restart finds every file as
//! it was when the checkpoint was taken.
//!
//! Each rank writes a journal of its own while it runs ([`Journal`]), in *segments*: one from each cut to the
//! next. Before the first change of a block, a name or a length in a segment, the journal holds what was there.
//! A restart from a set reads all segments that begin at the set's cut or later, of all ranks ([`Plan::read`]),
//! and puts back, for every file, the earliest state that they hold ([`Plan::apply`]). To do that twice, or
//! after it was interrupted, gives the same result. [`Plan::outlook`] tells beforehand what would be done.
//!
//! ```text
//! CHECKPOINTS/undo/rank-3/00000002-ckpt-5/log      the records (record.rs)
//!                                        /kept-1   a link to a file that the job has unlinked
//!                 shared.renewed                    files that an undo has made anew (history.rs)
//! ```
//!
//! The journal costs nothing before the first checkpoint. After it, a file that is only appended to has one
//! short record in each segment, a new file two, and only what overwrites, truncates, unlinks or renames what
//! was there at the cut has to read it first.
//!
//! A journal is in the page cache before the change that it undoes is made, so it holds whatever way the job's
//! processes end. Nothing is synced: after a power cut a file may have changes that the journal lacks. The
//! checksums in the image then tell, as they do where another program has changed a file.

/// Bytes that a rank's journal may have between two checkpoints, where nobody says otherwise.
pub const DEFAULT_LIMIT: u64 = 16 << 30;

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
pub use record::{is_local, now, Cut, Identity};
pub use segment::{forget, prune, DIRECTORY};
