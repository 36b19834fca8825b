//! Attributes: keyvals with the application's callbacks, and what is cached under them on
//! communicators, datatypes and windows. All of it lives in the upper half.
//!
//! An attribute remembers the language that it was set from, because each language sees what another
//! has set in a way of its own (MPI 3.1, §17.2.7): what C sets is a pointer, what Fortran sets is an
//! integer, and C gets the address of a Fortran integer.
//!
//! # Safety
//! Callbacks are called as the functions that they were registered as: those of C directly, those of
//! Fortran by the proxies that their front gave for them. Out parameters are the application's, as
//! MPI prescribes them.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::abi::abi;
use crate::error::LAST_USED;
use crate::object::{Comm, Datatype, Win};
use crate::sync::Lock;
use crate::wrapper;
use contract::abi::*;
use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, Ordering};

/// The first keyval that is not predefined. Fronts pass keyvals from here up as they are.
pub const FIRST_KEYVAL: i32 = 0x1000;

/// Kind of object that a keyval is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
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
enum Value {
    Pointer(usize),
    Address(Box<isize>),
    Integer(Box<i32>),
}

impl Value {
    fn new(word: usize, form: Form) -> Value {
        match form {
            Form::Pointer => Value::Pointer(word),
            Form::Address => Value::Address(Box::new(word as isize)),
            Form::Integer => Value::Integer(Box::new(word as i32)),
        }
    }

    fn form(&self) -> Form {
        match self {
            Value::Pointer(_) => Form::Pointer,
            Value::Address(_) => Form::Address,
            Value::Integer(_) => Form::Integer,
        }
    }

    /// The pointer, or the integer itself.
    fn word(&self) -> usize {
        match self {
            Value::Pointer(pointer) => *pointer,
            Value::Address(address) => **address as usize,
            Value::Integer(integer) => **integer as isize as usize,
        }
    }

    /// What C gets: a pointer.
    fn for_c(&self) -> usize {
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
struct Keyval {
    used_for: For,
    copy: usize,
    delete: usize,
    /// Who calls them; none for C's.
    proxies: Option<Proxies>,
    extra: usize,
    /// The application's handle, and every attribute cached under it.
    references: u32,
    freed: bool,
}

static KEYVALS: Lock<Vec<Option<Keyval>>> = Lock::new(Vec::new());

/// What is cached on one object, in the order in which it was set.
pub struct Attributes(Lock<Vec<(i32, Value)>>);

type Copy = unsafe extern "C" fn(usize, i32, usize, usize, *mut usize, *mut i32) -> i32;
type Delete = unsafe extern "C" fn(usize, i32, usize, usize) -> i32;

fn index(keyval: i32) -> Option<usize> {
    usize::try_from(keyval.checked_sub(FIRST_KEYVAL)?).ok()
}

fn look_up(keyval: i32) -> Option<Keyval> {
    let all = KEYVALS.lock();
    *all.get(index(keyval)?)?
}

/// Changes the number of references of a keyval, and drops it with the last.
fn refer(keyval: i32, change: i32) {
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

fn create(used_for: For, copy: *const c_void, delete: *const c_void, extra: *const c_void) -> i32 {
    let keyval = Keyval {
        used_for,
        copy: copy as usize,
        delete: delete as usize,
        proxies: None,
        extra: extra as usize,
        references: 1,
        freed: false,
    };
    let mut all = KEYVALS.lock();
    let at = match all.iter().position(Option::is_none) {
        Some(at) => at,
        None => {
            all.push(None);
            all.len() - 1
        }
    };
    all[at] = Some(keyval);
    FIRST_KEYVAL + at as i32
}

unsafe fn free(used_for: For, keyval: *mut i32) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *keyval };
    let first = {
        let mut all = KEYVALS.lock();
        let entry = index(given).and_then(|index| all.get_mut(index));
        match entry {
            Some(Some(found)) if found.used_for == used_for => {
                !core::mem::replace(&mut found.freed, true)
            }
            _ => return ERR_KEYVAL,
        }
    };
    // A copy of the handle may be freed as well, by a delete callback for one, for as long as
    // attributes keep the keyval.
    if first {
        refer(given, -1);
    }
    // SAFETY: as above.
    unsafe { *keyval = KEYVAL_INVALID };
    SUCCESS
}

impl Attributes {
    /// None cached.
    pub const fn new() -> Attributes {
        Attributes(Lock::new(Vec::new()))
    }

    /// What `see` makes of the value, if there is one.
    fn get<R>(&self, keyval: i32, see: impl FnOnce(&Value) -> R) -> Option<R> {
        let all = self.0.lock();
        let found = all.iter().find(|entry| entry.0 == keyval)?;
        Some(see(&found.1))
    }

