//! Strings. A Fortran string is padded with blanks, and its length in bytes is a separate argument.
//!
//! # Safety
//! The application passes the length that belongs to a string.
#![allow(unsafe_code)]

use core::ffi::c_char;

const BLANK: u8 = b' ';

/// C string with the text of a Fortran string, without the blanks around it.
pub struct Name(Vec<u8>);

impl Name {
    /// Copies the string that the application passed.
    ///
    /// # Safety
    /// `string` must be valid for reading `len` bytes.
    pub unsafe fn of(string: *const c_char, len: i32) -> Name {
        let len = usize::try_from(len).unwrap_or(0);
        // SAFETY: the caller promises that `string` is valid for reading `len` bytes.
        let padded = unsafe { core::slice::from_raw_parts(string.cast::<u8>(), len) };
        let not_blank = |byte: &u8| *byte != BLANK;
        let from = padded.iter().position(not_blank).unwrap_or(len);
        let to = padded.iter().rposition(not_blank).map_or(from, |at| at + 1);
        let mut name = Vec::with_capacity(to - from + 1);
        name.extend_from_slice(&padded[from..to]);
        name.push(0);
        Name(name)
    }

    /// Address of the C string.
    pub fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }
}

/// Buffer for a string that a C function writes.
pub struct Text(Vec<u8>);

impl Text {
    /// Bytes of the longest key of an info object in any ABI, the NUL included.
    pub const LONGEST_KEY: usize = 256;

    /// A buffer of `capacity` bytes, the NUL included.
    pub fn new(capacity: usize) -> Text {
        Text(vec![0; capacity.max(1)])
    }

    /// Address of the buffer.
    pub fn as_mut_ptr(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }

    /// Copies the text to the application's string, truncated or padded with blanks to `len` bytes.
    ///
    /// # Safety
    /// `string` must be valid for writing `len` bytes.
    pub unsafe fn write(&self, string: *mut c_char, len: i32) {
        let len = usize::try_from(len).unwrap_or(0);
        let end = self.0.iter().position(|&byte| byte == 0);
        let text = &self.0[..end.unwrap_or(self.0.len()).min(len)];
        // SAFETY: the caller promises that `string` is valid for writing `len` bytes.
        let padded = unsafe { core::slice::from_raw_parts_mut(string.cast::<u8>(), len) };
        let (written, rest) = padded.split_at_mut(text.len());
        written.copy_from_slice(text);
        rest.fill(BLANK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::CStr;

    fn name_of(padded: &str) -> String {
        // SAFETY: the length is that of `padded`, and `Name` ends with a NUL.
        unsafe {
            let name = Name::of(padded.as_ptr().cast(), padded.len() as i32);
            let text = CStr::from_ptr(name.as_ptr()).to_str();
            text.expect("UTF-8").to_owned()
        }
    }

    #[test]
    fn blanks_around_a_name_are_removed() {
        for (padded, name) in [("", ""), ("   ", ""), ("a", "a"), ("  a b  ", "a b")] {
            assert_eq!(name_of(padded), name);
        }
    }

    #[test]
    fn text_is_padded_or_truncated() {
        for (len, expected) in [(6, "abc   "), (3, "abc"), (2, "ab"), (0, "")] {
            let mut text = Text::new(4);
            let mut out = vec![b'?'; len];
            // SAFETY: the buffer has four bytes, for "abc" and a NUL. The length is that of `out`.
            unsafe {
                core::ptr::copy_nonoverlapping(c"abc".as_ptr(), text.as_mut_ptr(), 4);
                text.write(out.as_mut_ptr().cast(), len as i32);
            }
            assert_eq!(out, expected.as_bytes());
        }
    }
}
