//! The machine that decides what becomes of a job. It does no I/O and reads no clock; its test drives it through all
//! orders of events of a small job.
//!
//! ```text
//! Running ──failure──▶ Ending ──every process is dead──▶ Running of the next incarnation, or Over
//!    │                   ▲  └──and a pause──▶ Pausing ──▶ Running, or Over
//!    │                   └──the state of the run cannot be written──┘
//!    └──the launcher has ended, without a failure──▶ Over
//! ```
//! So an incarnation starts only after the last one is dead, and a failure during a recovery is a failure of the next
//! incarnation like any other.

use std::fmt;

use nix::sys::signal::Signal;

/// Failures of the same rank out of the same checkpoint after which the program itself is taken for the reason. Signals
/// must be the same as far as they are known.
const SAME_RANK: u32 = 3;

/// What is recovered; each value includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum RecoverOn {
    /// A rank or the launcher was killed by a signal
    Signals,
    /// And a rank has ended with another exit code than 0
    Exits,
    /// And a rank has called MPI_Abort
    All,
}

/// How failures are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// What is recovered.
    pub on: RecoverOn,
    /// Failures in a row without a new checkpoint after which the job is given up.
    pub most: u32,
}

/// How a rank leaves the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Departure {
    /// It is dead and had not said that it would end.
    Lost,
    /// The same, by this signal.
    Killed(i32),
    /// The same, when other ranks of the incarnation had not started: the launcher may have failed to start them.
    Early,
    /// It is on another machine and does not answer: it is dead by now.
    Silent,
    /// It was announced, and its process has ended before the rank ran.
    Unstarted,
    /// It cannot go on, perhaps because another one is lost.
    Fails,
    /// It cannot be started or restored, for a reason that it has told, and nothing of it has run.
    Refused,
    /// Its program ends with this code.
    Exits(i32),
    /// The same, without MPI_Finalize.
    Leaves(i32),
    /// It ends the job with MPI_Abort and this code.
    Aborts(i32),
}

/// How the launcher ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LauncherEnd {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Killed(i32),
}

/// Whether two deaths are known to have different reasons.
fn are_different_signals(one: Departure, other: Departure) -> bool {
    matches!((one, other), (Departure::Killed(one), Departure::Killed(other)) if one != other)
}

impl LauncherEnd {
    /// Exit code of a shell for it.
    pub fn code(self) -> i32 {
        match self {
            LauncherEnd::Exited(code) => code,
            LauncherEnd::Killed(signal) => 128 + signal,
        }
    }

    /// Whether a signal has killed the launcher, or a rank of which nothing else is known. Launchers tell that by their
    /// exit codes: 128 and the number of the signal, as shells do, or the number alone (Hydra).
    fn is_by_signal(self) -> bool {
        const ALONE: [i32; 3] = [libc::SIGKILL, libc::SIGSEGV, libc::SIGTERM];
        match self {
            LauncherEnd::Exited(code) => code > 128 || ALONE.contains(&code),
            LauncherEnd::Killed(_) => true,
        }
    }
}

/// A failure of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// A rank. Its number is unknown if the launcher had not told it.
    Rank(Option<u32>, Departure),
    /// The launcher.
    Launcher(LauncherEnd),
    /// The launcher has ended with this code, and ranks go on that have not said that they end.
    LeftBehind(i32),
    /// No rank makes progress.
    Hang,
    /// The incarnation could not be started, since its run file could not be written.
    NotStarted,
    /// The incarnation cannot go on from the checkpoint of this number: an image of it is damaged, or out of reach.
    Unusable(u64),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Rank(Some(rank), how) => write!(f, "rank {rank} {how}"),
            Failure::Rank(None, how) => write!(f, "a rank {how}"),
            Failure::Hang => write!(f, "no rank makes progress"),
            Failure::NotStarted => write!(f, "the job could not be started again"),
            Failure::Unusable(set) => write!(f, "ckpt-{set} cannot be used"),
            Failure::LeftBehind(code) => {
                write!(
                    f,
                    "the launcher ended with exit code {code} before its ranks"
                )
            }
            Failure::Launcher(LauncherEnd::Exited(code)) => {
                write!(f, "the launcher ended with exit code {code}")
            }
            Failure::Launcher(LauncherEnd::Killed(signal)) => {
                write!(f, "the launcher was killed by signal {signal}")
            }
        }
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Departure::Lost => write!(f, "was killed"),
            Departure::Killed(signal) => match Signal::try_from(*signal) {
                Ok(signal) => write!(f, "was killed by {signal}"),
                Err(_) => write!(f, "was killed by signal {signal}"),
            },
            Departure::Early => write!(f, "was killed before all ranks had started"),
            Departure::Silent => write!(f, "does not answer"),
            Departure::Unstarted => write!(f, "ended before it ran"),
            Departure::Fails => write!(f, "could not go on"),
            Departure::Refused => write!(f, "could not be restored"),
            Departure::Exits(code) => write!(f, "ended with exit code {code}"),
            Departure::Leaves(code) => {
                write!(f, "ended with exit code {code} without MPI_Finalize")
            }
            Departure::Aborts(code) => write!(f, "called MPI_Abort with code {code}"),
        }
    }
}

/// Why the job is not started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GivenUp {
    /// Too many failures without a new checkpoint.
    Failures(u32),
    /// The same rank failed again and again out of the same checkpoint.
    SameRank(u32),
}

