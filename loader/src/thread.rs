//! The threads of the upper half.
//!
//! Each has a [`Thread`] in lower-half memory, to which its GS base points. It starts with the
//! `ThreadBlock` that both halves know. Every thread but the initial one is a thread of the lower
//! C library that has moved to the upper stack and FS, so that it has a valid TLS in both.
//!
//! # Safety
//! Slots are never unmapped, so references to them are always valid. Fields that other threads
//! read are atomics; the rest are touched by their own thread only, or by the agent while that
//! thread is parked. `block` is accessed through raw pointers or atomics because assembly and
//! handlers on the same thread change it.
#![allow(unsafe_code)]

use crate::context::{self, Context};
use crate::lock::Spin;
use crate::{asked, cpu, gate, hooks, raw, signals, stop, sud, syscalls, user};
use contract::{ThreadBlock, NO_CALL_YET, STOP_WANTED};
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The slot is not in use.
pub const FREE: u32 = 0;
/// Being created; not yet in upper-half code.
pub const STARTING: u32 = 1;
/// Runs.
pub const RUNNING: u32 = 2;
/// Stopped; its frame is its state.
pub const PARKED: u32 = 3;
/// Stopped, and to run a job (see `stop.rs`).
pub const JOB: u32 = 4;
/// The initial thread after it has ended: it waits for the process to end.
pub const ENDED: u32 = 5;

/// Threads that an upper half can have at a time.
const MAX_THREADS: usize = 2048;

/// A thread of the upper half.
#[repr(C, align(64))]
pub struct Thread {
    /// Shared with the upper half.
    pub block: UnsafeCell<ThreadBlock>,
    /// Non-zero while the handler of trapped system calls runs.
    pub in_dispatch: AtomicU32,
    /// Non-zero when a system call must not be started: something waits for the handler to end.
    pub attention: AtomicU32,
    /// One of the states above; also the futex on which a parked thread waits.
    pub state: AtomicU32,
    /// Kernel thread id.
    pub real_tid: AtomicU32,
    /// The frame to resume (valid when PARKED or STARTING).
    pub frame: AtomicUsize,
    /// Address to clear and wake at the thread's end.
    pub clear_tid: AtomicUsize,
    /// Head of the robust futex list.
    pub robust: AtomicUsize,
    /// The frame was made by STOP_SYSCALL.
    pub by_request: AtomicBool,
    /// This block is being used by a vfork child.
    pub vforked: AtomicBool,
    /// The application has bound it to processors.
    pub bound: AtomicBool,
    /// The number of the call being served, marked if it was interrupted (see `interrupted.rs`).
    pub call: AtomicUsize,
    /// When the call being served stops waiting, or 0 (see `interrupted.rs`).
    pub deadline: AtomicU64,
    /// Stack pointer in the lower half at which the thread's start function waits.
    lower_sp: AtomicUsize,
    /// Used for vfork; see `syscalls/clone.rs`.
    pub scratch: UnsafeCell<Scratch>,
}

/// Room for the parent's half of a vfork.
#[repr(C, align(64))]
pub struct Scratch {
    /// Stack for the time when the child runs on the thread's own.
    pub stack: [u8; 8192],
    /// The frame, which the child may overwrite.
    pub saved: context::Saved,
}

/// Offset of `in_dispatch` from GS.
pub const IN_DISPATCH: usize = offset_of!(Thread, in_dispatch);
/// Offset of `attention` from GS.
pub const ATTENTION: usize = offset_of!(Thread, attention);

// SAFETY: see the module's head.
unsafe impl Sync for Thread {}

struct Registry {
    slots: *mut Thread,
    /// One past the highest slot ever used.
    used: usize,
}

// SAFETY: the pointer is to a mapping that is never removed.
unsafe impl Send for Registry {}

