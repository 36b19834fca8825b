//! The buffer of buffered sends. The lower half gets one of ours: libraries differ in what they
//! need beside each message, and a restart may bring one that needs more than the application
//! reckoned with. At the cut nothing is in it that its receiver has not pulled.
//!
//! # Safety
//! The lower half uses our memory from attach to detach, and it is unmapped only after that.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use crate::sync::Lock;
use crate::{lower, system};
use contract::abi::{ERR_ARG, ERR_BUFFER, ERR_NO_MEM, ERR_VALUE_TOO_LARGE, SUCCESS};
use core::ffi::c_void;

/// What is attached.
#[derive(Clone, Copy)]
struct Attached {
    /// The application's buffer, which it gets back, and its size.
    theirs: (usize, i32),
    /// Ours, which the lower half uses.
    ours: (usize, i32),
}

static ATTACHED: Lock<Option<Attached>> = Lock::new(None);

/// Size of our buffer for an application's of `size` bytes. The overheads that applications were
/// compiled with (95 to 512 bytes a message) and those that libraries have differ by less than a
/// factor of two, so twice the size holds whatever the application reckoned to fit.
fn our_size(size: i32) -> Option<i32> {
    const SPARE: i32 = 1 << 16;
    size.checked_mul(2)?.checked_add(SPARE)
}

/// MPI_Buffer_attach
pub unsafe fn buffer_attach(buffer: *const c_void, size: i32) -> i32 {
    if size < 0 {
        return ERR_ARG;
    }
    let mut attached = ATTACHED.lock();
    if attached.is_some() {
        return ERR_BUFFER;
    }
    let Some(our_size) = our_size(size) else {
        return ERR_VALUE_TOO_LARGE;
    };
    let Some(ours) = system::map(our_size as usize) else {
        return ERR_NO_MEM;
    };
    // SAFETY: fresh memory of that size, ours alone.
    let error = unsafe { lower::MPI_Buffer_attach(ours.cast(), our_size) };
    if error == SUCCESS {
        *attached = Some(Attached {
            theirs: (buffer as usize, size),
            ours: (ours as usize, our_size),
        });
    } else {
        // SAFETY: the lower half did not take it.
        unsafe { system::unmap(ours, our_size as usize) };
    }
    error
}

/// MPI_Buffer_detach
pub unsafe fn buffer_detach(buffer_addr: *mut c_void, size: *mut i32) -> i32 {
    let taken = ATTACHED.lock().take();
    let Some(attached) = taken else {
        return ERR_BUFFER;
    };
    let (mut address, mut length) = (core::ptr::null_mut::<c_void>(), 0);
    // SAFETY: places for an address and a size. It comes back once the buffered messages are gone,
    // which their receivers see to even while a checkpoint is pending.
    let error = unsafe { lower::MPI_Buffer_detach((&raw mut address).cast(), &raw mut length) };
    if error != SUCCESS {
        *ATTACHED.lock() = Some(attached);
        return error;
    }
    // SAFETY: the lower half is done with our memory; the caller's places, the first of which is
    // the address of a pointer.
    unsafe {
        system::unmap(attached.ours.0 as *mut u8, attached.ours.1 as usize);
        buffer_addr.cast::<usize>().write(attached.theirs.0);
        size.write(attached.theirs.1);
    }
    SUCCESS
}

/// Attaches our buffer to a fresh lower half.
///
/// # Safety
/// Crosses; the lower half that used the buffer before is gone.
pub(super) unsafe fn rebuild() -> i32 {
    match *ATTACHED.lock() {
        // SAFETY: our memory, which nobody uses now.
        Some(attached) => unsafe {
            lower::MPI_Buffer_attach(attached.ours.0 as *mut c_void, attached.ours.1)
        },
        None => SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::our_size;

    #[test]
    fn our_buffer_holds_more_than_theirs() {
        assert_eq!(our_size(0), Some(1 << 16));
        assert_eq!(our_size(1000), Some(2000 + (1 << 16)));
        assert_eq!(our_size(i32::MAX), None);
    }
}