/// An order of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Kill what is left of the incarnation. [`Recovery::all_dead`] is called when no process of it lives.
    Kill,
    /// Start the next incarnation, from its newest checkpoint if there is one.
    Start {
        /// Failures in a row without a new checkpoint.
        failures: u32,
    },
    /// Take a checkpoint with which the job ends.
    Stop,
    /// Send SIGTERM to the launcher.
    Terminate,
    /// Wait until the ranks have said that they end, with the launcher gone. Then [`Recovery::launcher_ended`] is
    /// called again or, if they do not say so for some time, [`Recovery::left_behind`].
    Await,
    /// Wait until the launcher ends, since a rank has not started or cannot go on. If it does not end for some time,
    /// [`Recovery::left_waiting`] is called.
    AwaitLauncher,
    /// Wait until the launcher ends, since the program has ended a rank by its own will. If it does not end for a long
    /// time, [`Recovery::goes_on_without`] is called.
    AwaitEnd,
    /// The job is over.
    Finish(Option<GivenUp>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Running,
    Ending {
        failure: Failure,
    },
    /// No incarnation lives, and the next one is not started yet.
    Pausing,
    Over,
}

/// The program has ended a rank with a code other than 0, or without MPI_Finalize. Most launchers end the others then.
/// Their deaths are no failures, and only time tells that a launcher does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct OwnEnd {
    /// Whether the launcher has let the others go on.
    tolerated: bool,
    /// The rank that was lost first after it, and how.
    lost: Option<(Option<u32>, Departure)>,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recovery {
    policy: Policy,
    state: State,
    /// Whether the program or the user wants the end of the job.
    wanted: bool,
    /// Whether the user has asked once for the end.
    asked: bool,
    /// The first rank of the incarnation that has ended by the program's own will.
    own_end: Option<OwnEnd>,
    /// The rank that could not go on first. If another one is lost, that is the failure.
    failed: Option<Option<u32>>,
    /// The rank that has ended first before it ran, or before all others had started, and how. If others are lost then,
    /// the launcher has killed them for it.
    unstarted: Option<(Option<u32>, Departure)>,
    /// Failures since the last new checkpoint.
    failures: u32,
    /// Newest checkpoint at the failures so far.
    newest: Option<u64>,
    /// The rank that failed last, how, and its failures in a row out of the same checkpoint.
    suspect: Option<(u32, Departure, u32)>,
}

impl Recovery {
    /// The machine of a job whose first incarnation is being started.
    pub fn new(policy: Policy) -> Recovery {
        Recovery {
            policy,
            state: State::Running,
            wanted: false,
            asked: false,
            own_end: None,
            failed: None,
            unstarted: None,
            failures: 0,
            newest: None,
            suspect: None,
        }
    }

    fn recovers(&self, how: Departure) -> bool {
        match how {
            Departure::Lost
            | Departure::Killed(_)
            | Departure::Early
            | Departure::Silent
            | Departure::Fails
            | Departure::Refused
            | Departure::Unstarted => true,
            Departure::Exits(0) | Departure::Leaves(0) => false,
            Departure::Exits(_) | Departure::Leaves(_) => self.policy.on >= RecoverOn::Exits,
            Departure::Aborts(_) => self.policy.on >= RecoverOn::All,
        }
    }

    /// Whether the end of the job is wanted, by the user or the program.
    fn is_wanted(&self) -> bool {
        self.wanted || self.own_end.is_some_and(|own| !own.tolerated)
    }

    fn fail(&mut self, failure: Failure) -> Option<Order> {
        self.state = State::Ending { failure };
        Some(Order::Kill)
    }

    /// A rank has left, or is about to. `ends` tells whether the job ends with a checkpoint, as requested.
    pub fn rank_left(&mut self, rank: Option<u32>, how: Departure, ends: bool) -> Option<Order> {
        if let (State::Ending { failure }, Departure::Refused) = (&mut self.state, how) {
            // It is heard late, from another machine: those that were noticed before have ended for it.
            if matches!(failure, Failure::Rank(..) | Failure::Launcher(_)) {
                *failure = Failure::Rank(rank, how);
            }
        }
        if self.state != State::Running || self.wanted {
            return None;
        }
        if ends || !self.recovers(how) {
            // The launcher now ends the others, whose deaths are no failures. After exit code 0 it does not, unless
            // MPI was not finalised. After another code it may not, either (srun).
            self.wanted = ends || matches!(how, Departure::Aborts(_));
            if self.wanted || how == Departure::Exits(0) || self.own_end.is_some() {
                return None;
            }
            self.own_end = Some(OwnEnd::default());
            return Some(Order::AwaitEnd);
        }
        if let Some(own) = &mut self.own_end {
            if how == Departure::Fails {
                // For want of the rank that has ended.
                return None;
            }
            if !own.tolerated {
                own.lost.get_or_insert((rank, how));
                return None;
            }
        }
        if how == Departure::Fails {
            // Most launchers end the job for it.
            self.failed.get_or_insert(rank);
            return Some(Order::AwaitLauncher);
        }
        if how == Departure::Refused {
            // The others end for it, and the launcher with them.
            let before = self.unstarted;
            let before = before.filter(|(_, before)| *before == Departure::Refused);
            self.unstarted = before.or(Some((rank, how)));
            return Some(Order::AwaitLauncher);
        }
        if matches!(how, Departure::Unstarted | Departure::Early) {
            // It was killed, or it or another rank could not be started. Most launchers end the job then, and tell
            // which by their code.
            self.unstarted.get_or_insert((rank, how));
            return Some(Order::AwaitLauncher);
        }
        let (rank, how) = self.unstarted.unwrap_or((rank, how));
        self.fail(Failure::Rank(rank, how))
    }

