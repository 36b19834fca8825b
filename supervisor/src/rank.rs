//! A rank's side of the connection to `stasis run`.
//!
//! On the machine of `stasis run` it is a Unix socket, and the rank kills itself when the other side is dead. On
//! another machine it goes by TCP, and the rank holds a lease besides ([`crate::leases`]): it cannot see a cut network,
//! and it may be stopped when it would have to kill itself.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coordinator::net::addresses;
use coordinator::net::stream::Stream;
use dump::ChildParts;
use nix::fcntl::{fcntl, FcntlArg, FdFlag};

use crate::child_parts;
use crate::leases::Terms;
use crate::messages::{receive, send, FromRank, Member, Process, ToRank};
use crate::node_keeper::NodeKeeper;
use crate::run_file::{self, RunFile, RUN_FILE};

/// Reason why a rank must not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run file cannot be read.
    #[error(transparent)]
    File(#[from] run_file::Error),
    /// The rank is of an older incarnation.
    #[error(
        "this rank was started as incarnation {mine} of a job of `stasis run`, and incarnation {current} runs now: it does \
         not run"
    )]
    Superseded {
        /// Incarnation of this rank.
        mine: u32,
        /// Incarnation that runs.
        current: u32,
    },
    /// The job is over, or this machine has another directory in the place of the checkpoint directory.
    #[error(
        "this rank was started by `stasis run`, and {} on {host} {}. All machines of a job have to share its checkpoint \
         directory: give a --ckpt-dir on a file system that all of them see",
        directory.display(),
        match empty {
            true => "is missing or empty: this machine does not see the checkpoint directory".to_owned(),
            false => format!("has no {RUN_FILE}: that job is over, or this machine does not see the checkpoint directory"),
        }
    )]
    NoRunFile {
        /// The checkpoint directory.
        directory: PathBuf,
        /// This machine.
        host: String,
        /// Whether it has no files at all.
        empty: bool,
    },
    /// `stasis run` does not answer.
    #[error("`stasis run`, which has started this rank, does not answer: {0}; start the job again with it")]
    Keeper(io::Error),
    /// The kernel has no timer for the lease.
    #[error(
        "this rank is on another machine than `stasis run`, and the timer that it needs there cannot be made: {0}; the \
         limit of pending signals (`ulimit -i`) may be too low"
    )]
    Timer(io::Error),
}

/// A timer at which the kernel kills this process.
pub trait KillTimer: Send + Sync {
    /// Present time of its clock.
    fn now(&self) -> Duration;
    /// Sets the time, in the place of an earlier one.
    ///
    /// # Errors
    /// The kernel refuses the time.
    fn arm(&self, at: Duration) -> io::Result<()>;
}

/// Connection of a rank to `stasis run`.
pub struct Link {
    stream: Stream,
    /// Held while a message is sent.
    sending: Mutex<()>,
    /// The lease of a rank on another machine.
    lease: Option<(Terms, Box<dyn KillTimer>)>,
    /// The node keeper there.
    node: Option<NodeKeeper>,
    /// Process id of the rank. A child that it forks has a copy of the connection and must not use it.
    process: u32,
}

/// Whether the ranks of an incarnation may run, and checkpoints of it may be committed: while it is the present one.
///
/// # Errors
/// [`Error::Superseded`], [`Error::NoRunFile`], or [`Error::File`] if the run file cannot be used.
pub fn check_present(directory: &Path, incarnation: u32) -> Result<(), Error> {
    present(directory, RUN_FILE, incarnation).map(drop)
}

/// Numbers of the sets that the job does not go on from, since an image of each cannot be used. Outside
/// of an incarnation there are none.
///
/// # Errors
/// [`Error::File`] if the run file cannot be used.
pub fn left_out(directory: &Path, incarnation: Option<u32>) -> Result<Vec<u64>, Error> {
    let file = match incarnation {
        Some(_) => RunFile::read(directory, RUN_FILE)?,
        None => None,
    };
    Ok(file.map_or_else(Vec::new, |file| file.left_out))
}

