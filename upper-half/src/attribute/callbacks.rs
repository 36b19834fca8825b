//! Calls of the application's copy and delete callbacks, when an object is duplicated or freed.
//!
//! # Safety
//! Callbacks are called as the functions that they were registered as: those of C directly, those of Fortran by the
//! proxies that their front gave for them.
#![allow(unsafe_code)]

use crate::crossing::app_abi::abi;
use crate::crossing::call_guard;
use crate::object::attributes::{look_up, Attributes, Keyval, Proxies, Value};
use contract::abi::*;

type Copy = unsafe extern "C" fn(usize, i32, usize, usize, *mut usize, *mut i32) -> i32;
type Delete = unsafe extern "C" fn(usize, i32, usize, usize) -> i32;

pub(crate) fn call_delete(handle: usize, keyval: i32, found: &Keyval, value: &Value) -> i32 {
    if found.delete == 0 {
        return SUCCESS;
    }
    // SAFETY: the application registered it as the delete callback of a keyval.
    let code = call_guard::outside(|| unsafe {
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
    let code = call_guard::outside(|| unsafe {
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
