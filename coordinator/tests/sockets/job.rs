//! A job of simulated processes, around the real control plane.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use history::event::{Event, Start};
use stasis_coordinator::agent::{Agent, Process};
use stasis_coordinator::chronicle;
use stasis_coordinator::client::Client;
use stasis_coordinator::net::contact::Address;
use stasis_coordinator::net::relay::Relay;
use stasis_coordinator::net::tree::{Position, FAN_OUT};
use stasis_coordinator::protocol::coordinator::{Config, Cost, PartialSet};
use stasis_coordinator::protocol::rank::{ClockView, SaveOrder, View};
use stasis_coordinator::protocol::region_assignment::SharedRange;
use stasis_coordinator::protocol::{Activity, Outcome, RankWaits, Summary, ThreadStack};
use stasis_coordinator::schedule::Plan;
use stasis_coordinator::server::{Options, Server, Store};

/// A rank with one communicator, which reaches its target by itself as soon as the target is known.
#[derive(Default)]
pub struct Fake {
    pub rank: u32,
    pub seq: AtomicU64,
    pub refuses: AtomicBool,
    pub slow: AtomicBool,
    pub copies: AtomicBool,
    /// Whether the rank was resumed while its image was being written.
    pub went_on: AtomicBool,
    pub stopped: AtomicBool,
    pub hurried: AtomicBool,
    pub outcomes: Mutex<Vec<Outcome>>,
    pub exits: Mutex<Vec<String>>,
    /// Whether the rank belongs to another job.
    pub stranger: bool,
    pub said: Mutex<Vec<String>>,
}

