//! An upper half of every kind of memory is saved by one process and restored by another.
//!
//! Saving and mapping take the whole upper half of a process, so each step runs in a process of its
//! own: this program again, told by the environment which role to play.
//!
//! # Safety
//! A playing process maps memory in the arena, where nothing else is, and is its only user.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use ckpt_image::{
    Compression, Fault, FaultAt, FileSystem, Manifest, ParentSet, RankEntry, SetWriter,
};
use coordinator::protocol::region_assignment::{assign_writers, SharedRange};
use dump::{
    Application, DirtyTracker, DumpRequest, HeaderInfo, Increments, MemoryBudget, PauseMode, Plan,
    PreScan, SavedImage, StoreAssignment,
};
use io_uring::{opcode, types, IoUring};
use skip::skip;

const PAGE: usize = 4096;
const BASE: usize = contract::ARENA_START;
const NON_PIE: usize = 0x40_0000;

/// A program without System V segments of other ids, to which Stasis has given files of this name.
const ALONE: Application = Application {
    shm_id: |id| id,
    is_ours: |path| path.ends_with(b"/ours"),
};

/// A place for each kind of memory, 1 GiB apart.
fn place(index: usize) -> usize {
    BASE + (index << 30)
}

fn byte(address: usize) -> u8 {
    let mixed = (address as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) >> 56) as u8
}

fn map(at: usize, len: usize, prot: i32, flags: i32, file: Option<(&File, usize)>) {
    let flags = flags
        | libc::MAP_FIXED_NOREPLACE
        | if file.is_none() {
            libc::MAP_ANONYMOUS
        } else {
            0
        };
    let (fd, offset) = file.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset));
    // SAFETY: replaces nothing.
    let got = unsafe { libc::mmap(at as *mut _, len, prot, flags, fd, offset as i64) };
    assert_eq!(got as usize, at, "{}", std::io::Error::last_os_error());
}

fn protect(at: usize, len: usize, prot: i32) {
    // SAFETY: memory of this test.
    assert_eq!(unsafe { libc::mprotect(at as *mut _, len, prot) }, 0);
}

fn bytes(at: usize, len: usize) -> &'static mut [u8] {
    // SAFETY: memory of this test, mapped by the caller, and used by one caller at a time.
    unsafe { std::slice::from_raw_parts_mut(at as *mut u8, len) }
}

fn fill(at: usize, len: usize) {
    for (index, b) in bytes(at, len).iter_mut().enumerate() {
        *b = byte(at + index);
    }
}

fn expect(at: usize, len: usize) {
    for (index, b) in bytes(at, len).iter().enumerate() {
        assert_eq!(*b, byte(at + index), "at {:#x}", at + index);
    }
}

fn expect_zero(at: usize, len: usize) {
    assert!(bytes(at, len).iter().all(|b| *b == 0), "at {at:#x}");
}

fn text(page: usize) -> Vec<u8> {
    (0..PAGE)
        .map(|index| (page * 31 + index) as u8 | 1)
        .collect()
}

fn noise(page: usize) -> Vec<u8> {
    (0..PAGE).map(|index| byte(page * PAGE + index)).collect()
}

/// Where the noise of place 30 is zero: single pages, and a long stretch.
fn noise_holes() -> impl Iterator<Item = std::ops::Range<usize>> {
    let single = (0..900).step_by(37).map(|page| page..page + 1);
    let pages = single.chain(std::iter::once(1000..1400));
    pages.map(|pages| place(30) + pages.start * PAGE..place(30) + pages.end * PAGE)
}

const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;
const RX: i32 = libc::PROT_READ | libc::PROT_EXEC;

/// Makes memory of every kind.
fn build(dir: &Path) {
    let private = libc::MAP_PRIVATE;
    // Anonymous: noise, a table, single pages, nothing.
    map(place(0), 64 << 20, RW, private, None);
    fill(place(0), 3 << 20);
    for index in 0..1 << 20 {
        bytes(place(0) + (4 << 20), 1 << 20)[index] = (index % 100) as u8;
    }
    for page in 0..2000 {
        fill(place(0) + (8 << 20) + 3 * page * PAGE, PAGE);
    }
    // Noise with zeros in it, longer than what a copy writes at a time.
    map(place(30), 6 << 20, RW, private, None);
    fill(place(30), 6 << 20);
    for zeros in noise_holes() {
        bytes(zeros.start, zeros.len()).fill(0);
    }
    // Touched and zero again; and a sealed page with content; and reserved space.
    map(place(1), 1 << 20, RW, private, None);
    fill(place(1), 1 << 20);
    bytes(place(1), 1 << 20).fill(0);
    map(place(2), 16 * PAGE, RW, private, None);
    fill(place(2), 4 * PAGE);
    protect(place(2), 16 * PAGE, libc::PROT_NONE);
    map(
        place(3),
        4 << 30,
        libc::PROT_NONE,
        private | libc::MAP_NORESERVE,
        None,
    );
    // Code of a file as it is; data of a file with one page changed, one overwritten with zeros.
    let library = dir.join("library");
    let content: Vec<u8> = (0..8).flat_map(text).chain([7; 100]).collect();
    fs::write(&library, &content).unwrap();
    let library = File::open(&library).unwrap();
    map(place(8), 4 * PAGE, RX, private, Some((&library, PAGE)));
    map(place(9), 9 * PAGE, RW, private, Some((&library, 0)));
    fill(place(9) + 2 * PAGE, PAGE);
    bytes(place(9) + 5 * PAGE, PAGE).fill(0);
    assert_eq!(bytes(place(8), PAGE), text(1));
    // A file that is deleted, one that is replaced by another: kept in the image.
    for (index, name) in [(10, "deleted"), (11, "replaced")] {
        let path = dir.join(name);
        fs::write(&path, &content).unwrap();
        let file = File::open(&path).unwrap();
        map(
            place(index),
            12 * PAGE,
            libc::PROT_READ,
            private,
            Some((&file, 0)),
        );
        fs::remove_file(&path).unwrap();
        if index == 11 {
            fs::write(&path, "another").unwrap();
        }
    }
    // A file of ours, with code as it is and data of which a page was changed: kept in the image.
    fs::write(
        dir.join("ours"),
        (0..300).flat_map(noise).collect::<Vec<_>>(),
    )
    .unwrap();
    let ours = File::open(dir.join("ours")).unwrap();
    map(place(18), 300 * PAGE, RX, private, Some((&ours, 0)));
    map(place(19), 4 * PAGE, RW, private, Some((&ours, PAGE)));
    fill(place(19) + PAGE, PAGE);
    // A file that is shared with others.
    let path = dir.join("shared");
    let shared = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .unwrap();
    shared.set_len(4 * PAGE as u64).unwrap();
    map(
        place(12),
        4 * PAGE,
        RW,
        libc::MAP_SHARED,
        Some((&shared, 0)),
    );
    fill(place(12), PAGE);
    // Read-only data, code made at run time, huge pages, a stack, a non-PIE program's place.
    map(place(13), 4 * PAGE, RW, private, None);
    fill(place(13), 4 * PAGE);
    protect(place(13), 2 * PAGE, libc::PROT_READ);
    protect(place(13) + 2 * PAGE, 2 * PAGE, RX);
    map(place(14), 8 << 20, RW, private, None);
    // SAFETY: memory of this test.
    unsafe { libc::madvise(place(14) as *mut _, 8 << 20, libc::MADV_HUGEPAGE) };
    // SAFETY: memory of this test.
    unsafe { libc::madvise(place(14) as *mut _, 8 << 20, libc::MADV_DONTFORK) };
    fill(place(14), 8 << 20);
    map(
        place(15),
        32 * PAGE,
        RW,
        private | libc::MAP_GROWSDOWN,
        None,
    );
    fill(place(15) + 16 * PAGE, 16 * PAGE);
    map(NON_PIE, 4 * PAGE, RW, private, None);
    fill(NON_PIE, 4 * PAGE);
    // Shared without a file, partly touched.
    map(place(16), 8 * PAGE, RW, libc::MAP_SHARED, None);
    fill(place(16), 2 * PAGE);
}

