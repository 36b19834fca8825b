//! Small jobs: every rank is connected to the coordinator.

use std::io::ErrorKind::WouldBlock;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use job_spec::Interval;
use stasis_coordinator::agent::Agent;
use stasis_coordinator::client::{Error, News};
use stasis_coordinator::job_file::{self, JobFile};
use stasis_coordinator::net::contact::Address;
use stasis_coordinator::protocol::coordinator::Config;
use stasis_coordinator::protocol::{Outcome, RankState, Stage};
use stasis_coordinator::schedule::{Last, Plan};
use stasis_coordinator::server::{Options, Server};

use crate::job::{client, history, until, Disk, Fake, Job};

/// The text of a note.
fn note(news: News) -> Option<String> {
    match news {
        News::Note(note) => Some(note),
        News::Progress(_) => None,
    }
}

#[test]
fn a_checkpoint_is_committed_and_all_ranks_go_on() {
    let job = Job::all("commit", 5);
    let report = client(&job.directory).checkpoint(false, |_| {}).unwrap();
    assert_eq!((report.set.as_str(), report.bytes), ("ckpt-1", 60));
    for fake in &job.fakes {
        assert_eq!(
            fake.seq.load(Ordering::SeqCst),
            4,
            "rank {} is at the target",
            fake.rank
        );
        until("resume", || !fake.outcomes.lock().unwrap().is_empty());
        let committed = Outcome::Committed {
            set: "ckpt-1".into(),
        };
        assert_eq!(*fake.outcomes.lock().unwrap(), [committed]);
    }
    let status = client(&job.directory).status().unwrap();
    assert_eq!((status.stage, status.committed), (Stage::Idle, 1));
    assert_eq!(job.agents[0].clock_target(1), 0, "nothing is pending");
}

#[test]
fn the_answer_does_not_wait_for_tidying_up_but_the_end_does() {
    let (answered, tidied) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let disk = Disk {
        answered: Some(answered.clone()),
        tidied: Arc::clone(&tidied),
        ..Disk::default()
    };
    let mut job = Job::start("tidy", 2, disk, Plan::default());
    job.connect();
    client(&job.directory).checkpoint(false, |_| {}).unwrap();
    assert_eq!(tidied.load(Ordering::SeqCst), 0);
    answered.store(true, Ordering::SeqCst);
    drop(job);
    assert_eq!(tidied.load(Ordering::SeqCst), 1);
}

#[test]
fn a_wait_for_mpi_init_is_noted_to_the_client() {
    let mut job = Job::start("early", 3, Disk::default(), Plan::default());
    let early = client(&job.directory);
    let (tell, told) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        early.checkpoint(false, |news| drop(note(news).map(|note| tell.send(note))))
    });
    assert!(told
        .recv_timeout(Duration::from_secs(20))
        .unwrap()
        .contains("MPI_Init"));
    job.connect();
    assert_eq!(waiting.join().unwrap().unwrap().set, "ckpt-1");
}

#[test]
fn a_refusal_names_rank_and_reason_and_all_ranks_go_on() {
    let job = Job::all("refuse", 3);
    job.fakes[1].refuses.store(true, Ordering::SeqCst);
    let error = client(&job.directory)
        .checkpoint(false, |_| {})
        .unwrap_err();
    assert!(
        matches!(&error, Error::Failed(r) if r == "rank 1: a window is open"),
        "{error}"
    );
    for fake in &job.fakes {
        until("resume", || {
            !fake.stopped.load(Ordering::SeqCst) && !fake.outcomes.lock().unwrap().is_empty()
        });
    }
    job.fakes[1].refuses.store(false, Ordering::SeqCst);
    client(&job.directory).checkpoint(false, |_| {}).unwrap();
}

#[test]
fn a_full_disk_stops_no_rank() {
    let mut job = Job::start(
        "full",
        2,
        Disk {
            full: true,
            ..Disk::default()
        },
        Plan::default(),
    );
    job.connect();
    let error = client(&job.directory)
        .checkpoint(false, |_| {})
        .unwrap_err();
    assert!(error.to_string().contains("no space left in d"), "{error}");
    assert!(job
        .fakes
        .iter()
        .all(|f| f.outcomes.lock().unwrap().is_empty()));
}

