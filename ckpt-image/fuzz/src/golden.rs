//! The golden sets of `ckpt-image`, of one rank each.

use std::sync::LazyLock;

use stasis_ckpt_image::SealKey;

use crate::{ck, common};

macro_rules! golden {
    ($set:literal, $file:literal) => {
        include_bytes!(concat!("../../tests/golden/", $set, "/", $file)).as_slice()
    };
}

/// Images of the golden sets.
pub const IMAGES: [&[u8]; 5] = [
    golden!("regions-1", "ckpt-1/rank-0.img"),
    golden!("regions-2", "ckpt-1/rank-0.img"),
    golden!("closed-files-1", "ckpt-1/rank-0.img"),
    golden!("inherited-1", "ckpt-2/rank-0.img"),
    SEALED_IMAGE,
];
/// Manifests of the golden sets.
pub const MANIFESTS: [&[u8]; 5] = [
    golden!("regions-1", "ckpt-1/manifest.json"),
    golden!("regions-2", "ckpt-1/manifest.json"),
    golden!("closed-files-1", "ckpt-1/manifest.json"),
    golden!("inherited-1", "ckpt-2/manifest.json"),
    SEALED_MANIFEST,
];
/// The image of the set that is sealed with [`KEY`].
pub const SEALED_IMAGE: &[u8] = golden!("sealed-1", "ckpt-1/rank-0.img");
/// Manifest of that set.
pub const SEALED_MANIFEST: &[u8] = golden!("sealed-1", "ckpt-1/manifest.json");
/// The key of `golden/sealed-1/key-7`.
pub static KEY: LazyLock<SealKey> = LazyLock::new(|| common::key(ck(), 7));
