//! Datatypes. Each derived one keeps the call that made it, in the form in which
//! MPI_Type_get_contents returns it, with references to the datatypes it was made from: that is
//! both the answer to that query and all that is needed to make it again.
//!
//! # Safety
//! Arrays and out parameters are the application's, as MPI prescribes them; crossings pass words of
//! live objects and arrays of the lengths beside them.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::attribute::{self, Attributes};
use crate::code::check;
use crate::comm::NAME_BYTES;
use crate::object::{Body, Datatype};
use crate::slices::{input, output};
use crate::sync::Lock;
use crate::{large, lingering, lower, object_table};
use contract::abi::*;
use contract::HandleKind;
use core::ffi::{c_char, c_void, CStr};
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::ffi::CString;

/// The call that made a datatype: its combiner and, as MPI 4.0, §5.1.13 orders them, its integers,
/// addresses, large counts (of a large-count constructor alone, which has some always) and datatypes.
#[derive(Clone)]
pub(crate) struct Contents {
    pub(crate) combiner: i32,
    pub(crate) integers: Vec<i32>,
    pub(crate) addresses: Vec<isize>,
    pub(crate) counts: Vec<i64>,
    pub(crate) datatypes: Vec<&'static Datatype>,
}

/// Body of a datatype.
pub struct DatatypeBody {
    pub(crate) contents: Contents,
    pub(crate) committed: AtomicBool,
    /// Made by MPI_Type_create_f90_*: named to the application, and never freed.
    pub(crate) permanent: bool,
    size: AtomicI64,
    name: Lock<CString>,
    pub(crate) attributes: Attributes,
}

impl Body for DatatypeBody {
    const KIND: HandleKind = HandleKind::Datatype;
    const CAPACITY: u32 = 1 << 20;
    const NULL: usize = datatype::DATATYPE_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = datatype::ALL;
    object_table!(DatatypeBody);

    fn predefined(index: u32) -> Self {
        let name = datatype::ALL
            .iter()
            .find(|entry| entry.1 == index as usize)
            .map_or("", |entry| entry.0);
        let body = DatatypeBody::new(Contents {
            combiner: COMBINER_NAMED,
            integers: Vec::new(),
            addresses: Vec::new(),
            counts: Vec::new(),
            datatypes: Vec::new(),
        });
        body.committed.store(true, Ordering::Relaxed);
        *body.name.lock() = CString::new(name).unwrap_or_default();
        body
    }

    fn retire(datatype: &'static Datatype) {
        // SAFETY: the last reference is gone. A failure leaks below.
        unsafe { lower::MPI_Type_free(datatype.lower_ptr()) };
        for child in &datatype.body.contents.datatypes {
            child.release();
        }
    }
}

impl DatatypeBody {
    fn new(contents: Contents) -> DatatypeBody {
        DatatypeBody {
            contents,
            committed: AtomicBool::new(false),
            permanent: false,
            size: AtomicI64::new(UNDEFINED.into()),
            name: Lock::new(CString::default()),
            attributes: Attributes::new(),
        }
    }

    /// Bytes of data in one element, as MPI_Type_size_x gives them.
    #[inline(always)]
    pub fn size(&self) -> i64 {
        self.size.load(Ordering::Relaxed)
    }
}

/// Asks the lower half for the size of a datatype and keeps it.
///
/// # Safety
/// Crosses; the datatype must have its word.
pub(crate) unsafe fn learn_size(datatype: &'static Datatype) {
    let mut size = 0;
    // SAFETY: passed on.
    if unsafe { lower::MPI_Type_size_x(datatype.lower(), &raw mut size) } == SUCCESS {
        datatype.body.size.store(size, Ordering::Relaxed);
    }
}

/// The predefined datatype of which all elements of a datatype are, if it is one.
pub(crate) fn element_of(datatype: &'static Datatype) -> Option<&'static Datatype> {
    let mut inner = datatype.body.contents.datatypes.iter();
    let Some(first) = inner.next() else {
        return (!datatype.is_null()).then_some(datatype);
    };
    let element = element_of(first)?;
    let same = |other: &&'static Datatype| {
        element_of(other).is_some_and(|other| other.index() == element.index())
    };
    inner.all(same).then_some(element)
}

