//! Small images and sets for tests that damage them.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::fs::{self, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stasis_ckpt_image::{
    image_file, kind, Advice, Backing, Compression, FileIdentity, FileSystem, Header, Image,
    ImageSummary, ImageWriter, Manifest, MemorySource, ParentImage, ParentPages, ParentSet,
    RankEntry, Region, Result, SealKey, Section, Set, SetId, SetWriter, SharedKind, SharedObject,
    PAGE, SHARED_CONTENT,
};

/// Memory from a formula: the same address always holds the same byte.
pub struct Formula(pub fn(u64) -> u8);

impl MemorySource for Formula {
    fn read(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
        for (byte, address) in into.iter_mut().zip(address..) {
            *byte = (self.0)(address);
        }
        Ok(())
    }
}

/// Noise, so that flipped bits cannot hide in compressed data.
pub fn noise(address: u64) -> u8 {
    let mixed = (address ^ address >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 56) as u8 | 1
}

pub fn header(set_id: SetId, rank: u32, world_size: u32) -> Header {
    Header {
        set_id,
        epoch: 0,
        rank,
        world_size,
        contract_version: 1,
        page_size: 4096,
        abi: "openmpi".into(),
        created_ns: 1,
    }
}

pub fn region(start: u64, pages: u64, backing: Backing) -> Region {
    Region {
        start,
        len: pages * PAGE,
        prot: 3,
        grows_down: false,
        no_reserve: false,
        advice: Advice::default(),
        backing,
    }
}

pub fn file_backing() -> Backing {
    Backing::PrivateFile {
        path: b"/lib/libm.so.6".to_vec(),
        offset: 8192,
        identity: FileIdentity {
            size: 1 << 20,
            mtime_ns: 5,
            build_id: Some(vec![1; 20]),
        },
    }
}

/// A section of version 1 of the process: older than what a restart decodes, but well known.
fn process_1(rank: u32) -> Section {
    Section {
        kind: kind::PROCESS.number,
        version: 1,
        bytes: vec![rank as u8; 100],
    }
}

/// One file, as the loader's version 1 encodes it: path, device, inode, size, checksum.
pub const CLOSED_FILES: &[u8] = &[1, 3, b'/', b'a', 0xff, 7, 0xac, 2, 4, 1, 1];

pub const BASE: u64 = 1 << 40;

/// Pages `range` counted from `BASE`.
pub fn pages(range: Range<u64>) -> Range<u64> {
    BASE + range.start * PAGE..BASE + range.end * PAGE
}

/// A small image with every kind of region and chunk.
pub fn write_small(path: &Path, set_id: SetId, rank: u32, world_size: u32) -> ImageSummary {
    write_small_on(
        &FileSystem::default(),
        path,
        set_id,
        [rank, world_size],
        false,
    )
    .unwrap()
}

/// The same for one rank of a job, on a disk that may fail, and optionally for a sealed set.
pub fn write_small_on(
    fs: &FileSystem,
    path: &Path,
    set_id: SetId,
    [rank, world_size]: [u32; 2],
    sealed: bool,
) -> Result<ImageSummary> {
    let mut writer = ImageWriter::create(
        fs,
        path,
        header(set_id, rank, world_size),
        Compression::Probe,
    )?;
    if sealed {
        writer.sealed();
    }
    let at = |page| BASE + page * PAGE;
    writer.region(
        region(at(0), 8, Backing::Anonymous),
        &[pages(1..3), pages(5..6)],
        &mut Formula(noise),
    )?;
    writer.region(
        region(at(8), 4, Backing::Anonymous),
        &[pages(8..12)],
        &mut Formula(|address| (address % 7) as u8),
    )?;
    writer.region(
        region(at(20), 4, file_backing()),
        &[pages(21..23)],
        &mut Formula(|address| {
            if address < BASE + 22 * PAGE {
                0
            } else {
                noise(address)
            }
        }),
    )?;
    writer.shared(vec![SharedObject {
        id: "one".into(),
        kind: SharedKind::Memory {
            name: b"/memfd:x".to_vec(),
        },
        size: 2 * PAGE,
    }]);
    let shared = Backing::Shared {
        object: 0,
        offset: PAGE,
        writable: true,
    };
    writer.region(region(at(30), 1, shared), &[], &mut Formula(noise))?;
    let content = Backing::SharedContent {
        object: 0,
        offset: 0,
    };
    writer.region(
        region(SHARED_CONTENT, 2, content),
        std::slice::from_ref(&(SHARED_CONTENT..SHARED_CONTENT + PAGE)),
        &mut Formula(noise),
    )?;
    writer.section(process_1(rank));
    writer.section(kind::AGENT.section(Vec::new()));
    writer.section(kind::CLOSED_FILES.section(CLOSED_FILES.to_vec()));
    writer.finish()
}

pub fn manifest(set_id: SetId, images: Vec<ImageSummary>) -> Manifest {
    Manifest {
        schema_version: 1,
        set_id,
        increment_of: None,
        created: 1_700_000_000,
        pause_micros: None,
        total_micros: None,
        epoch: 0,
        world_size: images.len() as u32,
        abi: "openmpi".into(),
        library: "test".into(),
        thread_level: None,
        contract_version: 1,
        stasis_version: None,
        lineage: None,
        incarnation: None,
        for_cpu: None,
        command: vec!["./app".into()],
        ranks: images
            .into_iter()
            .zip(0..)
            .map(|(image, rank)| RankEntry {
                rank,
                host: "here".into(),
                image,
                local: None,
                copy: None,
            })
            .collect(),
    }
}

/// Makes a whole set and returns its directory.
pub fn write_set(dir: &Path, number: u64, ranks: u32) -> PathBuf {
    write_set_on(&FileSystem::default(), dir, number, ranks, None).unwrap()
}