    /// After [`Order::AwaitEnd`] the launcher has not ended. `run` is as for [`Recovery::launcher_ended`]: with a rank
    /// that runs, the launcher lets the others go on. So the deaths of others are failures, also those before.
    pub fn goes_on_without(&mut self, run: bool) -> Option<Order> {
        if self.state != State::Running || self.wanted || !run {
            return None;
        }
        let own = self.own_end.as_mut()?;
        own.tolerated = true;
        let (rank, how) = own.lost.or(self.unstarted)?;
        self.fail(Failure::Rank(rank, how))
    }

    /// After [`Order::AwaitLauncher`] the launcher has not ended: the other ranks would wait for ever.
    pub fn left_waiting(&mut self) -> Option<Order> {
        let failed = self.failed.map(|rank| (rank, Departure::Fails));
        let (rank, how) = self.unstarted.or(failed)?;
        match self.state == State::Running && !self.is_wanted() {
            true => self.fail(Failure::Rank(rank, how)),
            false => None,
        }
    }

    /// No rank makes progress, for longer than the user allows.
    pub fn hangs(&mut self) -> Option<Order> {
        match self.state == State::Running && !self.is_wanted() {
            true => self.fail(Failure::Hang),
            false => None,
        }
    }

    /// An image of the checkpoint of this number cannot be used: the next incarnation leaves it out. The ranks end for
    /// it, and may be heard later than the launcher. Call it once for each checkpoint.
    pub fn unusable(&mut self, set: u64) -> Option<Order> {
        match self.state {
            State::Running if !self.is_wanted() => self.fail(Failure::Unusable(set)),
            State::Ending { .. } => {
                self.state = State::Ending {
                    failure: Failure::Unusable(set),
                };
                None
            }
            State::Running | State::Pausing | State::Over => None,
        }
    }

    /// The launcher has ended. `run` tells whether a rank is not known to be dead and has not said that it ends. A
    /// launcher that has lost one of its daemons may end so, with exit code 0 (PRRTE).
    pub fn launcher_ended(&mut self, end: LauncherEnd, ends: bool, run: bool) -> Option<Order> {
        if self.state != State::Running {
            return None;
        }
        // All other ranks have said that they end: its code is that of the one with a code of its own.
        let own_code = self.own_end.is_some() && self.unstarted.is_none() && !run;
        let failed = end.is_by_signal() || self.recovers(Departure::Exits(end.code()));
        let failed = failed && !own_code;
        if self.is_wanted() || ends {
            self.state = State::Over;
            return Some(Order::Finish(None));
        }
        if let Some(rank) = self.failed {
            return self.fail(Failure::Rank(rank, Departure::Fails));
        }
        // A launcher that kills ranks because it cannot start others may tell that by any code. So does one whose ranks
        // have told why they end.
        let told = matches!(
            self.unstarted,
            Some((_, Departure::Early | Departure::Refused))
        );
        if failed || told {
            return self.fail(match self.unstarted {
                Some((rank, how)) => Failure::Rank(rank, how),
                None => Failure::Launcher(end),
            });
        }
        if run {
            return Some(Order::Await);
        }
        self.state = State::Over;
        Some(Order::Finish(None))
    }

    /// After [`Order::Await`] ranks have not said that they end.
    pub fn left_behind(&mut self, end: LauncherEnd) -> Option<Order> {
        match self.state == State::Running && !self.is_wanted() {
            true => self.fail(Failure::LeftBehind(end.code())),
            false => None,
        }
    }

    /// The rank that is lost was killed by this signal. Known only when all are dead.
    pub fn learn_signal(&mut self, signal: i32) {
        if let State::Ending {
            failure: Failure::Rank(_, how @ Departure::Lost),
        } = &mut self.state
        {
            *how = Departure::Killed(signal);
        }
    }

    /// Every process of the incarnation is dead, and `newest` is the newest committed checkpoint.
    pub fn all_dead(&mut self, newest: Option<u64>) -> Option<Order> {
        let State::Ending { failure } = self.state else {
            return None;
        };
        let left_out = matches!(failure, Failure::Unusable(_));
        // One that is gone is no progress.
        if newest > self.newest && !left_out {
            (self.failures, self.suspect) = (0, None);
        }
        self.newest = self.newest.max(newest);
        (self.failed, self.unstarted, self.own_end) = (None, None, None);
        // There is one for each checkpoint at most, so that the job has an end.
        self.failures += u32::from(!left_out);
        self.suspect = match (failure, self.suspect) {
            // The machine or the network is to blame, or the launcher: no program has run.
            (
                Failure::Rank(
                    _,
                    Departure::Silent
                    | Departure::Early
                    | Departure::Unstarted
                    | Departure::Refused,
                ),
                _,
            ) => None,
            (Failure::Rank(Some(rank), how), Some((last, before, times)))
                if rank == last && !are_different_signals(how, before) =>
            {
                let known = matches!(how, Departure::Killed(_));
                Some((rank, if known { how } else { before }, times + 1))
            }
            (Failure::Rank(Some(rank), how), _) => Some((rank, how, 1)),
            (Failure::Rank(None, _), suspect) => suspect,
            (Failure::Unusable(_), suspect) => suspect,
            (
                Failure::Launcher(_) | Failure::LeftBehind(_) | Failure::Hang | Failure::NotStarted,
                _,
            ) => None,
        };
        let given_up = match self.suspect {
            Some((rank, _, SAME_RANK..)) => Some(GivenUp::SameRank(rank)),
            _ if self.failures > self.policy.most => Some(GivenUp::Failures(self.failures)),
            _ => None,
        };
        if self.wanted || given_up.is_some() {
            self.state = State::Over;
            return Some(Order::Finish(given_up));
        }
        self.state = State::Running;
        Some(Order::Start {
            failures: self.failures,
        })
    }