    fn set(&self, keyval: i32, value: Value) {
        refer(keyval, 1);
        self.0.lock().push((keyval, value));
    }

    fn remove(&self, keyval: i32) {
        self.0.lock().retain(|entry| entry.0 != keyval);
        refer(keyval, -1);
    }
}

impl Default for Attributes {
    fn default() -> Self {
        Self::new()
    }
}

fn call_delete(handle: usize, keyval: i32, found: &Keyval, value: &Value) -> i32 {
    if found.delete == 0 {
        return SUCCESS;
    }
    // SAFETY: the application registered it as the delete callback of a keyval.
    let code = wrapper::outside(|| unsafe {
        match found.proxies {
            Some(Proxies { delete, .. }) => delete(
                found.delete,
                handle,
                keyval,
                value.form(),
                value.word(),
                found.extra,
            ),
            None => {
                let delete: Delete = core::mem::transmute::<usize, Delete>(found.delete);
                delete(handle, keyval, value.for_c(), found.extra)
            }
        }
    });
    (abi().error_in)(code)
}

/// The value that the copy callback gives a duplicate, if it gives one, or its error.
fn call_copy(
    handle: usize,
    keyval: i32,
    found: &Keyval,
    value: &Value,
) -> Result<Option<Value>, i32> {
    // In the standard ABI this is no function that could be called.
    if found.copy == contract::abi::DUP_FN {
        return Ok(Some(value.clone()));
    }
    let (mut new, mut flag) = (0, 0);
    // SAFETY: the application registered it as the copy callback of a keyval.
    let code = wrapper::outside(|| unsafe {
        match found.proxies {
            Some(Proxies { copy, .. }) => copy(
                found.copy,
                handle,
                keyval,
                found.extra,
                value.form(),
                value.word(),
                &mut new,
                &mut flag,
            ),
            None => {
                let copy: Copy = core::mem::transmute::<usize, Copy>(found.copy);
                copy(
                    handle,
                    keyval,
                    found.extra,
                    value.for_c(),
                    &mut new,
                    &mut flag,
                )
            }
        }
    });
    if code != SUCCESS {
        return Err((abi().error_in)(code));
    }
    Ok((flag != 0).then(|| match found.proxies {
        Some(_) => Value::new(new, value.form()),
        // A C function that hands Fortran's integer on hands on the address of a copy of it.
        None if new == value.for_c() => value.clone(),
        None => Value::Pointer(new),
    }))
}

/// Deletes all attributes of an object that is freed, the last set first. Stops at the first
/// callback that fails, with its error.
pub(crate) fn delete(attributes: &Attributes, handle: usize) -> i32 {
    loop {
        let last = attributes.0.lock().last().cloned();
        let Some((keyval, value)) = last else {
            return SUCCESS;
        };
        if let Some(found) = look_up(keyval) {
            let code = call_delete(handle, keyval, &found, &value);
            if code != SUCCESS {
                return code;
            }
        }
        attributes.remove(keyval);
    }
}

/// Copies attributes to a duplicate by their copy callbacks, in the order in which they were set.
/// `handle` is the original's.
pub(crate) fn copy(from: &Attributes, to: &Attributes, handle: usize) -> i32 {
    let all = from.0.lock().clone();
    for (keyval, value) in all {
        let Some(found) = look_up(keyval) else {
            continue;
        };
        if found.copy == 0 {
            continue;
        }
        match call_copy(handle, keyval, &found, &value) {
            Ok(Some(new)) => to.set(keyval, new),
            Ok(None) => {}
            Err(code) => return code,
        }
    }
    SUCCESS
}

fn set(attributes: &Attributes, used_for: For, handle: usize, keyval: i32, value: Value) -> i32 {
    let Some(found) = look_up(keyval) else {
        return ERR_KEYVAL;
    };
    if found.used_for != used_for || found.freed {
        return ERR_KEYVAL;
    }
    if let Some(before) = attributes.get(keyval, Value::clone) {
        let code = call_delete(handle, keyval, &found, &before);
        if code != SUCCESS {
            return code;
        }
        attributes.remove(keyval);
    }
    attributes.set(keyval, value);
    SUCCESS
}

unsafe fn get(
    attributes: &Attributes,
    used_for: For,
    keyval: i32,
    value: *mut c_void,
    flag: *mut i32,
) -> i32 {
    match look_up(keyval) {
        Some(found) if found.used_for == used_for => {}
        _ => return ERR_KEYVAL,
    }
    // SAFETY: MPI's contract: `value` is a `void **`.
    unsafe { answer(attributes.get(keyval, Value::for_c), value, flag) };
    SUCCESS
}

/// Stores what was found, as MPI_Comm_get_attr does.
unsafe fn answer(found: Option<usize>, value: *mut c_void, flag: *mut i32) {
    // SAFETY: the caller's promise: a `void **` and an `int *`.
    unsafe {
        *flag = i32::from(found.is_some());
        if let Some(found) = found {
            *value.cast::<usize>() = found;
        }
    }
}

fn delete_one(attributes: &Attributes, used_for: For, handle: usize, keyval: i32) -> i32 {
    let Some(found) = look_up(keyval) else {
        return ERR_KEYVAL;
    };
    let Some(value) = attributes
        .get(keyval, Value::clone)
        .filter(|_| found.used_for == used_for)
    else {
        return ERR_KEYVAL;
    };
    let code = call_delete(handle, keyval, &found, &value);
    if code == SUCCESS {
        attributes.remove(keyval);
    }
    code
}

/// Standard values of the predefined attributes of MPI_COMM_WORLD; the application gets their
/// addresses (fronts exchange those whose values are constants of an ABI).
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

/// The tag bound that applications see, also where the library below allows more: a restart may
/// bring one that allows less, down to this.
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
fn predefined(keyval: i32) -> Option<usize> {
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

/// Settles what depends on the application's ABI and on the job.
pub(crate) fn init(tag_ub: i32, size: i32) {
    WORLD
        .tag_ub
        .store(tag_ub.min(TAG_UB_LIMIT), Ordering::Relaxed);
    WORLD.universe_size.store(size, Ordering::Relaxed);
    let last = (abi().error_out)(LAST_USED.load(Ordering::Relaxed));
    LAST_USED.store(last, Ordering::Relaxed);
}

/// MPI_Comm_create_keyval.
pub unsafe fn comm_create_keyval(
    copy: *const c_void,
    delete: *const c_void,
    keyval: *mut i32,
    extra: *const c_void,
) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *keyval = create(For::Comm, copy, delete, extra) };
    SUCCESS
}

