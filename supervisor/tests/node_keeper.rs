//! A node keeper and `stasis run`'s side of it, with a program in the place of a copy of a rank's memory.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ckpt_image::SetId;
use coordinator::process_liveness;
use dump::ChildParts;
use nix::poll::{poll, PollFd, PollFlags};
use stasis_supervisor::leases::{Id, Terms};
use stasis_supervisor::memory_sets::{Image, Word};
use stasis_supervisor::messages::FromRank;
use stasis_supervisor::node_keeper::{claim, keep, NodeKeeper};
use stasis_supervisor::node_messages::ToNode;
use stasis_supervisor::remote::{Remote, RunPath};
use stasis_supervisor::run_file::{RunFile, RUN_FILE};

/// Milliseconds after which an event counts as missed.
const LIMIT: u16 = 60_000;

/// The lease kills the process of the test if the node keeper cannot prolong it.
const TERMS: Terms = Terms {
    heartbeat: Duration::from_millis(50),
    lease: Duration::from_secs(60),
};

fn until_ready(descriptor: &impl AsFd) {
    let mut watched = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut watched, LIMIT), Ok(1), "it is not ready");
}

/// A process that could be a copy, and its pidfd.
struct Copy(Child, OwnedFd);

impl Copy {
    fn new() -> Copy {
        let mut command = Command::new("cat");
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        let process = process_liveness::open(child.id()).unwrap();
        Copy(child, process)
    }

    fn parts(&self) -> ChildParts {
        ChildParts {
            orders: File::open("/dev/null").unwrap().into(),
            process: self.1.try_clone().unwrap(),
            memory: File::open(format!("/proc/{}/mem", self.0.id()))
                .unwrap()
                .into(),
        }
    }
}

struct Job {
    remote: Remote,
    file: RunFile,
    keeper: JoinHandle<()>,
}

impl Job {
    fn start(directory: &Path) -> Job {
        let remote = Remote::start(TERMS).unwrap();
        let socket = format!("stasis-test-{}", std::process::id());
        let network = Some(remote.network().unwrap());
        let file = RunFile::new(socket, "token".into(), 1, network);
        file.write(directory, RUN_FILE).unwrap();
        let path = RunPath {
            directory: directory.to_owned(),
            name: RUN_FILE,
        };
        remote.next(file.clone(), path);
        let listener = claim(&file.node_socket()).unwrap().unwrap();
        let directory = directory.to_owned();
        let keeper = thread::spawn(move || {
            let ended = keep(&directory, RUN_FILE, listener, || Ok(()));
            let Err(_) = ended;
        });
        Job {
            remote,
            file,
            keeper,
        }
    }

    fn hand_over(&self, set: SetId, copy: &Copy) {
        let keeper = NodeKeeper::of(&self.file).unwrap();
        keeper.hand_over(&holds(set), &copy.parts()).unwrap();
    }

    /// The next word of the node keeper, which says one at a time here.
    fn word(&self) -> Word {
        loop {
            if let Some(word) = self.remote.turn().words.into_iter().next() {
                return word;
            }
            until_ready(&self.remote.descriptor());
        }
    }

    /// The node keeper that holds a rank's image of this set.
    fn holder(&self, of: SetId) -> Id {
        match self.word() {
            Word::Holds {
                set,
                number: 7,
                rank: 3,
                ranks: 4,
                image: Image::At(node),
            } if set == of => node,
            _ => panic!("it is another word"),
        }
    }
}

fn holds(set: SetId) -> FromRank {
    FromRank::Holds {
        set,
        number: 7,
        rank: 3,
        ranks: 4,
        recipe: serde_json::from_str(r#"{"at": 0, "bytes": 0}"#).unwrap(),
    }
}

#[test]
fn copies_live_until_they_are_dropped_or_the_connection_ends() {
    let directory = tempfile::tempdir().unwrap();
    let job = Job::start(directory.path());
    let again = claim(&job.file.node_socket()).unwrap();
    assert!(again.is_none(), "the machine gets two node keepers");

    let mut stranger = job.file.clone();
    stranger.token = "another".into();
    let stranger = NodeKeeper::of(&stranger).unwrap();
    let refused = stranger.hand_over(&holds(SetId([9; 16])), &Copy::new().parts());
    assert!(refused.is_err(), "it takes what has another token");

    // One that is killed is told.
    let set = SetId([1; 16]);
    let mut killed = Copy::new();
    job.hand_over(set, &killed);
    job.holder(set);
    killed.0.kill().unwrap();
    assert!(matches!(job.word(), Word::Lost(its, _) if its == set));

    let (first, second) = (SetId([2; 16]), SetId([3; 16]));
    let copies = [Copy::new(), Copy::new()];
    job.hand_over(first, &copies[0]);
    let node = job.holder(first);
    job.hand_over(second, &copies[1]);
    assert_eq!(job.holder(second), node);
    job.remote.orders().tell(node, &ToNode::Drop(first));
    until_ready(&copies[0].1);

    // The other one is still there, and ends with the node keeper.
    job.hand_over(set, &Copy::new());
    job.holder(set);
    let mut other = [PollFd::new(copies[1].1.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut other, 0u16), Ok(0), "it is dead, too");
    let Job { remote, keeper, .. } = job;
    drop(remote);
    keeper.join().unwrap();
    until_ready(&copies[1].1);
}
