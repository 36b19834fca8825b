//! Views of files: where a process sees data in a file, and of what type.
//!
//! # Safety
//! As for the parent module.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts

use super::greatest;
use crate::code::check;
use crate::info::crossing_info;
use crate::lower::named;
use crate::message::{collective_begin, collective_end};
use crate::object::{Datatype, File, Info};
use contract::abi::*;
use core::ffi::{c_char, CStr};
use std::ffi::CString;

/// A view. It keeps its datatypes alive: the application may free them when it has set the view.
#[derive(Clone)]
pub(super) struct View {
    /// Displacement in bytes.
    pub(super) disp: i64,
    pub(super) etype: &'static Datatype,
    pub(super) filetype: &'static Datatype,
    pub(super) datarep: CString,
}

impl View {
    /// The view of a file that was just opened.
    pub(super) fn initial() -> View {
        let byte = Datatype::at(datatype::BYTE as u32);
        View {
            disp: 0,
            etype: byte,
            filetype: byte,
            datarep: c"native".to_owned(),
        }
    }

    fn retain(&self) {
        self.etype.retain();
        self.filetype.retain();
    }

    /// Gives the datatypes up.
    pub(super) fn release(&self) {
        self.etype.release();
        self.filetype.release();
    }
}

/// MPI_File_set_view.
pub unsafe fn file_set_view(
    file: &'static File,
    disp: i64,
    etype: &'static Datatype,
    filetype: &'static Datatype,
    datarep: *const c_char,
    info: &'static Info,
) -> i32 {
    let body = &file.body;
    if file.is_null() {
        return ERR_FILE;
    }
    if body.is_sequential() != (disp == DISPLACEMENT_CURRENT) {
        return ERR_ARG;
    }
    let token = collective_begin(body.comm);
    // SAFETY: MPI's contract: a NUL-terminated string, and committed datatypes.
    let result = unsafe { set_below(file, disp, etype, filetype, datarep, info) };
    collective_end(token);
    match result {
        Ok(view) => {
            view.retain();
            let before = core::mem::replace(&mut *body.view.lock(), view);
            before.release();
            body.take_hints(info);
            SUCCESS
        }
        Err(code) => code,
    }
}

unsafe fn set_below(
    file: &'static File,
    disp: i64,
    etype: &'static Datatype,
    filetype: &'static Datatype,
    datarep: *const c_char,
    info: &'static Info,
) -> Result<View, i32> {
    // SAFETY: passed on.
    unsafe {
        let disp = if disp == DISPLACEMENT_CURRENT {
            current(file)?
        } else {
            disp
        };
        let info = crossing_info(info);
        check(named::MPI_File_set_view(
            file, disp, etype, filetype, datarep, &info,
        ))?;
        Ok(View {
            disp,
            etype,
            filetype,
            datarep: CStr::from_ptr(datarep).to_owned(),
        })
    }
}

/// Where the shared pointer stands, in bytes. Nobody may look before all have come here, hence the
/// barrier; and nobody may set the view before all have looked: none leaves the reduction earlier.
unsafe fn current(file: &'static File) -> Result<i64, i32> {
    let (mut position, mut disp) = (0, 0);
    file.body.shares_pointer();
    // SAFETY: a live file's word, and pointers to locals.
    unsafe {
        check(named::MPI_Barrier(file.body.comm))?;
        check(named::MPI_File_get_position_shared(file, &raw mut position))?;
        check(named::MPI_File_get_byte_offset(
            file,
            position,
            &raw mut disp,
        ))?;
        let [disp] = greatest(file.body.comm, [disp])?;
        Ok(disp)
    }
}

/// MPI_File_get_view. Derived datatypes among the results are new handles of the same datatypes, as
/// in MPI_Type_get_contents.
pub unsafe fn file_get_view(
    file: &'static File,
    disp: *mut i64,
    etype: *mut &'static Datatype,
    filetype: *mut &'static Datatype,
    datarep: *mut c_char,
) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    let view = file.body.view.lock().clone();
    view.retain();
    let mut length = 0;
    // SAFETY: MPI's contract for out parameters: MPI_MAX_DATAREP_STRING bytes for the string.
    unsafe {
        *disp = view.disp;
        *etype = view.etype;
        *filetype = view.filetype;
        crate::error::write_string(
            view.datarep.as_bytes(),
            datarep,
            MAX_DATAREP_STRING,
            &raw mut length,
        );
    }
    SUCCESS
}
