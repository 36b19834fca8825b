//! How fast an upper half is saved to a memory file system, and restored.
//!
//! `cargo run --release -p stasis-restart --example save_and_map [MIB [DIR]]` fills memory of the arena with
//! floating-point numbers, saves it some times without and with the compression probe, beside plain write() of the same
//! memory, and restores it in a fresh process.
//!
//! # Safety
//! The process maps its own memory in the arena, where nothing else is, and is its only user.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ckpt_image::{next_number, Compression, FileSystem, Manifest, RankEntry, SetWriter};
use dump::{Application, DumpRequest, HeaderInfo, PauseMode, Plan};
use stasis_restart::SharedMemory;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["restore", dir] => restore(Path::new(dir)),
        [mib, dir] => bench(mib.parse().expect("a number of MiB"), Path::new(dir)),
        [mib] => bench(mib.parse().expect("a number of MiB"), Path::new("/dev/shm")),
        _ => bench(1024, Path::new("/dev/shm")),
    }
}

/// Wall clock and processor time: the second says something on a busy machine, too.
struct Watch(Instant, f64);

impl Watch {
    fn start() -> Watch {
        Watch(Instant::now(), processor_time())
    }

    fn rate(&self, bytes: usize) -> String {
        let gigabytes = bytes as f64 / 1e9;
        let wall = gigabytes / self.0.elapsed().as_secs_f64();
        let processor = gigabytes / (processor_time() - self.1);
        format!("{wall:.2} GB/s ({processor:.2} per processor second)")
    }
}

fn processor_time() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn bench(mib: usize, dir: &Path) {
    let bytes = mib << 20;
    let memory = numbers(bytes);
    let dir = tempfile::tempdir_in(dir).expect("a directory for the sets");
    let ck = dir.path().join("ck");
    for round in 0..5 {
        let plain = dir.path().join("plain");
        let start = Watch::start();
        let mut file = File::create(&plain).expect("a file");
        for block in memory.chunks(1 << 20) {
            file.write_all(block).expect("written");
        }
        file.sync_all().expect("synced");
        let write = start.rate(bytes);
        fs::remove_file(plain).expect("removed");
        print!("round {round}: plain write() {write}");
        for compression in [Compression::Off, Compression::Probe] {
            let start = Watch::start();
            let path = one_set(&ck, compression);
            print!("; save, compression {compression:?}: {}", start.rate(bytes));
            if compression == Compression::Probe {
                println!();
                let me = std::env::current_exe().expect("this program");
                let status = Command::new(me).arg("restore").arg(&ck).status();
                assert!(status.expect("started").success());
            }
            fs::remove_dir_all(path).expect("removed");
        }
    }
}

fn one_set(ck: &Path, compression: Compression) -> PathBuf {
    let set = SetWriter::begin(
        &FileSystem::default(),
        ck,
        next_number(ck).expect("a number"),
    )
    .expect("a set");
    let info = HeaderInfo {
        set_id: set.set_id(),
        epoch: 0,
        rank: 0,
        world_size: 1,
        abi: "none".into(),
        compression,
        sealed: false,
        features: None,
    };
    let application = Application {
        shm_id: |id| id,
        is_ours: |_| false,
    };
    let plan = Plan::make(&application, None).expect("looked at");
    let order = DumpRequest {
        disk: &FileSystem::default(),
        dir: set.path(),
        info: &info,
        sections: &[],
        shares: &[],
        pause: PauseMode::UntilWritten("nobody runs".into()),
        increments: None,
    };
    let image = plan.save(&order, || ()).expect("saved").image;
    let manifest = Manifest {
        schema_version: 1,
        set_id: info.set_id,
        increment_of: None,
        created: 0,
        pause_micros: None,
        total_micros: None,
        epoch: 0,
        world_size: 1,
        abi: info.abi,
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
            image,
            local: None,
            copy: None,
        }],
    };
    set.commit(&manifest, None).expect("committed")
}

fn restore(ck: &Path) {
    let start = Watch::start();
    let mut opened =
        stasis_restart::open(ck, None, None, 0, 1, &std::sync::Arc::default()).expect("opened");
    let bytes = fs::metadata(opened.image().path()).expect("an image").len() as usize;
    let verify = start.rate(bytes);
    let start = Watch::start();
    let mapped = opened.map(&SharedMemory::default()).expect("mapped");
    println!(
        "         verify {verify}; map {}",
        start.rate(mapped.filled_bytes as usize)
    );
}

/// `bytes` of arena memory with floating-point numbers as a simulation has them.
fn numbers(bytes: usize) -> &'static [u8] {
    // SAFETY: see the head of this file.
    let numbers: &mut [f64] = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let at = contract::ARENA_START as *mut libc::c_void;
        assert_eq!(libc::mmap(at, bytes, 3, flags, -1, 0), at);
        std::slice::from_raw_parts_mut(at.cast::<f64>(), bytes / 8)
    };
    let mut noise = 1u64;
    for (index, number) in numbers.iter_mut().enumerate() {
        noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1);
        *number = (index as f64 * 1e-3).sin() + (noise >> 40) as f64 * 1e-12;
    }
    // SAFETY: the same memory, from now on only read.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), bytes) }
}
