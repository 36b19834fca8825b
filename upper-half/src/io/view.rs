//! Views of files: the displacement and the datatypes by which a process sees a file.

use crate::argument::{Out, Output};
use crate::comm::numbers::greatest;
use crate::crossing::mpi_result::check;
use crate::object::file::View;
use crate::object::info::crossing_info;
use crate::object::lower_handle::named;
use crate::object::{Datatype, File, Info};
use crate::quiesce::collective_gate::{collective_begin, collective_end};
use contract::abi::*;
use core::ffi::{c_char, CStr};

/// MPI_File_set_view.
pub fn file_set_view(
    file: &'static File,
    disp: i64,
    etype: &'static Datatype,
    filetype: &'static Datatype,
    datarep: &CStr,
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
    let result = set_below(file, disp, etype, filetype, datarep, info);
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

fn set_below(
    file: &'static File,
    disp: i64,
    etype: &'static Datatype,
    filetype: &'static Datatype,
    datarep: &CStr,
    info: &'static Info,
) -> Result<View, i32> {
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
        datarep: datarep.to_owned(),
    })
}

/// Where the shared pointer stands, in bytes. No process may look before all have come here, hence the barrier. No
/// process may set the view before all have looked, and none leaves the reduction earlier.
fn current(file: &'static File) -> Result<i64, i32> {
    let (mut position, mut disp) = (0, 0);
    file.body.shares_pointer();
    check(named::MPI_Barrier(file.body.comm))?;
    check(named::MPI_File_get_position_shared(file, &mut position))?;
    check(named::MPI_File_get_byte_offset(file, position, &mut disp))?;
    let [disp] = greatest(file.body.comm, [disp])?;
    Ok(disp)
}

/// MPI_File_get_view. Derived datatypes among the results are new handles of the same datatypes, as
/// in MPI_Type_get_contents.
pub fn file_get_view(
    file: &'static File,
    mut disp: Out<'_, i64>,
    etype: &mut &'static Datatype,
    filetype: &mut &'static Datatype,
    mut datarep: Output<'_, c_char>,
) -> i32 {
    if file.is_null() {
        return ERR_FILE;
    }
    let view = file.body.view.lock().clone();
    view.retain();
    disp.set(view.disp);
    *etype = view.etype;
    *filetype = view.filetype;
    datarep.text(view.datarep.as_bytes());
    SUCCESS
}
