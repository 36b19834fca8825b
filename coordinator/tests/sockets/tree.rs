//! Large jobs, in which most ranks are behind relays.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stasis_coordinator::agent::Agent;
use stasis_coordinator::net::contact::Address;
use stasis_coordinator::net::frame::{self, MAX_FRAME};
use stasis_coordinator::net::relay::Relay;
use stasis_coordinator::net::stream::Stream;
use stasis_coordinator::protocol::{
    Details, FromRank, Hello, Member, Outcome, RankState, RankStatus, Stage, ToChild, ToParent,
    ToRank, WantedStacks,
};
use stasis_coordinator::schedule::Plan;

use crate::job::{client, until, Disk, Fake, Job};

const LIMIT: Duration = Duration::from_secs(20);

/// Nine ranks with a fan-out of two. Ranks 1 and 5 connect to the coordinator; 2, 3, 6 and 7 to these; 4
/// and 8 to 3 and 7.
fn nine(name: &str) -> Job {
    let mut job = Job::start(name, 9, Disk::default(), Plan::default()).by(2);
    job.connect();
    job
}

/// State and activity of each rank in the status.
fn states(job: &Job) -> Vec<(RankState, Option<String>)> {
    let status = client(&job.directory).status().unwrap();
    let of = |rank: RankStatus| (rank.state, rank.doing.map(|doing| doing.what));
    status.ranks.into_iter().map(of).collect()
}

#[test]
fn checkpoints_are_committed_and_all_ranks_go_on() {
    let job = nine("tree-commit");
    assert_eq!(job.relays.keys().copied().collect::<Vec<_>>(), [1, 3, 5, 7]);
    // A rank is not asked before the coordinator has heard of it.
    until("all ranks to run", || {
        states(&job).iter().all(|s| s.0 == RankState::Running)
    });
    let details = Details {
        events: 2,
        stacks: WantedStacks::All,
        waits: true,
        profile: true,
    };
    let status = client(&job.directory).details(details).unwrap();
    let told = status.ranks.into_iter().filter_map(|rank| rank.doing);
    let whole = told.zip(0..).filter(|(told, rank)| {
        let threads = told.threads.iter().map(|stack| stack.thread);
        let waits = told.waits.as_ref();
        let waits = waits.is_some_and(|waits| waits.sent == [(*rank, 7)]);
        told.events == ["event 0", "event 1"] && threads.eq([*rank]) && waits
    });
    assert_eq!(whole.count(), 9);
    for n in 1..=3 {
        let report = client(&job.directory).checkpoint(false, |_| {}).unwrap();
        assert_eq!(report.bytes, (0..9).map(|r| 10 + r).sum::<u64>());
        for fake in &job.fakes {
            until("resume", || fake.outcomes.lock().unwrap().len() == n);
            let set = "ckpt-1".into();
            assert_eq!(
                fake.outcomes.lock().unwrap()[n - 1],
                Outcome::Committed { set }
            );
            // The largest clock was that of the last rank, at the far end of the tree.
            assert_eq!(fake.seq.load(Ordering::SeqCst), 8);
        }
    }
}

#[test]
fn every_rank_reports_its_activity() {
    let job = nine("tree-status");
    until("everyone", || {
        states(&job).iter().all(|s| s.0 == RankState::Running)
    });
    let expected = (0..9).map(|r| (RankState::Running, Some(format!("in rank {r}"))));
    assert_eq!(states(&job), expected.collect::<Vec<_>>());
}

#[test]
fn a_refusal_from_the_end_of_the_tree_is_reported() {
    let job = nine("tree-refuse");
    job.fakes[8].refuses.store(true, Ordering::SeqCst);
    let error = client(&job.directory).checkpoint(false, |_| {});
    let error = error.unwrap_err().to_string();
    assert!(error.contains("rank 8: a window is open"), "{error}");
    job.fakes[8].refuses.store(false, Ordering::SeqCst);
    client(&job.directory).checkpoint(false, |_| {}).unwrap();
}

#[test]
fn a_job_goes_on_while_images_are_written_and_ends_with_them() {
    let job = nine("tree-copies");
    job.copies_slowly();
    let asking = client(&job.directory);
    let waiting = std::thread::spawn(move || asking.checkpoint(false, |_| {}));
    until("going on", || {
        let went_on = |f: &Arc<Fake>| f.went_on.load(Ordering::SeqCst);
        job.fakes.iter().all(went_on)
    });
    // Every rank is at its end, relays among them, and waits until the set is committed.
    std::thread::scope(|scope| {
        for (rank, agent) in (0..).zip(&job.agents) {
            let relay = job.relays.get(&rank);
            scope.spawn(move || {
                agent.finished();
                relay.map(Relay::close);
            });
        }
        job.fakes.iter().for_each(|fake| fake.slow(false));
    });
    assert_eq!(waiting.join().unwrap().unwrap().set, "ckpt-1");
    for fake in &job.fakes {
        until("the outcome", || !fake.outcomes.lock().unwrap().is_empty());
        let committed = Outcome::Committed {
            set: "ckpt-1".into(),
        };
        assert_eq!(*fake.outcomes.lock().unwrap(), [committed]);
    }
}

