//! Mappings. The allocator of addresses (`load/va_allocator.rs`) chooses each one; calls on the lower half's memory are
//! refused.

use super::remap_parts::{self, Remap};
use super::{fail, Call, Handler, Outcome};
use crate::interpose::cpuid::{self, places};
use crate::interpose::file_changes::{app_changes, watched_fds};
use crate::load::va_allocator::{self, page_up, BRK_END, BRK_START, PAGE};
use crate::sys::descriptor::writable;
use crate::sys::spin_lock::Spin;
use crate::sys::syscall::{self, err, is_err};
use contract::{ARENA_END, ARENA_START, MADV_GUARD_INSTALL};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

pub const HANDLERS: &[(i64, Handler)] = &[
    // The arena chooses the address, below the lower half; ranges in the lower half are refused.
    (libc::SYS_munmap, munmap),
    (libc::SYS_mprotect, mprotect),
    (libc::SYS_pkey_mprotect, mprotect),
    (libc::SYS_brk, brk),
    // The arena chooses the address, below the lower half. The undo journal first records the bytes of a file that come
    // into reach of shared memory.
    (libc::SYS_mmap, mmap),
    (libc::SYS_mremap, mremap),
    // The loader records that the program has guard pages, for which every later checkpoint looks.
    (libc::SYS_madvise, madvise),
    (libc::SYS_process_madvise, process_madvise),
    // The loader records whether memory that is mapped later is locked, which the kernel does not tell.
    (libc::SYS_mlockall, lock_all),
    (libc::SYS_munlockall, lock_all),
    // Refused with ENOSYS: the kernel itself would choose addresses for these, in the lower half.
    (libc::SYS_io_setup, absent),
    (libc::SYS_io_uring_setup, absent),
    (453, absent), // SYS_map_shadow_stack
];

const MAP_HUGE_SHIFT: usize = 26;

/// Number of served calls that may change mappings.
static REMAPPED: AtomicU64 = AtomicU64::new(0);

/// Whether a call may change mappings or their attributes.
pub(super) const fn remaps(nr: usize) -> bool {
    matches!(
        nr as i64,
        libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_mprotect
            | libc::SYS_pkey_mprotect
            | libc::SYS_madvise
            | libc::SYS_process_madvise
            | libc::SYS_mlock
            | libc::SYS_mlock2
            | libc::SYS_mlockall
            | libc::SYS_munlock
            | libc::SYS_munlockall
            | libc::SYS_remap_file_pages
            | libc::SYS_brk
            | libc::SYS_shmat
            | libc::SYS_shmdt
    )
}

/// Counts a served call of these.
pub(super) fn count_remapped() {
    REMAPPED.fetch_add(1, Ordering::AcqRel);
}

/// A number that changes with each application call that may have changed its mappings. A call counts when it ends; in
/// a stopped thread none is in progress.
pub fn remapped() -> u64 {
    REMAPPED.load(Ordering::Acquire)
}

/// Whether a file may be mapped so that writes to the memory change it.
static MAY_SHARE: AtomicBool = AtomicBool::new(false);

/// Records that the program has such a mapping from before a restart.
pub fn note_shared_file() {
    MAY_SHARE.store(true, Ordering::Relaxed);
}

fn absent(_: &mut Call) -> Outcome {
    fail(libc::ENOSYS)
}

/// Whether the range lies below the lower half.
pub(super) fn is_upper(address: usize, len: usize) -> bool {
    address.checked_add(len).is_some_and(|end| end <= ARENA_END)
}

fn mmap(call: &mut Call) -> Outcome {
    let outcome = map(call);
    let [_, len, prot, flags, fd, offset] = call.args();
    let (prot, flags, fd) = (prot as i32, flags as i32, fd as i32);
    let of_file = flags & libc::MAP_PRIVATE != 0 && flags & libc::MAP_ANONYMOUS == 0;
    if let (Outcome::Value(at), true) = (&outcome, of_file && prot & libc::PROT_EXEC != 0) {
        if !is_err(*at) && cpuid::hides() && call.in_rank() {
            let mapping = [*at as usize, *at as usize + page_up(len).unwrap_or(0)];
            call.thread
                .on_lower(|| places::replace(fd, mapping, offset as u64));
        }
    }
    outcome
}

