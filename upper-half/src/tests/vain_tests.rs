//! Tests and probes that are left out because they would find nothing again.

use crate::crossing::stubs::service;
use crate::object::Request;
use crate::pt2pt::probe::iprobe;
use crate::pt2pt::vain_probes::{self, Pattern};
use crate::request::test::test;
use crate::request::vain_tests::look_at;
use crate::request::wait::cancel;
use crate::runtime::lock::set_multiple;
use crate::tests::messages::{wait_for, world, Inbox};
use crate::tests::mock_lower::{arrive, mock, set_phase, start};
use contract::abi::SUCCESS;
use contract::Phase;

/// A test at `time` of requests that are not complete. Whether it was made.
fn is_made(requests: &[&'static Request], time: u64) -> bool {
    match look_at(requests, || time) {
        None => false,
        Some(look) => {
            // In place of the lower half's test, as one crossing.
            service::yield_now();
            look.was_in_vain_at(requests, || time + 80);
            true
        }
    }
}

/// Has tested for so long that the next test is left out.
fn test_for_long(requests: &[&'static Request]) {
    for time in [1000, 1100, 1200, 3000] {
        assert!(is_made(requests, time));
    }
    assert!(!is_made(requests, 3100));
}

fn give_up(mut request: &'static Request) {
    assert_eq!(cancel(&mut request), SUCCESS);
    wait_for(&mut request);
}

#[test]
fn a_test_that_would_find_nothing_again_is_left_out() {
    let _alone = start();
    let mut inbox = Inbox::new();
    let request = inbox.irecv(1, 5);
    test_for_long(&[request]);
    // An eighth of the time from 1100 to 3080.
    assert!(!is_made(&[request], 3326));
    assert!(is_made(&[request], 3327));
    give_up(request);
}

#[test]
fn another_crossing_makes_the_next_test_look() {
    let _alone = start();
    let (mut inbox, mut other) = (Inbox::new(), Inbox::new());
    let request = inbox.irecv(1, 5);
    test_for_long(&[request]);
    let new = other.irecv(1, 6);
    assert!(is_made(&[request], 3100));
    assert!(is_made(&[request], 3200));
    give_up(request);
    give_up(new);
}

#[test]
fn tests_of_several_requests_in_turn_are_no_other_crossings() {
    let _alone = start();
    let (mut inbox, mut other) = (Inbox::new(), Inbox::new());
    let (first, second) = (inbox.irecv(1, 5), other.irecv(1, 6));
    for time in [1000, 1200, 1400, 3000] {
        assert!(is_made(&[first], time));
        assert!(is_made(&[second], time + 100));
    }
    assert!(!is_made(&[first], 3150));
    assert!(!is_made(&[second], 3200));
    assert!(!is_made(&[first, Request::null(), second], 3200));
    give_up(first);
    give_up(second);
}

#[test]
fn a_request_that_was_not_tested_makes_a_test_of_several_look() {
    let _alone = start();
    let (mut inbox, mut other) = (Inbox::new(), Inbox::new());
    let (first, second) = (inbox.irecv(1, 5), other.irecv(1, 6));
    test_for_long(&[first]);
    assert!(is_made(&[first, second], 3100));
    give_up(first);
    give_up(second);
}

#[test]
fn what_is_complete_is_not_left_out() {
    let _alone = start();
    let (mut inbox, mut other) = (Inbox::new(), Inbox::new());
    let (first, second) = (inbox.irecv(1, 5), other.irecv(1, 6));
    test_for_long(&[first, second]);
    // A sweep, as another thread or a drain may make it, finds the second.
    arrive(1, 6, b"x");
    crate::quiesce::progress::requests();
    assert!(look_at(&[first, second], || 3100).is_some());
    assert!(look_at(&[second], || 3100).is_some());
    assert!(look_at(&[Request::null()], || 3100).is_some());
    assert!(look_at(&[], || 3100).is_some());
    give_up(first);
    give_up(second);
}

#[test]
fn a_pending_checkpoint_and_several_threads_make_every_test_look() {
    let _alone = start();
    let mut inbox = Inbox::new();
    let request = inbox.irecv(1, 5);
    test_for_long(&[request]);
    for phase in [Phase::Approach, Phase::Stop] {
        set_phase(phase);
        assert!(look_at(&[request], || 3100).is_some());
    }
    set_phase(Phase::Run);
    set_multiple(true);
    assert!(look_at(&[request], || 3100).is_some());
    set_multiple(false);
    assert!(look_at(&[request], || 3100).is_none());
    give_up(request);
}

#[test]
fn a_program_that_tests_for_ever_finds_its_message() {
    let _alone = start();
    let mut inbox = Inbox::new();
    let mut request = inbox.irecv(1, 5);
    let mut flag = 0;
    for _ in 0..1000 {
        assert_eq!(test(&mut request, (&mut flag).into(), None), SUCCESS);
        assert_eq!(flag, 0);
    }
    assert!(mock(|mock| mock.calls.contains(&"test")));
    arrive(1, 5, b"x");
    while flag == 0 {
        assert_eq!(test(&mut request, (&mut flag).into(), None), SUCCESS);
    }
    assert!(request.is_null());
}

/// A probe at `time` that finds nothing. Whether it was made.
fn probe_is_made(pattern: Pattern, time: u64) -> bool {
    match vain_probes::look_at(pattern, || time) {
        None => false,
        Some(look) => {
            // In place of the lower half's probe, as one crossing.
            service::yield_now();
            look.was_in_vain_at(|| time + 80);
            true
        }
    }
}

#[test]
fn probes_for_several_messages_in_turn_are_left_out() {
    let _alone = start();
    let [first, second] = [5, 6].map(|tag| Pattern::new(1, tag, world()));
    for time in [1000, 1200, 1400, 3000] {
        assert!(probe_is_made(first, time));
        assert!(probe_is_made(second, time + 100));
    }
    assert!(!probe_is_made(first, 3150));
    assert!(!probe_is_made(second, 3200));
    // Of another source nothing is known.
    assert!(probe_is_made(Pattern::new(0, 6, world()), 3200));
}

#[test]
fn another_crossing_makes_the_next_probe_look() {
    let _alone = start();
    let pattern = Pattern::new(1, 5, world());
    for time in [1000, 1100, 1200, 3000] {
        assert!(probe_is_made(pattern, time));
    }
    assert!(!probe_is_made(pattern, 3100));
    service::yield_now();
    assert!(probe_is_made(pattern, 3100));
    set_phase(Phase::Approach);
    assert!(probe_is_made(pattern, 3110));
    set_phase(Phase::Run);
}

#[test]
fn a_program_that_probes_for_ever_finds_its_message() {
    let _alone = start();
    let mut flag = 0;
    for _ in 0..1000 {
        let error = iprobe(1, 5, world(), (&mut flag).into(), None);
        assert_eq!((error, flag), (SUCCESS, 0));
    }
    arrive(1, 5, b"x");
    while flag == 0 {
        let error = iprobe(1, 5, world(), (&mut flag).into(), None);
        assert_eq!(error, SUCCESS);
    }
}
