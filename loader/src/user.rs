//! Reading and writing the application's memory at addresses that it has passed to a system call.
//!
//! They may be wrong, and then the call's answer is EFAULT. So the kernel does the copying, as it
//! would in the call itself. Where it may not be asked to (a container's policy), the copy is made
//! directly, and a wrong address is fatal.
//!
//! # Safety
//! What is written lies where the application wants it; `T` is plain data wherever these are used.
#![allow(unsafe_code)]

use crate::raw;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU32;

/// The address was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Copies bytes between a local and the application's memory; says how many.
unsafe fn copy(nr: i64, local: usize, remote: usize, len: usize) -> Option<usize> {
    let (ours, theirs) = ([local, len], [remote, len]);
    let args = [
        raw::getpid() as usize,
        ours.as_ptr() as usize,
        1,
        theirs.as_ptr() as usize,
        1,
        0,
    ];
    // SAFETY: the local has `len` bytes, by the caller's word; the kernel checks the other side.
    let result = unsafe { raw::syscall(nr as usize, args) };
    match result {
        n if n >= 0 => Some(n as usize),
        n if n == raw::err(libc::EFAULT) => Some(0),
        _ => None,
    }
}

/// Reads a value.
pub fn read<T: Copy>(address: usize) -> Result<T, Fault> {
    let mut value = MaybeUninit::<T>::uninit();
    let size = core::mem::size_of::<T>();
    // SAFETY: the local has that size; it is initialised when all of it was copied.
    unsafe {
        match copy(
            libc::SYS_process_vm_readv,
            value.as_mut_ptr() as usize,
            address,
            size,
        ) {
            Some(n) if n == size => Ok(value.assume_init()),
            Some(_) => Err(Fault),
            None => Ok((address as *const T).read_unaligned()),
        }
    }
}

/// Writes a value.
pub fn write<T: Copy>(address: usize, value: T) -> Result<(), Fault> {
    let size = core::mem::size_of::<T>();
    // SAFETY: the local has that size; the other side is the application's to overwrite.
    unsafe {
        match copy(
            libc::SYS_process_vm_writev,
            &raw const value as usize,
            address,
            size,
        ) {
            Some(n) if n == size => Ok(()),
            Some(_) => Err(Fault),
            None => {
                (address as *mut T).write_unaligned(value);
                Ok(())
            }
        }
    }
}

/// Writes bytes.
pub fn write_bytes(address: usize, bytes: &[u8]) -> Result<(), Fault> {
    let (local, len) = (bytes.as_ptr() as usize, bytes.len());
    // SAFETY: the slice has that size; the other side is the application's to overwrite.
    unsafe {
        match copy(libc::SYS_process_vm_writev, local, address, len) {
            Some(n) if n == len => Ok(()),
            Some(_) => Err(Fault),
            None => {
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, len);
                Ok(())
            }
        }
    }
}

/// A word that threads share.
pub fn word(address: usize) -> Result<&'static AtomicU32, Fault> {
    if !address.is_multiple_of(core::mem::align_of::<AtomicU32>()) {
        return Err(Fault);
    }
    read::<u32>(address)?;
    // SAFETY: an aligned word that was readable just now.
    Ok(unsafe { &*(address as *const AtomicU32) })
}

/// A path; None for a pointer that is none (the kernel will say EFAULT).
pub fn path(address: usize) -> Option<&'static CStr> {
    const PAGE: usize = 4096;
    const LONGEST: usize = 4096;
    // Its first byte and the first of every page it may reach into, until its end is found.
    let mut at = address;
    while at < address.checked_add(LONGEST)? {
        read::<u8>(at).ok()?;
        let next = (at & !(PAGE - 1)) + PAGE;
        // SAFETY: the rest of a page whose byte at `at` was readable just now.
        let rest = unsafe { core::slice::from_raw_parts(at as *const u8, next - at) };
        if rest.contains(&0) {
            // SAFETY: the end was found, and all before it is readable.
            return Some(unsafe { CStr::from_ptr(address as *const _) });
        }
        at = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_addresses_are_told() {
        let value = 0x1234_5678_u32;
        assert_eq!(read::<u32>(&raw const value as usize), Ok(value));
        assert_eq!(read::<u32>(8), Err(Fault));
        let mut target = 0_u64;
        assert_eq!(write(&raw mut target as usize, 7_u64), Ok(()));
        assert_eq!(core::hint::black_box(target), 7);
        assert_eq!(write(CODE.as_ptr() as usize, 7_u64), Err(Fault));
        assert_eq!(path(c"/a/path".as_ptr() as usize), Some(c"/a/path"));
        assert_eq!(path(8), None);
    }

    static CODE: [u64; 4] = [1; 4];
}
