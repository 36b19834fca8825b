//! Probes: which message they find, and how often they find none.

use crate::argument::Out;
use crate::breakpoint;
use crate::object::{Comm, Message};
use crate::pt2pt::{matched, probe as base};
use crate::record::mode::{recording, sees_calls};
use crate::record::replay::{self, attempt};
use crate::record::{function, log, turns};
use contract::abi::{Status, PROC_NULL, SUCCESS};
use contract::record::{Call, Outcome};
use contract::INTERRUPTED;
use record::Event;

/// Whether the message that a blocking probe finds is written. That of a probe without wildcards is, too: another
/// thread may receive it.
fn is_noted(source: i32) -> bool {
    source != PROC_NULL
}

fn call(function: u32, source: i32, tag: i32, comm: &'static Comm) -> Call {
    Call {
        function,
        peer: source,
        comm: comm.body.id,
        tag,
        count: 0,
    }
}

fn found(status: &Status) -> Event {
    Event::Found {
        source: status.source,
        tag: status.tag,
    }
}

/// Source and tag of the message that a blocking probe is to find, if the record says.
fn sought(source: i32) -> Option<[i32; 2]> {
    match is_noted(source) && !recording() {
        true => replay::told(Outcome::Found),
        false => None,
    }
}

/// Makes a blocking probe, which is given the source and the tag of its message. After a restart in the middle it asks
/// the record, unless it has been told already.
fn probed(
    source: i32,
    tag: i32,
    status: Option<&mut Status>,
    mut probe: impl FnMut(i32, i32, &mut Status) -> i32,
) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let mut told = None;
    let error = loop {
        turns::leave();
        told = told.or_else(|| sought(source));
        let [source, tag] = told.unwrap_or([source, tag]);
        let error = probe(source, tag, status);
        if error != INTERRUPTED {
            break error;
        }
    };
    if recording() && is_noted(source) && error == SUCCESS {
        log::write(found(status));
    }
    turns::leave();
    error
}

/// Makes a blocking probe whose outcome is known, also if the job is restarted meanwhile.
fn probed_as_told(mut probe: impl FnMut() -> i32) -> i32 {
    loop {
        let error = probe();
        if error != INTERRUPTED {
            break error;
        }
    }
}

/// MPI_Probe
pub fn probe(source: i32, tag: i32, comm: &'static Comm, mut status: Option<&mut Status>) -> i32 {
    if !sees_calls() {
        let error = base::probe(source, tag, comm, status.as_deref_mut());
        if error != INTERRUPTED {
            return error;
        }
    }
    probed(source, tag, status, |source, tag, status| {
        base::probe(source, tag, comm, Some(status))
    })
}

/// MPI_Mprobe
pub fn mprobe(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    message: &mut &'static Message,
    mut status: Option<&mut Status>,
) -> i32 {
    if !sees_calls() {
        let error = matched::mprobe(source, tag, comm, message, status.as_deref_mut());
        if error != INTERRUPTED {
            return error;
        }
    }
    probed(source, tag, status, |source, tag, status| {
        matched::mprobe(source, tag, comm, message, Some(status))
    })
}

/// Writes what a probe has found.
fn note(call: &Call, flag: i32, status: &Status) {
    if breakpoint::is_on() && flag != 0 {
        breakpoint::passes();
    }
    if !recording() {
        return;
    }
    if flag == 0 {
        log::write_miss();
    } else {
        log::write_call(call, Some(found(status)));
    }
}

/// MPI_Iprobe
pub fn iprobe(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    mut flag: Out<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    if !sees_calls() {
        return base::iprobe(source, tag, comm, flag, status);
    }
    let call = call(function::IPROBE, source, tag, comm);
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    turns::take();
    let (error, here) = attempt(&call, Outcome::Found, |wait, flag| match wait {
        Some([source, tag]) => probed_as_told(|| base::probe(source, tag, comm, Some(status))),
        None => base::iprobe(source, tag, comm, flag.into(), Some(status)),
    });
    note(&call, here, status);
    turns::leave();
    flag.set(here);
    error
}

/// MPI_Improbe
pub fn improbe(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    mut flag: Out<'_, i32>,
    message: &mut &'static Message,
    status: Option<&mut Status>,
) -> i32 {
    if !sees_calls() {
        return matched::improbe(source, tag, comm, flag, message, status);
    }
    let call = call(function::IMPROBE, source, tag, comm);
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    turns::take();
    let (error, here) = attempt(&call, Outcome::Found, |wait, flag| match wait {
        Some([source, tag]) => {
            probed_as_told(|| matched::mprobe(source, tag, comm, message, Some(status)))
        }
        None => matched::improbe(source, tag, comm, flag.into(), message, Some(status)),
    });
    note(&call, here, status);
    turns::leave();
    flag.set(here);
    error
}
