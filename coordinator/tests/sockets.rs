//! The control plane over real sockets and threads, with pretended processes: what the pure machines
//! are proven to do reaches the ranks, the disk and the people who wait.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stasis_coordinator::agent::{Agent, Process, SaveOrder};
use stasis_coordinator::client::{Client, Error};
use stasis_coordinator::coordinator::{Config, PartialSet};
use stasis_coordinator::job::{self, JobFile};
use stasis_coordinator::protocol::{Activity, Outcome, Summary};
use stasis_coordinator::rank::{ClockView, View};
use stasis_coordinator::schedule::{Interval, Last, Plan};
use stasis_coordinator::server::{Options, Server, Store};
use stasis_coordinator::shared::Part;

/// A rank with one communicator, which comes to its target on its own as soon as it knows it.
#[derive(Default)]
struct Fake {
    rank: u32,
    seq: AtomicU64,
    refuses: AtomicBool,
    slow: AtomicBool,
    copies: AtomicBool,
    /// Let go while its image is being written.
    went_on: AtomicBool,
    stopped: AtomicBool,
    hurried: AtomicBool,
    outcomes: Mutex<Vec<Outcome>>,
    exits: Mutex<Vec<String>>,
    /// It is not of this job.
    stranger: bool,
    said: Mutex<Vec<String>>,
}

impl Process for Fake {
    fn approach(&self) {}
    fn look(&self) -> View {
        let seq = self.seq.load(Ordering::SeqCst);
        View {
            clocks: vec![ClockView {
                id: 1,
                seq,
                left: seq,
            }],
            activity: Activity::Running,
        }
    }
    fn set_targets(&self, targets: &BTreeMap<u64, u64>) {
        self.seq.fetch_max(targets[&1], Ordering::SeqCst);
    }
    fn stop(&self) -> Result<Vec<Part>, String> {
        self.stopped.store(true, Ordering::SeqCst);
        match self.refuses.load(Ordering::SeqCst) {
            true => Err("a window is open".into()),
            false => Ok(vec![Part {
                object: "memory".into(),
                from: 0,
                to: 8,
            }]),
        }
    }
    fn save(
        &self,
        order: &SaveOrder,
        copied: &mut (dyn FnMut() + Send),
    ) -> Result<Summary, String> {
        assert_eq!(
            (order.set.as_str(), order.id.as_slice()),
            ("ckpt-1", &[7][..])
        );
        let stored_once: &[(u64, u64)] = if self.rank == 0 { &[(0, 8)] } else { &[] };
        assert_eq!(order.shared[0].store, stored_once);
        let copies = self.copies.load(Ordering::SeqCst) && !order.stop;
        if copies {
            copied();
        }
        let begun = Instant::now();
        while self.slow.load(Ordering::SeqCst) && !self.hurried.load(Ordering::SeqCst) {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody hurried");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Summary {
            bytes: 10 + u64::from(self.rank),
            stood: (!copies).then(|| "it is told to".into()),
            ..Summary::default()
        })
    }
    fn go_on(&self) {
        assert!(self.stopped.swap(false, Ordering::SeqCst));
        self.went_on.store(true, Ordering::SeqCst);
    }
    fn hurry(&self) {
        self.hurried.store(true, Ordering::SeqCst);
    }
    fn resume(&self, outcome: &Outcome) {
        self.stopped.store(false, Ordering::SeqCst);
        self.outcomes.lock().unwrap().push(outcome.clone());
    }
    fn exit(&self, set: &str) {
        self.exits.lock().unwrap().push(set.into());
    }
    fn doing(&self) -> (String, u64) {
        (format!("in rank {}", self.rank), 0)
    }
    fn say(&self, text: &str) {
        assert!(self.stranger, "{text}");
        self.said.lock().unwrap().push(text.into());
    }
}

#[derive(Default)]
struct Disk {
    full: bool,
    commits: Arc<AtomicU64>,
    /// What it waits for before it tidies up.
    answered: Option<Arc<AtomicBool>>,
    tidied: Arc<AtomicU64>,
}

