//! Hands checkpoints over beside a `stasis run`: as its parent, so that it waits for the last one when the job has
//! ended. Signals are passed on.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::process::Command;

use launcher::message;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{kill, SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{waitid, Id, WaitPidFlag, WaitStatus};
use nix::unistd::Pid;

use super::{HandOver, Handed};
use crate::ui::exit::Code;

/// Longest time in milliseconds until a checkpoint is noticed that another machine has committed: inotify(7) tells
/// nothing of it.
const LOOK: u16 = 5000;

/// Signals that are passed on. A terminal sends its own to both processes.
const SIGNALS: [Signal; 6] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// `si_code` of a signal that the kernel sends, as for a terminal.
const SI_KERNEL: i32 = 0x80;

/// Runs a command to its end, and hands over what is committed meanwhile. Returns its exit code, that of a shell if a
/// signal has ended it. If the command succeeds and the last checkpoint could not be handed over, that is the code for
/// a checkpoint that is missing.
///
/// # Errors
/// The command cannot be started, or the system refuses something.
pub fn run(mut command: Command, hand_over: HandOver) -> io::Result<i32> {
    let mut signals = SigSet::from_iter(SIGNALS);
    signals.add(Signal::SIGCHLD);
    signals.thread_block()?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let commits = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    commits.add_watch(&hand_over.directory, AddWatchFlags::IN_MOVED_TO)?;
    let child = supervisor::unblocked::spawn(&mut command)?;
    let child = Pid::from_raw(child.id().cast_signed());
    let mut beside = Beside {
        hand_over,
        handed: None,
        failed: None,
    };
    let mut code = None;
    loop {
        while let Ok(Some(signal)) = signals.read_signal() {
            let of_terminal = signal.ssi_code == SI_KERNEL;
            let signal = Signal::try_from(signal.ssi_signo.cast_signed());
            if let Some(signal) = signal.ok().filter(|_| code.is_none() && !of_terminal) {
                if signal != Signal::SIGCHLD {
                    let _ = kill(child, signal);
                }
            }
        }
        while commits.read_events().is_ok() {}
        if code.is_none() {
            code = ended(child);
        }
        let idle = beside.turn(code.is_some());
        if let Some(code) = code.filter(|_| idle) {
            let is_stored = !matches!(beside.failed, Some((_, true)));
            return Ok(match code == 0 && !is_stored {
                true => Code::Image.number(),
                false => code,
            });
        }
        let mut fds = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(commits.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, PollTimeout::from(LOOK)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
}

/// Exit code of a child that has ended.
fn ended(child: Pid) -> Option<i32> {
    match waitid(Id::Pid(child), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG) {
        Ok(WaitStatus::Exited(_, code)) => Some(code),
        Ok(WaitStatus::Signaled(_, signal, _)) => Some(128 + signal as i32),
        _ => None,
    }
}

struct Beside {
    hand_over: HandOver,
    handed: Option<Handed>,
    /// The set that could not be handed over, and whether the job had ended. It is tried again with the next one, and
    /// at the end.
    failed: Option<(String, bool)>,
}

impl Beside {
    /// Finishes a hand-over that has ended, and starts the next one. Returns whether nothing is left to do.
    fn turn(&mut self, last: bool) -> bool {
        if let Some(handed) = self.handed.take_if(|handed| has_ended(handed)) {
            let name = handed.name().to_owned();
            match self.hand_over.finish(handed) {
                Ok(()) => message::say(format_args!("{name} is handed over")),
                Err(why) => self.tell(&name, last, &why),
            }
        }
        while self.handed.is_none() {
            let set = match self.hand_over.next() {
                Ok(Some(set)) => set,
                Ok(None) => return true,
                Err(why) => {
                    self.tell("", last, &why);
                    return true;
                }
            };
            let name = set.name.clone();
            if self.failed == Some((name.clone(), last)) {
                return true;
            }
            match self.hand_over.start(set) {
                Ok(handed) => self.handed = Some(handed),
                Err(why) => self.tell(&name, last, &why),
            }
        }
        false
    }

    fn tell(&mut self, name: &str, last: bool, why: &anyhow::Error) {
        let failed = Some((name.to_owned(), last));
        if self.failed != failed {
            message::say(format_args!("{why:#}"));
        }
        self.failed = failed;
    }
}

/// Whether the command has ended; it is waited for later.
fn has_ended(handed: &Handed) -> bool {
    let shell = Id::Pid(Pid::from_raw(handed.process().cast_signed()));
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(shell, look), Ok(WaitStatus::StillAlive))
}

/// The flag of a `stasis run` that runs the job without handing over.
pub const FLAG: &str = "--drained-outside";

/// The arguments of this process, so that they run the job without handing over.
pub fn arguments() -> impl Iterator<Item = OsString> {
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next();
    let flag = OsString::from(FLAG);
    command.into_iter().chain([flag]).chain(arguments)
}
