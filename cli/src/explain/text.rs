//! The answer for people: a line for each rank or for ranks that are in the same place, the messages that nobody asks
//! for, and the verdict.

use coordinator::protocol::rank_set::RankSet;
use coordinator::protocol::Tag;

use super::job::{Call, Job, On, Place, Rank, Source, UnaskedMessage};
use super::wait_graph::{Need, Verdict};

/// Things that are named of one call.
const NAMED: usize = 4;

/// The whole answer.
pub fn lines(job: &Job, verdict: &Verdict) -> Vec<String> {
    let mut lines: Vec<String> = places(job)
        .into_iter()
        .map(|(ranks, place)| format!("{}: {place}", whose(&ranks)))
        .collect();
    lines.extend(job.messages.iter().map(|message| unasked(job, message)));
    lines.extend(of_verdict(job, verdict));
    lines
}

/// `rank 3`, `ranks 0-2, 5`.
pub fn whose(ranks: &RankSet) -> String {
    match is_one(ranks) {
        true => format!("rank {ranks}"),
        false => format!("ranks {ranks}"),
    }
}

fn is_one(ranks: &RankSet) -> bool {
    ranks.iter().nth(1).is_none()
}

/// The places of all ranks, those of several ranks once, in the order of the first rank.
pub fn places(job: &Job) -> Vec<(RankSet, String)> {
    grouped(job.ranks.iter().map(|rank| (rank.rank, place(job, rank))))
}

/// Ranks with their places, those in the same place together, in the order of the first rank.
fn grouped(ranks: impl Iterator<Item = (u32, String)>) -> Vec<(RankSet, String)> {
    let mut groups: Vec<(RankSet, String)> = vec![];
    for (rank, place) in ranks {
        match groups.iter_mut().find(|(_, known)| *known == place) {
            Some((ranks, _)) => ranks.add(rank),
            None => groups.push((RankSet::one(rank), place)),
        }
    }
    groups
}

fn place(job: &Job, rank: &Rank) -> String {
    match &rank.place {
        Place::Absent => "has not called MPI_Init".to_owned(),
        Place::Ended => "has ended".to_owned(),
        Place::Silent => "does not answer".to_owned(),
        Place::Moves => "goes on".to_owned(),
        Place::Computes(frames) => match frames.last() {
            Some(frame) => format!("is in no call of MPI, but in {frame}"),
            None => "is in no call of MPI".to_owned(),
        },
        Place::Calls(calls) => {
            let calls: Vec<String> = calls.iter().map(|call| of_call(job, call)).collect();
            calls.join("; another thread ")
        }
    }
}

/// The place in a few words, for another rank's line.
pub fn short(job: &Job, rank: u32) -> String {
    match job.place(rank) {
        Some(Place::Ended) => "has ended".to_owned(),
        Some(Place::Computes(_)) => "is in no call of MPI".to_owned(),
        Some(Place::Calls(calls)) => {
            let call = calls.first();
            let name = function(call.and_then(|call| call.function.as_deref()));
            let number = call.and_then(|call| call.on.iter().find_map(|on| operation(job, on)));
            match number {
                Some(number) => format!("is in {name} ({number})"),
                None => format!("is in {name}"),
            }
        }
        Some(Place::Absent) => "has not called MPI_Init".to_owned(),
        Some(Place::Moves) => "goes on".to_owned(),
        Some(Place::Silent) | None => "does not answer".to_owned(),
    }
}

/// A function by its name, if that is known.
pub fn function(name: Option<&str>) -> &str {
    name.unwrap_or("a call of MPI")
}

/// `number 5 on MPI_COMM_WORLD`.
pub fn operation(job: &Job, on: &On) -> Option<String> {
    match on {
        On::Members { comm, number, .. } => Some(format!("number {number} on {}", job.comm(*comm))),
        _ => None,
    }
}

