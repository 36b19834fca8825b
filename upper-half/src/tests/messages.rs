//! Messages and requests against the lower half of `mock_lower.rs`.
//!
//! # Safety
//! Calls are made as a front makes them, with buffers that live.
#![allow(unsafe_code)]

use crate::argument::Output;
use crate::argument::{pass, App, Buffer};
use crate::object::request::generalized::{Free, Query};
use crate::object::{unexpected, Comm, Datatype, Message, Request};
use crate::pt2pt::matched::{mprobe, mrecv};
use crate::pt2pt::persistent_message::recv_init;
use crate::pt2pt::probe::probe;
use crate::pt2pt::receive::{irecv, recv, sendrecv};
use crate::pt2pt::send::{isend, send};
use crate::quiesce;
use crate::quiesce::collective_gate::{collective_begin, collective_end};
use crate::quiesce::drain;
use crate::quiesce::{bookmarks, progress};
use crate::request::grequest::{grequest_complete, grequest_start};
use crate::request::test::test;
use crate::request::wait::{cancel, request_free, wait, waitall, waitany, waitsome};
use crate::request::{lifecycle, persistent};
use crate::runtime::reports::REPORTS;
use crate::tests::mock_lower;
use crate::tests::mock_lower::{
    after_restart, arrive, complete_sends, later, mock, set_phase, start,
};
use contract::abi::*;
use contract::waits::WaitKind;
use contract::{gate, ActivityKind, Phase};
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};

pub(crate) fn world() -> &'static Comm {
    Comm::at(comm::COMM_WORLD as u32)
}

pub(crate) fn byte() -> &'static Datatype {
    Datatype::at(datatype::BYTE as u32)
}

pub(crate) fn received_from_peer() -> u64 {
    bookmarks::totals().1[1].load(Ordering::Relaxed)
}

fn sent_to_peer() -> u64 {
    bookmarks::totals().0[1].load(Ordering::Relaxed)
}

fn activity() -> u32 {
    gate().activity.kind.load(Ordering::Relaxed)
}

pub(crate) struct Inbox(pub(crate) [u8; 16]);

impl Inbox {
    pub(crate) fn new() -> Self {
        Inbox([0; 16])
    }

    pub(crate) fn buffer(&mut self) -> Buffer<'static> {
        // SAFETY: each test keeps the inbox until its receives have ended.
        unsafe { pass(App(self.0.as_mut_ptr().cast())) }
    }

    pub(crate) fn irecv(&mut self, source: i32, tag: i32) -> &'static Request {
        let mut request = Request::null();
        let error = irecv(
            self.buffer(),
            16,
            byte(),
            source,
            tag,
            world(),
            &mut request,
        );
        assert_eq!(error, SUCCESS);
        request
    }

    fn recv(&mut self, room: i32, source: i32, tag: i32) -> (i32, Status) {
        let mut status = Status::EMPTY;
        let place = Some(&mut status);
        let error = recv(self.buffer(), room, byte(), source, tag, world(), place);
        (error, status)
    }

    fn sendrecv(&mut self, dest: i32, source: i32) -> (i32, Status) {
        let (sent, received) = (sent_byte(), self.buffer());
        let mut status = Status::EMPTY;
        let place = Some(&mut status);
        let error = sendrecv(
            sent,
            1,
            byte(),
            dest,
            0,
            received,
            16,
            byte(),
            source,
            5,
            world(),
            place,
        );
        (error, status)
    }
}

pub(crate) fn wait_for(request: &mut &'static Request) -> (i32, Status) {
    let mut status = Status::EMPTY;
    let error = wait(request, Some(&mut status));
    (error, status)
}

/// A byte to send.
fn sent_byte() -> Buffer<'static> {
    static BYTE: [u8; 1] = [1];
    // SAFETY: a byte for ever, which sends only read.
    unsafe { pass(App(BYTE.as_ptr().cast_mut().cast())) }
}

fn isend_to_peer() -> &'static Request {
    let mut request = Request::null();
    let error = isend(sent_byte(), 1, byte(), 1, 0, world(), &mut request);
    assert_eq!(error, SUCCESS);
    request
}

