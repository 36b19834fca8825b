//! Life of an upper-half thread: it is created through the lower C library, moves to the upper stack and FS, and
//! returns to the lower stack to end.
//!
//! # Safety
//! As in `mod.rs`: slots are never unmapped. A frame that a thread enters was copied for it or comes from the image.
#![allow(unsafe_code)]

use super::stop;
use super::{
    all, allocate, find, virtual_pid, Thread, ALIVE, ENDED, FORKED, FREE, MAIN, PARKED, REAL_PID,
    RUNNING, VIRTUAL_PID,
};
use crate::interpose::signals::checkpoint_request;
use crate::interpose::{hooks, posix_timers, signals, sud};
use crate::sys::context::Context;
use crate::sys::{cpu, syscall, user_copy};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

global_asm!(
    // enter_upper(&lower_sp, context): leaves the lower stack; leave_upper returns to it.
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

/// Virtual id for a thread with this kernel id: the same, unless a restarted thread has it.
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
    let Some(thread) = allocate(tid, 0, upper_fs, hooks::on_leaving()) else {
        unreachable!("the table was empty");
    };
    thread.adopt_caller();
    thread.state.store(RUNNING, Ordering::Release);
    MAIN.store(thread as *const Thread as usize, Ordering::Release);
    thread
}

/// Parameters of a new thread.
pub struct Birth {
    /// Initial frame.
    pub frame: *mut Context,
    /// FS base.
    pub upper_fs: usize,
    /// Thread id, if known (restart); else 0.
    pub tid: u32,
    /// Its number in every run of the program.
    pub number: u32,
    /// Address in the creator's memory for the id, written before the thread runs (0: none).
    pub set_parent: usize,
    /// Address in the new thread's memory for its id, written before it runs (0: none).
    pub set_child: usize,
    /// Address to clear at thread exit (0: none).
    pub clear: usize,
    /// Whether it has a CPU affinity.
    pub bound: bool,
    /// Whether it starts parked, until it is resumed (restart).
    pub parked: bool,
}

/// Creates a thread through the lower C library; returns its id, or the error number. Call it with the lower FS and all
/// signals blocked.
pub fn create(birth: &Birth) -> Result<u32, i32> {
    const START_STACK: usize = 512 * 1024;
    let thread = allocate(birth.tid, birth.number, birth.upper_fs, hooks::on_leaving())
        .ok_or(libc::EAGAIN)?;
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
        syscall::futex_wait(&start.ready, 0, 0);
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
        // As in the kernel, an error has no effect.
        let _ = user_copy::write(address, tid);
    }
}

/// Start function of every thread but the initial one, on the lower stack.
extern "C" fn begin(start: *mut libc::c_void) -> *mut libc::c_void {
    syscall::block(signals::ALL_HELD);
    // SAFETY: `create` waits for `ready`, so its local is alive until then.
    let start = unsafe { &*start.cast::<Start>() };
    let thread = start.thread;
    thread.adopt_caller();
    if start.birth.tid == 0 {
        let tid = choose_tid(syscall::gettid());
        thread.set_tid(tid);
    }
    write_tid(start.birth.set_parent, thread.tid());
    write_tid(start.birth.set_child, thread.tid());
    start.tid.store(thread.tid(), Ordering::Relaxed);
    let parked = start.birth.parked;
    if parked {
        // SAFETY: the frame was copied for this thread or comes from the image, so it is valid.
        syscall::block(unsafe { (*start.birth.frame).mask } & !signals::never_blocked());
    }
    thread
        .state
        .store(if parked { PARKED } else { RUNNING }, Ordering::Release);
    // The creator's stack, where `start` lives, may be gone right after this store. From here on only the address of
    // the word is passed to the kernel, which is harmless.
    let ready = &raw const start.ready;
    start.ready.store(1, Ordering::Release);
    syscall::futex_wake(ready);
    let frame = thread.frame.load(Ordering::Relaxed) as *mut Context;
    if parked {
        stop::wait_parked(thread);
    }
    // SAFETY: the frame was copied for this thread or comes from the image; signals are blocked until the frame's mask
    // is set; after the return this is lower code again.
    unsafe {
        (*frame).mask &= !signals::never_blocked();
        cpu::set_fs(thread.upper_fs());
        stasis_enter_upper(&thread.lower_sp, frame);
    }
    hooks::thread_ends(thread.number().0);
    end_of(thread);
    // SAFETY: the thread no longer runs upper-half code, so nothing reads its GS block.
    unsafe { cpu::set_gs(0) };
    sud::disarm();
    thread.state.store(FREE, Ordering::Release);
    if ALIVE.fetch_sub(1, Ordering::AcqRel) == 1 {
        hooks::exit_process_from_lower(0);
    }
    core::ptr::null_mut()
}

