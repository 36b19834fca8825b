//! One image: round trips, and the detection of every kind of damage.

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::*;
use proptest::prelude::*;
use stasis_ckpt_image::{
    kind, Backing, Compression, Damage, Encoding, Expect, FileSystem, Image, ImageError,
    ImageWriter, Section, SetId, SharedKind, SharedObject, PAGE, SHARED_CONTENT,
};

const ID: SetId = SetId([9; 16]);

fn small() -> (tempfile::TempDir, PathBuf, Expect) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rank-1.img");
    let summary = write_small(&path, ID, 1, 2);
    assert_eq!(fs::metadata(&path).unwrap().len(), summary.bytes);
    let expect = Expect {
        set_id: Some(ID),
        rank: Some(1),
        world_size: Some(2),
        contract_version: Some(1),
        page_size: Some(4096),
        bytes: Some(summary.bytes),
        digest: Some(summary.digest),
        sealed: false,
        verified: None,
    };
    (dir, path, expect)
}

/// The content of a region, from its chunks.
fn content(image: &Image, index: usize) -> Vec<u8> {
    let region = &image.regions()[index];
    let mut memory = vec![0; region.len as usize];
    let mut loader = image.loader().unwrap();
    for chunk in image.chunks_of(index) {
        let at = (chunk.address - region.start) as usize;
        loader
            .load(chunk, &mut memory[at..at + chunk.len as usize])
            .unwrap();
    }
    memory
}

/// Starts the image of a job of one rank.
fn start(path: &Path, compression: Compression) -> ImageWriter {
    ImageWriter::create(&FileSystem::default(), path, header(ID, 0, 1), compression).unwrap()
}

#[test]
fn a_written_image_is_read() {
    let (_dir, path, expect) = small();
    let image = Image::open_verified(&path, &expect).unwrap();
    assert_eq!(image.header(), &header(ID, 1, 2));
    assert_eq!(image.regions().len(), 5);
    assert_eq!(image.shared().len(), 1);
    for (index, byte) in [
        (0, noise as fn(u64) -> u8),
        (1, |address| (address % 7) as u8),
        (2, |address| {
            if address < BASE + 22 * PAGE {
                0
            } else {
                noise(address)
            }
        }),
        (4, noise),
    ] {
        let region = &image.regions()[index];
        let saved: Vec<u64> = image
            .chunks_of(index)
            .iter()
            .flat_map(|chunk| chunk.address..chunk.address + u64::from(chunk.len))
            .collect();
        let memory = content(&image, index);
        for address in region.start..region.end() {
            let expected = match saved.binary_search(&address) {
                Ok(_) => byte(address),
                Err(_) => 0,
            };
            assert_eq!(memory[(address - region.start) as usize], expected);
        }
    }
    let encodings =
        |index| -> Vec<Encoding> { image.chunks_of(index).iter().map(|c| c.encoding).collect() };
    assert_eq!(encodings(1), [Encoding::Zstd]);
    // A zero page over a file's page must be kept: otherwise the file's content would appear.
    assert_eq!(encodings(2), [Encoding::Zero, Encoding::Raw]);
    assert_eq!(image.section(kind::PROCESS).unwrap().bytes, [1; 100]);
    assert!(image.section(kind::JOB).is_none());
    assert_eq!(image.sections().len(), 3);
    assert!(image.chunks().iter().all(|c| c.offset.is_multiple_of(PAGE)));
}

#[test]
fn zero_pages_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rank-0.img");
    let mut writer = start(&path, Compression::Probe);
    let zero = region(BASE, 1 << 14, Backing::Anonymous);
    let run = zero.start..zero.end();
    writer.region(zero, &[run], &mut Formula(|_| 0)).unwrap();
    let summary = writer.finish().unwrap();
    assert!(summary.bytes < 5000, "{summary:?}");
    assert_eq!(summary.memory_bytes, 0);
}

#[test]
fn every_truncation_is_found() {
    let (_dir, path, expect) = small();
    let whole = fs::read(&path).unwrap();
    let without_manifest = Expect {
        bytes: None,
        digest: None,
        ..expect.clone()
    };
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for len in (0..whole.len()).rev() {
        file.set_len(len as u64).unwrap();
        for expect in [&expect, &without_manifest] {
            match Image::open_verified(&path, expect) {
                Err(ImageError::Damaged { rank: Some(1), .. }) => {}
                other => panic!("cut to {len}: {other:?}"),
            }
        }
    }
    fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
    let longer = Image::open_verified(&path, &expect).unwrap_err();
    assert!(
        matches!(
            longer,
            ImageError::Damaged {
                damage: Damage::Length { .. },
                ..
            }
        ),
        "{longer}"
    );
}

