//! Another rank has died: this one becomes a survivor. Nothing that is under way in the library below will end, since
//! that library ends with the process. Requests end with MPIX_TRY_RELOAD, and so does every later call that goes to the
//! library below, until the program asks for the reload.
//!
//! # Safety
//! Runs on one thread while all others are parked, as the drain does. No thread has claimed a request, since a thread
//! parks without claims.
#![allow(unsafe_code)]

use super::state::{is_finalizing, BROKEN};
use crate::object::request::{synchronous, Kind, State};
use crate::object::session::any_session;
use crate::object::table::Body;
use crate::object::unexpected;
use crate::object::{FileBody, MessageBody, Request, WinBody};
use crate::perturb::delivery;
use crate::quiesce::progress::end_schedule;
use crate::request::lifecycle::{self, DUPLICATIONS};
use contract::abi::{Status, ERR_TRY_RELOAD};
use contract::{gate, MpiState, NoSurvivor};
use core::sync::atomic::Ordering;

/// The entry point `stages` of the gate.
pub(crate) extern "C" fn survive() -> u32 {
    match hindrance() {
        Some(why) => why as u32,
        None => {
            break_off();
            0
        }
    }
}

fn hindrance() -> Option<NoSurvivor> {
    if is_finalizing() || !gate().mpi_is(MpiState::Initialised) {
        return Some(NoSurvivor::Finalises);
    }
    if WinBody::table().live() + FileBody::table().live() > 0 || any_session() {
        return Some(NoSurvivor::Objects);
    }
    let strange = |request: &'static Request| {
        let kind = request.body.kind.get();
        request.body.state.get() != State::Free && !is_dropped(kind)
    };
    let strange = lifecycle::all().any(strange) || MessageBody::table().live() > 0;
    strange.then_some(NoSurvivor::Requests)
}

/// Whether a request of this kind can be dropped.
fn is_dropped(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Send
            | Kind::Receive
            | Kind::Collective
            | Kind::PersistentSend
            | Kind::PersistentReceive
            | Kind::Pair
    )
}

fn break_off() {
    BROKEN.store(true, Ordering::Relaxed);
    for request in lifecycle::all() {
        // What is below is void, also that of inactive persistent requests.
        request.clear_lower();
    }
    for request in lifecycle::pending() {
        let body = &request.body;
        drop(body.entry.take());
        drop(body.scratch.take());
        end_schedule(request);
        body.duplicate.set(None);
        request.complete(&Status::EMPTY, ERR_TRY_RELOAD);
    }
    delivery::forget();
    synchronous::forget();
    DUPLICATIONS.store(0, Ordering::Relaxed);
    unexpected::queue().clear();
}