/// Pulls what has arrived, as a waiting rank does while a checkpoint is pending.
pub(crate) fn pull() {
    assert_eq!(progress::messages(), Ok(true));
}

#[test]
fn a_plain_receive_is_one_call_and_counts() {
    let _alone = start();
    arrive(1, 5, b"hello");
    let mut inbox = Inbox::new();
    let (error, status) = inbox.recv(16, ANY_SOURCE, 5);
    assert_eq!((error, status.source, status.count), (SUCCESS, 1, 5));
    assert_eq!(&inbox.0[..5], b"hello");
    assert_eq!(received_from_peer(), 1);
}

#[test]
fn failed_sends_do_not_count() {
    let _alone = start();
    let send_to = |dest| send(sent_byte(), 1, byte(), dest, 0, world());
    assert_eq!(send_to(1), SUCCESS);
    assert_eq!(send_to(PROC_NULL), SUCCESS);
    assert_eq!(send_to(2), ERR_RANK);
    assert_eq!(sent_to_peer(), 1);
}

#[test]
fn an_exchange_is_one_call_and_counts_both_messages() {
    let _alone = start();
    arrive(1, 5, b"hello");
    let mut inbox = Inbox::new();
    let (error, status) = inbox.sendrecv(1, ANY_SOURCE);
    assert_eq!((error, status.source, status.count), (SUCCESS, 1, 5));
    assert_eq!(&inbox.0[..5], b"hello");
    assert_eq!((sent_to_peer(), received_from_peer()), (1, 1));
    assert_eq!(inbox.sendrecv(1, PROC_NULL).0, SUCCESS);
    assert_eq!((sent_to_peer(), received_from_peer()), (2, 1));
}

#[test]
fn an_exchange_whose_send_fails_takes_no_message() {
    let _alone = start();
    let mut inbox = Inbox::new();
    assert_eq!(inbox.sendrecv(2, 1).0, ERR_RANK);
    arrive(1, 5, b"later");
    assert_eq!((sent_to_peer(), received_from_peer()), (0, 0));
    assert_eq!(inbox.recv(16, 1, 5).1.count, 5);
}

#[test]
fn an_exchange_that_is_stopped_sends_no_second_message() {
    let _alone = start();
    set_phase(Phase::Approach);
    mock(|mock| mock.restart = true);
    later(|| set_phase(Phase::Stop));
    let mut inbox = Inbox::new();
    after_restart(|| arrive(1, 5, b"at last"));
    let (error, status) = inbox.sendrecv(1, 1);
    assert_eq!((error, status.count), (SUCCESS, 7));
    assert_eq!((sent_to_peer(), received_from_peer()), (1, 1));
}

#[test]
fn an_interrupted_receive_says_on_whom_it_waits() {
    let _alone = start();
    set_phase(Phase::Approach);
    later(|| {
        assert_eq!(activity(), ActivityKind::Waiting as u32);
        assert_eq!(gate().activity.nranks.load(Ordering::Relaxed), 1);
        assert_eq!(gate().activity.ranks[0].load(Ordering::Relaxed), 1);
    });
    later(|| arrive(1, 9, b"other"));
    later(|| arrive(1, 5, b"mine"));
    let mut inbox = Inbox::new();
    let (error, status) = inbox.recv(16, 1, 5);
    assert_eq!((error, status.tag, status.count), (SUCCESS, 5, 4));
    assert_eq!(activity(), ActivityKind::Running as u32);
    // The other message was pulled, and counted, so that its sender got free.
    assert_eq!(received_from_peer(), 2);
    set_phase(Phase::Run);
    let (error, status) = inbox.recv(16, ANY_SOURCE, ANY_TAG);
    assert_eq!((error, status.tag, status.count), (SUCCESS, 9, 5));
    assert_eq!(received_from_peer(), 2);
}

