//! Lower handles of predefined objects, from the table that the library's C compiler made.
//!
//! # Safety
//! The C table is constant and ends with an entry of kind `u32::MAX`.
#![allow(unsafe_code)]

use contract::{abi, HandleKind};

use super::convert::native;

/// What [`lower`] answers for objects that the library does not have.
pub const NONE: usize = usize::MAX;

#[repr(C)]
struct Entry {
    kind: u32,
    standard: u64,
    native: usize,
}

extern "C" {
    static stasis_handles: [Entry; 0];
}

/// The entries of the table.
fn entries() -> impl Iterator<Item = &'static Entry> {
    let begin = (&raw const stasis_handles).cast::<Entry>();
    let mut at = 0;
    core::iter::from_fn(move || {
        // SAFETY: the iteration ends at the table's last entry.
        let entry = unsafe { &*begin.wrapping_add(at) };
        at += 1;
        (entry.kind != u32::MAX).then_some(entry)
    })
    .fuse()
}

fn find(kind: u32, standard: usize) -> Option<usize> {
    let mut entries = entries().filter(|entry| entry.kind == kind);
    let entry = entries.find(|entry| entry.standard == standard as u64)?;
    Some(widen(kind, entry.native))
}

/// The standard value of the library's handle of a predefined object.
pub fn standard(kind: u32, lower: usize) -> Option<usize> {
    let mut entries = entries().filter(|entry| entry.kind == kind);
    let entry = entries.find(|entry| widen(kind, entry.native) == lower)?;
    usize::try_from(entry.standard).ok()
}

/// Zero-extends a 32-bit handle that C has sign-extended.
fn widen(kind: u32, native: usize) -> usize {
    let is_narrow = size_of::<mpi_sys::MPI_Comm>() == size_of::<u32>();
    match is_narrow && kind != HandleKind::File as u32 {
        true => native as u32 as usize,
        false => native,
    }
}

/// The library's handle for a predefined object of the standard ABI, or [`NONE`].
pub fn lower(kind: u32, standard: usize) -> usize {
    let Some(found) = find(kind, standard) else {
        return NONE;
    };
    // A type that the library was built without may be its null type.
    let is_datatype = kind == HandleKind::Datatype as u32;
    let null = abi::datatype::DATATYPE_NULL;
    let is_there = || Some(found) != find(kind, null) && native::has_datatype(found);
    match !is_datatype || standard == null || is_there() {
        true => found,
        false => NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::super::convert::handle::Handle;
    use super::*;

    #[test]
    fn knows_the_librarys_objects() {
        // Those of the standard ABI are no variables of a library.
        #[allow(unused_unsafe)]
        // SAFETY: constants of the library.
        let (world, int8, max) = unsafe {
            (
                mpi_sys::RSMPI_COMM_WORLD,
                mpi_sys::RSMPI_INT8_T,
                mpi_sys::RSMPI_MAX,
            )
        };
        assert_eq!(
            lower(HandleKind::Comm as u32, abi::comm::COMM_WORLD),
            world.lower()
        );
        assert_eq!(
            lower(HandleKind::Datatype as u32, abi::datatype::INT8_T),
            int8.lower()
        );
        assert_eq!(lower(HandleKind::Op as u32, abi::op::MAX), max.lower());
        assert_eq!(lower(HandleKind::Op as u32, 0x3ff), NONE);
        for (name, datatype) in abi::datatype::ALL {
            let known = lower(HandleKind::Datatype as u32, *datatype) != NONE;
            // Fortran's types of a given size are optional.
            let optional = name.ends_with(|c: char| c.is_ascii_digit());
            assert!(known || optional, "{name}");
        }
    }
}