#[test]
fn every_flipped_bit_is_found() {
    let (_dir, path, expect) = small();
    let loose = Expect {
        bytes: None,
        digest: None,
        ..expect
    };
    let whole = fs::read(&path).unwrap();
    let tables = whole.len() - 1200;
    // Every bit of the header and of the tables, every second bit of the rest; even without the manifest's
    // digest.
    let bits = (0..8 * whole.len()).filter(|bit| {
        let byte = bit / 8;
        byte < 256 || byte >= tables || (bit + byte).is_multiple_of(2)
    });
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut flips = 0;
    for bit in bits {
        let at = bit / 8;
        let flipped = whole[at] ^ 1 << (bit % 8);
        file.write_all_at(&[flipped], at as u64).unwrap();
        if let Ok(image) = Image::open_verified(&path, &loose) {
            panic!("bit {} of byte {at} flipped unnoticed: {image:?}", bit % 8);
        }
        file.write_all_at(&whole[at..=at], at as u64).unwrap();
        flips += 1;
    }
    assert!(flips > 100_000, "{flips}");
    Image::open_verified(&path, &loose).unwrap();
}

fn write_over(path: &Path, bytes: &[u8], at: usize) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at as u64).unwrap();
}

#[test]
fn a_damaged_chunk_is_named() {
    let (_dir, path, expect) = small();
    write_over(&path, &[0], PAGE as usize + 5000);
    let error = Image::open_verified(&path, &expect)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("rank-1.img (rank 1): memory chunk 0 (address 0x10000001000, offset 4096)"),
        "{error}"
    );
}

#[test]
fn damage_after_opening_is_found_when_loading() {
    let (_dir, path, expect) = small();
    let image = Image::open_verified(&path, &expect).unwrap();
    write_over(&path, &[0], PAGE as usize + 5000);
    let chunk = image.chunks()[0];
    assert!(image
        .loader()
        .unwrap()
        .load(&chunk, &mut vec![0; chunk.len as usize])
        .is_err());
}

#[test]
fn another_image_is_distinguished_from_a_damaged_one() {
    let (_dir, path, expect) = small();
    let open = |expect| Image::open_verified(&path, &expect).unwrap_err();
    let mixed = open(Expect {
        set_id: Some(SetId([8; 16])),
        ..expect.clone()
    });
    assert!(
        matches!(mixed, ImageError::MixedSet { rank: 1, .. }),
        "{mixed}"
    );
    let swapped = open(Expect {
        rank: Some(0),
        ..expect.clone()
    });
    assert!(
        matches!(
            swapped,
            ImageError::OtherRank {
                expected: 0,
                found: 1,
                ..
            }
        ),
        "{swapped}"
    );
    let size = open(Expect {
        world_size: Some(3),
        ..expect.clone()
    })
    .to_string();
    assert!(
        size.contains("was taken with 2 ranks, this job has 3"),
        "{size}"
    );
    let contract = open(Expect {
        contract_version: Some(2),
        ..expect.clone()
    });
    assert!(
        matches!(
            contract,
            ImageError::Contract {
                expected: 2,
                found: 1
            }
        ),
        "{contract}"
    );
    let digest = open(Expect {
        digest: Some("00".repeat(32)),
        ..expect
    });
    assert!(
        matches!(
            digest,
            ImageError::Damaged {
                damage: Damage::Digest,
                ..
            }
        ),
        "{digest}"
    );
}

#[test]
fn unknown_sections_and_versions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, version) in [
        (999, 1),
        (kind::PROCESS.number, u32::MAX),
        (kind::PROCESS.number, 0),
    ] {
        let path = dir.path().join("rank-0.img");
        let mut writer = start(&path, Compression::Off);
        writer.section(Section {
            kind,
            version,
            bytes: vec![1],
        });
        writer.finish().unwrap();
        let error = Image::open_verified(&path, &Expect::default()).unwrap_err();
        assert!(
            matches!(
                error,
                ImageError::Damaged {
                    damage: Damage::UnknownSection { .. },
                    ..
                }
            ),
            "{error}"
        );
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn an_unfinished_image_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rank-0.img");
    drop(start(&path, Compression::Off));
    assert!(!path.exists());
}

#[test]
fn inconsistent_shared_objects_are_refused() {
    let object = |id: &str| SharedObject {
        id: id.into(),
        kind: SharedKind::File {
            path: b"/x".to_vec(),
        },
        size: PAGE,
    };
    let part = |object| Backing::Shared {
        object,
        offset: 0,
        writable: true,
    };
    let content = Backing::SharedContent {
        object: 0,
        offset: 0,
    };
    let relative = SharedObject {
        kind: SharedKind::File {
            path: b"x".to_vec(),
        },
        ..object("a")
    };
    for (objects, region) in [
        (vec![object("a")], region(BASE, 1, part(1))),
        (vec![object("a")], region(SHARED_CONTENT, 1, part(0))),
        (vec![object("a")], region(BASE, 1, content)),
        (
            vec![object("a")],
            region(SHARED_CONTENT, 1, Backing::Anonymous),
        ),
        (vec![object("a"), object("a")], region(BASE, 1, part(0))),
        (vec![relative], region(BASE, 1, part(0))),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rank-0.img");
        let mut writer = start(&path, Compression::Probe);
        writer.shared(objects);
        writer.region(region, &[], &mut Formula(noise)).unwrap();
        writer.finish().unwrap();
        let refused = Image::open_verified(&path, &Expect::default()).unwrap_err();
        let layout = matches!(
            &refused,
            ImageError::Damaged {
                damage: Damage::Layout(_),
                ..
            }
        );
        assert!(layout, "{refused}");
    }
}

