//! The attributes that MPI itself caches on MPI_COMM_WORLD and on windows.

use crate::argument::Out;
use crate::crossing::app_abi::abi;
use crate::error::class::LAST_USED;
use crate::object::Win;
use contract::abi::*;
use core::sync::atomic::{AtomicI32, Ordering};

/// Standard values of the predefined attributes of MPI_COMM_WORLD. The application gets their addresses. Fronts
/// exchange those whose values are constants of an ABI.
pub(crate) struct World {
    /// MPI_TAG_UB: fixed, so that it never shrinks under another library.
    pub(crate) tag_ub: AtomicI32,
    /// MPI_HOST: no process is special.
    host: AtomicI32,
    /// MPI_IO: every process can do input and output.
    io: AtomicI32,
    /// MPI_WTIME_IS_GLOBAL: clocks are not synchronised.
    wtime_is_global: AtomicI32,
    /// MPI_APPNUM.
    appnum: AtomicI32,
    /// MPI_UNIVERSE_SIZE.
    pub(crate) universe_size: AtomicI32,
}

/// The tag bound that applications see, also where the library below allows more. A restart may bring a library that
/// allows less, down to this.
pub(crate) const TAG_UB_LIMIT: i32 = (1 << 20) - 1;

pub(crate) static WORLD: World = World {
    tag_ub: AtomicI32::new(TAG_UB_LIMIT),
    host: AtomicI32::new(PROC_NULL),
    io: AtomicI32::new(ANY_SOURCE),
    wtime_is_global: AtomicI32::new(0),
    appnum: AtomicI32::new(0),
    universe_size: AtomicI32::new(0),
};

/// Address of the value of a predefined attribute.
pub(crate) fn predefined(keyval: i32) -> Option<usize> {
    let value = match keyval {
        TAG_UB => &WORLD.tag_ub,
        HOST => &WORLD.host,
        IO => &WORLD.io,
        WTIME_IS_GLOBAL => &WORLD.wtime_is_global,
        APPNUM => &WORLD.appnum,
        LASTUSEDCODE => &LAST_USED,
        UNIVERSE_SIZE => &WORLD.universe_size,
        _ => return None,
    };
    Some(value.as_ptr() as usize)
}

/// Sets what depends on the application's ABI and on the job.
pub(crate) fn init(tag_ub: i32, size: i32) {
    WORLD
        .tag_ub
        .store(tag_ub.min(TAG_UB_LIMIT), Ordering::Relaxed);
    WORLD.universe_size.store(size, Ordering::Relaxed);
    let last = (abi().error_out)(LAST_USED.load(Ordering::Relaxed));
    LAST_USED.store(last, Ordering::Relaxed);
}

/// MPI_Win_get_attr for what MPI itself caches on a window.
pub(crate) fn own_attribute_of_window(
    win: &'static Win,
    keyval: i32,
    mut value: Out<'_, usize>,
    mut flag: Out<'_, i32>,
) -> i32 {
    let body = &win.body;
    let found = match keyval {
        WIN_BASE => body.base,
        WIN_SIZE => (&raw const body.bytes) as usize,
        WIN_DISP_UNIT => (&raw const body.unit) as usize,
        WIN_CREATE_FLAVOR => (&raw const body.flavor) as usize,
        _ => (&raw const body.model) as usize,
    };
    value.set(found);
    flag.set(1);
    SUCCESS
}
