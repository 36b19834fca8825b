//! What has changed since an older set: the kernel watches for writes to private memory, and each cut asks
//! it what it has seen and has it watch anew.
//!
//! The way is `userfaultfd` with asynchronous write protection (Linux 6.7), which needs no privileges: a page
//! that is looked at by PAGEMAP_SCAN is write-protected; whoever writes to it, be it the kernel for a system
//! call, is let through at once and the page is marked as written. What appears anew (fresh memory, memory
//! that was moved or given back with MADV_DONTNEED) carries no protection and so counts as written. A mapping
//! that was made since has no watcher, which the kernel's list of mappings tells: it is stored whole and
//! watched from then on.
//!
//! *Which pages are what they were* is kept for each set that may become the parent of the next: the last
//! that was committed and the one being made. A set that is given up costs nothing: what had not changed
//! until then and has not changed since has not changed.
//!
//! *What the kernel does not see* is what other hardware writes into memory that was registered with it
//! before the pages were protected. (Registering later counts as writing.) So nothing is believed while
//! memory is pinned.
//!
//! # Safety
//! `userfaultfd` watches for writes alone (no missing pages, no events), in user mode, and asynchronously:
//! no thread is ever held up by it. The ioctls take locals of the kernel's layout; the ranges are mappings of
//! the upper half that the kernel has just listed, whose threads stand still, and the probe's own.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ckpt_image::{Inherited, Parent, SetId};

use super::pages::{Marked, Pages};
use super::runs::{common, longest};
use super::PAGE;