/// MPI_Type_create_keyval.
pub unsafe fn type_create_keyval(
    copy: *const c_void,
    delete: *const c_void,
    keyval: *mut i32,
    extra: *const c_void,
) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *keyval = create(For::Type, copy, delete, extra) };
    SUCCESS
}

/// MPI_Win_create_keyval.
pub unsafe fn win_create_keyval(
    copy: *const c_void,
    delete: *const c_void,
    keyval: *mut i32,
    extra: *const c_void,
) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *keyval = create(For::Win, copy, delete, extra) };
    SUCCESS
}

/// MPI_Keyval_create, the deprecated form.
pub unsafe fn keyval_create(
    copy: *const c_void,
    delete: *const c_void,
    keyval: *mut i32,
    extra: *const c_void,
) -> i32 {
    // SAFETY: passed on.
    unsafe { comm_create_keyval(copy, delete, keyval, extra) }
}

/// MPI_Comm_free_keyval.
pub unsafe fn comm_free_keyval(keyval: *mut i32) -> i32 {
    // SAFETY: passed on.
    unsafe { free(For::Comm, keyval) }
}

/// MPI_Type_free_keyval.
pub unsafe fn type_free_keyval(keyval: *mut i32) -> i32 {
    // SAFETY: passed on.
    unsafe { free(For::Type, keyval) }
}

/// MPI_Win_free_keyval.
pub unsafe fn win_free_keyval(keyval: *mut i32) -> i32 {
    // SAFETY: passed on.
    unsafe { free(For::Win, keyval) }
}

/// MPI_Keyval_free, the deprecated form.
pub unsafe fn keyval_free(keyval: *mut i32) -> i32 {
    // SAFETY: passed on.
    unsafe { free(For::Comm, keyval) }
}

/// Makes proxies call the callbacks of a keyval.
pub fn set_proxies(keyval: i32, proxies: Proxies) {
    let mut all = KEYVALS.lock();
    if let Some(Some(found)) = index(keyval).and_then(|index| all.get_mut(index)) {
        found.proxies = Some(proxies);
    }
}

/// MPI_Comm_set_attr.
pub fn comm_set_attr(comm: &'static Comm, keyval: i32, value: *const c_void) -> i32 {
    comm_set_attr_as(comm, keyval, value as usize, Form::Pointer)
}

/// The same with a value of any form.
pub fn comm_set_attr_as(comm: &'static Comm, keyval: i32, word: usize, form: Form) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    set(
        &comm.body.attributes,
        For::Comm,
        comm.handle(),
        keyval,
        Value::new(word, form),
    )
}

