//! System V shared memory. The allocator chooses the address; the ids are those that the application had before a
//! restart.
//!
//! An id names a segment in the kernel; after a restart another segment replaces it. Processes exchange ids, so all
//! ranks of a node have the same list of pairs, and a new segment never gets an id that is in it.

use super::memory::{is_upper, place};
use super::{fail, Call, Handler, Outcome};
use crate::load::va_allocator::{self, page_up, PAGE};
use crate::sys::spin_lock::Spin;
use crate::sys::syscall::is_err;
use std::sync::OnceLock;

pub const HANDLERS: &[(i64, Handler)] = &[
    // Segments have the ids that they had before a restart, and are attached at addresses of the arena.
    (libc::SYS_shmget, shmget),
    (libc::SYS_shmat, shmat),
    (libc::SYS_shmdt, shmdt),
    (libc::SYS_shmctl, shmctl),
];

/// Pairs of ids: the application's, the kernel's.
static IDS: OnceLock<Vec<(i32, i32)>> = OnceLock::new();

/// Sets, at a restart, the pairs of the application's id and the kernel's. Only the first call has an effect.
pub fn set_shm_ids(pairs: Vec<(i32, i32)>) {
    IDS.get_or_init(|| pairs);
}

fn pairs() -> &'static [(i32, i32)] {
    IDS.get().map_or(&[], Vec::as_slice)
}

/// Application's id of the System V segment with this kernel id.
pub fn shm_id(real: i32) -> i32 {
    let pair = pairs().iter().find(|(_, id)| *id == real);
    pair.map_or(real, |(seen, _)| *seen)
}

fn real_id(seen: i32) -> i32 {
    let pair = pairs().iter().find(|(id, _)| *id == seen);
    pair.map_or(seen, |(_, real)| *real)
}

/// Attached segments, so that the arena gets their ranges back: address and length. When the table is full, the ranges
/// of further ones are lost.
static ATTACHED: Spin<[(usize, usize); 64]> = Spin::new([(0, 0); 64]);

fn note(address: usize, len: usize) {
    let mut attached = ATTACHED.lock();
    if let Some(free) = attached.iter_mut().find(|(_, len)| *len == 0) {
        *free = (address, len);
    }
}

fn shmget(call: &mut Call) -> Outcome {
    const TRIES: usize = 16;
    let args = call.args();
    // Segments whose ids have another meaning for the application, kept until a suitable one is found.
    let mut unfit = [0; TRIES];
    let mut count = 0;
    let result = loop {
        let result = call.kernel(libc::SYS_shmget, args);
        let id = result as i32;
        let known = pairs().iter().any(|(_, real)| *real == id);
        let clash = !known && pairs().iter().any(|(seen, _)| *seen == id);
        if is_err(result) || !clash {
            break result;
        }
        let private = args[0] as i32 == libc::IPC_PRIVATE;
        if !private || count == TRIES {
            break crate::sys::syscall::err(libc::ENOSPC);
        }
        unfit[count] = id;
        count += 1;
    };
    for id in &unfit[..count] {
        remove(call, *id);
    }
    match is_err(result) {
        true => Outcome::Value(result),
        false => Outcome::Value(shm_id(result as i32) as isize),
    }
}

fn remove(call: &Call, id: i32) {
    let args = [id as usize, libc::IPC_RMID as usize, 0, 0, 0, 0];
    call.kernel(libc::SYS_shmctl, args);
}

/// Length of the segment in whole pages.
fn length(call: &Call, id: usize) -> Result<usize, isize> {
    const SEGMENT_SIZE: usize = 6; // words into struct shmid_ds
    let mut facts = [0usize; 16];
    let asked = [
        id,
        libc::IPC_STAT as usize,
        facts.as_mut_ptr() as usize,
        0,
        0,
        0,
    ];
    let result = call.kernel(libc::SYS_shmctl, asked);
    if is_err(result) {
        return Err(result);
    }
    page_up(facts[SEGMENT_SIZE]).ok_or(crate::sys::syscall::err(libc::EINVAL))
}

fn shmat(call: &mut Call) -> Outcome {
    let mut args = call.args();
    args[0] = real_id(args[0] as i32) as usize;
    let len = match length(call, args[0]) {
        Ok(len) => len,
        Err(result) => return Outcome::Value(result),
    };
    let result = if args[1] != 0 {
        if !is_upper(args[1], len) {
            return fail(libc::EINVAL);
        }
        let result = call.kernel(libc::SYS_shmat, args);
        if !is_err(result) {
            va_allocator::take(result as usize, result as usize + len);
        }
        result
    } else {
        place(len, PAGE, |at| {
            args[1] = at;
            call.kernel(libc::SYS_shmat, args)
        })
    };
    if !is_err(result) {
        note(result as usize, len);
    }
    Outcome::Value(result)
}

fn shmdt(call: &mut Call) -> Outcome {
    let args = call.args();
    if !is_upper(args[0], 0) {
        return fail(libc::EINVAL);
    }
    let result = call.kernel(libc::SYS_shmdt, args);
    if !is_err(result) {
        let mut attached = ATTACHED.lock();
        let found = attached
            .iter_mut()
            .find(|(at, len)| *at == args[0] && *len != 0);
        if let Some((at, len)) = found.map(core::mem::take) {
            va_allocator::free(at, at + len);
        }
    }
    Outcome::Value(result)
}

fn shmctl(call: &mut Call) -> Outcome {
    const SHM_STAT: i32 = 13;
    const SHM_INFO: i32 = 14;
    const SHM_STAT_ANY: i32 = 15;
    let mut args = call.args();
    let command = args[1] as i32;
    // These take no id, or an index.
    if ![libc::IPC_INFO, SHM_INFO, SHM_STAT, SHM_STAT_ANY].contains(&command) {
        args[0] = real_id(args[0] as i32) as usize;
    }
    Outcome::Value(call.kernel(libc::SYS_shmctl, args))
}