/// The run file of this name, if its incarnation is that one.
fn present(directory: &Path, file: &str, incarnation: u32) -> Result<RunFile, Error> {
    match RunFile::read(directory, file)? {
        Some(file) if file.incarnation == incarnation => Ok(file),
        Some(file) => Err(Error::Superseded {
            mine: incarnation,
            current: file.incarnation,
        }),
        None => Err(Error::NoRunFile {
            directory: directory.to_owned(),
            host: addresses::host(),
            empty: !fs::read_dir(directory).is_ok_and(|mut files| files.next().is_some()),
        }),
    }
}

/// Connects to the `stasis run` of this incarnation.
fn reach(directory: &Path, file: &str, incarnation: u32) -> Result<(RunFile, Stream), Error> {
    let file = present(directory, file, incarnation)?;
    let stream = file.connect().map_err(Error::Keeper)?;
    Ok((file, stream))
}

/// Sends the first message, and waits until this process is welcome.
fn greet(stream: &Stream, file: RunFile, member: Member, announced: bool) -> Result<(), Error> {
    let mut process = None;
    if let (Stream::Tcp(_), Some(network)) = (stream, &file.network) {
        process = Some(Process {
            host: addresses::host(),
            pid: std::process::id(),
        });
        let limit = stream.set_read_timeout(Some(network.terms.lease));
        limit.map_err(Error::Keeper)?;
    }
    let hello = FromRank::Hello {
        token: file.token,
        incarnation: file.incarnation,
        member,
        process,
        announced,
    };
    send(stream, &hello).map_err(Error::Keeper)?;
    match receive(stream, &mut Vec::new()).map_err(Error::Keeper)? {
        ToRank::Superseded { by } => Err(Error::Superseded {
            mine: file.incarnation,
            current: by,
        }),
        ToRank::Welcome => Ok(()),
        other => {
            let why = format!("its first word is {other:?} (a defect in Stasis)");
            let why = io::Error::new(io::ErrorKind::InvalidData, why);
            Err(Error::Keeper(why))
        }
    }
}

/// The node keeper, if `stasis run` is on another machine.
fn node_keeper(stream: &Stream, file: &RunFile) -> Option<NodeKeeper> {
    match stream {
        Stream::Tcp(_) => NodeKeeper::of(file),
        Stream::Unix(_) => None,
    }
}

/// A process that is to become a rank, as `stasis run` knows it. It has no lease and runs nothing of the program. The
/// connection survives the execution of the lower half, so that its end is that of the process.
pub struct Announcement {
    stream: Stream,
    node: Option<NodeKeeper>,
}

impl Announcement {
    /// Announces the rank of this process. `file` is as in [`Link::connect`].
    ///
    /// # Errors
    /// As for [`Link::connect`].
    pub fn make(
        directory: &Path,
        file: &str,
        incarnation: u32,
        member: Member,
    ) -> Result<Announcement, Error> {
        let (file, stream) = reach(directory, file, incarnation)?;
        let node = node_keeper(&stream, &file);
        greet(&stream, file, member, true)?;
        Ok(Announcement { stream, node })
    }

    /// The node keeper, if this is another machine than that of `stasis run`.
    pub fn node_keeper(&self) -> Option<&NodeKeeper> {
        self.node.as_ref()
    }

    /// Tells `stasis run` why there will be no rank.
    pub fn tell(&self, message: &FromRank) {
        // Without `stasis run` the launcher alone decides.
        let _ = send(&self.stream, message);
    }

