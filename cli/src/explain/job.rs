//! The calls of MPI in which the ranks of a job are, from what their agents tell, and what each rank needs to go on.

use std::collections::BTreeMap;

use coordinator::protocol::{
    Counts, Doing, Entered, RankState, RankWaits, Status, Tag, Unasked, Wait, WaitTarget,
};

use super::operations;
use super::wait_graph::{Need, WaitGraph};
use crate::ui::text::counted;

/// A job.
pub struct Job {
    /// Its ranks, in order.
    pub ranks: Vec<Rank>,
    /// Messages that have come to ranks that wait, and that no receive asks for.
    pub messages: Vec<UnaskedMessage>,
    comms: Comms,
}

/// A rank.
pub struct Rank {
    /// Its number.
    pub rank: u32,
    /// Where it is.
    pub place: Place,
    /// Least time in microseconds for which it has been there.
    pub since: u64,
}

/// Where a rank is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// It has not called MPI_Init.
    Absent,
    /// It has ended.
    Ended,
    /// It does not answer.
    Silent,
    /// It is in no function of MPI, or another thread of it is not. The functions of the program, outermost first.
    Computes(Vec<String>),
    /// It was in several places while it was watched.
    Moves,
    /// It is in these calls, one for each thread in MPI.
    Calls(Vec<Call>),
}

/// A call of MPI that has not returned.
#[derive(Clone, PartialEq, Eq)]
pub struct Call {
    /// The function, if the stack tells it.
    pub function: Option<String>,
    /// The things that it waits for.
    pub on: Vec<On>,
    /// Whether one of these is enough.
    pub one_is_enough: bool,
    /// Whether the program calls again and again, and may do something else.
    pub polls: bool,
    /// Number of further things that it waits for.
    pub more: u32,
}

impl Call {
    /// Whether it is a blocking collective operation.
    pub fn is_collective(&self) -> bool {
        matches!(self.on.as_slice(), [On::Members { blocking: true, .. }])
    }
}

/// Something that a call waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// A message.
    Message {
        /// The sender, or all that it may come from.
        from: Source,
        /// Id of the communicator.
        comm: u64,
        /// The tag.
        tag: Tag,
        /// Bytes of room for it.
        room: Option<u64>,
    },
    /// The receiver of a message.
    Receiver {
        /// The receiver.
        to: u32,
        /// Id of the communicator.
        comm: u64,
        /// The tag.
        tag: Tag,
        /// Bytes of the message.
        bytes: Option<u64>,
    },
    /// Any one of these receivers. Only the numbers of messages show that the call waits.
    SomeReceiver(Vec<u32>),
    /// The members of a communicator.
    Members {
        /// Id of the communicator.
        comm: u64,
        /// Number of the operation.
        number: u64,
        /// Whether the call is the operation. Otherwise the call waits for one that was started before.
        blocking: bool,
        /// Whether each member needs all others.
        all: bool,
        /// Members that have not come.
        late: Vec<u32>,
        /// Members that are in another function instead, with its name.
        elsewhere: Vec<(u32, String)>,
    },
    /// Any other rank.
    Anyone,
    /// Something that is not known.
    Unknown,
}

/// Where a message may come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This rank.
    Rank(u32),
    /// Any of these.
    Any(Vec<u32>),
}

/// Messages of one kind that no receive asks for.
pub struct UnaskedMessage {
    /// The rank that has them.
    pub at: u32,
    /// The message.
    pub message: Unasked,
    /// Number of such messages.
    pub count: u64,
    /// Number of messages of the sender that the rank has not received.
    pub under_way: u64,
}

/// The communicators of a job.
#[derive(Default)]
struct Comms {
    names: BTreeMap<u64, String>,
    /// The operation that each member has entered last.
    members: BTreeMap<u64, BTreeMap<u32, Entered>>,
    /// The function in which members are that are inside an operation.
    functions: BTreeMap<(u64, u32), String>,
    /// Ranks that live and do not name their communicators. Each may be a member of any.
    silent: Vec<u32>,
}