/// Checks that memory is as `build` left it.
fn check() {
    expect(place(0), 3 << 20);
    for index in 0..1 << 20 {
        assert_eq!(
            bytes(place(0) + (4 << 20), 1 << 20)[index],
            (index % 100) as u8
        );
    }
    for page in 0..2000 {
        let at = place(0) + (8 << 20) + 3 * page * PAGE;
        expect(at, PAGE);
        expect_zero(at + PAGE, 2 * PAGE);
    }
    let mut from = place(30);
    for zeros in noise_holes() {
        expect(from, zeros.start - from);
        expect_zero(zeros.start, zeros.len());
        from = zeros.end;
    }
    expect(from, place(30) + (6 << 20) - from);
    expect_zero(place(1), 1 << 20);
    expect(place(16), 2 * PAGE);
    expect_zero(place(16) + 2 * PAGE, 6 * PAGE);
    protect(place(2), 16 * PAGE, libc::PROT_READ);
    expect(place(2), 4 * PAGE);
    expect_zero(place(2) + 4 * PAGE, 12 * PAGE);
    for page in 0..4 {
        assert_eq!(bytes(place(8) + page * PAGE, PAGE), text(1 + page));
    }
    for page in 0..8 {
        match page {
            2 => expect(place(9) + 2 * PAGE, PAGE),
            5 => expect_zero(place(9) + 5 * PAGE, PAGE),
            _ => assert_eq!(bytes(place(9) + page * PAGE, PAGE), text(page)),
        }
    }
    for index in [10, 11] {
        for page in 0..8 {
            assert_eq!(bytes(place(index) + page * PAGE, PAGE), text(page));
        }
        assert_eq!(bytes(place(index) + 8 * PAGE, 100), [7; 100]);
        expect_zero(place(index) + 8 * PAGE + 100, PAGE - 100);
    }
    for page in 0..300 {
        assert_eq!(bytes(place(18) + page * PAGE, PAGE), noise(page));
    }
    for page in 0..4 {
        match page {
            1 => expect(place(19) + PAGE, PAGE),
            _ => assert_eq!(bytes(place(19) + page * PAGE, PAGE), noise(1 + page)),
        }
    }
    expect(place(12), PAGE);
    expect(place(13), 4 * PAGE);
    expect(place(14), 8 << 20);
    expect_zero(place(15), 16 * PAGE);
    expect(place(15) + 16 * PAGE, 16 * PAGE);
    expect(NON_PIE, 4 * PAGE);
    // The memory is the program's own again: it can be written, and the shared file with it.
    bytes(place(12) + 2 * PAGE, 1)[0] = 42;
    bytes(place(9), 1)[0] = 42;
}

/// Where the kinds of shared memory are mapped.
#[derive(Clone, Copy)]
enum Shared {
    /// Anonymous, and once more by mremap.
    Alias = 20,
    /// A memfd: whole, and a part of it again, read-only.
    Memfd = 22,
    /// A file in /dev/shm that has its name.
    Named = 24,
    /// A System V segment of which the middle page was unmapped.
    Segment = 25,
    /// An ordinary file.
    File_ = 27,
}
use Shared::*;

fn shared_at(kind: Shared) -> usize {
    place(kind as usize)
}

/// A memfd of that many pages.
fn memfd(name: &str, pages: usize) -> File {
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: a C string; the descriptor is new.
    let file = unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        <File as std::os::fd::FromRawFd>::from_raw_fd(fd)
    };
    file.set_len((pages * PAGE) as u64).unwrap();
    file
}

fn open_new(path: &Path, pages: usize) -> File {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .unwrap();
    file.set_len((pages * PAGE) as u64).unwrap();
    file
}

/// The name that the test's own file in /dev/shm has.
fn named_path(dir: &Path) -> PathBuf {
    Path::new("/dev/shm").join(dir.file_name().unwrap())
}

/// Makes shared memory of every kind.
fn build_shared(dir: &Path) {
    let shared = libc::MAP_SHARED;
    map(shared_at(Alias), 4 * PAGE, RW, shared, None);
    // Length 0: the same memory once more, elsewhere.
    let (at, flags) = (
        shared_at(Alias) + (1 << 20),
        libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
    );
    // SAFETY: a place of this test where nothing is.
    let alias = unsafe { libc::mremap(shared_at(Alias) as *mut _, 0, 4 * PAGE, flags, at) };
    assert_eq!(alias as usize, at);
    fill(shared_at(Alias), 4 * PAGE);
    // The descriptor is closed, so only what is mapped can be read.
    let file = memfd("closed", 8);
    map(shared_at(Memfd), 6 * PAGE, RW, shared, Some((&file, PAGE)));
    let again = Some((&file, 3 * PAGE));
    map(
        shared_at(Memfd) + (1 << 20),
        2 * PAGE,
        libc::PROT_READ,
        shared,
        again,
    );
    fill(shared_at(Memfd), 6 * PAGE);
    protect(shared_at(Memfd), PAGE, libc::PROT_NONE);
    let named = open_new(&named_path(dir), 3);
    map(shared_at(Named), PAGE, RW, shared, Some((&named, 2 * PAGE)));
    fill(shared_at(Named), PAGE);
    named.write_all_at(b"not mapped", 0).unwrap();
    // SAFETY: places of this test; without SHM_REMAP nothing is replaced.
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, 4 * PAGE, 0o600);
        let at = libc::shmat(id, shared_at(Segment) as *const _, 0);
        assert_eq!(at as usize, shared_at(Segment));
        libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        fill(shared_at(Segment), 4 * PAGE);
        libc::munmap((shared_at(Segment) + PAGE) as *mut _, PAGE);
    }
    let file = open_new(&dir.join("shared"), 5);
    file.set_len(3 * PAGE as u64 + 100).unwrap();
    map(shared_at(File_), 4 * PAGE, RW, shared, Some((&file, 0)));
    fill(shared_at(File_), 2 * PAGE);
}