#[test]
fn a_rank_that_dies_while_saving_costs_the_checkpoint_only() {
    let mut job = Job::all("die", 3);
    job.fakes.iter().for_each(|fake| fake.slow(true));
    let asking = client(&job.directory);
    let waiting = std::thread::spawn(move || asking.checkpoint(false, |_| {}));
    until("saving", || {
        client(&job.directory).status().unwrap().stage == Stage::Saving
    });
    // The agent's sockets stay open as long as its threads, so it ends as a process would.
    job.agents.pop().unwrap().finished();
    let error = waiting.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("rank 2 ended"), "{error}");
    for fake in &job.fakes[..2] {
        until("resume", || !fake.outcomes.lock().unwrap().is_empty());
        assert!(
            fake.hurried.load(Ordering::SeqCst),
            "a long save is hurried"
        );
    }
    let error = client(&job.directory)
        .checkpoint(false, |_| {})
        .unwrap_err();
    assert!(error.to_string().contains("rank 2"), "{error}");
}

#[test]
fn a_job_whose_memory_is_copied_goes_on_and_the_next_checkpoint_waits() {
    let job = Job::copying("copies", 3);
    let ask = || {
        let asking = client(&job.directory);
        let (tell, told) = std::sync::mpsc::channel();
        // Nothing waits for the first message: it may be a note about missing ranks.
        let note = move |news| drop(note(news).map(|note| tell.send(note)));
        (
            std::thread::spawn(move || asking.checkpoint(false, note)),
            told,
        )
    };
    let all_went_on = || {
        let went_on = |f: &Arc<Fake>| f.went_on.load(Ordering::SeqCst);
        until("going on", || job.fakes.iter().all(went_on));
    };
    let (first, _) = ask();
    all_went_on();
    let stage = client(&job.directory).status().unwrap().stage;
    assert_eq!(stage, Stage::SavingInBackground);
    assert!(!first.is_finished(), "it is not whole before it is written");
    let (second, told) = ask();
    let note = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(
        note.contains("previous checkpoint is still being written"),
        "{note}"
    );
    job.fakes.iter().for_each(|fake| fake.slow(false));
    let reports = [first, second].map(|asked| asked.join().unwrap().unwrap());
    for report in reports {
        assert!(report.pause < report.total, "{report:?}");
        assert_eq!(report.stood, None);
    }
    assert_eq!(client(&job.directory).status().unwrap().committed, 2);
    // In a job that ends, no rank is resumed.
    let report = client(&job.directory).checkpoint(true, |_| {}).unwrap();
    assert_eq!(report.stood.as_deref(), Some("rank 0: it is told to"));
}

#[test]
fn a_rank_that_ends_while_its_image_is_written_ends_with_it() {
    let job = Job::copying("ending", 2);
    let asking = client(&job.directory);
    let waiting = std::thread::spawn(move || asking.checkpoint(false, |_| {}));
    let went_on = |f: &Arc<Fake>| f.went_on.load(Ordering::SeqCst);
    until("going on", || job.fakes.iter().all(went_on));
    std::thread::scope(|scope| {
        let ends: Vec<_> = job
            .agents
            .iter()
            .map(|a| scope.spawn(|| a.finished()))
            .collect();
        assert!(ends.iter().all(|end| !end.is_finished()));
        job.fakes.iter().for_each(|fake| fake.slow(false));
    });
    assert_eq!(waiting.join().unwrap().unwrap().set, "ckpt-1");
}

#[test]
fn stop_ends_every_rank_after_the_commit() {
    let job = Job::all("stop", 3);
    let report = client(&job.directory).checkpoint(true, |_| {}).unwrap();
    assert!(report.stop);
    job.until_all_exit();
}

#[test]
fn the_interval_takes_checkpoints_without_a_request() {
    let (disk, commits) = Disk::counted();
    let plan = Plan {
        interval: Some(Interval::Seconds(1)),
        ..Plan::default()
    };
    let mut job = Job::start("interval", 2, disk, plan);
    job.connect();
    until("three checkpoints", || commits.load(Ordering::SeqCst) >= 3);
}

