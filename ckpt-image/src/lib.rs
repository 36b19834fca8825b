//! Image sets on disk: format, atomic commit, verification.
//!
//! A checkpoint is a directory `ckpt-N` with one image per rank (`rank-R.img`) and a manifest that is
//! written last. [`SetWriter`] writes a set and [`Set`] opens one. [`ImageWriter`] and [`Image`] do the
//! same for one rank's image. `docs/image-format.md` describes every byte.
//!
//! | folder | content |
//! |---|---|
//! | `format` | the layout of an image: header, sections, tables |
//! | `write` | writing one image |
//! | `read` | verifying and reading one image |
//! | `set` | the directory of a set, its manifest, and the directory of all sets |
//! | `fs` | permissions, durable changes on disk, fault injection |
//!
//! Files may be damaged or hostile. This crate has only one unsafe call, on a descriptor
//! (`fs/high_descriptor.rs`). A length is compared with the available bytes before it is used. A file is
//! verified before any of it is returned.

mod error;
mod format;
mod fs;
mod limits;
mod parallel;
mod read;
mod set;
mod write;

pub use error::{explained, Damage, ImageError, Result};
pub use format::chunk::{Chunk, Encoding, CHUNK_BYTES};
pub use format::file_identity::{FileIdentity, FileIdentityCache};
pub use format::header::{Header, PAGE};
pub use format::ids::{KeyId, SetId};
pub use format::machine::Machine;
pub use format::parent_pages::{ParentImage, ParentPages};
pub use format::region::{Advice, Backing, Region};
pub use format::section::{kind, Section, SectionKind};
pub use format::shared_object::{SharedKind, SharedObject, SHARED_CONTENT};
pub use format::zero_runs::Span;
pub use fs::fault::{Fault, FaultAt, Operation, Step};
pub use fs::file_system::FileSystem;
pub use fs::permissions::{check_checkpoint_dir, create_checkpoint_dir};
pub use job_spec::Compression;
pub use limits::{FORMAT_VERSION, LONGEST_CHAIN};
pub use parallel::{room_for_thread, side_by_side};
pub use read::chain::Piece;
pub use read::expect::Expect;
pub use read::image::Image;
pub use read::load::{Loader, Memory};
pub use set::archive::{archive, archives};
pub use set::compact::{compact, Compacted};
pub use set::image_set::Set;
pub use set::lineage::Lineage;
pub use set::list::{
    any_finished, explain, list_sets, named_whole, newest_whole, next_number, oldest_number,
    Newest, SetInfo, SetState,
};
pub use set::local_storage::LocalDir;
pub use set::manifest::{Manifest, ParentSet, PartnerCopy, RankEntry};
pub use set::names::{image_file, partial_name, set_name, set_number, MANIFEST_FILE};
pub use set::retention::prune;
pub use set::seal::SealKey;
pub use set::set_writer::SetWriter;
pub use write::writer::{ImageSummary, ImageWriter, MemorySource, WriteOrder};