#[test]
fn stop_reaches_every_rank() {
    let job = nine("tree-stop");
    client(&job.directory).checkpoint(true, |_| {}).unwrap();
    job.until_all_exit();
}

#[test]
fn joined_requests_of_all_ranks_are_taken_once() {
    let (disk, commits) = Disk::counted();
    let mut job = Job::start("tree-asks", 9, disk, Plan::default()).by(2);
    job.connect();
    job.agents.iter().for_each(|agent| agent.ask(false));
    until("the checkpoint", || commits.load(Ordering::SeqCst) >= 1);
    job.agents[8].ask(true);
    job.until_all_exit();
}

#[test]
fn foreign_ranks_are_rejected_by_every_listener() {
    let job = nine("tree-stranger");
    until("everyone", || {
        states(&job).iter().all(|s| s.0 == RankState::Running)
    });
    let stranger = || {
        Arc::new(Fake {
            stranger: true,
            ..Fake::default()
        })
    };
    let mut forged = job.address(7).clone();
    forged.token.replace_range(..1, "x");
    let cases = [
        // Rejected by the relay: a duplicate rank, and a rank of another job.
        (job.address(7), 8, 9, "rank 8 has connected before"),
        (&forged, 8, 9, "the token is wrong"),
        // Rejected by the coordinator, through two relays.
        (job.address(7), 4, 9, "rank 4 has connected before"),
        (job.address(7), 3, 7, "the job has 9 ranks, not 7"),
    ];
    for (address, rank, size, why) in cases {
        let fake = stranger();
        let agent = Agent::connect(address, rank, size, fake.clone()).unwrap();
        until("the answer", || !fake.said.lock().unwrap().is_empty());
        let said = fake.said.lock().unwrap().join("; ");
        assert!(said.contains(why), "{said}");
        drop(agent);
    }
    // The connected ranks are unaffected.
    client(&job.directory).checkpoint(false, |_| {}).unwrap();
}

#[test]
fn ranks_below_a_rejected_relay_get_the_reason() {
    let job = Job::start("tree-refused", 2, Disk::default(), Plan::default());
    let mut other = job.server.address().clone();
    other.token.replace_range(..1, "x");
    // The relay connects to its parent only when a rank has connected to it.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let door = Address {
        addresses: vec![Ipv4Addr::LOCALHOST.into()],
        port: listener.local_addr().unwrap().port(),
        socket: None,
        ..other.clone()
    };
    let relay = Relay::start(&door, 1, 0).unwrap();
    let rank = bare(relay.address(), 1, 2);
    let (mut below, _) = listener.accept().unwrap();
    let first: Hello = frame::receive(&mut below, MAX_FRAME).unwrap();
    let words: Vec<ToParent> = frame::receive(&mut below, MAX_FRAME).unwrap();
    assert!(matches!(words[..], [ToParent::Joined(_)]), "{words:?}");
    let above = other.connect().unwrap();
    frame::send(&mut &above, &first).unwrap();
    let answer: Vec<ToChild> = frame::receive(&mut &above, MAX_FRAME).unwrap();
    frame::send(&mut below, &answer).unwrap();
    let ToRank::Rejected { reason } = hear(&rank) else {
        panic!("not refused");
    };
    assert!(reason.contains("the token is wrong"), "{reason}");
}

/// A connection between a relay and its parent, which can be broken.
struct Cable {
    address: Address,
    ends: Arc<Mutex<Vec<Arc<Stream>>>>,
}

impl Cable {
    fn to(above: &Address) -> Cable {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = Address {
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            port: listener.local_addr().unwrap().port(),
            socket: None,
            ..above.clone()
        };
        let ends: Arc<Mutex<Vec<Arc<Stream>>>> = Arc::default();
        let (above, both) = (above.clone(), Arc::clone(&ends));
        std::thread::spawn(move || {
            let (below, _) = listener.accept().unwrap();
            let ends = [Stream::Tcp(below), above.connect().unwrap()].map(Arc::new);
            both.lock().unwrap().extend(ends.clone());
            let [below, above] = ends.clone();
            std::thread::spawn(move || carry(&below, &above));
            let [below, above] = ends;
            carry(&above, &below);
        });
        Cable { address, ends }
    }

    /// Breaks the connection as the death of one end does.
    fn cut(&self) {
        for end in &*self.ends.lock().unwrap() {
            end.end();
        }
    }
}

fn carry(mut from: &Stream, mut to: &Stream) {
    let mut bytes = [0; 4096];
    let mut pass = || -> io::Result<usize> {
        let read = from.read(&mut bytes)?;
        to.write_all(&bytes[..read])?;
        Ok(read)
    };
    while pass().is_ok_and(|n| n > 0) {}
}

