//! Attributes as data: the table of keyvals, and what is cached on one object.
//!
//! An attribute remembers the language that it was set from, because each language sees what another has set in a way
//! of its own (MPI 3.1, §17.2.7): what C sets is a pointer, what Fortran sets is an integer, and C gets the address of
//! a Fortran integer.

use crate::runtime::lock::Lock;

/// The first keyval that is not predefined. Fronts pass keyvals from here up as they are.
pub const FIRST_KEYVAL: i32 = 0x1000;

/// Kind of object that a keyval is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyvalKind {
    Comm,
    Type,
    Win,
}

/// How an attribute's value was set. The numbers are those by which MPICH's Fortran layer knows it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A pointer, from C.
    Pointer = 0,
    /// An integer of the size of an address, from Fortran.
    Address = 1,
    /// An integer, from Fortran through the functions that MPI-2 deprecated.
    Integer = 3,
}

/// A value with its form. Fortran's integers have memory of their own: C gets their addresses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Pointer(usize),
    Address(Box<isize>),
    Integer(Box<i32>),
}

impl Value {
    pub(crate) fn new(word: usize, form: Form) -> Value {
        match form {
            Form::Pointer => Value::Pointer(word),
            Form::Address => Value::Address(Box::new(word as isize)),
            Form::Integer => Value::Integer(Box::new(word as i32)),
        }
    }

    pub(crate) fn form(&self) -> Form {
        match self {
            Value::Pointer(_) => Form::Pointer,
            Value::Address(_) => Form::Address,
            Value::Integer(_) => Form::Integer,
        }
    }

    /// The pointer, or the integer itself.
    pub(crate) fn word(&self) -> usize {
        match self {
            Value::Pointer(pointer) => *pointer,
            Value::Address(address) => **address as usize,
            Value::Integer(integer) => **integer as isize as usize,
        }
    }

    /// What C gets: a pointer.
    pub(crate) fn for_c(&self) -> usize {
        match self {
            Value::Pointer(pointer) => *pointer,
            Value::Address(address) => core::ptr::from_ref::<isize>(address) as usize,
            Value::Integer(integer) => core::ptr::from_ref::<i32>(integer) as usize,
        }
    }
}

/// A function that calls an application's copy callback in the convention of its language:
/// `(callback, handle, keyval, extra, form, value, new value, flag)`. The handle is C's; values are
/// pointers or integers, as their form says.
pub type CopyProxy =
    unsafe extern "C" fn(usize, usize, i32, usize, Form, usize, *mut usize, *mut i32) -> i32;

/// The same for a delete callback: `(callback, handle, keyval, form, value, extra)`.
pub type DeleteProxy = unsafe extern "C" fn(usize, usize, i32, Form, usize, usize) -> i32;

/// Who calls the callbacks of a keyval.
#[derive(Clone, Copy)]
pub struct Proxies {
    /// Calls the copy callback.
    pub copy: CopyProxy,
    /// Calls the delete callback.
    pub delete: DeleteProxy,
}

/// Addresses of the application's callbacks (0 where there is none to call).
#[derive(Clone, Copy)]
pub(crate) struct Keyval {
    pub(crate) used_for: KeyvalKind,
    pub(crate) copy: usize,
    pub(crate) delete: usize,
    /// Who calls them; none for C's.
    pub(crate) proxies: Option<Proxies>,
    pub(crate) extra: usize,
    /// The application's handle, and every attribute cached under it.
    pub(crate) references: u32,
    pub(crate) freed: bool,
}

pub(crate) static KEYVALS: Lock<Vec<Option<Keyval>>> = Lock::new(Vec::new());

/// What is cached on one object, in the order in which it was set.
pub struct Attributes(pub(crate) Lock<Vec<(i32, Value)>>);

pub(crate) fn index(keyval: i32) -> Option<usize> {
    usize::try_from(keyval.checked_sub(FIRST_KEYVAL)?).ok()
}

pub(crate) fn look_up(keyval: i32) -> Option<Keyval> {
    let all = KEYVALS.lock();
    *all.get(index(keyval)?)?
}

/// Changes the number of references of a keyval, and drops it with the last.
pub(crate) fn refer(keyval: i32, change: i32) {
    let mut all = KEYVALS.lock();
    let Some(entry) = index(keyval).and_then(|index| all.get_mut(index)) else {
        return;
    };
    if let Some(found) = entry {
        found.references = found.references.saturating_add_signed(change);
        if found.references == 0 {
            *entry = None;
        }
    }
}

impl Attributes {
    /// None cached.
    pub const fn new() -> Attributes {
        Attributes(Lock::new(Vec::new()))
    }

    /// What `see` makes of the value, if there is one.
    pub(crate) fn get<R>(&self, keyval: i32, see: impl FnOnce(&Value) -> R) -> Option<R> {
        let all = self.0.lock();
        let found = all.iter().find(|entry| entry.0 == keyval)?;
        Some(see(&found.1))
    }

    pub(crate) fn set(&self, keyval: i32, value: Value) {
        refer(keyval, 1);
        self.0.lock().push((keyval, value));
    }

    pub(crate) fn remove(&self, keyval: i32) {
        self.0.lock().retain(|entry| entry.0 != keyval);
        refer(keyval, -1);
    }
}

impl Default for Attributes {
    fn default() -> Self {
        Self::new()
    }
}
