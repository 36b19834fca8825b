//! Loads and runs one program as an upper half, without any MPI: for the loader's tests.
//!
//! ```text
//! stasis-load run [--stops N] [--every MS] [--dump FILE [--after MS] [--when FILE] [--go-on]] [--at-once]
//!                 [--redirect NAME=FILE] [--jobs] PROGRAM ARGS...
//! stasis-load restore [--dump FILE ...] FILE
//! ```
//! `--stops` stops and resumes all threads N times; `--dump` writes the memory below 16 TiB and the process state to a
//! plain file and exits, or continues with `--go-on`; `--when` waits until the program has created a file; `restore`
//! continues the dumped process. `--at-once` starts the program together with the first stop.
//! `--jobs` runs a job on the initial thread at each stop.
//!
//! # Safety
//! Reads the whole upper half while it is stopped, and maps it at unused addresses of a fresh process.
#![allow(unsafe_code)]

use anyhow::{bail, ensure, Context, Result};
use contract::{gate, Phase, ARENA_END};
use serde::{Deserialize, Serialize};
use stasis_loader as loader;
use std::cell::RefCell;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Sender};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;

#[derive(Default)]
struct Options {
    stops: u32,
    every: Duration,
    dump: Option<PathBuf>,
    after: Duration,
    when: Option<PathBuf>,
    go_on: bool,
    jobs: bool,
    at_once: bool,
    redirects: Vec<(String, PathBuf)>,
    rest: Vec<OsString>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    state: loader::ProcessState,
    registers: loader::SavedRegisters,
    numbers: loader::ThreadNumbers,
    regions: Vec<Region>,
}

#[derive(Serialize, Deserialize)]
struct Region {
    start: usize,
    end: usize,
    prot: u8,
    /// Runs of pages that are not all zero: first page, number of pages.
    runs: Vec<(usize, usize)>,
}

fn options(mut args: std::env::ArgsOs) -> Result<Options> {
    let mut options = Options {
        every: Duration::from_millis(5),
        ..Options::default()
    };
    let millis = |v: Option<OsString>| -> Result<Duration> {
        let text = v
            .context("a number is missing")?
            .into_string()
            .unwrap_or_default();
        Ok(Duration::from_millis(text.parse()?))
    };
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--stops") => options.stops = millis(args.next())?.as_millis() as u32,
            Some("--every") => options.every = millis(args.next())?,
            Some("--after") => options.after = millis(args.next())?,
            Some("--when") => options.when = Some(args.next().context("a file is missing")?.into()),
            Some("--dump") => options.dump = Some(args.next().context("a file is missing")?.into()),
            Some("--go-on") => options.go_on = true,
            Some("--jobs") => options.jobs = true,
            Some("--at-once") => options.at_once = true,
            Some("--redirect") => {
                let text = args.next().context("NAME=FILE is missing")?.into_string();
                let text = text.unwrap_or_default();
                let (name, file) = text.split_once('=').context("NAME=FILE is meant")?;
                options.redirects.push((name.to_owned(), file.into()));
            }
            _ => {
                options.rest.push(arg);
                options.rest.extend(args);
                break;
            }
        }
    }
    Ok(options)
}