impl Process for Fake {
    fn write_profile(&self) {}
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
            held: false,
        }
    }
    fn set_targets(&self, targets: &BTreeMap<u64, u64>) {
        self.seq.fetch_max(targets[&1], Ordering::SeqCst);
    }
    fn stop(&self) -> Result<Vec<SharedRange>, String> {
        self.stopped.store(true, Ordering::SeqCst);
        match self.refuses.load(Ordering::SeqCst) {
            true => Err("a window is open".into()),
            false => Ok(vec![SharedRange {
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
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "no order to cancel"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Summary {
            bytes: 10 + u64::from(self.rank),
            stood: (!copies).then(|| "it is told to".into()),
            ..Summary::default()
        })
    }
    fn resume_while_saving(&self) {
        assert!(self.stopped.swap(false, Ordering::SeqCst));
        self.went_on.store(true, Ordering::SeqCst);
    }
    fn cancel_work(&self) {
        self.hurried.store(true, Ordering::SeqCst);
    }
    fn resume(&self, outcome: &Outcome) {
        self.stopped.store(false, Ordering::SeqCst);
        self.outcomes.lock().unwrap().push(outcome.clone());
    }
    fn exit(&self, set: &str) {
        self.exits.lock().unwrap().push(set.into());
    }
    fn stack(&self) -> Vec<String> {
        vec![]
    }
    fn stacks(&self, _lines: bool) -> Vec<ThreadStack> {
        vec![ThreadStack {
            thread: self.rank,
            frames: vec!["main".into()],
            calls: true,
        }]
    }
    fn waits(&self) -> RankWaits {
        RankWaits {
            still: true,
            sent: vec![(self.rank, 7)],
            ..RankWaits::default()
        }
    }
    fn events(&self, most: usize) -> Vec<String> {
        (0..most).map(|event| format!("event {event}")).collect()
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
pub struct Disk {
    pub full: bool,
    pub commits: Arc<AtomicU64>,
    /// Flag that the store waits for before it tidies up.
    pub answered: Option<Arc<AtomicBool>>,
    pub tidied: Arc<AtomicU64>,
    /// Directory that the store creates when it is gone.
    pub directory: Option<PathBuf>,
}

impl Disk {
    /// A store with a counter of its commits.
    pub fn counted() -> (Disk, Arc<AtomicU64>) {
        let disk = Disk::default();
        let commits = disk.commits.clone();
        (disk, commits)
    }
}

/// The settings of a history that tells nothing.
pub fn history() -> chronicle::Options {
    chronicle::Options {
        begin: Event::Launch(Start::default()),
        metrics: None,
        quiet: true,
    }
}

impl Store for Disk {
    fn make_directory(&mut self) -> Result<(), String> {
        match &self.directory {
            Some(directory) => std::fs::create_dir_all(directory).map_err(|e| e.to_string()),
            None => Ok(()),
        }
    }
    fn prepare(&mut self) -> Result<PartialSet, String> {
        match self.full {
            true => Err("no space left in d".into()),
            false => Ok(PartialSet {
                set: "ckpt-1".into(),
                id: vec![7],
                directory: Some("d".into()),
                parent: None,
            }),
        }
    }
    fn prepare_in_memory(&mut self) -> Result<PartialSet, String> {
        let partial = self.prepare()?;
        Ok(PartialSet {
            directory: None,
            ..partial
        })
    }
    fn commit(&mut self, images: &[Summary], _: Cost) -> Result<(), String> {
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

pub struct Job {
    pub directory: PathBuf,
    pub server: Server,
    pub fakes: Vec<Arc<Fake>>,
    pub agents: Vec<Agent>,
    pub relays: BTreeMap<u32, Relay>,
    fan_out: u32,
}

impl Job {
    pub fn start(name: &str, size: u32, disk: Disk, plan: Plan) -> Job {
        Job::start_in(name, size, disk, plan, true)
    }

    /// A job that may have ranks on other machines.
    pub fn of_machines(name: &str, size: u32) -> Job {
        Job::start_in(name, size, Disk::default(), Plan::default(), false)
    }

    fn start_in(name: &str, size: u32, mut disk: Disk, plan: Plan, local: bool) -> Job {
        let directory =
            std::env::temp_dir().join(format!("stasis-sockets-{name}-{}", std::process::id()));
        disk.directory = Some(directory.clone());
        std::fs::create_dir_all(&directory).unwrap();
        let options = Options {
            config: Config::new(size),
            directory: directory.clone(),
            local,
            plan,
            program: vec!["./app".into()],
            mpi: "none".into(),
            history: history(),
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
            relays: BTreeMap::new(),
            fan_out: FAN_OUT,
        }
    }

    /// Sets the largest number of peers of a node, besides its own process.
    pub fn by(mut self, fan_out: u32) -> Job {
        self.fan_out = fan_out;
        self
    }

    /// The address that the children of `parent` connect to.
    pub fn address(&self, parent: u32) -> &Address {
        let relay = self.relays.get(&parent);
        relay.map_or(self.server.address(), Relay::address)
    }

    /// Connects the ranks that are not connected yet.
    pub fn connect(&mut self) {
        self.connect_first(self.fakes.len());
    }

    /// Connects the unconnected ranks among the first `ranks`.
    pub fn connect_first(&mut self, ranks: usize) {
        let size = self.fakes.len() as u32;
        for fake in &self.fakes[self.agents.len()..ranks] {
            let place = Position::of(fake.rank, size, self.fan_out);
            if place.relays() {
                let above = self.address(place.parent.unwrap());
                let relay = Relay::start(above, fake.rank, place.children.len()).unwrap();
                self.relays.insert(fake.rank, relay);
            }
            let above = match place.relays() {
                true => fake.rank,
                false => place.parent.unwrap_or(0),
            };
            let agent = Agent::connect(self.address(above), fake.rank, size, fake.clone());
            self.agents.push(agent.unwrap());
        }
    }

    pub fn all(name: &str, size: u32) -> Job {
        let mut job = Job::start(name, size, Disk::default(), Plan::default());
        job.connect();
        job
    }

    /// A job whose ranks copy their memory and write it for as long as `slow` is set.
    pub fn copying(name: &str, size: u32) -> Job {
        let job = Job::all(name, size);
        job.copies_slowly();
        job
    }

    /// Waits until every rank has the order to end with the checkpoint.
    pub fn until_all_exit(&self) {
        for fake in &self.fakes {
            until("exit", || *fake.exits.lock().unwrap() == ["ckpt-1"]);
        }
    }

    /// All ranks copy their memory, and write it until they are hurried.
    pub fn copies_slowly(&self) {
        for fake in &self.fakes {
            fake.copies.store(true, Ordering::SeqCst);
            fake.slow(true);
        }
    }
}

impl Fake {
    pub fn slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::SeqCst);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.server.close(None);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{what} did not come"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn client(directory: &Path) -> Client {
    Client::connect(directory).unwrap()
}
