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
//!
//! # Examples
//! A rank overwrites a file after a cut, and a restart from that cut brings the old content back.
//!
//! ```
//! use stasis_undo::{Cut, Facts, Identity, Journal, Keeper, Plan, Share};
//! use std::collections::HashMap;
//! use std::fs::{self, File};
//! use std::os::unix::fs::MetadataExt;
//!
//! struct Nothing;
//! impl Keeper for Nothing {
//!     fn keep(&mut self, _: &std::path::Path, _: &File, _: u64, _: &str) -> bool {
//!         true
//!     }
//!     fn leave(&mut self, path: &std::path::Path, why: &dyn std::fmt::Display) {
//!         panic!("{}: {why}", path.display());
//!     }
//! }
//!
//! let folder = tempfile::tempdir()?;
//! let (checkpoints, path) = (folder.path().join("ck"), folder.path().join("result"));
//! fs::write(&path, "is kept")?;
//! let meta = path.metadata()?;
//! let identity = Identity { device: meta.dev(), inode: meta.ino(), local: true };
//! let facts = Facts::found(identity, &meta);
//!
//! let cut = Cut { number: 1, id: [1; 16] };
//! let mut journal = Journal::new(&checkpoints, 0, "node1".into(), u64::MAX);
//! journal.begin(cut, HashMap::from([(identity, facts.at_cut())]));
//! // Before the file changes, the journal gets the bytes that are lost.
//! let old = |at, len| Ok(fs::read(&path)?[at as usize..][..len].to_vec());
//! journal.changing(&facts, &|| path.clone(), 0..2, &old);
//! fs::write(&path, "IS kept")?;
//!
//! let share = Share { host: "node1", hosts: &["node1".into()], first_here: true, first: true };
//! let done = Plan::read(&checkpoints, &cut)?.apply(&share, &mut Nothing);
//! assert_eq!((done.rewritten, done.failed), (1, 0));
//! assert_eq!(fs::read_to_string(&path)?, "is kept");
//! assert_eq!(path.metadata()?.modified()?, meta.modified()?);
//! # Ok::<(), std::io::Error>(())
//! ```

mod apply;
mod blocks;
mod history;
mod journal;
mod left_behind;
mod outlook;
mod plan;
mod record;
mod segment;

pub use apply::{Done, Keeper};
pub use journal::{AtCut, Current, Facts, Journal, Name, Place, Read};
pub use left_behind::{left_behind, LeftBehind};
pub use outlook::{Change, Deed, Outlook};
pub use plan::{Plan, Share, View};
pub use record::{is_local, keeps_numbers, now, Cut, Identity};
pub use segment::{forget, prune, DIRECTORY};
