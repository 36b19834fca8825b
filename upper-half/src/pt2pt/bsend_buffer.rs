//! The buffer of buffered sends. The lower half gets a buffer of ours: libraries differ in what they need beside each
//! message, and a restart may bring one that needs more than the application has reckoned with. At the cut it holds no
//! message that its receiver has not pulled.
//!
//! # Safety
//! The lower half uses a [`Region`] from attach to detach. A region is dropped only after that.
#![allow(unsafe_code)]

use crate::argument::Out;
use crate::crossing::mpi_result::code_of;
use crate::crossing::stubs;
use crate::runtime::lock::Lock;
use crate::runtime::syscall;
use contract::abi::{
    ERR_ARG, ERR_BUFFER, ERR_NO_MEM, ERR_UNSUPPORTED_OPERATION, ERR_VALUE_TOO_LARGE, SUCCESS,
};
use core::ffi::c_void;

/// What is attached.
struct Attached {
    /// The application's buffer, which it gets back, and its size.
    theirs: (usize, i64),
    /// Ours, which the lower half uses.
    ours: Region,
}

static ATTACHED: Lock<Option<Attached>> = Lock::new(None);

/// Size of our buffer for an application's of `size` bytes. The overheads that applications were
/// compiled with (95 to 512 bytes a message) and those that libraries have differ by less than a
/// factor of two, so twice the size holds whatever the application reckoned to fit.
fn our_size(size: i64) -> Option<i64> {
    const SPARE: i64 = 1 << 16;
    size.checked_mul(2)?.checked_add(SPARE)
}

/// Memory for buffered sends.
struct Region {
    start: usize,
    bytes: i64,
}

impl Region {
    fn new(bytes: i64) -> Option<Region> {
        let start = syscall::map(bytes as usize)? as usize;
        Some(Region { start, bytes })
    }

    /// Gives it to the lower half; one that is too large for an int only where the library has
    /// large counts.
    fn attach(&self) -> i32 {
        let start = self.start as *const c_void;
        // SAFETY: memory of that size, which nothing else uses.
        unsafe {
            match i32::try_from(self.bytes) {
                Ok(bytes) => stubs::MPI_Buffer_attach(start, bytes),
                Err(_) => match stubs::MPI_Buffer_attach_c(start, self.bytes) {
                    ERR_UNSUPPORTED_OPERATION => ERR_VALUE_TOO_LARGE,
                    code => code,
                },
            }
        }
    }

    /// Takes it back from the lower half, once the buffered messages are gone. Their receivers pull them even while a
    /// checkpoint is pending.
    fn detach(&self) -> i32 {
        let mut address = core::ptr::null_mut::<c_void>();
        let address = (&raw mut address).cast();
        let (mut small, mut large) = (0, 0);
        // SAFETY: places for an address and a size.
        unsafe {
            match i32::try_from(self.bytes) {
                Ok(_) => stubs::MPI_Buffer_detach(address, &raw mut small),
                Err(_) => stubs::MPI_Buffer_detach_c(address, &raw mut large),
            }
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: memory of ours, which the lower half does not have, see the head.
        unsafe { syscall::unmap(self.start as *mut u8, self.bytes as usize) };
    }
}

/// MPI_Buffer_attach
pub fn buffer_attach(buffer: *const c_void, size: i32) -> i32 {
    buffer_attach_c(buffer, size.into())
}

/// MPI_Buffer_attach_c
pub fn buffer_attach_c(buffer: *const c_void, size: i64) -> i32 {
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
    let Some(ours) = Region::new(our_size) else {
        return ERR_NO_MEM;
    };
    let error = ours.attach();
    if error == SUCCESS {
        *attached = Some(Attached {
            theirs: (buffer as usize, size),
            ours,
        });
    }
    error
}

/// Takes our buffer back from the lower half, and gives the application's and its size.
fn detach() -> Result<(usize, i64), i32> {
    let attached = ATTACHED.lock().take().ok_or(ERR_BUFFER)?;
    let error = attached.ours.detach();
    if error != SUCCESS {
        *ATTACHED.lock() = Some(attached);
        return Err(error);
    }
    Ok(attached.theirs)
}

/// MPI_Buffer_detach. The size of a buffer that is too large for an int is told as the largest int.
pub fn buffer_detach(mut buffer_addr: Out<'_, usize>, mut size: Out<'_, i32>) -> i32 {
    code_of(detach().map(|(address, bytes)| {
        buffer_addr.set(address);
        size.set(i32::try_from(bytes).unwrap_or(i32::MAX));
    }))
}

/// MPI_Buffer_detach_c
pub fn buffer_detach_c(mut buffer_addr: Out<'_, usize>, mut size: Out<'_, i64>) -> i32 {
    code_of(detach().map(|(address, bytes)| {
        buffer_addr.set(address);
        size.set(bytes);
    }))
}

/// Attaches our buffer to a fresh lower half. The one that used it before is gone.
pub(crate) fn reattach() -> i32 {
    match &*ATTACHED.lock() {
        Some(attached) => attached.ours.attach(),
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
