//! The keeper of the ranks on this machine. It learns of a rank's death from its pidfd (pidfd_open(2)), and of a rank's
//! own will from the rank.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use coordinator::net::contact::random_token;
use coordinator::process_liveness;
use dump::HeldImage;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::Signal;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{geteuid, Pid};

use crate::child_parts;
use crate::exit_signal;
use crate::memory_sets::{Image, Word};
use crate::messages::{
    send, take_line, FromRank, JobEnd, Member, NoSurvivor, Refusal, ToRank, LONGEST,
};
use crate::processes;
use crate::recovery::Departure;

/// Something that a rank has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Rank, if the launcher had told it.
    pub rank: Option<u32>,
    /// How it leaves the job.
    pub how: Departure,
}

impl Left {
    fn is_lost(&self) -> bool {
        matches!(self.how, Departure::Lost | Departure::Silent)
    }
}

/// Puts those first that have said so, since the launcher may kill others for that. Of several that are lost at a time
/// one may have been killed for the other. Which one is unknown, so they are one loss of an unknown rank.
pub fn in_order(mut left: Vec<Left>) -> Vec<Left> {
    let lost: Vec<Left> = left.iter().copied().filter(Left::is_lost).collect();
    left.retain(|left| !left.is_lost());
    left.extend(match lost.as_slice() {
        [] => None,
        [one] => Some(*one),
        [first, ..] => Some(Left {
            rank: None,
            ..*first
        }),
    });
    left
}

/// Whether all ranks of the job are among these. Those of a launcher that does not tell how many there are count as
/// all.
pub fn are_all(members: &[Member]) -> bool {
    let numbers: HashSet<u32> = members.iter().filter_map(|member| member.rank).collect();
    let unnumbered = members.iter().filter(|member| member.rank.is_none());
    let known = numbers.len() + unnumbered.count();
    let size = members.iter().find_map(|member| member.size);
    !members.is_empty() && size.is_none_or(|size| known >= size as usize)
}

/// The keeper.
pub struct Keeper {
    listener: UnixListener,
    socket: String,
    token: String,
    incarnation: u32,
    ranks: Vec<Kept>,
    /// What ranks have said about checkpoints in memory.
    words: Vec<Word>,
}

/// A process that has connected.
struct Kept {
    pid: Pid,
    /// None on a kernel before Linux 5.3: then the end of the connection is looked at.
    process: Option<OwnedFd>,
    stream: Option<UnixStream>,
    /// Received bytes of an unfinished line.
    text: Vec<u8>,
    /// Received descriptors, for the next message that has some.
    files: Vec<OwnedFd>,
    /// Set by the first message.
    member: Option<Member>,
    /// Whether it has said that it ends.
    told: bool,
    dead: bool,
    /// Size of the standby world in which it sleeps.
    asleep: Option<u32>,
    /// Whether it is only announced, and runs nothing of the rank yet.
    announced: bool,
    /// The checkpoint whose image it has mapped in its sleep.
    mapped: Option<u64>,
    /// The checkpoint from which the job would go on, if it has told that since the last turn.
    covered: Option<u64>,
    /// The set that it cannot go on from and why, if it has told that since the last turn.
    unusable: Option<(u64, String)>,
    /// Why it cannot be started or restored, if it has told that since the last turn.
    refusal: Option<Refusal>,
    /// The process that stands in for it with the launcher, and its pidfd.
    stand_in: Option<(Pid, Option<OwnedFd>)>,
    /// Whether it has said that its program ends with exit code 0.
    ended_well: bool,
    /// How it wants the job to be ended.
    ends_job: Option<JobEnd>,
    /// Whether it has been asked to go on in its memory, and its answer.
    survival: Option<Option<Result<(), NoSurvivor>>>,
}