impl Job {
    /// The job by what its ranks tell.
    pub fn of(status: &Status) -> Job {
        let told = |rank: usize| status.ranks.get(rank).and_then(|rank| rank.doing.as_ref());
        let waits = |rank: usize| told(rank).and_then(|doing| doing.waits.as_deref());
        let mut comms = Comms::default();
        for (at, rank) in (0..).zip(&status.ranks) {
            let Some(waits) = waits(at) else {
                let ended = matches!(rank.state, RankState::Finished | RankState::Lost);
                comms.silent.extend((!ended).then_some(rank.rank));
                continue;
            };
            comms.names.extend(waits.names.iter().cloned());
            let outside = told(at).map(|doing| outside_of_waits(doing, waits));
            // Of several, nothing tells which is inside an operation.
            let function = outside.filter(|functions| functions.len() == 1);
            let function = function.and_then(|mut functions| functions.pop());
            for entered in &waits.clocks {
                let members = comms.members.entry(entered.comm).or_default();
                members.insert(rank.rank, *entered);
                if let Some(function) = function.clone().filter(|_| entered.inside) {
                    comms.functions.insert((entered.comm, rank.rank), function);
                }
            }
        }
        let received = |from: u32, at: u32| {
            let counts = waits(at as usize).map(|waits| &waits.received);
            counts.map_or(0, |counts| count(counts, from))
        };
        let ranks: Vec<Rank> = status
            .ranks
            .iter()
            .map(|rank| Rank {
                rank: rank.rank,
                place: match (rank.state, rank.doing.as_ref()) {
                    (RankState::Absent, _) => Place::Absent,
                    (RankState::Finished | RankState::Lost, _) => Place::Ended,
                    (_, None) => Place::Silent,
                    (_, Some(doing)) => place(rank.rank, doing, &comms, &received),
                },
                since: rank.doing.as_ref().map_or(0, |doing| doing.since),
            })
            .collect();
        let messages = ranks
            .iter()
            .filter(|rank| matches!(rank.place, Place::Calls(_)))
            .filter_map(|rank| Some((rank.rank, waits(rank.rank as usize)?)))
            .flat_map(|(at, here)| {
                let sent = |from: u32| {
                    let sent = waits(from as usize).map_or(0, |waits| count(&waits.sent, at));
                    sent.saturating_sub(count(&here.received, from))
                };
                unasked(at, here, &sent)
            })
            .collect();
        Job {
            ranks,
            messages,
            comms,
        }
    }

    /// Where a rank is, if it is one of the job.
    pub fn place(&self, rank: u32) -> Option<&Place> {
        let found = self.ranks.iter().find(|known| known.rank == rank);
        found.map(|rank| &rank.place)
    }

    /// The calls of MPI that a rank is in.
    pub fn calls(&self, rank: u32) -> &[Call] {
        match self.place(rank) {
            Some(Place::Calls(calls)) => calls,
            _ => &[],
        }
    }

    /// How a communicator is named.
    pub fn comm(&self, id: u64) -> String {
        let members = || self.comms.members.get(&id).map_or(0, BTreeMap::len);
        match self.comms.names.get(&id) {
            Some(name) => name.clone(),
            None if members() == 0 => "a communicator".to_owned(),
            None => format!("a communicator of {}", counted(members(), "rank")),
        }
    }

    /// The ranks that each rank needs to go on.
    pub fn graph(&self) -> WaitGraph {
        let ended = self.ranks.iter();
        let ended = ended.filter(|rank| matches!(rank.place, Place::Ended));
        let ended = ended.map(|rank| rank.rank).collect();
        let lives = |rank: &&Rank| !matches!(rank.place, Place::Ended);
        let needs = self.ranks.iter().filter(lives).map(|rank| {
            let need = match &rank.place {
                Place::Calls(calls) => self.of_calls(rank.rank, calls),
                _ => Need::NOTHING,
            };
            (rank.rank, need)
        });
        WaitGraph::new(needs.collect(), ended)
    }

    /// The need of a rank with these calls. It goes on when one of its threads does.
    fn of_calls(&self, rank: u32, calls: &[Call]) -> Need {
        let mut needs: Vec<Need> = calls.iter().map(|call| self.of_call(rank, call)).collect();
        match needs.len() {
            1 => needs.remove(0),
            _ => Need::Any(needs),
        }
    }

    fn of_call(&self, rank: u32, call: &Call) -> Need {
        let mut needs: Vec<Need> = call.on.iter().map(|on| self.of_thing(rank, on)).collect();
        if call.one_is_enough && call.more > 0 {
            // One of those that are not told may come.
            needs.push(Need::NOTHING);
        }
        match (needs.len(), call.one_is_enough) {
            (1, _) => needs.remove(0),
            (0, _) | (_, false) => Need::All(needs),
            (_, true) => Need::Any(needs),
        }
    }

