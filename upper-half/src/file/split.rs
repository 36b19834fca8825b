//! Split collective operations. MPI lets the first half do the whole operation (MPI 3.1, §13.4.5),
//! and so it is here: between the two halves, where the application computes and a checkpoint may
//! fall, nothing is under way below. The second half gives the status.
//!
//! # Safety
//! As for the parent module.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::lower::named;
use crate::message::{collective_begin, collective_end};
use crate::object::{Datatype, File};
use contract::abi::*;
use core::ffi::c_void;

/// Which operation was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // MPI's own names
pub(super) enum Split {
    ReadAtAll,
    WriteAtAll,
    ReadAll,
    WriteAll,
    ReadOrdered,
    WriteOrdered,
}

impl Split {
    fn uses_shared_pointer(self) -> bool {
        matches!(self, Split::ReadOrdered | Split::WriteOrdered)
    }
}

fn begin(file: &'static File, split: Split, whole: impl FnOnce(*mut Status) -> i32) -> i32 {
    let body = &file.body;
    if file.is_null() {
        return ERR_FILE;
    }
    if split.uses_shared_pointer() {
        body.shares_pointer();
    } else if body.is_sequential() {
        return ERR_UNSUPPORTED_OPERATION;
    }
    // One at a time on a file.
    if body.split.lock().is_some() {
        return ERR_IO;
    }
    let token = collective_begin(body.comm);
    let mut status = Status::EMPTY;
    let code = whole(&raw mut status);
    collective_end(token);
    if code == SUCCESS {
        *body.split.lock() = Some((split, status));
    }
    code
}

unsafe fn end(file: &'static File, split: Split, out: *mut Status) -> i32 {
    let mut begun = file.body.split.lock();
    match *begun {
        Some((which, status)) if which == split => {
            *begun = None;
            if !out.is_null() {
                // SAFETY: MPI's contract for an out parameter.
                unsafe { *out = status };
            }
            SUCCESS
        }
        _ if file.is_null() => ERR_FILE,
        _ => ERR_IO,
    }
}

macro_rules! split {
    ($($name:literal $split:ident: $begin:ident $end:ident $whole:ident
        ($($offset:ident)?) $pointer:ty;)*) => {$(
        #[doc = concat!($name, "_begin.")]
        pub unsafe fn $begin(
            file: &'static File,
            $($offset: i64,)?
            buffer: $pointer,
            count: i32,
            datatype: &'static Datatype,
        ) -> i32 {
            begin(file, Split::$split, |status| {
                // SAFETY: MPI's contract: a buffer of that many elements.
                unsafe {
                    named::$whole(file, $($offset,)? buffer, count, datatype, status)
                }
            })
        }

        #[doc = concat!($name, "_end.")]
        pub unsafe fn $end(file: &'static File, _buffer: $pointer, status: *mut Status) -> i32 {
            // SAFETY: passed on.
            unsafe { end(file, Split::$split, status) }
        }
    )*};
}

split! {
    "MPI_File_read_at_all" ReadAtAll: file_read_at_all_begin file_read_at_all_end
        MPI_File_read_at_all (offset) *mut c_void;
    "MPI_File_write_at_all" WriteAtAll: file_write_at_all_begin file_write_at_all_end
        MPI_File_write_at_all (offset) *const c_void;
    "MPI_File_read_all" ReadAll: file_read_all_begin file_read_all_end
        MPI_File_read_all () *mut c_void;
    "MPI_File_write_all" WriteAll: file_write_all_begin file_write_all_end
        MPI_File_write_all () *const c_void;
    "MPI_File_read_ordered" ReadOrdered: file_read_ordered_begin file_read_ordered_end
        MPI_File_read_ordered () *mut c_void;
    "MPI_File_write_ordered" WriteOrdered: file_write_ordered_begin file_write_ordered_end
        MPI_File_write_ordered () *const c_void;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errhandler::Current;
    use crate::file::{FileBody, Name};
    use crate::object::Comm;

    #[test]
    fn the_second_half_gives_what_the_first_has_kept() {
        crate::object::init();
        let handler = Current::predefined(errhandler::ERRORS_RETURN);
        let body = FileBody::with(handler, Comm::null(), Name::none(), MODE_RDWR);
        let file = File::make(0, body).expect("a file");
        let whole = |status: *mut Status| {
            // SAFETY: `begin` passes a place for a status.
            unsafe { (*status).count = 24 };
            SUCCESS
        };
        let mut status = Status::EMPTY;
        // SAFETY: a local.
        let mut finish = |split| unsafe { end(file, split, &raw mut status) };
        assert_eq!(finish(Split::ReadAll), ERR_IO);
        assert_eq!(begin(file, Split::ReadAll, whole), SUCCESS);
        assert_eq!(begin(file, Split::WriteAll, whole), ERR_IO);
        assert_eq!(finish(Split::WriteAll), ERR_IO);
        assert_eq!(finish(Split::ReadAll), SUCCESS);
        assert_eq!(finish(Split::ReadAll), ERR_IO);
        assert_eq!(status.count, 24);
        assert_eq!(begin(file, Split::ReadAll, |_| ERR_ACCESS), ERR_ACCESS);
        // SAFETY: the status is not wanted.
        let code = unsafe { end(file, Split::ReadAll, core::ptr::null_mut()) };
        assert_eq!(code, ERR_IO);
        file.release();
    }
}