/// Where so many elements of a datatype begin, from their address on, and how many bytes they span.
pub(crate) fn span(count: i32, datatype: &'static Datatype) -> Result<(isize, usize), i32> {
    if count == 0 {
        return Ok((0, 0));
    }
    let (mut lower_bound, mut extent, mut true_lower, mut true_extent) = (0, 0, 0, 0);
    // SAFETY: a live datatype and places for its bounds.
    unsafe {
        check(lower::named::MPI_Type_get_true_extent(
            datatype,
            &raw mut true_lower,
            &raw mut true_extent,
        ))?;
        check(lower::named::MPI_Type_get_extent(
            datatype,
            &raw mut lower_bound,
            &raw mut extent,
        ))?;
    }
    let last = (count as isize - 1).saturating_mul(extent);
    let below = true_lower.saturating_add(last.min(0));
    let bytes = true_extent.saturating_add(last.saturating_abs());
    let bytes = usize::try_from(bytes).map_err(|_| ERR_NO_MEM)?;
    Ok((below, bytes))
}

/// Reads a constructor's arrays out of its recorded integers, in order.
struct Integers<'a>(&'a [i32]);

impl<'a> Integers<'a> {
    fn one(&mut self) -> i32 {
        let first = self.0.first().copied().unwrap_or(0);
        self.0 = self.0.get(1..).unwrap_or_default();
        first
    }

    fn many(&mut self, n: i32) -> *const i32 {
        let n = usize::try_from(n).unwrap_or(0).min(self.0.len());
        let (array, rest) = self.0.split_at(n);
        self.0 = rest;
        array.as_ptr()
    }
}

/// Makes the datatype in the lower half: when the application makes it, and at every restart.
///
/// # Safety
/// Crosses; the contents' datatypes must have their words.
pub(crate) unsafe fn make_below(contents: &Contents) -> Result<usize, i32> {
    if !contents.counts.is_empty() {
        return match narrowed(contents) {
            // SAFETY: passed on.
            Some(ordinary) => unsafe { make_below(&ordinary) },
            // SAFETY: passed on.
            None => unsafe { large::compose(contents) },
        };
    }
    let types: Vec<usize> = contents
        .datatypes
        .iter()
        .map(|child| child.lower())
        .collect();
    let old = types
        .first()
        .copied()
        .unwrap_or_else(|| Datatype::null().lower());
    let addresses = contents.addresses.as_ptr();
    let address = |i: usize| contents.addresses.get(i).copied().unwrap_or(0);
    let mut integers = Integers(&contents.integers);
    let i = &mut integers;
    let mut word = Datatype::null().lower();
    let out = &raw mut word;
    // SAFETY: the arrays have the lengths that the recorded counts give; they were recorded so.
    let code = unsafe {
        match contents.combiner {
            COMBINER_DUP => lower::MPI_Type_dup(old, out),
            COMBINER_CONTIGUOUS => lower::MPI_Type_contiguous(i.one(), old, out),
            COMBINER_VECTOR => lower::MPI_Type_vector(i.one(), i.one(), i.one(), old, out),
            COMBINER_HVECTOR => {
                lower::MPI_Type_create_hvector(i.one(), i.one(), address(0), old, out)
            }
            COMBINER_INDEXED => {
                let n = i.one();
                lower::MPI_Type_indexed(n, i.many(n), i.many(n), old, out)
            }
            COMBINER_HINDEXED => {
                let n = i.one();
                lower::MPI_Type_create_hindexed(n, i.many(n), addresses, old, out)
            }
            COMBINER_INDEXED_BLOCK => {
                let n = i.one();
                lower::MPI_Type_create_indexed_block(n, i.one(), i.many(n), old, out)
            }
            COMBINER_HINDEXED_BLOCK => {
                let n = i.one();
                lower::MPI_Type_create_hindexed_block(n, i.one(), addresses, old, out)
            }
            COMBINER_STRUCT => {
                let n = i.one();
                lower::MPI_Type_create_struct(n, i.many(n), addresses, types.as_ptr(), out)
            }
            COMBINER_SUBARRAY => {
                let n = i.one();
                let (sizes, subsizes, starts) = (i.many(n), i.many(n), i.many(n));
                lower::MPI_Type_create_subarray(n, sizes, subsizes, starts, i.one(), old, out)
            }
            COMBINER_DARRAY => {
                let (size, rank, n) = (i.one(), i.one(), i.one());
                let (gsizes, distribs, dargs, psizes) =
                    (i.many(n), i.many(n), i.many(n), i.many(n));
                lower::MPI_Type_create_darray(
                    size,
                    rank,
                    n,
                    gsizes,
                    distribs,
                    dargs,
                    psizes,
                    i.one(),
                    old,
                    out,
                )
            }
            COMBINER_RESIZED => lower::MPI_Type_create_resized(old, address(0), address(1), out),
            COMBINER_F90_INTEGER => lower::MPI_Type_create_f90_integer(i.one(), out),
            COMBINER_F90_REAL => lower::MPI_Type_create_f90_real(i.one(), i.one(), out),
            COMBINER_F90_COMPLEX => lower::MPI_Type_create_f90_complex(i.one(), i.one(), out),
            _ => ERR_INTERN,
        }
    };
    check(code).map(|()| word)
}

