//! Threads of this rank that cannot be stopped now, and the stack of one of them.
//!
//! A thread that is in one call of the MPI library for longer than the time between two looks, or that the kernel keeps
//! in one call which waits for a file, makes the rank *held*: it does not reach its targets before the thread goes on.
//! So the other ranks do not stand still for it.

use std::time::{Duration, Instant};

use coordinator::protocol::Activity;
use loader::held::{self, InLibrary};
use stack_trace::kernel::{self, KernelWait};

use super::{current_call, thread_stacks};

/// Time between two looks at what the kernel tells, which costs some reads of files for each thread.
const KERNEL_INTERVAL: Duration = Duration::from_secs(1);
/// Looks at the begin of a checkpoint that always include the kernel.
const FIRST_LOOKS: u32 = 2;
/// Threads that are looked at in the kernel.
const MOST_THREADS: usize = 256;

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
        let frames = thread_stacks::one(thread.tid);
        let frames = frames.unwrap_or_else(|| vec!["its stack cannot be read in time".to_owned()]);
        [doing].into_iter().chain(frames).collect()
    }
}