#[test]
fn the_job_ends_before_its_time_is_over() {
    let plan = Plan {
        last: Some(Last {
            after: Duration::from_millis(30),
            stop: true,
        }),
        ..Plan::default()
    };
    let mut job = Job::start("last", 2, Disk::default(), plan);
    let next = client(&job.directory).status().unwrap().next.unwrap();
    assert!(
        next.why.contains("it ends with this checkpoint"),
        "{next:?}"
    );
    job.connect();
    job.until_all_exit();
}

#[test]
fn joined_requests_of_all_ranks_are_taken_once() {
    let (disk, commits) = Disk::counted();
    let mut job = Job::start("asks", 4, disk, Plan::default());
    job.connect();
    for agent in &job.agents {
        agent.ask(false);
    }
    until("the checkpoint", || commits.load(Ordering::SeqCst) == 1);
    // This is the last request, so no further checkpoint comes.
    client(&job.directory).checkpoint(false, |_| {}).unwrap();
    assert_eq!(commits.load(Ordering::SeqCst), 2);
    job.agents[2].ask(true);
    job.until_all_exit();
}

#[test]
fn a_request_without_a_wait_is_answered_at_once() {
    let mut job = Job::start("no-wait", 2, Disk::default(), Plan::default());
    let mut notes = vec![];
    let asked = client(&job.directory).request(false, |news| notes.extend(note(news)));
    asked.unwrap();
    assert!(notes[0].contains("MPI_Init"), "{notes:?}");
    job.connect();
    until("it", || {
        client(&job.directory).status().unwrap().committed == 1
    });
    job.agents[1].finished();
    until("the end of rank 1", || {
        let status = client(&job.directory).status().unwrap();
        status.ranks[1].state == RankState::Finished
    });
    let refused = client(&job.directory).request(false, |_| {}).unwrap_err();
    assert!(matches!(refused, Error::Failed(_)), "{refused}");
}

#[test]
fn foreign_clients_are_rejected() {
    let job = Job::all("stranger", 2);
    let mut file = JobFile::read(&job.directory).unwrap();
    let right = file.clone();
    file.address.token.replace_range(..1, "x");
    file.write(&job.directory).unwrap();
    let error = client(&job.directory).status().unwrap_err();
    assert!(matches!(error, Error::Rejected(_)), "{error}");
    right.write(&job.directory).unwrap();
    assert!(matches!(
        Server::start(
            Options {
                config: Config::new(1),
                directory: job.directory.clone(),
                local: true,
                plan: Plan::default(),
                program: vec![],
                mpi: String::new(),
                history: history(),
            },
            Disk::default(),
        ),
        Err(stasis_coordinator::server::Error::Job(
            job_file::Error::Taken { .. }
        ))
    ));
}

#[test]
fn a_rank_without_the_token_is_rejected() {
    let mut job = Job::start("token", 2, Disk::default(), Plan::default());
    let mut address = job.server.address().clone();
    address.token.replace_range(..1, "x");
    let stranger = Arc::new(Fake {
        stranger: true,
        ..Fake::default()
    });
    let _rejected = Agent::connect(&address, 0, 2, stranger.clone()).unwrap();
    until("the answer", || !stranger.said.lock().unwrap().is_empty());
    let said = stranger.said.lock().unwrap().join("; ");
    assert!(said.contains("the token is wrong"), "{said}");
    // Its place is still free.
    job.connect();
    client(&job.directory).checkpoint(false, |_| {}).unwrap();
}

#[test]
fn a_job_on_one_machine_listens_at_a_private_socket() {
    // The path is longer than a socket address permits.
    let long = "long-".repeat(25);
    for name in ["socket", &long] {
        let job = Job::all(name, 2);
        let address = job.server.address();
        assert!(address.addresses.is_empty(), "{address}");
        let socket = address.socket.clone().unwrap();
        assert_eq!(socket.parent(), Some(job.directory.as_path()));
        let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        client(&job.directory).checkpoint(false, |_| {}).unwrap();
        // A client finds the socket by another path of the directory.
        let renamed = job.directory.with_extension("renamed");
        std::fs::rename(&job.directory, &renamed).unwrap();
        client(&renamed).status().unwrap();
        std::fs::rename(&renamed, &job.directory).unwrap();
        drop(job);
        assert!(!socket.exists());
    }
}

