//! The program's GPUs at a checkpoint.
//!
//! CUDA's driver, from version 570 on, copies what a process has on its GPUs to the memory of that process, closes the
//! devices, and puts everything back later (CUDA Driver API, "CUDA Checkpointing"). Between the two, a call of the
//! program waits in the driver. The driver's own threads take part in both, and calls in progress must end. So this is
//! done while the program still runs, before its threads are stopped and after they go on, by a thread of the program's
//! side that does nothing else. A restarted process does the second part.
//!
//! The thread is made in MPI_Init where the driver is loaded, or the machine has such a GPU: a program may load the
//! driver later, and no thread can be made in a program that is stopped.
//!
//! # Safety
//! Functions of the program's C library, and of the driver that the program has loaded, are called as their manuals
//! say, with arguments that live across the call.
#![allow(unsafe_code)]

use crate::crossing::report::{fatal, message};
use crate::runtime::syscall;
use crate::tools;
use contract::{gate, GpuCall, GpuState, CUDA, CUDA_DRIVER};
use core::ffi::{c_char, c_int, c_void, CStr};
use core::fmt::Write;
use core::ptr::{null, null_mut};
use core::sync::atomic::Ordering;

/// Device by which every process of that driver begins.
const CONTROL: &CStr = c"/dev/nvidiactl";

const RTLD_NOW: c_int = 2;
const RTLD_NOLOAD: c_int = 4;
const SIG_BLOCK: c_int = 0;
const SIG_SETMASK: c_int = 2;
const F_OK: c_int = 0;

pub(crate) const CUDA_SUCCESS: u32 = 0;
const CUDA_ERROR_NOT_INITIALIZED: u32 = 3;
const CUDA_ERROR_DEINITIALIZED: u32 = 4;