/// Rank 0, and ranks 1 to 3 behind a relay in rank 1 on a cable.
fn cabled(name: &str) -> (Job, Cable) {
    let mut job = Job::start(name, 4, Disk::default(), Plan::default());
    let cable = Cable::to(job.server.address());
    let relay = Relay::start(&cable.address, 1, 2).unwrap();
    for fake in &job.fakes {
        let address = match fake.rank {
            0 => job.server.address(),
            _ => relay.address(),
        };
        let agent = Agent::connect(address, fake.rank, 4, fake.clone());
        job.agents.push(agent.unwrap());
    }
    job.relays.insert(1, relay);
    (job, cable)
}

#[test]
fn a_relay_that_dies_costs_the_checkpoint_only() {
    let (job, cable) = cabled("tree-dies");
    job.fakes.iter().for_each(|fake| fake.slow(true));
    let asking = client(&job.directory);
    let waiting = std::thread::spawn(move || asking.checkpoint(false, |_| {}));
    until("saving", || {
        client(&job.directory).status().unwrap().stage == Stage::Saving
    });
    cable.cut();
    let error = waiting.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("the connection to rank 1"), "{error}");
    // The ranks behind the relay abandon it by themselves, and go on as rank 0 does.
    for fake in &job.fakes {
        until("resume", || !fake.outcomes.lock().unwrap().is_empty());
        let outcomes = fake.outcomes.lock().unwrap().clone();
        assert!(
            matches!(outcomes[..], [Outcome::Abandoned { .. }]),
            "{outcomes:?}"
        );
        assert!(fake.hurried.load(Ordering::SeqCst));
    }
    let lost = |state: &(RankState, _)| state.0 == RankState::Lost;
    let states = states(&job);
    assert!(
        !lost(&states[0]) && states[1..].iter().all(lost),
        "{states:?}"
    );
    let error = client(&job.directory).checkpoint(false, |_| {});
    let error = error.unwrap_err().to_string();
    assert!(error.contains("no checkpoint can be taken"), "{error}");
}

/// A rank that consists of its connection only, and can die.
fn bare(address: &Address, rank: u32, size: u32) -> Stream {
    let stream = address.connect().unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let member = Member {
        rank,
        size,
        host: "here".into(),
        pid: rank,
    };
    frame::send(&mut &stream, &Hello::rank(&address.token, member)).unwrap();
    stream
}

fn hear(mut stream: &Stream) -> ToRank {
    frame::receive(&mut stream, MAX_FRAME).unwrap()
}

#[test]
fn a_rank_that_dies_behind_relays_is_named() {
    let mut job = Job::start("tree-leaf", 9, Disk::default(), Plan::default()).by(2);
    job.connect_first(8);
    let leaf = bare(job.address(7), 8, 9);
    let asking = client(&job.directory);
    let waiting = std::thread::spawn(move || asking.checkpoint(false, |_| {}));
    assert!(matches!(hear(&leaf), ToRank::Intent { epoch: 1 }));
    drop(leaf);
    let error = waiting.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("the connection to rank 8"), "{error}");
    for fake in &job.fakes[..8] {
        until("resume", || !fake.outcomes.lock().unwrap().is_empty());
    }
}

#[test]
fn messages_from_below_go_up_before_a_relay_ends() {
    let job = Job::start("tree-ends", 3, Disk::default(), Plan::default());
    let relay = Relay::start(job.server.address(), 1, 1).unwrap();
    let [host, leaf] = [1, 2].map(|rank| bare(relay.address(), rank, 3));
    until("both", || {
        states(&job)[1..].iter().all(|s| s.0 == RankState::Running)
    });
    // The relay waits for the ranks below, and for the end of its own process's rank.
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| {
            relay.wait_alone(LIMIT);
            relay.close();
        });
        frame::send(&mut &leaf, &FromRank::Finished).unwrap();
        frame::send(&mut &host, &FromRank::Finished).unwrap();
        drop(leaf);
        ends.join().unwrap();
    });
    until("both ends", || {
        states(&job)[1..].iter().all(|s| s.0 == RankState::Finished)
    });
}

#[test]
fn the_coordinator_waits_for_all_ranks_behind_relays() {
    let job = Job::start("tree-alone", 3, Disk::default(), Plan::default());
    let relay = Relay::start(job.server.address(), 1, 1).unwrap();
    let ranks = [1, 2].map(|rank| bare(relay.address(), rank, 3));
    until("both", || {
        states(&job)[1..].iter().all(|s| s.0 == RankState::Running)
    });
    std::thread::scope(|scope| {
        let alone = scope.spawn(|| job.server.wait_alone(LIMIT));
        drop(ranks);
        alone.join().unwrap();
    });
    assert!(states(&job)[1..].iter().all(|s| s.0 == RankState::Lost));
}

#[test]
fn two_hundred_ranks_by_four() {
    let mut job = Job::start("tree-many", 200, Disk::default(), Plan::default()).by(4);
    job.connect();
    let report = client(&job.directory).checkpoint(false, |_| {}).unwrap();
    assert_eq!(report.bytes, (0..200).map(|r| 10 + r).sum::<u64>());
}
