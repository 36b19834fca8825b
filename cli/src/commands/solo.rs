//! `stasis solo`: one rank of a recorded run, alone.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{anyhow, bail, Context, Result};
use job_spec::{
    Breakpoint, Checkpoints, Compression, FilePolicy, Keep, LaunchSpec, Pause, Record, Schedule,
    Tools,
};
use nix::sys::wait::{waitpid, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;
use record::contents::{Header, Reader};

use crate::args::Solo;
use crate::check::kernel;
use crate::commands::gdb;
use crate::install::layout::Layout;
use crate::install::lower_registry::Preferred;
use crate::start::exec_lower::exec_lower;
use crate::ui::exit::{self, Code, WithCode};

/// Runs the command; returns only if the rank cannot be run.
pub fn run(options: &Solo) -> exit::Result<()> {
    kernel::check_trap().code(Code::CannotServe)?;
    let reader = Reader::open(&options.record, options.rank);
    let header = reader.code(Code::Image)?.header;
    let mut rank = Rank::new(options, &header).code(Code::CannotServe)?;
    let ended = match options.command.as_slice() {
        [] => exec_lower(rank.line, &rank.lower).map(|()| None),
        [debugger, arguments @ ..] if is_gdb(debugger) => {
            rank.debugged(Path::new(debugger), arguments)
        }
        [command, arguments @ ..] => rank.run_by(command, arguments).map(|never| match never {}),
    };
    match ended.code(Code::CannotServe)? {
        None => Ok(()),
        // It has ended before the debugger could see it.
        Some(code) => std::process::exit(code),
    }
}

fn is_gdb(command: &OsStr) -> bool {
    let name = Path::new(command).file_name().unwrap_or_default();
    name.as_bytes().ends_with(b"gdb")
}

/// The rank that is to be run.
struct Rank {
    /// The lower half, and its command line.
    lower: PathBuf,
    line: Command,
    program: PathBuf,
}

impl Rank {
    fn new(options: &Solo, header: &Header) -> Result<Rank> {
        let word = |bytes: &Vec<u8>| OsString::from_vec(bytes.clone());
        let wanted = word(&header.lower);
        let layout = Layout::find()?;
        let none = Preferred {
            library: None,
            abi: None,
        };
        let lower = layout.choose(wanted.to_str(), none)?;
        let words: Vec<OsString> = header.command.iter().map(word).collect();
        let [program, arguments @ ..] = words.as_slice() else {
            bail!("the record names no program");
        };
        // The directory may be a copy of the one in which the job ran.
        let program = match Path::new(program).exists() {
            true => PathBuf::from(program),
            false => Path::new(&word(&header.directory)).join(program),
        };
        let directory = std::path::absolute(&options.record)?;
        let by_gdb = options.command.first().is_some_and(|first| is_gdb(first));
        let call = options.stop_at.or(by_gdb.then_some(1));
        let spec = LaunchSpec::<()> {
            checkpoints: Checkpoints {
                mpi_library: lower.mpi_library.clone(),
                tools: Tools {
                    record: Some(Record::Solo {
                        dir: directory.clone(),
                        rank: options.rank,
                    }),
                    stop_at: call.map(|call| Breakpoint {
                        rank: options.rank,
                        call,
                    }),
                    ..Tools::default()
                },
                ..no_checkpoints(directory)
            },
            lineage: None,
        };
        let mut line = Command::new(&lower.path);
        line.arg("launch").arg(job_spec::to_argument(&spec)?);
        line.arg("--").arg(&program).args(arguments);
        line.env("STASIS_ARGV0", word(&header.name));
        // A process of Open MPI that no launcher has started would start a daemon.
        line.env("OMPI_MCA_ess_singleton_isolated", "1");
        Ok(Rank {
            lower: lower.path,
            line,
            program,
        })
    }

    /// Becomes a command that gets the line of the lower half as its last arguments.
    fn run_by(&mut self, command: &OsStr, arguments: &[OsString]) -> Result<Infallible> {
        let mut outer = Command::new(command);
        outer.args(arguments).arg(self.line.get_program());
        outer.args(self.line.get_args());
        for (name, value) in self.line.get_envs() {
            if let Some(value) = value {
                outer.env(name, value);
            }
        }
        let why = outer.exec();
        Err(anyhow!(why).context(format!("{} cannot be started", command.display())))
    }

    /// Starts the rank, and becomes its debugger when it has stopped. The result is its exit code if it did not stop.
    fn debugged(&mut self, debugger: &Path, arguments: &[OsString]) -> Result<Option<i32>> {
        let child = self.line.spawn();
        let child = child.with_context(|| format!("cannot start {}", self.lower.display()))?;
        let process = Pid::from_raw(child.id().cast_signed());
        match waitpid(process, Some(WaitPidFlag::WUNTRACED))? {
            WaitStatus::Stopped(..) => {
                let never =
                    gdb::attach(debugger, process.as_raw(), &self.program, true, arguments)?;
                match never {}
            }
            WaitStatus::Exited(_, code) => Ok(Some(code)),
            other => bail!("the rank has ended before its first MPI call: {other:?}"),
        }
    }
}

/// The settings of a process that takes no checkpoints.
fn no_checkpoints(dir: PathBuf) -> Checkpoints {
    Checkpoints {
        dir,
        schedule: Schedule::default(),
        keep: Keep::All,
        full_every: 1,
        patience: 0,
        compression: Compression::Off,
        pause: Pause::Stop,
        key_file: None,
        local_dir: None,
        partner: false,
        files: FilePolicy::Leave,
        undo_limit: 0,
        log_dir: None,
        metrics: None,
        quiet: true,
        incarnation: None,
        stages: None,
        for_cpu: None,
        tools: Tools::default(),
        mpi_library: None,
        announced: None,
    }
}
