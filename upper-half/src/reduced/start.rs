//! The three ways to call a reduced operation. Each is told the function and the communicator, and how the tools are
//! told and the schedule is made if the call is selected.

use crate::object::comm::NOBODY;
use crate::object::request::persistent_collective::{Planner, Start};
use crate::object::request::schedule::Schedule;
use crate::object::request::{Kind, State};
use crate::object::{Comm, Request};
use crate::quiesce::progress::visible_schedules;
use crate::request::lifecycle;
use crate::request::persistent_collective;
use crate::tools;
use contract::abi::{Status, SUCCESS};
use reduction::{Algorithm, Function};

/// How the operations of a call are reduced; `None` if the call is left to the library. If it is not, `told` tells the
/// tools of it: the record of a run has the call, and not what it is reduced to.
fn selected(function: Function, comm: &'static Comm, told: impl FnOnce()) -> Option<Algorithm> {
    let selection = comm.body.channel()?.selects(function, comm)?;
    told();
    Some(selection.algorithm)
}

/// A blocking call: its error code, or `None` if it is left to the library.
pub fn blocking(
    function: Function,
    comm: &'static Comm,
    told: impl FnOnce(),
    plan: impl FnOnce(Algorithm) -> Result<Schedule, i32>,
) -> Option<i32> {
    let algorithm = selected(function, comm, told)?;
    let ended = plan(algorithm).and_then(Schedule::run);
    Some(ended.err().unwrap_or(SUCCESS))
}

/// A non-blocking call: its request, or `None` if it is left to the library.
pub fn nonblocking(
    function: Function,
    comm: &'static Comm,
    told: impl FnOnce(),
    plan: impl FnOnce(Algorithm) -> Result<Schedule, i32>,
) -> Option<Result<&'static Request, i32>> {
    let algorithm = selected(function, comm, told)?;
    Some(plan(algorithm).and_then(|schedule| {
        let request = lifecycle::acquire(Kind::Collective, NOBODY, comm)?;
        begin(request, schedule);
        visible_schedules();
        Ok(request)
    }))
}

/// A call that makes a persistent request, or `None` if it is left to the library.
pub fn persistent(
    function: Function,
    comm: &'static Comm,
    told: impl FnOnce(),
    plan: Planner,
) -> Option<Result<&'static Request, i32>> {
    let algorithm = selected(function, comm, told)?;
    let start = move |request: &'static Request, comm: &'static Comm| {
        begin(request, plan(comm, algorithm)?);
        Ok(())
    };
    let start = Start::Reduced(Box::new(start));
    Some(persistent_collective::make(comm, start))
}

/// Begins the operation of a request that nobody else has yet. One that is visible begins when
/// [`visible_schedules`] looks at it.
fn begin(request: &'static Request, mut schedule: Schedule) {
    let ended = match schedule.visible {
        Some(_) => None,
        None => schedule.first(),
    };
    match ended {
        Some(code) => request.complete(&Status::EMPTY, code),
        None => {
            *request.body.schedule.lock() = Some(Box::new(schedule));
            tools::begins_here();
            // Only now, or a sweep would look for a schedule that is not there.
            request.body.state.set(State::Upper);
        }
    }
}
