//! System V semaphores and message queues. No image holds them: a checkpoint is refused while the program knows one.

use super::{Call, Handler, Outcome};
use crate::sys::spin_lock::Spin;
use core::sync::atomic::{AtomicBool, Ordering};

pub const HANDLERS: &[(i64, Handler)] = &[
    // Passed, but no image holds the semaphores or the queue: checkpoints are refused until IPC_RMID removes them.
    (libc::SYS_semget, get),
    (libc::SYS_msgget, get),
    (libc::SYS_semctl, control),
    (libc::SYS_msgctl, control),
];

/// The call that gives an object its id, and the id.
type Object = (i64, i32);

/// Objects that the program knows. No id is negative.
static KNOWN: Spin<[Object; 64]> = Spin::new([NONE; 64]);
const NONE: Object = (0, -1);

/// The program has known more than there is room for.
static MANY: AtomicBool = AtomicBool::new(false);

fn get(call: &mut Call) -> Outcome {
    let outcome = call.pass();
    match outcome {
        Outcome::Value(id) if id >= 0 && call.in_rank() => add((call.nr() as i64, id as i32)),
        _ => {}
    }
    outcome
}

/// The same object may be asked for again.
fn add(object: Object) {
    let mut known = KNOWN.lock();
    if known.contains(&object) {
        return;
    }
    match known.iter_mut().find(|place| **place == NONE) {
        Some(place) => *place = object,
        None => MANY.store(true, Ordering::Relaxed),
    }
}

fn control(call: &mut Call) -> Outcome {
    let args = call.args();
    let (get, command) = match call.nr() as i64 {
        libc::SYS_semctl => (libc::SYS_semget, args[2]),
        _ => (libc::SYS_msgget, args[1]),
    };
    let outcome = call.pass();
    let is_removed = command as i32 == libc::IPC_RMID && matches!(outcome, Outcome::Value(0));
    if is_removed && call.in_rank() {
        let object = (get, args[0] as i32);
        let mut known = KNOWN.lock();
        let place = known.iter_mut().find(|place| **place == object);
        if let Some(place) = place {
            *place = NONE;
        }
    }
    outcome
}

/// The name of the call by which the program has got such an object, if it knows one.
pub fn known() -> Option<&'static str> {
    let known = KNOWN.lock();
    let object = known.iter().find(|place| **place != NONE);
    match object {
        Some((libc::SYS_msgget, _)) => Some("msgget"),
        Some(_) => Some("semget"),
        None => MANY.load(Ordering::Relaxed).then_some("semget or msgget"),
    }
}