    /// The next incarnation, for which there was [`Order::Start`], is not started at once.
    pub fn pauses(&mut self) {
        if self.state == State::Running {
            self.state = State::Pausing;
        }
    }

    /// The pause is over: the incarnation starts now. False if there was no pause, or the job has ended in it.
    pub fn goes_on(&mut self) -> bool {
        let pauses = self.state == State::Pausing;
        if pauses {
            self.state = State::Running;
        }
        pauses
    }

    /// The incarnation cannot be started: [`Recovery::all_dead`] is called next.
    pub fn cannot_start(&mut self) {
        if self.state == State::Running {
            self.state = State::Ending {
                failure: Failure::NotStarted,
            };
        }
    }

    /// The failure because of which the incarnation is being ended.
    pub fn failure(&self) -> Option<Failure> {
        match self.state {
            State::Ending { failure } => Some(failure),
            _ => None,
        }
    }

    /// Whether the user has asked for the end of the job.
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// The user sends SIGTERM: the first one asks for a checkpoint and the end.
    pub fn terminate(&mut self) -> Option<Order> {
        let again = std::mem::replace(&mut self.asked, true);
        match self.state {
            State::Running if again => {
                self.wanted = true;
                Some(Order::Terminate)
            }
            State::Running => Some(Order::Stop),
            State::Pausing | State::Ending { .. } | State::Over => self.end_wanted(),
        }
    }

    /// The checkpoint of [`Order::Stop`] was not taken.
    pub fn stop_failed(&mut self) -> Option<Order> {
        self.wanted = true;
        (self.state == State::Running).then_some(Order::Terminate)
    }