/// Checks that shared memory is as `build_shared` left it, and that it is shared.
fn check_shared(dir: &Path) {
    expect(shared_at(Alias), 4 * PAGE);
    bytes(shared_at(Alias) + (1 << 20) + 5, 1)[0] ^= 1;
    let flipped = byte(shared_at(Alias) + 5) ^ 1;
    assert_eq!(bytes(shared_at(Alias) + 5, 1)[0], flipped);
    bytes(shared_at(Alias) + 5, 1)[0] ^= 1;

    expect(shared_at(Memfd) + PAGE, 5 * PAGE);
    let twice = shared_at(Memfd) + 2 * PAGE;
    assert_eq!(
        bytes(twice, 2 * PAGE),
        bytes(shared_at(Memfd) + (1 << 20), 2 * PAGE)
    );
    protect(shared_at(Memfd), PAGE, libc::PROT_READ);
    expect(shared_at(Memfd), PAGE);
    protect(shared_at(Memfd), PAGE, libc::PROT_NONE);

    expect(shared_at(Named), PAGE);
    let named = fs::read(named_path(dir)).unwrap();
    assert_eq!(named.len(), 3 * PAGE);
    assert_eq!(&named[..10], b"not mapped");
    assert_eq!(&named[2 * PAGE..], bytes(shared_at(Named), PAGE));

    expect(shared_at(Segment), PAGE);
    expect(shared_at(Segment) + 2 * PAGE, 2 * PAGE);

    expect(shared_at(File_), 2 * PAGE);
    expect_zero(shared_at(File_) + 2 * PAGE, PAGE + 100);
    let file = fs::read(dir.join("shared")).unwrap();
    assert_eq!(file.len(), 3 * PAGE + 100);
    assert_eq!(&file[..2 * PAGE], bytes(shared_at(File_), 2 * PAGE));
}

/// A process that has this one's memory and sleeps: a child, or nobody's.
fn fork_sleeper(orphan: bool) -> Sleeper {
    let mut ends = [0; 2];
    let mut pid = [0; 4];
    // SAFETY: the children of this program, which runs one thread that matters, only sleep or tell
    // their id through a pipe.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            if orphan && libc::fork() != 0 {
                libc::_exit(0);
            }
            let own = libc::getpid().to_ne_bytes();
            libc::write(ends[1], own.as_ptr().cast(), 4);
            libc::pause();
            libc::_exit(0);
        }
        assert_eq!(libc::read(ends[0], pid.as_mut_ptr().cast(), 4), 4);
        if orphan {
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
    }
    Sleeper(i32::from_ne_bytes(pid))
}

/// A process that sleeps until this is dropped: also where a check fails, since it holds the pipe open on
/// whose end a test waits.
struct Sleeper(i32);

impl Drop for Sleeper {
    fn drop(&mut self) {
        // SAFETY: made by this program, and still asleep.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

/// Addresses, permissions and flags of all upper-half mappings, one line each. Names and offsets
/// only where the file is mapped again.
fn ledger() -> String {
    let mut out = String::new();
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    for line in smaps.lines() {
        if let Some((start, rest)) = line
            .split_once('-')
            .filter(|(s, _)| s.len() >= 5 && !s.contains(' '))
        {
            if u64::from_str_radix(start, 16).unwrap() >= contract::ARENA_END as u64 {
                break;
            }
            let mut fields = rest.split_ascii_whitespace();
            let (end, permissions, offset) = (
                fields.next().unwrap(),
                fields.next().unwrap(),
                fields.next().unwrap(),
            );
            let file = fields
                .nth(2)
                .filter(|name| name.ends_with("library") || name.ends_with("shared"));
            out += &format!(
                "{start}-{end} {permissions} {} {}\n",
                file.map_or("-", |_| offset),
                file.unwrap_or("-")
            );
        } else if let Some(flags) = line.strip_prefix("VmFlags: ") {
            let flags: Vec<&str> = flags
                .split_ascii_whitespace()
                .filter(|flag| ["hg", "nh", "nr", "gd", "dc", "wf", "sh", "mw"].contains(flag))
                .collect();
            out += &format!("  {}\n", flags.join(" "));
        }
    }
    out
}

fn save_set(ck: &Path, number: u64) -> ckpt_image::Result<PathBuf> {
    Ok(save_with_notes(ck, number)?.0)
}

/// As long as nobody runs.
fn stop() -> PauseMode<'static> {
    PauseMode::UntilWritten("nobody runs".to_owned())
}

/// Saves from a copy, and spoils all that was copied as soon as it is.
fn save_a_copy(ck: &Path, number: u64) {
    let given_up = AtomicBool::new(false);
    let pause = PauseMode::UntilCopied {
        budget: MemoryBudget::for_each_of(1),
        cancelled: &given_up,
    };
    let (_, stood, _) = save(ck, number, pause, spoil).unwrap();
    assert_eq!(stood, None);
}

/// Overwrites all memory of the upper half that can be written.
fn spoil() {
    let memory = OpenOptions::new()
        .write(true)
        .open("/proc/self/mem")
        .unwrap();
    for line in fs::read_to_string("/proc/self/maps").unwrap().lines() {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
        if start < contract::ARENA_END && rest.starts_with("rw") {
            for page in (start..end).step_by(PAGE) {
                // There may be nothing behind the end of a file.
                let _ = memory.write_at(&[0xee; PAGE], page as u64);
            }
        }
    }
}

/// The shares of a job of one rank.
fn alone(plan: &Plan) -> Vec<StoreAssignment> {
    let part = |(object, part): (String, std::ops::Range<u64>)| SharedRange {
        object,
        from: part.start,
        to: part.end,
    };
    let parts = plan.parts().into_iter().map(part).collect();
    let mut shares = assign_writers(&[(0, (std::process::id(), parts))].into());
    let share =
        |share: coordinator::protocol::region_assignment::WriteAssignment| StoreAssignment {
            object: share.object,
            store: share.store.iter().map(|(from, to)| *from..*to).collect(),
            processes: share.processes,
        };
    shares.remove(&0).into_iter().flatten().map(share).collect()
}

/// Saves, and returns also what people are told.
fn save_with_notes(ck: &Path, number: u64) -> ckpt_image::Result<(PathBuf, Vec<String>)> {
    let (path, _, notes) = save(ck, number, stop(), once_written(ck, number))?;
    Ok((path, notes))
}

/// To be called when nothing reads the memory any more, where it was not copied.
fn once_written(ck: &Path, number: u64) -> impl FnOnce() {
    let set = ck.join(ckpt_image::partial_name(number));
    let image = set.join(ckpt_image::image_file(0));
    move || assert!(image.exists(), "the memory is still read")
}

/// Saves; returns also why nobody could run meanwhile, and what people are told.
fn save(
    ck: &Path,
    number: u64,
    pause: PauseMode<'_>,
    copied: impl FnOnce(),
) -> ckpt_image::Result<(PathBuf, Option<String>, Vec<String>)> {
    let disk = FileSystem::default();
    let (set, manifest, saved) = save_without_commit(&disk, ck, number, pause, None, None, copied)?;
    Ok((
        set.commit(&manifest, None)?,
        saved.stopped_because,
        saved.notes,
    ))
}

/// Saves all or, where there is a parent, what has changed since; returns what is needed for the commit.
fn save_without_commit(
    disk: &FileSystem,
    ck: &Path,
    number: u64,
    pause: PauseMode<'_>,
    increments: Option<(&DirtyTracker, Option<&ParentSet>)>,
    ahead: Option<PreScan>,
    copied: impl FnOnce(),
) -> ckpt_image::Result<(SetWriter, Manifest, SavedImage)> {
    let set = SetWriter::begin(&FileSystem::default(), ck, number)?;
    let info = HeaderInfo {
        set_id: set.set_id(),
        epoch: 3,
        rank: 0,
        world_size: 1,
        abi: "none".into(),
        compression: Compression::Probe,
        sealed: false,
        features: None,
    };
    let sections = [ckpt_image::kind::PROCESS.section(b"threads".to_vec())];
    let plan = Plan::make(&ALONE, ahead)?;
    let order = DumpRequest {
        disk,
        dir: set.path(),
        info: &info,
        sections: &sections,
        shares: &alone(&plan),
        pause,
        increments: increments.map(|(tracker, parent)| Increments {
            tracker,
            parent: parent.map(|parent| parent.set_id),
        }),
    };
    let saved = plan.save(&order, copied)?;
    let parent = increments.and_then(|(_, parent)| parent.cloned());
    let manifest = Manifest {
        schema_version: 1,
        set_id: info.set_id,
        increment_of: parent.filter(|_| saved.inherits),
        created: 0,
        pause_micros: None,
        total_micros: None,
        epoch: 3,
        world_size: 1,
        abi: info.abi.clone(),
        library: "none".into(),
        thread_level: None,
        contract_version: contract::VERSION,
        stasis_version: None,
        lineage: None,
        incarnation: None,
        for_cpu: None,
        command: Vec::new(),
        ranks: vec![RankEntry {
            rank: 0,
            host: String::new(),
            image: saved.image.clone(),
            local: None,
            copy: None,
        }],
    };
    Ok((set, manifest, saved))
}

/// Checkpoints of a process that goes on, each upon the last that was committed.
struct Chain<'a> {
    ck: &'a Path,
    changes: DirtyTracker,
    last: Option<ParentSet>,
    number: u64,
}