#[test]
fn early_messages_are_probed_and_received_in_order() {
    let _alone = start();
    arrive(1, 3, b"first");
    arrive(1, 4, b"second");
    arrive(1, 3, b"third");
    pull();
    arrive(1, 3, b"fourth");
    let mut status = Status::EMPTY;
    let error = probe(ANY_SOURCE, 3, world(), Some(&mut status));
    assert_eq!(error, SUCCESS);
    assert_eq!(status.count, 5);
    let mut inbox = Inbox::new();
    for (tag, length) in [(3, 5), (ANY_TAG, 6), (3, 5), (3, 6)] {
        assert_eq!(inbox.recv(16, 1, tag).1.count, length);
    }
    assert_eq!(received_from_peer(), 4);
}

#[test]
fn an_early_message_that_is_too_long_is_truncated() {
    let _alone = start();
    arrive(1, 3, b"too long");
    pull();
    let mut inbox = Inbox::new();
    let (error, status) = inbox.recv(3, 1, 3);
    assert_eq!((error, status.count), (ERR_TRUNCATE, 3));
    assert_eq!(inbox.0[..4], *b"too\0");
}

#[test]
fn a_receive_of_an_early_message_is_done_at_once() {
    let _alone = start();
    arrive(1, 3, b"early");
    pull();
    let mut inbox = Inbox::new();
    let mut request = inbox.irecv(1, 3);
    mock(|mock| mock.calls.clear());
    let (error, status) = wait_for(&mut request);
    assert_eq!((error, status.count), (SUCCESS, 5));
    assert!(request.is_null());
    mock(|mock| assert!(mock.calls.is_empty()));
}

#[test]
fn a_mixed_waitall_takes_all_from_where_they_are() {
    let _alone = start();
    arrive(1, 1, b"early");
    pull();
    let (mut one, mut two) = (Inbox::new(), Inbox::new());
    let early = one.irecv(1, 1);
    let below = two.irecv(ANY_SOURCE, 2);
    arrive(1, 2, b"below");
    let mut requests = [early, Request::null(), below, isend_to_peer()];
    let mut statuses = [Status::EMPTY; 4];
    let error = waitall(4, &mut requests, Some(&mut statuses));
    assert_eq!(error, SUCCESS);
    assert!(requests.iter().all(|request| request.is_null()));
    assert_eq!((statuses[0].tag, statuses[2].tag), (1, 2));
    assert_eq!(statuses[1].source, ANY_SOURCE);
    assert_eq!(received_from_peer(), 2);
}

#[test]
fn errors_of_many_stand_in_their_statuses() {
    let _alone = start();
    arrive(1, 1, b"far too long for sixteen bytes");
    arrive(1, 2, b"fits");
    let (mut one, mut two) = (Inbox::new(), Inbox::new());
    let mut requests = [one.irecv(1, 1), two.irecv(1, 2)];
    let mut statuses = [Status::EMPTY; 2];
    let error = waitall(2, &mut requests, Some(&mut statuses));
    assert_eq!(error, ERR_IN_STATUS);
    assert_eq!(statuses.map(|status| status.error), [ERR_TRUNCATE, SUCCESS]);
    assert_eq!(received_from_peer(), 2);
}

#[test]
fn any_and_some_take_what_is_done_first() {
    let _alone = start();
    let (mut one, mut two) = (Inbox::new(), Inbox::new());
    let below = one.irecv(1, 1);
    arrive(1, 2, b"early");
    pull();
    let mut requests = [below, two.irecv(1, 2)];
    let (mut index, mut count, mut indices) = (0, 0, [0; 2]);
    let mut any = |requests: &mut [_]| {
        let error = waitany(2, requests, (&mut index).into(), None);
        (error, index)
    };
    let mut some = |requests: &mut [_]| {
        let places = Output::from(&mut indices[..]);
        let error = waitsome(2, requests, (&mut count).into(), places, None);
        (error, count, indices[0])
    };
    assert_eq!(any(&mut requests), (SUCCESS, 1));
    arrive(1, 1, b"late");
    assert_eq!(some(&mut requests), (SUCCESS, 1, 0));
    assert_eq!(any(&mut requests), (SUCCESS, UNDEFINED));
    assert_eq!(some(&mut requests), (SUCCESS, UNDEFINED, 0));
}

