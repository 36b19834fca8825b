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
use contract::abi::{
    ERR_ARG, ERR_BUFFER, ERR_NO_MEM, ERR_UNSUPPORTED_OPERATION, ERR_VALUE_TOO_LARGE, SUCCESS,
};
use core::ffi::c_void;

/// What is attached.
#[derive(Clone, Copy)]
struct Attached {
    /// The application's buffer, which it gets back, and its size.
    theirs: (usize, i64),
    /// Ours, which the lower half uses.
    ours: (usize, i64),
}

static ATTACHED: Lock<Option<Attached>> = Lock::new(None);

/// Size of our buffer for an application's of `size` bytes. The overheads that applications were
/// compiled with (95 to 512 bytes a message) and those that libraries have differ by less than a
/// factor of two, so twice the size holds whatever the application reckoned to fit.
fn our_size(size: i64) -> Option<i64> {
    const SPARE: i64 = 1 << 16;
    size.checked_mul(2)?.checked_add(SPARE)
}

/// Gives the lower half our buffer; one that is too large for an int only where the library has
/// large counts.
unsafe fn attach_below((ours, size): (usize, i64)) -> i32 {
    let ours = ours as *const c_void;
    // SAFETY: passed on.
    unsafe {
        match i32::try_from(size) {
            Ok(size) => lower::MPI_Buffer_attach(ours, size),
            Err(_) => match lower::MPI_Buffer_attach_c(ours, size) {
                ERR_UNSUPPORTED_OPERATION => ERR_VALUE_TOO_LARGE,
                code => code,
            },
        }
    }
}

/// Takes our buffer of that size back from the lower half.
unsafe fn detach_below(size: i64) -> i32 {
    let mut address = core::ptr::null_mut::<c_void>();
    let address = (&raw mut address).cast();
    let (mut small, mut large) = (0, 0);
    // SAFETY: places for an address and a size.
    unsafe {
        match i32::try_from(size) {
            Ok(_) => lower::MPI_Buffer_detach(address, &raw mut small),
            Err(_) => lower::MPI_Buffer_detach_c(address, &raw mut large),
        }
    }
}

/// MPI_Buffer_attach
pub unsafe fn buffer_attach(buffer: *const c_void, size: i32) -> i32 {
    // SAFETY: passed on.
    unsafe { buffer_attach_c(buffer, size.into()) }
}

/// MPI_Buffer_attach_c
pub unsafe fn buffer_attach_c(buffer: *const c_void, size: i64) -> i32 {
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
    let error = unsafe { attach_below((ours as usize, our_size)) };
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

/// MPI_Buffer_detach. The size of a buffer that is too large for an int is told as the largest int.
pub unsafe fn buffer_detach(buffer_addr: *mut c_void, size: *mut i32) -> i32 {
    let mut large = 0;
    // SAFETY: passed on, with a place for a size.
    let error = unsafe { buffer_detach_c(buffer_addr, &raw mut large) };
    if error == SUCCESS {
        // SAFETY: the caller's place.
        unsafe { size.write(i32::try_from(large).unwrap_or(i32::MAX)) };
    }
    error
}

/// MPI_Buffer_detach_c
pub unsafe fn buffer_detach_c(buffer_addr: *mut c_void, size: *mut i64) -> i32 {
    let taken = ATTACHED.lock().take();
    let Some(attached) = taken else {
        return ERR_BUFFER;
    };
    // SAFETY: it is what was attached. It comes back once the buffered messages are gone, which
    // their receivers see to even while a checkpoint is pending.
    let error = unsafe { detach_below(attached.ours.1) };
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
        Some(attached) => unsafe { attach_below(attached.ours) },
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
        assert_eq!(our_size(i64::MAX), None);
    }
}
