//! A copy of the memory writes itself: it is told which of its memory goes where in the image, and writes that
//! from where it lies. To read it from outside, the kernel copies it twice first.
//!
//! The two sides have a pair of sockets. An order goes one way, with the file; what was found in the memory comes
//! back. An end of the copy ends the conversation.
//!
//! # Safety
//! The copy is one thread of a process that had many: it allocates nothing, takes no lock, cannot panic, and
//! makes its system calls itself. Messages are plain numbers without padding. The memory that an order names is
//! there and can be read in the copy, which is for the other side to know; nothing else runs there that could
//! change it.
#![allow(unsafe_code)]

use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use ckpt_image::{Span, WriteOrder, CHUNK_BYTES, PAGE};

/// Spans in one answer: each has a page at least.
const MOST_SPANS: usize = (WriteOrder::MOST_BYTES / PAGE) as usize;
/// Stretches of memory in one system call.
const MOST_SLICES: usize = 64;

/// Bytes that are written before more are looked at, so that a processor's cache still has them.
const IN_CACHE: usize = 256 << 10;

/// A [`WriteOrder`] on its way, with its file beside it.
#[repr(C)]
struct Order {
    offset: u64,
    spans: u32,
    runs: u32,
    run: [Run; WriteOrder::MOST_RUNS],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Run {
    start: u64,
    end: u64,
}

/// What became of it.
#[repr(C)]
struct Answer {
    /// The kernel's number of what went wrong, or 0.
    error: i32,
    spans: u32,
    span: [Found; MOST_SPANS],
}

/// A [`Span`] on its way.
#[repr(C)]
#[derive(Clone, Copy)]
struct Found {
    len: u32,
    stored: u32,
    crc: u32,
}

const _: () = assert!(size_of::<Order>() == 16 + 16 * WriteOrder::MOST_RUNS);
const _: () = assert!(offset_of!(Answer, span) == 8 && size_of::<Found>() == 12);

/// The two ends: for who orders, and for the copy.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel fills the array, with descriptors that are nobody's yet.
    unsafe {
        if libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Has the copy carry out an order. The pipe is broken where it has ended.
pub fn write(copy: &OwnedFd, order: &WriteOrder<'_>) -> io::Result<Vec<Span>> {
    let mut run = [Run { start: 0, end: 0 }; WriteOrder::MOST_RUNS];
    for (run, Range { start, end }) in run.iter_mut().zip(order.runs.iter().cloned()) {
        *run = Run { start, end };
    }
    let mut sent = Order {
        offset: order.offset,
        spans: order.spans,
        runs: order.runs.len() as u32,
        run,
    };
    let file = order.file.as_raw_fd();
    // SAFETY: plain numbers; the kernel fills the answer with such.
    let answer = unsafe {
        exchange(libc::SYS_sendmsg, copy.as_raw_fd(), &mut sent, Some(file))?;
        let mut answer: Answer = zeroed();
        exchange(libc::SYS_recvmsg, copy.as_raw_fd(), &mut answer, None)?;
        answer
    };
    if answer.error != 0 {
        return Err(io::Error::from_raw_os_error(answer.error));
    }
    let spans = answer.span.iter().take(answer.spans as usize);
    Ok(spans
        .map(|found| Span {
            len: found.len,
            crc: (found.stored != 0).then_some(found.crc),
        })
        .collect())
}

/// Carries out orders until nobody gives any: what the copy does.
///
/// # Safety
/// Orders name memory of the calling process that can be read and that nothing changes.
pub unsafe fn serve(copy: RawFd) {
    // SAFETY: all of these are plain numbers, for which zeros will do.
    let (mut order, mut answer): (Order, Answer) = unsafe { zeroed() };
    // SAFETY: the kernel fills the order and reads the answer; for the memory the caller answers.
    unsafe {
        while let Ok(Some(file)) = exchange(libc::SYS_recvmsg, copy, &mut order, None) {
            answer.spans = 0;
            answer.error = carry_out(&order, file, &mut answer).err().unwrap_or(0);
            libc::syscall(libc::SYS_close, file);
            if exchange(libc::SYS_sendmsg, copy, &mut answer, None).is_err() {
                break;
            }
        }
    }
}

/// Writes what the order names, up to the span that is one too many.
///
/// # Safety
/// As of [`serve`].
unsafe fn carry_out(order: &Order, file: RawFd, answer: &mut Answer) -> Result<(), i32> {
    let (mut left, mut offset) = (order.spans, order.offset);
    let mut slices = Slices::default();
    let mut found = answer.span.iter_mut();
    'runs: for run in order.run.iter().take(order.runs as usize) {
        let mut at = run.start;
        while at < run.end {
            let bytes = (run.end - at).min(CHUNK_BYTES as u64) as usize;
            fetch(at + CHUNK_BYTES as u64..run.end.min(at + 2 * CHUNK_BYTES as u64));
            // SAFETY: promised by the caller.
            let memory = unsafe { std::slice::from_raw_parts(at as *const u8, bytes) };
            let Span { len, crc } = Span::first_of(memory);
            let Some(found) = found.next().filter(|_| crc.is_none() || left > 0) else {
                break 'runs;
            };
            if crc.is_some() {
                left -= 1;
                slices.add(at, len as usize);
                if slices.full() {
                    slices.write(file, &mut offset)?;
                }
            }
            *found = Found {
                len,
                stored: crc.is_some().into(),
                crc: crc.unwrap_or(0),
            };
            answer.spans += 1;
            at += u64::from(len);
        }
    }
    slices.write(file, &mut offset)
}

/// Has the processor fetch the beginning of each of these pages meanwhile: where it lies takes longer to find out
/// than what is there to read, and by itself it does not look beyond a page.
fn fetch(pages: Range<u64>) {
    for page in pages.step_by(PAGE as usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: changes nothing but what is in the cache, whatever the address.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
                page as *const i8,
            );
        }
    }
}

