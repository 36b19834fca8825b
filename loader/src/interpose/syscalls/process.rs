//! Process and thread ids, exit, and settings that belong to the loader.

use super::unsupported;
use super::{fail, Call, Handler, Outcome};
use crate::interpose::signals::STOP_SIGNAL;
use crate::interpose::threads::{lifecycle, stop};
use crate::interpose::{hooks, memory_limits, threads};
use crate::sys::{cpu, syscall, user_copy};
use core::sync::atomic::{AtomicU32, Ordering};

pub const HANDLERS: &[(i64, Handler)] = &[
    // Ids are those that the application had before the first restart.
    (libc::SYS_getpid, getpid),
    (libc::SYS_gettid, gettid),
    // Ids are translated to the kernel's. Refused with EINVAL: the signal that stops threads for a checkpoint.
    (libc::SYS_kill, kill),
    (libc::SYS_tkill, kill),
    (libc::SYS_tgkill, tgkill),
    (libc::SYS_rt_sigqueueinfo, kill),
    (libc::SYS_rt_tgsigqueueinfo, tgkill),
    // The kernel's record of a thread belongs to the lower half's C library; the loader keeps the application's.
    (libc::SYS_set_tid_address, set_tid_address),
    (libc::SYS_set_robust_list, set_robust_list),
    (libc::SYS_get_robust_list, get_robust_list),
    // Refused with ENOSYS: the kernel has one registration for each thread, which the lower half's C library uses.
    (libc::SYS_rseq, rseq),
    // FS is kept for each half; GS is the loader's, and setting it is refused with EPERM.
    (libc::SYS_arch_prctl, arch_prctl),
    // Passed, but for system call dispatch (EINVAL) and PR_SET_MM (EPERM), which are the loader's. After an option
    // whose effect no image holds checkpoints are refused.
    (libc::SYS_prctl, prctl),
    // The thread or the process ends through the lower half, so that its libraries run their exit code.
    (libc::SYS_exit, exit),
    (libc::SYS_exit_group, exit_group),
    // Registrations are recorded, and made again at a restart.
    (libc::SYS_membarrier, membarrier),
    // The thread id is translated to the kernel's. The loader records that the application has set the affinity.
    (libc::SYS_sched_setaffinity, sched_setaffinity),
    // The process or thread id in the first argument is translated to the kernel's.
    (libc::SYS_sched_getaffinity, id_first),
    (libc::SYS_sched_setscheduler, id_first),
    (libc::SYS_sched_getscheduler, id_first),
    (libc::SYS_sched_setparam, id_first),
    (libc::SYS_sched_getparam, id_first),
    (libc::SYS_sched_setattr, id_first),
    (libc::SYS_sched_getattr, id_first),
    (libc::SYS_sched_rr_get_interval, id_first),
    (libc::SYS_getpgid, id_first),
    (libc::SYS_setpgid, id_first),
    (libc::SYS_getsid, id_first),
    (libc::SYS_process_vm_readv, id_first),
    (libc::SYS_process_vm_writev, id_first),
    (libc::SYS_migrate_pages, id_first),
    (libc::SYS_move_pages, id_first),
    // The process id is translated to the kernel's. A limit of memory is the application's, from which the kernel's can
    // differ after a restart.
    (libc::SYS_prlimit64, prlimit64),
    (libc::SYS_getrlimit, getrlimit),
    (libc::SYS_setrlimit, setrlimit),
    // The id is translated, and the new descriptor is the application's.
    (libc::SYS_pidfd_open, pidfd_open),
    // The process or thread id in the second argument is translated to the kernel's.
    (libc::SYS_getpriority, id_second),
    (libc::SYS_setpriority, id_second),
    (libc::SYS_ioprio_get, id_second),
    (libc::SYS_ioprio_set, id_second),
];

/// Parks on request (see `contract::STOP_SYSCALL`).
pub fn stop_here(call: &mut Call) -> Outcome {
    call.frame().regs.rax = 0;
    stop::park_by_request(call.thread, call.context);
    Outcome::Done
}

fn getpid(call: &mut Call) -> Outcome {
    if call.vforked() {
        return call.pass();
    }
    Outcome::Value(threads::virtual_pid() as isize)
}