    /// The user has sent a signal to the job that ends it. It is over if none of it lives.
    pub fn end_wanted(&mut self) -> Option<Order> {
        self.wanted = true;
        if self.state != State::Pausing {
            return None;
        }
        self.state = State::Over;
        Some(Order::Finish(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::{BuildHasher, RandomState};

    /// A job of some ranks around the machine.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct World {
        machine: Recovery,
        /// For each rank of the incarnation whether it lives.
        ranks: Vec<bool>,
        launcher: bool,
        killing: bool,
        /// Whether the launcher has ended before its ranks.
        left: bool,
        /// Whether a rank has ended before it ran.
        unstarted: bool,
        /// Whether the launcher lets the others go on when a rank has ended, in whatever way.
        tolerant: bool,
        /// Whether it ends the ranks nevertheless: the user wants it, or the program calls MPI_Abort.
        ending: bool,
        /// Whether a rank has ended by the program's own will, and its launcher is waited for.
        willed: bool,
        /// Whether a rank is lost, so that the others wait for it.
        lost: bool,
        /// Whether the next incarnation is not started yet.
        pausing: bool,
        newest: Option<u64>,
        incarnation: u32,
        finished: Option<Option<GivenUp>>,
        /// Events of the user that are left.
        terms: u32,
        faults: u32,
        /// Faults at the beginning.
        most: u32,
    }

    impl World {
        fn new(policy: Policy, tolerant: bool, (ranks, faults): (usize, u32)) -> World {
            World {
                machine: Recovery::new(policy),
                ranks: vec![true; ranks],
                launcher: true,
                killing: false,
                left: false,
                unstarted: false,
                tolerant,
                ending: false,
                willed: false,
                lost: false,
                pausing: false,
                newest: None,
                incarnation: 1,
                finished: None,
                // Where the launcher lets ranks go on, there has to be an end without the user.
                terms: if tolerant { 0 } else { 2 },
                faults,
                most: faults,
            }
        }

        fn dead(&self) -> bool {
            !self.launcher && self.ranks.iter().all(|lives| !lives)
        }

        fn begin(&mut self) {
            assert!(self.dead(), "two incarnations: {self:?}");
            self.ranks.fill(true);
            self.launcher = true;
            (self.ending, self.lost) = (false, false);
            self.incarnation += 1;
        }

        fn obey(&mut self, order: Option<Order>) {
            match order {
                Some(Order::Kill) => self.killing = true,
                Some(Order::Start { .. }) => {
                    assert!(self.dead(), "two incarnations: {self:?}");
                    assert!(self.finished.is_none());
                    self.killing = false;
                    // The first recovery is at once, as that of a job which has made progress.
                    match self.incarnation {
                        1 => self.begin(),
                        _ => {
                            self.machine.pauses();
                            self.pausing = true;
                        }
                    }
                }
                Some(Order::Finish(given_up)) => {
                    assert!(self.finished.is_none(), "two ends: {self:?}");
                    self.finished = Some(given_up);
                    self.pausing = false;
                }
                Some(Order::Await) => self.left = true,
                Some(Order::AwaitLauncher) => self.unstarted = true,
                Some(Order::AwaitEnd) => self.willed = self.tolerant,
                Some(Order::Terminate) => self.ending = self.tolerant,
                Some(Order::Stop) | None => {}
            }
            self.willed &= !self.killing && self.launcher && self.finished.is_none();
            self.left &= !self.killing && self.finished.is_none();
            self.unstarted &= !self.killing && self.launcher && self.finished.is_none();
        }

        fn after(&self, step: impl FnOnce(&mut World) -> Option<Order>) -> World {
            let mut next = self.clone();
            let order = step(&mut next);
            next.obey(order);
            // The keeper and the launcher see the end of the last process.
            if next.killing && next.dead() {
                let order = next.machine.all_dead(next.newest);
                next.obey(order);
            }
            next
        }

        /// All that can happen next.
        fn steps(&self) -> Vec<World> {
            let mut next = Vec::new();
            if self.finished.is_some() {
                return next;
            }
            for rank in (0..self.ranks.len()).filter(|rank| self.ranks[*rank]) {
                let leaves = |how, fault| {
                    self.after(|world| {
                        world.ranks[rank] = false;
                        world.faults -= fault;
                        // After a rank has ended by the program's own will, others may fail for want of it. They are
                        // not lost.
                        let lost = match how {
                            Departure::Lost | Departure::Unstarted => true,
                            Departure::Fails => world.machine.own_end.is_none(),
                            _ => false,
                        };
                        world.lost |= lost && world.tolerant;
                        world.ending |= matches!(how, Departure::Aborts(_)) && world.tolerant;
                        world.machine.rank_left(Some(rank as u32), how, false)
                    })
                };
                if self.faults > 0 {
                    next.push(leaves(Departure::Lost, 1));
                    // One rank suffices to show the difference.
                    if rank == 0 {
                        next.push(leaves(Departure::Early, 1));
                        next.push(leaves(Departure::Refused, 1));
                    }
                    next.push(leaves(Departure::Exits(1), 1));
                    next.push(leaves(Departure::Aborts(1), 1));
                    next.push(leaves(Departure::Fails, 1));
                    next.push(leaves(Departure::Unstarted, 1));
                }
                match self.killing || !self.launcher || self.ending {
                    // Killed by us, by the launcher, or by one that has ended.
                    true => next.push(leaves(Departure::Lost, 0)),
                    // Nobody ends those that wait for one that is lost.
                    false if self.lost => {}
                    false => next.push(leaves(Departure::Exits(0), 0)),
                }
                if self.left {
                    next.push(leaves(Departure::Exits(0), 0));
                }
            }
            let all = self.ranks.iter().all(|lives| !lives);
            if self.unstarted {
                next.push(self.after(|world| world.machine.left_waiting()));
            }
            if self.willed {
                next.push(self.after(|world| {
                    world.willed = false;
                    world.machine.goes_on_without(!all)
                }));
            }
            if self.left {
                next.push(self.after(|world| {
                    match all {
                        true => world
                            .machine
                            .launcher_ended(LauncherEnd::Exited(0), false, false),
                        false => world.machine.left_behind(LauncherEnd::Exited(0)),
                    }
                }));
            }
            if self.launcher {
                let ends = |end| {
                    self.after(|world| {
                        world.launcher = false;
                        world.machine.launcher_ended(end, false, !all)
                    })
                };
                if all || self.killing {
                    next.push(ends(LauncherEnd::Exited(i32::from(
                        self.faults < self.most,
                    ))));
                }
                if self.faults > 0 {
                    let mut killed = ends(LauncherEnd::Killed(9));
                    killed.faults -= 1;
                    next.push(killed);
                    let mut left = ends(LauncherEnd::Exited(0));
                    left.faults -= 1;
                    next.push(left);
                }
            }
            if self.faults == self.most {
                let mut committed = self.clone();
                committed.newest = Some(committed.newest.map_or(1, |newest| (newest + 1).min(2)));
                next.push(committed);
            }
            if self.faults > 0 {
                next.push(self.after(|world| {
                    world.faults -= 1;
                    world.machine.hangs()
                }));
            }
            if self.pausing {
                next.push(self.after(|world| {
                    assert!(world.machine.goes_on());
                    world.pausing = false;
                    world.begin();
                    None
                }));
                let mut unwritable = self.clone();
                assert!(unwritable.machine.goes_on());
                unwritable.pausing = false;
                unwritable.machine.cannot_start();
                let order = unwritable.machine.all_dead(unwritable.newest);
                unwritable.obey(order);
                next.push(unwritable);
            }
            if self.terms > 0 {
                next.push(self.after(|world| {
                    world.terms -= 1;
                    world.machine.terminate()
                }));
            }
            next
        }
    }

    /// Never two incarnations, and every state that is not an end has a next step.
    #[test]
    fn every_order_of_events_leads_to_one_end_and_never_to_two_incarnations() {
        explore((3, 4));
    }

    fn explore(job: (usize, u32)) {
        let hashers = [RandomState::new(), RandomState::new()];
        for on in [RecoverOn::Signals, RecoverOn::Exits, RecoverOn::All] {
            let mut seen = HashSet::new();
            let policy = Policy { on, most: 2 };
            let mut open = [false, true]
                .map(|tolerant| World::new(policy, tolerant, job))
                .to_vec();
            let (mut ends, mut recovered) = (0, 0);
            while let Some(world) = open.pop() {
                // Two digests of a state take less memory than the state.
                let digests = hashers.each_ref().map(|hasher| hasher.hash_one(&world));
                if !seen.insert(digests) {
                    continue;
                }
                let steps = world.steps();
                if world.finished.is_some() {
                    ends += 1;
                    recovered += u32::from(world.incarnation > 1);
                } else {
                    assert!(!steps.is_empty(), "no end: {world:?}");
                }
                open.extend(steps);
            }
            println!("{job:?}: {} states, {ends} ends", seen.len());
            assert!(seen.len() > 10_000 && ends > 100 && recovered > 100);
        }
    }

    #[test]
    #[ignore = "long: cargo xtask test --full"]
    fn every_order_of_events_of_nine_ranks_leads_to_one_end() {
        explore((9, 2));
    }

    fn machine(on: RecoverOn) -> Recovery {
        Recovery::new(Policy { on, most: 2 })
    }

    #[test]
    fn the_programs_own_will_is_no_failure() {
        let mut job = machine(RecoverOn::Signals);
        let order = job.rank_left(Some(1), Departure::Exits(3), false);
        assert_eq!(order, Some(Order::AwaitEnd));
        // The launcher kills the other rank for it.
        assert_eq!(job.rank_left(Some(0), Departure::Lost, false), None);
        let end = job.launcher_ended(LauncherEnd::Exited(3), false, true);
        assert_eq!(end, Some(Order::Finish(None)));

        // So it does for a rank that ends without MPI_Finalize, with any code.
        let mut job = machine(RecoverOn::Exits);
        let order = job.rank_left(Some(1), Departure::Leaves(0), false);
        assert_eq!(order, Some(Order::AwaitEnd));
        assert_eq!(job.rank_left(Some(0), Departure::Lost, false), None);
        let end = job.launcher_ended(LauncherEnd::Exited(1), false, true);
        assert_eq!(end, Some(Order::Finish(None)));

        let mut job = machine(RecoverOn::Exits);
        let order = job.rank_left(Some(1), Departure::Exits(3), false);
        assert_eq!(order, Some(Order::Kill));
        assert_eq!(
            machine(RecoverOn::Exits).rank_left(Some(1), Departure::Aborts(3), false),
            None
        );
    }

    #[test]
    fn a_launcher_that_goes_on_without_a_rank_misses_those_that_are_killed() {
        let ended = || {
            let mut job = machine(RecoverOn::Signals);
            let order = job.rank_left(Some(1), Departure::Exits(9), false);
            assert_eq!(order, Some(Order::AwaitEnd));
            job
        };
        let lost = Some(Failure::Rank(Some(0), Departure::Lost));
        // Later than a launcher would have killed it for the other's end.
        let mut job = ended();
        assert_eq!(job.goes_on_without(true), None);
        let order = job.rank_left(Some(2), Departure::Exits(3), false);
        assert_eq!(order, None);
        // For want of the rank that has ended.
        assert_eq!(job.rank_left(Some(3), Departure::Fails, false), None);
        let order = job.rank_left(Some(0), Departure::Lost, false);
        assert_eq!((order, job.failure()), (Some(Order::Kill), lost));
        // The next incarnation has nothing to do with it.
        assert_eq!(job.all_dead(None), Some(Order::Start { failures: 1 }));
        let order = job.rank_left(Some(1), Departure::Exits(9), false);
        assert_eq!(order, Some(Order::AwaitEnd));
        // Before that it may be the launcher's work.
        let mut job = ended();
        assert_eq!(job.rank_left(Some(0), Departure::Lost, false), None);
        assert_eq!(job.goes_on_without(true), Some(Order::Kill));
        assert_eq!(job.failure(), lost);
        // A launcher that does not come to its end has killed all of them.
        let mut job = ended();
        assert_eq!(job.rank_left(Some(0), Departure::Lost, false), None);
        assert_eq!(job.goes_on_without(false), None);
        let end = job.launcher_ended(LauncherEnd::Exited(9), false, false);
        assert_eq!(end, Some(Order::Finish(None)));
        // Its code is the program's, although it looks like that of a signal.
        let mut job = ended();
        assert_eq!(job.goes_on_without(true), None);
        assert_eq!(job.rank_left(Some(0), Departure::Exits(0), false), None);
        let end = job.launcher_ended(LauncherEnd::Exited(9), false, false);
        assert_eq!(end, Some(Order::Finish(None)));
    }

    #[test]
    fn a_rank_that_cannot_go_on_may_be_the_victim_of_another() {
        let mut job = machine(RecoverOn::Signals);
        let order = job.rank_left(Some(0), Departure::Fails, false);
        assert_eq!(order, Some(Order::AwaitLauncher));
        let order = job.rank_left(Some(1), Departure::Lost, false);
        assert_eq!(order, Some(Order::Kill));
        let lost = Failure::Rank(Some(1), Departure::Lost);
        assert_eq!(job.failure(), Some(lost));

        let failed = Failure::Rank(Some(0), Departure::Fails);
        let mut job = machine(RecoverOn::Signals);
        job.rank_left(Some(0), Departure::Fails, false);
        let order = job.launcher_ended(LauncherEnd::Exited(5), false, false);
        assert_eq!((order, job.failure()), (Some(Order::Kill), Some(failed)));
        // The launcher lets the others go on.
        let mut job = machine(RecoverOn::Signals);
        job.rank_left(Some(0), Departure::Fails, false);
        let order = job.left_waiting();
        assert_eq!((order, job.failure()), (Some(Order::Kill), Some(failed)));
    }

    #[test]
    fn of_a_rank_that_has_not_run_the_launcher_decides_unless_it_waits() {
        let unstarted = |policy| {
            let mut job = machine(policy);
            let order = job.rank_left(Some(1), Departure::Unstarted, false);
            assert_eq!(order, Some(Order::AwaitLauncher));
            job
        };
        let failure = Some(Failure::Rank(Some(1), Departure::Unstarted));
        // It could not be started.
        let mut job = unstarted(RecoverOn::Signals);
        let end = job.launcher_ended(LauncherEnd::Exited(127), false, false);
        assert_eq!(end, Some(Order::Finish(None)));
        assert_eq!(job.left_waiting(), None);
        // It was killed, and the launcher says so.
        let mut job = unstarted(RecoverOn::Signals);
        let end = job.launcher_ended(LauncherEnd::Exited(137), false, false);
        assert_eq!((end, job.failure()), (Some(Order::Kill), failure));
        // The launcher kills those that it has started, and ends with a code of its own.
        let mut job = machine(RecoverOn::Signals);
        for rank in [1, 0] {
            let order = job.rank_left(Some(rank), Departure::Early, false);
            assert_eq!(order, Some(Order::AwaitLauncher));
        }
        let end = job.launcher_ended(LauncherEnd::Exited(8), false, false);
        let early = Failure::Rank(Some(1), Departure::Early);
        assert_eq!((end, job.failure()), (Some(Order::Kill), Some(early)));
        // The launcher kills the other one, or does nothing.
        let mut job = unstarted(RecoverOn::Signals);
        let order = job.rank_left(Some(0), Departure::Lost, false);
        assert_eq!((order, job.failure()), (Some(Order::Kill), failure));
        let mut job = unstarted(RecoverOn::Signals);
        assert_eq!(job.left_waiting(), Some(Order::Kill));
        assert_eq!(job.failure(), failure);
        // The next incarnation has nothing to do with it.
        assert_eq!(job.all_dead(None), Some(Order::Start { failures: 1 }));
        assert_eq!(job.left_waiting(), None);
        job.rank_left(Some(0), Departure::Lost, false);
        let lost = Failure::Rank(Some(0), Departure::Lost);
        assert_eq!(job.failure(), Some(lost));
    }

    #[test]
    fn a_launcher_that_ends_before_its_ranks_is_a_failure() {
        let end = LauncherEnd::Exited(0);
        let awaiting = || {
            let mut job = machine(RecoverOn::Signals);
            assert_eq!(job.rank_left(Some(0), Departure::Exits(0), false), None);
            assert_eq!(job.launcher_ended(end, false, true), Some(Order::Await));
            job
        };
        let mut job = awaiting();
        assert_eq!(job.left_behind(end), Some(Order::Kill));
        assert_eq!(job.failure(), Some(Failure::LeftBehind(0)));

        // The last words of a rank on another machine may come later than the launcher's end.
        let mut job = awaiting();
        assert_eq!(job.rank_left(Some(1), Departure::Exits(0), false), None);
        let finished = job.launcher_ended(end, false, false);
        assert_eq!(finished, Some(Order::Finish(None)));

        let mut job = awaiting();
        let order = job.rank_left(Some(1), Departure::Lost, false);
        assert_eq!(order, Some(Order::Kill));
    }

    #[test]
    fn a_job_that_ends_with_its_checkpoint_is_not_started_again() {
        let mut job = machine(RecoverOn::All);
        assert_eq!(job.rank_left(Some(0), Departure::Lost, true), None);
        assert_eq!(job.rank_left(Some(1), Departure::Lost, true), None);
        let end = job.launcher_ended(LauncherEnd::Exited(7), true, false);
        assert_eq!(end, Some(Order::Finish(None)));
    }

    #[test]
    fn the_same_rank_is_suspected_if_it_dies_of_the_same_signal() {
        let mut job = Recovery::new(Policy {
            on: RecoverOn::Signals,
            most: 20,
        });
        let mut fail = |signal| {
            job.rank_left(Some(1), Departure::Lost, false);
            if let Some(signal) = signal {
                job.learn_signal(signal);
            }
            let failure = job.failure().map(|failure| failure.to_string());
            (failure.unwrap_or_default(), job.all_dead(Some(1)))
        };
        let (told, order) = fail(Some(libc::SIGSEGV));
        assert_eq!(told, "rank 1 was killed by SIGSEGV");
        assert_eq!(order, Some(Order::Start { failures: 1 }));
        assert!(matches!(
            fail(Some(libc::SIGKILL)).1,
            Some(Order::Start { .. })
        ));
        // Nothing contradicts that it was the same.
        let (told, order) = fail(None);
        assert_eq!(told, "rank 1 was killed");
        assert!(matches!(order, Some(Order::Start { .. })));
        let (_, order) = fail(Some(libc::SIGKILL));
        assert_eq!(order, Some(Order::Finish(Some(GivenUp::SameRank(1)))));
    }

    #[test]
    fn failures_count_until_there_is_a_new_checkpoint() {
        let mut job = machine(RecoverOn::Signals);
        let mut fail = |rank, newest| {
            job.rank_left(Some(rank), Departure::Lost, false);
            job.all_dead(newest)
        };
        assert_eq!(fail(0, None), Some(Order::Start { failures: 1 }));
        assert_eq!(fail(1, None), Some(Order::Start { failures: 2 }));
        assert_eq!(fail(0, Some(1)), Some(Order::Start { failures: 1 }));
        // A checkpoint that is gone, or cannot be seen for a while, is no progress.
        assert_eq!(fail(1, None), Some(Order::Start { failures: 2 }));
        let end = Order::Finish(Some(GivenUp::Failures(3)));
        assert_eq!(fail(0, Some(1)), Some(end));

        let mut job = Recovery::new(Policy {
            on: RecoverOn::Signals,
            most: 20,
        });
        let mut fail = || {
            job.rank_left(Some(1), Departure::Lost, false);
            job.all_dead(Some(5))
        };
        assert_eq!(fail(), Some(Order::Start { failures: 1 }));
        assert_eq!(fail(), Some(Order::Start { failures: 2 }));
        assert_eq!(fail(), Some(Order::Finish(Some(GivenUp::SameRank(1)))));
    }

    #[test]
    fn a_launcher_that_cannot_start_all_ranks_is_no_error_of_the_program() {
        for how in [Departure::Early, Departure::Unstarted] {
            let most = 5;
            let mut job = Recovery::new(Policy {
                on: RecoverOn::Signals,
                most,
            });
            let mut fail = || {
                job.rank_left(Some(0), how, false);
                job.left_waiting();
                job.all_dead(Some(1))
            };
            for failures in 1..=most {
                assert_eq!(fail(), Some(Order::Start { failures }));
            }
            let end = GivenUp::Failures(most + 1);
            assert_eq!(fail(), Some(Order::Finish(Some(end))));
        }
    }

    #[test]
    fn an_unusable_checkpoint_is_no_failure_of_the_program() {
        let mut job = Recovery::new(Policy {
            on: RecoverOn::Signals,
            most: 1,
        });
        job.rank_left(Some(1), Departure::Lost, false);
        assert_eq!(job.all_dead(Some(5)), Some(Order::Start { failures: 1 }));
        for older in (1..5).rev() {
            // It may be heard before the ranks end, or after one has.
            if older % 2 == 0 {
                job.rank_left(Some(1), Departure::Lost, false);
                assert_eq!(job.unusable(older + 1), None);
            } else {
                assert_eq!(job.unusable(older + 1), Some(Order::Kill));
            }
            assert_eq!(job.failure(), Some(Failure::Unusable(older + 1)));
            let order = job.all_dead(Some(older));
            assert_eq!(order, Some(Order::Start { failures: 1 }));
        }
        job.rank_left(Some(0), Departure::Lost, false);
        let end = Order::Finish(Some(GivenUp::Failures(2)));
        assert_eq!(job.all_dead(Some(1)), Some(end));
    }

    #[test]
    fn a_rank_that_is_refused_is_no_error_of_the_program_and_a_failure_with_any_code() {
        let most = 5;
        let mut job = Recovery::new(Policy {
            on: RecoverOn::Signals,
            most,
        });
        for failures in 1..=most {
            // The other rank was noticed before, and has ended for it.
            let order = job.rank_left(Some(1), Departure::Early, false);
            assert_eq!(order, Some(Order::AwaitLauncher));
            job.rank_left(Some(0), Departure::Refused, false);
            job.rank_left(Some(1), Departure::Refused, false);
            let end = job.launcher_ended(LauncherEnd::Exited(5), false, false);
            let refused = Failure::Rank(Some(0), Departure::Refused);
            assert_eq!((end, job.failure()), (Some(Order::Kill), Some(refused)));
            assert_eq!(job.all_dead(Some(1)), Some(Order::Start { failures }));
        }
        // The word of a rank on another machine comes after the end of those that have ended for it.
        job.rank_left(Some(1), Departure::Lost, false);
        assert_eq!(job.rank_left(Some(0), Departure::Refused, false), None);
        let refused = Failure::Rank(Some(0), Departure::Refused);
        assert_eq!(job.failure(), Some(refused));
        let end = GivenUp::Failures(most + 1);
        assert_eq!(job.all_dead(Some(1)), Some(Order::Finish(Some(end))));
    }

    #[test]
    fn a_job_that_ends_in_a_pause_is_over() {
        let paused = || {
            let mut job = machine(RecoverOn::Signals);
            job.rank_left(Some(1), Departure::Lost, false);
            job.all_dead(None);
            job.pauses();
            job
        };
        assert_eq!(paused().terminate(), Some(Order::Finish(None)));
        let mut job = paused();
        assert_eq!(job.end_wanted(), Some(Order::Finish(None)));
        assert!(!job.goes_on());
        let mut job = paused();
        assert!(job.goes_on());
        job.cannot_start();
        assert_eq!(job.all_dead(None), Some(Order::Start { failures: 2 }));
        assert_eq!(job.terminate(), Some(Order::Stop));
    }

    #[test]
    fn the_second_sigterm_ends_the_job_without_a_checkpoint() {
        let mut job = machine(RecoverOn::All);
        assert_eq!(job.terminate(), Some(Order::Stop));
        assert_eq!(job.terminate(), Some(Order::Terminate));
        assert_eq!(job.rank_left(Some(0), Departure::Lost, false), None);
        let end = job.launcher_ended(LauncherEnd::Killed(15), false, false);
        assert_eq!(end, Some(Order::Finish(None)));
    }
}