/// A call, and what it waits for.
fn of_call(job: &Job, call: &Call) -> String {
    let mut name = function(call.function.as_deref()).to_owned();
    // A blocking operation waits for nothing else.
    let numbers = call.on.iter().filter_map(|on| operation(job, on));
    let number = numbers.take(1).next().filter(|_| call.is_collective());
    name.extend(number.iter().map(|number| format!(" ({number})")));
    let thing = |on: &On| match &number {
        Some(_) => members(job, on),
        None => thing(job, on),
    };
    let waits = match call.polls {
        true => "is asked again and again, and waits",
        false => "waits",
    };
    let mut things: Vec<String> = call.on.iter().take(NAMED).map(thing).collect();
    let more = call.on.len().saturating_sub(NAMED) + call.more as usize;
    if more > 0 {
        things.push(format!("{more} other things"));
    }
    let between = match call.one_is_enough {
        true => ", or for ",
        false => ", and for ",
    };
    match things.is_empty() {
        true => format!("{name} {waits}"),
        false => format!("{name} {waits} for {}", things.join(between)),
    }
}

/// Something that a call waits for.
pub fn thing(job: &Job, on: &On) -> String {
    match on {
        On::Message {
            from,
            comm,
            tag,
            room,
        } => {
            let from = match from {
                Source::Rank(rank) => format!("rank {rank}"),
                Source::Any(_) => "any rank".to_owned(),
            };
            let room = room.map(|bytes| format!("at most {bytes} bytes"));
            format!("a message of {from}{}", envelope(job, *comm, *tag, room))
        }
        On::Receiver {
            to,
            comm,
            tag,
            bytes,
        } => {
            let bytes = bytes.map(|bytes| format!("{bytes} bytes"));
            format!(
                "rank {to} to receive a message{}",
                envelope(job, *comm, *tag, bytes)
            )
        }
        On::SomeReceiver(peers) => {
            let peers: RankSet = peers.iter().copied().collect();
            match is_one(&peers) {
                true => format!("{} to receive a message", whose(&peers)),
                false => format!("one of {} to receive a message", whose(&peers)),
            }
        }
        On::Members { .. } => {
            let number = operation(job, on).unwrap_or_default();
            format!("{} ({number})", members(job, on))
        }
        On::Anyone => "something that any other rank may do".to_owned(),
        On::Unknown => "something that is not known".to_owned(),
    }
}

/// The members that an operation waits for, with their places.
fn members(job: &Job, on: &On) -> String {
    let On::Members {
        late, elsewhere, ..
    } = on
    else {
        return String::new();
    };
    let late = late.iter().map(|rank| (*rank, short(job, *rank)));
    let instead = elsewhere.iter();
    let instead = instead.map(|(rank, function)| (*rank, format!("is in {function} instead")));
    let groups = grouped(late.chain(instead)).into_iter();
    let members: Vec<String> = groups.map(described).collect();
    match members.is_empty() {
        true => "its end, since all members have come".to_owned(),
        false => members.join(" and "),
    }
}

/// A group of ranks: `ranks 1-3, which have ended`.
fn described((ranks, place): (RankSet, String)) -> String {
    let place = match is_one(&ranks) {
        true => place,
        false => plural(&place),
    };
    format!("{}, which {place}", whose(&ranks))
}

fn plural(place: &str) -> String {
    let verbs = [
        ("is ", "are "),
        ("has ", "have "),
        ("does ", "do "),
        ("goes ", "go "),
    ];
    let found = verbs
        .iter()
        .find_map(|(one, many)| Some(format!("{many}{}", place.strip_prefix(one)?)));
    found.unwrap_or_else(|| place.to_owned())
}

/// ` (tag 5, 8 bytes, on MPI_COMM_WORLD)`, as far as it is known.
fn envelope(job: &Job, comm: u64, tag: Tag, bytes: Option<String>) -> String {
    let tag = match tag {
        Tag::Is(tag) => Some(format!("tag {tag}")),
        Tag::Any => Some("any tag".to_owned()),
        Tag::Unknown => None,
    };
    let comm = (comm != 0).then(|| format!("on {}", job.comm(comm)));
    let parts: Vec<String> = [tag, bytes, comm].into_iter().flatten().collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    }
}