/// The ordinary constructor's call for a large-count constructor's, if all its counts fit.
fn narrowed(contents: &Contents) -> Option<Contents> {
    let counts = &contents.counts;
    let ints = |counts: &[i64]| -> Option<Vec<i32>> {
        counts.iter().map(|&count| count.try_into().ok()).collect()
    };
    // How many of the large counts are addresses in the ordinary form: those at the end.
    let blocks = counts
        .first()
        .map_or(0, |&n| usize::try_from(n).unwrap_or(0));
    let addresses = match contents.combiner {
        COMBINER_HVECTOR => 1,
        COMBINER_HINDEXED | COMBINER_HINDEXED_BLOCK | COMBINER_STRUCT => blocks,
        COMBINER_RESIZED => counts.len(),
        _ => 0,
    };
    let (counts, addresses) = counts.split_at(counts.len().checked_sub(addresses)?);
    let before = match contents.combiner {
        COMBINER_SUBARRAY => 1,
        COMBINER_DARRAY => 3,
        _ => 0,
    };
    let (first, last) = contents.integers.split_at_checked(before)?;
    Some(Contents {
        combiner: contents.combiner,
        integers: [first, &ints(counts)?, last].concat(),
        addresses: addresses.iter().map(|&address| address as isize).collect(),
        counts: vec![],
        datatypes: contents.datatypes.clone(),
    })
}

/// Makes a datatype for the application from its recorded call.
pub(crate) unsafe fn create(contents: Contents, new: *mut &'static Datatype) -> i32 {
    if contents.datatypes.iter().any(|child| child.is_null()) {
        return ERR_TYPE;
    }
    // SAFETY: passed on.
    let word = match unsafe { make_below(&contents) } {
        Ok(word) => word,
        Err(code) => return code,
    };
    for child in &contents.datatypes {
        child.retain();
    }
    match Datatype::make(word, DatatypeBody::new(contents)) {
        Ok(made) => {
            // SAFETY: just made; MPI's contract for an out parameter.
            unsafe {
                learn_size(made);
                *new = made;
            }
            SUCCESS
        }
        Err(code) => code,
    }
}

/// The recorded form of a constructor with one old datatype.
fn of_one(
    combiner: i32,
    integers: Vec<i32>,
    addresses: Vec<isize>,
    old: &'static Datatype,
) -> Contents {
    Contents {
        combiner,
        integers,
        addresses,
        counts: vec![],
        datatypes: vec![old],
    }
}

/// MPI_Type_contiguous.
pub unsafe fn type_contiguous(
    count: i32,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: passed on.
    unsafe { create(of_one(COMBINER_CONTIGUOUS, vec![count], vec![], old), new) }
}

