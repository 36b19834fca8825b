//! The body of an info object: an ordered dictionary, wholly in the upper half. Where one must cross, a lower info
//! object with the same entries is made for the length of the call.

use crate::object::lower_handle::named;
use crate::object::lower_handle::temporary::CrossingInfo;
use crate::object::table::Body;
use crate::object::table::Object;
use crate::object_table;
use crate::runtime::lock::Lock;
use contract::abi::*;
use contract::HandleKind;
use core::ffi::CStr;
use std::ffi::CString;

/// One entry: key and value.
pub(crate) type Entry = (CString, CString);

/// An info object.
pub type Info = Object<InfoBody>;

/// Body of an info object.
pub struct InfoBody {
    pub(crate) entries: Lock<Vec<Entry>>,
}

impl Body for InfoBody {
    const KIND: HandleKind = HandleKind::Info;
    const CAPACITY: u32 = 1 << 20;
    const NULL: usize = info::INFO_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = info::ALL;
    object_table!(InfoBody);

    fn predefined(_index: u32) -> Self {
        InfoBody::with(Vec::new())
    }
}

impl InfoBody {
    pub(crate) fn with(entries: Vec<Entry>) -> InfoBody {
        InfoBody {
            entries: Lock::new(entries),
        }
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &CStr) -> Option<CString> {
        let entries = self.entries.lock();
        let entry = entries.iter().find(|entry| entry.0.as_c_str() == key)?;
        Some(entry.1.clone())
    }

    /// A copy of all entries, in order.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    pub(crate) fn set(&self, key: &CStr, value: &CStr) {
        let entry = (key.to_owned(), value.to_owned());
        update(&mut self.entries.lock(), entry);
    }

    pub(crate) fn delete(&self, key: &CStr) -> bool {
        let mut entries = self.entries.lock();
        let before = entries.len();
        entries.retain(|entry| entry.0.as_c_str() != key);
        entries.len() != before
    }
}

/// Gives a key its value, in its old place or as the last.
pub(crate) fn update(entries: &mut Vec<Entry>, (key, value): Entry) {
    match entries.iter_mut().find(|entry| entry.0 == key) {
        Some(entry) => entry.1 = value,
        None => entries.push((key, value)),
    }
}

/// Makes a lower info object with the entries of `info`. Hints are only hints: where the lower
/// library does not take one (a key that is too long for it, say), the crossing goes without it.
pub fn crossing_info(info: &'static Info) -> CrossingInfo {
    crossing_entries(&info.body.entries())
}

/// The same for entries that an object keeps.
pub(crate) fn crossing_entries(entries: &[Entry]) -> CrossingInfo {
    CrossingInfo::made(|info| {
        if entries.is_empty() {
            return SUCCESS;
        }
        let code = named::MPI_Info_create(&mut *info);
        if code == SUCCESS {
            for (key, value) in entries {
                named::MPI_Info_set(&*info, key, value);
            }
        }
        code
    })
}

/// A new info object with these entries, as a handle for the application.
pub(crate) fn make_info(entries: Vec<Entry>) -> Result<&'static Info, i32> {
    Info::make(0, InfoBody::with(entries))
}