/// A message that no receive asks for.
fn unasked(job: &Job, unasked: &UnaskedMessage) -> String {
    let UnaskedMessage {
        at,
        message,
        count,
        under_way,
    } = unasked;
    let number = match count {
        1 => "a message".to_owned(),
        many => format!("{many} messages"),
    };
    let envelope = envelope(
        job,
        message.comm,
        Tag::Is(message.tag),
        Some(format!("{} bytes", message.bytes)),
    );
    let more = match under_way {
        more if more > count => format!("; {more} of its messages have not been received"),
        _ => String::new(),
    };
    format!(
        "rank {at} has {number} of rank {}{envelope} that no receive asks for{more}",
        message.from
    )
}

/// The verdict, a line for each step of a chain.
pub fn of_verdict(job: &Job, verdict: &Verdict) -> Vec<String> {
    match verdict {
        Verdict::Free => vec!["no rank waits for another one".to_owned()],
        Verdict::Moving => {
            vec!["the ranks go on while they are asked: it is no deadlock".to_owned()]
        }
        Verdict::HeldUp(held) => held
            .iter()
            .map(|(rank, ranks)| held_up(job, *rank, ranks))
            .collect(),
        Verdict::Deadlock {
            stuck,
            chain,
            is_cycle,
        } => {
            let all = job
                .ranks
                .iter()
                .all(|rank| stuck.contains(rank.rank) || matches!(rank.place, Place::Ended));
            let polls = stuck.iter().filter(|rank| polls(job, *rank));
            let polls: RankSet = polls.collect();
            let unless = match polls.is_empty() {
                true => String::new(),
                false => format!(
                    ", unless the program does something else in {}, which only asks",
                    whose(&polls)
                ),
            };
            let whole = match all {
                true => format!("deadlock: no rank can go on{unless}"),
                false => format!("deadlock: {} can never go on{unless}", whose(stuck)),
            };
            let mismatch = stuck.iter().any(|rank| is_mismatched(job, rank));
            let why = mismatch.then(|| {
                "members of a communicator are in different collective operations".to_owned()
            });
            let steps = steps(job, chain, *is_cycle);
            [whole].into_iter().chain(why).chain(steps).collect()
        }
    }
}

fn held_up(job: &Job, rank: u32, ranks: &RankSet) -> String {
    let wait = match is_one(ranks) {
        true => "waits",
        false => "wait",
    };
    let place = short(job, rank);
    format!("{} {wait} for rank {rank}, which {place}", whose(ranks))
}

/// Whether a rank polls.
pub fn polls(job: &Job, rank: u32) -> bool {
    job.calls(rank).iter().any(|call| call.polls)
}

/// Whether a rank is in another collective operation than other members.
pub fn is_mismatched(job: &Job, rank: u32) -> bool {
    let things = job.calls(rank).iter().flat_map(|call| &call.on);
    let mut things = things.filter_map(|on| match on {
        On::Members { elsewhere, .. } => Some(elsewhere),
        _ => None,
    });
    things.any(|elsewhere| !elsewhere.is_empty())
}

/// The chain of a deadlock, a line for each rank: it needs the next one.
fn steps(job: &Job, chain: &[u32], is_cycle: bool) -> Vec<String> {
    let first = chain.first().filter(|_| is_cycle);
    let next = chain.iter().skip(1).chain(first);
    let pairs = chain.iter().zip(next);
    let step = |(from, to): (&u32, &u32)| {
        format!("    rank {from} needs rank {to}: {}", why(job, *from, *to))
    };
    pairs.map(step).collect()
}

/// Why a rank needs another one.
pub fn why(job: &Job, from: u32, to: u32) -> String {
    let calls = job.calls(from).iter();
    let mut reasons = calls.flat_map(|call| call.on.iter().map(move |on| (call, on)));
    let needs = |on: &On| matches!(job.of_thing(from, on), need if need.ranks().contains(&to) && need != Need::NOTHING);
    match reasons.find(|(_, on)| needs(on)) {
        Some((call, on)) => {
            let name = function(call.function.as_deref());
            match on {
                On::Members { elsewhere, .. } => {
                    let number = operation(job, on).unwrap_or_default();
                    let other = elsewhere.iter().find(|(rank, _)| *rank == to);
                    match other {
                        Some((_, other)) => format!("{name} met {other} ({number})"),
                        None => format!("{name} ({number}), to which it has not come"),
                    }
                }
                on => format!("{name} waits for {}", thing(job, on)),
            }
        }
        None => "it is needed".to_owned(),
    }
}