#[test]
fn a_removed_or_renamed_directory_is_created_again_unless_another_job_has_it() {
    let job = Job::all("place", 2);
    let renamed = job.directory.with_extension("renamed");
    std::fs::rename(&job.directory, &renamed).unwrap();
    let asked = client(&renamed);
    asked.checkpoint(false, |_| {}).unwrap();
    // The job is found where its checkpoints are, and nowhere else.
    assert_eq!(client(&job.directory).status().unwrap().committed, 1);
    let gone = JobFile::read(&renamed);
    assert!(matches!(gone, Err(job_file::Error::None(_))));
    std::fs::remove_dir_all(&renamed).unwrap();

    std::fs::remove_dir_all(&job.directory).unwrap();
    until("the job", || JobFile::read(&job.directory).is_ok());
    client(&job.directory).checkpoint(false, |_| {}).unwrap();
    std::fs::remove_file(job.directory.join("job.json")).unwrap();
    until("its file", || JobFile::read(&job.directory).is_ok());

    std::fs::rename(&job.directory, &renamed).unwrap();
    std::fs::create_dir(&job.directory).unwrap();
    let options = Options {
        config: Config::new(1),
        directory: job.directory.clone(),
        local: true,
        plan: Plan::default(),
        program: vec!["./other".into()],
        mpi: String::new(),
        history: history(),
    };
    let other = Server::start(options, Disk::default()).unwrap();
    let refused = client(&renamed).checkpoint(false, |_| {}).unwrap_err();
    assert!(refused.to_string().contains("./other"), "{refused}");
    other.close(None);
    // The directory is this job's again.
    client(&renamed).checkpoint(false, |_| {}).unwrap();
    client(&job.directory).status().unwrap();
    std::fs::remove_dir_all(&renamed).unwrap();
}

#[test]
fn one_of_two_simultaneous_jobs_gets_the_directory() {
    let directory = std::env::temp_dir().join(format!("stasis-both-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    for _ in 0..20 {
        let start = |_| {
            let options = Options {
                config: Config::new(1),
                directory: directory.clone(),
                local: true,
                plan: Plan::default(),
                program: vec![],
                mpi: String::new(),
                history: history(),
            };
            std::thread::spawn(move || Server::start(options, Disk::default()))
        };
        let both: Vec<_> = [0; 4].map(start).into();
        let both = both.into_iter().map(|start| start.join().unwrap());
        let both: Vec<Server> = both.filter_map(Result::ok).collect();
        assert_eq!(both.len(), 1);
        both[0].close(None);
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn silent_peers_do_not_block_others() {
    let mut job = Job::of_machines("idle", 3);
    let port = job.server.address().port;
    let idle = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let mut strangers: Vec<TcpStream> = (0..200).map(idle).collect();
    job.connect();
    let report = client(&job.directory).checkpoint(false, |_| {}).unwrap();
    assert_eq!(report.bytes, 33);
    // A peer that sends a little all the time has no more time than a silent one.
    let mut last = strangers.pop().unwrap();
    let pause = Some(Duration::from_millis(100));
    last.set_read_timeout(pause).unwrap();
    let begun = Instant::now();
    let ended =
        |last: &mut TcpStream| !matches!(last.read(&mut [0]), Err(e) if e.kind() == WouldBlock);
    while last.write(&[0]).is_ok() && !ended(&mut last) {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "it is still there"
        );
    }
    client(&job.directory).status().unwrap();
}

#[test]
fn a_live_job_that_closes_the_connection_is_not_reported_as_ended() {
    let dir = std::env::temp_dir().join(format!("stasis-closes-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = Address {
        addresses: vec![Ipv4Addr::LOCALHOST.into()],
        port: listener.local_addr().unwrap().port(),
        socket: None,
        token: "word".into(),
    };
    let job = JobFile::new(address, 2, vec!["./a".into()], "mpich".into());
    job.write(&dir).unwrap();
    let closing = std::thread::spawn(move || drop(listener.accept()));
    let error = client(&dir).status().unwrap_err();
    assert!(matches!(error, Error::Closed { .. }), "{error}");
    assert!(error.to_string().contains("it runs"), "{error}");
    closing.join().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_hundred_ranks() {
    let job = Job::all("hundred", 100);
    let report = client(&job.directory).checkpoint(false, |_| {}).unwrap();
    assert_eq!(report.bytes, (0..100).map(|r| 10 + r).sum::<u64>());
}
