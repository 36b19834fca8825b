//! Errors of images and sets. A message names the file, the rank, and the next action of the user.

use std::path::{Path, PathBuf};

use job_spec::shell;

use crate::format::ids::{KeyId, SetId};
use crate::limits::{FORMAT_VERSION, LONGEST_CHAIN};

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, ImageError>;

/// Kind of damage to an image or a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Damage {
    #[error("it is not a Stasis image")]
    NotAnImage,
    #[error("it has format version {0}, this build reads {FORMAT_VERSION}")]
    Version(u32),
    #[error("its header does not match its checksum, or it has an unknown format version ({0})")]
    VersionOrChecksum(u32),
    #[error("its header does not match its checksum")]
    HeaderChecksum,
    #[error("it is {found} bytes long, should be {expected}")]
    Length { expected: u64, found: u64 },
    #[error("its section directory does not match its checksum")]
    DirectoryChecksum,
    #[error("section {name} at offset {offset} does not match its checksum")]
    SectionChecksum { name: String, offset: u64 },
    #[error(
        "section of kind {kind}, version {version} is not known to this build: \
         it was written by a newer one"
    )]
    UnknownSection { kind: u32, version: u32 },
    #[error("section {0} is missing")]
    NoSection(&'static str),
    #[error("section {0} cannot be decoded")]
    Section(&'static str),
    #[error(
        "memory chunk {index} (address {address:#x}, offset {offset}) does not match its checksum"
    )]
    ChunkChecksum {
        index: usize,
        address: u64,
        offset: u64,
    },
    #[error("memory chunk {index} (address {address:#x}, offset {offset}) does not decompress")]
    ChunkEncoding {
        index: usize,
        address: u64,
        offset: u64,
    },
    #[error("its parts contradict each other: {0}")]
    Layout(&'static str),
    #[error("its digest is not the one in the manifest")]
    Digest,
    #[error(
        "memory chunk {index} (address {address:#x}, offset {offset}) does not match its digest: it \
         was changed on purpose, and its checksum was adapted"
    )]
    ChunkDigest {
        index: usize,
        address: u64,
        offset: u64,
    },
    #[error("it has no digests of its memory, which a sealed set must have")]
    NoDigests,
    #[error("it is not the parent image of the next increment")]
    NotTheParent,
    #[error("it is an increment of the set with id {0}, which is needed to read it")]
    WithoutParent(SetId),
    #[error("the manifest does not match its own digest")]
    ManifestDigest,
    #[error("the manifest cannot be read: {0}")]
    Manifest(String),
}

/// Reason why an image or a set cannot be written or used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ImageError {
    #[error("cannot {action} {}: {source}{}", path.display(), advice(source))]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}{}: {damage}", path.display(), of_rank(*rank))]
    Damaged {
        path: PathBuf,
        rank: Option<u32>,
        damage: Damage,
    },
    #[error("{} is not safe to use: {why}", path.display())]
    Access { path: PathBuf, why: String },
    #[error("the key file {} cannot be used: {why}", path.display())]
    Key { path: PathBuf, why: String },
    #[error(
        "{} is sealed with key {key}, which was not given (--key-file or STASIS_KEY_FILE)",
        path.display()
    )]
    KeyWanted { path: PathBuf, key: KeyId },
    #[error(
        "{} is sealed with key {key}, not with the key that was given, {given}",
        path.display()
    )]
    OtherKey {
        path: PathBuf,
        key: KeyId,
        given: KeyId,
    },
    #[error(
        "{} is not sealed, though a key was given ({given}): anyone with write access may have \
         made it. If you trust it, omit the key",
        path.display()
    )]
    NotSealed { path: PathBuf, given: KeyId },
    #[error(
        "{} does not match its seal: it was changed without the key",
        path.display()
    )]
    BrokenSeal { path: PathBuf },
    #[error("the image of rank {rank} is missing ({} does not exist)", path.display())]
    MissingImage { rank: u32, path: PathBuf },
    #[error(
        "the image of rank {rank} lies {}, and cannot be reached from here ({here}): it was not drained to \
         the checkpoint directory yet. If it is lost there, it cannot be recovered", on(places)
    )]
    OutOfReach {
        rank: u32,
        /// Machines, and the paths of the file there.
        places: Vec<(String, PathBuf)>,
        here: String,
    },
    #[error("{} should hold rank {expected}, but holds the image of rank {found}: files were swapped", path.display())]
    OtherRank {
        path: PathBuf,
        expected: u32,
        found: u32,
    },
    #[error("{} (rank {rank}) belongs to another set: it has set id {found}, the manifest has {expected}", path.display())]
    MixedSet {
        path: PathBuf,
        rank: u32,
        expected: SetId,
        found: SetId,
    },
    #[error("{} (rank {rank}) disagrees with the manifest about {what}: {found}, not {expected}", path.display())]
    Disagrees {
        path: PathBuf,
        rank: u32,
        what: &'static str,
        expected: String,
        found: String,
    },
    #[error(
        "the set {set} was taken with {}, this job has {job}: start it with `mpirun -n {taken}`",
        ranks(.taken)
    )]
    WorldSize { set: String, taken: u32, job: u32 },
    #[error(
        "the set was written under version {found} of the contract between the halves, this \
         build has {expected}: restart with the Stasis that wrote it"
    )]
    Contract { expected: u32, found: u32 },
    #[error("the image was taken with pages of {found} bytes, this machine has {expected}")]
    PageSize { expected: u32, found: u32 },
    #[error("{} has no manifest: that checkpoint was never finished", path.display())]
    NoManifest { path: PathBuf },
    #[error("there is no set {name} in {}", dir.display())]
    NoSuchSet { dir: PathBuf, name: String },
    #[error("{attempts} restarts from it have failed (`--set {name}` tries again)")]
    KeepsFailing { name: String, attempts: u32 },
    #[error("there is no whole checkpoint in {}{}", dir.display(), unusable(others))]
    NoWholeSet { dir: PathBuf, others: Vec<String> },
    #[error(
        "memory at {start:#x}-{end:#x} cannot be saved: {why}. The checkpoint is given up, the \
         job runs on"
    )]
    Unsaveable { start: u64, end: u64, why: String },
    #[error("{set} needs {link}, which cannot be used: {reason}")]
    Link {
        set: String,
        link: String,
        reason: Box<ImageError>,
    },
    #[error("it is not the parent set of the next increment: that has set id {expected}")]
    OtherLink { expected: SetId },
    #[error("there are more than {LONGEST_CHAIN} sets in the chain")]
    TooLong,
    #[error("checkpoint {set} cannot be used: {reason}.{}", older_set(older.as_deref()))]
    Unusable {
        set: String,
        reason: Box<ImageError>,
        older: Option<PathBuf>,
    },
}

