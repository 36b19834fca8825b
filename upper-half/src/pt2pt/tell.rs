//! Small messages that Stasis itself sends to other ranks over [`sync_comm`], each kind with a tag of its own.
//! `hear.rs` receives them.
//!
//! # Safety
//! The bytes of a message are in a box that stays until its send or its receive is over.
#![allow(unsafe_code)]

use crate::argument::{pass, App};
use crate::object::comm::internal::sync_comm;
use crate::object::request::{Args, Mode};
use crate::object::{Datatype, Request};
use crate::pt2pt::send_below;
use crate::request::lifecycle;
use contract::abi::datatype;
use core::ffi::c_void;

/// A message whose send or receive is under way.
pub(crate) type UnderWay<T> = (&'static Request, Box<T>);

/// The arguments of a message from or to `peer`, in the box.
pub(crate) fn args<T>(message: &mut Box<T>, peer: i32, tag: i32) -> Args {
    let bytes = core::ptr::from_mut::<T>(message).cast::<c_void>();
    // SAFETY: see the module's head.
    let buffer = unsafe { pass(App(bytes)) };
    let byte = Datatype::at(datatype::BYTE as u32);
    Args::new(buffer, size_of::<T>() as i32, byte, peer, tag, sync_comm())
}

/// Sends a message to a world rank. `told` keeps those that may still be under way.
pub(crate) fn tell<T>(
    told: &mut Vec<UnderWay<T>>,
    to: u32,
    tag: i32,
    message: T,
) -> Result<(), i32> {
    lifecycle::recycle_done(told);
    let mut message = Box::new(message);
    let request = send_below::start(Mode::Standard, args(&mut message, to as i32, tag))?;
    told.push((request, message));
    Ok(())
}