impl Chain<'_> {
    fn new(ck: &Path, changes: DirtyTracker) -> Chain<'_> {
        Chain {
            ck,
            changes,
            last: None,
            number: 0,
        }
    }

    /// Looks at the memory before the next.
    fn ahead(&self) -> PreScan {
        PreScan::run(
            &ALONE,
            Some(&self.changes),
            Some(&MemoryBudget::for_each_of(1)),
        )
        .unwrap()
    }

    /// Begins the next, for which the disk is full at this step.
    fn cut_without_room(&mut self, step: usize) {
        self.number += 1;
        let fault = FaultAt {
            fault: Fault::Full,
            at: step,
        };
        let disk = FileSystem::watched(Some(fault), |_| ());
        let increments = Some((&self.changes, self.last.as_ref()));
        let made =
            save_without_commit(&disk, self.ck, self.number, stop(), increments, None, || ());
        assert!(made.is_err());
    }

    /// Takes the next, commits it, and writes down what memory holds.
    fn cut_and_note(&mut self, dir: &Path) -> u64 {
        let bytes = self.cut(true);
        self.note(dir);
        bytes
    }

    /// Writes down what memory holds at the last.
    fn note(&self, dir: &Path) {
        fs::write(dir.join(format!("contents-{}", self.number)), contents()).unwrap();
    }

    fn committed(&mut self, set: SetWriter, manifest: &Manifest) {
        set.commit(manifest, None).unwrap();
        self.last = Some(ParentSet {
            set: ckpt_image::set_name(self.number),
            set_id: manifest.set_id,
        });
    }

    /// Takes the next; returns the length of its image.
    fn cut(&mut self, commit: bool) -> u64 {
        let number = self.number + 1;
        // Of three by turns one is not looked forward to, and one after the look nothing has changed.
        let ahead = (!number.is_multiple_of(3)).then(|| self.ahead());
        self.cut_after(ahead.filter(|_| number % 3 == 1), commit)
    }

    /// The same after this look.
    fn cut_after(&mut self, ahead: Option<PreScan>, commit: bool) -> u64 {
        self.number += 1;
        let given_up = AtomicBool::new(false);
        // By turns from a copy and while all stand still.
        let pause = match self.number % 2 {
            0 => stop(),
            _ => PauseMode::UntilCopied {
                budget: MemoryBudget::for_each_of(1),
                cancelled: &given_up,
            },
        };
        let increments = Some((&self.changes, self.last.as_ref()));
        let disk = FileSystem::default();
        let made =
            save_without_commit(&disk, self.ck, self.number, pause, increments, ahead, || ());
        let (set, manifest, saved) = made.unwrap();
        assert_eq!(saved.inherits, self.last.is_some());
        if commit {
            self.committed(set, &manifest);
        }
        saved.image.bytes
    }
}

/// A hash of every page of the upper half's that is not zero, and its permissions, one line each.
fn contents() -> String {
    let memory = File::open("/proc/self/mem").unwrap();
    let (mut out, mut page) = (String::new(), [0; PAGE]);
    for line in fs::read_to_string("/proc/self/maps").unwrap().lines() {
        let (start, rest) = line.split_once('-').unwrap();
        let (end, rest) = rest.split_once(' ').unwrap();
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
        // What only is reserved has no pages, and takes long to look at.
        if start >= contract::ARENA_END || rest.starts_with("---") {
            continue;
        }
        for at in (start..end).step_by(PAGE) {
            let read = memory.read_exact_at(&mut page, at as u64).is_ok();
            if read && page.iter().any(|b| *b != 0) {
                let mut hasher = DefaultHasher::new();
                hasher.write(&page);
                out += &format!("{at:#x} {} {:x}\n", &rest[..4], hasher.finish());
            }
        }
    }
    out
}

fn advise(at: usize, len: usize, advice: i32) {
    // SAFETY: memory of this test.
    assert_eq!(unsafe { libc::madvise(at as *mut _, len, advice) }, 0);
}

