//! The claim of a job to a checkpoint directory: only one live job has its file there.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::job_file::{Error, JobFile};
use crate::net::frame::{self, MAX_FRAME};
use crate::net::stream::Stream;
use crate::protocol::messages::{Details, Hello, Request, Status, ToClient, PROTOCOL};
use crate::protocol::state::Stage;

/// Time limit for the answer of a job.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// Ensures that no other job runs in `directory`. A job that is being killed still accepts connections but
/// closes them. A job that ends with a checkpoint closes them when it has ended, and this function waits
/// for that. A suspended job keeps connections open and sends nothing.
///
/// # Errors
/// Another job runs there, or may run there: its process lives and does not answer. Or its file cannot be read.
pub fn check_free(directory: &Path) -> Result<(), Error> {
    let connected = JobFile::read(directory).and_then(|job| {
        let stream = job.connect(directory)?;
        Ok((job, stream))
    });
    let (job, stream) = match connected {
        Ok(connected) => connected,
        Err(error @ Error::Io(..)) => return Err(error),
        // No file, a file whose job does not answer, or a file that will be replaced.
        Err(_) => return Ok(()),
    };
    match ask(&stream, &job.address.token) {
        Err(why) if !why.is_timeout() && !job.lives() => Ok(()),
        _ => Err(job.taken(directory)),
    }
}

/// Requests the status of a job. Waits for the end of a job that ends with a checkpoint.
fn ask(stream: &Stream, token: &str) -> Result<(), frame::Error> {
    let _ = stream.set_read_timeout(Some(ANSWER_LIMIT));
    let first = Hello::Client {
        protocol: PROTOCOL,
        token: token.to_owned(),
        request: Request::Status {
            details: Details::default(),
        },
    };
    frame::send(&mut &*stream, &first)?;
    let mut ending = false;
    loop {
        match frame::receive(&mut &*stream, MAX_FRAME)? {
            ToClient::Status(Status { stage, .. }) if stage == Stage::Ending && !ending => {
                ending = true;
            }
            ToClient::Status(_) | ToClient::Rejected(_) => return Ok(()),
            _ => {}
        }
    }
}

/// Writes `job`'s file into the directory, unless another live job has its file there. Of two jobs that
/// start at the same time, one gets the directory.
pub(crate) fn claim(job: &JobFile, directory: &Path) -> Result<(), Error> {
    loop {
        match job.write_new(directory) {
            Err(Error::Io(_, _, e)) if e.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done,
        }
        let seen = JobFile::read(directory).ok();
        check_free(directory)?;
        JobFile::clear(directory, seen.as_ref())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::contact::{random_token, Address};
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_silent_job_keeps_its_directory_and_one_that_is_killed_or_ends_does_not() {
        let dir = std::env::temp_dir().join(format!("stasis-claim-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = Address {
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            port: listener.local_addr().unwrap().port(),
            socket: None,
            token: random_token().unwrap(),
        };
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let mut job = JobFile::new(address, 2, vec!["./a".into()], "mpich".into());
        job.pid = ended.id();
        job.write(&dir).unwrap();
        let taken = check_free(&dir);
        assert!(matches!(taken, Err(Error::Taken { .. })), "suspended");
        drop(listener.accept().unwrap());
        let dying = std::thread::spawn(move || {
            drop(listener.accept());
            listener
        });
        check_free(&dir).unwrap();
        let listener = dying.join().unwrap();
        let ending = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let _: Hello = frame::receive(&mut stream, MAX_FRAME).unwrap();
            let status = Status {
                in_memory: None,
                size: 2,
                stage: Stage::Ending,
                waiting: None,
                committed: 1,
                last: None,
                failure: None,
                next: None,
                ranks: vec![],
            };
            frame::send(&mut stream, &ToClient::Status(status)).unwrap();
        });
        check_free(&dir).unwrap();
        ending.join().unwrap();
        check_free(&dir).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