/// The form of what is cached on a communicator; a predefined attribute is a pointer.
pub fn comm_attr_form(comm: &'static Comm, keyval: i32) -> Form {
    form(&comm.body.attributes, keyval)
}

fn form(attributes: &Attributes, keyval: i32) -> Form {
    attributes.get(keyval, Value::form).unwrap_or(Form::Pointer)
}

/// MPI_Comm_get_attr. Predefined attributes are found on every communicator.
pub unsafe fn comm_get_attr(
    comm: &'static Comm,
    keyval: i32,
    value: *mut c_void,
    flag: *mut i32,
) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    // SAFETY: passed on.
    unsafe {
        if let Some(address) = predefined(keyval) {
            answer(Some(address), value, flag);
            return SUCCESS;
        }
        get(&comm.body.attributes, For::Comm, keyval, value, flag)
    }
}

/// MPI_Comm_delete_attr.
pub fn comm_delete_attr(comm: &'static Comm, keyval: i32) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    delete_one(&comm.body.attributes, For::Comm, comm.handle(), keyval)
}

/// MPI_Attr_put, the deprecated form.
pub fn attr_put(comm: &'static Comm, keyval: i32, value: *const c_void) -> i32 {
    comm_set_attr(comm, keyval, value)
}

/// MPI_Attr_get, the deprecated form.
pub unsafe fn attr_get(
    comm: &'static Comm,
    keyval: i32,
    value: *mut c_void,
    flag: *mut i32,
) -> i32 {
    // SAFETY: passed on.
    unsafe { comm_get_attr(comm, keyval, value, flag) }
}

/// MPI_Attr_delete, the deprecated form.
pub fn attr_delete(comm: &'static Comm, keyval: i32) -> i32 {
    comm_delete_attr(comm, keyval)
}

/// MPI_Type_set_attr.
pub fn type_set_attr(datatype: &'static Datatype, keyval: i32, value: *const c_void) -> i32 {
    type_set_attr_as(datatype, keyval, value as usize, Form::Pointer)
}

/// The form of what is cached on a datatype.
pub fn type_attr_form(datatype: &'static Datatype, keyval: i32) -> Form {
    form(&datatype.body.attributes, keyval)
}

/// MPI_Type_set_attr with a value of any form.
pub fn type_set_attr_as(datatype: &'static Datatype, keyval: i32, word: usize, form: Form) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    let attributes = &datatype.body.attributes;
    set(
        attributes,
        For::Type,
        datatype.handle(),
        keyval,
        Value::new(word, form),
    )
}

/// MPI_Type_get_attr.
pub unsafe fn type_get_attr(
    datatype: &'static Datatype,
    keyval: i32,
    value: *mut c_void,
    flag: *mut i32,
) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    // SAFETY: passed on.
    unsafe { get(&datatype.body.attributes, For::Type, keyval, value, flag) }
}

/// MPI_Type_delete_attr.
pub fn type_delete_attr(datatype: &'static Datatype, keyval: i32) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    delete_one(
        &datatype.body.attributes,
        For::Type,
        datatype.handle(),
        keyval,
    )
}

/// MPI_Win_set_attr.
pub fn win_set_attr(win: &'static Win, keyval: i32, value: *const c_void) -> i32 {
    win_set_attr_as(win, keyval, value as usize, Form::Pointer)
}

/// The form of what is cached on a window; a predefined attribute is a pointer.
pub fn win_attr_form(win: &'static Win, keyval: i32) -> Form {
    form(&win.body.attributes, keyval)
}

/// MPI_Win_set_attr with a value of any form.
pub fn win_set_attr_as(win: &'static Win, keyval: i32, word: usize, form: Form) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    set(
        &win.body.attributes,
        For::Win,
        win.handle(),
        keyval,
        Value::new(word, form),
    )
}

/// MPI_Win_get_attr.
pub unsafe fn win_get_attr(
    win: &'static Win,
    keyval: i32,
    value: *mut c_void,
    flag: *mut i32,
) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    // SAFETY: passed on. The library below answers for the attributes that it sets itself.
    unsafe {
        if (WIN_BASE..=WIN_MODEL).contains(&keyval) {
            return crate::window::own_attribute(win, keyval, value, flag);
        }
        get(&win.body.attributes, For::Win, keyval, value, flag)
    }
}

/// MPI_Win_delete_attr.
pub fn win_delete_attr(win: &'static Win, keyval: i32) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    delete_one(&win.body.attributes, For::Win, win.handle(), keyval)
}

#[cfg(test)]
mod tests {
    use super::*;

    static DELETED: Lock<Vec<usize>> = Lock::new(Vec::new());