static REGISTRY: Spin<Registry> = Spin::new(Registry {
    slots: core::ptr::null_mut(),
    used: 0,
});
/// Upper threads that have not ended.
static ALIVE: AtomicU32 = AtomicU32::new(0);
static MAIN: AtomicUsize = AtomicUsize::new(0);
static SLOTS: AtomicUsize = AtomicUsize::new(0);
static USED: AtomicUsize = AtomicUsize::new(0);
/// The process id that the application knows.
static VIRTUAL_PID: AtomicU32 = AtomicU32::new(0);
static REAL_PID: AtomicU32 = AtomicU32::new(0);
/// Set in a forked child: it is no rank and has no lower half to protect.
static FORKED: AtomicBool = AtomicBool::new(false);

global_asm!(
    // enter_upper(&lower_sp, context): leaves the lower stack; leave_upper comes back to it.
    ".globl stasis_enter_upper",
    "stasis_enter_upper:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rdi], rsp",
    "mov rsp, rsi",
    "mov eax, 15",
    "syscall",
    "ud2",
    ".globl stasis_leave_upper",
    "stasis_leave_upper:",
    "mov rsp, rdi",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
);

extern "C" {
    fn stasis_enter_upper(lower_sp: *const AtomicUsize, context: *const Context);
    fn stasis_leave_upper(lower_sp: usize) -> !;
}

impl Thread {
    /// The calling thread, which is of the upper half; for code that only such threads reach.
    #[inline(always)]
    pub fn current() -> Option<&'static Thread> {
        let gs = cpu::gs();
        // SAFETY: GS is 0 or the address of a slot (see cpu.rs).
        (gs != 0).then(|| unsafe { &*(gs as *const Thread) })
    }

    /// The thread that a signal has interrupted, if it is of the upper half. Threads that the MPI
    /// library makes inherit their creator's GS, so here the kernel's id has to agree.
    pub fn interrupted() -> Option<&'static Thread> {
        let is_own = |t: &&Thread| {
            t.real_tid.load(Ordering::Relaxed) == raw::gettid() || t.vforked.load(Ordering::Relaxed)
        };
        Thread::current().filter(is_own)
    }

    fn block(&self) -> *mut ThreadBlock {
        self.block.get()
    }

    /// Whether the thread runs a wrapper or has crossed to the lower half.
    pub fn in_lower(&self) -> bool {
        let block = self.block();
        // SAFETY: plain words of a live slot; see the module's head.
        unsafe {
            self.wraps()
                || (&raw const (*block).side_top).read_volatile()
                    != (&raw const (*block).side) as usize
        }
    }

    /// Whether the thread runs a wrapper.
    pub fn wraps(&self) -> bool {
        self.in_wrapper() & !NO_CALL_YET != 0
    }

    /// The word that tells of wrappers, as it is saved.
    pub fn in_wrapper(&self) -> u32 {
        // SAFETY: a plain word of a live slot.
        unsafe { (&raw const (*self.block()).in_wrapper).read_volatile() }
    }

    /// Used at restart: what was saved.
    pub fn set_in_wrapper(&self, depth: u32) {
        // SAFETY: a plain word of a live slot whose thread does not run yet.
        unsafe { (&raw mut (*self.block()).in_wrapper).write_volatile(depth) }
    }

    /// Whether the thread is asked to stop at the next chance.
    pub fn stop_wanted(&self) -> bool {
        self.on_leaving().load(Ordering::Relaxed) & STOP_WANTED != 0
    }

    /// See `stop_wanted`.
    pub fn want_stop(&self, wanted: bool) {
        match wanted {
            true => self.on_leaving().fetch_or(STOP_WANTED, Ordering::Relaxed),
            false => self.on_leaving().fetch_and(!STOP_WANTED, Ordering::Relaxed),
        };
    }

    /// What the thread has to do on leaving a wrapper.
    fn on_leaving(&self) -> &AtomicU32 {
        // SAFETY: an aligned word of a live slot, which wrappers read and change in one instruction.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.block()).on_leaving) }
    }

    /// FS base of the lower half.
    pub fn lower_fs(&self) -> usize {
        // SAFETY: a plain word of a live slot.
        unsafe { (&raw const (*self.block()).lower_fs).read() }
    }

    /// FS base of the upper half.
    pub fn upper_fs(&self) -> usize {
        // SAFETY: a plain word of a live slot.
        unsafe { (&raw const (*self.block()).upper_fs).read() }
    }

    /// Notes the FS base of the upper half.
    pub fn set_upper_fs(&self, value: usize) {
        // SAFETY: a plain word of a live slot.
        unsafe { (&raw mut (*self.block()).upper_fs).write(value) }
    }

    /// Stack pointer of the vDSO call that the thread is in, or 0.
    pub fn vdso_sp(&self) -> usize {
        // SAFETY: a plain word of a live slot.
        unsafe { (&raw const (*self.block()).vdso_sp).read_volatile() }
    }

    /// The thread has left its vDSO call.
    pub fn forget_vdso_call(&self) {
        // SAFETY: a plain word of a live slot.
        unsafe { (&raw mut (*self.block()).vdso_sp).write_volatile(0) }
    }

    /// Thread id as the application knows it.
    pub fn tid(&self) -> u32 {
        // SAFETY: a plain word of a live slot.
        unsafe { (&raw const (*self.block()).tid).read() }
    }

    /// Whether this is the initial thread.
    pub fn is_main(&self) -> bool {
        MAIN.load(Ordering::Relaxed) == self as *const Thread as usize
    }

    /// Runs `f` with the lower half's FS and all signals held back: for the lower C library.
    pub fn on_lower<R>(&self, f: impl FnOnce() -> R) -> R {
        let mask = raw::block(signals::ALL_HELD);
        let upper = cpu::fs();
        // SAFETY: the closure is lower-half code; no signal handler can see the swap.
        unsafe { cpu::set_fs(self.lower_fs()) };
        let result = f();
        // SAFETY: back to what the interrupted code had.
        unsafe { cpu::set_fs(upper) };
        raw::set_mask(mask);
        result
    }

    /// Fills a fresh slot's block.
    fn initialise(&self, tid: u32, upper_fs: usize) {
        let block = self.block();
        // SAFETY: the slot is ours alone until it is published.
        unsafe {
            block.write(ThreadBlock {
                this: block as usize,
                lower_fs: 0,
                upper_fs,
                side_top: (&raw const (*block).side) as usize,
                in_wrapper: NO_CALL_YET,
                on_leaving: hooks::on_leaving(),
                fsgsbase: u32::from(cpu::fsgsbase() && !gate::tells_crossings()),
                tid,
                vdso_sp: 0,
                side: [0; contract::SIDE_STACK_DEPTH],
            });
        }
        for word in [&self.in_dispatch, &self.attention, &self.real_tid] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [
            &self.frame,
            &self.clear_tid,
            &self.robust,
            &self.lower_sp,
            &self.call,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        for flag in [&self.by_request, &self.vforked, &self.bound] {
            flag.store(false, Ordering::Relaxed);
        }
    }

    /// Makes the calling lower thread this upper thread: GS, FS values, system calls trapped.
    fn adopt_caller(&self) {
        // SAFETY: the caller's own block; GS belongs to the loader.
        unsafe {
            (&raw mut (*self.block()).lower_fs).write(cpu::fs());
            cpu::set_gs(self as *const Thread as usize);
        }
        self.real_tid.store(raw::gettid(), Ordering::Release);
        sud::arm();
    }
}