#[test]
fn a_persistent_receive_is_started_again_and_again() {
    let _alone = start();
    let mut inbox = Inbox::new();
    let mut request = Request::null();
    let buffer = inbox.buffer();
    recv_init(buffer, 16, byte(), 1, 6, world(), &mut request);
    assert_eq!(wait_for(&mut request).1, Status::EMPTY);
    arrive(1, 6, b"one");
    pull();
    assert_eq!(start_request(&mut request), SUCCESS);
    assert_eq!(start_request(&mut request), ERR_REQUEST);
    assert_eq!(wait_for(&mut request).1.count, 3);
    assert_eq!(start_request(&mut request), SUCCESS);
    arrive(1, 6, b"four");
    assert_eq!(wait_for(&mut request).1.count, 4);
    assert!(!request.is_null());
    assert_eq!(request_free(&mut request), SUCCESS);
    assert!(request.is_null());
    assert_eq!(received_from_peer(), 2);
    mock(|mock| assert_eq!(mock.live(), 0));
}

pub(crate) fn start_request(request: &mut &'static Request) -> i32 {
    persistent::start(request)
}

#[test]
fn a_cancelled_receive_does_not_count() {
    let _alone = start();
    let mut inbox = Inbox::new();
    let mut request = inbox.irecv(1, 3);
    assert_eq!(cancel(&mut request), SUCCESS);
    assert_eq!(wait_for(&mut request).1.cancelled, 1);
    assert_eq!(received_from_peer(), 0);
}

#[test]
fn an_orphan_is_received_and_forgotten() {
    let _alone = start();
    let mut inbox = Inbox::new();
    let mut request = inbox.irecv(1, 3);
    assert_eq!(request_free(&mut request), SUCCESS);
    assert!(request.is_null());
    arrive(1, 3, b"nobody asks");
    progress::requests();
    assert_eq!(&inbox.0[..6], b"nobody");
    assert_eq!(received_from_peer(), 1);
    assert_eq!(lifecycle::pending().count(), 0);
    mock(|mock| assert_eq!(mock.live(), 0));
}

#[test]
fn a_drain_leaves_unmatched_receives_alone_and_a_restart_posts_them_in_order() {
    let _alone = start();
    let mut inboxes: [Inbox; 4] = core::array::from_fn(|_| Inbox::new());
    let [a, b, c, d] = &mut inboxes;
    let mut first = a.irecv(1, 11);
    let mut second = b.irecv(ANY_SOURCE, 12);
    let mut third = c.irecv(1, 13);
    mock(|mock| mock.rendezvous = true);
    let mut sending = isend_to_peer();
    arrive(1, 12, b"matched");
    arrive(1, 99, b"unasked");
    let mut in_hand = Message::null();
    arrive(1, 55, b"in hand");
    mprobe(1, 55, world(), &mut in_hand, None);
    mock(|mock| mock.counts = vec![0, 4]);
    set_phase(Phase::Stop);
    later(|| arrive(1, 100, b"late"));
    later(complete_sends);
    mock(|mock| mock.restart = true);
    mock_lower::stopped();
    mock(|mock| assert_eq!(mock.posted, [11, 13]));
    assert_eq!(received_from_peer(), 4);

    mock(|mock| mock.calls.clear());
    assert_eq!(wait_for(&mut second).1.count, 7);
    assert_eq!(wait_for(&mut sending).0, SUCCESS);
    mock(|mock| assert!(mock.calls.is_empty()));
    arrive(1, 13, b"after");
    assert_eq!(wait_for(&mut third).1.count, 5);
    arrive(1, 11, b"after");
    assert_eq!(wait_for(&mut first).1.count, 5);
    let mut status = Status::EMPTY;
    mrecv(d.buffer(), 16, byte(), &mut in_hand, Some(&mut status));
    assert!(in_hand.is_null());
    assert_eq!((status.tag, status.count), (55, 7));
    assert_eq!(&d.0[..7], b"in hand");
    assert_eq!(d.recv(16, 1, ANY_TAG).1.tag, 99);
    assert_eq!(d.recv(16, 1, ANY_TAG).1.tag, 100);
    assert_eq!(received_from_peer(), 6);
}