/// Changes memory in all ways in which memory changes; differently each time.
fn change(round: usize) {
    let mib = 1 << 20;
    let spot = |offset: usize| place(0) + offset + round * 3 * PAGE;
    // Single pages; by a write of the kernel's; back to what it was.
    bytes(spot(0), 1)[0] ^= 1;
    bytes(spot(5000) + 100 * PAGE, 3).fill(round as u8);
    let urandom = File::open("/dev/urandom").unwrap();
    urandom
        .read_exact_at(bytes(spot(200 * PAGE), 2 * PAGE), 0)
        .unwrap();
    let same = bytes(spot(300 * PAGE), 1)[0];
    bytes(spot(300 * PAGE), 1)[0] = same;
    // Scattered over more runs than one answer of the kernel holds.
    for page in 0..700 {
        bytes(place(0) + 8 * mib + 9 * page * PAGE, 1)[0] = round as u8;
    }
    // Given back: zero from now on; and one of these used again.
    advise(spot(400 * PAGE), 2 * PAGE, libc::MADV_DONTNEED);
    bytes(spot(400 * PAGE), 1)[0] = 7;
    advise(spot(500 * PAGE), PAGE, libc::MADV_FREE);
    // Grown and read only; a page that was there before turns zero.
    assert_eq!(bytes(place(0) + (40 + round) * mib, 1)[0], 0);
    bytes(place(0) + (50 + round) * mib, 1)[0] = 1;
    bytes(spot(600 * PAGE), PAGE).fill(0);
    // A file's page for the first time, and one of them given back.
    fill(place(9) + (6 + round % 2) * PAGE, PAGE);
    advise(place(9) + 2 * PAGE, PAGE, libc::MADV_DONTNEED);
    // Protected and back, as a whole and in parts.
    protect(place(13), 2 * PAGE, RW);
    bytes(place(13) + PAGE, 1)[0] = round as u8;
    protect(place(13), 2 * PAGE, libc::PROT_READ);
    // A huge page: one page of it, and the whole given back.
    bytes(place(14) + 2 * mib + 17 * PAGE, 1)[0] ^= 1;
    advise(place(14) + 4 * mib, 2 * mib, libc::MADV_DONTNEED);
    bytes(place(15) + 15 * PAGE, 1)[0] = 5;
    // Shared memory, which nobody watches.
    bytes(place(16) + PAGE, 1)[0] = round as u8;
    // SAFETY: memory of this test, to which nothing refers.
    unsafe {
        // Replaced by fresh memory: the old is gone.
        let at = (place(0) + 2 * mib) as *mut libc::c_void;
        assert_eq!(libc::munmap(at, 4 * PAGE), 0);
        map(at as usize, 4 * PAGE, RW, libc::MAP_PRIVATE, None);
        bytes(at as usize + PAGE, 1)[0] = round as u8;
        // Moved onto what was watched, and away from there; what was moved is not written.
        let from = (place(0) + 2 * mib + 64 * PAGE) as *mut libc::c_void;
        let to = (place(0) + 2 * mib + 128 * PAGE) as *mut libc::c_void;
        let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        assert_eq!(libc::mremap(from, 8 * PAGE, 8 * PAGE, how, to), to);
        map(from as usize, 8 * PAGE, RW, libc::MAP_PRIVATE, None);
        fill(from as usize + 2 * PAGE, PAGE);
        // Grown in its place; and a mapping that was not there before.
        let grown = (
            NON_PIE as *mut libc::c_void,
            (3 + round) * PAGE,
            (4 + round) * PAGE,
        );
        assert_eq!(libc::mremap(grown.0, grown.1, grown.2, 0), grown.0);
        fill(NON_PIE + (3 + round) * PAGE, PAGE);
        map(
            place(17) + round * 8 * PAGE,
            4 * PAGE,
            RW,
            libc::MAP_PRIVATE,
            None,
        );
        fill(place(17) + round * 8 * PAGE, 2 * PAGE);
        // A child takes its copy of everything, and writes to it.
        let child = libc::fork();
        if child == 0 {
            bytes(spot(700 * PAGE), PAGE).fill(9);
            libc::_exit(0);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    bytes(spot(710 * PAGE), 1)[0] ^= 1;
}

/// Areas of memory for changes at random, and pages of each.
const AREAS: usize = 4;
const AREA_PAGES: usize = 600;

fn area(index: usize) -> usize {
    place(40 + index)
}

/// Changes a few pages in a way that is chosen at random. Content often comes back.
fn change_at_random(next: &mut impl FnMut() -> usize, library: &File) {
    let (from, first) = (next() % AREAS, next() % (AREA_PAGES - 20));
    let (at, len) = (area(from) + first * PAGE, (1 + next() % 20) * PAGE);
    let other = area((from + 1 + next() % (AREAS - 1)) % AREAS) + first * PAGE;
    // SAFETY: memory of this test, to which nothing refers.
    let unmap = || unsafe { assert_eq!(libc::munmap(at as *mut _, len), 0) };
    let private = libc::MAP_PRIVATE;
    match next() % 8 {
        0 => bytes(at, len)
            .iter_mut()
            .step_by(PAGE)
            .for_each(|b| *b = (next() % 3) as u8),
        1 => fill(at, len),
        2 => bytes(at, len).fill(0),
        3 => advise(at, len, libc::MADV_DONTNEED),
        4 => bytes(at, len).copy_from_slice(bytes(other, len)),
        5 => {
            let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: as above.
            let moved = unsafe { libc::mremap(at as *mut _, len, len, how, other) };
            assert_eq!(moved as usize, other);
            map(at, len, RW, private, None);
        }
        // Memory of another kind, with the same content, or with the file's.
        kind => {
            let content = bytes(at, len).to_vec();
            unmap();
            let file = (kind == 6).then_some((library, first * PAGE));
            map(at, len, RW, private, file);
            if !next().is_multiple_of(3) {
                bytes(at, len).copy_from_slice(&content);
            }
        }
    }
}

/// A ring with which this memory is registered.
fn registered(at: usize, len: usize) -> IoUring {
    let ring = IoUring::new(1).unwrap();
    let buffer = libc::iovec {
        iov_base: at as *mut _,
        iov_len: len,
    };
    // SAFETY: memory of this test that stays mapped to its end.
    unsafe { ring.submitter().register_buffers(&[buffer]) }.unwrap();
    ring
}

/// Has the kernel read noise into the first buffer that is registered with it.
fn read_noise(ring: &mut IoUring, at: usize, len: usize) {
    let urandom = File::open("/dev/urandom").unwrap();
    let source = types::Fd(urandom.as_raw_fd());
    let read = opcode::ReadFixed::new(source, at as *mut u8, len as u32, 0).build();
    // SAFETY: the buffer is memory of this test, and stays until the answer is there.
    unsafe { ring.submission().push(&read) }.unwrap();
    ring.submit_and_wait(1).unwrap();
    let answer = ring.completion().next().unwrap();
    assert_eq!(answer.result(), len as i32);
}

/// Returns when the killed copy of the process has ended, even if another thread has waited for it.
fn until_childless() {
    // SAFETY: a null pointer is allowed.
    let next = || unsafe {
        let how = libc::WEXITED | libc::__WALL;
        libc::waitid(libc::P_ALL, 0, std::ptr::null_mut(), how)
    };
    while next() == 0 {}
}

/// Kills what this thread has forked.
fn kill_children() {
    let children = fs::read_to_string("/proc/thread-self/children").unwrap();
    for child in children.split_whitespace() {
        let child: i32 = child.parse().unwrap();
        let how = libc::WEXITED | libc::WNOWAIT | libc::__WALL;
        // SAFETY: ends a child of this process and waits until it has; a null pointer is allowed.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitid(libc::P_PID, child as u32, std::ptr::null_mut(), how);
        }
    }
}

/// Runs this program in a role, in a directory.
fn play(role: &str, dir: &Path) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "played", "--ignored", "--nocapture"])
        .env("STASIS_TEST_ROLE", role)
        .env("STASIS_TEST_DIR", dir)
        .output()
        .unwrap()
}

/// Runs a role that must succeed.
fn played_well(role: &str, dir: &Path) {
    let output = play(role, dir);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{role}: {} {said}", output.status);
}

/// Runs a role that prints an error on purpose, and returns it.
/// Plays some roles, one after the other, in a folder of their own.
fn played_in_turn(roles: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    for role in roles {
        played_well(role, dir.path());
    }
}

fn error(role: &str, dir: &Path) -> String {
    let output = play(role, dir);
    let said = String::from_utf8_lossy(&output.stdout);
    let error = said.lines().find_map(|line| line.strip_prefix("ERROR "));
    error
        .unwrap_or_else(|| panic!("{role} gave no error: {output:?}"))
        .to_owned()
}