/// Maps the slots.
pub fn start() -> Result<(), crate::error::LoadError> {
    let mut registry = REGISTRY.lock();
    if !registry.slots.is_null() {
        return Ok(());
    }
    let bytes = MAX_THREADS * core::mem::size_of::<Thread>();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping where the kernel likes; zero bytes are FREE slots.
    let result = unsafe {
        raw::syscall(
            libc::SYS_mmap as usize,
            [0, bytes, prot as usize, flags as usize, usize::MAX, 0],
        )
    };
    if raw::is_err(result) {
        return Err(crate::error::LoadError::System {
            what: "mmap of the thread table",
            source: raw::io_error(result),
        });
    }
    registry.slots = result as *mut Thread;
    SLOTS.store(result as usize, Ordering::Release);
    REAL_PID.store(raw::getpid(), Ordering::Relaxed);
    VIRTUAL_PID.store(raw::getpid(), Ordering::Relaxed);
    Ok(())
}

/// All slots that were ever used (look at `state`).
pub fn all() -> impl Iterator<Item = &'static Thread> {
    let slots = SLOTS.load(Ordering::Acquire) as *const Thread;
    let used = USED.load(Ordering::Acquire);
    // SAFETY: slots below `used` are initialised and never unmapped.
    (0..used).map(move |i| unsafe { &*slots.add(i) })
}

