//! The body of a datatype. A derived one keeps the call that made it, in the form in which MPI_Type_get_contents
//! returns it, with references to the datatypes it was made from. That answers the query, and is all that is needed to
//! create the datatype again.

use crate::object::attributes::Attributes;
use crate::object::lower_handle::named;
use crate::object::table::Body;
use crate::object::table::Object;

use crate::object_table;
use crate::runtime::lock::Lock;
use contract::abi::*;
use contract::HandleKind;
use core::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::ffi::CString;
use std::sync::OnceLock;

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

/// Bounds of one element, as MPI_Type_get_extent and MPI_Type_get_true_extent give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extents {
    pub(crate) lower_bound: isize,
    pub(crate) extent: isize,
    pub(crate) true_lower_bound: isize,
    pub(crate) true_extent: isize,
}

impl Extents {
    /// Lower bound and extent.
    pub(crate) fn bounds(self) -> [isize; 2] {
        [self.lower_bound, self.extent]
    }

    /// True lower bound and true extent.
    pub(crate) fn true_bounds(self) -> [isize; 2] {
        [self.true_lower_bound, self.true_extent]
    }
}

/// A datatype.
pub type Datatype = Object<DatatypeBody>;

/// Body of a datatype.
pub struct DatatypeBody {
    pub(crate) contents: Contents,
    pub(crate) committed: AtomicBool,
    /// Made by MPI_Type_create_f90_*: named to the application, and never freed.
    pub(crate) permanent: bool,
    pub(crate) size: AtomicI64,
    pub(crate) extents: OnceLock<Extents>,
    pub(crate) name: Lock<CString>,
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
        // The last reference is gone. A failure leaks below.
        named::MPI_Type_free(&mut datatype.leave());
        for child in &datatype.body.contents.datatypes {
            child.release();
        }
    }
}

impl DatatypeBody {
    pub(crate) fn new(contents: Contents) -> DatatypeBody {
        DatatypeBody {
            contents,
            committed: AtomicBool::new(false),
            permanent: false,
            size: AtomicI64::new(UNDEFINED.into()),
            extents: OnceLock::new(),
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

/// The datatype that a lower handle stands for, as a user-defined operation meets it.
pub(crate) fn datatype_of_lower(lower_handle: usize) -> &'static Datatype {
    let predefined = DatatypeBody::PREDEFINED
        .iter()
        .map(|&(_, value)| Datatype::at(value as u32));
    predefined
        .chain(DatatypeBody::table().dynamic())
        .find(|datatype| datatype.has_lower(lower_handle))
        .unwrap_or_else(Datatype::null)
}