    /// The need for one thing.
    pub fn of_thing(&self, rank: u32, on: &On) -> Need {
        let ranks = |ranks: &[u32]| ranks.iter().copied().map(Need::Rank).collect::<Vec<_>>();
        match on {
            On::Message {
                from: Source::Rank(peer),
                ..
            }
            | On::Receiver { to: peer, .. } => Need::Rank(*peer),
            On::Message {
                from: Source::Any(peers),
                ..
            }
            | On::SomeReceiver(peers) => Need::Any(ranks(peers)),
            On::Members {
                all,
                late,
                elsewhere,
                ..
            } => {
                let mut needs = elsewhere
                    .iter()
                    .map(|(other, _)| Need::Rank(*other))
                    .collect::<Vec<_>>();
                match all {
                    true => needs.extend(ranks(late)),
                    false if late.is_empty() => {}
                    false => needs.push(Need::Any(ranks(late))),
                }
                Need::All(needs)
            }
            On::Anyone => {
                let others = self.ranks.iter().map(|other| other.rank);
                Need::Any(
                    others
                        .filter(|other| *other != rank)
                        .map(Need::Rank)
                        .collect(),
                )
            }
            On::Unknown => Need::NOTHING,
        }
    }
}

fn count(counts: &Counts, rank: u32) -> u64 {
    let mut counts = counts.iter();
    counts.find(|(of, _)| *of == rank).map_or(0, |(_, n)| *n)
}

/// The innermost function of MPI in a stack.
fn mpi_function(frames: &[String]) -> Option<String> {
    let last = frames.last()?;
    let is_mpi = last.starts_with("MPI_") || last.starts_with("mpi_");
    is_mpi.then(|| last.clone())
}

/// The functions of MPI that threads are in, by thread.
fn functions(doing: &Doing) -> Vec<(u32, String)> {
    let threads = doing.threads.iter();
    let functions = threads.filter_map(|stack| Some((stack.thread, mpi_function(&stack.frames)?)));
    functions.collect()
}

/// The functions of those threads that do not tell what they wait for.
fn outside_of_waits(doing: &Doing, waits: &RankWaits) -> Vec<String> {
    let tells = |thread: u32| waits.threads.iter().any(|told| told.thread == thread);
    let all = functions(doing).into_iter();
    let others = all.filter(|(thread, _)| !tells(*thread));
    others.map(|(_, function)| function).collect()
}

/// Where a rank is that answers.
fn place(rank: u32, doing: &Doing, comms: &Comms, received: &dyn Fn(u32, u32) -> u64) -> Place {
    let Some(waits) = doing.waits.as_deref() else {
        return Place::Silent;
    };
    if !waits.still {
        return Place::Moves;
    }
    let functions = functions(doing);
    let told = waits.threads.iter().map(|told| {
        let function = functions.iter().find(|(thread, _)| *thread == told.thread);
        Call {
            function: function.map(|(_, function)| function.clone()),
            on: told.on.iter().map(|wait| comms.thing(rank, wait)).collect(),
            one_is_enough: told.one_is_enough,
            polls: false,
            more: told.more,
        }
    });
    let mut calls: Vec<Call> = told.collect();
    let inside: Vec<&Entered> = waits
        .clocks
        .iter()
        .filter(|entered| entered.inside)
        .collect();
    let others = outside_of_waits(doing, waits).into_iter();
    calls.extend(others.map(|function| {
        let polls = waits
            .polls
            .as_ref()
            .filter(|_| operations::polls(&function));
        let on = match (polls, inside.as_slice()) {
            (Some(target), _) => comms.polled(rank, target),
            (None, [entered]) => vec![comms.operation(rank, entered, &function)],
            _ if operations::sends(&function) => {
                let late = |(to, sent): &(u32, u64)| (*sent > received(rank, *to)).then_some(*to);
                match waits.sent.iter().filter_map(late).collect::<Vec<_>>() {
                    none if none.is_empty() => vec![On::Unknown],
                    peers => vec![On::SomeReceiver(peers)],
                }
            }
            _ => vec![On::Unknown],
        };
        Call {
            function: Some(function),
            on,
            one_is_enough: polls.is_some(),
            polls: polls.is_some(),
            more: 0,
        }
    }));
    let mut others = doing.threads.iter();
    let free = others.find(|stack| stack.calls && mpi_function(&stack.frames).is_none());
    match free {
        Some(stack) if waits.multiple || calls.is_empty() => Place::Computes(stack.frames.clone()),
        _ if calls.is_empty() => {
            let main = doing.threads.first();
            Place::Computes(main.map(|stack| stack.frames.clone()).unwrap_or_default())
        }
        _ => Place::Calls(calls),
    }
}

