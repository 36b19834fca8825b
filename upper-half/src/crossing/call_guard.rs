//! The guard that every function of a front holds. While it lives, a stop signal does not park the thread but leaves a
//! mark, and the end of the guard parks it.
//!
//! # Safety
//! The assembly uses two counters of the calling thread's block at GS base, which the loader sets up before a thread
//! runs upper-half code (offsets asserted in `contract`). Unit tests have no such block, and there the guard does
//! nothing.
#![allow(unsafe_code)]

#[cfg(not(test))]
use crate::crossing::stubs::service;
#[cfg(not(test))]
use crate::crossing::thread_level;
#[cfg(not(test))]
use crate::profile;
use crate::runtime::lock::Lock;
use crate::tools;
use contract::record::EVERY_COMM;
use contract::recorder::Event;
use contract::ThreadBlock;
#[cfg(not(test))]
use core::arch::asm;

/// Held for the length of a wrapper.
#[must_use]
pub struct CallGuard(());

impl CallGuard {
    /// Enters a wrapper; wrappers nest.
    #[inline(always)]
    pub fn enter() -> CallGuard {
        CallGuard::enter_of(0)
    }

    /// Enters the wrapper of the function with this slot.
    #[inline(always)]
    #[cfg_attr(test, allow(unused_variables))]
    pub fn enter_of(function: u32) -> CallGuard {
        #[cfg(not(test))]
        // SAFETY: see the module's head. The sign is that of NO_CALL_YET.
        unsafe {
            asm!("inc dword ptr gs:[32]", "js {}", label { seen_call(function) }, options(nostack));
        }
        CallGuard(())
    }

    /// Enters the wrapper of a function that any thread may call at any time, whatever the thread level.
    #[inline(always)]
    #[cfg_attr(test, allow(unused_variables))]
    pub fn enter_any(function: u32) -> CallGuard {
        #[cfg(not(test))]
        // SAFETY: see the module's head. The sign is that of NO_CALL_YET.
        unsafe {
            asm!(
                "inc dword ptr gs:[32]",
                "js {}",
                label { seen_any_call(function) },
                options(nostack)
            );
        }
        CallGuard(())
    }
}

/// A thread calls MPI for the first time, or its calls are counted.
#[cfg(not(test))]
#[cold]
fn seen_call(function: u32) {
    let counts = profile::may_count();
    if word() & contract::COUNTED == 0 {
        see_calls(counts);
        thread_level::another();
        if counts {
            profile::another_thread();
        }
    } else if !counts {
        see_calls(false);
    }
    if counts {
        profile::begins(function, depth() == 1);
    }
}

/// The same for a function that does not make the thread one that calls MPI.
#[cfg(not(test))]
#[cold]
fn seen_any_call(function: u32) {
    if word() & contract::COUNTED != 0 && profile::may_count() {
        profile::begins(function, depth() == 1);
    }
}

/// Whether each call of this thread, and its end, is seen from now on.
#[cfg(not(test))]
fn see_calls(seen: bool) {
    // SAFETY: see the module's head.
    unsafe {
        match seen {
            true => asm!(
                "or dword ptr gs:[32], {counted}",
                "lock or dword ptr gs:[36], {calls}",
                counted = const contract::COUNTED,
                calls = const contract::COUNT_CALLS,
                options(nostack)
            ),
            false => asm!(
                "and dword ptr gs:[32], {seen:e}",
                "lock and dword ptr gs:[36], {calls:e}",
                seen = in(reg) !(contract::NO_CALL_YET | contract::COUNTED),
                calls = in(reg) !contract::COUNT_CALLS,
                options(nostack)
            ),
        }
    }
}

impl Drop for CallGuard {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(not(test))]
        {
            let on_leaving: u32;
            // SAFETY: see the module's head.
            unsafe {
                asm!(
                    "dec dword ptr gs:[32]",
                    "mov {0:e}, dword ptr gs:[36]",
                    out(reg) on_leaving,
                    options(nostack)
                );
            }
            if on_leaving != 0 && depth() == 0 {
                leave(on_leaving);
            }
        }
    }
}

