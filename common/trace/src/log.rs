//! The log: `STASIS_LOG=LEVEL[,TARGET=LEVEL...]`.
//!
//! Levels are `error`, `warn`, `info`, `debug` and `trace`; a target is the name of a crate of Stasis. Each rank
//! writes a file of its own, each command writes to its standard error. Without the variable nothing is opened, and a
//! log line costs one load.
//!
//! The file of a rank is opened and written by one thread, since its other threads have different descriptor tables,
//! and a restart gives the numbers of the shared table to the application.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::Layer;

/// The variable that asks for a log.
pub const VARIABLE: &str = "STASIS_LOG";

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The variable cannot be understood.
    #[error(
        "STASIS_LOG={0} is not understood: {1}. Give a level (error, warn, info, debug, trace), or \
         levels of crates: STASIS_LOG=info,stasis_coordinator=debug"
    )]
    Filter(String, tracing_subscriber::filter::ParseError),
    /// The file cannot be written.
    #[error("the log cannot be written to {0}: {1}. Name a directory that can be written with --log-dir")]
    File(PathBuf, io::Error),
}

/// Filter of the log; none if the variable is absent or empty.
///
/// # Errors
/// [`Error::Filter`] if the variable is no filter.
pub fn wanted() -> Result<Option<Targets>, Error> {
    match std::env::var(VARIABLE) {
        Ok(text) if !text.is_empty() => parse(&text).map(Some),
        _ => Ok(None),
    }
}

fn parse(text: &str) -> Result<Targets, Error> {
    text.parse()
        .map_err(|error| Error::Filter(text.to_owned(), error))
}

/// Writes the log to the standard error of this command, if the variable asks for one.
///
/// # Errors
/// [`Error::Filter`] if the variable is no filter.
pub fn to_stderr() -> Result<(), Error> {
    if let Some(filter) = wanted()? {
        write_to(io::stderr, filter);
    }
    Ok(())
}

/// Writes the log with names of threads. A second call in a process changes nothing: the first one decides.
fn write_to(writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static, filter: Targets) {
    let layer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_thread_names(true)
        .with_writer(writer)
        .with_filter(filter);
    let _ = tracing_subscriber::registry().with(layer).try_init();
}

/// The code of the thread that writes a log.
pub type LogThread = Box<dyn FnOnce() + Send>;

/// Appends the log to `rank-RANK.log` in `directory`, as the filter from [`wanted`] says. The directory is made for its
/// owner alone, like a checkpoint directory. `start` starts the thread that writes the file. Nothing else may close or
/// replace a descriptor in that thread's table.
///
/// # Errors
/// [`Error::File`] if the directory or the file cannot be made, or the thread cannot be started.
pub fn to_file(
    directory: &Path,
    rank: u32,
    filter: Targets,
    start: impl FnOnce(LogThread) -> io::Result<()>,
) -> Result<(), Error> {
    let path = directory.join(format!("rank-{rank}.log"));
    let lines = begin(directory.to_owned(), path.clone(), start)
        .map_err(|error| Error::File(path, error))?;
    write_to(move || lines.clone(), filter);
    Ok(())
}

/// Starts the thread and has it open the file.
fn begin(
    directory: PathBuf,
    path: PathBuf,
    start: impl FnOnce(LogThread) -> io::Result<()>,
) -> io::Result<Lines> {
    let (lines, incoming) = channel();
    let (opened, result) = channel();
    start(Box::new(move || match open(&directory, &path) {
        Ok(file) => {
            let _ = opened.send(Ok(()));
            write_all(file, &incoming);
        }
        Err(error) => drop(opened.send(Err(error))),
    }))?;
    result.recv().map_err(io::Error::other)??;
    Ok(Lines(lines))
}

fn write_all(mut file: File, incoming: &Receiver<Line>) {
    for line in incoming {
        // Nothing can be done about a failure: the job continues without this line.
        let _ = file.write_all(&line.text);
    }
}

/// One line of the log.
struct Line {
    text: Vec<u8>,
    /// Dropped when the line is in the file.
    _written: Sender<()>,
}

/// Writer that passes lines to the thread that has the file. It waits until they are in the file, so that the lines
/// before a crash or a kill are not lost.
#[derive(Clone)]
struct Lines(Sender<Line>);

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        /// A child process made by `fork` has no such thread, and a full file system may block it.
        const PATIENCE: Duration = Duration::from_secs(1);
        let (written, wait) = channel();
        let line = Line {
            text: text.to_vec(),
            _written: written,
        };
        self.0.send(line).map_err(io::Error::other)?;
        let _ = wait.recv_timeout(PATIENCE);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(directory: &Path, path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_targets_are_read_and_nonsense_is_refused_with_help() {
        let filter = parse("info,stasis_coordinator=debug").unwrap();
        assert!(filter.would_enable("stasis_dump", &tracing::Level::INFO));
        assert!(!filter.would_enable("stasis_dump", &tracing::Level::DEBUG));
        assert!(filter.would_enable("stasis_coordinator", &tracing::Level::DEBUG));
        let error = parse("stasis_dump=loud").unwrap_err().to_string();
        assert!(error.contains("stasis_dump=loud"), "{error}");
        assert!(error.contains("debug"), "{error}");
    }

    #[test]
    fn a_log_is_for_its_owner_alone() {
        use std::os::unix::fs::MetadataExt;
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/log");
        let path = directory.join("rank-0.log");
        open(&directory, &path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_line_is_in_the_file_when_its_write_returns() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("rank-3.log");
        let start = |body: LogThread| std::thread::Builder::new().spawn(body).map(drop);
        let mut lines = begin(parent.path().to_owned(), path.clone(), start).unwrap();
        lines.write_all(b"one\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        lines.clone().write_all(b"two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        let missing = path.join("below-a-file");
        assert!(begin(missing.clone(), missing.join("rank-3.log"), start).is_err());
    }
}