/// MPI_Type_vector.
pub unsafe fn type_vector(
    count: i32,
    blocklength: i32,
    stride: i32,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    let integers = vec![count, blocklength, stride];
    // SAFETY: passed on.
    unsafe { create(of_one(COMBINER_VECTOR, integers, vec![], old), new) }
}

/// MPI_Type_create_hvector.
pub unsafe fn type_create_hvector(
    count: i32,
    blocklength: i32,
    stride: isize,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    let integers = vec![count, blocklength];
    // SAFETY: passed on.
    unsafe { create(of_one(COMBINER_HVECTOR, integers, vec![stride], old), new) }
}

/// MPI_Type_hvector, the deprecated form.
pub unsafe fn type_hvector(
    count: i32,
    blocklength: i32,
    stride: isize,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: passed on.
    unsafe { type_create_hvector(count, blocklength, stride, old, new) }
}

/// MPI_Type_indexed.
pub unsafe fn type_indexed(
    count: i32,
    blocklengths: *const i32,
    displacements: *const i32,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: count entries each.
    unsafe {
        let integers = [
            &[count],
            input(blocklengths, count),
            input(displacements, count),
        ]
        .concat();
        create(of_one(COMBINER_INDEXED, integers, vec![], old), new)
    }
}

/// MPI_Type_create_hindexed.
pub unsafe fn type_create_hindexed(
    count: i32,
    blocklengths: *const i32,
    displacements: *const isize,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: count entries each.
    unsafe {
        let integers = [&[count], input(blocklengths, count)].concat();
        let addresses = input(displacements, count).to_vec();
        create(of_one(COMBINER_HINDEXED, integers, addresses, old), new)
    }
}

/// MPI_Type_hindexed, the deprecated form.
pub unsafe fn type_hindexed(
    count: i32,
    blocklengths: *const i32,
    displacements: *const isize,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: passed on.
    unsafe { type_create_hindexed(count, blocklengths, displacements, old, new) }
}

/// MPI_Type_create_indexed_block.
pub unsafe fn type_create_indexed_block(
    count: i32,
    blocklength: i32,
    displacements: *const i32,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: count entries.
    unsafe {
        let integers = [&[count, blocklength], input(displacements, count)].concat();
        create(of_one(COMBINER_INDEXED_BLOCK, integers, vec![], old), new)
    }
}

/// MPI_Type_create_hindexed_block.
pub unsafe fn type_create_hindexed_block(
    count: i32,
    blocklength: i32,
    displacements: *const isize,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: count entries.
    unsafe {
        let addresses = input(displacements, count).to_vec();
        let integers = vec![count, blocklength];
        create(
            of_one(COMBINER_HINDEXED_BLOCK, integers, addresses, old),
            new,
        )
    }
}

/// MPI_Type_create_struct.
pub unsafe fn type_create_struct(
    count: i32,
    blocklengths: *const i32,
    displacements: *const isize,
    types: *const &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: count entries each.
    unsafe {
        let contents = Contents {
            combiner: COMBINER_STRUCT,
            integers: [&[count], input(blocklengths, count)].concat(),
            addresses: input(displacements, count).to_vec(),
            counts: vec![],
            datatypes: input(types, count).to_vec(),
        };
        create(contents, new)
    }
}

/// MPI_Type_struct, the deprecated form.
pub unsafe fn type_struct(
    count: i32,
    blocklengths: *const i32,
    displacements: *const isize,
    types: *const &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: passed on.
    unsafe { type_create_struct(count, blocklengths, displacements, types, new) }
}

/// MPI_Type_create_subarray.
pub unsafe fn type_create_subarray(
    ndims: i32,
    sizes: *const i32,
    subsizes: *const i32,
    starts: *const i32,
    order: i32,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: ndims entries each.
    unsafe {
        let integers = [
            &[ndims],
            input(sizes, ndims),
            input(subsizes, ndims),
            input(starts, ndims),
            &[order],
        ]
        .concat();
        create(of_one(COMBINER_SUBARRAY, integers, vec![], old), new)
    }
}

