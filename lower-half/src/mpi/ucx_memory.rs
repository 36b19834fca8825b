//! The address of a window's memory in UCX 1.13. There `ucp_mem_query` answers with the start of the registration that
//! its cache has found or made. That is the address rounded down to 16 bytes, or the start of larger memory that was
//! registered before. MPICH takes the answer for the start of the window. So what other ranks put there lands before
//! its place, also natively. Here the answer is the address that was mapped, as in later versions.
//!
//! MPICH finds these functions of this program before those of UCX, as it does `ucp_worker_progress`
//! (`progress_turn.rs`).
//!
//! # Safety
//! The functions are declared as in `ucp/api/ucp.h`. Its structures begin with a mask of the fields that are given;
//! their first fields have been the same in all versions.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::{c_uint, c_void};
use core::mem::transmute;

use super::progress_turn::ucx;

/// The masks of both structures: `UCP_MEM_MAP_PARAM_FIELD_…`, `UCP_MEM_ATTR_FIELD_…`.
const ADDRESS: u64 = 1 << 0;
const LENGTH: u64 = 1 << 1;
const FLAGS: u64 = 1 << 2;

/// `UCP_MEM_MAP_ALLOCATE`: the address is a wish at most.
const ALLOCATE: c_uint = 1 << 1;

/// The beginning of `ucp_mem_map_params_t`.
#[repr(C)]
pub struct Wanted {
    given: u64,
    address: *mut c_void,
    length: usize,
    flags: c_uint,
}

impl Wanted {
    /// The memory, if it is the caller's.
    fn memory(&self) -> Option<(*mut c_void, usize)> {
        let has = |field| self.given & field != 0;
        let allocates = has(FLAGS) && self.flags & ALLOCATE != 0;
        (has(ADDRESS) && has(LENGTH) && !allocates).then_some((self.address, self.length))
    }
}

/// The beginning of `ucp_mem_attr_t`.
#[repr(C)]
pub struct Mapped {
    wanted: u64,
    address: *mut c_void,
    length: usize,
}

impl Mapped {
    fn correct(&mut self, (address, length): (*mut c_void, usize)) {
        if self.wanted & ADDRESS != 0 {
            self.address = address;
        }
        if self.wanted & LENGTH != 0 {
            self.length = length;
        }
    }
}

/// A handle of mapped memory. Windows in one registration share it.
type Handle = *mut c_void;
/// `ucs_status_t` is an enumeration in one byte.
type Status = i8;
type Map = unsafe extern "C" fn(*mut c_void, *const Wanted, *mut Handle) -> Status;
type Query = unsafe extern "C" fn(Handle, *mut Mapped) -> Status;

thread_local! {
    /// The last mapping of this thread: handle, address and length. MPICH queries a mapping before it makes another.
    static LAST: Cell<Option<(Handle, (*mut c_void, usize))>> = const { Cell::new(None) };
}

/// UCX's function of this name. Remembers the memory.
///
/// # Safety
/// That of UCX's function.
#[no_mangle]
pub unsafe extern "C" fn ucp_mem_map(
    context: *mut c_void,
    wanted: *const Wanted,
    handle: *mut Handle,
) -> Status {
    // SAFETY: the function that the caller has meant. It has made the handle if it returns 0.
    unsafe {
        let real = transmute::<usize, Map>(ucx::find(c"ucp_mem_map"));
        let status = real(context, wanted, handle);
        if status == 0 {
            LAST.set((*wanted).memory().map(|memory| (*handle, memory)));
        }
        status
    }
}

/// UCX's function of this name. Answers with the address that was mapped.
///
/// # Safety
/// That of UCX's function.
#[no_mangle]
pub unsafe extern "C" fn ucp_mem_query(handle: Handle, mapped: *mut Mapped) -> Status {
    // SAFETY: the function that the caller has meant. It has read the mask if it returns 0.
    unsafe {
        let real = transmute::<usize, Query>(ucx::find(c"ucp_mem_query"));
        let status = real(handle, mapped);
        match LAST.get() {
            Some((last, memory)) if status == 0 && last == handle => (*mapped).correct(memory),
            _ => {}
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;
    use core::ptr::{null_mut, without_provenance_mut};

    #[test]
    fn the_fields_are_where_ucx_has_them() {
        assert_eq!(offset_of!(Wanted, address), 8);
        assert_eq!(offset_of!(Wanted, length), 16);
        assert_eq!(offset_of!(Wanted, flags), 24);
        assert_eq!(offset_of!(Mapped, address), 8);
        assert_eq!(offset_of!(Mapped, length), 16);
    }

    #[test]
    fn only_the_callers_own_memory_is_known() {
        let address = without_provenance_mut(0x1008);
        let wanted = |given, flags| Wanted {
            given,
            address,
            length: 24,
            flags,
        };
        let known = Some((address, 24));
        assert_eq!(wanted(ADDRESS | LENGTH, ALLOCATE).memory(), known);
        assert_eq!(wanted(ADDRESS | LENGTH | FLAGS, 1).memory(), known);
        assert_eq!(wanted(LENGTH, 0).memory(), None);
        let allocated = wanted(ADDRESS | LENGTH | FLAGS, ALLOCATE);
        assert_eq!(allocated.memory(), None);
    }

    #[test]
    fn only_fields_that_are_asked_for_change() {
        let mut mapped = Mapped {
            wanted: ADDRESS,
            address: null_mut(),
            length: 32,
        };
        mapped.correct((without_provenance_mut(8), 24));
        assert_eq!((mapped.address as usize, mapped.length), (8, 32));
    }
}