impl Keeper {
    /// Listens for the ranks of an incarnation.
    ///
    /// # Errors
    /// The kernel gives no random numbers, or no socket.
    pub fn new(incarnation: u32) -> io::Result<Keeper> {
        let token = random_token()?;
        let socket = format!("stasis-run-{}", random_token()?);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&socket)?)?;
        listener.set_nonblocking(true)?;
        Ok(Keeper {
            listener,
            socket,
            token,
            incarnation,
            ranks: Vec::new(),
            words: Vec::new(),
        })
    }

    /// Name of the socket.
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// Token of the ranks.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Keeps the ranks of the next incarnation. All ranks of the last one are dead.
    pub fn next(&mut self, incarnation: u32) {
        self.incarnation = incarnation;
        self.ranks.clear();
        self.words.clear();
    }

    /// Descriptors to poll: the keeper has something to do when one is ready.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut all = vec![self.listener.as_fd()];
        for rank in self.ranks.iter().filter(|rank| !rank.dead) {
            all.extend(rank.process.as_ref().map(AsFd::as_fd));
            all.extend(rank.stream.as_ref().map(AsFd::as_fd));
        }
        all
    }

    /// Whether ranks of the incarnation have connected.
    pub fn has_ranks(&self) -> bool {
        let mut ranks = self.ranks.iter();
        ranks.any(|rank| rank.member.is_some() && !rank.announced)
    }

    /// The ranks of the incarnation that have connected or were announced.
    pub fn members(&self) -> Vec<Member> {
        let ranks = self.ranks.iter();
        ranks.filter_map(|rank| rank.member).collect()
    }

    /// Whether a rank lives that has not said that it ends.
    pub fn has_running(&self) -> bool {
        let mut ranks = self.ranks.iter();
        ranks.any(|rank| rank.member.is_some() && !rank.dead && !rank.told)
    }

    /// The ranks that live. A process without a first message is none: it may be a command that looks whether `stasis
    /// run` lives. One that was to become a rank runs nothing before it is welcome.
    fn of_living(&self) -> impl Iterator<Item = &Kept> {
        let ranks = self.ranks.iter();
        ranks.filter(|rank| rank.member.is_some() && !rank.dead)
    }

    /// Whether all ranks are dead that have connected.
    pub fn all_dead(&self) -> bool {
        self.of_living().next().is_none()
    }

    /// The processes of the ranks that live.
    pub fn living(&self) -> Vec<Pid> {
        self.of_living().map(|rank| rank.pid).collect()
    }

    /// Number of ranks that live.
    pub fn ranks(&self) -> usize {
        self.of_living().count()
    }

    /// For each rank that is asleep, the size of its standby world.
    pub fn asleep(&self) -> Vec<u32> {
        let ranks = self.ranks.iter();
        ranks.filter_map(|rank| rank.asleep).collect()
    }

    /// The checkpoint from which the job would go on, if a rank has told one since the last call.
    pub fn covered(&mut self) -> Option<u64> {
        let ranks = self.ranks.iter_mut();
        ranks.filter_map(|rank| rank.covered.take()).max()
    }

    /// The sets that ranks cannot go on from, as they have told since the last call, and why.
    pub fn unusable(&mut self) -> Vec<(u64, String)> {
        let ranks = self.ranks.iter_mut();
        ranks.filter_map(|rank| rank.unusable.take()).collect()
    }

    /// Why ranks cannot be started or restored, as they have told since the last call.
    pub fn refusals(&mut self) -> Vec<Refusal> {
        let ranks = self.ranks.iter_mut();
        ranks.filter_map(|rank| rank.refusal.take()).collect()
    }

    /// What ranks have said about checkpoints in memory since the last call.
    pub fn words(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.words)
    }

    /// For each rank the checkpoint whose image it has mapped in its sleep.
    pub fn mapped(&self) -> Vec<Option<u64>> {
        self.ranks.iter().map(|rank| rank.mapped).collect()
    }

    /// Tells all ranks that sleep. Of a rank that cannot be told the end of its process is heard.
    pub fn tell_asleep(&self, message: ToRank) {
        let asleep = self.ranks.iter().filter(|rank| rank.asleep.is_some());
        for stream in asleep.filter_map(|rank| rank.stream.as_ref()) {
            let _ = send(stream, &message);
        }
    }

    /// Kills the ranks.
    pub fn kill(&self) {
        for rank in self.of_living() {
            kill(rank.pid, rank.process.as_ref());
        }
        self.kill_stand_ins(true);
    }

    /// Kills the processes that stand in for ranks: of all, or of those that were killed, so that the launcher notices.
    /// One whose rank ends by its own will ends in the same way.
    pub fn kill_stand_ins(&self, of_all: bool) {
        let of_it = |rank: &&Kept| of_all || rank.dead && !rank.told;
        let ranks = self.ranks.iter().filter(of_it);
        for (pid, process) in ranks.filter_map(|rank| rank.stand_in.as_ref()) {
            kill(*pid, process.as_ref());
        }
    }

    /// How a rank wants the job to be ended, since it cannot do that itself.
    pub fn ends_job(&self) -> Option<&JobEnd> {
        self.ranks.iter().find_map(|rank| rank.ends_job.as_ref())
    }

    /// Asks each rank that lives to go on in its memory in the next incarnation. Whether there is one.
    pub fn ask_to_survive(&mut self) -> bool {
        let mut asked = false;
        for rank in self
            .ranks
            .iter_mut()
            .filter(|rank| !rank.dead && rank.member.is_some() && !rank.announced)
        {
            let stream = rank.stream.as_ref();
            if stream.is_some_and(|stream| send(stream, &ToRank::Survive).is_ok()) {
                rank.survival = Some(None);
                asked = true;
            }
        }
        asked
    }

    /// Whether each rank that was asked and lives has answered.
    pub fn have_answered(&self) -> bool {
        let mut living = self.ranks.iter().filter(|rank| !rank.dead);
        living.all(|rank| rank.survival != Some(None))
    }

    /// Whether a rank is in MPI_Finalize, or has ended well.
    pub fn is_finalising(&self) -> bool {
        let finalises = Some(Some(Err(NoSurvivor::Finalises)));
        self.ranks
            .iter()
            .any(|rank| rank.ended_well || rank.survival == finalises)
    }

    /// The ranks that do not go on in their memory although they were asked, and why.
    pub fn without_memory(&self) -> Vec<(Option<u32>, &str)> {
        let all = self
            .ranks
            .iter()
            .filter_map(|rank| match rank.survival.as_ref()? {
                Some(Err(NoSurvivor::Because(why))) => Some((rank.member?.rank, why.as_str())),
                None => Some((rank.member?.rank, "it did not answer")),
                Some(Ok(()) | Err(NoSurvivor::Finalises)) => None,
            });
        all.collect()
    }

    /// The signal that has killed a rank, if the kernel tells it.
    pub fn signal_of(&self, rank: u32) -> Option<i32> {
        let is_it = |kept: &&Kept| kept.member.is_some_and(|member| member.rank == Some(rank));
        let mut its = self.ranks.iter().filter(is_it);
        its.find_map(|kept| exit_signal::of(kept.process.as_ref()?.as_fd()))
    }

    /// Does what can be done without waiting. Returns the ranks that have left meanwhile.
    pub fn turn(&mut self) -> Vec<Left> {
        self.accept();
        let mut left = self.look();
        if left.iter().any(Left::is_lost) {
            // The cause of a loss may have come after its rank was looked at: all are looked at again.
            left.extend(self.look());
            self.doubt(&mut left);
        }
        // Those without a first message are none of the job's.
        self.ranks
            .retain(|rank| rank.member.is_some() || rank.stream.is_some());
        left
    }

    /// A rank whose memory is still being freed may have died before one that is lost, which the launcher has killed
    /// for it. Then it is unknown which was the first.
    fn doubt(&self, left: &mut [Left]) {
        let mut others = self.ranks.iter().filter(|rank| !rank.dead && !rank.told);
        if others.any(|rank| processes::is_ending(rank.pid)) {
            let lost = left.iter_mut().filter(|left| left.is_lost());
            lost.for_each(|left| left.rank = None);
        }
    }

    fn look(&mut self) -> Vec<Left> {
        let mut left = Vec::new();
        // Before last words are read: a rank may say them and die meanwhile.
        let ended: Vec<bool> = self.ranks.iter().map(Kept::has_ended).collect();
        for rank in &mut self.ranks {
            left.extend(rank.read(&self.token, self.incarnation, &mut self.words));
        }
        let stand_ins: Vec<Pid> = self
            .ranks
            .iter()
            .filter_map(|rank| Some(rank.stand_in.as_ref()?.0))
            .collect();
        for (rank, ended) in self.ranks.iter_mut().zip(ended) {
            // The rank has become another process, for which the announced one stands in.
            rank.dead |= rank.announced && stand_ins.contains(&rank.pid);
            left.extend(rank.note_end(ended));
        }
        left
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let peer = getsockopt(&stream, PeerCredentials);
            let Some(peer) = peer.ok().filter(|peer| peer.uid() == geteuid().as_raw()) else {
                continue;
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let pid = Pid::from_raw(peer.pid());
            let known = self.ranks.iter_mut();
            let mut known = known.filter(|rank| rank.pid == pid && !rank.dead);
            match known.next() {
                // The rank has called execve, and the new program has made a new connection.
                Some(rank) => rank.stream = Some(stream),
                None => self.ranks.push(Kept {
                    pid,
                    process: process_liveness::open(peer.pid().cast_unsigned()).ok(),
                    stream: Some(stream),
                    text: Vec::new(),
                    files: Vec::new(),
                    member: None,
                    told: false,
                    dead: false,
                    asleep: None,
                    announced: false,
                    mapped: None,
                    covered: None,
                    unusable: None,
                    refusal: None,
                    stand_in: None,
                    ended_well: false,
                    ends_job: None,
                    survival: None,
                }),
            }
        }
    }
}

