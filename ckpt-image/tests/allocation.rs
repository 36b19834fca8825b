//! A small file that claims to be large costs no more memory than other small files.

mod common;
#[path = "common/largest.rs"]
mod largest;

use std::fs;

use common::*;
use largest::{justified, largest_of, Largest};
use stasis_ckpt_image::{Expect, Image, SetId};

#[global_allocator]
static ALLOCATOR: Largest = Largest;

#[test]
fn claimed_lengths_allocate_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rank-0.img");
    write_small(&path, SetId([1; 16]), 0, 1);
    let good = fs::read(&path).unwrap();
    let number = |at: usize| u64::from_le_bytes(good[at..at + 8].try_into().unwrap()) as usize;
    let (sections, directory) = (number(96), number(104));
    let huge = (1u64 << 46).to_le_bytes();
    // A length that claims everything, also as a varint in the table of regions.
    let varint = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let claims: [(usize, &[u8]); 9] = [
        (96, &huge),
        (104, &huge),
        (112, &[0xff; 4]),
        (120, &huge),
        (directory + 8, &huge),
        (directory + 16, &huge),
        (directory + 32 + 16, &huge),
        (sections, &varint),
        (sections + 40, &varint),
    ];
    for (at, claim) in claims {
        let mut bytes = good.clone();
        bytes[at..at + claim.len()].copy_from_slice(claim);
        if at == 104 {
            // The tables cannot be found; only the header is corrected.
            let crc = crc32(&bytes[..252]).to_le_bytes();
            bytes[252..256].copy_from_slice(&crc);
        } else {
            checksum_again(&mut bytes);
        }
        fs::write(&path, &bytes).unwrap();
        let (opened, largest) = largest_of(|| Image::open_verified(&path, &Expect::default()));
        let error = opened.unwrap_err();
        assert!(
            largest <= justified(bytes.len()),
            "{largest} bytes for claim at {at}: {error}"
        );
    }
}