/// Like [`write_set`], with a seal.
pub fn write_sealed_set(dir: &Path, number: u64, ranks: u32, key: &SealKey) -> PathBuf {
    write_set_on(&FileSystem::default(), dir, number, ranks, Some(key)).unwrap()
}

/// A set with or without a seal, on a disk that may fail.
pub fn write_set_on(
    fs: &FileSystem,
    dir: &Path,
    number: u64,
    ranks: u32,
    key: Option<&SealKey>,
) -> Result<PathBuf> {
    let writer = SetWriter::begin(fs, dir, number)?;
    let id = writer.set_id();
    let image = |rank| {
        let path = writer.path().join(image_file(rank));
        write_small_on(fs, &path, id, [rank, ranks], key.is_some())
    };
    let images = (0..ranks).map(image).collect::<Result<_>>()?;
    writer.commit(&manifest(id, images), key)
}

/// The byte at an address that was written between the full set and the first increment.
pub fn later(address: u64) -> u8 {
    noise(address ^ 0x5555 << 32)
}

/// An increment of set `parent`, which [`write_set`] or this function has written. Pages 5 and 10 were
/// written since. Page 2 and page 21, which is a file's, were freed.
pub fn write_increment(
    fs: &FileSystem,
    dir: &Path,
    number: u64,
    parent: &str,
    key: Option<&SealKey>,
) -> Result<PathBuf> {
    let parent = Set::open(dir, parent, key)?;
    let below = parent.manifest();
    let writer = SetWriter::begin(fs, dir, number)?;
    let image = |entry: &RankEntry| {
        let inherited = ParentPages {
            parent: ParentImage {
                set_id: below.set_id,
                digest: entry.image.digest.clone(),
            },
            runs: vec![pages(1..2), pages(8..10), pages(11..12), pages(22..23)],
        };
        let path = writer.path().join(image_file(entry.rank));
        let of = header(writer.set_id(), entry.rank, below.world_size);
        let mut image = ImageWriter::create(fs, &path, of, Compression::Probe)?;
        if key.is_some() {
            image.sealed();
        }
        let at = |page| BASE + page * PAGE;
        let written = [pages(5..6), pages(10..11)];
        let changed = written.each_ref().map(std::slice::from_ref);
        image.region(
            region(at(0), 8, Backing::Anonymous),
            changed[0],
            &mut Formula(later),
        )?;
        image.region(
            region(at(8), 4, Backing::Anonymous),
            changed[1],
            &mut Formula(later),
        )?;
        image.region(region(at(20), 4, file_backing()), &[], &mut Formula(later))?;
        image.inherit(inherited);
        image.section(process_1(entry.rank));
        image.finish()
    };
    let images = below.ranks.iter().map(image).collect::<Result<_>>()?;
    let manifest = Manifest {
        increment_of: Some(ParentSet {
            set: parent.name().to_owned(),
            set_id: below.set_id,
        }),
        ..manifest(writer.set_id(), images)
    };
    writer.commit(&manifest, key)
}

/// Checks the memory of an image of [`write_increment`], or of a merged one.
pub fn assert_has_changed(image: &Image) {
    let mut memory = image.memory().unwrap();
    let mut found = Vec::new();
    for index in 0..image.regions().len() {
        for piece in memory.pieces_of(index) {
            let mut content = vec![0; piece.len as usize];
            memory.load(piece, &mut content).unwrap();
            for (byte, address) in content.iter().zip(piece.address..) {
                let expected = match (address - BASE) / PAGE {
                    5 | 10 => later(address),
                    8 | 9 | 11 => (address % 7) as u8,
                    _ => noise(address),
                };
                assert_eq!(*byte, expected, "{address:#x}");
            }
            let first = (piece.address - BASE) / PAGE;
            found.extend(first..first + u64::from(piece.len) / PAGE);
        }
    }
    assert_eq!(found, [1, 5, 8, 9, 10, 11, 22]);
}

/// A key, from a file in `dir`.
pub fn key(dir: &Path, byte: u8) -> SealKey {
    let path = dir.join(format!("key-{byte}"));
    fs::write(&path, [byte; 32]).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    SealKey::read(&path).unwrap()
}

/// Checks that a verified image is consistent, whatever its bytes were.
pub fn assert_holds_together(image: &Image) {
    let mut loader = image.loader().unwrap();
    let mut end = 0;
    for (index, region) in image.regions().iter().enumerate() {
        assert!(region.start >= end && region.len > 0);
        end = region.start.checked_add(region.len).unwrap();
        let mut from = region.start;
        for chunk in image.chunks_of(index) {
            assert!(chunk.address >= from);
            from = chunk.address + u64::from(chunk.len);
            assert!(from <= end);
            // It may not decompress: its checksum covers the stored bytes.
            let _ = loader.load(chunk, &mut vec![0; chunk.len as usize]);
        }
    }
}

/// Corrects all checksums of an image's tables after a change, as far as its offsets permit.
pub fn checksum_again(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize| {
        usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
    };
    let directory = number(bytes, 104);
    for entry in (directory..bytes.len()).step_by(32) {
        let (offset, len) = (number(bytes, entry + 8), number(bytes, entry + 16));
        if let Some(section) = offset
            .checked_add(len)
            .and_then(|end| bytes.get(offset..end))
        {
            let crc = crc32(section).to_le_bytes();
            bytes[entry + 24..entry + 28].copy_from_slice(&crc);
        }
    }
    let crc = crc32(&bytes[directory..]);
    bytes[116..120].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32(&bytes[..252]);
    bytes[252..256].copy_from_slice(&crc.to_le_bytes());
}

/// CRC-32 by its definition, so that the tests do not depend on the library.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |mut crc, byte| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
        }
        crc
    })
}
