//! Several threads in MPI: what one has in hand while another sweeps.

use super::*;
use crate::sync::set_multiple;
use core::sync::atomic::AtomicBool;
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
    // SAFETY: see the module's head.
    unsafe { sweep::requests() };
}

/// Runs `work` while another thread sweeps again and again.
fn beside_sweeps(work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            fake::thread_block();
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
    fake::inside(sweep);
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
    fake::inside(sweep);
    let mut inbox = Inbox::new();
    let mut request = Request::null();
    // SAFETY: see the module's head.
    unsafe {
        let buffer = inbox.0.as_mut_ptr().cast();
        recv_init(buffer, 16, byte(), 1, 6, world(), &raw mut request);
        assert_eq!(received_from_peer(), 0);
        assert_eq!(start_request(&mut request), SUCCESS);
        arrive(1, 6, b"one");
        assert_eq!(wait_for(&mut request).1.count, 3);
        assert_eq!(request_free(&raw mut request), SUCCESS);
    }
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
            fake(|fake| fake.calls.clear());
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
            fake(|fake| fake.calls.clear());
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
    let claimed = [request];
    // SAFETY: the array outlives the claim.
    let claim = unsafe { sweep::Claim::new(&claimed) };
    set_multiple(true);
    sweep();
    assert_eq!(
        received_from_peer(),
        0,
        "its word is in a call of the first thread"
    );
    drop(claim);
    sweep();
    set_multiple(false);
    assert_eq!(received_from_peer(), 1);
    assert_eq!(wait_for(&mut request).1.count, 5);
}
