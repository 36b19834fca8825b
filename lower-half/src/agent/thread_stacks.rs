//! Stacks of the program's threads, taken while the program runs on.
//!
//! A thread's registers and its stack are copied by the stop signal. What is further out than the copy is read while
//! the thread runs on. The outer frames of a thread that has left many functions meanwhile may be lost.

use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use contract::{gate, ARENA_END};
use coordinator::protocol::ThreadStack;
use loader::held::{self, StackStart};
use stack_trace::kernel::KernelWait;
use stack_trace::{read, read_word, Bridge, Place, Registers, Tracer};

/// Longest time for one stack: the program's files may be on a file system that does not answer.
const ONE_LIMIT: Duration = Duration::from_secs(1);
/// Longest time for all stacks.
const ALL_LIMIT: Duration = Duration::from_secs(4);
/// Frames that are shown of one stack.
const SHOWN: usize = 24;
/// Threads whose stacks are taken.
const MOST_THREADS: usize = 256;

/// A line for each frame of a thread, by its kernel id, innermost first; none if the stack cannot be read in time.
pub fn one(tid: u32) -> Option<Vec<String>> {
    on_own_thread(ONE_LIMIT, move || {
        let tracer = Tracer::new().ok()?;
        let places = held::sample(tid).map(|start| places(&tracer, tid, start));
        let places = places.unwrap_or_default();
        let frames = places.into_iter().take(SHOWN);
        let frames = frames.map(|place| tracer.frame(place)).enumerate();
        Some(frames.map(|(n, frame)| format!("#{n} {frame}")).collect())
    })
}

/// The stacks of all threads of the program; none if they cannot be read in time. `lines`: with the lines of the source
/// where these are known.
pub fn all(lines: bool) -> Vec<ThreadStack> {
    let all = on_own_thread(ALL_LIMIT, move || {
        let tracer = Tracer::new().ok()?;
        let mut threads = held::running();
        threads.truncate(MOST_THREADS);
        let stacks = threads.into_iter().filter_map(|tid| {
            let start = held::sample(tid)?;
            let (thread, calls) = (start.tid, start.calls_mpi);
            let frames = of_program(&tracer, &places(&tracer, tid, start), lines);
            Some(ThreadStack {
                thread,
                frames,
                calls,
            })
        });
        Some(stacks.collect())
    });
    all.unwrap_or_default()
}

/// Runs `body` on a thread that is left behind if it does not come back in time.
fn on_own_thread<T: Send + 'static>(
    limit: Duration,
    body: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    let (tell, told) = mpsc::channel();
    let spawned = loader::spawn_on_own_fd_table("ckpt-stack", move || {
        let _ = tell.send(body());
    });
    spawned.ok().and_then(|_| told.recv_timeout(limit).ok())?
}

/// The places of a thread's frames, innermost first.
fn places(tracer: &Tracer, tid: u32, start: StackStart) -> Vec<Place> {
    // A thread that takes no signal is in the kernel, which tells two of the registers.
    let registers = match start.registers.map(|all| all.map(|word| word as u64)) {
        Some([ip, sp, bp]) => Some(Registers { ip, sp, bp }),
        None => KernelWait::of(tid)
            .and_then(|wait| wait.registers())
            .map(|[ip, sp]| Registers { ip, sp, bp: 0 }),
    };
    let places = registers.map(|registers| tracer.places(registers, &mut Crossings(start)));
    places.unwrap_or_default()
}

/// The functions of the program, outermost first, from `main` on if it is there. Of Stasis, which is below the MPI
/// function that the program has called, nothing is told.
fn of_program(tracer: &Tracer, places: &[Place], lines: bool) -> Vec<String> {
    // The upper half is in the object that holds the functions of MPI.
    let upper_half = gate().upper.drain.load(Ordering::Relaxed) as u64;
    let mut functions = vec![];
    for place in places
        .iter()
        .filter(|place| place.address() < ARENA_END as u64)
    {
        let frame = tracer.frame(*place);
        let Some(file) = &frame.file else {
            continue;
        };
        let of_mpi = tracer.in_one_object(place.address(), upper_half);
        let line = lines.then(|| tracer.line(*place)).flatten();
        let line = line.map_or(String::new(), |line| format!(" at {line}"));
        functions.extend(match frame.name() {
            name if of_mpi => name.and_then(mpi_function),
            Some(name) => Some(format!("{name} ({file}){line}")),
            None => Some(format!("{frame}{line}")),
        });
        if frame.name() == Some("main") {
            break;
        }
    }
    functions.reverse();
    functions
}

/// The name of a function of MPI without the letter of its profiling name.
fn mpi_function(name: &str) -> Option<String> {
    let name = name.strip_prefix(['P', 'p']).unwrap_or(name);
    let is_mpi = name.starts_with("MPI_") || name.starts_with("mpi_");
    is_mpi.then(|| name.to_owned())
}

/// The frames between the halves: crossings, whose return addresses are on the side stack, and the loader's signal
/// frames.
struct Crossings(StackStart);

impl Bridge for Crossings {
    fn caller(&mut self, frame: &Registers) -> Option<Registers> {
        let Registers { ip, sp, bp } = *frame;
        if ip == held::handler_return() as u64 {
            let saved = held::SAVED_REGISTERS.map(|at| self.word(sp + at as u64));
            let [Some(ip), Some(sp), Some(bp)] = saved else {
                return None;
            };
            return Some(Registers { ip, sp, bp });
        }
        if !returns_from_crossing(ip) {
            return None;
        }
        let ip = self.0.crossings.pop()? as u64;
        Some(Registers { ip, sp, bp })
    }

    fn knows(&self, ip: u64) -> bool {
        ip == held::handler_return() as u64 || returns_from_crossing(ip)
    }

    fn word(&self, address: u64) -> Option<u64> {
        let copied = self.0.word(address as usize).map(|word| word as u64);
        copied.or_else(|| read_word(address))
    }
}

/// Whether an address follows the call of a crossing: by the instructions there (`upper-half/src/crossing/switch.rs`,
/// `loader/src/load/gate.rs`).
fn returns_from_crossing(ip: u64) -> bool {
    /// `mov r11, gs:[16]; wrfsbase r11`
    const FAST: [u8; 14] = [
        0x65, 0x4c, 0x8b, 0x1c, 0x25, 0x10, 0x00, 0x00, 0x00, 0xf3, 0x49, 0x0f, 0xae, 0xd3,
    ];
    /// `push rax; push rdx; mov r11, [rip + distance]`
    const SLOW: [u8; 5] = [0x50, 0x52, 0x4c, 0x8b, 0x1d];
    let mut code = [0; FAST.len()];
    if !read(ip, &mut code) {
        return false;
    }
    match ip < ARENA_END as u64 {
        true => code == FAST,
        false => code.starts_with(&SLOW),
    }
}
