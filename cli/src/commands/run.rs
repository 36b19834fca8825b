//! `stasis run`: runs a job to its end, starting it again from its newest checkpoint when a part of it has died.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::anyhow;
use ckpt_image::{list_sets, SealKey, SetState};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use coordinator::job_file::JobFile;
use coordinator::net::addresses;
use dump::MemoryBudget;
use history::event::{shortened, Event, MOST_LISTED};
use history::last_seen;
use job_spec::{shell, Schedule};
use launcher::message;
use supervisor::command_line;
use supervisor::hosts::Machines;
use supervisor::leases::Terms;
use supervisor::recovery::{Failure, GivenUp, LauncherEnd, Policy};
use supervisor::rescue;
use supervisor::run::{self, Job, Next, Surroundings};
use supervisor::standby::Way;
use supervisor::standby_world::Kind;

use crate::args::{Arguments, Launch, Run};
use crate::check::memory_left;
use crate::commands::launch::check_beginning;
use crate::explain::findings::findings;
use crate::hand_over::{run_beside, HandOver};
use crate::start::exec_lower::{prepare, schedule};
use crate::start::{existing_checkpoints, recording};
use crate::ui::exit::{self, Code, WithCode};

/// Ranks of a start that are quoted why they could not be restored. The reasons of the others are mostly the same.
const MOST_REFUSALS: usize = 3;

/// Memory that a sleeping rank is taken to need.
const BYTES_OF_SLEEPER: u64 = 64 << 20;

/// Runs the command; returns only if the job cannot be run.
pub fn run(options: &Run) -> exit::Result<()> {
    let launch = launch_of(&options.line)?;
    if options.stages {
        check_stages(&launch)?;
    }
    let checkpoints = &launch.running.checkpoints;
    let key = checkpoints.key.read().code(Code::Usage)?;
    let directory = prepare(&launch.directory()).code(Code::Directory)?;
    let drain_with = options.drain_with.as_deref();
    if let Some(command) = drain_with.filter(|_| !options.drained_outside) {
        return run_and_hand_over(&directory, command, key);
    }
    let known = KnownSets {
        line: options.line.clone(),
        ended_before: JobFile::read(&directory)
            .ok()
            .filter(|job| job.ended_with.is_some())
            .map(|job| job.id),
        directory: directory.clone(),
        key: key.clone(),
        launch,
        most: options.recover,
        standby: options.standby != Kind::No,
        told: Cell::default(),
        mapped: Cell::default(),
        whole: RefCell::default(),
        left_out: RefCell::default(),
        refusals: RefCell::default(),
        stages: options.stages,
    };
    let job = Job {
        line: options.line.clone(),
        directory,
        policy: Policy {
            on: options.on,
            most: options.recover,
        },
        hang: options.hang.map(Duration::from_secs),
        standby: options.standby,
        key,
        terms: terms_of(options)?,
        machines: Machines {
            spares: options.spares,
            oversubscribe: options.oversubscribe,
        },
        stages: options.stages,
        refusal: Code::CannotServe.number(),
        terminal: io::stdin().is_terminal(),
    };
    let code = run::run(&job, &known).map_err(|why| match why {
        run::Error::File(_) | run::Error::Directory(_) | run::Error::NotFree(_) => {
            (why, Code::Directory)
        }
        _ => (why, Code::Usage),
    });
    match code {
        Ok(code) => {
            known.ended(code);
            std::process::exit(code)
        }
        Err((why, code)) => Err(why).code(code),
    }
}

/// Runs the job in a child, and hands its checkpoints over.
fn run_and_hand_over(directory: &Path, command: &OsStr, key: Option<SealKey>) -> exit::Result<()> {
    let hand_over = HandOver::new(directory, command, key).code(Code::Directory)?;
    let own = std::env::current_exe().code(Code::CannotServe)?;
    let mut job = Command::new(own);
    job.args(run_beside::arguments());
    let code = run_beside::run(job, hand_over).code(Code::CannotServe)?;
    std::process::exit(code)
}

fn terms_of(options: &Run) -> exit::Result<Terms> {
    let terms = Terms {
        heartbeat: options.heartbeat,
        lease: options.lease,
    };
    if terms.lease < 2 * terms.heartbeat {
        return Err(anyhow!(
            "--lease {} is too short for --heartbeat {}: a lease has to last for at least two heartbeats",
            terms.lease.as_secs_f64(),
            terms.heartbeat.as_secs_f64()
        ))
        .code(Code::Usage);
    }
    Ok(terms)
}