#[test]
fn a_drain_catches_up_with_those_that_were_given_up() {
    let _alone = start();
    let clock = drain::clock();
    let given_up = || {
        mock(|mock| mock.absent = true);
        mock(|mock| mock.calls.clear());
        set_phase(Phase::Stop);
        later(|| set_phase(Phase::Run));
        assert_ne!(drain::drain(), SUCCESS);
        mock(|mock| mock.absent = false);
    };
    let ours = || {
        let ours = |call: &&str| ["exchange", "barrier"].contains(call);
        mock(|mock| mock.calls.drain(..).filter(ours).collect::<Vec<_>>())
    };
    let begun = clock.seq.load(Ordering::Relaxed);
    // This rank alone has begun; what it began is finished with the peer's part.
    given_up();
    assert_eq!(ours(), ["exchange"]);
    clock.target.store(begun + 1, Ordering::Relaxed);
    mock_lower::complete_sends();
    set_phase(Phase::Stop);
    assert_eq!(drain::drain(), SUCCESS);
    assert_eq!(ours(), ["barrier", "exchange", "barrier"]);
    assert_eq!(clock.seq.load(Ordering::Relaxed), begun + 4);
    // The peer alone has begun, and come to its barrier.
    clock.target.store(begun + 6, Ordering::Relaxed);
    assert_eq!(drain::drain(), SUCCESS);
    assert_eq!(ours(), ["exchange", "barrier", "exchange", "barrier"]);
    assert_eq!(clock.seq.load(Ordering::Relaxed), begun + 8);
    mock(|mock| assert_eq!(mock.live(), 0));
    assert_eq!(quiesce::refusal(), None);
}

#[test]
fn a_receive_that_is_stopped_goes_on_after_a_restart() {
    let _alone = start();
    set_phase(Phase::Approach);
    mock(|mock| mock.restart = true);
    later(|| set_phase(Phase::Stop));
    let mut inbox = Inbox::new();
    after_restart(|| arrive(1, 5, b"at last"));
    let (error, status) = inbox.recv(16, ANY_SOURCE, ANY_TAG);
    assert_eq!((error, status.count), (SUCCESS, 7));
    assert_eq!(&inbox.0[..7], b"at last");
    assert_eq!(received_from_peer(), 1);
}

#[test]
fn a_collective_past_its_target_waits_for_it_to_be_raised() {
    let _alone = start();
    let clock = world().body.clock().expect("a clock");
    let before = clock.seq.load(Ordering::Relaxed);
    clock.target.store(before, Ordering::Relaxed);
    set_phase(Phase::Approach);
    later(move || {
        assert_eq!(clock.seq.load(Ordering::Relaxed), before);
        assert_eq!(activity(), ActivityKind::Parked as u32);
        let parked = gate().activity.clock_seq.load(Ordering::Relaxed);
        assert_eq!(parked, before + 1);
        clock.target.store(before + 1, Ordering::Relaxed);
    });
    let token = collective_begin(world());
    assert_eq!(clock.seq.load(Ordering::Relaxed), before + 1);
    assert_eq!(clock.left.load(Ordering::Relaxed), before);
    assert_eq!(activity(), ActivityKind::Collective as u32);
    collective_end(token);
    assert_eq!(clock.left.load(Ordering::Relaxed), before + 1);
}

#[test]
fn a_collective_that_must_not_start_is_stopped_before_it_counts() {
    let _alone = start();
    let clock = world().body.clock().expect("a clock");
    let before = clock.seq.load(Ordering::Relaxed);
    clock.target.store(before, Ordering::Relaxed);
    set_phase(Phase::Approach);
    mock(|mock| mock.restart = true);
    later(|| set_phase(Phase::Stop));
    after_restart(move || assert_eq!(clock.seq.load(Ordering::Relaxed), before));
    collective_end(collective_begin(world()));
    assert_eq!(clock.left.load(Ordering::Relaxed), before + 1);
}

