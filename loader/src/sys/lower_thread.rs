//! Threads of the lower half. The application's signals are blocked in them.
//!
//! # Safety
//! The probe for memory maps fresh memory and unmaps it unused.
#![allow(unsafe_code)]

use super::{c_library, syscall};

/// Fails if little memory is left for threads. A thread that starts without memory for its own data ends the process
/// (glibc: "failed to register TLS destructor").
pub fn room_for_threads() -> std::io::Result<()> {
    const ROOM: usize = 16 << 20;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // malloc is no test: it may have memory for this thread and none for another. SAFETY: a mapping at an address that
    // the kernel chooses, which is unmapped before any use.
    unsafe {
        let room = libc::mmap(core::ptr::null_mut(), ROOM, libc::PROT_NONE, flags, -1, 0);
        if room == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        libc::munmap(room, ROOM);
    }
    Ok(())
}

/// Starts a thread of the lower half; create every lower thread this way. All signals are blocked in it, because they
/// are meant for the application. When this returns the thread runs and has its memory from the C library: the program
/// may use up its memory right after this.
///
/// # Errors
/// If there is no memory for the thread, or the kernel gives none.
pub fn spawn_lower(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    room_for_threads()?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    let (runs, begun) = std::sync::mpsc::channel::<()>();
    let body = move || {
        drop(runs);
        body();
    };
    holding_signals(|| thread.spawn(body))?;
    // Returns when the other side is dropped.
    let _ = begun.recv();
    Ok(())
}

/// Runs `f`, which creates threads of the lower half by other means: all signals are blocked in them.
pub fn holding_signals<R>(f: impl FnOnce() -> R) -> R {
    // Fault signals are blocked, too: one that was sent is the application's, and a fault in the lower half ends the
    // process whether it is blocked or not.
    let mask = syscall::block(u64::MAX);
    let result = f();
    syscall::set_mask(mask);
    result
}

/// Bounds the number of glibc's arenas in the lower half to that of the processors, or to four. Each takes 64 MiB of
/// address space for ever, and glibc makes one for each of the first threads, up to eight times the number of
/// processors. So the threads of a checkpoint would use up what a program with a limit has left. Call it before there
/// are other threads.
pub fn bound_arenas() {
    const LEAST: usize = 4;
    let wanted = std::thread::available_parallelism().map_or(LEAST, |n| n.get().max(LEAST));
    c_library::mallopt(libc::M_ARENA_MAX, wanted as i32);
}