#[test]
#[ignore = "a role that the other tests play in a process of its own"]
fn played() {
    let dir = PathBuf::from(std::env::var_os("STASIS_TEST_DIR").unwrap());
    let ck = dir.join("ck");
    let say = |error: &dyn std::fmt::Display| {
        println!("\nERROR {}", error.to_string().replace('\n', " "))
    };
    match std::env::var("STASIS_TEST_ROLE").unwrap().as_str() {
        "save" => {
            build(&dir);
            let set = save_set(&ck, 1).unwrap();
            check_size(&set);
            fs::write(dir.join("ledger"), ledger()).unwrap();
            // Saving has changed nothing, and can be done again.
            assert_eq!(fs::read_to_string(dir.join("ledger")).unwrap(), ledger());
            save_set(&ck, 2).unwrap();
            check();
        }
        "copy" => {
            build(&dir);
            fs::write(dir.join("ledger"), ledger()).unwrap();
            save_a_copy(&ck, 2);
            until_childless();
        }
        "copy-without-room" => {
            build(&dir);
            let given_up = AtomicBool::new(false);
            let budget = MemoryBudget::zero("there is none");
            let pause = PauseMode::UntilCopied {
                budget,
                cancelled: &given_up,
            };
            let (_, stood, _) = save(&ck, 1, pause, once_written(&ck, 1)).unwrap();
            let stood = stood.unwrap();
            assert!(
                stood.contains("too scarce") && stood.contains("there is none"),
                "{stood}"
            );
            check();
        }
        "copy-given-up" => {
            build(&dir);
            let given_up = AtomicBool::new(false);
            let pause = PauseMode::UntilCopied {
                budget: MemoryBudget::for_each_of(1),
                cancelled: &given_up,
            };
            let give_up = || given_up.store(true, Ordering::Relaxed);
            say(&save(&ck, 1, pause, give_up).unwrap_err());
            assert_eq!(fs::read_dir(&ck).unwrap().count(), 0, "nothing is left");
        }
        "copy-killed" => {
            build(&dir);
            let given_up = AtomicBool::new(false);
            let pause = PauseMode::UntilCopied {
                budget: MemoryBudget::for_each_of(1),
                cancelled: &given_up,
            };
            say(&save(&ck, 1, pause, kill_children).unwrap_err());
        }
        "restore" => {
            let mut opened = stasis_restart::open(&ck, None, None, 0, 1, &Arc::default()).unwrap();
            assert_eq!(opened.set().name(), "ckpt-2");
            assert_eq!(opened.header().epoch, 3);
            assert_eq!(
                opened.section(ckpt_image::kind::PROCESS).unwrap().bytes,
                b"threads"
            );
            assert_eq!(ledger(), "", "nothing is mapped before");
            opened.map(&opened.share_alone().unwrap()).unwrap();
            assert_eq!(ledger(), fs::read_to_string(dir.join("ledger")).unwrap());
            check();
        }
        "restore-in-advance" => {
            // An image that is not used is unmapped again.
            let open = || stasis_restart::open(&ck, None, None, 0, 1, &Arc::default()).unwrap();
            let mut opened = open();
            opened.map_early().unwrap();
            assert_ne!(ledger(), "", "something is mapped");
            drop(opened);
            assert_eq!(ledger(), "", "all of it is unmapped");
            let mut opened = open();
            opened.map_early().unwrap();
            let rest = opened.map(&opened.share_alone().unwrap()).unwrap();
            assert!(rest.filled_bytes < 1 << 20, "{rest:?}");
            assert_eq!(ledger(), fs::read_to_string(dir.join("ledger")).unwrap());
            check();
        }
        role @ ("increments" | "increments-by-digests") => {
            build(&dir);
            let changes = match role {
                "increments" => DirtyTracker::start(),
                _ => DirtyTracker::by_digests("a test"),
            };
            let mut chain = Chain::new(&ck, changes.unwrap());
            let full = chain.cut(true);
            let least = chain.cut(true);
            // What is shared, or cannot be watched, and the tables.
            assert!(
                least < full / 20 && least < 300 * PAGE as u64,
                "{least} of {full}"
            );
            for round in 1..=5 {
                // Memory may change after the look, too.
                bytes(place(14), 1)[0] ^= 1;
                drop(chain.ahead());
                change(round);
                // Every other one is given up, and what it has seen is not lost.
                let commit = round % 2 == 1;
                let bytes = chain.cut(commit);
                assert!(bytes < full, "{bytes} of {full}");
                if commit {
                    fs::write(dir.join(format!("contents-{}", chain.number)), contents()).unwrap();
                }
            }
        }
        role if role.starts_with("restore-") => {
            let number = &role["restore-".len()..];
            let name = format!("ckpt-{number}");
            let mut opened =
                stasis_restart::open(&ck, Some(&name), None, 0, 1, &Arc::default()).unwrap();
            opened.map(&opened.share_alone().unwrap()).unwrap();
            let (then, now) = (dir.join(format!("contents-{number}")), contents());
            let then = fs::read_to_string(then).unwrap();
            let differs = then.lines().zip(now.lines()).find(|(a, b)| a != b);
            assert_eq!((differs, then.len()), (None, now.len()));
        }
        "chain" => {
            // The restored memory is saved, and that is restored.
            let mut opened = stasis_restart::open(&ck, None, None, 0, 1, &Arc::default()).unwrap();
            opened.map(&opened.share_alone().unwrap()).unwrap();
            save_set(&ck, ckpt_image::next_number(&ck).unwrap()).unwrap();
        }
        "open" => match stasis_restart::open(&ck, None, None, 0, 1, &Arc::default()) {
            Ok(_) => println!("\nOPENED"),
            Err(e) => say(&e),
        },
        "occupied" => {
            map(place(0) + (5 << 20), PAGE, RW, libc::MAP_PRIVATE, None);
            let mut opened = stasis_restart::open(&ck, None, None, 0, 1, &Arc::default()).unwrap();
            say(&opened.map(&opened.share_alone().unwrap()).unwrap_err());
        }
        "share" => {
            build_shared(&dir);
            let named = fs::metadata(named_path(&dir)).unwrap();
            let plan = Plan::make(&ALONE, None).unwrap();
            let object = plan.object(named.dev(), named.ino()).unwrap();
            assert_eq!(object.size, 3 * PAGE as u64);
            save_set(&ck, 1).unwrap();
            fs::write(dir.join("ledger"), ledger()).unwrap();
            // The job runs on, and is killed.
            bytes(shared_at(File_), 3 * PAGE + 100).fill(0xee);
            bytes(shared_at(Named), PAGE).fill(0xee);
        }
        "share-copy" => {
            build_shared(&dir);
            fs::write(dir.join("ledger"), ledger()).unwrap();
            save_a_copy(&ck, 1);
            assert_eq!(ledger(), fs::read_to_string(dir.join("ledger")).unwrap());
        }
        "share-again" => {
            let mut opened = stasis_restart::open(&ck, None, None, 0, 1, &Arc::default()).unwrap();
            opened.map(&opened.share_alone().unwrap()).unwrap();
            assert_eq!(ledger(), fs::read_to_string(dir.join("ledger")).unwrap());
            check_shared(&dir);
            save_set(&ck, ckpt_image::next_number(&ck).unwrap()).unwrap();
        }
        "share-with-child" => {
            map(
                place(0),
                PAGE,
                RW,
                libc::MAP_SHARED,
                Some((&memfd("parental", 1), 0)),
            );
            let _child = fork_sleeper(false);
            println!("\nNOTE {}", save_with_notes(&ck, 1).unwrap().1.join(" "));
        }
        "share-with-stranger" => {
            map(
                place(0),
                PAGE,
                RW,
                libc::MAP_SHARED,
                Some((&memfd("common", 1), 0)),
            );
            let _stranger = fork_sleeper(true);
            say(&save_set(&ck, 1).unwrap_err());
            assert_eq!(fs::read_dir(&ck).unwrap().count(), 0, "nothing is left");
        }
        "pinned" => {
            build(&dir);
            let mut chain = Chain::new(&ck, DirtyTracker::start().unwrap());
            let (at, len) = (place(0) + 20 * PAGE, 4 * PAGE);
            let mut ring = registered(at, len);
            let full = chain.cut(true);
            // As a device writes: through no mapping of the process.
            read_noise(&mut ring, at, len);
            let few = full / 20;
            assert!(chain.cut(true) < few);
            read_noise(&mut ring, at, len);
            ring.submitter().unregister_buffers().unwrap();
            // What is watched from now on is compared once more.
            assert!(chain.cut_and_note(&dir) < few);
            bytes(at, 1)[0] ^= 1;
            // From now on marks are enough.
            bytes(place(30), 1)[0] ^= 1;
            assert!(chain.cut_and_note(&dir) < few);
        }
        "pinned-between" => {
            build(&dir);
            let mut chain = Chain::new(&ck, DirtyTracker::start().unwrap());
            let few = chain.cut(true) / 20;
            for _ in 0..2 {
                let (at, len) = (place(0) + 20 * PAGE, 4 * PAGE);
                let mut ring = registered(at, len);
                read_noise(&mut ring, at, len);
                bytes(place(30), 1)[0] ^= 1;
                let ahead = chain.ahead();
                // As a device writes for as long as threads run. At the stop the memory is given up.
                read_noise(&mut ring, at, len);
                ring.submitter().unregister_buffers().unwrap();
                assert!(chain.cut_after(Some(ahead), true) < few);
                chain.note(&dir);
            }
        }
        "digests-killed" => {
            build(&dir);
            let mut chain = Chain::new(&ck, DirtyTracker::by_digests("a test").unwrap());
            chain.cut(true);
            change(1);
            chain.number += 1;
            let given_up = AtomicBool::new(false);
            let pause = PauseMode::UntilCopied {
                budget: MemoryBudget::for_each_of(1),
                cancelled: &given_up,
            };
            let increments = Some((&chain.changes, chain.last.as_ref()));
            let disk = FileSystem::default();
            let made = save_without_commit(&disk, &ck, 2, pause, increments, None, kill_children);
            say(&made.err().unwrap());
            change(2);
            chain.cut_and_note(&dir);
        }
        role if role.starts_with("at-random-") => {
            let mut state: u64 = role["at-random-".len()..].parse().unwrap();
            let mut next = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) as usize
            };
            fs::write(
                dir.join("library"),
                (0..AREA_PAGES).flat_map(text).collect::<Vec<_>>(),
            )
            .unwrap();
            let library = File::open(dir.join("library")).unwrap();
            (0..AREAS)
                .for_each(|index| map(area(index), AREA_PAGES * PAGE, RW, libc::MAP_PRIVATE, None));
            let mut chain = Chain::new(&ck, DirtyTracker::by_digests("a test").unwrap());
            fill(area(0), AREA_PAGES * PAGE / 2);
            chain.cut(true);
            for _ in 0..20 {
                (0..next() % 30).for_each(|_| change_at_random(&mut next, &library));
                // What cannot be read by load instructions is compared as well.
                let hidden = (area(next() % AREAS) + next() % AREA_PAGES * PAGE, PAGE);
                protect(hidden.0, hidden.1, libc::PROT_NONE);
                match next() % 4 {
                    0 => chain.cut_without_room(2 + next() % 3),
                    1 => drop(chain.cut(false)),
                    _ => drop(chain.cut_and_note(&dir)),
                }
                protect(hidden.0, hidden.1, RW);
            }
        }
        "kept-out" => {
            build(&dir);
            let ahead = PreScan::run(&ALONE, None, None).unwrap();
            // As who registers memory with a device may do, of which no system call of the program tells.
            advise(place(0), 64 << 20, libc::MADV_DONTFORK);
            let given_up = AtomicBool::new(false);
            let pause = PauseMode::UntilCopied {
                budget: MemoryBudget::for_each_of(1),
                cancelled: &given_up,
            };
            let written = once_written(&ck, 2);
            let disk = FileSystem::default();
            let made = save_without_commit(&disk, &ck, 2, pause, None, Some(ahead), written);
            let (set, manifest, saved) = made.unwrap();
            let stood = saved.stopped_because.unwrap();
            assert!(stood.contains("lacks the memory at 0x"), "{stood}");
            advise(place(0), 64 << 20, libc::MADV_DOFORK);
            set.commit(&manifest, None).unwrap();
            fs::write(dir.join("ledger"), ledger()).unwrap();
        }
        "full" => {
            map(place(0), 64 << 20, RW, libc::MAP_PRIVATE, None);
            fill(place(0), 64 << 20);
            say(&save_set(&ck, 1).unwrap_err());
        }
        role => panic!("no role {role}"),
    }
}

