//! The protocol between the process and its COW child. A request names parts of the child's memory. The child writes
//! them to the image, or computes the digests of their pages, directly from its memory; a read from another process
//! would copy the data twice.
//!
//! The two sides share a pair of sockets. A request to write carries the descriptor of the image, and the reply says
//! which pages held data. A request without a descriptor is one for digests, which are the reply. The connection ends
//! with the child.
//!
//! # Safety
//! The child is one thread of a process that had many: it allocates nothing, takes no lock, cannot panic, and
//! makes its system calls itself. A [`Message`] is plain numbers without padding. The memory that an order names is
//! there and can be read in the child, which is for the other side to know; nothing else runs there that could
//! change it.
#![allow(unsafe_code)]

use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use ckpt_image::{Span, WriteOrder, CHUNK_BYTES, PAGE};
use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};

use crate::changes::page_digests::{DigestKey, PageDigest};

/// Pages in one request, and so digests in one answer, and spans: each has a page at least.
const MOST_PAGES: usize = (WriteOrder::MOST_BYTES / PAGE) as usize;
/// Stretches of memory in one system call.
const MOST_SLICES: usize = 64;

/// Bytes that are written before more are looked at, so that a processor's cache still has them.
const IN_CACHE: usize = 256 << 10;

/// Distance in bytes of the page that is fetched while the digest of another is computed.
const AHEAD: u64 = 16 * PAGE;

/// A [`WriteOrder`] as a message, with whose file as a descriptor; or, without one, a request for digests.
#[repr(C)]
struct Request {
    offset: u64,
    /// Of the digests.
    key: [u64; 4],
    spans: u32,
    runs: u32,
    run: [WireRange; WriteOrder::MOST_RUNS],
}

impl Request {
    const EMPTY: Request = Request {
        offset: 0,
        key: [0; 4],
        spans: 0,
        runs: 0,
        run: [WireRange { start: 0, end: 0 }; WriteOrder::MOST_RUNS],
    };

    /// A request about these parts of memory.
    fn about(runs: &[Range<u64>]) -> Request {
        let mut request = Request {
            runs: runs.len() as u32,
            ..Request::EMPTY
        };
        for (run, Range { start, end }) in request.run.iter_mut().zip(runs.iter().cloned()) {
            *run = WireRange { start, end };
        }
        request
    }

