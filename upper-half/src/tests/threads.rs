//! Several threads in MPI: one has operations in hand while another sweeps.
//!
//! # Safety
//! As for `messages`.
#![allow(unsafe_code)]

use crate::object::Request;
use crate::pt2pt::persistent_message::recv_init;
use crate::quiesce::progress::{self, Claim};
use crate::request::wait::request_free;
use crate::runtime::lock::set_multiple;
use crate::tests::messages::{
    byte, pull, received_from_peer, start_request, wait_for, world, Inbox,
};
use crate::tests::mock_lower;
use crate::tests::mock_lower::{arrive, mock, start};
use contract::abi::*;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::MutexGuard;
use std::thread;

/// While it lives threads may be in MPI at the same time.
struct Multiple {
    _alone: MutexGuard<'static, ()>,
}

impl Multiple {
    fn start() -> Multiple {
        let _alone = start();
        set_multiple(true);
        Multiple { _alone }
    }
}

impl Drop for Multiple {
    fn drop(&mut self) {
        set_multiple(false);
    }
}

/// A sweep, as another thread may make it at any time.
fn sweep() {
    progress::requests();
}

/// Runs `work` while another thread sweeps again and again.
fn beside_sweeps(work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            mock_lower::thread_block();
            while !over.load(Ordering::Relaxed) {
                sweep();
            }
        });
        work();
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_receive_that_is_being_posted_is_not_swept() {
    let _multiple = Multiple::start();
    arrive(1, 5, b"hello");
    mock_lower::inside(sweep);
    let mut inbox = Inbox::new();
    let mut request = inbox.irecv(ANY_SOURCE, 5);
    assert_eq!(received_from_peer(), 0);
    sweep();
    assert_eq!(received_from_peer(), 1);
    let (error, status) = wait_for(&mut request);
    assert_eq!((error, status.source, status.count), (SUCCESS, 1, 5));
}

#[test]
fn a_persistent_receive_that_is_being_made_is_not_swept() {
    let _multiple = Multiple::start();
    mock_lower::inside(sweep);
    let mut inbox = Inbox::new();
    let mut request = Request::null();
    let buffer = inbox.buffer();
    recv_init(buffer, 16, byte(), 1, 6, world(), &mut request);
    assert_eq!(received_from_peer(), 0);
    assert_eq!(start_request(&mut request), SUCCESS);
    arrive(1, 6, b"one");
    assert_eq!(wait_for(&mut request).1.count, 3);
    assert_eq!(request_free(&mut request), SUCCESS);
    assert_eq!(received_from_peer(), 1);
}

/// Rounds in which two threads meet anywhere: what is wrong for the time of a few instructions shows
/// in one of some thousand to some ten thousand.
const ROUNDS: u64 = 30_000;

#[test]
fn a_request_that_is_given_back_is_not_swept() {
    let _multiple = Multiple::start();
    let mut inbox = Inbox::new();
    beside_sweeps(|| {
        for _ in 0..ROUNDS {
            arrive(1, 5, b"hello");
            let mut request = inbox.irecv(1, 5);
            assert_eq!(wait_for(&mut request).1.count, 5);
            mock(|mock| mock.calls.clear());
        }
    });
    assert_eq!(received_from_peer(), ROUNDS);
}

#[test]
fn an_early_message_is_delivered_once() {
    let _multiple = Multiple::start();
    let mut inbox = Inbox::new();
    beside_sweeps(|| {
        for _ in 0..ROUNDS {
            arrive(1, 5, b"hello");
            pull();
            let mut request = inbox.irecv(1, 5);
            assert_eq!(wait_for(&mut request).1.count, 5);
            mock(|mock| mock.calls.clear());
        }
    });
    assert_eq!(received_from_peer(), ROUNDS);
}

#[test]
fn a_request_that_is_waited_for_when_a_second_thread_comes_is_not_swept() {
    let _alone = start();
    arrive(1, 5, b"hello");
    let mut inbox = Inbox::new();
    let mut request = inbox.irecv(1, 5);
    let claim = Claim::new([request]);
    set_multiple(true);
    sweep();
    assert_eq!(
        received_from_peer(),
        0,
        "its lower handle is in a call of the first thread"
    );
    drop(claim);
    sweep();
    set_multiple(false);
    assert_eq!(received_from_peer(), 1);
    assert_eq!(wait_for(&mut request).1.count, 5);
}
