//! A run that does something else than the recorded one, as text.

use std::fmt::Write;

use contract::record::{Call, EVERY_COMM, NO_COMM};

use crate::event::Event;

/// Something that the recorded run or this one does: a call, or the outcome of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A call.
    Call(Call),
    /// The outcome of a call.
    Outcome(Event),
    /// The end of the thread with this number, which makes the next call of the recorded run.
    End(u32),
}

/// The first place at which a replayed run does something else than the recorded one. All calls before are equal.
#[derive(Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Number of the call, from 1 on.
    pub number: u64,
    /// The last calls before, which both runs made.
    pub before: Vec<Call>,
    /// The next steps of the recorded run.
    pub recorded: Vec<Doing>,
    /// The step of this run.
    pub now: Doing,
}

impl Divergence {
    /// Some lines about it. `name` gives the name of a function.
    pub fn text(&self, name: impl Fn(u32) -> String) -> String {
        let title = format!(
            "the replay diverges from the record at call {}",
            self.number
        );
        self.text_under(title, name)
    }

    /// The same where only the data of the last call differ, and the run goes on.
    pub fn text_of_data(&self, name: impl Fn(u32) -> String) -> String {
        let call = self.number.saturating_sub(1);
        let title = format!("the data of call {call} differ from the record; the rank goes on");
        self.text_under(title, name)
    }

    fn text_under(&self, mut text: String, name: impl Fn(u32) -> String) -> String {
        let first = self.number - self.before.len() as u64;
        for (number, call) in (first..).zip(&self.before) {
            let _ = write!(
                text,
                "\n    call {number}, both:  {}",
                describe(call, &name)
            );
        }
        for doing in &self.recorded {
            let _ = write!(text, "\n    then recorded: {}", doing.text(&name));
        }
        if self.recorded.is_empty() {
            text.push_str("\n    then recorded: nothing more");
        }
        let _ = write!(text, "\n    but now:       {}", self.now.text(&name));
        text
    }
}

impl Doing {
    /// A few words about it.
    pub fn text(&self, name: impl Fn(u32) -> String) -> String {
        match self {
            Doing::Call(call) => describe(call, name),
            Doing::Outcome(Event::Misses(number)) => {
                format!("{number} tests or probes that found nothing")
            }
            Doing::Outcome(Event::Found { source, tag }) => {
                format!("found a message of rank {source} with tag {tag}")
            }
            Doing::Outcome(Event::Index(index)) if *index < 0 => "nothing under way".to_owned(),
            Doing::Outcome(Event::Index(index)) => {
                format!("the operation with index {index} complete")
            }
            Doing::Outcome(Event::Some(number)) => {
                format!("{} operations complete", (*number).max(0))
            }
            Doing::Outcome(Event::Digest {
                bytes,
                crc,
                message,
            }) => {
                let of = message.map_or_else(
                    || "data".to_owned(),
                    |(source, tag)| format!("the message of rank {source} with tag {tag}"),
                );
                format!("{bytes} bytes of {of} with CRC-32 {crc:08x}")
            }
            Doing::Outcome(_) => "an outcome".to_owned(),
            Doing::End(0) => "the initial thread, which made that call, has ended".to_owned(),
            Doing::End(thread) => format!("thread {thread}, which made that call, has ended"),
        }
    }
}

/// A call as text.
pub fn describe(call: &Call, name: impl Fn(u32) -> String) -> String {
    let mut text = name(call.function);
    let mut before = " (";
    let mut add = |part: String| {
        let _ = write!(text, "{before}{part}");
        before = ", ";
    };
    if ![NO_COMM, EVERY_COMM].contains(&call.comm) {
        match call.peer {
            contract::abi::ANY_SOURCE => add("any rank".to_owned()),
            contract::abi::PROC_NULL => add("no rank".to_owned()),
            rank => add(format!("rank {rank}")),
        }
        match call.tag {
            contract::abi::ANY_TAG => add("any tag".to_owned()),
            tag => add(format!("tag {tag}")),
        }
    }
    match (call.count, call.comm) {
        (0, NO_COMM) => {}
        // Waits and tests have no communicator.
        (requests, NO_COMM) => add(format!("{requests} requests")),
        (_, EVERY_COMM) => add("several communicators".to_owned()),
        (0, comm) => add(format!("communicator {comm}")),
        (bytes, comm) => add(format!("{bytes} bytes, communicator {comm}")),
    }
    if before == ", " {
        text.push(')');
    }
    text
}
