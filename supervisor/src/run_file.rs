//! The run file in the checkpoint directory: it names the `stasis run` that keeps the job, and the incarnation that may
//! run. No environment variable has to pass the launcher for that.

use std::fs;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use coordinator::net::addresses;
use coordinator::net::contact::Address;
use coordinator::net::stream::Stream;
use coordinator::private_file::{self, Unreadable};
use job_spec::shell;
use serde::{Deserialize, Serialize};

use crate::leases::Terms;
use crate::messages::{receive, send, FromRank, Member};

/// Name of the run file in the checkpoint directory.
pub const RUN_FILE: &str = "run.json";
/// Name of the file by which the ranks of a standby world find their keeper. Its content is that of a run file.
pub const STANDBY_FILE: &str = "standby.json";

const FORMAT: u32 = 1;

/// Time limit for the answer of a `stasis run` on another machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// Where ranks of other machines reach `stasis run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Addresses of its machine.
    pub addresses: Vec<IpAddr>,
    /// TCP port.
    pub port: u16,
    /// Intervals of leases.
    pub terms: Terms,
    /// Whether a rank of another machine has had a lease. If `stasis run` is dead, its leases have to end first.
    pub used: bool,
}

/// Content of the run file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    format: u32,
    /// Host of `stasis run`.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// Name of the keeper's abstract Unix socket (unix(7)).
    pub socket: String,
    /// Token with which ranks identify themselves.
    pub token: String,
    /// Incarnation that may run.
    pub incarnation: u32,
    /// Where ranks of other machines connect.
    #[serde(default)]
    pub network: Option<Network>,
    /// Numbers of the sets that the job does not go on from: an image of each is damaged, or out of reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<u64>,
}

/// Reason why the run file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error("cannot {} {}: {}", .1, .0.display(), .2)]
    Io(PathBuf, &'static str, io::Error),
    /// It is no run file of this version.
    #[error("{} is not a run file of this version of Stasis ({}); remove it if no job runs there", .0.display(), .1)]
    Bad(PathBuf, String),
    /// Another user may have written it.
    #[error("{} {}; remove it if no job runs in that directory", .0.display(), .1)]
    Untrusted(PathBuf, &'static str),
    /// Another `stasis run` keeps a job in the directory.
    #[error(
        "`stasis run` with the process number {pid} on {host} keeps a job in {} already, and starts it again when it has \
         died: end it with `stasis stop {}`, or give another --ckpt-dir",
        directory.display(), shell::word(directory)
    )]
    Taken {
        /// Checkpoint directory.
        directory: PathBuf,
        /// Process id of that `stasis run`.
        pid: u32,
        /// Its host.
        host: String,
    },
}

impl RunFile {
    /// The run file of this process.
    pub fn new(
        socket: String,
        token: String,
        incarnation: u32,
        network: Option<Network>,
    ) -> RunFile {
        RunFile {
            format: FORMAT,
            host: addresses::host(),
            pid: std::process::id(),
            socket,
            token,
            incarnation,
            network,
            left_out: Vec::new(),
        }
    }

    /// Writes the file under one of the two names, readable for its owner alone.
    ///
    /// # Errors
    /// [`Error::Io`] of the file system.
    pub fn write(&self, directory: &Path, name: &str) -> Result<(), Error> {
        let path = directory.join(name);
        let fail = |why| Error::Io(path.clone(), "write", why);
        let text = serde_json::to_string_pretty(self).map_err(|why| fail(why.into()))?;
        private_file::write(&path, &self.socket, &text, |new, path| {
            fs::rename(new, path)
        })
        .map_err(fail)
    }

    /// Reads the file of this name, if there is one.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Bad`] or [`Error::Untrusted`]: there is a file, and it cannot be used.
    pub fn read(directory: &Path, name: &str) -> Result<Option<RunFile>, Error> {
        let path = directory.join(name);
        let text = match private_file::read(&path) {
            Ok(text) => text,
            Err(Unreadable::Io(why)) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(Unreadable::Io(why)) => return Err(Error::Io(path, "read", why)),
            Err(Unreadable::Bad(why)) => return Err(Error::Untrusted(path, why)),
        };
        let file: RunFile =
            serde_json::from_str(&text).map_err(|why| Error::Bad(path.clone(), why.to_string()))?;
        match file.format {
            FORMAT => Ok(Some(file)),
            other => Err(Error::Bad(path, format!("format {other}"))),
        }
    }

