//! Receives whose candidates are held back, against the lower half of `mock_lower.rs`.

use crate::object::request::State;
use crate::object::Request;
use crate::perturb::delivery;
use crate::quiesce::progress::{phase, polls};
use crate::quiesce::wait_loop;
use crate::request::wait::cancel;
use crate::tests::messages::{received_from_peer, wait_for, Inbox};
use crate::tests::mock_lower::{arrive, set_phase, start};
use crate::{told, tools};
use contract::abi::{ANY_SOURCE, ANY_TAG, SUCCESS};
use contract::{Phase, TOOL_PERTURB};

/// The tool is on as long as this lives.
struct Perturbed;

impl Perturbed {
    fn new() -> Perturbed {
        tools::set(TOOL_PERTURB, true);
        Perturbed
    }
}

impl Drop for Perturbed {
    fn drop(&mut self) {
        tools::set(TOOL_PERTURB, false);
    }
}

/// Whether it is neither posted below nor complete.
fn is_open(request: &'static Request) -> bool {
    request.body.state.get() == State::Upper
}

#[test]
fn receives_that_overlap_get_their_messages_in_order() {
    let _alone = start();
    let _on = Perturbed::new();
    let mut inboxes = [(); 4].map(|()| Inbox::new());
    let wanted = [(ANY_SOURCE, 5), (1, 5), (1, ANY_TAG), (ANY_SOURCE, ANY_TAG)];
    let mut requests: Vec<_> = inboxes
        .iter_mut()
        .zip(wanted)
        .map(|(inbox, (source, tag))| inbox.irecv(source, tag))
        .collect();
    assert!(requests.iter().all(|request| is_open(request)) && polls());
    for bytes in [b"a", b"b", b"c", b"d"] {
        arrive(1, 5, bytes);
    }
    for request in requests.iter_mut().rev() {
        let (error, status) = wait_for(request);
        assert_eq!(
            (error, status.source, status.tag, status.count),
            (SUCCESS, 1, 5, 1)
        );
    }
    let got: Vec<u8> = inboxes.iter().map(|inbox| inbox.0[0]).collect();
    assert_eq!(got, b"abcd");
    assert_eq!(received_from_peer(), 4);
    assert!(!polls());
}

#[test]
fn what_no_open_receive_takes_is_posted() {
    let _alone = start();
    let _on = Perturbed::new();
    let (mut open, mut other) = (Inbox::new(), Inbox::new());
    let mut wild = open.irecv(ANY_SOURCE, 5);
    let mut exact = other.irecv(1, 6);
    assert!(is_open(wild) && exact.body.state.get() == State::Active);
    arrive(1, 6, b"x");
    assert_eq!(wait_for(&mut exact).0, SUCCESS);
    assert_eq!(cancel(&mut wild), SUCCESS);
    let (error, status) = wait_for(&mut wild);
    assert_eq!((error, status.cancelled != 0), (SUCCESS, true));
}

#[test]
fn open_receives_are_posted_before_other_calls_and_checkpoints() {
    let _alone = start();
    let _on = Perturbed::new();
    let mut inbox = Inbox::new();
    let mut request = inbox.irecv(ANY_SOURCE, 5);
    told::before_call(0, false, None, (0, 0), 0, None);
    assert_eq!(request.body.state.get(), State::Active);
    arrive(1, 5, b"x");
    assert_eq!(wait_for(&mut request).0, SUCCESS);

    let mut request = inbox.irecv(ANY_SOURCE, 5);
    delivery::look(1);
    assert!(is_open(request));
    set_phase(Phase::Approach);
    wait_loop::look_around(phase());
    assert!(!is_open(request) && !polls());
    arrive(1, 5, b"x");
    assert_eq!(wait_for(&mut request).0, SUCCESS);
    set_phase(Phase::Run);
}