/// Kills a process, by its pidfd if there is one.
fn kill(pid: Pid, process: Option<&OwnedFd>) {
    match process {
        Some(process) => process_liveness::kill(process.as_fd()),
        None => processes::send(pid, Signal::SIGKILL),
    }
}

impl Kept {
    /// Reads the messages of the rank. A connection that breaks the rules is closed.
    fn read(&mut self, token: &str, incarnation: u32, words: &mut Vec<Word>) -> Option<Left> {
        let mut left = None;
        let mut buffer = [0; 512];
        while let Some(stream) = self.stream.as_ref() {
            match child_parts::receive(stream, &mut buffer, &mut self.files) {
                Ok(n @ 1..) if self.text.len() + n <= LONGEST => {
                    self.text.extend_from_slice(&buffer[..n]);
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => break,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => self.stream = None,
            }
            while let Some(line) = take_line(&mut self.text) {
                match serde_json::from_slice(&line) {
                    Ok(message) => match self.word(message) {
                        Ok(word) => words.push(word),
                        Err(message) => {
                            left = left.or(self.receive(message, token, incarnation));
                        }
                    },
                    Err(_) => self.stream = None,
                }
            }
        }
        left
    }

    /// What a message says about checkpoints in memory; other messages are returned.
    fn word(&mut self, message: FromRank) -> Result<Word, FromRank> {
        match message {
            message if self.member.is_none() => Err(message),
            FromRank::Held(set) => Ok(Word::Held(set)),
            FromRank::NotHeld(set) => Ok(Word::NotHeld(set)),
            FromRank::Holds {
                set,
                number,
                rank,
                ranks,
                recipe,
            } => {
                let child = child_parts::child_of(&mut self.files);
                let image = child.and_then(|child| HeldImage::adopt(child, recipe).ok());
                // Otherwise its child is dead.
                Ok(image.map_or(Word::NotHeld(set), |image| Word::Holds {
                    set,
                    number,
                    rank,
                    ranks,
                    image: Image::Here(image),
                }))
            }
            message => Err(message),
        }
    }

    fn receive(&mut self, message: FromRank, token: &str, incarnation: u32) -> Option<Left> {
        let how = match message {
            FromRank::Hello {
                token: theirs,
                incarnation: its,
                member,
                announced,
                ..
            } => {
                self.announced = announced;
                let answer = match its == incarnation {
                    true => ToRank::Welcome,
                    false => ToRank::Superseded { by: incarnation },
                };
                let stream = self.stream.as_ref().filter(|_| theirs == token);
                let answered = stream.is_some_and(|stream| send(stream, &answer).is_ok());
                match answered && answer == ToRank::Welcome {
                    true => self.member = Some(member),
                    false => self.stream = None,
                }
                return None;
            }
            FromRank::StandIn(process) => {
                let pid = Pid::from_raw(process.cast_signed());
                self.stand_in = Some((pid, process_liveness::open(process).ok()));
                return None;
            }
            FromRank::Survives(answer) => {
                self.survival = Some(Some(answer));
                return None;
            }
            FromRank::Exits(code) => Departure::Exits(code),
            FromRank::Leaves(code) => Departure::Leaves(code),
            FromRank::Aborts(code) => Departure::Aborts(code),
            FromRank::EndsJob(end) => {
                let code = end.code;
                self.ends_job = Some(end);
                Departure::Aborts(code)
            }
            FromRank::Fails => Departure::Fails,
            FromRank::Refuses(refusal) => {
                self.refusal = self.member.map(|_| refusal);
                Departure::Refused
            }
            FromRank::Covered(set) => {
                self.covered = self.member.and(Some(set));
                return None;
            }
            FromRank::Unusable { set, why } => {
                self.unusable = self.member.map(|_| (set, why));
                return None;
            }
            FromRank::Mapped(set) => {
                self.mapped = self.member.and(Some(set));
                return None;
            }
            FromRank::Asleep { ranks } => {
                self.asleep = self.member.and(Some(ranks));
                return None;
            }
            // Its pidfd stays the same.
            FromRank::Beat | FromRank::Executes => return None,
            // This machine needs none.
            FromRank::KeepsNode { .. } => {
                self.stream = None;
                return None;
            }
            // Of a process that is no rank.
            FromRank::Holds { .. } | FromRank::Held(_) | FromRank::NotHeld(_) => return None,
        };
        let rank = self.member?.rank;
        self.told = true;
        self.ended_well = how == Departure::Exits(0);
        Some(Left { rank, how })
    }

    /// Whether the kernel reports its end.
    fn has_ended(&self) -> bool {
        self.process.as_ref().is_some_and(|process| {
            let mut ready = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
            poll(&mut ready, PollTimeout::ZERO) == Ok(1)
        })
    }

    /// Notes its end. It is lost if it had not said that it would end.
    fn note_end(&mut self, ended: bool) -> Option<Left> {
        let unreported = self.process.is_none() && self.stream.is_none();
        if self.dead || !(ended || unreported) {
            return None;
        }
        self.dead = true;
        let rank = self.member.filter(|_| !self.told)?.rank;
        Some(Left {
            rank,
            how: match self.announced {
                true => Departure::Unstarted,
                false => Departure::Lost,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_looks_whether_stasis_run_lives_is_not_killed() {
        let mut keeper = Keeper::new(1).unwrap();
        let socket = SocketAddr::from_abstract_name(keeper.socket()).unwrap();
        // From this process, which would be killed.
        let guest = UnixStream::connect_addr(&socket).unwrap();
        assert!(keeper.turn().is_empty());
        assert!(keeper.all_dead());
        keeper.kill();
        drop(guest);
        keeper.turn();
        assert_eq!(keeper.ranks.len(), 0);
    }

    #[test]
    fn a_rank_that_is_announced_and_connects_is_one() {
        let member = |rank, size| Member { rank, size };
        let first = member(Some(0), Some(2));
        assert!(!are_all(&[]));
        assert!(!are_all(&[first]));
        assert!(!are_all(&[first, first]));
        assert!(are_all(&[first, member(Some(1), Some(2))]));
        assert!(are_all(&[first, member(None, None)]));
        assert!(are_all(&[member(Some(0), None)]));
    }
}