/// Actions of the kernel at a thread's end: robust futexes, then the address to clear. Each wakes one waiter, which may
/// be in another process.
fn end_of(thread: &Thread) {
    const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
    const FUTEX_WAITERS: u32 = 0x8000_0000;
    const FUTEX_TID_MASK: u32 = 0x3fff_ffff;
    const LIMIT: usize = 2048;
    let died = |entry: usize, offset: isize| {
        let address = entry.wrapping_add_signed(offset);
        if let Ok(word) = user_copy::word(address) {
            let value = word.load(Ordering::Acquire);
            if value & FUTEX_TID_MASK == thread.tid() {
                let freed = (value & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
                word.store(freed, Ordering::Release);
                syscall::futex_wake_shared(word, 1);
            }
        }
    };
    let head = thread.robust.load(Ordering::Relaxed);
    // Next entry, offset from an entry to its futex, the entry being locked or unlocked. The lowest
    // bit of an entry's address tells its kind.
    if let Ok([first, offset, pending]) = user_copy::read::<[usize; 3]>(head) {
        let (mut entry, offset, pending) = (first & !1, offset as isize, pending & !1);
        for _ in 0..LIMIT {
            if entry == 0 || entry == head {
                break;
            }
            let next = user_copy::read::<usize>(entry);
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
    if let Ok(word) = user_copy::word(thread.clear_tid.load(Ordering::Relaxed)) {
        word.store(0, Ordering::Release);
        syscall::futex_wake_shared(word, 1);
    }
}

/// The `exit` system call of one thread.
pub fn exit(thread: &'static Thread, status: i32) -> ! {
    syscall::block(signals::ALL_HELD);
    let lower_sp = thread.lower_sp.load(Ordering::Relaxed);
    if lower_sp == 0 {
        // The kernel thread of the initial thread (or of the one that forked this process) stays, because the process
        // must live until the last thread ends.
        thread.on_lower(|| hooks::thread_ends(thread.number().0));
        end_of(thread);
        thread.state.store(ENDED, Ordering::Release);
        if ALIVE.fetch_sub(1, Ordering::AcqRel) == 1 {
            hooks::exit_process(thread, status);
        }
        loop {
            syscall::futex_wait(&thread.state, ENDED, 0);
        }
    }
    // SAFETY: `begin` waits on the lower stack at this stack pointer, and the lower FS is set.
    unsafe {
        cpu::set_fs(thread.lower_fs());
        stasis_leave_upper(lower_sp)
    }
}

/// Makes the calling thread the only one, in a forked child.
pub fn after_fork(thread: &'static Thread) {
    for other in all().filter(|t| !core::ptr::eq(*t, thread)) {
        other.state.store(FREE, Ordering::Relaxed);
    }
    ALIVE.store(1, Ordering::Relaxed);
    MAIN.store(thread as *const Thread as usize, Ordering::Relaxed);
    FORKED.store(true, Ordering::Relaxed);
    let pid = syscall::getpid();
    user_copy::note_process();
    REAL_PID.store(pid, Ordering::Relaxed);
    VIRTUAL_PID.store(pid, Ordering::Relaxed);
    thread.real_tid.store(pid, Ordering::Relaxed);
    thread.lower_sp.store(0, Ordering::Relaxed);
    thread.set_tid(pid);
    stop::after_fork(thread);
    checkpoint_request::after_fork();
    posix_timers::after_fork();
    sud::arm();
}