/// A text such as `on node1, in FILE`.
fn on(places: &[(String, PathBuf)]) -> String {
    let on = |(host, path): &(String, PathBuf)| format!("on {host}, in {}", path.display());
    let places: Vec<String> = places.iter().map(on).collect();
    places.join(", and ")
}

impl ImageError {
    /// The reason why a set cannot be used that an older set may not have: damage to its files.
    pub fn damage_of_set(&self) -> Option<&ImageError> {
        match self {
            ImageError::Unusable { reason, .. } => reason.damage_of_set(),
            ImageError::Link { reason, .. } => reason.damage_of_set().map(|_| self),
            ImageError::Damaged { .. }
            | ImageError::BrokenSeal { .. }
            | ImageError::MissingImage { .. }
            | ImageError::OtherRank { .. }
            | ImageError::MixedSet { .. }
            | ImageError::Disagrees { .. }
            | ImageError::NoManifest { .. }
            | ImageError::NoSuchSet { .. }
            | ImageError::OtherLink { .. }
            | ImageError::TooLong => Some(self),
            _ => None,
        }
    }

    /// Whether the set is refused for its key alone, and nothing is known of its bytes.
    pub fn is_of_key(&self) -> bool {
        match self {
            ImageError::Unusable { reason, .. } | ImageError::Link { reason, .. } => {
                reason.is_of_key()
            }
            ImageError::KeyWanted { .. }
            | ImageError::OtherKey { .. }
            | ImageError::NotSealed { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: impl Into<std::io::Error>) -> Self {
        ImageError::Io {
            action,
            path: path.to_owned(),
            source: explained(path, source.into()),
        }
    }

    pub(crate) fn damaged(path: &Path, rank: impl Into<Option<u32>>, damage: Damage) -> Self {
        ImageError::Damaged {
            path: path.to_owned(),
            rank: rank.into(),
            damage,
        }
    }

    pub(crate) fn access(path: &Path, why: impl Into<String>) -> Self {
        ImageError::Access {
            path: path.to_owned(),
            why: why.into(),
        }
    }
}

fn of_rank(rank: Option<u32>) -> String {
    rank.map_or(String::new(), |rank| format!(" (rank {rank})"))
}

fn older_set(older: Option<&Path>) -> String {
    match older {
        Some(path) => format!(
            " Go back to the newest whole checkpoint before it: stasis restart {}",
            shell::word(path)
        ),
        None => " There is no older whole checkpoint beside it".to_owned(),
    }
}

fn unusable(others: &[String]) -> String {
    match others {
        [] => String::new(),
        others => format!(" (not usable: {})", others.join("; ")),
    }
}

/// A file system without free inodes. The kernel reports this as a lack of space.
#[derive(Debug, thiserror::Error)]
#[error("no inodes are left on that file system (it can hold no more files, even with free space)")]
struct NoInodes;

/// Adds to the error of an operation on a path the details that the kernel leaves out. Called at once,
/// because a cleanup after the failure frees inodes.
pub fn explained(path: &Path, error: std::io::Error) -> std::io::Error {
    if error.kind() != std::io::ErrorKind::StorageFull {
        return error;
    }
    let system = path
        .ancestors()
        .find_map(|path| nix::sys::statvfs::statvfs(path).ok());
    // File systems without a fixed number of inodes report none at all.
    match system.is_some_and(|system| system.files() > 0 && system.files_available() == 0) {
        true => std::io::Error::new(std::io::ErrorKind::StorageFull, NoInodes),
        false => error,
    }
}

/// A number of ranks, such as `1 rank` or `2 ranks`.
fn ranks(number: &u32) -> String {
    match number {
        1 => "1 rank".to_owned(),
        more => format!("{more} ranks"),
    }
}

/// Advice for failures that a user can correct.
fn advice(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::*;
    match error.kind() {
        StorageFull if error.get_ref().is_some_and(|error| error.is::<NoInodes>()) => {
            ". Remove files there or give another directory; the last whole checkpoint is untouched"
        }
        StorageFull | QuotaExceeded => {
            ". Free space there or give another directory; the last whole checkpoint is untouched"
        }
        FileTooLarge => ". Raise the file size limit (ulimit -f) or use another file system",
        PermissionDenied | ReadOnlyFilesystem => {
            ". Give a --ckpt-dir that this user owns and can write"
        }
        _ => "",
    }
}