fn map(call: &mut Call) -> Outcome {
    let mut args = call.args();
    let [address, len, prot, flags, fd, at] = args;
    let (prot, flags, fd) = (prot as i32, flags as i32, fd as i32);
    let Some(len) = page_up(len).filter(|&len| len != 0 && len < ARENA_END) else {
        return call.pass();
    };
    let shared = flags & libc::MAP_SHARED != 0 && flags & libc::MAP_ANONYMOUS == 0;
    if shared && !MAY_SHARE.load(Ordering::Relaxed) {
        let flags = call.kernel(
            libc::SYS_fcntl,
            [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0],
        );
        if !is_err(flags) && writable(flags as i32) {
            MAY_SHARE.store(true, Ordering::Relaxed);
        }
    }
    if shared && watched_fds::may_change(fd) && call.in_rank() {
        // Writes to the memory change the file without a system call.
        let bytes = at as u64..(at as u64).saturating_add(len as u64);
        call.thread.on_lower(|| app_changes::changing(fd, bytes));
    }
    if flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0 {
        if !is_upper(address, len) {
            return fail(libc::ENOMEM);
        }
        let claimed = va_allocator::claim(address, len);
        let result = call.kernel(libc::SYS_mmap, args);
        if !is_err(result) {
            va_allocator::take(address, address + len);
        } else if claimed {
            va_allocator::free(address, address + len);
        }
        return Outcome::Value(result);
    }
    args[3] |= libc::MAP_FIXED_NOREPLACE as usize;
    if flags & libc::MAP_32BIT != 0 {
        return low_mmap(call, args, len);
    }
    // CUDA's driver needs certain addresses below the arena, which only its hints tell.
    let below = || address.saturating_add(len) <= ARENA_START && prot & libc::PROT_EXEC == 0;
    if address != 0 && address % PAGE == 0 && (below() || va_allocator::claim(address, len)) {
        let result = call.kernel(libc::SYS_mmap, args);
        if !is_err(result) {
            return Outcome::Value(result);
        }
        va_allocator::free(address, address + len);
    }
    let align = if flags & libc::MAP_HUGETLB != 0 {
        let shift = (flags as usize >> MAP_HUGE_SHIFT) & 0x3f;
        1 << if shift == 0 { 21 } else { shift }
    } else if flags & libc::MAP_ANONYMOUS != 0 {
        va_allocator::natural_align(len)
    } else {
        PAGE
    };
    let huge = flags & libc::MAP_HUGETLB != 0;
    let len = if huge {
        (len + align - 1) & !(align - 1)
    } else {
        len
    };
    Outcome::Value(place(len, align, |at| {
        args[0] = at;
        call.kernel(libc::SYS_mmap, args)
    }))
}

/// Finds a free range and maps there. A range that turns out to be occupied stays marked as used.
pub(super) fn place(len: usize, align: usize, mut map: impl FnMut(usize) -> isize) -> isize {
    const TRIES: usize = 64;
    for _ in 0..TRIES {
        let Some(at) = va_allocator::find(len, align) else {
            break;
        };
        let result = map(at);
        if result == err(libc::EEXIST) {
            continue;
        }
        if is_err(result) {
            va_allocator::free(at, at + len);
        }
        return result;
    }
    err(libc::ENOMEM)
}

