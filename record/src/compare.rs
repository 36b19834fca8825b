//! The first difference between the records of two runs of a rank. Tests and probes that found nothing are left out:
//! their number differs between any two runs.

use std::collections::HashMap;

use contract::record::{Call, CallTable};

use crate::divergence::Doing;
use crate::event::Event;
use crate::log::{Events, Log};
use crate::{receive_number, table};

/// The first difference between two runs of a rank.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the call in the first run, from 1 on, at which it shows.
    pub call: u64,
    /// That call.
    pub of: Option<Call>,
    /// The difference itself.
    pub what: What,
}

/// A difference.
#[derive(Debug, PartialEq, Eq)]
pub enum What {
    /// The runs do different things. `None` where a run has ended.
    Doing(Option<Doing>, Option<Doing>),
    /// The wildcard receive with this number got messages of these sources with these tags.
    Bound(u64, (i32, i32), (i32, i32)),
}

impl Difference {
    /// A few words about it. `name` gives the name of a function.
    pub fn text(&self, name: impl Fn(u32) -> String) -> String {
        self.text_of(name, ["the first", "the second"])
    }

    /// The same with words for the two runs.
    pub fn text_of(&self, name: impl Fn(u32) -> String, runs: [&str; 2]) -> String {
        let [one, other] = runs;
        let side = |doing: &Option<Doing>| match doing {
            Some(doing) => doing.text(&name),
            None => "the end".to_owned(),
        };
        let what = match &self.what {
            What::Doing(first, second) => {
                format!("{} in {one}, {} in {other}", side(first), side(second))
            }
            What::Bound(number, first, second) => format!(
                "{} got the message of rank {} with tag {} in {one}, of rank {} with tag {} in {other}",
                receive_number::describe(*number), first.0, first.1, second.0, second.1
            ),
        };
        match &self.of {
            Some(call) => format!(
                "call {}, {}: {what}",
                self.call,
                crate::describe(call, &name)
            ),
            None => what,
        }
    }
}

/// The message of a wildcard receive.
struct Bound {
    /// Source and tag.
    message: (i32, i32),
    /// Number of the call at which it was written, and that call.
    call: u64,
    of: Option<Call>,
}

/// A record as it is compared: what the run did in order, and what its receives got.
struct Run<'a> {
    events: Events<'a>,
    table: Box<CallTable>,
    calls: u64,
    last: Option<Call>,
    bound: HashMap<u64, Bound>,
}

impl<'a> Run<'a> {
    fn of(log: &'a Log) -> Self {
        Run {
            events: Events::from(log.bytes(), 0),
            table: table::empty(),
            calls: 0,
            last: None,
            bound: HashMap::new(),
        }
    }
}

impl Iterator for Run<'_> {
    type Item = Doing;

    fn next(&mut self) -> Option<Doing> {
        loop {
            let (_, event) = self.events.next()?;
            if let Some(call) = table::read(&mut self.table, &event) {
                self.calls += 1;
                self.last = Some(call);
                return Some(Doing::Call(call));
            }
            match event {
                Event::Bound {
                    posting,
                    source,
                    tag,
                } => {
                    let bound = Bound {
                        message: (source, tag),
                        call: self.calls,
                        of: self.last,
                    };
                    self.bound.insert(posting, bound);
                }
                Event::Found { .. } | Event::Index(_) | Event::Some(_) | Event::Digest { .. } => {
                    return Some(Doing::Outcome(event));
                }
                _ => {}
            }
        }
    }
}

/// The first difference between two records of a rank.
pub fn compare(first: &Log, second: &Log) -> Option<Difference> {
    let (mut first, mut second) = (Run::of(first), Run::of(second));
    let doing = loop {
        match (first.next(), second.next()) {
            (None, None) => break None,
            (a, b) if a == b => {}
            (a, b) => {
                let what = What::Doing(a, b);
                break Some(Difference {
                    call: first.calls,
                    of: first.last,
                    what,
                });
            }
        }
    };
    // To the end, for what receives got.
    first.by_ref().for_each(drop);
    second.by_ref().for_each(drop);
    let bound = differing(&first.bound, &second.bound);
    // Of two in one call the message is the reason for the other.
    let all = [bound, doing].into_iter().flatten();
    all.min_by_key(|difference| difference.call)
}

/// The earliest receive that got different messages in both runs.
fn differing(first: &HashMap<u64, Bound>, second: &HashMap<u64, Bound>) -> Option<Difference> {
    let differing = first.iter().filter_map(|(posting, bound)| {
        let other = second.get(posting)?;
        (bound.message != other.message).then_some((*posting, bound, other))
    });
    let (posting, bound, other) = differing.min_by_key(|(posting, ..)| *posting)?;
    Some(Difference {
        call: bound.call,
        of: bound.of,
        what: What::Bound(posting, bound.message, other.message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::log_of;

    fn compared(a: &[Event], b: &[Event]) -> Option<Difference> {
        let ((_a, first), (_b, second)) = (log_of(a), log_of(b));
        compare(&first, &second)
    }

    fn call(number: u16) -> Event {
        let call = Call {
            function: number.into(),
            ..Call::default()
        };
        Event::NewCall(number, call)
    }

    fn bound(posting: u64, source: i32) -> Event {
        Event::Bound {
            posting,
            source,
            tag: 0,
        }
    }

    #[test]
    fn misses_and_the_order_of_receives_are_no_difference() {
        let first = [call(1), Event::Misses(3), bound(1, 0), bound(2, 1), call(2)];
        let second = [bound(2, 1), call(1), bound(1, 0), Event::Misses(9), call(2)];
        assert_eq!(compared(&first, &second), None);
    }

    #[test]
    fn the_first_difference_is_told() {
        let first = [call(1), bound(1, 0), call(2), Event::Index(1), call(3)];
        let second = [call(1), bound(1, 2), call(2), Event::Index(0), call(3)];
        let found = compared(&first, &second).unwrap();
        assert_eq!(
            (found.call, &found.what),
            (1, &What::Bound(1, (0, 0), (2, 0)))
        );
        let third = [call(1), bound(1, 0), call(2), Event::Index(0), call(3)];
        let found = compared(&first, &third).unwrap();
        assert_eq!(found.call, 2);
        let text = found.text(|function| format!("F{function}"));
        assert!(
            text.starts_with("call 2, F2: the operation with index 1"),
            "{text}"
        );
        let found = compared(&first, &first[..4]).unwrap();
        assert!(matches!(found.what, What::Doing(Some(_), None)));
    }
}