    unsafe extern "C" fn plus_extra(
        _: usize,
        _: i32,
        extra: usize,
        value: usize,
        new: *mut usize,
        flag: *mut i32,
    ) -> i32 {
        // SAFETY: the caller's locals.
        unsafe {
            *new = value + extra;
            *flag = 1;
        }
        SUCCESS
    }

    unsafe extern "C" fn note(_: usize, _: i32, value: usize, _: usize) -> i32 {
        DELETED.lock().push(value);
        SUCCESS
    }

    #[test]
    fn copies_in_order_and_deletes_in_reverse() {
        let (mut first, mut second, mut uncopied) = (0, 0, 0);
        let copy = plus_extra as *const c_void;
        let delete = note as *const c_void;
        // SAFETY: all pointers are to locals.
        unsafe {
            comm_create_keyval(copy, delete, &mut first, 1000 as *const c_void);
            comm_create_keyval(copy, delete, &mut second, 2000 as *const c_void);
            comm_create_keyval(core::ptr::null(), delete, &mut uncopied, core::ptr::null());
        }
        let (from, to) = (Attributes::new(), Attributes::new());
        assert_eq!(set(&from, For::Comm, 0, first, pointer(1)), SUCCESS);
        assert_eq!(set(&from, For::Comm, 0, second, pointer(2)), SUCCESS);
        assert_eq!(set(&from, For::Comm, 0, uncopied, pointer(3)), SUCCESS);
        assert_eq!(set(&from, For::Type, 0, first, pointer(4)), ERR_KEYVAL);
        assert_eq!(copy_all(&from, &to), SUCCESS);
        assert_eq!(to.get(first, Value::word), Some(1001));
        assert_eq!(to.get(uncopied, Value::word), None);
        // SAFETY: a local. The keyval itself lives while attributes use it.
        unsafe {
            let (mut again, mut late) = (first, first);
            for handle in [&mut first, &mut again] {
                assert_eq!(comm_free_keyval(handle), SUCCESS);
                assert_eq!(*handle, KEYVAL_INVALID);
            }
            assert_eq!(delete_all(&to), SUCCESS);
            assert_eq!(delete_all(&from), SUCCESS);
            assert_eq!(comm_free_keyval(&mut late), ERR_KEYVAL);
        }
        assert_eq!(*DELETED.lock(), [2002, 1001, 3, 2, 1]);
    }

    fn pointer(word: usize) -> Value {
        Value::new(word, Form::Pointer)
    }

    unsafe extern "C" fn minus_extra(
        callback: usize,
        _: usize,
        _: i32,
        extra: usize,
        form: Form,
        value: usize,
        new: *mut usize,
        flag: *mut i32,
    ) -> i32 {
        assert_eq!((callback, form), (77, Form::Integer));
        // SAFETY: the caller's locals.
        unsafe {
            *new = value.wrapping_sub(extra);
            *flag = 1;
        }
        SUCCESS
    }

    unsafe extern "C" fn nothing(_: usize, _: usize, _: i32, _: Form, _: usize, _: usize) -> i32 {
        SUCCESS
    }

    #[test]
    fn c_gets_the_address_of_what_fortran_sets() {
        let mut keyval = 0;
        // SAFETY: a local.
        unsafe {
            comm_create_keyval(
                77 as *const c_void,
                78 as *const c_void,
                &mut keyval,
                5 as *const c_void,
            );
        }
        let proxies = Proxies {
            copy: minus_extra,
            delete: nothing,
        };
        set_proxies(keyval, proxies);
        let (from, to) = (Attributes::new(), Attributes::new());
        let value = Value::new(-3_isize as usize, Form::Integer);
        assert_eq!(set(&from, For::Comm, 0, keyval, value), SUCCESS);
        assert_eq!(copy_all(&from, &to), SUCCESS);
        assert_eq!(form(&to, keyval), Form::Integer);
        assert_eq!(to.get(keyval, Value::word), Some(-8_isize as usize));
        let (mut address, mut flag) = (core::ptr::null::<i32>(), 0);
        // SAFETY: locals, and what C gets.
        unsafe {
            get(&to, For::Comm, keyval, (&raw mut address).cast(), &mut flag);
            assert_eq!((flag, *address), (1, -8));
        }
        assert_eq!(delete_all(&to), SUCCESS);
        assert_eq!(delete_all(&from), SUCCESS);
    }

    fn copy_all(from: &Attributes, to: &Attributes) -> i32 {
        super::copy(from, to, 0)
    }

    fn delete_all(attributes: &Attributes) -> i32 {
        super::delete(attributes, 0)
    }
}