/// MAP_32BIT: below 2 GiB, where ranges are not tracked, by trial.
fn low_mmap(call: &Call, mut args: [usize; 6], len: usize) -> Outcome {
    const FROM: usize = 0x4000_0000;
    const TO: usize = 0x8000_0000;
    args[3] &= !(libc::MAP_32BIT as usize);
    let mut at = FROM;
    while at + len <= TO {
        args[0] = at;
        let result = call.kernel(libc::SYS_mmap, args);
        if result != err(libc::EEXIST) {
            return Outcome::Value(result);
        }
        at += len.max(1 << 16);
    }
    fail(libc::ENOMEM)
}

fn munmap(call: &mut Call) -> Outcome {
    let [address, len, ..] = call.args();
    let Some(len) = page_up(len).filter(|&len| is_upper(address, len)) else {
        return fail(libc::EINVAL);
    };
    let args = call.args();
    let result = call.kernel(libc::SYS_munmap, args);
    if !is_err(result) {
        va_allocator::free(address, address + len);
    }
    Outcome::Value(result)
}

fn mremap(call: &mut Call) -> Outcome {
    let mut args = call.args();
    let [old, old_len, new_len, flags, new, _] = args;
    let (may_move, fixed) = (libc::MREMAP_MAYMOVE as usize, libc::MREMAP_FIXED as usize);
    let keep_old = flags & libc::MREMAP_DONTUNMAP as usize != 0;
    let (Some(old_len), Some(new_len)) = (page_up(old_len), page_up(new_len)) else {
        return fail(libc::EINVAL);
    };
    if !is_upper(old, old_len) || (flags & fixed != 0 && !is_upper(new, new_len)) {
        return fail(libc::EINVAL);
    }
    // With a length of 0 the call makes a second mapping.
    let grows = new_len > old_len && MAY_SHARE.load(Ordering::Relaxed);
    if grows && watched_fds::is_on() && call.in_rank() {
        call.thread
            .on_lower(|| app_changes::enlarging(old, old_len, new_len));
    }
    if flags & fixed != 0 {
        let result = remap(call, args);
        if !is_err(result) {
            if !keep_old {
                va_allocator::free(old, old + old_len);
            }
            va_allocator::take(new, new + new_len);
        }
        return Outcome::Value(result);
    }
    if new_len <= old_len && old_len != 0 && !keep_old {
        let result = remap(call, args);
        if !is_err(result) {
            va_allocator::free(old + new_len, old + old_len);
        }
        return Outcome::Value(result);
    }
    if old_len != 0 && !keep_old && va_allocator::claim(old + old_len, new_len - old_len) {
        args[3] = flags & !may_move;
        let result = remap(call, args);
        if !is_err(result) {
            return Outcome::Value(result);
        }
        va_allocator::free(old + old_len, old + new_len);
    }
    if flags & may_move == 0 {
        return fail(libc::ENOMEM);
    }
    args[3] = flags | fixed;
    let result = place(new_len, va_allocator::natural_align(new_len), |at| {
        args[4] = at;
        remap(call, args)
    });
    if !is_err(result) && !keep_old && old_len != 0 {
        va_allocator::free(old, old + old_len);
    }
    Outcome::Value(result)
}

/// The call of the kernel for `mremap`.
fn remap(call: &Call, args: [usize; 6]) -> isize {
    let whole = |call: &Call| call.kernel(libc::SYS_mremap, args);
    let [old, old_len, new_len, flags, new, _] = args;
    let lengths = page_up(old_len).zip(page_up(new_len));
    let (true, Some((old_len, new_len))) = (remap_parts::may_be() && call.in_rank(), lengths)
    else {
        return whole(call);
    };
    let remap = Remap {
        old,
        old_len,
        new_len,
        flags,
        new,
    };
    let kernel = |nr, [a, b, c, d, e]: [usize; 5]| call.kernel(nr, [a, b, c, d, e, 0]);
    let by_parts = || call.thread.on_lower(|| remap.by_parts(&kernel));
    if remap.may_stop_midway() {
        return by_parts().unwrap_or_else(|| whole(call));
    }
    match whole(call) {
        result if result == err(libc::EFAULT) => by_parts().unwrap_or(result),
        result => result,
    }
}

