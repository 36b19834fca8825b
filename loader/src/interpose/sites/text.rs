//! Facts that the kernel has about the application's code: its mapping, whether its pages are the file's, whether
//! a debugger traces the process.
//!
//! It is read in the handler of trapped calls: no allocation, no C library.

use crate::load::va_allocator::PAGE;
use crate::sys::syscall;
use core::ffi::CStr;

/// Calls `line` with each line of a file, of which only the first bytes are kept, until it returns a value.
fn each_line<R>(path: &CStr, mut line: impl FnMut(&[u8]) -> Option<R>) -> Option<R> {
    const KEPT: usize = 128;
    let file = syscall::open(path, libc::O_CLOEXEC);
    if syscall::is_err(file) {
        return None;
    }
    let (mut kept, mut len) = ([0u8; KEPT], 0);
    let mut buffer = [0u8; 1024];
    let mut found = None;
    'file: loop {
        let got = syscall::read(file as i32, &mut buffer);
        if got <= 0 {
            break;
        }
        for byte in &buffer[..got as usize] {
            if *byte == b'\n' {
                found = line(&kept[..len]);
                len = 0;
                if found.is_some() {
                    break 'file;
                }
            } else if len < KEPT {
                kept[len] = *byte;
                len += 1;
            }
        }
    }
    syscall::plain(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
    found
}

/// The hexadecimal number at the start, and the bytes behind it.
fn number(text: &[u8]) -> (usize, &[u8]) {
    let mut value = 0;
    for (at, byte) in text.iter().enumerate() {
        let Some(digit) = (*byte as char).to_digit(16) else {
            return (value, &text[at..]);
        };
        value = value << 4 | digit as usize;
    }
    (value, &[])
}

/// The mapping at an address, if it is private, executable and not writable.
pub fn mapping(address: usize) -> Option<[usize; 2]> {
    let found = each_line(c"/proc/self/maps", |line| {
        let (start, rest) = number(line);
        let (end, rest) = number(rest.strip_prefix(b"-")?);
        (address < end).then_some((start, end, rest.starts_with(b" r-xp")))
    });
    let (start, end, fit) = found?;
    (fit && start <= address).then_some([start, end])
}

/// Whether a debugger traces the process.
pub fn is_traced() -> bool {
    let tracer = each_line(c"/proc/self/status", |line| {
        let value = line.strip_prefix(b"TracerPid:")?.trim_ascii();
        Some(value != b"0")
    });
    tracer == Some(true)
}

/// Whether all pages of a private mapping are the file's own, and none a copy.
pub fn is_of_file([start, end]: [usize; 2]) -> bool {
    const ENTRY: usize = size_of::<u64>();
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const OF_FILE: u64 = 1 << 61;
    let file = syscall::open(c"/proc/self/pagemap", libc::O_CLOEXEC);
    if syscall::is_err(file) {
        return false;
    }
    let (mut page, end) = (start / PAGE, end / PAGE);
    let mut buffer = [0u8; 128 * ENTRY];
    while page < end {
        let wanted = buffer.len().min((end - page) * ENTRY);
        let place = (page * ENTRY) as u64;
        let got = syscall::read_at(file as i32, &mut buffer[..wanted], place);
        let is_copy = |entry: &[u8]| {
            let entry = entry.try_into().map_or(u64::MAX, u64::from_le_bytes);
            // A page that is not present will be read from the file.
            entry & SWAPPED != 0 || (entry & PRESENT != 0 && entry & OF_FILE == 0)
        };
        if got != wanted as isize || buffer[..wanted].chunks(ENTRY).any(is_copy) {
            break;
        }
        page += wanted / ENTRY;
    }
    syscall::plain(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
    page == end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_this_program_is_found() {
        let here = mapping as *const () as usize;
        let [start, end] = mapping(here).expect("code");
        assert!((start..end).contains(&here) && is_of_file([start, end]));
        let data = Box::new(0u64);
        let data = &raw const *data as usize;
        assert_eq!(mapping(data), None);
        let page = data & !(PAGE - 1);
        assert!(!is_of_file([page, page + PAGE]) && !is_traced());
    }
}