/// The options of the line's first `stasis launch`.
fn launch_of(line: &[OsString]) -> exit::Result<Launch> {
    let words = command_line::first_launch(line).ok_or_else(|| {
        anyhow!(
            "there is no `stasis launch` in this line, so that nothing could be continued: give the whole command, \
             `stasis run -- mpirun -n N stasis launch ./app`. If a script has that command in it, write `stasis run \
             --` in front of it there"
        )
    });
    // clap prints the error, as `stasis launch` would.
    let launch = parse(words.code(Code::Usage)?).unwrap_or_else(|why| why.exit());
    check_beginning(&launch).code(Code::Usage)?;
    Ok(launch)
}

/// The words behind a `stasis launch`.
fn parse(words: &[OsString]) -> Result<Launch, clap::Error> {
    let command = ["stasis".into(), "launch".into()];
    let parsed = Arguments::try_parse_from(command.iter().chain(words))?;
    match parsed.command {
        crate::args::Command::Launch(launch) => Ok(launch),
        _ => Err(Arguments::command().error(ErrorKind::InvalidSubcommand, "no `stasis launch`")),
    }
}

/// What `stasis run` knows about the checkpoints of its job.
struct KnownSets {
    line: Vec<OsString>,
    directory: PathBuf,
    key: Option<SealKey>,
    /// The options of the line's first `stasis launch`.
    launch: Launch,
    /// Id of an earlier job in the directory that has ended with a checkpoint.
    ended_before: Option<String>,
    most: u32,
    /// Whether the user wants a standby world.
    standby: bool,
    /// The last reason why there is no standby world.
    told: Cell<String>,
    /// The checkpoint that was last asked about, and the memory of its images.
    mapped: Cell<(u64, u64)>,
    /// Numbers of the whole checkpoints when the directory could last be read.
    whole: RefCell<Vec<u64>>,
    /// Numbers of the checkpoints that have a damaged image, or one out of reach of all ranks.
    left_out: RefCell<Vec<u64>>,
    /// Why ranks of the last incarnation could not be started or restored, for the history.
    refusals: RefCell<Vec<String>>,
    stages: bool,
}

impl KnownSets {
    /// Notes an event in the job's history. The ranks tell the user if that fails.
    fn note(&self, event: Event) {
        if let Err(why) = last_seen::note(&self.directory, event) {
            tracing::warn!(%why, "event not noted");
        }
    }

    /// Notes that the program has ended the job by itself, such as by MPI_Abort, if its ranks could not. A higher exit
    /// code is that of a signal to the launcher, which the user has sent.
    fn ended(&self, code: i32) {
        let before = history::file::read(&self.directory).unwrap_or_default();
        let is_open = last_seen::unnoted_end(&self.directory, &before.entries).is_some();
        if is_open && (1..=128).contains(&code) {
            self.note(Event::GivenUp {
                what: format!("the launcher has ended with exit code {code}"),
                why: "that is the program's own will (--on)".to_owned(),
                refusals: self.refusals.take(),
            });
        }
    }

    fn unit(&self) -> &'static str {
        if self.stages {
            "epoch"
        } else {
            "checkpoint"
        }
    }

    fn from(&self, newest: Option<u64>) -> String {
        match newest {
            Some(number) if self.stages => format!("epoch {number}"),
            Some(number) => format!("ckpt-{number}"),
            None => "its beginning".to_owned(),
        }
    }

    /// The command by which the user goes on from that checkpoint: this one, with `launch --resume`.
    fn by_hand(&self, newest: Option<u64>) -> String {
        let own: Vec<OsString> = std::env::args_os().collect();
        let options = own.len().saturating_sub(self.line.len());
        let mut words: Vec<OsString> = own.into_iter().take(options).collect();
        words.retain(|word| word != run_beside::FLAG);
        words.extend(match newest {
            Some(_) => {
                command_line::resumed(&self.line, |words| Some(parse(words).ok()?.app.len()))
            }
            None => self.line.clone(),
        });
        shell::line(&words)
    }
}

/// Refuses what does not go together with `--stages`.
fn check_stages(launch: &Launch) -> exit::Result<()> {
    let checkpoints = &launch.running.checkpoints;
    let others = launch.resume || checkpoints.local_dir.is_some();
    let in_memory = checkpoints.schedule.in_memory();
    if in_memory || others || schedule(&launch.running)? != Schedule::default() {
        let why = anyhow!(
            "--stages: the program saves its state itself, and Stasis takes no checkpoints. Leave out --interval, --memory-interval, \
             --mtbf, --before-end, --signal, --resume and --local-dir, or leave out --stages"
        );
        return Err(why).code(Code::Usage);
    }
    Ok(())
}