    /// The parts of memory.
    fn ranges(&self) -> impl Iterator<Item = &WireRange> {
        self.run.iter().take(self.runs as usize)
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct WireRange {
    start: u64,
    end: u64,
}

/// The result of a request.
#[repr(C)]
struct WriteReply {
    /// The kernel's error number, or 0.
    error: i32,
    spans: u32,
    span: [WireSpan; MOST_PAGES],
}

impl WriteReply {
    const EMPTY: WriteReply = WriteReply {
        error: 0,
        spans: 0,
        span: [WireSpan {
            len: 0,
            stored: 0,
            crc: 0,
        }; MOST_PAGES],
    };
}

/// A [`Span`] as a message.
#[repr(C)]
#[derive(Clone, Copy)]
struct WireSpan {
    len: u32,
    stored: u32,
    crc: u32,
}

/// The digests of all pages of a request, in order.
#[repr(C)]
struct DigestReply {
    pages: u64,
    digest: [PageDigest; MOST_PAGES],
}

impl DigestReply {
    const EMPTY: DigestReply = DigestReply {
        pages: 0,
        digest: [PageDigest([0; 2]); MOST_PAGES],
    };
}

/// A value that is sent to the child byte by byte.
///
/// # Safety
/// It must be plain numbers without padding.
unsafe trait Message {}

// SAFETY: so the assertions below say.
unsafe impl Message for Request {}
// SAFETY: so the assertions below say.
unsafe impl Message for WriteReply {}
// SAFETY: so the assertions below say.
unsafe impl Message for DigestReply {}

const _: () = assert!(size_of::<Request>() == 48 + 16 * WriteOrder::MOST_RUNS);
const _: () = assert!(size_of::<DigestReply>() == 8 + 16 * MOST_PAGES);
const _: () = assert!(offset_of!(WriteReply, span) == 8 && size_of::<WireSpan>() == 12);

/// The two ends: the process's and the child's.
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    Ok(socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Has the child carry out an order. The error is a broken pipe if the child has ended.
pub fn request_write(copy: &OwnedFd, order: &WriteOrder<'_>) -> io::Result<Vec<Span>> {
    let mut sent = Request {
        offset: order.offset,
        spans: order.spans,
        ..Request::about(order.runs)
    };
    let (copy, file) = (copy.as_raw_fd(), order.file.as_raw_fd());
    let mut answer = WriteReply::EMPTY;
    exchange(Exchange::Send(Some(file)), copy, &mut sent)?;
    exchange(Exchange::Receive, copy, &mut answer)?;
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

/// Has the child append the digests of all pages of `runs`, which are no more than a [`WriteOrder`] may hold. The error
/// is a broken pipe if the child has ended.
pub fn request_digests(
    copy: &OwnedFd,
    key: &DigestKey,
    runs: &[Range<u64>],
    into: &mut Vec<PageDigest>,
) -> io::Result<()> {
    let mut sent = Request {
        key: key.0,
        ..Request::about(runs)
    };
    let mut answer = DigestReply::EMPTY;
    exchange(Exchange::Send(None), copy.as_raw_fd(), &mut sent)?;
    exchange(Exchange::Receive, copy.as_raw_fd(), &mut answer)?;
    into.extend(answer.digest.iter().take(answer.pages as usize));
    Ok(())
}

/// Carries out requests until the socket is closed. Runs in the child.
///
/// # Safety
/// Orders name memory of the calling process that can be read and that nothing changes.
pub unsafe fn serve(copy: RawFd) {
    let (mut order, mut answer) = (Request::EMPTY, WriteReply::EMPTY);
    let mut digests = DigestReply::EMPTY;
    while let Ok(file) = exchange(Exchange::Receive, copy, &mut order) {
        // SAFETY: for the memory the caller answers; a file came with the order, and is used by nothing else.
        let answered = unsafe {
            if let Some(file) = file {
                answer.spans = 0;
                answer.error = perform(&order, file, &mut answer).err().unwrap_or(0);
                libc::syscall(libc::SYS_close, file);
                exchange(Exchange::Send(None), copy, &mut answer)
            } else {
                digest(&order, &mut digests);
                exchange(Exchange::Send(None), copy, &mut digests)
            }
        };
        if answered.is_err() {
            break;
        }
    }
}

/// Computes the digests of the memory that the request names.
///
/// # Safety
/// As of [`serve`].
unsafe fn digest(order: &Request, answer: &mut DigestReply) {
    let key = DigestKey(order.key);
    let mut found = answer.digest.iter_mut();
    answer.pages = 0;
    for run in order.ranges() {
        for at in (run.start..run.end).step_by(PAGE as usize) {
            prefetch(at + AHEAD..run.end.min(at + AHEAD + PAGE));
            let Some(found) = found.next() else { return };
            // SAFETY: promised by the caller.
            let page = unsafe { std::slice::from_raw_parts(at as *const u8, PAGE as usize) };
            *found = key.digest(page);
            answer.pages += 1;
        }
    }
}

/// Writes the memory that the request names, up to the span that is one too many.
///
/// # Safety
/// As of [`serve`].
unsafe fn perform(order: &Request, file: RawFd, answer: &mut WriteReply) -> Result<(), i32> {
    let (mut left, mut offset) = (order.spans, order.offset);
    let mut slices = WriteBatch::default();
    let mut found = answer.span.iter_mut();
    'runs: for run in order.ranges() {
        let mut at = run.start;
        while at < run.end {
            let bytes = (run.end - at).min(CHUNK_BYTES as u64) as usize;
            prefetch(at + CHUNK_BYTES as u64..run.end.min(at + 2 * CHUNK_BYTES as u64));
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
            *found = WireSpan {
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

/// Prefetches the first cache line of each of these pages. Address translation takes longer than the read itself, and
/// the processor's own prefetch stops at the end of a page.
fn prefetch(pages: Range<u64>) {
    for page in pages.step_by(PAGE as usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch changes only the cache, for any address.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
                page as *const i8,
            );
        }
    }
}

/// Stretches of memory that are written by one system call.
struct WriteBatch {
    slice: [libc::iovec; MOST_SLICES],
    count: usize,
    bytes: usize,
}

impl Default for WriteBatch {
    fn default() -> WriteBatch {
        let none = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        WriteBatch {
            slice: [none; MOST_SLICES],
            count: 0,
            bytes: 0,
        }
    }
}

impl WriteBatch {
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

    /// Writes all of it, and starts an empty batch. Fails with the kernel's error number.
    fn write(&mut self, file: RawFd, offset: &mut u64) -> Result<(), i32> {
        const HIGH: libc::c_long = 0;
        let mut left = self.slice.get_mut(..self.count).unwrap_or_default();
        while !left.is_empty() {
            let (slices, many, at) = (left.as_ptr(), left.len(), *offset);
            // SAFETY: `slices` lists readable memory, which the kernel only reads.
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

/// The direction of a message.
#[derive(Clone, Copy)]
enum Exchange {
    /// It is sent, with this descriptor.
    Send(Option<RawFd>),
    /// It is received.
    Receive,
}

/// Sends or receives a whole message; returns the descriptor that came with it. It is an error if the other side has
/// closed the connection.
fn exchange(
    what: Exchange,
    socket: RawFd,
    message: &mut impl Message,
) -> io::Result<Option<RawFd>> {
    const FILE: u32 = size_of::<RawFd>() as u32;
    let length = size_of_val(message);
    let (call, file) = match what {
        Exchange::Send(file) => (libc::SYS_sendmsg, file),
        Exchange::Receive => (libc::SYS_recvmsg, None),
    };
    let mut content = libc::iovec {
        iov_base: (&raw mut *message).cast(),
        iov_len: length,
    };
    // Aligned as the kernel wants it, with room for one descriptor.
    let mut beside = [0u64; 3];
    // SAFETY: all fields are numbers and pointers, which may be zero. The pointers that are set refer to local
    // variables and to the message, which holds any numbers. The kernel returns the filled length of `beside`.
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
        if bytes as usize != length {
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