/// The initial thread.
pub fn main() -> Option<&'static Thread> {
    let address = MAIN.load(Ordering::Acquire);
    // SAFETY: 0 or a slot.
    (address != 0).then(|| unsafe { &*(address as *const Thread) })
}

/// The process id that the application knows.
pub fn virtual_pid() -> u32 {
    VIRTUAL_PID.load(Ordering::Relaxed)
}

/// The process id that the kernel knows.
pub fn real_pid() -> u32 {
    REAL_PID.load(Ordering::Relaxed)
}

/// Whether the caller is not in a child that the lower half's libraries have made.
pub fn is_own_process() -> bool {
    // 0 before there are threads of the upper half.
    [0, raw::getpid()].contains(&real_pid())
}

/// Used at restart.
pub fn set_virtual_pid(pid: u32) {
    VIRTUAL_PID.store(pid, Ordering::Relaxed);
}

/// Whether this process was forked from a rank.
pub fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Kernel thread id for one that the application knows (its own if it is none of ours).
pub fn real_tid(tid: u32) -> u32 {
    find(tid).map_or(tid, |t| t.real_tid.load(Ordering::Relaxed))
}

/// Kernel process or thread id for one that the application knows.
pub fn real_id(id: u32) -> u32 {
    if id == virtual_pid() {
        real_pid()
    } else {
        real_tid(id)
    }
}

/// The thread that the application knows by this id.
pub fn find(tid: u32) -> Option<&'static Thread> {
    all().find(|t| tid != 0 && t.state.load(Ordering::Acquire) != FREE && t.tid() == tid)
}

/// Takes a slot. `tid` 0: to be chosen when the thread knows its own.
fn allocate(tid: u32, upper_fs: usize) -> Option<&'static Thread> {
    let mut registry = REGISTRY.lock();
    let slots = registry.slots;
    let index = (0..registry.used)
        // SAFETY: slots below `used` are initialised.
        .find(|&i| unsafe { (*slots.add(i)).state.load(Ordering::Acquire) == FREE })
        .unwrap_or(registry.used);
    if index >= MAX_THREADS {
        return None;
    }
    // SAFETY: zero bytes are a valid Thread.
    let thread = unsafe { &*slots.add(index) };
    thread.initialise(tid, upper_fs);
    thread.state.store(STARTING, Ordering::Release);
    if index == registry.used {
        registry.used += 1;
        USED.store(registry.used, Ordering::Release);
    }
    ALIVE.fetch_add(1, Ordering::AcqRel);
    Some(thread)
}

/// A virtual id for a thread with this kernel id: the same, unless a restarted thread has it.
fn choose_tid(real: u32) -> u32 {
    const ABOVE_EVERY_PID: u32 = 1 << 22;
    let mut tid = real;
    while find(tid).is_some() || tid == virtual_pid() {
        tid += ABOVE_EVERY_PID;
    }
    tid
}

/// Makes the calling thread the upper half's initial thread. Its FS stays the lower one for now.
pub fn adopt_main(tid: u32, upper_fs: usize) -> &'static Thread {
    let Some(thread) = allocate(tid, upper_fs) else {
        unreachable!("the table was empty");
    };
    thread.adopt_caller();
    thread.state.store(RUNNING, Ordering::Release);
    MAIN.store(thread as *const Thread as usize, Ordering::Release);
    thread
}

/// What a thread is created with.
pub struct Birth {
    /// Its first frame.
    pub frame: *mut Context,
    /// Its FS base.
    pub upper_fs: usize,
    /// Its id, where that is known (restart); else 0.
    pub tid: u32,
    /// Where to write the id before it runs (0: nowhere).
    pub set_parent: usize,
    /// Likewise.
    pub set_child: usize,
    /// Where to clear it in the end (0: nowhere).
    pub clear: usize,
    /// It is bound to processors.
    pub bound: bool,
    /// It waits like a stopped thread until it is resumed (restart).
    pub parked: bool,
}