impl Store for Disk {
    fn prepare(&mut self) -> Result<PartialSet, String> {
        match self.full {
            true => Err("no space left in d".into()),
            false => Ok(PartialSet {
                set: "ckpt-1".into(),
                id: vec![7],
                directory: "d".into(),
                parent: None,
            }),
        }
    }
    fn commit(&mut self, images: &[Summary]) -> Result<(), String> {
        let sizes: Vec<u64> = images.iter().map(|i| i.bytes).collect();
        assert_eq!(sizes, (10..10 + images.len() as u64).collect::<Vec<_>>());
        self.commits.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn discard(&mut self) {}
    fn tidy(&mut self) {
        if let Some(answered) = &self.answered {
            until("the answer", || answered.load(Ordering::SeqCst));
        }
        self.tidied.fetch_add(1, Ordering::SeqCst);
    }
}

struct Job {
    directory: PathBuf,
    server: Server,
    fakes: Vec<Arc<Fake>>,
    agents: Vec<Agent>,
}

impl Job {
    fn start(name: &str, size: u32, disk: Disk, plan: Plan) -> Job {
        let directory =
            std::env::temp_dir().join(format!("stasis-sockets-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let options = Options {
            config: Config::new(size),
            directory: directory.clone(),
            local: true,
            plan,
            program: vec!["./app".into()],
            mpi: "none".into(),
        };
        let server = Server::start(options, disk).unwrap();
        let fake = |rank| {
            let seq = AtomicU64::new(u64::from(rank));
            Arc::new(Fake {
                rank,
                seq,
                ..Fake::default()
            })
        };
        Job {
            directory,
            server,
            fakes: (0..size).map(fake).collect(),
            agents: vec![],
        }
    }

    fn connect(&mut self) {
        for fake in &self.fakes[self.agents.len()..] {
            let size = self.fakes.len() as u32;
            let agent = Agent::connect(self.server.address(), fake.rank, size, fake.clone());
            self.agents.push(agent.unwrap());
        }
    }

    fn all(name: &str, size: u32) -> Job {
        let mut job = Job::start(name, size, Disk::default(), Plan::default());
        job.connect();
        job
    }

    /// Ranks that copy their memory and take as long to write it as `slow` says.
    fn copying(name: &str, size: u32) -> Job {
        let job = Job::all(name, size);
        for fake in &job.fakes {
            fake.copies.store(true, Ordering::SeqCst);
            fake.slow(true);
        }
        job
    }
}

impl Fake {
    fn slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::SeqCst);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.server.close();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{what} did not come"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn client(directory: &Path) -> Client {
    Client::connect(directory).unwrap()
}

#[test]
fn a_checkpoint_is_committed_and_everyone_goes_on() {
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
    assert_eq!((status.stage.as_str(), status.committed), ("idle", 1));
    assert_eq!(job.agents[0].clock_target(1), 0, "nothing is pending");
}

#[test]
fn the_answer_does_not_wait_for_tidying_up_and_the_end_does() {
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
fn before_mpi_init_people_are_told_what_is_waited_for() {
    let mut job = Job::start("early", 3, Disk::default(), Plan::default());
    let early = client(&job.directory);
    let (tell, told) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        early.checkpoint(false, |note| tell.send(note.to_owned()).unwrap())
    });
    assert!(told
        .recv_timeout(Duration::from_secs(20))
        .unwrap()
        .contains("MPI_Init"));
    job.connect();
    assert_eq!(waiting.join().unwrap().unwrap().set, "ckpt-1");
}

