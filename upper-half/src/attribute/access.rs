//! MPI's functions that set, get and delete attributes.

use crate::argument::Out;
use crate::attribute::callbacks::call_delete;
use crate::attribute::predefined;
use crate::attribute::predefined::predefined;
use crate::object::attributes::{look_up, Attributes, Form, KeyvalKind, Value};
use crate::object::{Comm, Datatype, Win};
use contract::abi::*;
use core::ffi::c_void;

fn set(
    attributes: &Attributes,
    used_for: KeyvalKind,
    handle: usize,
    keyval: i32,
    value: Value,
) -> i32 {
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

fn get(
    attributes: &Attributes,
    used_for: KeyvalKind,
    keyval: i32,
    value: Out<'_, usize>,
    flag: Out<'_, i32>,
) -> i32 {
    match look_up(keyval) {
        Some(found) if found.used_for == used_for => {}
        _ => return ERR_KEYVAL,
    }
    answer(attributes.get(keyval, Value::for_c), value, flag);
    SUCCESS
}

/// Stores what was found, as MPI_Comm_get_attr does.
fn answer(found: Option<usize>, mut value: Out<'_, usize>, mut flag: Out<'_, i32>) {
    flag.set(i32::from(found.is_some()));
    if let Some(found) = found {
        value.set(found);
    }
}

fn delete_one(attributes: &Attributes, used_for: KeyvalKind, handle: usize, keyval: i32) -> i32 {
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
        KeyvalKind::Comm,
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
pub fn comm_get_attr(
    comm: &'static Comm,
    keyval: i32,
    value: Out<'_, usize>,
    flag: Out<'_, i32>,
) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    if let Some(address) = predefined(keyval) {
        answer(Some(address), value, flag);
        return SUCCESS;
    }
    get(&comm.body.attributes, KeyvalKind::Comm, keyval, value, flag)
}

/// MPI_Comm_delete_attr.
pub fn comm_delete_attr(comm: &'static Comm, keyval: i32) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    delete_one(
        &comm.body.attributes,
        KeyvalKind::Comm,
        comm.handle(),
        keyval,
    )
}

/// MPI_Attr_put, the deprecated form.
pub fn attr_put(comm: &'static Comm, keyval: i32, value: *const c_void) -> i32 {
    comm_set_attr(comm, keyval, value)
}

/// MPI_Attr_get, the deprecated form.
pub fn attr_get(
    comm: &'static Comm,
    keyval: i32,
    value: Out<'_, usize>,
    flag: Out<'_, i32>,
) -> i32 {
    comm_get_attr(comm, keyval, value, flag)
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
        KeyvalKind::Type,
        datatype.handle(),
        keyval,
        Value::new(word, form),
    )
}

/// MPI_Type_get_attr.
pub fn type_get_attr(
    datatype: &'static Datatype,
    keyval: i32,
    value: Out<'_, usize>,
    flag: Out<'_, i32>,
) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    get(
        &datatype.body.attributes,
        KeyvalKind::Type,
        keyval,
        value,
        flag,
    )
}

/// MPI_Type_delete_attr.
pub fn type_delete_attr(datatype: &'static Datatype, keyval: i32) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    delete_one(
        &datatype.body.attributes,
        KeyvalKind::Type,
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
        KeyvalKind::Win,
        win.handle(),
        keyval,
        Value::new(word, form),
    )
}

/// MPI_Win_get_attr.
pub fn win_get_attr(
    win: &'static Win,
    keyval: i32,
    value: Out<'_, usize>,
    flag: Out<'_, i32>,
) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    if (WIN_BASE..=WIN_MODEL).contains(&keyval) {
        return predefined::own_attribute_of_window(win, keyval, value, flag);
    }
    get(&win.body.attributes, KeyvalKind::Win, keyval, value, flag)
}

/// MPI_Win_delete_attr.
pub fn win_delete_attr(win: &'static Win, keyval: i32) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    delete_one(&win.body.attributes, KeyvalKind::Win, win.handle(), keyval)
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::attribute::callbacks;

    use crate::attribute::keyval::{comm_create_keyval, comm_free_keyval, set_proxies};
    use crate::object::attributes::Proxies;
    use crate::runtime::lock::Lock;

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

    fn new_keyval(copy: *const c_void, delete: *const c_void, extra: usize) -> i32 {
        let mut keyval = 0;
        let place = (&mut keyval).into();
        // SAFETY: the tests pass callbacks of the right types, or numbers that proxies keep from being called.
        let code = unsafe { comm_create_keyval(copy, delete, place, extra as *const c_void) };
        assert_eq!(code, SUCCESS);
        keyval
    }

    #[test]
    fn copies_in_order_and_deletes_in_reverse() {
        let (copy, delete) = (plus_extra as *const c_void, note as *const c_void);
        let mut first = new_keyval(copy, delete, 1000);
        let second = new_keyval(copy, delete, 2000);
        let uncopied = new_keyval(core::ptr::null(), delete, 0);
        let (from, to) = (Attributes::new(), Attributes::new());
        assert_eq!(set(&from, KeyvalKind::Comm, 0, first, pointer(1)), SUCCESS);
        assert_eq!(set(&from, KeyvalKind::Comm, 0, second, pointer(2)), SUCCESS);
        assert_eq!(
            set(&from, KeyvalKind::Comm, 0, uncopied, pointer(3)),
            SUCCESS
        );
        assert_eq!(
            set(&from, KeyvalKind::Type, 0, first, pointer(4)),
            ERR_KEYVAL
        );
        assert_eq!(copy_all(&from, &to), SUCCESS);
        assert_eq!(to.get(first, Value::word), Some(1001));
        assert_eq!(to.get(uncopied, Value::word), None);
        // The keyval itself lives while attributes use it.
        let (mut again, mut late) = (first, first);
        for handle in [&mut first, &mut again] {
            assert_eq!(comm_free_keyval(handle), SUCCESS);
            assert_eq!(*handle, KEYVAL_INVALID);
        }
        assert_eq!(delete_all(&to), SUCCESS);
        assert_eq!(delete_all(&from), SUCCESS);
        assert_eq!(comm_free_keyval(&mut late), ERR_KEYVAL);
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
        // The proxies that are set below call neither.
        let keyval = new_keyval(77 as *const c_void, 78 as *const c_void, 5);
        let proxies = Proxies {
            copy: minus_extra,
            delete: nothing,
        };
        set_proxies(keyval, proxies);
        let (from, to) = (Attributes::new(), Attributes::new());
        let value = Value::new(-3_isize as usize, Form::Integer);
        assert_eq!(set(&from, KeyvalKind::Comm, 0, keyval, value), SUCCESS);
        assert_eq!(copy_all(&from, &to), SUCCESS);
        assert_eq!(form(&to, keyval), Form::Integer);
        assert_eq!(to.get(keyval, Value::word), Some(-8_isize as usize));
        let (mut address, mut flag) = (0, 0);
        get(
            &to,
            KeyvalKind::Comm,
            keyval,
            (&mut address).into(),
            (&mut flag).into(),
        );
        // SAFETY: C gets the address of a number.
        let number = unsafe { *(address as *const i32) };
        assert_eq!((flag, number), (1, -8));
        assert_eq!(delete_all(&to), SUCCESS);
        assert_eq!(delete_all(&from), SUCCESS);
    }

    fn copy_all(from: &Attributes, to: &Attributes) -> i32 {
        callbacks::copy(from, to, 0)
    }

    fn delete_all(attributes: &Attributes) -> i32 {
        callbacks::delete(attributes, 0)
    }
}
