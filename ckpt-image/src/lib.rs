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
//!
//! # Examples
//!
//! A set of one rank with one page of memory, and what a restart reads of it:
//!
//! ```
//! use stasis_ckpt_image::*;
//!
//! /// A page of sevens.
//! struct Sevens;
//! impl MemorySource for Sevens {
//!     fn read(&mut self, _address: u64, into: &mut [u8]) -> std::io::Result<()> {
//!         into.fill(7);
//!         Ok(())
//!     }
//! }
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let dir = folder.path().join("ck");
//! let (disk, start) = (FileSystem::default(), 1 << 40);
//! let writer = SetWriter::begin(&disk, &dir, 1)?;
//! let header = Header {
//!     set_id: writer.set_id(),
//!     epoch: 0,
//!     rank: 0,
//!     world_size: 1,
//!     contract_version: 1,
//!     page_size: 4096,
//!     abi: "none".into(),
//!     created_ns: 1,
//! };
//! let path = writer.path().join(image_file(0));
//! let mut image = ImageWriter::create(&disk, &path, header, Compression::Off)?;
//! let region = Region {
//!     start,
//!     len: PAGE,
//!     prot: 3,
//!     grows_down: false,
//!     no_reserve: false,
//!     advice: Advice::default(),
//!     backing: Backing::Anonymous,
//! };
//! image.region(region, &[start..start + PAGE], &mut Sevens)?;
//! let manifest = Manifest {
//!     schema_version: 1,
//!     set_id: writer.set_id(),
//!     increment_of: None,
//!     created: 1,
//!     pause_micros: None,
//!     total_micros: None,
//!     epoch: 0,
//!     world_size: 1,
//!     abi: "none".into(),
//!     library: "none".into(),
//!     thread_level: None,
//!     contract_version: 1,
//!     stasis_version: None,
//!     command: vec!["./app".into()],
//!     lineage: None,
//!     incarnation: None,
//!     for_cpu: None,
//!     ranks: vec![RankEntry {
//!         rank: 0,
//!         host: "here".into(),
//!         image: image.finish()?,
//!         local: None,
//!         copy: None,
//!     }],
//! };
//! writer.commit(&manifest, None)?;
//!
//! let set = newest_whole(&dir, None)?.set;
//! assert_eq!(set.name(), "ckpt-1");
//! let image = set.image(0, Some(1))?;
//! let mut memory = image.memory()?;
//! for piece in memory.pieces_of(0) {
//!     let mut content = vec![0; piece.len as usize];
//!     memory.load(piece, &mut content)?;
//!     assert_eq!((piece.address, content), (start, vec![7; PAGE as usize]));
//! }
//! # Ok::<(), ImageError>(())
//! ```

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
pub use format::guard_pages::GuardPages;
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
    any_finished, explain, list_sets, named_whole, newest_whole, newest_whole_without, next_number,
    oldest_number, Newest, SetInfo, SetState,
};
pub use set::local_storage::LocalDir;
pub use set::manifest::{Manifest, ParentSet, PartnerCopy, RankEntry};
pub use set::names::{image_file, partial_name, set_name, set_number, MANIFEST_FILE};
pub use set::retention::prune;
pub use set::seal::SealKey;
pub use set::set_writer::SetWriter;
pub use write::writer::{ImageSummary, ImageWriter, MemorySource, WriteOrder};