fn dump(path: &Path, stopped: &loader::Stopped) -> Result<()> {
    let state = loader::capture(stopped, &|_, _| None)?;
    let memory = File::open("/proc/self/mem")?;
    let mut page_bytes = [0; PAGE];
    let mut regions = Vec::new();
    for m in loader::read_maps()?
        .into_iter()
        .filter(|m| m.end <= ARENA_END && !contract::is_of_sites(m.start))
    {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        if m.prot & 1 != 0 {
            for page in (m.start..m.end).step_by(PAGE) {
                // The dynamic linker maps more than a library's file has before it maps the segments over it. A load
                // from a page behind the file's end raises SIGBUS; this read fails.
                let read = memory.read_exact_at(&mut page_bytes, page as u64);
                if read.is_err() || page_bytes == [0; PAGE] {
                    continue;
                }
                match runs.last_mut() {
                    Some((first, n)) if *first + *n * PAGE == page => *n += 1,
                    _ => runs.push((page, 1)),
                }
            }
        }
        regions.push(Region {
            start: m.start,
            end: m.end,
            prot: m.prot,
            runs,
        });
    }
    let registers = loader::SavedRegisters::capture(stopped);
    let numbers = loader::ThreadNumbers::capture(stopped);
    let header = Header {
        state,
        registers,
        numbers,
        regions,
    };
    let header = serde_json::to_vec(&header)?;
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    let header: Header = serde_json::from_slice(&header)?;
    for (start, pages) in header.regions.iter().flat_map(|r| &r.runs) {
        // SAFETY: the pages were just read, and belong to the stopped upper half.
        out.write_all(unsafe { std::slice::from_raw_parts(*start as *const u8, pages * PAGE) })?;
    }
    out.flush()?;
    Ok(())
}

