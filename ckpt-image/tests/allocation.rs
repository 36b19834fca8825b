//! A small file that claims to be large costs no more memory than a small file.
//!
//! # Safety
//! The allocator hands every call on to the system's and only counts.
#![allow(unsafe_code)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::*;
use stasis_ckpt_image::{Expect, Image, SetId};

struct Largest;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: see the head of this file.
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: the caller's promises, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises, handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Largest = Largest;

#[test]
fn claims_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rank-0.img");
    write_small(&path, SetId([1; 16]), 0, 1);
    let good = fs::read(&path).unwrap();
    let number = |at: usize| u64::from_le_bytes(good[at..at + 8].try_into().unwrap()) as usize;
    let (sections, directory) = (number(96), number(104));
    let huge = (1u64 << 46).to_le_bytes();
    // A length that claims everything: as a varint, too, in the table of regions.
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
            // Nothing to find the tables by; only the header is made right.
            let crc = crc32(&bytes[..252]).to_le_bytes();
            bytes[252..256].copy_from_slice(&crc);
        } else {
            checksum_again(&mut bytes);
        }
        fs::write(&path, &bytes).unwrap();
        LARGEST.store(0, Relaxed);
        let error = Image::open_verified(&path, &Expect::default()).unwrap_err();
        let largest = LARGEST.load(Relaxed);
        assert!(
            largest < 2 << 20,
            "{largest} bytes for claim at {at}: {error}"
        );
    }
}
