//! The machine of the *standby world*: ranks without a program that have initialised MPI and sleep, to become the next
//! incarnation of the job. It does no I/O and reads no clock. Its test drives it, together with [`recovery`], through
//! all orders of events of a small job.
//!
//! ```text
//! None ──covered──▶ Starting ──asleep──▶ Ready ──the job has failed──▶ None; the world is the next incarnation
//!   ▲                  │ died, or the job has failed   │ died
//!   └──gone── Ending ◀─┴───────────────────────────────┘
//! ```
//! A world is let go only from `Ready`, and only when every process of the last incarnation is dead. If there is none,
//! the next incarnation is started anew. Deaths in a standby world are no failures of the job.
//!
//! [`recovery`]: crate::recovery

/// Deaths in a row without a new checkpoint after which no other standby world is started.
pub const MOST_DEATHS: u32 = 3;

/// An order of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Start a standby world.
    Start,
    /// Let its ranks finalise MPI and end.
    Leave,
    /// Kill it.
    Kill,
}

/// How the next incarnation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// By the user's line.
    Anew,
    /// By letting the standby world go.
    TakeOver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    None,
    Starting,
    /// All its ranks are asleep.
    Ready,
    /// Its ranks were told to end.
    Leaving,
    /// It is being killed.
    Ending,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standby {
    /// Whether the user wants a standby world.
    wanted: bool,
    state: State,
    /// Whether the job runs and can go on from a checkpoint.
    covered: bool,
    /// Whether the job is over.
    over: bool,
    /// Whether the running incarnation has been a standby world and has not restored its program yet.
    takes_over: bool,
    /// Deaths in a row without a new checkpoint.
    deaths: u32,
    /// Whether none could be started since the last new checkpoint.
    refused: bool,
    /// The newest checkpoint of which a rank has told.
    newest: Option<u64>,
}

impl Standby {
    /// The machine of a job that is being started.
    pub fn new(wanted: bool) -> Standby {
        Standby {
            wanted,
            state: State::None,
            covered: false,
            over: false,
            takes_over: false,
            deaths: 0,
            refused: false,
            newest: None,
        }
    }

    /// Whether the user wants a standby world.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Whether all ranks of the standby world are asleep.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Whether the ranks of the standby world were told to end.
    pub fn is_leaving(&self) -> bool {
        self.state == State::Leaving
    }

    /// Whether the standby world is being killed.
    pub fn is_ending(&self) -> bool {
        self.state == State::Ending
    }

    /// Whether there is no standby world.
    pub fn is_none(&self) -> bool {
        self.state == State::None
    }

    /// Whether no standby world is started before the next checkpoint, since too many have died.
    pub fn is_given_up(&self) -> bool {
        self.deaths >= MOST_DEATHS
    }

    /// The job runs, and would go on from this checkpoint.
    pub fn covered(&mut self, set: u64) -> Option<Order> {
        if self.newest != Some(set) {
            (self.newest, self.deaths, self.refused) = (Some(set), 0, false);
        }
        self.covered = true;
        self.takes_over = false;
        self.start()
    }

    fn start(&mut self) -> Option<Order> {
        let possible = self.wanted && !self.is_given_up() && !self.refused;
        let now = possible && self.covered && !self.over;
        if !now || self.state != State::None {
            return None;
        }
        self.state = State::Starting;
        Some(Order::Start)
    }

    /// The standby world cannot be started, or has no room.
    pub fn refused(&mut self) {
        self.state = State::None;
        self.refused = true;
    }

    /// All its ranks are asleep. Returns whether it is ready now and was not before.
    pub fn asleep(&mut self) -> bool {
        let starting = self.state == State::Starting;
        if starting {
            self.state = State::Ready;
        }
        starting
    }

    /// One of its ranks or its launcher has ended.
    pub fn died(&mut self) -> Option<Order> {
        match self.state {
            State::Starting | State::Ready => {
                self.state = State::Ending;
                self.deaths += 1;
                Some(Order::Kill)
            }
            State::None | State::Leaving | State::Ending => None,
        }
    }

    /// No process of it lives.
    pub fn gone(&mut self) -> Option<Order> {
        match self.state {
            State::Leaving | State::Ending => {
                self.state = State::None;
                self.start()
            }
            State::None | State::Starting | State::Ready => None,
        }
    }

    /// The job has failed, and its incarnation is being killed. A standby world that is not ready must not delay the
    /// next incarnation.
    pub fn job_fails(&mut self) -> Option<Order> {
        self.covered = false;
        if std::mem::take(&mut self.takes_over) {
            self.deaths += 1;
        }
        if self.state == State::Starting {
            self.state = State::Ending;
            return Some(Order::Kill);
        }
        None
    }

    /// The next incarnation begins. Every process of the last one is dead, and if the standby world is not ready, all
    /// of its processes are dead, too.
    pub fn next_begins(&mut self) -> Way {
        self.takes_over = self.is_ready();
        self.state = State::None;
        match self.takes_over {
            true => Way::TakeOver,
            false => Way::Anew,
        }
    }

    /// The job is over.
    pub fn job_is_over(&mut self) -> Option<Order> {
        self.over = true;
        if matches!(self.state, State::Starting | State::Ready) {
            self.state = State::Leaving;
            return Some(Order::Leave);
        }
        None
    }

    /// Its ranks have not ended in the time that they had for it.
    pub fn leaves_too_slowly(&mut self) -> Option<Order> {
        if self.state != State::Leaving {
            return None;
        }
        self.state = State::Ending;
        Some(Order::Kill)
    }
}
