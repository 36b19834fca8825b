//! New threads and new processes.
//!
//! A thread is created through the lower C library (`threads/lifecycle.rs`). A forked child runs on as an upper half of
//! its own, but is not a rank. A vfork child (also posix_spawn's) shares memory with its suspended parent. It runs on
//! the given stack, or on the parent's own, so the parent's half of this handler continues on a scratch stack with a
//! saved copy of its frame.
//!
//! # Safety
//! Frames are copied whole; a vfork child uses none of the parent's tables (`Thread::vforked`).
#![allow(unsafe_code)]

use super::{fail, Call, Handler, Outcome};
use crate::interpose::descriptors::fd_owner;
use crate::interpose::signals::actions;
use crate::interpose::sud::BY_FILTER;
use crate::interpose::threads::lifecycle::{self, Birth};
use crate::interpose::threads::stop;
use crate::interpose::threads::{self, Thread, IN_DISPATCH};
use crate::interpose::{children, signals, sites, trap_entry};
use crate::load::va_allocator;
use crate::sys::context::{self, AltStack, Context};
use crate::sys::{cpu, syscall, user_copy};
use contract::ARENA_END;
use core::arch::global_asm;
use core::sync::atomic::Ordering;
use nix::errno::Errno;

pub const HANDLERS: &[(i64, Handler)] = &[
    // The loader creates threads, so it knows each from its start; a child is not a rank. Refused with ENOSYS: a child
    // that shares memory and runs at the same time.
    (libc::SYS_clone, clone),
    // Refused with ENOSYS: its arguments lie in memory. C libraries then use `clone`.
    (libc::SYS_clone3, clone3),
    // A child is not a rank: its state is not saved. `vfork` runs the parent on a stack of the loader.
    (libc::SYS_fork, fork),
    (libc::SYS_vfork, vfork),
];

const CLONE_VM: usize = libc::CLONE_VM as usize;
const CLONE_VFORK: usize = libc::CLONE_VFORK as usize;
const CLONE_THREAD: usize = libc::CLONE_THREAD as usize;
const PARENT_SETTID: usize = libc::CLONE_PARENT_SETTID as usize;
const CHILD_SETTID: usize = libc::CLONE_CHILD_SETTID as usize;
const CHILD_CLEARTID: usize = libc::CLONE_CHILD_CLEARTID as usize;
const SETTLS: usize = libc::CLONE_SETTLS as usize;
const EXIT_SIGNAL: usize = 0xff;

global_asm!(
    // vfork(flags, child context, scratch stack top, parent tid, child tid, thread)
    ".globl stasis_vfork",
    "stasis_vfork:",
    "mov rsp, rdx",
    "mov rbx, r9",
    "mov r12, rsi",
    "mov rdx, rcx",
    "mov r10, r8",
    "xor esi, esi",
    "xor r8d, r8d",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "mov rdi, rbx",
    "mov rsi, rax",
    "call {parent}",
    "ud2",
    // The child: trap its system calls too, then continue with its frame.
    "2:",
    "cmp dword ptr [rip + {by_filter}], 0",
    "jne 3f",
    "mov edi, 59",
    "mov esi, 1",
    "movabs rdx, {start}",
    "movabs r10, {len}",
    "xor r8d, r8d",
    "mov eax, 157",
    "syscall",
    "3:",
    "mov dword ptr gs:[{in_dispatch}], 0",
    "mov rsp, r12",
    "mov eax, 15",
    "syscall",
    "ud2",
    parent = sym vfork_parent,
    start = const ARENA_END,
    len = const 0x7fff_ffff_f000usize - ARENA_END,
    in_dispatch = const IN_DISPATCH,
    by_filter = sym BY_FILTER,
);

extern "C" {
    fn stasis_vfork(
        flags: usize,
        child: *mut Context,
        scratch: usize,
        parent_tid: usize,
        child_tid: usize,
        thread: *const Thread,
    ) -> !;
}

/// glibc then uses `clone`, whose arguments are in registers.
fn clone3(_: &mut Call) -> Outcome {
    fail(libc::ENOSYS)
}

fn fork(call: &mut Call) -> Outcome {
    make(call, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0])
}

fn vfork(call: &mut Call) -> Outcome {
    make(
        call,
        [
            CLONE_VM | CLONE_VFORK | libc::SIGCHLD as usize,
            0,
            0,
            0,
            0,
            0,
        ],
    )
}

fn clone(call: &mut Call) -> Outcome {
    let args = call.args();
    make(call, args)
}

fn make(call: &mut Call, args: [usize; 6]) -> Outcome {
    let flags = args[0];
    if flags & CLONE_THREAD != 0 && flags & CLONE_VM != 0 && args[1] != 0 {
        return make_thread(call, args);
    }
    fd_owner::note_shared();
    if flags & CLONE_VM == 0 {
        return make_process(call, args);
    }
    if flags & CLONE_VFORK != 0 && flags & SETTLS == 0 {
        if call.vforked() {
            // The grandparent uses the scratch stack: a true fork has the same effect, but is slower.
            return make_process(
                call,
                [
                    flags & !(CLONE_VM | CLONE_VFORK),
                    args[1],
                    args[2],
                    args[3],
                    0,
                    0,
                ],
            );
        }
        return make_vfork(call, args);
    }
    // A process that shares memory and runs at the same time could not be stopped or saved.
    fail(libc::ENOSYS)
}