#[test]
fn a_receive_tells_what_it_waits_for_and_pulls_nothing() {
    let _alone = start();
    let slot = &REPORTS.slots[0];
    arrive(1, 9, b"of no interest");
    set_phase(Phase::Explain);
    later(move || {
        let told = slot.entries[0].load();
        assert_eq!(slot.entries_used.load(Ordering::Relaxed), 1);
        assert_eq!((told.kind, told.peer, told.tag), (WaitKind::Message, 1, 5));
        assert_eq!((told.comm, told.amount), (world().body.id, 16));
        arrive(1, 5, b"asked");
    });
    let mut inbox = Inbox::new();
    let (error, status) = inbox.recv(16, 1, 5);
    assert_eq!((error, status.count), (SUCCESS, 5));
    assert_eq!(unexpected::queued(), 0);
    assert_eq!(slot.thread.load(Ordering::Relaxed), 0);
}

#[test]
fn polling_in_a_loop_counts_as_waiting() {
    let _alone = start();
    let mut inbox = Inbox::new();
    let mut request = inbox.irecv(1, 3);
    set_phase(Phase::Approach);
    later(|| assert_eq!(activity(), ActivityKind::Waiting as u32));
    later(|| arrive(1, 3, b"now"));
    let mut flag = 0;
    let mut polls = 0;
    while flag == 0 {
        test(&mut request, (&mut flag).into(), None);
        polls += 1;
    }
    assert!(polls > 1000);
    assert_eq!(activity(), ActivityKind::Running as u32);
}

/// A generalized request with callbacks of the test, which get `extra`.
fn generalized(query: Query, free: Free, extra: usize) -> &'static Request {
    unsafe extern "C" fn cancel(_extra: *mut c_void, _complete: i32) -> i32 {
        SUCCESS
    }
    let mut request = Request::null();
    let extra = extra as *mut c_void;
    // SAFETY: the test's functions do not read what the extra state leads to.
    let error =
        unsafe { grequest_start(Some(query), Some(free), Some(cancel), extra, &mut request) };
    assert_eq!(error, SUCCESS);
    request
}

#[test]
fn a_generalized_request_is_done_when_the_application_says_so() {
    static FREED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn query(_extra: *mut c_void, status: *mut u8) -> i32 {
        // SAFETY: room for a status.
        unsafe { (*status.cast::<Status>()).tag = 42 };
        SUCCESS
    }
    unsafe extern "C" fn free(extra: *mut c_void) -> i32 {
        FREED.fetch_add(extra as usize, Ordering::Relaxed);
        SUCCESS
    }
    let _alone = start();
    let mut request = generalized(query, free, 81);
    let mut flag = 1;
    test(&mut request, (&mut flag).into(), None);
    assert_eq!(flag, 0);
    let done = request;
    later(move || assert_eq!(grequest_complete(done), SUCCESS));
    assert_eq!(wait_for(&mut request).1.tag, 42);
    assert!(request.is_null());
    assert_eq!(FREED.load(Ordering::Relaxed), 81);
}

#[test]
fn a_cut_in_a_callback_finds_the_other_requests_of_the_call_complete() {
    unsafe extern "C" fn stopped_in(_extra: *mut c_void, _status: *mut u8) -> i32 {
        set_phase(Phase::Stop);
        mock_lower::stopped();
        SUCCESS
    }
    unsafe extern "C" fn free(_extra: *mut c_void) -> i32 {
        SUCCESS
    }
    let _alone = start();
    let own = generalized(stopped_in, free, 0);
    assert_eq!(grequest_complete(own), SUCCESS);
    let mut inbox = Inbox::new();
    let mut requests = [own, inbox.irecv(1, 2), isend_to_peer()];
    arrive(1, 2, b"mine");
    mock(|mock| {
        mock.counts = vec![0, 1];
        mock.restart = true;
    });
    let mut statuses = [Status::EMPTY; 3];
    let error = waitall(3, &mut requests, Some(&mut statuses));
    assert_eq!(error, SUCCESS);
    assert!(requests.iter().all(|request| request.is_null()));
    assert_eq!((statuses[1].tag, statuses[1].count), (2, 4));
    assert_eq!(received_from_peer(), 1);
}