fn agent(options: Options, begins: Sender<()>) {
    std::thread::sleep(options.after);
    while options.when.as_ref().is_some_and(|file| !file.exists()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(begins);
    let mut times = Vec::new();
    for n in 0..options.stops {
        std::thread::sleep(options.every);
        gate().phase.store(Phase::Stop as u32, Ordering::Release);
        let begun = Instant::now();
        match loader::stop_all() {
            Ok(stopped) => {
                times.push(begun.elapsed());
                if options.jobs {
                    let drain = gate().upper.drain.load(Ordering::Acquire);
                    let done = stopped.run_on_main(|| call_upper(drain));
                    assert_eq!(done, 0, "drain at stop {n}");
                }
                gate().phase.store(Phase::Run as u32, Ordering::Release);
                stopped.resume();
            }
            Err(error) => {
                eprintln!("stasis-load: {error}");
                std::process::exit(3);
            }
        }
    }
    if options.stops > 0 {
        times.sort();
        eprintln!(
            "stasis-load: {} stops, median {:?}, max {:?}",
            times.len(),
            times[times.len() / 2],
            times[times.len() - 1]
        );
    }
    if let Some(path) = &options.dump {
        gate().phase.store(Phase::Stop as u32, Ordering::Release);
        let written = loader::stop_all()
            .map_err(anyhow::Error::from)
            .and_then(|stopped| {
                dump(path, &stopped)?;
                if options.go_on {
                    gate().phase.store(Phase::Run as u32, Ordering::Release);
                    stopped.resume();
                } else {
                    std::process::exit(0);
                }
                Ok(())
            });
        if let Err(error) = written {
            eprintln!("stasis-load: {error:#}");
            std::process::exit(4);
        }
    }
}

fn run(mut options: Options) -> Result<()> {
    ensure!(!options.rest.is_empty(), "no program given");
    let program = options.rest.remove(0);
    let args = std::mem::take(&mut options.rest);
    let (names, files): (Vec<String>, Vec<PathBuf>) = options.redirects.drain(..).unzip();
    let position = move |file: &str| names.iter().position(|name| name == file);
    loader::set_redirects(position, &files);
    let own = std::env::current_exe()?.into_os_string().into_vec();
    loader::set_exec_hook(vec![CString::new(own)?, c"run".to_owned()]);
    let env: Vec<_> = std::env::vars_os().collect();
    let program = loader::prepare(&program, &args, &env)?;
    fill_slots();
    if options.stops > 0 || options.dump.is_some() {
        let (begins, begun) = channel();
        let at_once = options.at_once;
        loader::spawn_lower("agent", move || agent(options, begins))?;
        if at_once {
            // Returns when the agent drops the other side.
            let _ = begun.recv();
        }
    }
    program.run()
}

thread_local! {
    static CALLS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Sums its arguments, weighted, and uses the lower half's thread-local state and heap.
#[allow(clippy::too_many_arguments)]
extern "C" fn twelve(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    g: usize,
    h: usize,
    i: usize,
    j: usize,
    k: usize,
    l: usize,
) -> usize {
    CALLS.with_borrow_mut(|calls| {
        if calls.last().is_some_and(|&last| last + 1 != l) {
            calls.clear();
        }
        calls.push(l);
    });
    [a, b, c, d, e, f, g, h, i, j, k, l]
        .iter()
        .zip(1..)
        .map(|(value, weight)| value * weight)
        .sum()
}

/// Waits a little, or until a stop is requested, like a receive.
extern "C" fn wait() -> usize {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(3)
        && gate().phase.load(Ordering::Acquire) != Phase::Stop as u32
    {
        std::thread::yield_now();
    }
    5
}

/// Calls back into the upper half, like a user-defined reduction.
extern "C" fn call(back: extern "C" fn(usize) -> usize, value: usize) -> usize {
    back(value) + 1
}

/// Creates a thread as MPI libraries do: without a call to the loader, and with all signals unblocked.
extern "C" fn progress_thread() -> usize {
    std::thread::spawn(|| loop {
        std::thread::sleep(Duration::from_micros(300));
    });
    6
}

fn fill_slots() {
    for (slot, function) in [
        (1000, twelve as *const ()),
        (1001, wait as *const ()),
        (1002, call as *const ()),
        (1003, progress_thread as *const ()),
    ] {
        gate().slots[slot].store(function as usize, Ordering::Release);
    }
}

fn call_upper(function: usize) -> i32 {
    if function == 0 {
        return 0;
    }
    // SAFETY: the test program stored a function of this type.
    let function: extern "C" fn() -> i32 = unsafe { std::mem::transmute(function) };
    function()
}

fn read_header(path: &OsString) -> Result<(Header, BufReader<File>)> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut len = [0; 8];
    file.read_exact(&mut len)?;
    let mut header = vec![0; u64::from_le_bytes(len) as usize];
    file.read_exact(&mut header)?;
    Ok((serde_json::from_slice(&header)?, file))
}

fn restore(options: Options) -> Result<()> {
    let path = options.rest.first().context("no file given")?.clone();
    // This reads twice: the number of the descriptor of the first read may be one to be reserved.
    let (header, _) = read_header(&path)?;
    let files = loader::open_files(&header.state, &loader::Checks::default(), None)?;
    let (closed, grown) = (
        loader::ClosedFileList::default(),
        loader::ClosedFilePolicy::Leave,
    );
    let nobody = Default::default();
    let kept = std::env::temp_dir();
    files.truncate(&header.state, &closed, grown, &nobody, (&kept, "alone"))?;
    let (header, mut file) = read_header(&path)?;
    for region in &header.regions {
        let len = region.end - region.start;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: MAP_FIXED_NOREPLACE replaces nothing, and the memory for the read was mapped just now.
        unsafe {
            let at = libc::mmap(region.start as *mut _, len, prot, flags, -1, 0);
            if at as usize != region.start {
                bail!(
                    "cannot map {:#x}: {}",
                    region.start,
                    std::io::Error::last_os_error()
                );
            }
            for (start, pages) in &region.runs {
                let bytes = std::slice::from_raw_parts_mut(*start as *mut u8, pages * PAGE);
                file.read_exact(bytes)?;
            }
            libc::mprotect(region.start as *mut _, len, region.prot.into());
        }
    }
    let registers = Some(&header.registers);
    let restored = loader::restore(header.state, registers, header.numbers, files, &|_| None)?;
    if options.stops > 0 || options.dump.is_some() {
        loader::spawn_lower("agent", move || agent(options, channel().0))?;
    }
    fill_slots();
    gate().phase.store(Phase::Run as u32, Ordering::Release);
    restored.go(|| {
        let rebuild = gate().upper.rebuild.load(Ordering::Acquire);
        assert_eq!(call_upper(rebuild), 0);
    })
}

fn main() -> Result<()> {
    loader::check_address_space()?;
    let mut args = std::env::args_os();
    args.next();
    let command = args.next().unwrap_or_default();
    let options = options(args)?;
    match command.to_str() {
        Some("run") => run(options),
        Some("restore") => restore(options),
        _ => bail!("usage: stasis-load run|restore ..."),
    }
}
