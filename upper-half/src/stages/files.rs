//! The records of epochs, which the lower half keeps in files.
//!
//! # Safety
//! Services get places of locals and slices with their lengths.
#![allow(unsafe_code)]

use super::record::Record;
use crate::crossing::stubs::service;
use crate::runtime::lock::Lock;
use contract::{gate, Service};
use core::sync::atomic::Ordering;

/// Keeps the record of an epoch. 0 or an error class.
pub(super) fn keep(epoch: u64, record: &Record) -> i32 {
    let bytes = record.encode();
    // SAFETY: a slice with its length.
    unsafe { service::stages_write(epoch, bytes.as_ptr(), bytes.len()) }
}

/// The epoch to go on from and the number of the job's start, if the job runs under MPI Stages.
pub(super) fn begun() -> Option<(u64, u32)> {
    // An older lower half does not have the service.
    if gate().slots[Service::StagesBegin as usize].load(Ordering::Relaxed) == 0 {
        return None;
    }
    let (mut epoch, mut incarnation) = (0, 0);
    // SAFETY: places of two locals.
    let on = unsafe { service::stages_begin(&raw mut epoch, &raw mut incarnation) };
    (on != 0).then_some((epoch, incarnation))
}

/// The record of an epoch, if it can be read.
pub(super) fn load(epoch: u64) -> Option<Record> {
    static TAKEN: Lock<Vec<u8>> = Lock::new(Vec::new());
    let mut bytes = TAKEN.lock();
    loop {
        // SAFETY: a slice with its length.
        let length = unsafe { service::stages_read(epoch, bytes.as_mut_ptr(), bytes.len()) };
        match length {
            usize::MAX => return None,
            length if length > bytes.len() => bytes.resize(length, 0),
            length => return Record::decode(bytes.get(..length)?),
        }
    }
}