fn gettid(call: &mut Call) -> Outcome {
    if call.vforked() {
        return call.pass();
    }
    Outcome::Value(call.thread.tid() as isize)
}

/// Replaces one argument, an id of the application, by the kernel's.
fn with_id(call: &mut Call, position: usize) -> [usize; 6] {
    let mut args = call.args();
    let id = args[position] as i32;
    if id > 0 {
        args[position] = threads::real_id(id as u32) as usize;
    }
    args
}

fn id_first(call: &mut Call) -> Outcome {
    let (nr, args) = (call.nr(), with_id(call, 0));
    call.pass_with(nr, args)
}

fn sched_setaffinity(call: &mut Call) -> Outcome {
    let id = match call.int(0) {
        0 => call.thread.tid(),
        id => id as u32,
    };
    let outcome = id_first(call);
    if matches!(outcome, Outcome::Value(0)) && !call.vforked() {
        if let Some(thread) = threads::find(id) {
            thread.bound.store(true, Ordering::Relaxed);
        }
    }
    outcome
}

fn id_second(call: &mut Call) -> Outcome {
    let (nr, args) = (call.nr(), with_id(call, 1));
    call.pass_with(nr, args)
}

fn prlimit64(call: &mut Call) -> Outcome {
    let [id, number, new, old, ..] = call.args();
    let own = id as u32 == 0 || (id as u32 == threads::virtual_pid() && !call.vforked());
    match own && memory_limits::can_differ(number as u32) {
        true => own_limit(call, number as u32, new, old),
        false => id_first(call),
    }
}

fn getrlimit(call: &mut Call) -> Outcome {
    let [number, old, ..] = call.args();
    one_limit(call, number as u32, [0, old])
}

fn setrlimit(call: &mut Call) -> Outcome {
    let [number, new, ..] = call.args();
    one_limit(call, number as u32, [new, 0])
}

/// A null pointer is an error here, while prlimit then does nothing.
fn one_limit(call: &mut Call, number: u32, [new, old]: [usize; 2]) -> Outcome {
    match memory_limits::can_differ(number) && (new, old) != (0, 0) {
        true => own_limit(call, number, new, old),
        false => call.pass(),
    }
}

/// Reads and sets a memory limit of the caller's process; addresses as in prlimit(2).
fn own_limit(call: &mut Call, number: u32, new: usize, old: usize) -> Outcome {
    let kernel_call = |new: usize, old: usize| {
        call.kernel(libc::SYS_prlimit64, [0, number as usize, new, old, 0, 0])
    };
    let mut before = [0u64; 2];
    let read = kernel_call(0, before.as_mut_ptr() as usize);
    let seen = memory_limits::seen(number, before);
    if syscall::is_err(read) {
        return Outcome::Value(read);
    }
    if new != 0 {
        let Ok(new) = user_copy::read::<[u64; 2]>(new) else {
            return fail(libc::EFAULT);
        };
        let kernels = memory_limits::kernels(number, new);
        let set = kernel_call(kernels.as_ptr() as usize, 0);
        if syscall::is_err(set) {
            return Outcome::Value(set);
        }
        memory_limits::note_set(number);
    }
    match old != 0 && user_copy::write(old, seen).is_err() {
        true => fail(libc::EFAULT),
        false => Outcome::Value(0),
    }
}

fn pidfd_open(call: &mut Call) -> Outcome {
    let outcome = id_first(call);
    super::files::returned(call, outcome)
}

fn kill(call: &mut Call) -> Outcome {
    if call.int(1) == STOP_SIGNAL {
        return fail(libc::EINVAL);
    }
    id_first(call)
}

fn tgkill(call: &mut Call) -> Outcome {
    if call.int(2) == STOP_SIGNAL {
        return fail(libc::EINVAL);
    }
    let (nr, mut args) = (call.nr(), with_id(call, 0));
    args[1] = with_id(call, 1)[1];
    call.pass_with(nr, args)
}

fn set_tid_address(call: &mut Call) -> Outcome {
    if !call.vforked() {
        let address = call.args()[0];
        call.thread.clear_tid.store(address, Ordering::Relaxed);
    }
    Outcome::Value(call.thread.tid() as isize)
}

const ROBUST_HEAD_SIZE: usize = 24;