impl Comms {
    /// The other members of a communicator, and ranks that may be.
    fn others(&self, comm: u64, rank: u32) -> Vec<u32> {
        let members = self.members.get(&comm).into_iter().flatten();
        let members = members.map(|(member, _)| *member);
        let all = members.chain(self.silent.iter().copied());
        all.filter(|member| *member != rank).collect()
    }

    fn thing(&self, rank: u32, wait: &Wait) -> On {
        match wait {
            Wait::Message {
                from,
                comm,
                tag,
                room,
            } => On::Message {
                from: match from {
                    Some(peer) => Source::Rank(*peer),
                    None => Source::Any(self.others(*comm, rank)),
                },
                comm: *comm,
                tag: *tag,
                room: *room,
            },
            Wait::Receiver {
                to,
                comm,
                tag,
                bytes,
            } => On::Receiver {
                to: *to,
                comm: *comm,
                tag: *tag,
                bytes: *bytes,
            },
            Wait::Members { comm, number } => self.members_for(rank, *comm, *number, None),
            Wait::Anyone => On::Anyone,
        }
    }

    /// The messages for which a program polls.
    fn polled(&self, rank: u32, target: &WaitTarget) -> Vec<On> {
        let message = |from: Source| On::Message {
            from,
            comm: 0,
            tag: Tag::Unknown,
            room: None,
        };
        match target {
            WaitTarget::Any => vec![On::Anyone],
            WaitTarget::Ranks(ranks) if ranks.is_empty() => vec![On::Unknown],
            WaitTarget::Ranks(ranks) => {
                let ranks = ranks.iter().copied().filter(|peer| *peer != rank);
                ranks.map(|peer| message(Source::Rank(peer))).collect()
            }
        }
    }

    /// A blocking operation that the rank is inside.
    fn operation(&self, rank: u32, entered: &Entered, function: &str) -> On {
        self.members_for(rank, entered.comm, entered.number, Some(function))
    }

    /// The members that an operation waits for.
    fn members_for(&self, rank: u32, comm: u64, number: u64, function: Option<&str>) -> On {
        let members = self.members.get(&comm).into_iter().flatten();
        let others = members.filter(|(member, _)| **member != rank);
        let (mut late, mut elsewhere) = (vec![], vec![]);
        for (member, entered) in others {
            if entered.number < number {
                late.push(*member);
            } else if entered.number == number && entered.inside {
                let other = self.functions.get(&(comm, *member));
                let differs =
                    |other: &&String| function.is_some_and(|own| !operations::are_same(own, other));
                let other = other.filter(differs);
                elsewhere.extend(other.map(|other| (*member, other.clone())));
            }
        }
        if late.is_empty() && elsewhere.is_empty() {
            // One of those that do not tell may be a member.
            late.extend(self.silent.iter().filter(|silent| **silent != rank));
        }
        On::Members {
            comm,
            number,
            blocking: function.is_some(),
            all: function.is_some_and(operations::is_synchronising),
            late,
            elsewhere,
        }
    }
}

