//! The processes of the standby world around the machine of [`standby`](crate::standby): its launcher, and the ranks
//! that sleep. Its ranks have a keeper of their own, which becomes that of the job when they are let go. The same holds
//! for what answers those on other machines.

use std::io::{self, PipeWriter};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::keeper::Keeper;
use crate::leases::Terms;
use crate::messages::ToRank;
use crate::processes;
use crate::remote::{Remote, RunPath};
use crate::run_file::{self, RunFile, STANDBY_FILE};
use crate::standby::{Order, Standby};
use crate::unblocked;

/// Time for its ranks to end after the job, before they are killed.
const GRACE: Duration = Duration::from_secs(1);

/// Reason why there is no standby world.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file.
    #[error(transparent)]
    File(#[from] run_file::Error),
    /// The system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Kinds of standby worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Kind {
    /// None
    No,
    /// They have called MPI_Init and sleep. They are started when the job has a checkpoint
    Warm,
    /// And they have mapped the newest checkpoint, which takes as much memory as the job
    Hot,
}

/// The standby world of a job, if there is one.
pub struct StandbyWorld {
    /// Its machine.
    pub machine: Standby,
    directory: PathBuf,
    /// Whether its ranks map each new image in advance.
    hot: bool,
    /// The checkpoint that they should have mapped.
    newest: Option<u64>,
    world: Option<World>,
    /// When its ranks were told to end.
    leaves: Option<Instant>,
}

/// The processes of a standby world.
pub struct World {
    /// Number of the incarnation that it may become.
    pub incarnation: u32,
    /// Keeper of its ranks on this machine.
    pub keeper: Keeper,
    /// Its ranks on other machines.
    pub remote: Remote,
    /// Its launcher, while that lives.
    pub launcher: Option<Pid>,
    /// Standard input of its launcher.
    pub input: PipeWriter,
    /// The checkpoint that its ranks were told to map, and the one that they have mapped.
    maps: [Option<u64>; 2],
}

impl StandbyWorld {
    /// The standby world of the job in this directory. A file of an earlier one is removed.
    pub fn new(directory: &Path, kind: Kind) -> StandbyWorld {
        RunFile::remove(directory, STANDBY_FILE);
        StandbyWorld {
            machine: Standby::new(kind != Kind::No),
            directory: directory.to_owned(),
            hot: kind == Kind::Hot,
            newest: None,
            world: None,
            leaves: None,
        }
    }

    /// Starts one that may become this incarnation.
    ///
    /// # Errors
    /// [`Error::File`] if its file cannot be written; [`Error::System`] if there is no socket or thread for it, or its
    /// launcher cannot be started.
    pub fn start(
        &mut self,
        mut command: Command,
        incarnation: u32,
        terms: Terms,
    ) -> Result<(), Error> {
        let keeper = Keeper::new(incarnation)?;
        let remote = Remote::start(terms)?;
        let (socket, token) = (keeper.socket().into(), keeper.token().into());
        let file = RunFile::new(socket, token, incarnation, Some(remote.network()?));
        file.write(&self.directory, STANDBY_FILE)?;
        let path = RunPath {
            directory: self.directory.clone(),
            name: STANDBY_FILE,
        };
        remote.next(file, path);
        let (stdin, input) = io::pipe()?;
        let child = unblocked::spawn(command.stdin(stdin))?;
        self.world = Some(World {
            incarnation,
            keeper,
            remote,
            launcher: Some(Pid::from_raw(child.id().cast_signed())),
            input,
            maps: [None; 2],
        });
        Ok(())
    }