/// What need not be stored is not.
fn check_size(set: &Path) {
    let bytes = fs::metadata(set.join("rank-0.img")).unwrap().len() as usize;
    let noise = (3 << 20) + 2000 * PAGE + (6 << 20)
        - noise_holes().map(|zeros| zeros.len()).sum::<usize>()
        + (8 << 20)
        + 4 * PAGE
        + PAGE
        + 2 * 12 * PAGE
        + (300 + 4) * PAGE
        + 4 * PAGE
        + 16 * PAGE
        + 4 * PAGE
        + 2 * PAGE;
    assert!(bytes < noise + noise / 20, "{bytes} bytes for {noise}");
}

#[test]
fn everything_comes_back() {
    played_in_turn(&["save", "restore"]);
}

#[test]
fn everything_comes_back_that_was_mapped_in_advance() {
    played_in_turn(&["save", "restore-in-advance"]);
}

#[test]
fn what_was_copied_comes_back_whatever_is_written_after() {
    played_in_turn(&["copy", "restore"]);
}

#[test]
fn without_room_for_a_copy_nobody_runs() {
    let dir = tempfile::tempdir().unwrap();
    played_well("copy-without-room", dir.path());
}

#[test]
fn a_copy_that_is_not_wanted_or_is_killed_makes_no_image() {
    let dir = tempfile::tempdir().unwrap();
    let said = error("copy-given-up", dir.path());
    assert!(said.contains("given up"), "{said}");
    let said = error("copy-killed", dir.path());
    assert!(said.contains("for want of memory"), "{said}");
}

