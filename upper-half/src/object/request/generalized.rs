//! The application's part of a generalized request: its callbacks and their data.
//!
//! # Safety
//! The callbacks are the application's, with the signatures that MPI prescribes.
#![allow(unsafe_code)]

use contract::abi::SUCCESS;
use core::ffi::c_void;

pub(crate) type Query = unsafe extern "C" fn(*mut c_void, *mut u8) -> i32;
pub(crate) type Free = unsafe extern "C" fn(*mut c_void) -> i32;
pub(crate) type Cancel = unsafe extern "C" fn(*mut c_void, i32) -> i32;

type FortranQuery = unsafe extern "C" fn(*mut c_void, *mut u8, *mut i32);
type FortranFree = unsafe extern "C" fn(*mut c_void, *mut i32);
type FortranCancel = unsafe extern "C" fn(*mut c_void, *mut i32, *mut i32);

/// The application's part of a generalized request.
pub(crate) struct Generalized {
    pub(crate) query: Query,
    pub(crate) free: Free,
    pub(crate) cancel: Cancel,
    pub(crate) extra: *mut c_void,
    /// Whether the functions are Fortran's: arguments by reference, the error code behind them.
    pub(crate) fortran: bool,
}

impl Generalized {
    pub(crate) unsafe fn query(&self, status: *mut u8) -> i32 {
        // SAFETY: see the module's head; the language is as the front said.
        unsafe {
            if !self.fortran {
                return (self.query)(self.extra, status);
            }
            let mut code = SUCCESS;
            let query = core::mem::transmute::<Query, FortranQuery>(self.query);
            query(self.extra, status, &raw mut code);
            code
        }
    }

    pub(crate) unsafe fn free(&self) -> i32 {
        // SAFETY: as above.
        unsafe {
            if !self.fortran {
                return (self.free)(self.extra);
            }
            let mut code = SUCCESS;
            let free = core::mem::transmute::<Free, FortranFree>(self.free);
            free(self.extra, &raw mut code);
            code
        }
    }

    pub(crate) unsafe fn cancel(&self, complete: i32) -> i32 {
        // SAFETY: as above.
        unsafe {
            if !self.fortran {
                return (self.cancel)(self.extra, complete);
            }
            let (mut complete, mut code) = (complete, SUCCESS);
            let cancel = core::mem::transmute::<Cancel, FortranCancel>(self.cancel);
            cancel(self.extra, &raw mut complete, &raw mut code);
            code
        }
    }
}