/// The messages that a rank has and that no receive asks for, equal ones together.
fn unasked(at: u32, waits: &RankWaits, under_way: &dyn Fn(u32) -> u64) -> Vec<UnaskedMessage> {
    let mut messages: Vec<UnaskedMessage> = vec![];
    for message in &waits.unasked {
        match messages.iter_mut().find(|known| known.message == *message) {
            Some(known) => known.count += 1,
            None => messages.push(UnaskedMessage {
                at,
                under_way: under_way(message.from),
                message: message.clone(),
                count: 1,
            }),
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::text;
    use crate::explain::wait_graph::Verdict;
    use coordinator::protocol::{RankStatus, Stage, ThreadStack, ThreadWaits};

    const WORLD: u64 = 1;

    /// The answer of a rank that is in this function, of MPI or of the program.
    fn told(function: &str, waits: RankWaits) -> Doing {
        let thread = ThreadStack {
            thread: 7,
            frames: vec!["main".into(), function.into()],
            calls: true,
        };
        Doing {
            threads: vec![thread],
            waits: Some(Box::new(RankWaits {
                still: true,
                names: vec![(WORLD, "MPI_COMM_WORLD".into())],
                ..waits
            })),
            ..Doing::default()
        }
    }

    /// Waits in requests or receives, outside of collective operations.
    fn waits(one_is_enough: bool, on: &[Wait]) -> RankWaits {
        RankWaits {
            threads: vec![ThreadWaits {
                thread: 7,
                one_is_enough,
                on: on.to_vec(),
                more: 0,
            }],
            ..outside(3)
        }
    }

    fn outside(number: u64) -> RankWaits {
        let comm = WORLD;
        RankWaits {
            clocks: vec![Entered {
                comm,
                number,
                inside: false,
            }],
            ..RankWaits::default()
        }
    }

    fn inside(number: u64) -> RankWaits {
        let mut waits = outside(number);
        waits.clocks[0].inside = true;
        waits
    }

    fn message(from: Option<u32>) -> Wait {
        Wait::Message {
            from,
            comm: WORLD,
            tag: Tag::Is(5),
            room: Some(8),
        }
    }

    fn job(ranks: Vec<Option<Doing>>) -> (Job, Verdict) {
        let ranks: Vec<RankStatus> = (0..)
            .zip(ranks)
            .map(|(rank, doing)| RankStatus {
                rank,
                host: "h".into(),
                pid: 1,
                state: match doing {
                    Some(_) => RankState::Running,
                    None => RankState::Finished,
                },
                doing,
            })
            .collect();
        let job = Job::of(&Status {
            size: ranks.len() as u32,
            stage: Stage::Idle,
            waiting: None,
            committed: 0,
            last: None,
            in_memory: None,
            failure: None,
            next: None,
            ranks,
        });
        let verdict = job.graph().verdict();
        (job, verdict)
    }

    fn chain(verdict: &Verdict) -> &[u32] {
        match verdict {
            Verdict::Deadlock { chain, .. } => chain,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn two_receives_that_face_each_other_are_a_deadlock() {
        let receive = |from| Some(told("MPI_Recv", waits(false, &[message(Some(from))])));
        let (job, verdict) = job(vec![receive(1), receive(0)]);
        assert_eq!(chain(&verdict), [0, 1]);
        let said = "rank 0: MPI_Recv waits for a message of rank 1 (tag 5, at most 8 bytes, on MPI_COMM_WORLD)";
        assert_eq!(text::lines(&job, &verdict)[0], said);
    }

    #[test]
    fn a_rank_that_computes_or_moves_releases_others() {
        let receive = Some(told("MPI_Recv", waits(false, &[message(Some(1))])));
        let (_, verdict) = job(vec![receive.clone(), Some(told("solve", outside(3)))]);
        assert!(matches!(verdict, Verdict::HeldUp(_)), "{verdict:?}");
        let mut moving = told("MPI_Recv", waits(false, &[message(Some(0))]));
        moving.waits.as_mut().unwrap().still = false;
        let (_, verdict) = job(vec![receive, Some(moving)]);
        assert!(matches!(verdict, Verdict::HeldUp(_)), "{verdict:?}");
    }

    #[test]
    fn waitall_needs_all_and_waitany_one() {
        let ranks = |one_is_enough| {
            let both = [message(Some(1)), message(Some(2))];
            let receive = waits(false, &[message(Some(0))]);
            vec![
                Some(told("MPI_Waitany", waits(one_is_enough, &both))),
                Some(told("MPI_Recv", receive)),
                Some(told("solve", outside(3))),
            ]
        };
        assert_eq!(chain(&job(ranks(false)).1), [0, 1]);
        assert!(matches!(job(ranks(true)).1, Verdict::HeldUp(_)));
    }

    #[test]
    fn a_message_of_any_rank_may_come_from_the_members() {
        let any = |others: Option<Doing>| {
            let wildcard = waits(false, &[message(None)]);
            let wildcard = told("MPI_Recv", wildcard);
            job(vec![Some(wildcard), others.clone(), others]).1
        };
        assert_eq!(chain(&any(Some(told("MPI_Barrier", inside(4))))), [0, 1]);
        assert!(matches!(
            any(Some(told("solve", outside(3)))),
            Verdict::HeldUp(_)
        ));
        let Verdict::Deadlock { is_cycle, .. } = any(None) else {
            panic!("nobody is left that could send");
        };
        assert!(!is_cycle);
    }

    #[test]
    fn members_that_have_not_come_are_named_with_their_places() {
        let receive = told("MPI_Recv", waits(false, &[message(Some(0))]));
        let barrier = Some(told("MPI_Barrier", inside(4)));
        let (job, verdict) = job(vec![barrier.clone(), barrier, Some(receive)]);
        assert_eq!(chain(&verdict), [0, 2]);
        let said = "ranks 0-1: MPI_Barrier (number 4 on MPI_COMM_WORLD) waits for rank 2, which is in MPI_Recv";
        assert_eq!(text::lines(&job, &verdict)[0], said);
    }

    #[test]
    fn a_broadcast_may_go_on_when_one_member_comes() {
        let receive = |from| Some(told("MPI_Recv", waits(false, &[message(Some(from))])));
        let ranks = |function| {
            let computes = Some(told("solve", outside(3)));
            vec![Some(told(function, inside(4))), receive(0), computes]
        };
        assert!(matches!(job(ranks("MPI_Bcast")).1, Verdict::HeldUp(_)));
        assert_eq!(chain(&job(ranks("MPI_Barrier")).1), [0, 1]);
    }

    #[test]
    fn members_in_different_functions_are_a_mismatch() {
        let ranks = |other: &str| {
            let other = told(other, inside(4));
            vec![Some(told("MPI_Allreduce", inside(4))), Some(other)]
        };
        let (job_, verdict) = job(ranks("MPI_Barrier"));
        assert_eq!(chain(&verdict), [0, 1]);
        assert!(text::is_mismatched(&job_, 0));
        assert_eq!(job(ranks("mpi_allreduce_")).1, Verdict::Free);
    }

    #[test]
    fn sends_that_face_each_other_are_found_by_the_numbers_of_messages() {
        let send = |to, sent, received| {
            let numbers = RankWaits {
                sent: vec![(to, sent)],
                received: vec![(to, received)],
                ..outside(3)
            };
            Some(told("MPI_Send", numbers))
        };
        assert_eq!(chain(&job(vec![send(1, 5, 4), send(0, 5, 4)]).1), [0, 1]);
        assert_eq!(job(vec![send(1, 5, 5), send(0, 5, 5)]).1, Verdict::Free);
    }

    #[test]
    fn a_rank_that_polls_waits_and_may_do_something_else() {
        let ranks = |function| {
            let polls = Some(WaitTarget::Ranks(vec![0]));
            let polls = RankWaits {
                polls,
                ..outside(3)
            };
            let receive = waits(false, &[message(Some(1))]);
            vec![Some(told("MPI_Recv", receive)), Some(told(function, polls))]
        };
        let (polling, verdict) = job(ranks("MPI_Test"));
        assert_eq!(chain(&verdict), [0, 1]);
        assert!(text::polls(&polling, 1) && !text::polls(&polling, 0));
        let (_, verdict) = job(ranks("MPI_Win_lock"));
        assert!(matches!(verdict, Verdict::HeldUp(_)), "{verdict:?}");
    }

    #[test]
    fn another_thread_that_calls_mpi_may_help() {
        let ranks = |multiple, calls| {
            let mut doing = told("MPI_Recv", waits(false, &[message(Some(0))]));
            doing.threads.push(ThreadStack {
                thread: 8,
                frames: vec!["work".into()],
                calls,
            });
            doing.waits.as_mut().unwrap().multiple = multiple;
            vec![Some(doing)]
        };
        assert_eq!(chain(&job(ranks(false, true)).1), [0]);
        assert_eq!(chain(&job(ranks(true, false)).1), [0]);
        assert_eq!(job(ranks(true, true)).1, Verdict::Free);
    }

    #[test]
    fn a_call_that_is_not_understood_is_no_deadlock() {
        let receive = Some(told("MPI_Recv", waits(false, &[message(Some(1))])));
        let (_, verdict) = job(vec![receive, Some(told("MPI_Win_lock", outside(3)))]);
        assert!(matches!(verdict, Verdict::HeldUp(_)), "{verdict:?}");
    }

    #[test]
    fn equal_messages_that_nobody_asks_for_are_told_once() {
        let unasked = Unasked {
            from: 0,
            comm: WORLD,
            tag: 7,
            bytes: 8,
        };
        let mut here = waits(false, &[message(Some(0))]);
        here.unasked = vec![unasked.clone(), unasked];
        let mut there = outside(3);
        there.sent = vec![(1, 3)];
        let (job, verdict) = job(vec![
            Some(told("solve", there)),
            Some(told("MPI_Recv", here)),
        ]);
        let said = "rank 1 has 2 messages of rank 0 (tag 7, 8 bytes, on MPI_COMM_WORLD) that no receive asks for; 3 of \
                    its messages have not been received";
        assert!(text::lines(&job, &verdict).contains(&said.to_owned()));
    }
}
