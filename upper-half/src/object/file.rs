//! The body of a file: what opened it, its view, and its state at the last cut.

use crate::object::comm::Comm;
use crate::object::datatype::Datatype;
use crate::object::errhandler::{Current, Handler};
use crate::object::info::Info;
use crate::object::table::Body;
use crate::object::table::Object;
use crate::object_table;
use crate::runtime::lock::Lock;
use contract::abi::*;
use contract::HandleKind;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::ffi::CString;

/// Modes that are not the library's below, see the module's head.
pub(crate) const OUR_MODES: i32 = MODE_DELETE_ON_CLOSE | MODE_SEQUENTIAL;

/// A file.
pub type File = Object<FileBody>;

/// Body of a file.
pub struct FileBody {
    pub(crate) errhandler: Current,
    pub(crate) hints: Lock<Vec<(CString, CString)>>,
    /// The file's own; the null communicator for the null file.
    pub(crate) comm: &'static Comm,
    pub(crate) name: FileName,
    /// As the application gave it.
    pub(crate) amode: i32,
    pub(crate) view: Lock<View>,
    pub(crate) atomic: AtomicBool,
    /// This process has used the shared pointer: only then is it asked for, since asking makes some
    /// libraries create a file for it beside the file.
    pub(crate) shared: AtomicBool,
    /// The split collective operation that was begun and not ended, and its status.
    pub(crate) split: Lock<Option<(Split, Status)>>,
    pub(crate) cut: Lock<CutState>,
    /// The file that had the name when it was opened, here or by a restart.
    pub(crate) identity: Lock<Option<Identity>>,
}

/// Device and inode number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Body for FileBody {
    const KIND: HandleKind = HandleKind::File;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = file::FILE_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = file::ALL;
    object_table!(FileBody);

    fn predefined(_index: u32) -> Self {
        FileBody::with(
            Current::predefined(errhandler::ERRORS_RETURN),
            Comm::null(),
            FileName::none(),
            0,
        )
    }

    fn retire(file: &'static File) {
        file.body.view.lock().release();
    }
}

impl FileBody {
    pub(crate) fn with(
        errhandler: Current,
        comm: &'static Comm,
        name: FileName,
        amode: i32,
    ) -> FileBody {
        FileBody {
            errhandler,
            hints: Lock::new(Vec::new()),
            comm,
            name,
            amode,
            view: Lock::new(View::initial()),
            atomic: AtomicBool::new(false),
            // Opening moves the shared pointer to the end.
            shared: AtomicBool::new(amode & MODE_APPEND != 0),
            split: Lock::new(None),
            cut: Lock::new(CutState::default()),
            identity: Lock::new(None),
        }
    }

    /// What is to be done on an error.
    pub fn handler(&self) -> Handler {
        self.errhandler.handler()
    }

    pub(crate) fn errhandler(&self) -> &Current {
        &self.errhandler
    }

    /// The communicator whose clock counts collective operations on the file.
    pub fn comm(&self) -> &'static Comm {
        self.comm
    }

    /// Whether only the shared pointer may be used.
    #[inline(always)]
    pub fn is_sequential(&self) -> bool {
        self.amode & MODE_SEQUENTIAL != 0
    }

    /// The shared pointer is about to be used.
    #[inline(always)]
    pub fn shares_pointer(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.amode & (MODE_WRONLY | MODE_RDWR) != 0
    }

    /// Takes hints; those of the same key are replaced.
    pub(crate) fn take_hints(&self, info: &'static Info) {
        let mut hints = self.hints.lock();
        for (key, value) in info.body.entries() {
            match hints.iter_mut().find(|hint| hint.0 == key) {
                Some(hint) => hint.1 = value,
                None => hints.push((key, value)),
            }
        }
    }
}

/// A view. It keeps its datatypes alive: the application may free them when it has set the view.
#[derive(Clone)]
pub(crate) struct View {
    /// Displacement in bytes.
    pub(crate) disp: i64,
    pub(crate) etype: &'static Datatype,
    pub(crate) filetype: &'static Datatype,
    pub(crate) datarep: CString,
}

impl View {
    /// The view of a file that was just opened.
    pub(crate) fn initial() -> View {
        let byte = Datatype::at(datatype::BYTE as u32);
        View {
            disp: 0,
            etype: byte,
            filetype: byte,
            datarep: c"native".to_owned(),
        }
    }

    pub(crate) fn retain(&self) {
        self.etype.retain();
        self.filetype.retain();
    }

    /// Gives the datatypes up.
    pub(crate) fn release(&self) {
        self.etype.release();
        self.filetype.release();
    }
}

/// Which operation was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // MPI's own names
pub(crate) enum Split {
    ReadAtAll,
    WriteAtAll,
    ReadAll,
    WriteAll,
    ReadOrdered,
    WriteOrdered,
}

impl Split {
    pub(crate) fn uses_shared_pointer(self) -> bool {
        matches!(self, Split::ReadOrdered | Split::WriteOrdered)
    }
}

/// A position that was not noted.
pub(crate) const NONE: i64 = -1;

/// What a file is like at the cut.
#[derive(Clone, Copy)]
pub(crate) struct CutState {
    /// Bytes; [`NONE`] before the first cut.
    pub(crate) size: i64,
    /// The process's own pointer, in etypes of the view; [`NONE`] where it may not be used.
    pub(crate) position: i64,
    /// The shared pointer; [`NONE`] if this process never used it.
    pub(crate) shared: i64,
}

impl Default for CutState {
    fn default() -> CutState {
        CutState {
            size: NONE,
            position: NONE,
            shared: NONE,
        }
    }
}

impl CutState {
    /// Whether there was one since the file was opened.
    pub(crate) fn is_noted(&self) -> bool {
        self.size != NONE
    }
}

/// A file's name, from any directory.
pub(crate) struct FileName {
    pub(crate) for_mpi: CString,
    /// Where the name for MPI begins to be a path; `None` if it is none that the kernel knows.
    pub(crate) path: Option<usize>,
}

impl FileName {
    /// The name of no file.
    pub(crate) fn none() -> FileName {
        FileName {
            for_mpi: CString::default(),
            path: None,
        }
    }

    /// For MPI_File_open and MPI_File_delete.
    pub(crate) fn for_mpi(&self) -> &CStr {
        &self.for_mpi
    }

    /// For the kernel, where it knows the file.
    pub(crate) fn path(&self) -> Option<&CStr> {
        let bytes = self.for_mpi.to_bytes_with_nul().get(self.path?..)?;
        CStr::from_bytes_with_nul(bytes).ok()
    }
}
