//! Image sets on disk: format, atomic commit, verification.
//!
//! A checkpoint is a directory `ckpt-N` with one image per rank (`rank-R.img`) and a manifest that
//! is written last. [`SetWriter`] makes one and [`Set`] opens one; [`ImageWriter`] and [`Image`] do
//! the same for one rank's image. `docs/image-format.md` describes every byte.
//!
//! Files may be damaged or hostile. So this crate has one unsafe call only, on a descriptor (`descriptor.rs`). A length
//! is compared with the bytes that are there before it is used, and a file is verified before any of it is handed out.

mod access;
mod aside;
mod behind;
mod bytes;
mod chain;
mod chunk;
mod compact;
mod compress;
mod descriptor;
mod disk;
mod environment;
mod error;
mod header;
mod identity;
mod image;
mod inherited;
mod key;
mod level;
mod lineage;
mod list;
mod manifest;
mod parallel;
mod region;
mod retention;
mod section;
mod set;
mod shared;
mod span;
mod writer;

pub use access::{check_checkpoint_dir, create_checkpoint_dir};
pub use aside::{put_aside, put_aside_before};
pub use chain::{Memory, Piece, LONGEST_CHAIN};
pub use chunk::{Chunk, Encoding, CHUNK_BYTES};
pub use compact::{compact, Compacted};
pub use compress::Compression;
pub use disk::{Disk, Fault, FaultAt, Made, Step};
pub use environment::Environment;
pub use error::{explained, Damage, ImageError, Result};
pub use header::{Header, SetId, FORMAT_VERSION, PAGE};
pub use identity::{Identity, IdentityCache};
pub use image::{Expect, Image, Loader};
pub use inherited::{Inherited, Parent};
pub use key::{Key, KeyId};
pub use level::LocalDir;
pub use lineage::Lineage;
pub use list::{
    any_finished, explain, list_sets, named_whole, newest_whole, next_number, oldest_number,
    Newest, SetInfo, SetState,
};
pub use manifest::{Manifest, ParentSet, PartnerCopy, RankEntry, MANIFEST_FILE};
pub use parallel::{room_for_thread, side_by_side};
pub use region::{Advice, Backing, Region};
pub use retention::prune;
pub use section::{kind, Section};
pub use set::{image_file, partial_name, set_name, set_number, Set, SetWriter};
pub use shared::{SharedKind, SharedObject, SHARED_CONTENT};
pub use span::Span;
pub use writer::{ImageSummary, ImageWriter, ReadMemory, WriteOrder};