#[test]
fn regions_out_of_place_are_refused_by_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rank-0.img");
    let mut writer = start(&path, Compression::Off);
    let mut add = |region, runs: &[std::ops::Range<u64>]| {
        writer.region(region, runs, &mut Formula(noise)).is_ok()
    };
    assert!(add(region(BASE, 2, Backing::Anonymous), &[pages(0..1)]));
    assert!(!add(region(BASE + PAGE, 2, Backing::Anonymous), &[]));
    assert!(!add(
        region(BASE + 4 * PAGE, 2, Backing::Anonymous),
        &[pages(5..7)]
    ));
    assert!(!add(
        region(BASE + 4 * PAGE, 2, Backing::Anonymous),
        &[pages(5..6), pages(4..5)]
    ));
    assert!(!add(region(BASE + 7, 2, Backing::Anonymous), &[]));
}

/// Runs of pages, as gap and length.
fn runs() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0u64..40, 1u64..90), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_image_round_trips(layout in prop::collection::vec((runs(), 0u8..3, any::<bool>()), 1..5)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rank-0.img");
        let mut writer = start(&path, Compression::Probe);
        let formula = |which| match which {
            0 => noise as fn(u64) -> u8,
            1 => |address: u64| (address / 512 % 5) as u8,
            // Zero pages, noise and tables in turn.
            _ => |address: u64| match address / PAGE % 11 { 0..=3 => 0, 4..=8 => noise(address), _ => (address % 16) as u8 },
        };
        let mut page = 0;
        let mut expected = Vec::new();
        for (runs, which, file) in &layout {
            let start = page;
            let mut saved = Vec::new();
            for (gap, len) in runs {
                saved.push(pages(page + gap..page + gap + len));
                page += gap + len;
            }
            page += 3;
            let backing = if *file { file_backing() } else { Backing::Anonymous };
            let region = region(BASE + start * PAGE, page - start, backing);
            writer.region(region.clone(), &saved, &mut Formula(formula(*which))).unwrap();
            expected.push((region, saved, formula(*which)));
        }
        let summary = writer.finish().unwrap();
        let expect = Expect { digest: Some(summary.digest), bytes: Some(summary.bytes), ..Expect::default() };
        let image = Image::open_verified(&path, &expect).unwrap();
        for (index, (region, saved, byte)) in expected.iter().enumerate() {
            prop_assert_eq!(&image.regions()[index], region);
            let mut memory = vec![0; region.len as usize];
            for run in saved {
                for address in run.clone() {
                    memory[(address - region.start) as usize] = byte(address);
                }
            }
            prop_assert!(content(&image, index) == memory);
        }
    }

    #[test]
    fn junk_never_panics(mut junk in prop::collection::vec(any::<u8>(), 0..20_000), as_image: bool) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rank-0.img");
        if as_image && junk.len() > 256 {
            // Past the first check: a valid magic, version and header checksum around junk.
            junk[..12].copy_from_slice(b"STASISIM\x01\0\0\0");
            let crc = crc32(&junk[..252]);
            junk[252..256].copy_from_slice(&crc.to_le_bytes());
        }
        fs::write(&path, &junk).unwrap();
        prop_assert!(Image::open_verified(&path, &Expect::default()).is_err());
    }

    /// Damage that no checksum detects, because they are all calculated after it: the tables are junk.
    #[test]
    fn junk_tables_with_right_checksums_never_panic(
        at in 0usize..1200, junk in prop::collection::vec(any::<u8>(), 1..24),
    ) {
        let (_dir, path, expect) = small();
        let expect = Expect { digest: None, ..expect };
        let mut bytes = fs::read(&path).unwrap();
        let tables = u64::from_le_bytes(bytes[96..104].try_into().unwrap()) as usize;
        let directory = u64::from_le_bytes(bytes[104..112].try_into().unwrap()) as usize;
        let at = tables + at % (directory - tables);
        let len = junk.len().min(directory - at);
        bytes[at..at + len].copy_from_slice(&junk[..len]);
        checksum_again(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        // It may be accepted, for example with another page protection.
        if let Ok(image) = Image::open_verified(&path, &expect) {
            assert_holds_together(&image);
        }
    }
}