/// Memory to be written, one stretch behind the other.
struct Slices {
    slice: [libc::iovec; MOST_SLICES],
    count: usize,
    bytes: usize,
}

impl Default for Slices {
    fn default() -> Slices {
        let none = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        Slices {
            slice: [none; MOST_SLICES],
            count: 0,
            bytes: 0,
        }
    }
}

impl Slices {
    /// There is room as long as it is not full.
    fn add(&mut self, at: u64, len: usize) {
        let end = |slice: &libc::iovec| slice.iov_base as u64 + slice.iov_len as u64;
        self.bytes += len;
        let last = self.slice.iter_mut().take(self.count).last();
        if let Some(last) = last.filter(|last| end(last) == at) {
            last.iov_len += len;
        } else if let Some(free) = self.slice.get_mut(self.count) {
            *free = libc::iovec {
                iov_base: at as *mut libc::c_void,
                iov_len: len,
            };
            self.count += 1;
        }
    }

    fn full(&self) -> bool {
        self.count == MOST_SLICES || self.bytes >= IN_CACHE
    }

    /// Writes all of it, and begins anew behind it. Fails with the kernel's number.
    fn write(&mut self, file: RawFd, offset: &mut u64) -> Result<(), i32> {
        const HIGH: libc::c_long = 0;
        let mut left = self.slice.get_mut(..self.count).unwrap_or_default();
        while !left.is_empty() {
            let (slices, many, at) = (left.as_ptr(), left.len(), *offset);
            // SAFETY: so many stretches of memory, which the kernel only reads.
            let written = unsafe { libc::syscall(libc::SYS_pwritev, file, slices, many, at, HIGH) };
            let mut written = match usize::try_from(written) {
                Ok(0) => return Err(libc::EIO),
                Ok(written) => written,
                Err(_) if errno() == libc::EINTR => continue,
                Err(_) => return Err(errno()),
            };
            *offset += written as u64;
            let mut whole = 0;
            for slice in left.iter_mut() {
                let taken = slice.iov_len.min(written);
                slice.iov_base = slice.iov_base.wrapping_byte_add(taken);
                slice.iov_len -= taken;
                written -= taken;
                whole += usize::from(slice.iov_len == 0);
            }
            left = left.get_mut(whole..).unwrap_or_default();
        }
        (self.count, self.bytes) = (0, 0);
        Ok(())
    }
}

/// Sends (`SYS_sendmsg`) or receives (`SYS_recvmsg`) a message as a whole, with the descriptor that goes or
/// comes with it. The end of the other side is an error.
///
/// # Safety
/// The message is plain numbers without padding.
unsafe fn exchange<T>(
    call: libc::c_long,
    socket: RawFd,
    message: &mut T,
    file: Option<RawFd>,
) -> io::Result<Option<RawFd>> {
    const FILE: u32 = size_of::<RawFd>() as u32;
    let mut content = libc::iovec {
        iov_base: (&raw mut *message).cast(),
        iov_len: size_of::<T>(),
    };
    // Aligned as the kernel wants it, with room for one descriptor.
    let mut beside = [0u64; 3];
    // SAFETY: numbers and pointers, all of which may be zero; what is set points to what lives here. The
    // kernel tells how much of `beside` it has filled.
    unsafe {
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = &raw mut content;
        header.msg_iovlen = 1;
        header.msg_control = beside.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&beside);
        if call == libc::SYS_sendmsg {
            header.msg_controllen = 0;
        }
        if let Some(file) = file {
            let control: *mut libc::cmsghdr = beside.as_mut_ptr().cast();
            (*control).cmsg_len = libc::CMSG_LEN(FILE) as usize;
            (*control).cmsg_level = libc::SOL_SOCKET;
            (*control).cmsg_type = libc::SCM_RIGHTS;
            libc::CMSG_DATA(control)
                .cast::<RawFd>()
                .write_unaligned(file);
            header.msg_controllen = libc::CMSG_SPACE(FILE) as usize;
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC;
        let bytes = loop {
            match libc::syscall(call, socket, &raw mut header, flags) {
                -1 if errno() == libc::EINTR => {}
                -1 => return Err(io::Error::from_raw_os_error(libc::EPIPE)),
                bytes => break bytes,
            }
        };
        if bytes as usize != size_of::<T>() {
            return Err(io::Error::from_raw_os_error(libc::EPIPE));
        }
        let control = libc::CMSG_FIRSTHDR(&raw const header);
        let came = call == libc::SYS_recvmsg && !control.is_null();
        Ok(came.then(|| libc::CMSG_DATA(control).cast::<RawFd>().read_unaligned()))
    }
}

fn errno() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}
