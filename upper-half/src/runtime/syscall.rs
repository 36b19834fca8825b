//! The few system calls that this library makes itself. They do not go through libc: this code runs beside the
//! application's libc and must not depend on its state.
//!
//! # Safety
//! Each function is the bare system call; its documentation says what it does to memory.
#![allow(unsafe_code)]

use core::arch::asm;
use core::ffi::CStr;
use core::sync::atomic::AtomicU32;

const SYS_WRITE: usize = 1;
const SYS_OPEN: usize = 2;
const SYS_CLOSE: usize = 3;
const SYS_MMAP: usize = 9;
const SYS_MUNMAP: usize = 11;
const SYS_MINCORE: usize = 27;
const SYS_GETPID: usize = 39;
const SYS_FTRUNCATE: usize = 77;
const SYS_UNLINK: usize = 87;
const SYS_PRCTL: usize = 157;
const SYS_ARCH_PRCTL: usize = 158;
const SYS_FUTEX: usize = 202;
const SYS_EXIT_GROUP: usize = 231;
const SYS_PRLIMIT64: usize = 302;
const SYS_MEMFD_CREATE: usize = 319;

const PROT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const MAP_FIXED: usize = 0x10;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const MAP_NORESERVE: usize = 0x4000;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
const O_RDWR_CLOEXEC_NOFOLLOW: usize = 0x2 | 0x8_0000 | 0x2_0000;
const O_CREAT_EXCL: usize = 0x40 | 0x80;
const OWNER_ONLY: usize = 0o600;
const ARCH_SET_GS: usize = 0x1001;
const MFD_CLOEXEC: usize = 1;
const PR_SET_NAME: usize = 15;
const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;
const RLIMIT_FSIZE: usize = 1;

/// A raw system call.
///
/// # Safety
/// As the system call itself.
pub unsafe fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller answers for the call; the kernel clobbers only rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Fresh zeroed memory that costs nothing until it is touched; `None` when there is none.
pub fn map(bytes: usize) -> Option<*mut u8> {
    // SAFETY: a new anonymous mapping at an address that the kernel chooses.
    let address = unsafe {
        syscall(
            SYS_MMAP,
            [
                0,
                bytes,
                PROT_READ_WRITE,
                MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE,
                usize::MAX,
                0,
            ],
        )
    };
    (address > 0).then_some(address as *mut u8)
}

/// Memory of the file `path`, shared with all that map it. `create` makes the file, which must not
/// exist yet, and gives it `bytes`.
pub fn map_shared(path: &CStr, bytes: usize, create: bool) -> Option<Mapping> {
    let extra = if create { O_CREAT_EXCL } else { 0 };
    let flags = O_RDWR_CLOEXEC_NOFOLLOW | extra;
    // SAFETY: a path with its NUL.
    let opened = unsafe {
        syscall(
            SYS_OPEN,
            [path.as_ptr() as usize, flags, OWNER_ONLY, 0, 0, 0],
        )
    };
    let file = Descriptor(usize::try_from(opened).ok()?);
    let sized = !create || file.truncate(bytes);
    file.map(bytes).filter(|_| sized)
}

/// A descriptor that is closed when this is dropped.
pub struct Descriptor(usize);

impl Descriptor {
    /// Its number.
    pub fn number(&self) -> usize {
        self.0
    }

    /// Gives the file this size; whether that could be done.
    fn truncate(&self, bytes: usize) -> bool {
        by_numbers(SYS_FTRUNCATE, [self.0, bytes]) == 0
    }

    /// Maps the file, shared with all that map it.
    fn map(&self, bytes: usize) -> Option<Mapping> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let address =
            unsafe { syscall(SYS_MMAP, [0, bytes, PROT_READ_WRITE, MAP_SHARED, self.0, 0]) };
        (address > 0).then_some(Mapping {
            start: address as *mut u8,
            bytes,
        })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        by_numbers(SYS_CLOSE, [self.0, 0]);
    }
}

/// A system call that uses no memory of this process.
fn by_numbers(number: usize, [first, second]: [usize; 2]) -> isize {
    // SAFETY: numbers alone.
    unsafe { syscall(number, [first, second, 0, 0, 0, 0]) }
}

/// Makes a mapping one of new shared memory with the same content, which another process can open by the descriptor.
/// `None` if there is no such memory; the mapping is as before then.
///
/// The content is copied only where `filled`.
pub fn share(mapping: &Mapping, name: &CStr, filled: bool) -> Option<Descriptor> {
    let (start, bytes) = (mapping.start as usize, mapping.bytes);
    // A larger file than the limit allows would be answered with a signal.
    if bytes as u64 > largest_file()? {
        return None;
    }
    // SAFETY: a name with its NUL. The content is copied between two mappings of that many bytes. The last mapping
    // takes the place of memory that belongs to `mapping`, with the same content.
    unsafe {
        let name = name.as_ptr() as usize;
        let made = syscall(SYS_MEMFD_CREATE, [name, MFD_CLOEXEC, 0, 0, 0, 0]);
        let memory = Descriptor(usize::try_from(made).ok()?);
        if !memory.truncate(bytes) {
            return None;
        }
        if filled {
            core::ptr::copy_nonoverlapping(mapping.start, memory.map(bytes)?.start, bytes);
        }
        let (flags, fd) = (MAP_SHARED | MAP_FIXED, memory.number());
        let placed = syscall(SYS_MMAP, [start, bytes, PROT_READ_WRITE, flags, fd, 0]);
        (placed == start as isize).then_some(memory)
    }
}

