//! Changes to a sealed set, after which perhaps all checksums and digests are made right again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stasis_fuzz::golden::{SEALED_IMAGE, SEALED_MANIFEST};
use stasis_fuzz::{is_verified, put_right, put_right_manifest};

/// Each change takes six bytes: what, where (four), and with what.
fn alter(mut bytes: Vec<u8>, changes: &[u8]) -> Vec<u8> {
    for change in changes.chunks_exact(6) {
        let [what, a, b, c, d, with] = change else {
            break;
        };
        let at = u32::from_le_bytes([*a, *b, *c, *d]) as usize % (bytes.len() + 1);
        match what % 5 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, *with),
            2 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= with),
            3 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte = *with),
            // A piece comes to another place.
            _ => {
                let piece = bytes[at..].iter().take(usize::from(*with)).copied();
                let piece: Vec<u8> = piece.collect();
                let to = at / 2;
                bytes[to..to + piece.len()].copy_from_slice(&piece);
            }
        }
    }
    bytes
}

fuzz_target!(|input: (bool, &[u8], &[u8])| {
    let (forge, of_image, of_manifest) = input;
    let mut image = alter(SEALED_IMAGE.to_vec(), of_image);
    let mut manifest = alter(SEALED_MANIFEST.to_vec(), of_manifest);
    if forge {
        image = put_right(&image).unwrap_or(image);
        manifest = put_right_manifest(&manifest).unwrap_or(manifest);
    }
    let same = image == SEALED_IMAGE && manifest == SEALED_MANIFEST;
    assert_eq!(is_verified(&manifest, &image), same);
});
