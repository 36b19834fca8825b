//! A manifest of any bytes. With a key, only what was sealed with it is taken.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stasis_fuzz::golden::{KEY, SEALED_MANIFEST};
use stasis_fuzz::{open_manifest, put_right_manifest};

fuzz_target!(|bytes: &[u8]| {
    for bytes in [Some(bytes.to_vec()), put_right_manifest(bytes)]
        .into_iter()
        .flatten()
    {
        if let Some(manifest) = open_manifest(&bytes, None) {
            assert_eq!(manifest.ranks.len(), manifest.world_size as usize);
        }
        let sealed = open_manifest(&bytes, Some(&KEY));
        assert!(
            sealed.is_none() || bytes == SEALED_MANIFEST,
            "a seal was forged"
        );
    }
});
