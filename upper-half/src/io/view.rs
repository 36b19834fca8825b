//! Views of files: the displacement and the datatypes by which a process sees a file.

use crate::argument::{Out, Output};
use crate::comm::numbers::greatest;
use crate::crossing::mpi_result::check;
use crate::object::file::View;
use crate::object::info::crossing_info;
use crate::object::lower_handle::named;
use crate::object::lower_handle::temporary::with;
use crate::object::{Datatype, File, Info};
use crate::quiesce::collective_gate::collective_end;
use crate::quiesce::retractable::first_call;
use crate::quiesce::{collective, Inputs};
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
    let set = |disp| {
        with(crossing_info(info), |info| {
            named::MPI_File_set_view(file, disp, etype, filetype, datarep, info)
        })
    };
    let result = match disp == DISPLACEMENT_CURRENT {
        true => set_at_pointer(file, set),
        false => check(collective(body.comm, Inputs::Stay, &mut |code| {
            *code = set(disp)
        }))
        .map(|()| disp),
    };
    match result {
        Ok(disp) => {
            let view = View {
                disp,
                etype,
                filetype,
                datarep: datarep.to_owned(),
            };
            view.retain();
            let before = core::mem::replace(&mut *body.view.lock(), view);
            before.release();
            body.take_hints(info);
            SUCCESS
        }
        Err(code) => code,
    }
}

/// Sets a view that begins where the shared pointer stands; the displacement in bytes. No process may look before all
/// have come here, hence the barrier. No process may set the view before all have looked, and none leaves the reduction
/// earlier.
fn set_at_pointer(file: &'static File, set: impl Fn(i64) -> i32) -> Result<i64, i32> {
    let comm = file.body.comm;
    file.body.shares_pointer();
    let (token, met) = first_call(comm, &mut |code| *code = named::MPI_Barrier(comm));
    let result = check(met).and_then(|()| {
        let (mut position, mut disp) = (0, 0);
        check(named::MPI_File_get_position_shared(file, &mut position))?;
        check(named::MPI_File_get_byte_offset(file, position, &mut disp))?;
        let [disp] = greatest(comm, [disp])?;
        check(set(disp)).map(|()| disp)
    });
    collective_end(token);
    result
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