fn make_thread(call: &mut Call, args: [usize; 6]) -> Outcome {
    let [flags, stack, parent_tid, child_tid, tls, _] = args;
    let asked = |flag, value| if flags & flag != 0 { value } else { 0 };
    let thread = call.thread;
    // SAFETY: the stack is new, so no other thread uses the memory below its top.
    let frame = unsafe { context::copy_below(stack, call.frame()) };
    frame.regs.rax = 0;
    frame.regs.rsp = stack;
    // A new thread has no alternate stack.
    frame.stack = AltStack {
        base: 0,
        flags: libc::SS_DISABLE,
        pad: 0,
        size: 0,
    };
    let birth = Birth {
        frame,
        upper_fs: if flags & SETTLS != 0 { tls } else { cpu::fs() },
        tid: 0,
        number: thread.number_of_child(),
        set_parent: asked(PARENT_SETTID, parent_tid),
        set_child: asked(CHILD_SETTID, child_tid),
        clear: asked(CHILD_CLEARTID, child_tid),
        bound: thread.bound.load(Ordering::Relaxed),
        parked: false,
    };
    match thread.on_lower(|| lifecycle::create(&birth)) {
        Ok(tid) => {
            thread.has_child();
            Outcome::Value(tid as isize)
        }
        Err(errno) => fail(errno),
    }
}

/// Runs `f` while no table of the loader is being changed, so that the child's copies are consistent.
fn at_rest<R>(f: impl FnOnce() -> R) -> R {
    sites::with_lock(|| threads::with_lock(|| va_allocator::with_lock(|| actions::with_lock(f))))
}

fn make_process(call: &mut Call, args: [usize; 6]) -> Outcome {
    let [flags, stack, parent_tid, child_tid, ..] = args;
    let thread = call.thread;
    let usual = EXIT_SIGNAL | PARENT_SETTID | CHILD_SETTID | CHILD_CLEARTID;
    // The lower C library's own fork leaves its locks in order; it supports only the usual flags.
    let library = flags & !usual == 0 && flags & EXIT_SIGNAL == libc::SIGCHLD as usize;
    let result = thread.on_lower(|| {
        let result = at_rest(|| {
            if library {
                // SAFETY: the child continues only in this handler.
                let pid = unsafe { libc::fork() };
                if pid < 0 {
                    syscall::err(Errno::last_raw())
                } else {
                    pid as isize
                }
            } else {
                // SAFETY: the child is a copy of the process; the frame below switches the stack.
                unsafe {
                    syscall::raw(
                        libc::SYS_clone as usize,
                        [flags, 0, parent_tid, child_tid, 0, 0],
                    )
                }
            }
        });
        if result == 0 {
            thread.vforked.store(false, Ordering::Relaxed);
            lifecycle::after_fork(thread);
        }
        result
    });
    if result == 0 {
        let own = thread.tid();
        if flags & CHILD_SETTID != 0 {
            // As in the kernel, an error of this write has no effect.
            let _ = user_copy::write(child_tid, own);
        }
        thread.clear_tid.store(
            if flags & CHILD_CLEARTID != 0 {
                child_tid
            } else {
                0
            },
            Ordering::Relaxed,
        );
        if stack != 0 {
            call.frame().regs.rsp = stack;
        }
    } else {
        children::note(result);
        if result > 0 && library && flags & PARENT_SETTID != 0 {
            let _ = user_copy::write(parent_tid, result as u32);
        }
    }
    Outcome::Value(result)
}

fn make_vfork(call: &mut Call, args: [usize; 6]) -> Outcome {
    let [flags, stack, parent_tid, child_tid, ..] = args;
    let thread = call.thread;
    let context = call.context;
    // SAFETY: the scratch area belongs to this thread, and the frame is the current one. A given stack is new. On the
    // parent's own stack the child starts from the original frame.
    unsafe {
        let scratch = thread.scratch.get();
        if !(*scratch).saved.keep(&*context) {
            return fail(libc::EAGAIN);
        }
        syscall::block(signals::ALL_HELD);
        thread.vforked.store(true, Ordering::Relaxed);
        thread.frame.store(context as usize, Ordering::Relaxed);
        let child: *mut Context = if stack == 0 {
            context
        } else {
            context::copy_below(stack, &*context)
        };
        (*child).regs.rax = 0;
        if stack != 0 {
            (*child).regs.rsp = stack;
        }
        let top = (&raw const (*scratch).stack) as usize + 8192;
        stasis_vfork(flags, child, top, parent_tid, child_tid, thread)
    }
}

/// The parent's half, on the scratch stack, after the child's execve or exit.
unsafe extern "C" fn vfork_parent(thread: &'static Thread, result: isize) -> ! {
    let context = thread.frame.load(Ordering::Relaxed) as *mut Context;
    // SAFETY: the frame lies below the application's stack pointer, where only the child could write. FS is still the
    // upper one.
    unsafe {
        (*thread.scratch.get()).saved.put_back(context);
        (*context).regs.rax = result as usize;
        thread.vforked.store(false, Ordering::Relaxed);
        children::note(result);
        thread.in_dispatch.store(1, Ordering::Relaxed);
        if thread.stop_wanted() && !thread.in_lower() {
            stop::park_if_wanted(thread, context);
        }
        trap_entry::resume(context)
    }
}
