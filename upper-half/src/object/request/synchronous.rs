//! Synchronous sends that are under way. MPI completes one when its receive has begun (MPI 4.0, section 3.4), and a
//! program may conclude from that. A drain pulls messages, and that completes their sends below. So it asks the
//! receivers which of these messages they have asked for (`quiesce/settlement.rs`).
//!
//! A receiver cannot tell the message of a synchronous send from another. Its sender names it by its place on its
//! route: the messages from one rank to another with one tag over one communicator are received in their order, so the
//! number of those that were sent after it is enough.

use crate::object::request::partitioned::ANNOUNCEMENT;
use crate::object::request::{Request, State};
use crate::runtime::lock::Lock;
use crate::tools;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::BTreeMap;

/// Tag of receipts (`pt2pt/receipts.rs`).
pub(crate) const RECEIPT: i32 = ANNOUNCEMENT + 1;

/// The way of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    /// World rank of the receiver.
    pub(crate) to: u32,
    /// Id of the communicator.
    pub(crate) comm: u64,
    pub(crate) tag: i32,
}

/// A route while synchronous sends over it are under way.
#[derive(Default)]
struct Traffic {
    /// Messages since the first of them.
    sent: u64,
    /// Synchronous sends that are under way.
    under_way: usize,
}

struct UnderWay {
    request: &'static Request,
    name: u64,
    route: Route,
    /// Place on the route.
    place: u64,
}

/// A question about one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Question {
    /// Id of the communicator.
    pub(crate) comm: u64,
    pub(crate) tag: i64,
    /// Messages that were sent later over the same route.
    pub(crate) later: u64,
    /// Name of the send, for the receipt.
    pub(crate) send: u64,
}

/// The synchronous sends of this process.
struct Sends {
    traffic: BTreeMap<Route, Traffic>,
    /// By the index of the request.
    under_way: BTreeMap<u32, UnderWay>,
    /// Those whose message is an early message of the receiver, by name.
    early: BTreeMap<u64, &'static Request>,
    /// Number of all so far. The name of a send has it above the index of the request, which has other uses later: a
    /// receipt for a send that was given up must not pass for that of another one.
    number: u64,
}

static SENDS: Lock<Sends> = Lock::new(Sends {
    traffic: BTreeMap::new(),
    under_way: BTreeMap::new(),
    early: BTreeMap::new(),
    number: 0,
});
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
static EARLY: AtomicUsize = AtomicUsize::new(0);
static USED: AtomicBool = AtomicBool::new(false);

/// Whether this process has made a synchronous send.
#[inline(always)]
pub(crate) fn are_used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// From now on [`are_used`].
pub(crate) fn use_them() {
    USED.store(true, Ordering::Relaxed);
}

/// Whether any is under way, so that messages must be counted.
#[inline(always)]
pub(crate) fn any_under_way() -> bool {
    UNDER_WAY.load(Ordering::Relaxed) != 0
}

/// Whether any waits for its receipt.
#[inline(always)]
pub(crate) fn any_early() -> bool {
    EARLY.load(Ordering::Relaxed) != 0
}

/// A message of another kind starts.
#[cold]
pub(crate) fn count(route: Route) {
    if let Some(traffic) = SENDS.lock().traffic.get_mut(&route) {
        traffic.sent += 1;
    }
}

/// A synchronous send starts.
#[cold]
pub(crate) fn begins(request: &'static Request, route: Route) {
    let mut sends = SENDS.lock();
    let traffic = sends.traffic.entry(route).or_default();
    traffic.sent += 1;
    traffic.under_way += 1;
    let place = traffic.sent;
    sends.number += 1;
    let entry = UnderWay {
        request,
        name: sends.number << 32 | u64::from(request.index()),
        route,
        place,
    };
    sends.under_way.insert(request.index(), entry);
    UNDER_WAY.store(sends.under_way.len(), Ordering::Relaxed);
}

/// A send is under way no longer. Any send may be told.
#[cold]
pub(crate) fn ended(request: &'static Request) {
    SENDS.lock().remove(request);
}

/// Whether a request is a synchronous send that is under way.
pub(crate) fn is_under_way(request: &'static Request) -> bool {
    any_under_way() && SENDS.lock().under_way.contains_key(&request.index())
}

/// For each rank that a synchronous send is under way to: the questions to ask. No send starts meanwhile.
pub(crate) fn questions() -> BTreeMap<u32, Vec<Question>> {
    let mut questions: BTreeMap<u32, Vec<Question>> = BTreeMap::new();
    let sends = SENDS.lock();
    for send in sends.under_way.values() {
        let sent = sends
            .traffic
            .get(&send.route)
            .map_or(0, |traffic| traffic.sent);
        questions.entry(send.route.to).or_default().push(Question {
            comm: send.route.comm,
            tag: send.route.tag.into(),
            later: sent.saturating_sub(send.place),
            send: send.name,
        });
    }
    questions
}

/// The answer to a question: whether the message is an early message, which no receive has asked for. Returns the
/// request if it is complete now. Otherwise calls that wait look for its receipt from now on.
pub(crate) fn answered(send: u64, is_early: bool) -> Option<&'static Request> {
    let mut sends = SENDS.lock();
    let asked_for = sends.under_way.get(&(send as u32));
    let request = asked_for.filter(|one| one.name == send)?.request;
    sends.remove(request);
    if !is_early {
        return Some(request);
    }
    sends.early.insert(send, request);
    EARLY.store(sends.early.len(), Ordering::Relaxed);
    tools::begins_here();
    None
}

/// A receipt has come. Returns the request, which is complete now.
pub(crate) fn receipted(send: u64) -> Option<&'static Request> {
    let mut sends = SENDS.lock();
    let request = sends.early.remove(&send)?;
    EARLY.store(sends.early.len(), Ordering::Relaxed);
    tools::ends_here();
    Some(request)
}

/// Those that are finished in the library, and about which no answer has come.
pub(crate) fn unanswered() -> Vec<&'static Request> {
    let mut sends = SENDS.lock();
    let finished = sends.under_way.values().map(|send| send.request);
    let finished: Vec<_> = finished
        .filter(|request| request.body.state.get() == State::Upper)
        .collect();
    for request in &finished {
        sends.remove(request);
    }
    finished
}

/// All requests are over.
pub(crate) fn forget() {
    let mut sends = SENDS.lock();
    sends.traffic.clear();
    sends.under_way.clear();
    UNDER_WAY.store(0, Ordering::Relaxed);
    for _ in core::mem::take(&mut sends.early) {
        tools::ends_here();
    }
    EARLY.store(0, Ordering::Relaxed);
}

impl Sends {
    fn remove(&mut self, request: &'static Request) {
        let Some(send) = self.under_way.remove(&request.index()) else {
            return;
        };
        UNDER_WAY.store(self.under_way.len(), Ordering::Relaxed);
        let Some(traffic) = self.traffic.get_mut(&send.route) else {
            return;
        };
        traffic.under_way -= 1;
        if traffic.under_way == 0 {
            self.traffic.remove(&send.route);
        }
    }
}
