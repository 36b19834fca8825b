//! Split collective operations. MPI lets the first half do the whole operation (MPI 3.1, §13.4.5), and so it does here:
//! between the two halves, when the application computes and a checkpoint may fall, nothing is under way below. The
//! second half gives the status.
//!
//! # Safety
//! The application's buffer goes to the crossing as it is.
#![allow(unsafe_code)]

use crate::argument::Buffer;
use crate::object::file::Split;
use crate::object::lower_handle::named;
use crate::object::{Datatype, File};
use crate::quiesce::{collective, Inputs};
use contract::abi::*;

fn begin(file: &'static File, split: Split, whole: impl Fn(&mut Status) -> i32) -> i32 {
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
    let mut status = Status::EMPTY;
    let code = collective(body.comm, inputs(file, split), &mut |code| {
        *code = whole(&mut status);
    });
    if code == SUCCESS {
        *body.split.lock() = Some((split, status));
    }
    code
}

/// What the whole operation does to its inputs.
fn inputs(file: &'static File, split: Split) -> Inputs {
    match split {
        Split::ReadAtAll | Split::WriteAtAll => Inputs::Stay,
        Split::ReadAll | Split::WriteAll => Inputs::Pointer(file),
        // The shared pointer moves, of which a member knows only where it is now.
        Split::ReadOrdered | Split::WriteOrdered => Inputs::Change,
    }
}

fn end(file: &'static File, split: Split, out: Option<&mut Status>) -> i32 {
    let mut begun = file.body.split.lock();
    match *begun {
        Some((which, status)) if which == split => {
            *begun = None;
            if let Some(out) = out {
                *out = status;
            }
            SUCCESS
        }
        _ if file.is_null() => ERR_FILE,
        _ => ERR_IO,
    }
}

macro_rules! split {
    ($($name:literal $split:ident: $begin:ident $end:ident $whole:ident
        ($($offset:ident)?);)*) => {$(
        #[doc = concat!($name, "_begin.")]
        pub fn $begin(
            file: &'static File,
            $($offset: i64,)?
            buffer: Buffer<'_>,
            count: i32,
            datatype: &'static Datatype,
        ) -> i32 {
            begin(file, Split::$split, |status| {
                // SAFETY: the caller of `pass` has promised a buffer of that many elements.
                unsafe {
                    named::$whole(file, $($offset,)? buffer.as_ptr(), count, datatype, status)
                }
            })
        }

        #[doc = concat!($name, "_end.")]
        pub fn $end(file: &'static File, _buffer: Buffer<'_>, status: Option<&mut Status>) -> i32 {
            end(file, Split::$split, status)
        }
    )*};
}

split! {
    "MPI_File_read_at_all" ReadAtAll: file_read_at_all_begin file_read_at_all_end
        MPI_File_read_at_all (offset);
    "MPI_File_write_at_all" WriteAtAll: file_write_at_all_begin file_write_at_all_end
        MPI_File_write_at_all (offset);
    "MPI_File_read_all" ReadAll: file_read_all_begin file_read_all_end
        MPI_File_read_all ();
    "MPI_File_write_all" WriteAll: file_write_all_begin file_write_all_end
        MPI_File_write_all ();
    "MPI_File_read_ordered" ReadOrdered: file_read_ordered_begin file_read_ordered_end
        MPI_File_read_ordered ();
    "MPI_File_write_ordered" WriteOrdered: file_write_ordered_begin file_write_ordered_end
        MPI_File_write_ordered ();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::errhandler::Current;
    use crate::object::file::{FileBody, FileName as Name};
    use crate::object::{init, Comm};

    #[test]
    fn the_second_half_gives_what_the_first_has_kept() {
        init();
        let handler = Current::predefined(errhandler::ERRORS_RETURN);
        let body = FileBody::with(handler, Comm::null(), Name::none(), MODE_RDWR);
        let file = File::make(0, body).expect("a file");
        let whole = |status: &mut Status| {
            status.count = 24;
            SUCCESS
        };
        let mut status = Status::EMPTY;
        let mut finish = |split| end(file, split, Some(&mut status));
        assert_eq!(finish(Split::ReadAll), ERR_IO);
        assert_eq!(begin(file, Split::ReadAll, whole), SUCCESS);
        assert_eq!(begin(file, Split::WriteAll, whole), ERR_IO);
        assert_eq!(finish(Split::WriteAll), ERR_IO);
        assert_eq!(finish(Split::ReadAll), SUCCESS);
        assert_eq!(finish(Split::ReadAll), ERR_IO);
        assert_eq!(status.count, 24);
        assert_eq!(begin(file, Split::ReadAll, |_| ERR_ACCESS), ERR_ACCESS);
        assert_eq!(end(file, Split::ReadAll, None), ERR_IO);
        file.release();
    }
}