/// MPI_Type_create_darray.
pub unsafe fn type_create_darray(
    size: i32,
    rank: i32,
    ndims: i32,
    gsizes: *const i32,
    distribs: *const i32,
    dargs: *const i32,
    psizes: *const i32,
    order: i32,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: ndims entries each.
    unsafe {
        let integers = [
            &[size, rank, ndims],
            input(gsizes, ndims),
            input(distribs, ndims),
            input(dargs, ndims),
            input(psizes, ndims),
            &[order],
        ]
        .concat();
        create(of_one(COMBINER_DARRAY, integers, vec![], old), new)
    }
}

/// MPI_Type_create_resized.
pub unsafe fn type_create_resized(
    old: &'static Datatype,
    lb: isize,
    extent: isize,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: passed on.
    unsafe { create(of_one(COMBINER_RESIZED, vec![], vec![lb, extent], old), new) }
}

/// MPI_Type_dup.
pub unsafe fn type_dup(old: &'static Datatype, new: *mut &'static Datatype) -> i32 {
    let mut made = Datatype::null();
    // SAFETY: passed on; a local.
    let code = unsafe { create(of_one(COMBINER_DUP, vec![], vec![], old), &raw mut made) };
    if code != SUCCESS {
        return code;
    }
    let committed = old.body.committed.load(Ordering::Relaxed);
    made.body.committed.store(committed, Ordering::Relaxed);
    let code = attribute::copy(&old.body.attributes, &made.body.attributes, old.handle());
    if code != SUCCESS {
        made.release();
        return code;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *new = made };
    SUCCESS
}

/// The parametric Fortran type with these parameters: the same handle each time.
unsafe fn parametric(combiner: i32, integers: Vec<i32>, new: *mut &'static Datatype) -> i32 {
    let known = DatatypeBody::table().dynamic().find(|known| {
        let contents = &known.body.contents;
        known.body.permanent && contents.combiner == combiner && contents.integers == integers
    });
    if let Some(known) = known {
        // SAFETY: MPI's contract for an out parameter.
        unsafe { *new = known };
        return SUCCESS;
    }
    let contents = Contents {
        combiner,
        integers,
        addresses: vec![],
        counts: vec![],
        datatypes: vec![],
    };
    // SAFETY: passed on.
    let word = match unsafe { make_below(&contents) } {
        Ok(word) => word,
        Err(code) => return code,
    };
    let mut body = DatatypeBody::new(contents);
    body.permanent = true;
    body.committed = AtomicBool::new(true);
    match Datatype::make(word, body) {
        Ok(made) => {
            // SAFETY: just made; MPI's contract for an out parameter.
            unsafe {
                learn_size(made);
                *new = made;
            }
            SUCCESS
        }
        Err(code) => code,
    }
}

/// MPI_Type_create_f90_integer.
pub unsafe fn type_create_f90_integer(r: i32, new: *mut &'static Datatype) -> i32 {
    // SAFETY: passed on.
    unsafe { parametric(COMBINER_F90_INTEGER, vec![r], new) }
}

/// MPI_Type_create_f90_real.
pub unsafe fn type_create_f90_real(p: i32, r: i32, new: *mut &'static Datatype) -> i32 {
    // SAFETY: passed on.
    unsafe { parametric(COMBINER_F90_REAL, vec![p, r], new) }
}

/// MPI_Type_create_f90_complex.
pub unsafe fn type_create_f90_complex(p: i32, r: i32, new: *mut &'static Datatype) -> i32 {
    // SAFETY: passed on.
    unsafe { parametric(COMBINER_F90_COMPLEX, vec![p, r], new) }
}

