//! Common code of the fuzz targets. Each target passes bytes to a reader of checkpoints. The reader must
//! neither panic nor allocate more memory than that number of bytes justifies:
//!
//! | target | the bytes are |
//! |---|---|
//! | `image` | an image; read as it is, and with its checksums put right |
//! | `tables` | the sections of an image, around which everything else is made to fit |
//! | `manifest` | a manifest; read as it is, with its digest put right, and with a key |
//! | `process` | the section of threads, files and signals |
//! | `altered` | changes to a sealed set: whatever they are, it is not verified any more |
//!
//! `cargo xtask fuzz` makes the seeds from the golden sets of `ckpt-image`, runs the targets one after the
//! other and reports their coverage. Each finding becomes a test of its crate.

#[path = "../../tests/common/mod.rs"]
mod common;
mod forge;
pub mod golden;
#[path = "../../tests/common/largest.rs"]
mod largest;

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::LazyLock;

pub use forge::{assemble, disassemble, put_right, put_right_manifest};
use largest::{justified, largest_of, Largest};
use stasis_ckpt_image::{image_file, Expect, Image, Manifest, SealKey, Set, MANIFEST_FILE};

#[global_allocator]
static ALLOCATOR: Largest = Largest;

/// Name of the only set in [`ck`].
const SET: &str = "ckpt-1";

/// A checkpoint directory of this process with one empty set, in TMPDIR.
pub fn ck() -> &'static PathBuf {
    static CK: LazyLock<PathBuf> = LazyLock::new(|| {
        let ck = tempfile::tempdir().expect("a directory").keep();
        DirBuilder::new()
            .mode(0o700)
            .create(ck.join(SET))
            .expect("a set");
        ck
    });
    &CK
}

fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = ck().join(SET).join(name);
    fs::write(&path, bytes).expect("written");
    path
}

/// The result of `read` for this number of bytes; panics if it allocates too much memory for them.
pub fn frugally<T>(bytes: usize, read: impl FnOnce() -> T) -> T {
    let (result, largest) = largest_of(read);
    assert!(
        largest <= justified(bytes),
        "{largest} bytes were asked for to read {bytes}"
    );
    result
}

/// Verifies an image of any bytes. Its content must be consistent.
pub fn open_image(bytes: &[u8]) {
    let path = write(&image_file(0), bytes);
    let image = frugally(bytes.len(), || {
        Image::open_verified(&path, &Expect::default())
    });
    if let Ok(image) = image {
        common::assert_holds_together(&image);
    }
}

/// Reads a manifest of any bytes.
pub fn open_manifest(bytes: &[u8], key: Option<&SealKey>) -> Option<Manifest> {
    write(MANIFEST_FILE, bytes);
    let set = frugally(bytes.len(), || Set::open(ck(), SET, key));
    Some(set.ok()?.manifest().clone())
}

/// Verifies a set of one rank, sealed with the golden key, to its last byte.
pub fn is_verified(manifest: &[u8], image: &[u8]) -> bool {
    write(MANIFEST_FILE, manifest);
    write(&image_file(0), image);
    let set = Set::open(ck(), SET, Some(&golden::KEY));
    set.is_ok_and(|set| set.image(0, Some(1)).is_ok())
}
