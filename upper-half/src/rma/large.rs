//! The functions of windows whose displacement unit is an MPI_Aint. It is a size in bytes of the window's memory, so
//! one that does not fit an int is refused.

use crate::argument::{Buffer, Out};
use crate::crossing::report::unsupported;
use crate::object::{Comm, Info, Win};
use crate::rma::create::{win_allocate, win_allocate_shared, win_create, win_shared_query};
use contract::abi::{ERR_UNSUPPORTED_OPERATION, SUCCESS};

/// Calls the ordinary form with the unit as an int, or refuses the function of that name.
fn narrowed(unit: isize, name: &str, ordinary: impl FnOnce(i32) -> i32) -> i32 {
    match i32::try_from(unit) {
        Ok(unit) => ordinary(unit),
        Err(_) => {
            unsupported(name, "a displacement unit is at most 2147483647 bytes");
            ERR_UNSUPPORTED_OPERATION
        }
    }
}

/// MPI_Win_create_c.
pub fn win_create_c(
    base: Buffer<'static>,
    size: isize,
    disp_unit: isize,
    info: &'static Info,
    comm: &'static Comm,
    win: &mut &'static Win,
) -> i32 {
    narrowed(disp_unit, "MPI_Win_create_c", |unit| {
        win_create(base, size, unit, info, comm, win)
    })
}

/// MPI_Win_allocate_c.
pub fn win_allocate_c(
    size: isize,
    disp_unit: isize,
    info: &'static Info,
    comm: &'static Comm,
    baseptr: Out<'_, usize>,
    win: &mut &'static Win,
) -> i32 {
    narrowed(disp_unit, "MPI_Win_allocate_c", |unit| {
        win_allocate(size, unit, info, comm, baseptr, win)
    })
}

/// MPI_Win_allocate_shared_c.
pub fn win_allocate_shared_c(
    size: isize,
    disp_unit: isize,
    info: &'static Info,
    comm: &'static Comm,
    baseptr: Out<'_, usize>,
    win: &mut &'static Win,
) -> i32 {
    narrowed(disp_unit, "MPI_Win_allocate_shared_c", |unit| {
        win_allocate_shared(size, unit, info, comm, baseptr, win)
    })
}

/// MPI_Win_shared_query_c.
pub fn win_shared_query_c(
    win: &'static Win,
    rank: i32,
    size: Out<'_, isize>,
    mut disp_unit: Out<'_, isize>,
    baseptr: Out<'_, usize>,
) -> i32 {
    let mut unit = 0;
    let code = win_shared_query(win, rank, size, (&mut unit).into(), baseptr);
    if code == SUCCESS {
        disp_unit.set(unit as isize);
    }
    code
}