/// Whether the thread is in a wrapper.
pub(crate) fn is_inside() -> bool {
    #[cfg(test)]
    {
        false
    }
    #[cfg(not(test))]
    {
        depth() != 0
    }
}

/// What is to be done on leaving the outermost wrapper.
#[cfg(not(test))]
#[cold]
fn leave(what: u32) {
    if what & contract::COUNT_CALLS != 0 {
        profile::ends();
    }
    if what & contract::TELL_CALLS != 0 {
        // A stop waits until the crossing is over, as in a wrapper.
        let word = word();
        set_word(word + 1);
        service::call_ended();
        set_word(word);
    }
    if what & contract::HAS_TURN != 0 {
        leave_turn();
    }
    if stop_wanted() {
        stop();
    }
}

/// How many wrappers the thread is in.
#[cfg(not(test))]
#[inline(always)]
fn depth() -> u32 {
    word() & !(contract::NO_CALL_YET | contract::COUNTED)
}

/// How many wrappers the thread is in, whether it has made no call yet, and whether its calls are counted.
#[cfg(not(test))]
#[inline(always)]
fn word() -> u32 {
    of_block::<{ ThreadBlock::<usize, u32>::IN_WRAPPER }>()
}

/// The word of the thread's block at this offset.
#[cfg(not(test))]
#[inline(always)]
fn of_block<const OFFSET: usize>() -> u32 {
    let word: u32;
    // SAFETY: see the module's head.
    unsafe {
        asm!(
            "mov {0:e}, dword ptr gs:[{offset}]",
            out(reg) word,
            offset = const OFFSET,
            options(nostack, readonly)
        );
    }
    word
}

/// The same in unit tests, which have no block.
#[cfg(test)]
fn of_block<const OFFSET: usize>() -> u32 {
    0
}

#[cfg(not(test))]
fn set_word(word: u32) {
    // SAFETY: see the module's head.
    unsafe {
        asm!("mov dword ptr gs:[32], {0:e}", in(reg) word, options(nostack));
    }
}

/// The calling thread's number, the same in every run of the program (`contract::ThreadBlock::number`).
#[inline]
pub(crate) fn thread_number() -> u32 {
    of_block::<{ ThreadBlock::<usize, u32>::NUMBER }>()
}

/// Threads that have their turn (the module `record::turns`), by their ids, and the communicators over which they have
/// it.
static TURNS: Lock<Vec<(u32, u64)>> = Lock::new(Vec::new());

#[inline]
fn own_id() -> u32 {
    thread_id().max(1)
}

/// Whether the calling thread may have its turn. If not, it has none.
#[inline]
fn may_have_turn() -> bool {
    cfg!(test) || of_block::<{ ThreadBlock::<usize, u32>::ON_LEAVING }>() & contract::HAS_TURN != 0
}

/// Whether the calling thread has its turn.
#[inline]
pub(crate) fn has_turn() -> bool {
    may_have_turn() && TURNS.lock().iter().any(|(thread, _)| *thread == own_id())
}

/// Gives the calling thread its turn over a communicator, or over every one, instead of the one that it has, if no
/// other thread has it there; whether the thread has it. The end of its outermost wrapper gives it up.
pub(crate) fn take_turn(comm: u64) -> bool {
    let mut turns = TURNS.lock();
    let own = own_id();
    turns.retain(|(thread, _)| *thread != own);
    let meets = |other: u64| other == comm || [other, comm].contains(&EVERY_COMM);
    if turns.iter().any(|(_, other)| meets(*other)) {
        return false;
    }
    turns.push((own, comm));
    drop(turns);
    mark_turn(true);
    true
}

/// Gives up the turn, if the calling thread has it.
#[inline]
pub(crate) fn leave_turn() {
    if may_have_turn() {
        mark_turn(false);
        TURNS.lock().retain(|(thread, _)| *thread != own_id());
    }
}