    /// The descriptor of the connection, which a program that this process executes inherits from now on.
    ///
    /// # Errors
    /// The kernel refuses to change the descriptor.
    pub fn inherit(&self) -> io::Result<RawFd> {
        let stream = self.stream.as_fd();
        fcntl(stream, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(stream.as_raw_fd())
    }
}

impl Link {
    /// Connects a rank of an incarnation. `file` is the name of the run file, or of that of a standby world. `timer`
    /// makes the timer of a rank on another machine.
    ///
    /// # Errors
    /// [`Error::Superseded`], [`Error::NoRunFile`]: the rank must not run. [`Error::File`], [`Error::Keeper`],
    /// [`Error::Timer`]: the run file cannot be used, `stasis run` does not answer, or there is no timer.
    pub fn connect(
        directory: &Path,
        file: &str,
        incarnation: u32,
        member: Member,
        timer: impl FnOnce() -> io::Result<Box<dyn KillTimer>>,
    ) -> Result<Link, Error> {
        let (file, stream) = reach(directory, file, incarnation)?;
        let mut lease = None;
        if let (Stream::Tcp(_), Some(network)) = (&stream, &file.network) {
            lease = Some((network.terms, timer().map_err(Error::Timer)?));
        }
        let begun = lease.as_ref().map(|(_, timer)| timer.now());
        let node = node_keeper(&stream, &file);
        greet(&stream, file, member, false)?;
        if let (Some((terms, timer)), Some(begun)) = (&lease, begun) {
            // Nothing of the program runs before.
            timer.arm(begun + terms.lease).map_err(Error::Timer)?;
        }
        Ok(Link {
            stream,
            sending: Mutex::new(()),
            lease,
            node,
            process: std::process::id(),
        })
    }

    /// Whether `stasis run` is on another machine.
    pub fn is_remote(&self) -> bool {
        self.lease.is_some()
    }

    /// Tells `stasis run` what the rank is about to do. Nothing is said by a child of the rank.
    pub fn tell(&self, message: &FromRank) {
        if std::process::id() == self.process {
            // Without `stasis run` the launcher alone decides.
            let _ = self.send(message);
        }
    }

    /// Hands a child with a copy of the rank's memory to `stasis run` or, on another machine, to the node keeper.
    ///
    /// # Errors
    /// The connection is broken, or the machine has no node keeper.
    pub fn hand_over(&self, message: &FromRank, child: &ChildParts) -> io::Result<()> {
        match (&self.stream, &self.node) {
            (Stream::Unix(stream), _) => {
                let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
                child_parts::send(stream, message, child)
            }
            (Stream::Tcp(_), Some(node)) => node.hand_over(message, child),
            (Stream::Tcp(_), None) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn send(&self, message: &FromRank) -> io::Result<()> {
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        send(&self.stream, message)
    }

    /// Returns when the rank must die. Until then, keeps the lease of a rank on another machine, and gives what the
    /// rank is told besides to `treat`.
    pub fn listen(&self, treat: impl FnMut(ToRank)) {
        let _ = match &self.lease {
            Some((terms, timer)) => self.hold(terms, timer.as_ref(), treat),
            None => self.treat_all(treat),
        };
    }

    /// Returns when `stasis run` is dead.
    fn treat_all(&self, mut treat: impl FnMut(ToRank)) -> io::Result<()> {
        loop {
            treat(receive(&self.stream, &mut Vec::new())?);
        }
    }

    /// Returns when the rank is told to die, or cannot hold its lease.
    fn hold(
        &self,
        terms: &Terms,
        timer: &dyn KillTimer,
        mut treat: impl FnMut(ToRank),
    ) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            let sent = timer.now();
            self.send(&FromRank::Beat)?;
            self.stream.set_read_timeout(None)?;
            loop {
                match receive(&self.stream, &mut line)? {
                    ToRank::Lives => break,
                    other => treat(other),
                }
            }
            timer.arm(sent + terms.lease)?;
            // An order may come meanwhile.
            let next = sent + terms.heartbeat;
            while let Some(left) = next.checked_sub(timer.now()).filter(|left| !left.is_zero()) {
                self.stream.set_read_timeout(Some(left))?;
                match receive(&self.stream, &mut line) {
                    Ok(message) => treat(message),
                    Err(why) if is_timeout(&why) => break,
                    Err(why) => return Err(why),
                }
            }
        }
    }
}

fn is_timeout(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