/// As many runs as are kept of pages that have not changed: 16 MiB. What is left out is stored again.
const MOST_RUNS: usize = 1 << 20;

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`; `struct uffdio_writeprotect` is the same without the last field.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

const _: () = assert!(size_of::<Api>() == 24 && size_of::<Register>() == 32);

const fn iowr(number: u64, size: usize) -> libc::c_ulong {
    3 << 30 | (size as u64) << 16 | 0xAA << 8 | number
}

const UFFDIO_API: libc::c_ulong = iowr(0x3F, size_of::<Api>());
const UFFDIO_REGISTER: libc::c_ulong = iowr(0x00, size_of::<Register>());
const UFFDIO_WRITEPROTECT: libc::c_ulong = iowr(0x06, size_of::<Register>() - size_of::<u64>());
const USER_MODE_ONLY: libc::c_long = 1;
const REGISTER_MODE_WP: u64 = 1 << 1;
/// PAGEMAP_SCAN wants it, though pages that are not there are never protected here.
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;

/// The watch over this process's memory.
#[derive(Debug)]
pub struct Changes {
    watcher: OwnedFd,
    /// Memory that was moved to where it is not watched keeps its protection (kernels before 6.14).
    marks_stay: bool,
    bases: Mutex<Vec<Base>>,
}

/// A set that the next one may build upon.
#[derive(Debug)]
struct Base {
    set: SetId,
    /// Of this rank's image in it, once it is written.
    digest: Option<String>,
    /// Pages that the image holds, or inherits, and that are still the same.
    unchanged: Vec<Range<u64>>,
}

impl Changes {
    /// Begins to watch; says why not where the kernel cannot or may not.
    pub fn watch() -> Result<Changes, String> {
        let mut changes = Changes {
            marks_stay: true,
            watcher: watcher().map_err(|e| {
                format!(
                    "the kernel does not offer userfaultfd with asynchronous write protection ({e}); \
                     Linux 6.7 has it, unless a container's seccomp policy forbids it"
                )
            })?,
            bases: Mutex::default(),
        };
        match changes.probe() {
            Ok(true) => {
                changes.marks_stay = changes.marks_stay().unwrap_or(true);
                Ok(changes)
            }
            Ok(false) => {
                Err("the kernel does not tell rightly which pages were written".to_owned())
            }
            Err(e) => Err(format!(
                "the kernel does not tell which pages were written ({e})"
            )),
        }
    }

    /// Whether the kernel sees on some pages what it must.
    fn probe(&self) -> io::Result<bool> {
        const PAGES: u64 = 6;
        let pages = Pages::open()?;
        let scratch = Scratch::new((PAGES * PAGE) as usize)?;
        let range = scratch.range();
        let part = |from: u64, to: u64| range.start + from * PAGE..range.start + to * PAGE;
        // Pages 0 to 3 hold something; 1 is written again, 2 is given back, 5 is new.
        (0..4).for_each(|page| scratch.write(page));
        let first = self.mark(&pages, range.clone(), true, false)?;
        scratch.write(1);
        scratch.give_back(2);
        scratch.write(5);
        let second = self.mark(&pages, range.clone(), true, true)?;
        let third = self.mark(&pages, range.clone(), true, true)?;
        let left = vec![part(0, 2), part(3, 4), part(5, 6)];
        Ok(first.own == [part(0, 4)]
            && first.unchanged.is_empty()
            && second.own == left
            && second.unchanged == [part(0, 1), part(3, 4)]
            && third.unchanged == left)
    }

    /// Whether memory that was moved still carries marks when it is watched anew.
    fn marks_stay(&self) -> io::Result<bool> {
        let pages = Pages::open()?;
        let (from, to) = (Scratch::new(PAGE as usize)?, Scratch::new(PAGE as usize)?);
        from.write(0);
        self.register(&from.range())?;
        pages.mark(from.range(), true)?;
        from.move_to(&to)?;
        self.register(&to.range())?;
        Ok(!pages.mark(to.range(), true)?.unchanged.is_empty())
    }

    /// Why changes cannot be told now, if so.
    pub fn blind(&self) -> Option<String> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let pinned = status.lines().find_map(|line| line.strip_prefix("VmPin:"));
        let pinned = pinned.map_or("", |size| size.trim());
        if pinned != "0 kB" {
            return Some(format!(
                "{pinned} of memory are registered with a device, which changes it unseen"
            ));
        }
        let open = fs::read_dir("/proc/self/fd")
            .into_iter()
            .flatten()
            .flatten();
        let mut files = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        let reached = files.any(|file| file.as_os_str() == "/dev/xpmem");
        reached.then(|| "other processes can change memory unseen (/dev/xpmem)".to_owned())
    }

    /// The process's own pages of a mapping, and which of them have not changed since they were marked
    /// last: none where the mapping was not `watched` yet.
    pub fn mark(
        &self,
        pages: &Pages,
        range: Range<u64>,
        anonymous: bool,
        watched: bool,
    ) -> io::Result<Marked> {
        if watched {
            return pages.mark(range, anonymous);
        }
        self.register(&range)?;
        if self.marks_stay {
            self.unprotect(&range)?;
        }
        Ok(Marked {
            unchanged: Vec::new(),
            ..pages.mark(range, anonymous)?
        })
    }

    fn register(&self, range: &Range<u64>) -> io::Result<()> {
        self.ioctl(UFFDIO_REGISTER, range, REGISTER_MODE_WP)
    }

    fn unprotect(&self, range: &Range<u64>) -> io::Result<()> {
        self.ioctl(UFFDIO_WRITEPROTECT, range, 0)
    }

    fn ioctl(&self, request: libc::c_ulong, range: &Range<u64>, mode: u64) -> io::Result<()> {
        let mut argument = Register {
            start: range.start,
            len: range.end - range.start,
            mode,
            ioctls: 0,
        };
        ioctl(&self.watcher, request, &mut argument)
    }

    /// All watched pages were marked just now, and had not changed since they were marked last where this
    /// says so.
    pub fn narrow(&self, unchanged: &[Range<u64>]) {
        for base in self.bases().iter_mut() {
            base.unchanged = longest(common(unchanged, &base.unchanged), MOST_RUNS);
        }
    }

    /// Bytes that an increment need not hold, as far as is known.
    pub fn kept(&self) -> u64 {
        let bases = self.bases();
        bases
            .last()
            .map_or(0, |base| super::runs::bytes(&base.unchanged))
    }

    /// A cut: all watched pages were marked just now, with this result. Returns what this rank's image of
    /// the set `set` inherits from that of `parent`: nothing if that one is not known any more.
    pub fn cut(&self, set: SetId, parent: Option<SetId>, marked: Marked) -> Option<Inherited> {
        self.bases()
            .retain(|base| Some(base.set) == parent && base.digest.is_some());
        self.narrow(&marked.unchanged);
        let mut bases = self.bases();
        let inherited = bases.first().and_then(|base| {
            Some(Inherited {
                parent: Parent {
                    set_id: base.set,
                    digest: base.digest.clone()?,
                },
                runs: base.unchanged.clone(),
            })
        });
        bases.push(Base {
            set,
            digest: None,
            unchanged: longest(marked.own, MOST_RUNS),
        });
        inherited.filter(|inherited| !inherited.runs.is_empty())
    }

    /// This rank's image of a set is written.
    pub fn written(&self, set: SetId, digest: &str) {
        let mut bases = self.bases();
        if let Some(base) = bases.iter_mut().find(|base| base.set == set) {
            base.digest = Some(digest.to_owned());
        }
    }

    /// Nothing that was seen is to be believed.
    pub fn forget(&self) {
        self.bases().clear();
    }

    fn bases(&self) -> MutexGuard<'_, Vec<Base>> {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watcher() -> io::Result<OwnedFd> {
    let flags = libc::c_long::from(libc::O_CLOEXEC | libc::O_NONBLOCK) | USER_MODE_ONLY;
    // SAFETY: without memory; the descriptor is new.
    let watcher = unsafe {
        match libc::syscall(libc::SYS_userfaultfd, flags) {
            -1 => return Err(io::Error::last_os_error()),
            fd => OwnedFd::from_raw_fd(fd as i32),
        }
    };
    let mut api = Api {
        api: 0xAA,
        features: WP_UNPOPULATED | WP_ASYNC,
        ioctls: 0,
    };
    ioctl(&watcher, UFFDIO_API, &mut api)?;
    Ok(watcher)
}

fn ioctl<T>(fd: &OwnedFd, request: libc::c_ulong, argument: &mut T) -> io::Result<()> {
    // SAFETY: see the head of this file.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Some memory to try things on; gone when dropped.
struct Scratch {
    at: *mut libc::c_void,
    len: usize,
}

impl Scratch {
    fn new(len: usize) -> io::Result<Scratch> {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a fresh mapping at a place of the kernel's choice.
        match unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) } {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            at => Ok(Scratch { at, len }),
        }
    }

    fn range(&self) -> Range<u64> {
        self.at as u64..self.at as u64 + self.len as u64
    }

    /// Moves what is in it to the place of `other`, which is as long.
    fn move_to(&self, other: &Scratch) -> io::Result<()> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        // SAFETY: both are mapped, nothing refers to them, and both stay so.
        match unsafe { libc::mremap(self.at, self.len, other.len, flags, other.at) } {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn page(&self, page: u64) -> *mut u8 {
        self.at.cast::<u8>().wrapping_add((page * PAGE) as usize)
    }

    fn write(&self, page: u64) {
        // SAFETY: inside the mapping, to which nothing refers.
        unsafe { self.page(page).write_volatile(1) };
    }

    fn give_back(&self, page: u64) {
        // SAFETY: the same.
        unsafe { libc::madvise(self.page(page).cast(), PAGE as usize, libc::MADV_DONTNEED) };
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nothing refers to it.
        unsafe { libc::munmap(self.at, self.len) };
    }
}
