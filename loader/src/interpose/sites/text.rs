//! Facts that the kernel has about the application's code: its mapping, whether a page is the file's, whether a
//! debugger traces the process.
//!
//! It is read in the handler of trapped calls: no allocation, no C library.

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

/// Whether a page of a private mapping is the file's own, and not a copy.
pub fn is_of_file(page: usize) -> bool {
    const PRESENT: u64 = 1 << 63;
    const OF_FILE: u64 = 1 << 61;
    let file = syscall::open(c"/proc/self/pagemap", libc::O_CLOEXEC);
    if syscall::is_err(file) {
        return false;
    }
    let mut entry = [0u8; 8];
    let got = syscall::read_at(file as i32, &mut entry, page as u64 / 4096 * 8);
    syscall::plain(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]);
    got == 8 && u64::from_le_bytes(entry) & (PRESENT | OF_FILE) == PRESENT | OF_FILE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_this_program_is_found() {
        let here = mapping as *const () as usize;
        let [start, end] = mapping(here).expect("code");
        assert!((start..end).contains(&here) && is_of_file(here));
        let data = Box::new(0u64);
        let data = &raw const *data as usize;
        assert_eq!(mapping(data), None);
        assert!(!is_of_file(data) && !is_traced());
    }
}