fn mprotect(call: &mut Call) -> Outcome {
    let mut args = call.args();
    if !is_upper(args[0], args[1]) {
        return fail(libc::ENOMEM);
    }
    let nr = call.nr() as i64;
    let result = call.kernel(nr, args);
    // After a restart the stack is no longer a PROT_GROWSDOWN mapping.
    let grows = libc::PROT_GROWSDOWN as usize;
    if result == err(libc::EINVAL) && args[2] & grows != 0 {
        args[2] &= !grows;
        return Outcome::Value(call.kernel(nr, args));
    }
    Outcome::Value(result)
}

/// Whether the program may have guard pages.
static GUARDS: AtomicBool = AtomicBool::new(false);

/// Records that the program has guard pages.
pub fn note_guard_pages() {
    GUARDS.store(true, Ordering::Relaxed);
}

/// Whether the program may have guard pages (MADV_GUARD_INSTALL).
pub fn may_have_guard_pages() -> bool {
    GUARDS.load(Ordering::Relaxed)
}

fn madvise(call: &mut Call) -> Outcome {
    let advice = call.int(2);
    advised(call, advice)
}

fn process_madvise(call: &mut Call) -> Outcome {
    let advice = call.int(3);
    advised(call, advice)
}

fn advised(call: &mut Call, advice: i32) -> Outcome {
    if advice == MADV_GUARD_INSTALL {
        note_guard_pages();
    }
    call.pass()
}

/// Flags of `mlockall` by which memory that is mapped later is locked; 0 without MCL_FUTURE.
static FUTURE_LOCKS: AtomicI32 = AtomicI32::new(0);

/// The flags of `mlockall` for memory that the program maps later.
pub fn future_locks() -> i32 {
    FUTURE_LOCKS.load(Ordering::Relaxed)
}

/// Has memory that is mapped later locked as these flags say, at a restart.
pub fn set_future_locks(flags: i32) {
    let args = [flags as usize, 0, 0, 0, 0, 0];
    if flags != 0 && !is_err(syscall::plain(libc::SYS_mlockall, args)) {
        FUTURE_LOCKS.store(flags, Ordering::Relaxed);
    }
}

fn lock_all(call: &mut Call) -> Outcome {
    let flags = match call.nr() as i64 {
        libc::SYS_mlockall => call.int(0),
        _ => 0,
    };
    let outcome = call.pass();
    if matches!(outcome, Outcome::Value(0)) {
        let later = match flags & libc::MCL_FUTURE {
            0 => 0,
            _ => flags & !libc::MCL_CURRENT,
        };
        FUTURE_LOCKS.store(later, Ordering::Relaxed);
    }
    outcome
}

static BRK: Spin<usize> = Spin::new(BRK_START);

/// End of the heap.
pub fn brk_end() -> usize {
    *BRK.lock()
}

/// Sets the end of the heap at a restart; the memory is mapped already.
pub fn set_brk_end(end: usize) {
    *BRK.lock() = end;
}

fn brk(call: &mut Call) -> Outcome {
    let wanted = call.args()[0];
    let mut end = BRK.lock();
    if !(BRK_START..=BRK_END).contains(&wanted) {
        return Outcome::Value(*end as isize);
    }
    let (mapped, needed) = (
        (*end + PAGE - 1) & !(PAGE - 1),
        (wanted + PAGE - 1) & !(PAGE - 1),
    );
    let result = if needed > mapped {
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as usize;
        call.kernel(
            libc::SYS_mmap,
            [mapped, needed - mapped, prot, flags, usize::MAX, 0],
        )
    } else if needed < mapped {
        call.kernel(libc::SYS_munmap, [needed, mapped - needed, 0, 0, 0, 0])
    } else {
        0
    };
    if !is_err(result) {
        *end = wanted;
    }
    Outcome::Value(*end as isize)
}