/// Fortran datatypes by class and size.
const SIZED: &[(i32, i32, usize)] = &[
    (TYPECLASS_INTEGER, 1, datatype::INTEGER1),
    (TYPECLASS_INTEGER, 2, datatype::INTEGER2),
    (TYPECLASS_INTEGER, 4, datatype::INTEGER4),
    (TYPECLASS_INTEGER, 8, datatype::INTEGER8),
    (TYPECLASS_INTEGER, 16, datatype::INTEGER16),
    (TYPECLASS_REAL, 2, datatype::REAL2),
    (TYPECLASS_REAL, 4, datatype::REAL4),
    (TYPECLASS_REAL, 8, datatype::REAL8),
    (TYPECLASS_REAL, 16, datatype::REAL16),
    (TYPECLASS_COMPLEX, 4, datatype::COMPLEX4),
    (TYPECLASS_COMPLEX, 8, datatype::COMPLEX8),
    (TYPECLASS_COMPLEX, 16, datatype::COMPLEX16),
    (TYPECLASS_COMPLEX, 32, datatype::COMPLEX32),
];

/// MPI_Type_match_size. A datatype that the application's ABI has no handle for is none.
pub unsafe fn type_match_size(class: i32, size: i32, out: *mut &'static Datatype) -> i32 {
    let found = SIZED
        .iter()
        .filter(|entry| (entry.0, entry.1) == (class, size))
        .map(|&(_, _, value)| Datatype::at(value as u32))
        .find(|datatype| {
            datatype.body.size() == i64::from(size)
                && datatype.handle() != Datatype::null().handle()
        });
    match found {
        Some(found) => {
            // SAFETY: MPI's contract for an out parameter.
            unsafe { *out = found };
            SUCCESS
        }
        None => ERR_ARG,
    }
}

/// MPI_Type_commit.
pub unsafe fn type_commit(datatype: *mut &'static Datatype) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *datatype };
    if given.is_null() {
        return ERR_TYPE;
    }
    if given.body.committed.load(Ordering::Relaxed) {
        return SUCCESS;
    }
    let mut word = given.lower();
    // SAFETY: a live datatype's word.
    let code = unsafe { lower::MPI_Type_commit(&raw mut word) };
    if code == SUCCESS {
        given.body.committed.store(true, Ordering::Relaxed);
    }
    code
}

/// MPI_Type_free: the datatype lives on while others are made from it or operations use it.
pub unsafe fn type_free(datatype: *mut &'static Datatype) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *datatype };
    if given.is_predefined() || given.body.permanent {
        return ERR_TYPE;
    }
    let code = attribute::delete(&given.body.attributes, given.handle());
    if code != SUCCESS {
        return code;
    }
    lingering::free_datatype(given);
    // SAFETY: as above.
    unsafe { *datatype = Datatype::null() };
    SUCCESS
}

/// MPI_Type_get_envelope. A datatype that was made with large counts has no answer here.
pub unsafe fn type_get_envelope(
    datatype: &'static Datatype,
    num_integers: *mut i32,
    num_addresses: *mut i32,
    num_datatypes: *mut i32,
    combiner: *mut i32,
) -> i32 {
    let contents = &datatype.body.contents;
    if datatype.is_null() || !contents.counts.is_empty() {
        return ERR_TYPE;
    }
    // SAFETY: MPI's contract for out parameters.
    unsafe {
        *num_integers = contents.integers.len() as i32;
        *num_addresses = contents.addresses.len() as i32;
        *num_datatypes = contents.datatypes.len() as i32;
        *combiner = contents.combiner;
    }
    SUCCESS
}

/// MPI_Type_get_contents. The derived datatypes among the results are new handles.
pub unsafe fn type_get_contents(
    datatype: &'static Datatype,
    max_integers: i32,
    max_addresses: i32,
    max_datatypes: i32,
    integers: *mut i32,
    addresses: *mut isize,
    datatypes: *mut &'static Datatype,
) -> i32 {
    if !datatype.body.contents.counts.is_empty() {
        return ERR_TYPE;
    }
    // SAFETY: passed on; there are no large counts to write.
    unsafe {
        type_get_contents_c(
            datatype,
            max_integers.into(),
            max_addresses.into(),
            0,
            max_datatypes.into(),
            integers,
            addresses,
            core::ptr::null_mut(),
            datatypes,
        )
    }
}