extern "C" {
    fn access(path: *const c_char, mode: c_int) -> c_int;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn pthread_create(
        thread: *mut usize,
        attributes: *const c_void,
        run: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_detach(thread: usize) -> c_int;
    fn pthread_sigmask(how: c_int, new: *const [u64; 16], old: *mut [u64; 16]) -> c_int;
}

/// A function of the driver that acts on a process: its id, and options of 64 bytes.
type OfProcess = unsafe extern "C" fn(c_int, *mut [u64; 8]) -> u32;

/// The driver's functions for this.
struct Driver {
    lock: OfProcess,
    checkpoint: OfProcess,
    restore: OfProcess,
    unlock: OfProcess,
}

/// The driver's library, if the program has loaded it.
fn loaded_driver() -> *mut c_void {
    // SAFETY: a name with its NUL. The library stays loaded, since the program has it.
    unsafe { dlopen(CUDA_DRIVER.as_ptr(), RTLD_NOW | RTLD_NOLOAD) }
}

fn function_of(driver: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: a library that is loaded, and a name with its NUL.
    unsafe { dlsym(driver, name.as_ptr()) }
}

/// Address of a function of the driver; null if the program has not loaded that.
pub(crate) fn function(name: &CStr) -> *mut c_void {
    let driver = loaded_driver();
    match driver.is_null() {
        true => null_mut(),
        false => function_of(driver, name),
    }
}

/// The driver in this process.
enum Loaded {
    No,
    /// It has no such functions.
    Old,
    Yes(Driver),
}

impl Driver {
    fn loaded() -> Loaded {
        let driver = loaded_driver();
        if driver.is_null() {
            return Loaded::No;
        }
        let find = |name| function_of(driver, name);
        let found = [
            c"cuCheckpointProcessLock",
            c"cuCheckpointProcessCheckpoint",
            c"cuCheckpointProcessRestore",
            c"cuCheckpointProcessUnlock",
        ]
        .map(find);
        if found.contains(&null_mut()) {
            return Loaded::Old;
        }
        let [lock, checkpoint, restore, unlock] = found;
        // SAFETY: the driver's functions of these names, with their types.
        Loaded::Yes(unsafe {
            Driver {
                lock: core::mem::transmute::<*mut c_void, OfProcess>(lock),
                checkpoint: core::mem::transmute::<*mut c_void, OfProcess>(checkpoint),
                restore: core::mem::transmute::<*mut c_void, OfProcess>(restore),
                unlock: core::mem::transmute::<*mut c_void, OfProcess>(unlock),
            }
        })
    }

    /// Calls one of them for this process. `first` is the first word of its options.
    fn call(function: OfProcess, first: u64) -> Result<(), u32> {
        let mut options = [first, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: options of the size that all of them have.
        match unsafe { function(syscall::process_id(), &raw mut options) } {
            CUDA_SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    fn freeze(&self, patience: u32) -> Result<GpuState, (GpuCall, u32)> {
        match Driver::call(self.lock, patience.into()) {
            Ok(()) => {}
            Err(CUDA_ERROR_NOT_INITIALIZED | CUDA_ERROR_DEINITIALIZED) => {
                return Ok(GpuState::Running)
            }
            Err(error) => return Err((GpuCall::Lock, error)),
        }
        if let Err(error) = Driver::call(self.checkpoint, 0) {
            go_on(self.unlock, "cuCheckpointProcessUnlock");
            return Err((GpuCall::Checkpoint, error));
        }
        Ok(GpuState::Frozen)
    }

    fn thaw(&self) {
        go_on(self.restore, "cuCheckpointProcessRestore");
        go_on(self.unlock, "cuCheckpointProcessUnlock");
    }
}

/// Calls a function without which the program's calls would wait for ever.
fn go_on(function: OfProcess, name: &str) {
    if let Err(error) = Driver::call(function, 0) {
        let mut text = Text {
            bytes: [0; 512],
            length: 0,
        };
        // A longer text is cut off.
        let _ = write!(
            text,
            "the state of this rank's GPUs cannot be restored: {name} of CUDA's driver returned {error}. The newest \
             checkpoint is whole: `stasis restart` continues it where a GPU of the same kind is free and the driver \
             is the same"
        );
        fatal(text.as_str(), 1);
    }
}

/// A text without allocated memory: while one thread calls MPI, the allocator serves that thread alone.
struct Text {
    bytes: [u8; 512],
    length: usize,
}

impl Text {
    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> core::fmt::Result {
        let end = self.length + part.len();
        let room = self.bytes.get_mut(self.length..end);
        room.ok_or(core::fmt::Error)?
            .copy_from_slice(part.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Makes the thread, once, if this process may use a GPU. Calls look at their buffers from when the driver is loaded.
pub fn start() {
    tools::announce();
    // The loader could not tell of a driver that the program has begun to load before.
    let is_loaded = !loaded_driver().is_null();
    if is_loaded {
        tools::set(CUDA, true);
    }
    let state = &gate().gpu.state;
    if state.load(Ordering::Relaxed) != GpuState::Unserved as u32 {
        return;
    }
    // SAFETY: a path with its NUL.
    if !is_loaded && unsafe { access(CONTROL.as_ptr(), F_OK) } != 0 {
        return;
    }
    let (all, mut before, mut thread) = ([u64::MAX; 16], [0; 16], 0);
    state.store(GpuState::Running as u32, Ordering::Release);
    // SAFETY: places of locals. The thread inherits a mask in which the program's signals are blocked.
    let made = unsafe {
        pthread_sigmask(SIG_BLOCK, &raw const all, &raw mut before);
        let made = pthread_create(&raw mut thread, null(), serve, null_mut());
        pthread_sigmask(SIG_SETMASK, &raw const before, null_mut());
        made == 0 && pthread_detach(thread) == 0
    };
    if !made {
        state.store(GpuState::Unserved as u32, Ordering::Release);
        message(
            "cannot make the thread that saves what this rank has on its GPUs: while it uses one, no checkpoint can be \
             taken",
        );
    }
}

/// Serves the agent's requests for as long as the process lives.
extern "C" fn serve(_: *mut c_void) -> *mut c_void {
    let gpu = &gate().gpu;
    syscall::name_thread(c"stasis-gpu");
    loop {
        let asked = gpu.state.load(Ordering::Acquire);
        let answer = if asked == GpuState::Freeze as u32 {
            freeze()
        } else if asked == GpuState::Thaw as u32 {
            if let Loaded::Yes(driver) = Driver::loaded() {
                driver.thaw();
            }
            GpuState::Running
        } else {
            syscall::futex_wait(&gpu.state, asked);
            continue;
        };
        gpu.state.store(answer as u32, Ordering::Release);
        syscall::futex_wake(&gpu.state);
    }
}

fn freeze() -> GpuState {
    let gpu = &gate().gpu;
    let frozen = match Driver::loaded() {
        Loaded::No => Ok(GpuState::Running),
        Loaded::Old => Err((GpuCall::None, 0)),
        Loaded::Yes(driver) => driver.freeze(gpu.patience.load(Ordering::Relaxed)),
    };
    frozen.unwrap_or_else(|(call, error)| {
        gpu.call.store(call as u32, Ordering::Relaxed);
        gpu.error.store(error, Ordering::Relaxed);
        GpuState::Failed
    })
}