/// The needed and the available memory, if the latter is less.
fn lack(needed: u64, budget: &MemoryBudget) -> Option<String> {
    (needed > budget.bytes).then(|| {
        let (needed, there) = (needed >> 20, budget.bytes >> 20);
        format!("{needed} MiB, and there are {there} MiB ({})", budget.limit)
    })
}

impl Surroundings for KnownSets {
    fn make_free(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.launch.resume {
            return Ok(());
        }
        existing_checkpoints::make_free(&self.directory, &self.launch, self.key.as_ref())?;
        recording::make_free(&self.launch.running, false)?;
        Ok(())
    }

    fn newest(&self) -> Option<u64> {
        match list_sets(&self.directory, self.key.as_ref()) {
            Ok(sets) => {
                let whole = sets.iter().filter(|set| set.state == SetState::Whole);
                *self.whole.borrow_mut() = whole.map(|set| set.number).collect();
            }
            // A file server may not answer for a while: its checkpoints are no fewer for that.
            Err(why) => tracing::warn!(%why, "the checkpoints cannot be listed"),
        }
        let left_out = self.left_out.borrow();
        let whole = self.whole.borrow();
        let usable = whole.iter().filter(|number| !left_out.contains(number));
        usable.copied().max()
    }

    fn has_ended(&self) -> bool {
        let job = JobFile::read(&self.directory).ok();
        let ended = job.filter(|job| job.ended_with.is_some());
        ended.is_some_and(|job| Some(&job.id) != self.ended_before.as_ref())
    }

    fn stop_command(&self) -> Command {
        let own = std::env::current_exe().unwrap_or_else(|_| "stasis".into());
        let mut command = Command::new(own);
        command.args(["checkpoint", "--stop"]).arg(&self.directory);
        // Standard output is the program's.
        command.stdin(Stdio::null()).stdout(io::stderr());
        command
    }

    fn hangs(&self, ranks: &[String]) {
        for rank in ranks {
            message::say(rank);
        }
        findings(&self.directory).iter().for_each(message::say);
    }

    fn lost(&self, ranks: &[String]) {
        for rank in ranks {
            message::say(rank);
        }
    }

    fn waits(&self, time: Duration) {
        message::say(format_args!(
            "ranks of an earlier `stasis run` may still live on other machines; they end within {} s",
            time.as_secs_f64()
        ));
    }

    fn leave_out(&self, set: u64, why: Option<&str>) {
        self.left_out.borrow_mut().push(set);
        if let Some(why) = why {
            message::say(format_args!("ckpt-{set} is left out: {why}"));
        }
    }

    fn recovers(&self, failure: Failure, newest: Option<u64>, failures: u32, next: Next) {
        let anew = match self.standby && next.way == Way::Anew {
            true => "; no standby world was ready, so its ranks are started anew",
            false => "",
        };
        let count = match failure {
            // It does not count.
            Failure::Unusable(_) => String::new(),
            _ => format!(
                " (failure {failures} without a new {}, of at most {})",
                self.unit(),
                self.most
            ),
        };
        let from = self.from(newest);
        let pause = match next.pause.as_secs() {
            0 => String::new(),
            pause => format!(
                ". It is started in {pause} s, since the last start has made no progress; `stasis stop {}` ends it",
                shell::word(&self.directory)
            ),
        };
        message::say(format_args!(
            "{failure}; the job goes on from {from}{count}{anew}{pause}"
        ));
        self.note(Event::Failure {
            what: failure.to_string(),
            failures,
            refusals: self.refusals.take(),
        });
    }

    fn room(&self, ranks: usize) -> Result<(), String> {
        let needed = BYTES_OF_SLEEPER * ranks as u64;
        match lack(needed, &MemoryBudget::for_each_of(1)) {
            None => Ok(()),
            Some(lack) => Err(format!("{ranks} ranks more need {lack}")),
        }
    }

    fn room_to_map(&self, set: u64, instead_of: Option<u64>) -> bool {
        let sets = list_sets(&self.directory, self.key.as_ref()).unwrap_or_default();
        let its = sets.into_iter().find(|its| its.number == set);
        let needed = its.and_then(|its| its.manifest).map_or(0, |manifest| {
            // A rank on another machine looks at the memory there itself.
            let here = addresses::host();
            let ranks = manifest.ranks.iter().filter(|rank| rank.host == here);
            ranks.map(|rank| rank.image.memory_bytes).sum::<u64>()
        });
        let mut budget = MemoryBudget::for_each_of(1);
        let (before, bytes) = self.mapped.replace((set, needed));
        if instead_of == Some(before) {
            budget.bytes = budget.bytes.saturating_add(bytes);
        }
        let lack = lack(needed, &budget);
        if let Some(lack) = &lack {
            message::say(format_args!(
                "ckpt-{set} is not mapped in advance: it needs {lack}. The standby world stays warm"
            ));
        }
        lack.is_none()
    }