/// Creates a thread through the lower C library; returns its id, or the error number.
/// To be called with the lower FS and all signals held.
pub fn create(birth: &Birth) -> Result<u32, i32> {
    const START_STACK: usize = 512 * 1024;
    let thread = allocate(birth.tid, birth.upper_fs).ok_or(libc::EAGAIN)?;
    thread.frame.store(birth.frame as usize, Ordering::Relaxed);
    thread.clear_tid.store(birth.clear, Ordering::Relaxed);
    thread.bound.store(birth.bound, Ordering::Relaxed);
    let mut start = Start {
        thread,
        birth,
        tid: AtomicU32::new(0),
        ready: AtomicU32::new(0),
    };
    // SAFETY: the attributes are initialised before use; `start` outlives the new thread's use of
    // it, which ends with `ready`.
    let result = unsafe {
        let mut attributes = core::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        let mut id = core::mem::MaybeUninit::<libc::pthread_t>::uninit();
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), START_STACK);
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
        let result = libc::pthread_create(
            id.as_mut_ptr(),
            attributes.as_ptr(),
            begin,
            (&raw mut start).cast(),
        );
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        result
    };
    if result != 0 {
        ALIVE.fetch_sub(1, Ordering::AcqRel);
        thread.state.store(FREE, Ordering::Release);
        return Err(result);
    }
    while start.ready.load(Ordering::Acquire) == 0 {
        raw::futex_wait(&start.ready, 0, 0);
    }
    Ok(start.tid.load(Ordering::Relaxed))
}

struct Start<'a> {
    thread: &'static Thread,
    birth: &'a Birth,
    tid: AtomicU32,
    ready: AtomicU32,
}

/// Writes a thread id into upper-half memory.
fn write_tid(address: usize, tid: u32) {
    if address != 0 {
        // As in the kernel: whether it can be written changes nothing.
        let _ = user::write(address, tid);
    }
}

/// Start function of every thread but the initial one, on the lower stack.
extern "C" fn begin(start: *mut libc::c_void) -> *mut libc::c_void {
    raw::block(signals::ALL_HELD);
    // SAFETY: `create` waits for `ready`, so its local is alive until then.
    let start = unsafe { &*start.cast::<Start>() };
    let thread = start.thread;
    thread.adopt_caller();
    if start.birth.tid == 0 {
        let tid = choose_tid(raw::gettid());
        // SAFETY: our own block.
        unsafe { (&raw mut (*thread.block()).tid).write(tid) };
    }
    write_tid(start.birth.set_parent, thread.tid());
    write_tid(start.birth.set_child, thread.tid());
    start.tid.store(thread.tid(), Ordering::Relaxed);
    let parked = start.birth.parked;
    if parked {
        // SAFETY: a frame from the image.
        raw::block(unsafe { (*start.birth.frame).mask } & !signals::NEVER_BLOCKED);
    }
    thread
        .state
        .store(if parked { PARKED } else { RUNNING }, Ordering::Release);
    // The creator's stack, where `start` lives, may be gone right after this store: the word is
    // only named to the kernel from here on, which is harmless.
    let ready = &raw const start.ready;
    start.ready.store(1, Ordering::Release);
    // SAFETY: waking touches no memory.
    raw::futex_wake(unsafe { &*ready });
    let frame = thread.frame.load(Ordering::Relaxed) as *mut Context;
    if parked {
        stop::wait_parked(thread);
    }
    // SAFETY: the frame was copied for this thread or comes from the image; signals are held
    // until the frame's mask is set; after coming back we are in lower code again.
    unsafe {
        (*frame).mask &= !signals::NEVER_BLOCKED;
        cpu::set_fs(thread.upper_fs());
        stasis_enter_upper(&thread.lower_sp, frame);
    }
    end_of(thread);
    // SAFETY: the thread is of the upper half no longer.
    unsafe { cpu::set_gs(0) };
    sud::disarm();
    thread.state.store(FREE, Ordering::Release);
    if ALIVE.fetch_sub(1, Ordering::AcqRel) == 1 {
        crate::hooks::exit_process_from_lower(0);
    }
    core::ptr::null_mut()
}