/// Bytes of the largest file that this process may make (RLIMIT_FSIZE).
fn largest_file() -> Option<u64> {
    let mut limits = [0_u64; 2];
    let place = limits.as_mut_ptr() as usize;
    // SAFETY: the kernel fills the local.
    let done = unsafe { syscall(SYS_PRLIMIT64, [0, RLIMIT_FSIZE, 0, place, 0, 0]) };
    (done == 0).then_some(limits[0])
}

/// Memory that is mapped until this is dropped. Its address is no secret: the code that reads or writes there ensures
/// that it still is.
pub struct Mapping {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: an address range, which any thread may give back.
unsafe impl Send for Mapping {}
// SAFETY: as above. A shared one only tells the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Fresh zeroed memory, as of [`map`].
    pub fn anonymous(bytes: usize) -> Option<Mapping> {
        map(bytes).map(|start| Mapping { start, bytes })
    }

    /// Its first byte.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: no other code gives the range back, and none uses it any more, see above.
        unsafe { unmap(self.start, self.bytes) };
    }
}

/// Removes the name of a file.
pub fn unlink(path: &CStr) {
    // SAFETY: a path with its NUL. Whether it was there does not matter.
    unsafe { syscall(SYS_UNLINK, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// The process id, as the application knows it.
pub fn process_id() -> i32 {
    by_numbers(SYS_GETPID, [0; 2]) as i32
}

/// Zeroed memory at an address where nothing is mapped yet.
pub fn map_at(address: usize, bytes: usize) -> bool {
    // SAFETY: NOREPLACE, so no existing mapping is touched.
    let got = unsafe {
        syscall(
            SYS_MMAP,
            [
                address,
                bytes,
                PROT_READ_WRITE,
                MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                usize::MAX,
                0,
            ],
        )
    };
    got == address as isize
}

/// Gives memory of [`map`] back.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap(address: *mut u8, bytes: usize) -> bool {
    // SAFETY: passed on to the caller.
    unsafe { syscall(SYS_MUNMAP, [address as usize, bytes, 0, 0, 0, 0]) == 0 }
}

/// Whether the page at `address` is mapped at all.
pub fn is_mapped(address: usize) -> bool {
    let mut residency = 0u8;
    // SAFETY: mincore only writes one byte for the one page asked about.
    unsafe {
        syscall(
            SYS_MINCORE,
            [address, 4096, (&raw mut residency) as usize, 0, 0, 0],
        ) == 0
    }
}

/// Sets GS base.
///
/// # Safety
/// `block` must be a valid thread block for as long as the thread lives.
pub unsafe fn set_gs(block: usize) -> bool {
    // SAFETY: passed on to the caller.
    unsafe { syscall(SYS_ARCH_PRCTL, [ARCH_SET_GS, block, 0, 0, 0, 0]) == 0 }
}

/// Names the calling thread, for the user.
pub fn name_thread(name: &CStr) {
    // SAFETY: a name with its NUL.
    unsafe { syscall(SYS_PRCTL, [PR_SET_NAME, name.as_ptr() as usize, 0, 0, 0, 0]) };
}

/// Waits while `word` has this value, or shorter.
pub fn futex_wait(word: &AtomicU32, value: u32) {
    let (address, value) = (core::ptr::from_ref(word) as usize, value as usize);
    // SAFETY: the kernel reads the word, which lives.
    unsafe { syscall(SYS_FUTEX, [address, FUTEX_WAIT_PRIVATE, value, 0, 0, 0]) };
}

/// Wakes all that wait for a change of `word`.
pub fn futex_wake(word: &AtomicU32) {
    let (address, all) = (core::ptr::from_ref(word) as usize, i32::MAX as usize);
    // SAFETY: the kernel uses the address alone.
    unsafe { syscall(SYS_FUTEX, [address, FUTEX_WAKE_PRIVATE, all, 0, 0, 0]) };
}

/// Writes to standard error.
pub fn write_error(text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        // SAFETY: write only reads `rest`.
        let n = unsafe { syscall(SYS_WRITE, [2, rest.as_ptr() as usize, rest.len(), 0, 0, 0]) };
        match usize::try_from(n) {
            Ok(n) if n > 0 => rest = rest.get(n..).unwrap_or_default(),
            _ => return,
        }
    }
}

/// Ends the process.
pub fn exit(code: i32) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { syscall(SYS_EXIT_GROUP, [code as usize, 0, 0, 0, 0, 0]) };
    }
}
