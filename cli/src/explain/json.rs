//! The answer for programs.

use coordinator::protocol::Tag;
use serde_json::{json, Value};

use super::job::{Call, Job, On, Place, Rank, Source, UnaskedMessage};
use super::text;
use super::wait_graph::Verdict;
use crate::ui::json::seconds;

/// The whole answer.
pub fn answer(job: &Job, verdict: &Verdict) -> Value {
    let ranks = job.ranks.iter().map(|rank| of_rank(job, rank));
    let messages = job.messages.iter().map(|message| unasked(job, message));
    json!({
        "verdict": of_verdict(job, verdict),
        "ranks": ranks.collect::<Vec<_>>(),
        "unasked_messages": messages.collect::<Vec<_>>(),
    })
}

fn of_verdict(job: &Job, verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Free => json!({ "kind": "free" }),
        Verdict::Moving => json!({ "kind": "moving" }),
        Verdict::HeldUp(held) => {
            let held = held.iter().map(|(rank, ranks)| {
                json!({ "rank": rank, "waiting": ranks.iter().collect::<Vec<_>>() })
            });
            json!({ "kind": "held_up", "by": held.collect::<Vec<_>>() })
        }
        Verdict::Deadlock {
            stuck,
            chain,
            is_cycle,
        } => json!({
            "kind": "deadlock",
            "ranks": stuck.iter().collect::<Vec<_>>(),
            "chain": chain,
            "is_cycle": is_cycle,
            "polling": stuck.iter().filter(|rank| text::polls(job, *rank)).collect::<Vec<_>>(),
            "is_mismatch": stuck.iter().any(|rank| text::is_mismatched(job, rank)),
        }),
    }
}

fn of_rank(job: &Job, rank: &Rank) -> Value {
    let (place, calls, frames) = match &rank.place {
        Place::Absent => ("absent", &[][..], None),
        Place::Ended => ("ended", &[][..], None),
        Place::Silent => ("silent", &[][..], None),
        Place::Moves => ("moving", &[][..], None),
        Place::Computes(frames) => ("computing", &[][..], Some(frames)),
        Place::Calls(calls) => ("in_mpi", calls.as_slice(), None),
    };
    json!({
        "rank": rank.rank,
        "place": place,
        "seconds": seconds(rank.since),
        "frames": frames,
        "calls": calls.iter().map(|call| of_call(job, call)).collect::<Vec<_>>(),
    })
}

fn of_call(job: &Job, call: &Call) -> Value {
    json!({
        "function": call.function,
        "one_is_enough": call.one_is_enough,
        "polls": call.polls,
        "waits_for": call.on.iter().map(|on| thing(job, on)).collect::<Vec<_>>(),
        "more": call.more,
    })
}

fn tag_number(tag: Tag) -> Value {
    match tag {
        Tag::Is(tag) => json!(tag),
        Tag::Any => json!("any"),
        Tag::Unknown => Value::Null,
    }
}

fn thing(job: &Job, on: &On) -> Value {
    match on {
        On::Message {
            from,
            comm,
            tag,
            room,
        } => json!({
            "kind": "message",
            "from": match from {
                Source::Rank(rank) => json!(rank),
                Source::Any(_) => json!("any"),
            },
            "comm": job.comm(*comm),
            "tag": tag_number(*tag),
            "room_bytes": room,
        }),
        On::Receiver {
            to,
            comm,
            tag,
            bytes,
        } => json!({
            "kind": "receiver",
            "to": to,
            "comm": job.comm(*comm),
            "tag": tag_number(*tag),
            "bytes": bytes,
        }),
        On::SomeReceiver(peers) => json!({ "kind": "one_receiver_of", "ranks": peers }),
        On::Members {
            comm,
            number,
            all,
            late,
            elsewhere,
            ..
        } => json!({
            "kind": "members",
            "comm": job.comm(*comm),
            "number": number,
            "all_needed": all,
            "late": late,
            "elsewhere": elsewhere
                .iter()
                .map(|(rank, function)| json!({ "rank": rank, "function": function }))
                .collect::<Vec<_>>(),
        }),
        On::Anyone => json!({ "kind": "anyone" }),
        On::Unknown => json!({ "kind": "unknown" }),
    }
}

fn unasked(job: &Job, unasked: &UnaskedMessage) -> Value {
    json!({
        "rank": unasked.at,
        "from": unasked.message.from,
        "comm": job.comm(unasked.message.comm),
        "tag": unasked.message.tag,
        "bytes": unasked.message.bytes,
        "count": unasked.count,
        "not_received": unasked.under_way,
    })
}