#[test]
fn what_came_back_can_be_saved_again() {
    let dir = tempfile::tempdir().unwrap();
    played_well("save", dir.path());
    for _ in 0..3 {
        played_well("chain", dir.path());
    }
    fs::rename(dir.path().join("ck/ckpt-5"), dir.path().join("last")).unwrap();
    fs::remove_dir_all(dir.path().join("ck")).unwrap();
    fs::create_dir(dir.path().join("ck")).unwrap();
    fs::rename(dir.path().join("last"), dir.path().join("ck/ckpt-2")).unwrap();
    played_well("restore", dir.path());
}

/// Increments by the role `role`: restored from each set, and merged.
fn increments_come_back(role: &str) {
    let dir = tempfile::tempdir().unwrap();
    played_well(role, dir.path());
    for set in ["restore-3", "restore-5", "restore-7"] {
        played_well(set, dir.path());
    }
    let merged = ckpt_image::compact(&FileSystem::default(), &dir.path().join("ck"), None).unwrap();
    assert!(merged.made.unwrap().ends_with("ckpt-8"));
    for gone in [1, 2, 3, 5, 7] {
        fs::remove_dir_all(dir.path().join(format!("ck/ckpt-{gone}"))).unwrap();
    }
    // The last one merged holds what that did.
    fs::rename(dir.path().join("contents-7"), dir.path().join("contents-8")).unwrap();
    played_well("restore-8", dir.path());
}

/// The reason why the kernel cannot watch writes, as those before 6.7 cannot.
fn unwatched() -> Option<String> {
    let changes = DirtyTracker::start().unwrap();
    changes.unwatched().map(str::to_owned)
}

#[test]
fn increments_hold_what_has_changed_however_it_did() {
    if let Some(why) = unwatched() {
        skip!("{why}");
    }
    increments_come_back("increments");
}

#[test]
fn digests_find_what_has_changed_however_it_did() {
    increments_come_back("increments-by-digests");
}

#[test]
fn digests_find_changes_at_random() {
    for seed in 1..=4 {
        let dir = tempfile::tempdir().unwrap();
        played_well(&format!("at-random-{seed}"), dir.path());
        let noted = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().unwrap();
            name.strip_prefix("contents-").map(str::to_owned)
        };
        let entries = fs::read_dir(dir.path()).unwrap().map(Result::unwrap);
        let sets: Vec<String> = entries.filter_map(noted).collect();
        assert!(sets.len() > 5, "{seed}: {sets:?}");
        for set in sets {
            played_well(&format!("restore-{set}"), dir.path());
        }
    }
}

#[test]
fn a_killed_copy_takes_no_digests_along() {
    let dir = tempfile::tempdir().unwrap();
    let said = error("digests-killed", dir.path());
    assert!(said.contains("for want of memory"), "{said}");
    played_well("restore-3", dir.path());
}

#[test]
fn pinned_memory_is_compared() {
    let unable = unwatched();
    let unable = unable.or(IoUring::new(1).err().map(|e| format!("no io_uring: {e}")));
    if let Some(why) = unable {
        skip!("{why}");
    }
    played_in_turn(&["pinned", "restore-3", "restore-4"]);
    played_in_turn(&["pinned-between", "restore-2", "restore-3"]);
}

#[test]
fn what_was_kept_out_of_the_copy_unseen_is_stored_while_all_stand_still() {
    played_in_turn(&["kept-out", "restore"]);
}

#[test]
fn another_library_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    played_well("save", dir.path());
    let library = dir.path().join("library");
    OpenOptions::new()
        .append(true)
        .open(&library)
        .unwrap()
        .write_all_at(b"x", 0)
        .unwrap();
    let said = error("open", dir.path());
    assert!(
        said.contains("library is not the file that the program had mapped"),
        "{said}"
    );
    fs::remove_file(&library).unwrap();
    let said = error("open", dir.path());
    assert!(said.contains("library is missing"), "{said}");
}

#[test]
fn a_file_of_ours_may_be_another_or_gone() {
    let dir = tempfile::tempdir().unwrap();
    played_well("save", dir.path());
    fs::write(dir.path().join("ours"), "of another version").unwrap();
    played_well("restore", dir.path());
    fs::remove_file(dir.path().join("ours")).unwrap();
    played_well("restore", dir.path());
}

#[test]
fn a_shared_file_may_change_but_not_shrink() {
    let dir = tempfile::tempdir().unwrap();
    played_well("save", dir.path());
    let shared = OpenOptions::new()
        .write(true)
        .open(dir.path().join("shared"))
        .unwrap();
    shared.write_all_at(b"later", 9000).unwrap();
    played_well("restore", dir.path());
    shared.set_len(PAGE as u64).unwrap();
    let said = error("open", dir.path());
    assert!(
        said.contains("shared") && said.contains("4096 bytes, 16384 are mapped"),
        "{said}"
    );
}

#[test]
fn an_occupied_place_is_named() {
    let dir = tempfile::tempdir().unwrap();
    played_well("save", dir.path());
    let said = error("occupied", dir.path());
    assert!(
        said.contains("is taken by: 10000500000-10000501000 rw-p"),
        "{said}"
    );
}

#[test]
fn a_flipped_byte_falls_back_to_the_older_set() {
    let dir = tempfile::tempdir().unwrap();
    played_well("save", dir.path());
    let image = dir.path().join("ck/ckpt-2/rank-0.img");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(image)
        .unwrap();
    let mut b = [0];
    file.read_exact_at(&mut b, 1 << 20).unwrap();
    file.write_all_at(&[b[0] ^ 1], 1 << 20).unwrap();
    let said = error("open", dir.path());
    assert!(
        said.contains("ckpt-2/rank-0.img (rank 0): memory chunk"),
        "{said}"
    );
    assert!(
        said.contains("stasis restart ") && said.contains("ckpt-1"),
        "{said}"
    );
}

#[test]
fn shared_memory_is_shared_again_and_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    played_well("share", dir.path());
    let image = dir.path().join("ck/ckpt-1/rank-0.img");
    let stored = fs::metadata(image).unwrap().len() as usize / PAGE;
    // The header; of the alias 4, of the memfd 6, of the named 2, of the segment 3, of the file 2.
    assert_eq!(stored, 18);
    for _ in 0..2 {
        played_well("share-again", dir.path());
    }
}

#[test]
fn shared_memory_is_copied_before_anybody_runs() {
    let dir = tempfile::tempdir().unwrap();
    played_well("share-copy", dir.path());
    played_well("share-again", dir.path());
}

#[test]
fn a_child_that_shares_memory_is_named_and_a_stranger_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = play("share-with-child", dir.path());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("parental")
            && said.contains("by child process")
            && said.contains("not saved"),
        "{output:?}"
    );
    fs::remove_dir_all(dir.path().join("ck")).unwrap();
    let said = error("share-with-stranger", dir.path());
    assert!(
        said.contains("common") && said.contains("is not part of the job"),
        "{said}"
    );
}

#[test]
fn a_full_disk_leaves_the_job_and_the_last_set() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=8m,mode=700", "stasis-test"])
        .arg(dir.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        skip!("only root may mount");
    }
    let said = error("full", dir.path());
    let left = fs::read_dir(dir.path().join("ck")).unwrap().count();
    Command::new("umount").arg(dir.path()).status().unwrap();
    assert!(
        said.contains("No space left on device") && said.contains("Free space there"),
        "{said}"
    );
    assert_eq!(left, 0);
}