/// MPI_Type_get_envelope_c.
pub unsafe fn type_get_envelope_c(
    datatype: &'static Datatype,
    num_integers: *mut i64,
    num_addresses: *mut i64,
    num_large_counts: *mut i64,
    num_datatypes: *mut i64,
    combiner: *mut i32,
) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    let contents = &datatype.body.contents;
    // SAFETY: MPI's contract for out parameters.
    unsafe {
        *num_integers = contents.integers.len() as i64;
        *num_addresses = contents.addresses.len() as i64;
        *num_large_counts = contents.counts.len() as i64;
        *num_datatypes = contents.datatypes.len() as i64;
        *combiner = contents.combiner;
    }
    SUCCESS
}

/// MPI_Type_get_contents_c. The derived datatypes among the results are new handles.
pub unsafe fn type_get_contents_c(
    datatype: &'static Datatype,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    integers: *mut i32,
    addresses: *mut isize,
    counts: *mut i64,
    datatypes: *mut &'static Datatype,
) -> i32 {
    let contents = &datatype.body.contents;
    if datatype.is_null() || contents.combiner == COMBINER_NAMED {
        return ERR_TYPE;
    }
    let fits = |max: i64, n: usize| usize::try_from(max).is_ok_and(|max| max >= n);
    if !fits(max_integers, contents.integers.len())
        || !fits(max_addresses, contents.addresses.len())
        || !fits(max_large_counts, contents.counts.len())
        || !fits(max_datatypes, contents.datatypes.len())
    {
        return ERR_ARG;
    }
    // SAFETY: MPI's contract: as many entries as the maxima say.
    unsafe {
        output(&contents.integers, integers, max_integers);
        output(&contents.addresses, addresses, max_addresses);
        output(&contents.counts, counts, max_large_counts);
        output(&contents.datatypes, datatypes, max_datatypes);
    }
    for child in &contents.datatypes {
        if !child.body.permanent {
            child.retain();
        }
    }
    SUCCESS
}

/// MPI_Get_address.
pub unsafe fn get_address(location: *const c_void, address: *mut isize) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *address = location as isize };
    SUCCESS
}

/// MPI_Address, the deprecated form.
pub unsafe fn address(location: *const c_void, address: *mut isize) -> i32 {
    // SAFETY: passed on.
    unsafe { get_address(location, address) }
}

/// MPI_Type_set_name.
pub unsafe fn type_set_name(datatype: &'static Datatype, name: *const c_char) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    // SAFETY: MPI's contract: a NUL-terminated string.
    *datatype.body.name.lock() = unsafe { CStr::from_ptr(name) }.to_owned();
    SUCCESS
}

/// MPI_Type_get_name.
pub unsafe fn type_get_name(
    datatype: &'static Datatype,
    name: *mut c_char,
    length: *mut i32,
) -> i32 {
    let known = datatype.body.name.lock();
    // SAFETY: MPI's contract: MPI_MAX_OBJECT_NAME bytes.
    unsafe { crate::error::write_string(known.as_bytes(), name, NAME_BYTES, length) };
    SUCCESS
}

