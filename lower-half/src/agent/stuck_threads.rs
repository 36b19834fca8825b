//! Threads of this rank that cannot be stopped now, and the stack of one of them.
//!
//! A thread that is in one call of the MPI library for longer than the time between two looks, or that the kernel keeps
//! in one call which waits for a file, makes the rank *held*: it does not reach its targets before the thread goes on.
//! So the other ranks do not stand still for it.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use contract::ARENA_END;
use coordinator::protocol::Activity;
use loader::held::{self, InLibrary, StackStart};
use stack_trace::kernel::{self, KernelWait};
use stack_trace::{read, read_word, Bridge, Registers, Tracer};

use super::current_call;

/// Time between two looks at what the kernel tells, which costs some reads of files for each thread.
const KERNEL_INTERVAL: Duration = Duration::from_secs(1);
/// Looks at the begin of a checkpoint that always include the kernel.
const FIRST_LOOKS: u32 = 2;
/// Threads that are looked at in the kernel.
const MOST_THREADS: usize = 256;
/// Longest time for a stack: the program's files may be on a file system that does not answer.
const STACK_LIMIT: Duration = Duration::from_secs(1);
/// Frames that are shown.
const SHOWN: usize = 24;

/// A thread that cannot be stopped, by its kernel id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StuckThread {
    tid: u32,
    /// Address to which the MPI library will return, if the thread is in it.
    back: Option<usize>,
}

/// What earlier looks of the pending checkpoint have found.
#[derive(Debug, Default)]
pub struct StuckThreads {
    library: Vec<InLibrary>,
    kernel: Vec<(u32, KernelWait)>,
    /// Number of looks, and time of the last one at the kernel.
    looks: u32,
    looked: Option<Instant>,
    found: Option<StuckThread>,
}

impl StuckThreads {
    /// Whether a thread cannot be stopped now. `activity` is what the rank reports.
    pub fn look(&mut self, activity: &Activity) -> bool {
        let library = held::in_library(&self.library);
        // A thread that waits makes such calls as well, and says that it waits.
        let of_files =
            |thread: &&InLibrary| thread.since_last && current_call::is_of_files(thread.back);
        let in_call = library.iter().find(of_files);
        let in_call = in_call.filter(|_| *activity == Activity::Running);
        let in_call = in_call.map(|thread| StuckThread {
            tid: thread.real_tid,
            back: Some(thread.back),
        });
        let in_kernel = self.look_at_kernel(&library);
        self.library = library;
        let now = in_kernel.or(in_call);
        // One that goes on may be held again at once.
        self.looks = match now.is_none() && self.found.is_some() {
            true => 0,
            false => self.looks.saturating_add(1),
        };
        self.found = now;
        self.found.is_some()
    }

    /// A thread that the kernel has kept in one call since the last look at it.
    fn look_at_kernel(&mut self, library: &[InLibrary]) -> Option<StuckThread> {
        let recent = self.looked.is_some_and(|at| at.elapsed() < KERNEL_INTERVAL);
        if recent && self.found.is_none() && self.looks >= FIRST_LOOKS {
            return None;
        }
        self.looked = Some(Instant::now());
        let threads = held::running().into_iter().take(MOST_THREADS);
        let waits: Vec<(u32, KernelWait)> = threads
            .filter_map(|tid| Some((tid, KernelWait::of(tid)?)))
            .collect();
        let blocked = waits.iter().find_map(|(tid, wait)| {
            let back = library.iter().find(|thread| thread.real_tid == *tid);
            let thread = StuckThread {
                tid: *tid,
                back: back.map(|thread| thread.back),
            };
            // Unknown: as at the look before.
            let by_file = wait.waits_for_file();
            let by_file = by_file.unwrap_or(self.found == Some(thread)) && back.is_some();
            let mut earlier = self.kernel.iter();
            let still = earlier.any(|(old, before)| old == tid && wait.since(before));
            (still && (wait.uninterruptible || by_file)).then_some(thread)
        });
        self.kernel = waits;
        blocked
    }

    /// Forgets what was found: a checkpoint begins.
    pub fn begin(&mut self) {
        *self = StuckThreads::default();
    }

    /// The thread that was found by the last look: its call in the kernel, and a line for each frame of its stack.
    pub fn stack(&self) -> Vec<String> {
        let Some(thread) = self.found else {
            return vec![];
        };
        let call = thread.back.map(current_call::called_from);
        let call = call.map_or_else(String::new, |call| format!("{call}, "));
        let doing = format!(
            "thread {}: {call}{}",
            thread.tid,
            kernel::describe(thread.tid)
        );
        let (tell, told) = mpsc::channel();
        // That thread is left behind if it does not come back.
        let spawned = loader::spawn_on_own_fd_table("ckpt-stack", move || {
            let _ = tell.send(frames(thread.tid));
        });
        let frames = spawned
            .ok()
            .and_then(|_| told.recv_timeout(STACK_LIMIT).ok());
        let frames = frames.unwrap_or_else(|| vec!["its stack cannot be read in time".to_owned()]);
        [doing].into_iter().chain(frames).collect()
    }
}

fn frames(tid: u32) -> Vec<String> {
    let Some(start) = held::sample(tid) else {
        return vec![];
    };
    // A thread that takes no signal is in the kernel, which tells two of the registers.
    let registers = match start.registers.map(|all| all.map(|word| word as u64)) {
        Some([ip, sp, bp]) => Some(Registers { ip, sp, bp }),
        None => KernelWait::of(tid)
            .and_then(|wait| wait.registers())
            .map(|[ip, sp]| Registers { ip, sp, bp: 0 }),
    };
    let (Some(registers), Ok(mut tracer)) = (registers, Tracer::new()) else {
        return vec![];
    };
    let frames = tracer.trace(registers, &mut Crossings(start));
    let numbered = frames.iter().take(SHOWN).enumerate();
    numbered.map(|(n, frame)| format!("#{n} {frame}")).collect()
}

/// The frames between the halves: crossings, whose return addresses are on the side stack, and the loader's signal
/// frames.
struct Crossings(StackStart);

impl Bridge for Crossings {
    fn caller(&mut self, frame: &Registers) -> Option<Registers> {
        let Registers { ip, sp, bp } = *frame;
        if ip == held::handler_return() as u64 {
            let saved = held::SAVED_REGISTERS.map(|at| read_word(sp + at as u64));
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
