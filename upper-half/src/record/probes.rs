//! Probes: which message they find, and how often they find none.

use crate::argument::Out;
use crate::breakpoint;
use crate::object::{Comm, Message};
use crate::pt2pt::{matched, probe as base};
use crate::record::mode::{is_on, recording};
use crate::record::replay::{self, attempt};
use crate::record::{function, log};
use contract::abi::{Status, ANY_SOURCE, ANY_TAG, SUCCESS};
use contract::record::{Call, Outcome};
use record::Event;

fn is_wild(source: i32, tag: i32) -> bool {
    source == ANY_SOURCE || tag == ANY_TAG
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

/// Source and tag of the message that a blocking probe is to find: those asked for, unless the record says more.
fn sought(source: i32, tag: i32) -> (i32, i32) {
    if !is_wild(source, tag) || recording() {
        return (source, tag);
    }
    replay::told(Outcome::Found).map_or((source, tag), |[source, tag]| (source, tag))
}

/// Makes a blocking probe, which is given the source and the tag of its message.
fn probed(
    source: i32,
    tag: i32,
    status: Option<&mut Status>,
    probe: impl FnOnce(i32, i32, Option<&mut Status>) -> i32,
) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let (exact_source, exact_tag) = sought(source, tag);
    let error = probe(exact_source, exact_tag, Some(status));
    if recording() && is_wild(source, tag) && error == SUCCESS {
        log::write(found(status));
    }
    error
}

/// MPI_Probe
pub fn probe(source: i32, tag: i32, comm: &'static Comm, status: Option<&mut Status>) -> i32 {
    if !is_on() {
        return base::probe(source, tag, comm, status);
    }
    probed(source, tag, status, |source, tag, status| {
        base::probe(source, tag, comm, status)
    })
}

/// MPI_Mprobe
pub fn mprobe(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    message: &mut &'static Message,
    status: Option<&mut Status>,
) -> i32 {
    if !is_on() {
        return matched::mprobe(source, tag, comm, message, status);
    }
    probed(source, tag, status, |source, tag, status| {
        matched::mprobe(source, tag, comm, message, status)
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
        log::write_call(call);
        log::write(found(status));
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
    if !is_on() {
        return base::iprobe(source, tag, comm, flag, status);
    }
    let call = call(function::IPROBE, source, tag, comm);
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let (error, here) = attempt(&call, Outcome::Found, |wait, flag| match wait {
        Some([source, tag]) => base::probe(source, tag, comm, Some(status)),
        None => base::iprobe(source, tag, comm, flag.into(), Some(status)),
    });
    note(&call, here, status);
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
    if !is_on() {
        return matched::improbe(source, tag, comm, flag, message, status);
    }
    let call = call(function::IMPROBE, source, tag, comm);
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let (error, here) = attempt(&call, Outcome::Found, |wait, flag| match wait {
        Some([source, tag]) => matched::mprobe(source, tag, comm, message, Some(status)),
        None => matched::improbe(source, tag, comm, flag.into(), message, Some(status)),
    });
    note(&call, here, status);
    flag.set(here);
    error
}