    /// Reads the file of the `stasis run` that keeps the job, if one can be reached.
    ///
    /// # Errors
    /// As for [`RunFile::read`].
    pub fn of_living(directory: &Path) -> Result<Option<RunFile>, Error> {
        let file = RunFile::read(directory, RUN_FILE)?;
        Ok(file.filter(|file| file.connect().is_ok()))
    }

    /// Removes the file of this name: its job is over, or its standby world has an end.
    pub fn remove(directory: &Path, name: &str) {
        let _ = fs::remove_file(directory.join(name));
    }

    /// Whether the keeper is on this machine, where alone its socket can be reached.
    pub fn is_here(&self) -> bool {
        self.host == addresses::host()
    }

    /// Connects to `stasis run`: by the socket of its machine, or by TCP. A container of its machine may have another
    /// network than `stasis run`, and then has no such socket either.
    ///
    /// # Errors
    /// It does not live, or cannot be reached from here.
    pub fn connect(&self) -> io::Result<Stream> {
        let here = match self.is_here() {
            true => self.connect_here(),
            false => Err(io::ErrorKind::AddrNotAvailable.into()),
        };
        match (here, &self.network) {
            (Ok(stream), _) => Ok(Stream::Unix(stream)),
            (Err(_), Some(network)) => self.address(network).connect(),
            (Err(why), None) => Err(why),
        }
    }

    /// Connects to `stasis run` by TCP, also from its own machine. Returns the intervals of leases, too.
    ///
    /// # Errors
    /// It does not live, or cannot be reached from here.
    pub fn connect_by_network(&self) -> io::Result<(TcpStream, Terms)> {
        let network = self.network.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        match self.address(network).connect()? {
            Stream::Tcp(stream) => Ok((stream, network.terms)),
            Stream::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Name of the abstract Unix socket of the node keeper on another machine. It is a new one for each `stasis run`
    /// and each standby world.
    pub fn node_socket(&self) -> String {
        format!("{}-node", self.socket)
    }

    fn connect_here(&self) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(&self.socket)?)
    }

    fn address(&self, network: &Network) -> Address {
        Address {
            addresses: network.addresses.clone(),
            port: network.port,
            socket: None,
            token: self.token.clone(),
        }
    }

    /// Whether its `stasis run` lives, as far as can be seen from here.
    fn answers(&self) -> bool {
        if self.is_here() {
            return self.connect_here().is_ok();
        }
        let ask = || {
            let network = self.network.as_ref()?;
            let stream = self.address(network).connect().ok()?;
            stream.set_read_timeout(Some(ANSWER_LIMIT)).ok()?;
            // No rank has this incarnation. Another program may have got the port meanwhile.
            let hello = FromRank::Hello {
                token: self.token.clone(),
                incarnation: 0,
                member: Member::default(),
                process: None,
                announced: false,
            };
            send(&stream, &hello).ok()?;
            receive(&stream, &mut Vec::new()).ok()
        };
        ask().is_some()
    }

    /// The file of a `stasis run` that is dead, if one was left behind. One on another machine that cannot be reached
    /// counts as dead: the claim of a job to its directory then decides (`coordinator::claim`).
    ///
    /// # Errors
    /// [`Error::Taken`] if it lives, and those of [`RunFile::read`].
    pub fn left_behind(directory: &Path) -> Result<Option<RunFile>, Error> {
        let Some(file) = RunFile::read(directory, RUN_FILE)? else {
            return Ok(None);
        };
        match file.answers() {
            false => Ok(Some(file)),
            true => Err(Error::Taken {
                directory: directory.to_owned(),
                pid: file.pid,
                host: file.host,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_run_file_that_others_can_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let file = RunFile::new("socket".into(), "token".into(), 1, None);
        file.write(directory, RUN_FILE).unwrap();
        assert_eq!(RunFile::read(directory, RUN_FILE).unwrap(), Some(file));

        let path = directory.join(RUN_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o622)).unwrap();
        assert!(matches!(
            RunFile::read(directory, RUN_FILE),
            Err(Error::Untrusted(..))
        ));

        let elsewhere = directory.join("elsewhere.json");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(matches!(
            RunFile::read(directory, RUN_FILE),
            Err(Error::Untrusted(..))
        ));
    }
}