#[test]
fn a_refusal_is_told_with_rank_and_reason_and_everyone_goes_on() {
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
fn a_full_disk_stops_nobody() {
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
        client(&job.directory).status().unwrap().stage == "writing images"
    });
    // Its agent's sockets stay open as long as its threads: end it as a process would.
    job.agents.pop().unwrap().finished();
    let error = waiting.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("rank 2 ended"), "{error}");
    for fake in &job.fakes[..2] {
        until("resume", || !fake.outcomes.lock().unwrap().is_empty());
        assert!(
            fake.hurried.load(Ordering::SeqCst),
            "a long save is told that it is over"
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
        // The first one is not listened to: it may be told that ranks are missing yet.
        let note = move |note: &str| drop(tell.send(note.to_owned()));
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
    assert_eq!(stage, "writing images while the job runs");
    assert!(!first.is_finished(), "it is not whole before it is written");
    let (second, told) = ask();
    let note = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(note.contains("before is still being written"), "{note}");
    job.fakes.iter().for_each(|fake| fake.slow(false));
    let reports = [first, second].map(|asked| asked.join().unwrap().unwrap());
    for report in reports {
        assert!(report.pause < report.total, "{report:?}");
        assert_eq!(report.stood, None);
    }
    assert_eq!(client(&job.directory).status().unwrap().committed, 2);
    // A job that is to end has nothing to go on for.
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
    for fake in &job.fakes {
        until("exit", || *fake.exits.lock().unwrap() == ["ckpt-1"]);
    }
}

#[test]
fn the_interval_takes_checkpoints_unasked() {
    let commits = Arc::new(AtomicU64::new(0));
    let disk = Disk {
        commits: commits.clone(),
        ..Disk::default()
    };
    let plan = Plan {
        interval: Some(Interval::Fixed(Duration::from_millis(30))),
        last: None,
    };
    let mut job = Job::start("interval", 2, disk, plan);
    job.connect();
    until("three checkpoints", || commits.load(Ordering::SeqCst) >= 3);
}

#[test]
fn the_job_ends_before_its_time_is_over() {
    let plan = Plan {
        interval: None,
        last: Some(Last {
            after: Duration::from_millis(30),
            stop: true,
        }),
    };
    let mut job = Job::start("last", 2, Disk::default(), plan);
    let next = client(&job.directory).status().unwrap().next.unwrap();
    assert!(
        next.why.contains("it ends with this checkpoint"),
        "{next:?}"
    );
    job.connect();
    for fake in &job.fakes {
        until("exit", || *fake.exits.lock().unwrap() == ["ckpt-1"]);
    }
}

#[test]
fn what_all_ranks_ask_for_is_taken_once() {
    let commits = Arc::new(AtomicU64::new(0));
    let disk = Disk {
        commits: commits.clone(),
        ..Disk::default()
    };
    let mut job = Job::start("asks", 4, disk, Plan::default());
    job.connect();
    for agent in &job.agents {
        agent.ask(false);
    }
    until("the checkpoint", || commits.load(Ordering::SeqCst) == 1);
    // Nobody asks later than this, so there is no other one to come.
    client(&job.directory).checkpoint(false, |_| {}).unwrap();
    assert_eq!(commits.load(Ordering::SeqCst), 2);
    job.agents[2].ask(true);
    for fake in &job.fakes {
        until("exit", || *fake.exits.lock().unwrap() == ["ckpt-1"]);
    }
}

#[test]
fn who_does_not_wait_is_told_at_once_whether_it_will_be_taken() {
    let mut job = Job::start("no-wait", 2, Disk::default(), Plan::default());
    let mut notes = vec![];
    let asked = client(&job.directory).request(false, |note| notes.push(note.to_owned()));
    asked.unwrap();
    assert!(notes[0].contains("MPI_Init"), "{notes:?}");
    job.connect();
    until("it", || {
        client(&job.directory).status().unwrap().committed == 1
    });
    job.agents[1].finished();
    until("the end of rank 1", || {
        let status = client(&job.directory).status().unwrap();
        status.ranks[1].state == "finished"
    });
    let refused = client(&job.directory).request(false, |_| {}).unwrap_err();
    assert!(matches!(refused, Error::Failed(_)), "{refused}");
}

#[test]
fn strangers_are_turned_away() {
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
            },
            Disk::default(),
        ),
        Err(stasis_coordinator::server::Error::Job(
            job::Error::Taken { .. }
        ))
    ));
}

#[test]
fn a_rank_without_the_token_is_turned_away() {
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
fn a_job_on_one_machine_listens_to_that_machine_alone() {
    let job = Job::all("loopback", 1);
    let port = format!(":{:04X}", job.server.address().port);
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let places = sockets.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, _, state) = (fields.next()?, fields.next()?, fields.next()?);
        // 0A is LISTEN.
        (state == "0A").then(|| local.strip_suffix(&port)).flatten()
    });
    assert_eq!(places.collect::<Vec<_>>(), ["0100007F"]);
    let other_protocol = std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    assert!(!other_protocol.contains(&port));
}

#[test]
fn a_hundred_ranks() {
    let job = Job::all("hundred", 100);
    let report = client(&job.directory).checkpoint(false, |_| {}).unwrap();
    assert_eq!(report.bytes, (0..100).map(|r| 10 + r).sum::<u64>());
}