/// What the kernel does at a thread's end: robust futexes, then the address to clear.
fn end_of(thread: &Thread) {
    const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
    const FUTEX_WAITERS: u32 = 0x8000_0000;
    const FUTEX_TID_MASK: u32 = 0x3fff_ffff;
    const LIMIT: usize = 2048;
    let died = |entry: usize, offset: isize| {
        let address = entry.wrapping_add_signed(offset);
        if let Ok(word) = user::word(address) {
            let value = word.load(Ordering::Acquire);
            if value & FUTEX_TID_MASK == thread.tid() {
                let freed = (value & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
                word.store(freed, Ordering::Release);
                wake_shared(word);
            }
        }
    };
    let head = thread.robust.load(Ordering::Relaxed);
    // Next entry, offset from an entry to its futex, the entry being locked or unlocked. The lowest
    // bit of an entry's address tells its kind.
    if let Ok([first, offset, pending]) = user::read::<[usize; 3]>(head) {
        let (mut entry, offset, pending) = (first & !1, offset as isize, pending & !1);
        for _ in 0..LIMIT {
            if entry == 0 || entry == head {
                break;
            }
            let next = user::read::<usize>(entry);
            if entry != pending {
                died(entry, offset);
            }
            match next {
                Ok(next) => entry = next & !1,
                Err(_) => break,
            }
        }
        if pending != 0 {
            died(pending, offset);
        }
    }
    if let Ok(word) = user::word(thread.clear_tid.load(Ordering::Relaxed)) {
        word.store(0, Ordering::Release);
        wake_shared(word);
    }
}

/// Wakes one waiter as the kernel does it at a thread's end (not process-private).
fn wake_shared(word: &AtomicU32) {
    let args = [
        word.as_ptr() as usize,
        libc::FUTEX_WAKE as usize,
        1,
        0,
        0,
        0,
    ];
    // SAFETY: waking touches no memory.
    unsafe { raw::syscall(libc::SYS_futex as usize, args) };
}

/// The `exit` system call of one thread.
pub fn exit(thread: &'static Thread, status: i32) -> ! {
    raw::block(signals::ALL_HELD);
    let lower_sp = thread.lower_sp.load(Ordering::Relaxed);
    if lower_sp == 0 {
        // The initial thread (or the one that forked this process): the kernel thread stays,
        // because the process must live until the last thread ends.
        end_of(thread);
        thread.state.store(ENDED, Ordering::Release);
        if ALIVE.fetch_sub(1, Ordering::AcqRel) == 1 {
            crate::hooks::exit_process(thread, status);
        }
        loop {
            raw::futex_wait(&thread.state, ENDED, 0);
        }
    }
    // SAFETY: back on the lower stack with the lower FS, in `begin`, which is waiting there.
    unsafe {
        cpu::set_fs(thread.lower_fs());
        stasis_leave_upper(lower_sp)
    }
}

/// In a forked child: the calling thread is the only one left.
pub fn after_fork(thread: &'static Thread) {
    for other in all().filter(|t| !core::ptr::eq(*t, thread)) {
        other.state.store(FREE, Ordering::Relaxed);
    }
    ALIVE.store(1, Ordering::Relaxed);
    MAIN.store(thread as *const Thread as usize, Ordering::Relaxed);
    FORKED.store(true, Ordering::Relaxed);
    let pid = raw::getpid();
    REAL_PID.store(pid, Ordering::Relaxed);
    VIRTUAL_PID.store(pid, Ordering::Relaxed);
    thread.real_tid.store(pid, Ordering::Relaxed);
    thread.lower_sp.store(0, Ordering::Relaxed);
    // SAFETY: our own block.
    unsafe { (&raw mut (*thread.block()).tid).write(pid) };
    stop::after_fork(thread);
    asked::after_fork();
    syscalls::timers::after_fork();
    sud::arm();
}

/// Holds the registry across `f` (a fork).
pub fn with_lock<R>(f: impl FnOnce() -> R) -> R {
    let _guard = REGISTRY.lock();
    f()
}