    fn no_standby(&self, why: &str) {
        if self.told.replace(why.to_owned()) != why {
            message::say(format_args!(
                "there is no standby world until the next checkpoint: {why}. After a failure the job is started anew"
            ));
        }
    }

    fn room_to_hold(&self) -> Result<(), String> {
        memory_left::suffices()
    }

    fn not_held(&self, why: &str) {
        message::say(format_args!(
            "the checkpoint in memory is given up, the job runs on: {why}"
        ));
    }

    fn refused(&self, why: &str) {
        message::say(format_args!("the job ends: {why}"));
    }

    fn refusals(&self, why: &[String]) {
        let kept = why.iter().take(MOST_LISTED).map(|why| shortened(why));
        *self.refusals.borrow_mut() = kept.collect();
        for why in why.iter().take(MOST_REFUSALS) {
            message::say(why);
        }
        if let Some(more @ 1..) = why.len().checked_sub(MOST_REFUSALS) {
            message::say(format_args!("{more} ranks more say the like"));
        }
    }

    fn ends(&self, why: &str) {
        let refusals = self.refusals.take();
        if !refusals.is_empty() {
            self.note(Event::GivenUp {
                what: "ranks could not be restored".to_owned(),
                why: why.to_owned(),
                refusals,
            });
        }
        match (self.newest(), self.stages) {
            (Some(number), false) => message::say(format_args!(
                "{why}. To go on from ckpt-{number}: {}",
                self.by_hand(Some(number))
            )),
            _ => message::say(why),
        }
    }

    fn rescued(&self, set: u64, result: Result<(), rescue::Error>) {
        match result {
            Ok(()) => message::say(format_args!("ckpt-{set} was in memory, and is written now")),
            Err(why) => message::say(format_args!(
                "ckpt-{set}, which was in memory, is lost: {why}"
            )),
        }
    }

    fn not_started(&self, end: LauncherEnd) {
        let newest = self.newest();
        message::say(format_args!(
            "the launcher could not start the job again (exit code {}): see its message. To go on from {}: {}",
            end.code(),
            self.from(newest),
            self.by_hand(newest)
        ));
    }

    fn no_room(&self, lost: &str) {
        let newest = self.newest();
        message::say(format_args!(
            "no spare machine is left for {lost}, and the others have no room for all ranks (--oversubscribe lets them \
             have more): the job ends. To go on from {} on other machines: {}",
            self.from(newest),
            self.by_hand(newest)
        ));
    }

    fn without_memory(&self, ranks: &[(Option<u32>, &str)]) {
        for (rank, why) in ranks {
            let rank = rank.map_or_else(|| "a rank".to_owned(), |rank| format!("rank {rank}"));
            message::say(format_args!("{rank} is started anew, too, because {why}"));
        }
    }

    fn do_not_end(&self, processes: &[String]) {
        message::say(format_args!(
            "these processes were killed and do not end: {}. One in state D is in a system call that no signal \
             interrupts, perhaps at a file server that does not answer. The job goes on when they have ended",
            processes.join(", ")
        ));
    }

    fn too_late(&self, failure: Failure) {
        message::say(format_args!(
            "{failure} while a rank was in MPI_Finalize or through: the job ends, since MPI Stages cannot go back from there. \
             A barrier before MPI_Finalize, whose error the program looks at, makes the time for that short"
        ));
    }

    fn given_up(&self, failure: Failure, why: GivenUp) {
        let newest = self.newest();
        let from = self.from(newest);
        let why = match why {
            GivenUp::Failures(number) => {
                format!("this was failure {number} without a new {}", self.unit())
            }
            GivenUp::SameRank(rank) => {
                let from = if self.stages { "the same epoch" } else { &from };
                format!("rank {rank} failed three times out of {from}, which looks like an error of the program")
            }
        };
        let next = match self.stages {
            true => String::new(),
            false => format!(". To go on from {from}: {}", self.by_hand(newest)),
        };
        message::say(format_args!(
            "{failure}; the job is not started again, because {why}{next}"
        ));
        self.note(Event::GivenUp {
            what: failure.to_string(),
            why,
            refusals: self.refusals.take(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_memory_is_told_with_its_limit() {
        let budget = MemoryBudget {
            bytes: 130 << 20,
            limit: "control group /job".to_owned(),
        };
        assert_eq!(lack(2 * BYTES_OF_SLEEPER, &budget), None);
        assert_eq!(
            lack(3 * BYTES_OF_SLEEPER, &budget).unwrap(),
            "192 MiB, and there are 130 MiB (control group /job)"
        );
    }
}