/// The datatype that a lower word stands for, as a user-defined operation meets it.
pub(crate) fn of_word(word: usize) -> &'static Datatype {
    let predefined = DatatypeBody::PREDEFINED
        .iter()
        .map(|&(_, value)| Datatype::at(value as u32));
    predefined
        .chain(DatatypeBody::table().dynamic())
        .find(|datatype| datatype.has_word(word))
        .unwrap_or_else(Datatype::null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(contents: Contents) -> &'static Datatype {
        crate::object::init();
        for child in &contents.datatypes {
            child.retain();
        }
        Datatype::make(0, DatatypeBody::new(contents)).expect("a datatype")
    }

    #[test]
    fn contents_come_back_as_the_standard_orders_them() {
        crate::object::init();
        let int = Datatype::at(datatype::INT as u32);
        let integers = vec![2, 3, 1, 0, 4];
        let made = record(of_one(COMBINER_INDEXED, integers.clone(), vec![], int));
        let (mut ni, mut na, mut nd, mut combiner) = (0, 0, 0, 0);
        let mut got = [0; 5];
        let mut types = [Datatype::null()];
        // SAFETY: all pointers are to locals of the right size.
        unsafe {
            type_get_envelope(made, &mut ni, &mut na, &mut nd, &mut combiner);
            assert_eq!((ni, na, nd, combiner), (5, 0, 1, COMBINER_INDEXED));
            let none = core::ptr::null_mut();
            let code = type_get_contents(made, 5, 0, 1, got.as_mut_ptr(), none, types.as_mut_ptr());
            assert_eq!(code, SUCCESS);
            let code = type_get_contents(made, 4, 0, 1, got.as_mut_ptr(), none, types.as_mut_ptr());
            assert_eq!(code, ERR_ARG);
            assert_eq!(
                type_get_envelope(int, &mut ni, &mut na, &mut nd, &mut combiner),
                SUCCESS
            );
        }
        assert_eq!(got.as_slice(), integers);
        assert_eq!(types[0].index(), int.index());
        assert_eq!(combiner, COMBINER_NAMED);
    }

    #[test]
    fn large_counts_that_fit_are_those_of_the_ordinary_constructor() {
        crate::object::init();
        let int = Datatype::at(datatype::INT as u32);
        let large = |combiner, integers: &[i32], counts: &[i64]| Contents {
            combiner,
            integers: integers.to_vec(),
            addresses: vec![],
            counts: counts.to_vec(),
            datatypes: vec![int],
        };
        let narrow = |contents| {
            let narrowed = narrowed(&contents)?;
            Some((narrowed.integers, narrowed.addresses))
        };
        let hvector = large(COMBINER_HVECTOR, &[], &[3, 4, 1 << 40]);
        assert_eq!(narrow(hvector), Some((vec![3, 4], vec![1 << 40])));
        let hindexed = large(COMBINER_HINDEXED, &[], &[2, 5, 6, 1 << 40, -8]);
        assert_eq!(narrow(hindexed), Some((vec![2, 5, 6], vec![1 << 40, -8])));
        let subarray = large(COMBINER_SUBARRAY, &[1, ORDER_C], &[9, 3, 2]);
        assert_eq!(narrow(subarray), Some((vec![1, 9, 3, 2, ORDER_C], vec![])));
        assert_eq!(narrow(large(COMBINER_CONTIGUOUS, &[], &[1 << 31])), None);
        let made = record(large(COMBINER_CONTIGUOUS, &[], &[7]));
        let (mut n, mut combiner) = ([0_i64; 4], 0);
        let mut small = [0_i32; 3];
        // SAFETY: all pointers are to locals.
        unsafe {
            let [i, a, c, d] = &mut n;
            assert_eq!(
                type_get_envelope_c(made, i, a, c, d, &mut combiner),
                SUCCESS
            );
            let [i, a, d] = &mut small;
            assert_eq!(type_get_envelope(made, i, a, d, &mut combiner), ERR_TYPE);
        }
        assert_eq!(n, [0, 0, 1, 1]);
    }

    #[test]
    fn children_are_kept_while_they_are_used() {
        crate::object::init();
        let int = Datatype::at(datatype::INT as u32);
        let child = record(of_one(COMBINER_CONTIGUOUS, vec![2], vec![], int));
        let parent = record(of_one(COMBINER_CONTIGUOUS, vec![2], vec![], child));
        assert_eq!(child.references(), 2);
        let mut types = [Datatype::null()];
        let mut got = [0];
        // SAFETY: all pointers are to locals of the right size.
        unsafe {
            let none = core::ptr::null_mut();
            type_get_contents(parent, 1, 0, 1, got.as_mut_ptr(), none, types.as_mut_ptr());
        }
        assert_eq!(child.references(), 3);
        assert!(child.index() < parent.index());
    }

    #[test]
    fn names_of_predefined_datatypes() {
        crate::object::init();
        let mut name = [0 as c_char; NAME_BYTES];
        let mut length = 0;
        let twoint = Datatype::at(datatype::TWOINT as u32);
        // SAFETY: locals of the right size.
        unsafe {
            type_get_name(twoint, name.as_mut_ptr(), &mut length);
            assert_eq!(CStr::from_ptr(name.as_ptr()), c"MPI_2INT");
        }
        assert_eq!(length, 8);
    }
}