    /// Descriptors to poll: it has something to do when one is ready.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let Some(world) = &self.world else {
            return Vec::new();
        };
        let mut all = world.keeper.descriptors();
        all.push(world.remote.descriptor());
        all
    }

    /// Time until [`turn`](Self::turn) has to do something without an event.
    pub fn patience(&self) -> Option<Duration> {
        let leaves = self.leaves.filter(|_| self.machine.is_leaving())?;
        Some(GRACE.saturating_sub(leaves.elapsed()) + Duration::from_millis(1))
    }

    /// Does what can be done without waiting.
    pub fn turn(&mut self) {
        let Some(world) = &mut self.world else {
            return;
        };
        let left = [world.keeper.turn(), world.remote.turn().left];
        let left = left.iter().any(|left| !left.is_empty());
        if world.all_asleep() && self.machine.asleep() {
            tracing::info!(
                incarnation = world.incarnation,
                "the standby world is asleep"
            );
        }
        if self.machine.is_leaving() {
            world.tell_asleep(ToRank::Leave);
        }
        if self.machine.is_ready() && self.hot {
            world.map(self.newest);
        }
        let order = match left {
            true => self.machine.died(),
            false => None,
        };
        self.obey(order);
        if self.leaves.is_some_and(|since| since.elapsed() >= GRACE) {
            let order = self.machine.leaves_too_slowly();
            self.obey(order);
        }
        if self.machine.is_ending() {
            // Ranks may have connected since.
            self.kill();
        }
    }

    /// The job has this checkpoint. `has_room` is false if there is no memory to map its images in advance.
    pub fn covered(&mut self, set: u64, has_room: bool) -> Option<Order> {
        self.newest = Some(set).filter(|_| has_room);
        self.machine.covered(set)
    }

    /// The checkpoint whose images its ranks have mapped, or are mapping.
    pub fn mapped(&self) -> Option<u64> {
        self.world.as_ref()?.maps[0]
    }

    /// Whether its ranks map each new image in advance.
    pub fn is_hot(&self) -> bool {
        self.hot
    }

    /// Obeys an order that needs no new process.
    pub fn obey(&mut self, order: Option<Order>) {
        match order {
            None | Some(Order::Start) => {}
            Some(Order::Kill) => {
                tracing::info!("the standby world is killed");
                self.kill();
            }
            Some(Order::Leave) => {
                self.leaves = Some(Instant::now());
                if let Some(world) = &self.world {
                    world.tell_asleep(ToRank::Leave);
                }
            }
        }
    }

    /// Kills the launcher first, since it would report the death of a rank on the job's output.
    fn kill(&self) {
        let Some(world) = &self.world else {
            return;
        };
        if let Some(launcher) = world.launcher {
            processes::send(launcher, Signal::SIGKILL);
        }
        world.keeper.kill();
        world.remote.end();
    }

    /// A child of this process has ended, perhaps its launcher.
    pub fn ended(&mut self, child: Pid) {
        let world = self.world.as_mut();
        if let Some(world) = world.filter(|world| world.launcher == Some(child)) {
            world.launcher = None;
            let order = self.machine.died();
            self.obey(order);
        }
    }

    /// Forgets a world that has an end: its launcher and its ranks are dead, and `rest` is false if there may be
    /// other processes of it. Returns the machine's next order.
    pub fn forget(&mut self, rest: impl FnOnce() -> bool) -> Option<Order> {
        let ends = self.machine.is_ending() || self.machine.is_leaving();
        let world = self.world.as_ref().filter(|_| ends)?;
        let lives = world.launcher.is_some() || !world.keeper.all_dead();
        if lives || !world.remote.all_dead() || !rest() {
            return None;
        }
        self.world = None;
        RunFile::remove(&self.directory, STANDBY_FILE);
        self.machine.gone()
    }

    /// Its launcher, if it is ready: then its processes must be spared when the job's are killed.
    pub fn spared(&self) -> Option<Pid> {
        let world = self.world.as_ref().filter(|_| self.machine.is_ready())?;
        world.launcher
    }

    /// Whether it has ranks on other machines.
    pub fn is_elsewhere(&self) -> bool {
        let world = self.world.as_ref();
        world.is_some_and(|world| world.remote.has_ranks())
    }

    /// Whether it is being killed, and ranks of it on other machines may live.
    pub fn lives_elsewhere(&self) -> bool {
        let world = self.world.as_ref().filter(|_| self.machine.is_ending());
        world.is_some_and(|world| !world.remote.all_dead())
    }

    /// The world, which becomes the running incarnation.
    pub fn take(&mut self) -> Option<World> {
        RunFile::remove(&self.directory, STANDBY_FILE);
        self.world.take()
    }
}

impl World {
    /// Whether all its ranks are asleep.
    fn all_asleep(&self) -> bool {
        let asleep = [self.keeper.asleep(), self.remote.asleep()].concat();
        let size = asleep.first();
        size.is_some_and(|size| asleep.len() == *size as usize)
    }

    /// Tells all ranks that sleep.
    pub fn tell_asleep(&self, message: ToRank) {
        self.keeper.tell_asleep(message);
        self.remote.tell_asleep(message);
    }

    /// The checkpoint whose images all ranks have mapped.
    fn mapped(&self) -> Option<u64> {
        let mapped = [self.keeper.mapped(), self.remote.mapped()].concat();
        let set = *mapped.first()?;
        set.filter(|_| mapped.iter().all(|its| *its == set))
    }

    /// Lets its ranks map the images of a checkpoint, if they were not told to.
    fn map(&mut self, newest: Option<u64>) {
        let [told, done] = self.maps;
        if let Some(set) = newest.filter(|_| newest != told) {
            self.maps[0] = newest;
            self.tell_asleep(ToRank::Map(set));
        }
        let mapped = self.mapped();
        if mapped != done {
            self.maps[1] = mapped;
            if let Some(set) = mapped {
                tracing::info!(
                    incarnation = self.incarnation,
                    set,
                    "the standby world has mapped the checkpoint"
                );
            }
        }
    }
}