fn set_robust_list(call: &mut Call) -> Outcome {
    let [head, size, ..] = call.args();
    if size != ROBUST_HEAD_SIZE {
        return fail(libc::EINVAL);
    }
    if !call.vforked() {
        call.thread.robust.store(head, Ordering::Relaxed);
    }
    Outcome::Value(0)
}

fn get_robust_list(call: &mut Call) -> Outcome {
    let [id, head, size, ..] = call.args();
    let id = if id == 0 {
        call.thread.tid()
    } else {
        id as u32
    };
    match threads::all().find(|t| t.tid() == id && t.state.load(Ordering::Relaxed) != threads::FREE)
    {
        Some(found) => {
            let robust = found.robust.load(Ordering::Relaxed);
            match user_copy::write(size, ROBUST_HEAD_SIZE)
                .and_then(|()| user_copy::write(head, robust))
            {
                Ok(()) => Outcome::Value(0),
                Err(_) => fail(libc::EFAULT),
            }
        }
        None => fail(libc::ESRCH),
    }
}

/// The kernel's registration belongs to the lower half's C library; a thread can have only one.
fn rseq(_: &mut Call) -> Outcome {
    fail(libc::ENOSYS)
}

fn arch_prctl(call: &mut Call) -> Outcome {
    const SET_GS: i32 = 0x1001;
    const SET_FS: i32 = 0x1002;
    const GET_FS: i32 = 0x1003;
    const GET_GS: i32 = 0x1004;
    let value = call.args()[1];
    match call.int(0) {
        SET_FS if value >= contract::ARENA_END => fail(libc::EPERM),
        SET_FS => {
            call.thread.set_upper_fs(value);
            set_upper_fs(value);
            Outcome::Value(0)
        }
        GET_FS => {
            let fs = cpu::fs();
            user_copy::write(value, fs).map_or(fail(libc::EFAULT), |()| Outcome::Value(0))
        }
        SET_GS => fail(libc::EPERM),
        GET_GS => {
            user_copy::write(value, 0usize).map_or(fail(libc::EFAULT), |()| Outcome::Value(0))
        }
        _ => call.pass(),
    }
}

#[allow(unsafe_code)]
fn set_upper_fs(value: usize) {
    // SAFETY: the thread returns to upper-half code, and the handler uses no TLS.
    unsafe { cpu::set_fs(value) };
}

fn prctl(call: &mut Call) -> Outcome {
    match call.int(0) {
        contract::PR_SET_SYSCALL_USER_DISPATCH => fail(libc::EINVAL),
        libc::PR_SET_MM => fail(libc::EPERM),
        option => {
            if option == libc::PR_SET_TSC && call.int(1) == libc::PR_TSC_SIGSEGV {
                cpu::forbid_time_stamps();
            }
            let outcome = call.pass();
            unsupported::note_prctl(call, option, &outcome);
            outcome
        }
    }
}

fn exit(call: &mut Call) -> Outcome {
    if call.vforked() {
        return call.pass();
    }
    let status = call.int(0);
    lifecycle::exit(call.thread, status)
}

fn exit_group(call: &mut Call) -> Outcome {
    if call.vforked() {
        return call.pass();
    }
    let status = call.int(0);
    hooks::exit_process(call.thread, status)
}

/// Bit n: the registration command 1 << n was made.
static MEMBARRIERS: AtomicU32 = AtomicU32::new(0);

/// Repeats the registrations of the application.
pub fn restore_membarriers(commands: u32) {
    MEMBARRIERS.store(commands, Ordering::Relaxed);
    for n in (0..32).filter(|n| commands & (1 << n) != 0) {
        syscall::membarrier(1 << n);
    }
}

/// Registrations made so far, as a bit set.
pub fn membarriers() -> u32 {
    MEMBARRIERS.load(Ordering::Relaxed)
}

fn membarrier(call: &mut Call) -> Outcome {
    const REGISTRATIONS: u32 = (1 << 2) | (1 << 4) | (1 << 6) | (1 << 8);
    let command = call.int(0) as u32;
    let outcome = call.pass();
    if command & REGISTRATIONS != 0 && matches!(outcome, Outcome::Value(0)) {
        MEMBARRIERS.fetch_or(command & REGISTRATIONS, Ordering::Relaxed);
    }
    outcome
}