/// After a restart no thread has its turn.
pub(crate) fn forget_turns() {
    TURNS.lock().clear();
}

/// Whether the end of the outermost wrapper gives up the turn.
#[cfg_attr(test, allow(unused_variables))] // there is no block
fn mark_turn(has: bool) {
    #[cfg(not(test))]
    // SAFETY: see the module's head.
    unsafe {
        match has {
            true => asm!(
                "lock or dword ptr gs:[36], {turn}",
                turn = const contract::HAS_TURN,
                options(nostack)
            ),
            false => asm!(
                "lock and dword ptr gs:[36], {turn:e}",
                turn = in(reg) !contract::HAS_TURN,
                options(nostack)
            ),
        }
    }
}

/// Records an event of the calling thread in the flight recorder.
pub(crate) fn record(event: Event, arguments: [u64; 2]) {
    contract::recorder::record(thread_id(), event, arguments);
}

/// The calling thread's id, as the application knows it.
#[inline]
pub(crate) fn thread_id() -> u32 {
    of_block::<{ ThreadBlock::<usize, u32>::TID }>()
}

/// Whether a stop signal came while the thread was in a wrapper.
#[inline(always)]
pub fn stop_wanted() -> bool {
    of_block::<{ ThreadBlock::<usize, u32>::ON_LEAVING }>() & contract::STOP_WANTED != 0
}

/// The effect of a stop in unit tests, which have no loader.
#[cfg(test)]
pub(crate) static AT_STOP: std::sync::Mutex<Option<fn()>> = std::sync::Mutex::new(None);

/// Parks the thread here for the checkpoint that is under way. Returns true when the job was
/// restarted meanwhile: every lower word that the caller still holds is void then.
///
/// The caller must hold no lock.
#[cold]
pub fn stop() -> bool {
    #[cfg(test)]
    {
        let at_stop = *AT_STOP.lock().unwrap_or_else(|held| held.into_inner());
        if let Some(at_stop) = at_stop {
            at_stop();
        }
        false
    }
    #[cfg(not(test))]
    {
        let result: usize;
        // SAFETY: the mark is the thread's own, and the call is served by the loader, which parks
        // the thread and comes back; memory may have changed hands to another process by then.
        unsafe {
            asm!(
                "and dword ptr gs:[36], {other:e}",
                "syscall",
                other = in(reg) !contract::STOP_WANTED,
                inlateout("rax") contract::STOP_SYSCALL as usize => result,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        result == 1
    }
}

/// Runs a callback of the application as if outside of any wrapper: it may take long, or leave by
/// longjmp or an exception, and the thread must be stoppable meanwhile and after.
///
/// The caller must hold no lock and must not be inside a crossing.
pub fn outside<R>(callback: impl FnOnce() -> R) -> R {
    #[cfg(test)]
    {
        callback()
    }
    #[cfg(not(test))]
    {
        let paused = (word() & contract::COUNTED != 0).then(profile::pause);
        let result = in_no_wrapper(callback);
        if let Some(paused) = paused {
            profile::go_on(paused);
        }
        result
    }
}

/// Makes calls that are part of the present one by functions of the application's namespace, which may be those of a
/// tool. Like [`outside`], but our own tools are not told of the calls, nor their time taken from the present one.
pub(crate) fn by_namespace<R>(calls: impl FnOnce() -> R) -> R {
    let before = tools::set_untold(true);
    let result = in_no_wrapper(calls);
    tools::set_untold(before);
    result
}

#[cfg(test)]
fn in_no_wrapper<R>(run: impl FnOnce() -> R) -> R {
    run()
}

#[cfg(not(test))]
fn in_no_wrapper<R>(run: impl FnOnce() -> R) -> R {
    let word = word();
    set_word(word & (contract::NO_CALL_YET | contract::COUNTED));
    if stop_wanted() {
        stop();
    }
    let result = run();
    set_word(word);
    result
}
