//! Marks of written pages: the kernel records writes to private memory, and each save reads the record and starts a new
//! one.
//!
//! The mechanism is `userfaultfd` with asynchronous write protection (Linux 6.7), which needs no privileges:
//! PAGEMAP_SCAN write-protects each page that it reports; a write to the page, also one by the kernel for a system
//! call, proceeds at once and marks the page as written. New memory (fresh, moved, or released with MADV_DONTNEED) has
//! no protection and so counts as written. A mapping that was created since is not tracked, as the kernel's list of
//! mappings shows. It is stored whole and tracked from then on.
//!
//! The kernel does not see writes by other hardware into memory that was registered with it
//! before the pages were protected. (Registering later counts as writing.) So marks are unreliable while memory is
//! pinned.
//!
//! # Safety
//! `userfaultfd` watches for writes alone (no missing pages, no events), in user mode, and asynchronously: it never
//! blocks a thread. The ioctls take locals of the kernel's layout; the ranges are mappings of the upper half that the
//! kernel has just listed, whose threads stand still, and the probe's own.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use ckpt_image::PAGE;

use crate::anonymous::AnonymousMapping;
use crate::pagemap::{MarkedPages, Pagemap};

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

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
/// PAGEMAP_SCAN requires it, although missing pages are never protected here.
const WP_UNPOPULATED: u64 = 1 << 13;
const WP_ASYNC: u64 = 1 << 15;

/// The kernel's record of writes to this process's memory.
#[derive(Debug)]
pub struct WriteMarks {
    watcher: OwnedFd,
    /// Whether memory that was moved to untracked addresses keeps its write protection (kernels before 6.14).
    marks_stay: bool,
}

impl WriteMarks {
    /// Starts to track writes, or returns the reason why the kernel cannot or may not.
    pub fn start() -> Result<WriteMarks, String> {
        let mut marks = WriteMarks {
            marks_stay: true,
            watcher: watcher().map_err(|e| {
                format!(
                    "the kernel does not offer userfaultfd with asynchronous write protection ({e}); \
                     Linux 6.7 has it, unless a container's seccomp policy forbids it"
                )
            })?,
        };
        match marks.probe() {
            Ok(true) => {
                marks.marks_stay = marks.marks_stay().unwrap_or(true);
                Ok(marks)
            }
            Ok(false) => {
                Err("the kernel does not tell rightly which pages were written".to_owned())
            }
            Err(e) => Err(format!(
                "the kernel does not tell which pages were written ({e})"
            )),
        }
    }

    /// Whether the kernel reports writes to some test pages correctly.
    fn probe(&self) -> io::Result<bool> {
        const PAGES: u64 = 6;
        let pages = Pagemap::open()?;
        let scratch = AnonymousMapping::new((PAGES * PAGE) as usize, READ_WRITE)?;
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

    /// Whether memory that was moved still has its marks when it is tracked again.
    fn marks_stay(&self) -> io::Result<bool> {
        let pages = Pagemap::open()?;
        let (from, to) = (
            AnonymousMapping::new(PAGE as usize, READ_WRITE)?,
            AnonymousMapping::new(PAGE as usize, READ_WRITE)?,
        );
        from.write(0);
        self.register(&from.range())?;
        pages.mark(from.range(), true)?;
        from.move_to(&to)?;
        self.register(&to.range())?;
        Ok(!pages.mark(to.range(), true)?.unchanged.is_empty())
    }

    /// The process's own pages of a mapping, and those of them that have not changed since they were marked
    /// last. No page counts as unchanged if the mapping was not `tracked` yet.
    pub fn mark(
        &self,
        pages: &Pagemap,
        range: Range<u64>,
        anonymous: bool,
        tracked: bool,
    ) -> io::Result<MarkedPages> {
        if tracked {
            return pages.mark(range, anonymous);
        }
        self.register(&range)?;
        if self.marks_stay {
            self.unprotect(&range)?;
        }
        Ok(MarkedPages {
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

impl AnonymousMapping {
    fn range(&self) -> Range<u64> {
        self.start as u64..(self.start + self.len) as u64
    }

    /// Moves what is in it to the place of `other`, which is as long.
    fn move_to(&self, other: &AnonymousMapping) -> io::Result<()> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        // UCX puts a function of its own in the place of mremap, to see its calls. It loses the new address.
        // SAFETY: both are mapped, nothing refers to them, and both stay so.
        let moved = unsafe {
            libc::syscall(
                libc::SYS_mremap,
                self.page(0),
                self.len,
                other.len,
                flags,
                other.page(0),
            )
        };
        match moved {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn page(&self, page: u64) -> *mut u8 {
        (self.start + (page * PAGE) as usize) as *mut u8
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
