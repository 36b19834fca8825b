use super::*;
use crate::protocol::state::{RankState, Stage};

pub(super) fn job(size: u32) -> Coordinator {
    let mut c = Coordinator::new(Config::new(size));
    for rank in 0..size {
        connect(&mut c, rank);
    }
    c
}
fn connect(c: &mut Coordinator, rank: u32) -> Vec<Action> {
    c.on(
        0,
        Event::Connected {
            rank,
            host: "n".into(),
            pid: 100 + rank,
        },
    )
}
pub(super) fn partial() -> PartialSet {
    PartialSet {
        set: "ckpt-1".into(),
        id: vec![],
        directory: Some("d".into()),
        parent: None,
    }
}
fn failed(actions: &[Action]) -> Option<&str> {
    actions.iter().find_map(|a| match a {
        Action::Reply(_, ToClient::Failed(reason) | ToClient::Late(reason)) => {
            Some(reason.as_str())
        }
        _ => None,
    })
}
fn to_saving(c: &mut Coordinator, size: u32) -> Vec<Action> {
    c.on(
        0,
        Event::Request {
            client: Some(1),
            cause: Cause::Command,
            stop: false,
            patience: None,
        },
    );
    c.on(0, Event::Prepared(1, Ok(partial())));
    for r in 0..size {
        c.on(
            0,
            Event::Message(
                r,
                FromRank::Clocks {
                    epoch: 1,
                    clocks: vec![],
                },
            ),
        );
    }
    let activity = crate::protocol::messages::Activity::Running;
    for r in 0..size {
        let state = State {
            epoch: 1,
            version: 1,
            reached: true,
            held: false,
            activity: activity.clone(),
        };
        c.on(1000, Event::Message(r, FromRank::State(state)));
    }
    let mut last = vec![];
    for r in 0..size {
        last = c.on(
            2000,
            Event::Message(
                r,
                FromRank::Drained {
                    epoch: 1,
                    shared: vec![],
                },
            ),
        );
    }
    last
}

#[test]
fn a_request_before_mpi_init_waits_for_all_ranks() {
    let mut c = Coordinator::new(Config::new(2));
    let a = c.on(
        0,
        Event::Request {
            client: Some(1),
            cause: Cause::Command,
            stop: false,
            patience: None,
        },
    );
    assert!(matches!(&a[..], [Action::Reply(1, ToClient::Note(n))] if n.contains("MPI_Init")));
    assert_eq!(connect(&mut c, 1), []);
    assert_eq!(connect(&mut c, 0), [Action::Prepare(1)]);
}

#[test]
fn a_long_wait_for_mpi_init_is_noted_once() {
    let mut c = Coordinator::new(Config::new(2));
    let request = |client| Event::Request {
        client,
        cause: Cause::Command,
        stop: false,
        patience: None,
    };
    c.on(0, request(None));
    assert!(!c.busy(), "no client waits");
    c.on(1000, request(Some(7)));
    assert!(c.busy());
    assert_eq!(c.on(4_999_999, Event::Tick), []);
    let a = c.on(5_000_000, Event::Tick);
    assert!(
        matches!(&a[..], [Action::Reply(7, ToClient::Note(n))] if n.contains("2 of 2") && n.contains("never"))
    );
    assert_eq!(c.on(60_000_000, Event::Tick), []);
    c.on(60_000_000, Event::ClientLost(7));
    assert!(!c.busy());
}

#[test]
fn requests_are_joined_and_any_of_them_can_stop_the_job() {
    let mut c = job(1);
    to_saving(&mut c, 1);
    let a = c.on(
        0,
        Event::Request {
            client: Some(2),
            cause: Cause::Command,
            stop: true,
            patience: None,
        },
    );
    assert!(matches!(&a[..], [Action::Reply(2, ToClient::Note(_))]));
    let saved = FromRank::Saved {
        epoch: 1,
        summary: Summary {
            bytes: 5,
            ..Default::default()
        },
    };
    assert!(
        matches!(&c.on(0, Event::Message(0, saved))[..], [Action::Commit(1, _, s, _)] if s.len() == 1)
    );
    let a = c.on(5000, Event::Committed(1, Ok(())));
    let Action::Reply(1, ToClient::Committed(report)) = &a[0] else {
        panic!("{a:?}")
    };
    assert_eq!(
        (report.bytes, report.pause, report.total, report.stop),
        (5, 4000, 5000, true)
    );
    assert!(matches!(a[1], Action::Reply(2, ToClient::Committed(_))));
    assert!(matches!(
        &a[3],
        Action::Send(ToRank::Resume {
            outcome: Outcome::Exit { .. },
            ..
        })
    ));
    let a = c.on(
        0,
        Event::Request {
            client: Some(3),
            cause: Cause::Command,
            stop: false,
            patience: None,
        },
    );
    assert!(failed(&a).unwrap().contains("ending"));
}

#[test]
fn a_directory_that_cannot_be_made_does_not_disturb_the_ranks() {
    let mut c = job(2);
    c.on(
        0,
        Event::Request {
            client: Some(1),
            cause: Cause::Command,
            stop: false,
            patience: None,
        },
    );
    let a = c.on(0, Event::Prepared(1, Err("disk full".into())));
    let over = Action::Over(Err("disk full".into()));
    assert_eq!(
        a,
        [Action::Reply(1, ToClient::Failed("disk full".into())), over]
    );
    assert!(!c.busy());
}

#[test]
fn a_refusal_resumes_all_ranks_and_discards() {
    let mut c = job(2);
    to_saving(&mut c, 2);
    let refused = FromRank::Refused {
        epoch: 1,
        reason: "no space".into(),
    };
    let a = c.on(0, Event::Message(1, refused));
    assert!(failed(&a).unwrap().contains("rank 1: no space"));
    assert!(a.contains(&Action::Discard(partial())));
    let resumed = a
        .iter()
        .filter(|a| matches!(a, Action::Send(ToRank::Resume { .. })))
        .count();
    assert_eq!(resumed, 1);
    // The next checkpoint succeeds.
    assert_eq!(
        c.on(
            0,
            Event::Request {
                client: Some(2),
                cause: Cause::Command,
                stop: false,
                patience: None,
            }
        ),
        [Action::Prepare(2)]
    );
}

#[test]
fn a_death_while_saving_abandons_and_while_committing_does_not() {
    let mut c = job(2);
    to_saving(&mut c, 2);
    assert!(failed(&c.on(0, Event::Lost(1)))
        .unwrap()
        .contains("process 101 on n"));
    let a = c.on(
        0,
        Event::Request {
            client: Some(2),
            cause: Cause::Command,
            stop: false,
            patience: None,
        },
    );
    assert!(failed(&a).unwrap().contains("died"));

    let mut c = job(2);
    to_saving(&mut c, 2);
    for r in 0..2 {
        c.on(
            0,
            Event::Message(
                r,
                FromRank::Saved {
                    epoch: 1,
                    summary: Summary::default(),
                },
            ),
        );
    }
    assert_eq!(c.on(0, Event::Lost(1)), []);
    let a = c.on(0, Event::Committed(1, Ok(())));
    assert!(matches!(&a[0], Action::Reply(1, ToClient::Committed(_))));
}

#[test]
fn limits_name_the_ranks_that_were_waited_for() {
    let mut c = job(3);
    c.on(
        0,
        Event::Request {
            client: Some(1),
            cause: Cause::Command,
            stop: false,
            patience: None,
        },
    );
    c.on(0, Event::Prepared(1, Ok(partial())));
    c.on(
        0,
        Event::Message(
            1,
            FromRank::Clocks {
                epoch: 1,
                clocks: vec![],
            },
        ),
    );
    assert_eq!(notes(c.on(1_000_000, Event::Tick)), []);
    let a = c.on(3_600_000_000, Event::Tick);
    assert!(failed(&a).unwrap().contains("ranks 0 and 2"), "{a:?}");
}

#[test]
fn a_long_wait_is_noted_once_with_its_ranks() {
    let mut c = job(2);
    c.on(
        0,
        Event::Request {
            client: Some(7),
            cause: Cause::Command,
            stop: false,
            patience: None,
        },
    );
    c.on(0, Event::Prepared(1, Ok(partial())));
    let clocks = |epoch| FromRank::Clocks {
        epoch,
        clocks: vec![],
    };
    c.on(0, Event::Message(1, clocks(1)));
    assert_eq!(notes(c.on(NOTE_AFTER - 1, Event::Tick)), []);
    let note = Action::Reply(7, ToClient::Note("no answer yet from rank 0".into()));
    assert_eq!(notes(c.on(NOTE_AFTER, Event::Tick)), [note]);
    assert_eq!(notes(c.on(3 * NOTE_AFTER, Event::Tick)), []);
    c.on(3 * NOTE_AFTER, Event::Message(0, clocks(1)));
    let actions = notes(c.on(4 * NOTE_AFTER, Event::Tick));
    let [Action::Reply(7, ToClient::Note(text))] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert!(
        text.starts_with("a safe state is not reached yet"),
        "{text}"
    );
}

/// The actions of a tick, without progress reports and questions to late ranks.
fn notes(mut actions: Vec<Action>) -> Vec<Action> {
    actions.retain(|action| {
        !matches!(
            action,
            Action::Reply(_, ToClient::Progress(_)) | Action::Tell(..)
        )
    });
    actions
}

#[test]
fn changed_progress_is_sent_to_clients() {
    let mut c = job(2);
    to_saving(&mut c, 2);
    let told = |c: &mut Coordinator| {
        let actions = c.on(0, Event::Tick).into_iter();
        let progress = actions.map(|action| match action {
            Action::Reply(1, ToClient::Progress(progress)) => progress,
            other => panic!("{other:?}"),
        });
        progress.collect::<Vec<_>>()
    };
    let progress = |done, missing: &str, bytes| Progress {
        stage: Stage::Saving,
        done,
        ranks: 2,
        missing: missing.into(),
        bytes,
    };
    assert_eq!(told(&mut c), [progress(0, "ranks 0 and 1", 0)]);
    assert_eq!(told(&mut c), []);
    let summary = Summary {
        bytes: 5,
        ..Default::default()
    };
    let saved = FromRank::Saved { epoch: 1, summary };
    c.on(0, Event::Message(0, saved));
    assert_eq!(told(&mut c), [progress(1, "rank 1", 5)]);
    c.on(0, Event::ClientLost(1));
    c.on(0, Event::Message(1, FromRank::Copied { epoch: 1 }));
    assert_eq!(told(&mut c), []);
}

#[test]
fn a_rank_that_ended_is_named() {
    let mut c = job(2);
    c.on(0, Event::Message(1, FromRank::Finished));
    let a = c.on(
        0,
        Event::Request {
            client: Some(1),
            cause: Cause::Command,
            stop: false,
            patience: None,
        },
    );
    assert!(failed(&a)
        .unwrap()
        .contains("rank 1 (process 101 on n) has ended"));
}

#[test]
fn foreign_and_duplicate_ranks_are_not_admitted() {
    let c = job(2);
    assert!(c.admits(1, 2).unwrap_err().contains("before"));
    assert!(c.admits(1, 3).unwrap_err().contains("2 ranks"));
    let c = Coordinator::new(Config::new(2));
    assert_eq!(c.admits(1, 2), Ok(()));
    assert!(c.admits(2, 2).is_err());
}

#[test]
fn the_status_has_the_stage() {
    let mut c = job(2);
    assert_eq!(c.status(BTreeMap::new()).stage, Stage::Idle);
    to_saving(&mut c, 2);
    assert_eq!(c.status(BTreeMap::new()).stage, Stage::Saving);
    assert_eq!(c.status(BTreeMap::new()).ranks[0].state, RankState::Saving);
}

fn copied(c: &mut Coordinator, now: Time, rank: u32) -> Vec<Action> {
    c.on(now, Event::Message(rank, FromRank::Copied { epoch: 1 }))
}
fn saved(c: &mut Coordinator, rank: u32, stood: Option<&str>) -> Vec<Action> {
    let summary = Summary {
        stood: stood.map(str::to_owned),
        ..Summary::default()
    };
    c.on(
        9000,
        Event::Message(rank, FromRank::Saved { epoch: 1, summary }),
    )
}
const GO_ON: Action = Action::Send(ToRank::GoOn { epoch: 1 });

#[test]
fn ranks_go_on_when_the_last_has_copied_or_written() {
    let mut c = job(2);
    to_saving(&mut c, 2);
    assert_eq!(copied(&mut c, 3000, 1), []);
    assert_eq!(c.status(BTreeMap::new()).ranks[1].state, RankState::Copied);
    assert_eq!(saved(&mut c, 0, Some("memory is scarce")), [GO_ON]);
    assert!(matches!(saved(&mut c, 1, None)[..], [Action::Commit(..)]));
    let a = c.on(50_000, Event::Committed(1, Ok(())));
    let Action::Reply(1, ToClient::Committed(report)) = &a[0] else {
        panic!("{a:?}")
    };
    assert_eq!((report.pause, report.total), (8000, 50_000));
    let why = report.stood.as_deref();
    assert_eq!(why, Some("rank 0: memory is scarce"));
}

#[test]
fn a_job_that_ends_is_not_resumed() {
    let mut c = job(2);
    to_saving(&mut c, 2);
    copied(&mut c, 3000, 0);
    let (client, stop) = (Some(2), true);
    c.on(
        3500,
        Event::Request {
            client,
            cause: Cause::Command,
            stop,
            patience: None,
        },
    );
    assert_eq!(copied(&mut c, 4000, 1), []);
    saved(&mut c, 0, None);
    saved(&mut c, 1, None);
    let a = c.on(50_000, Event::Committed(1, Ok(())));
    let exit = |a: &Action| matches!(a, Action::Send(ToRank::Resume { outcome, .. }) if matches!(outcome, Outcome::Exit { .. }));
    assert!(a.iter().any(exit), "{a:?}");
}

/// The job with a checkpoint in memory that has begun.
fn to_memory() -> Coordinator {
    let mut c = job(2);
    assert_eq!(c.on(0, Event::DueInMemory), [Action::PrepareInMemory(1)]);
    let held = PartialSet {
        directory: None,
        ..partial()
    };
    c.on(0, Event::Prepared(1, Ok(held)));
    c
}

#[test]
fn a_checkpoint_in_memory_serves_for_no_other() {
    let mut c = to_memory();
    assert_eq!(c.on(1, Event::DueInMemory), []);
    assert_eq!(c.on(1, Event::Due), []);
    let (client, stop) = (Some(2), false);
    let request = Event::Request {
        client,
        cause: Cause::Command,
        stop,
        patience: None,
    };
    let a = c.on(1, request);
    assert!(
        matches!(&a[..], [Action::Reply(2, ToClient::Note(n))] if n.contains("begins after it")),
        "{a:?}"
    );
    let a = c.on(2, Event::Lost(1));
    let is_told = |a: &Action| matches!(a, Action::NotHeld(reason) if reason.contains("rank 1"));
    assert!(a.iter().any(is_told), "{a:?}");
    assert!(!a.iter().any(|a| matches!(a, Action::Over(_))), "{a:?}");
}

#[test]
fn a_request_after_the_cut_is_a_separate_checkpoint() {
    let mut c = job(2);
    to_saving(&mut c, 2);
    copied(&mut c, 3000, 0);
    assert_eq!(copied(&mut c, 3000, 1), [GO_ON]);
    assert_eq!(
        c.on(4000, Event::Due),
        [],
        "the interval's: this one will do"
    );
    let (client, stop) = (Some(2), true);
    let a = c.on(
        4000,
        Event::Request {
            client,
            cause: Cause::Command,
            stop,
            patience: None,
        },
    );
    assert!(
        matches!(&a[..], [Action::Reply(2, ToClient::Note(n))] if n.contains("begins after it"))
    );
    saved(&mut c, 0, None);
    saved(&mut c, 1, None);
    let a = c.on(50_000, Event::Committed(1, Ok(())));
    let outcomes: Vec<_> = a
        .iter()
        .filter(|a| matches!(a, Action::Reply(2, _) | Action::Prepare(_)))
        .collect();
    assert_eq!(outcomes, [&Action::Prepare(2)], "the job does not end yet");

    // If the previous one fails and no other can be taken, the waiting client gets an answer.
    let mut c = job(2);
    to_saving(&mut c, 2);
    copied(&mut c, 3000, 0);
    copied(&mut c, 3000, 1);
    c.on(
        4000,
        Event::Request {
            client,
            cause: Cause::Command,
            stop,
            patience: None,
        },
    );
    let a = c.on(5000, Event::Lost(1));
    let told = |a: &&Action| matches!(a, Action::Reply(_, ToClient::Failed(_)));
    assert_eq!(a.iter().filter(told).count(), 2, "{a:?}");
}

#[test]
fn the_status_reports_the_activity_of_each_rank() {
    let tells = |rank: u32| {
        let doing = Doing {
            what: format!("in call {rank}"),
            since: 7,
            ..Doing::default()
        };
        let question = 1;
        Event::Message(rank, FromRank::Doing { question, doing })
    };
    let told = |actions: &[Action]| match actions {
        [Action::Reply(client, ToClient::Status(status))] => {
            let doing = status.ranks.iter().map(|rank| rank.doing.clone());
            Some((
                *client,
                doing.map(|d| d.map(|d| d.what)).collect::<Vec<_>>(),
            ))
        }
        _ => None,
    };
    let what = |rank: u32| Some(format!("in call {rank}"));
    let asked = Action::Send(ToRank::Tell {
        question: 1,
        details: Details::default(),
    });

    let mut c = job(2);
    assert_eq!(
        c.on(
            0,
            Event::AskStatus {
                client: 5,
                details: Details::default()
            }
        ),
        std::slice::from_ref(&asked)
    );
    assert!(c.busy());
    assert_eq!(c.on(10, tells(0)), []);
    assert_eq!(told(&c.on(20, tells(1))), Some((5, vec![what(0), what(1)])));
    assert!(!c.busy());

    // The wait for a rank that does not answer is limited, and a rank that dies is not waited for.
    let mut c = job(2);
    c.on(
        0,
        Event::AskStatus {
            client: 5,
            details: Details::default(),
        },
    );
    c.on(10, tells(1));
    assert_eq!(c.on(500_000, Event::Tick), []);
    assert_eq!(
        told(&c.on(1_000_000, Event::Tick)),
        Some((5, vec![None, what(1)]))
    );
    assert_eq!(c.on(1_000_010, tells(0)), [], "too late");
    let mut c = job(2);
    c.on(
        0,
        Event::AskStatus {
            client: 5,
            details: Details::default(),
        },
    );
    c.on(10, tells(1));
    assert_eq!(
        told(&c.on(20, Event::Lost(0))),
        Some((5, vec![None, what(1)]))
    );
}

#[test]
fn late_ranks_are_named_to_themselves() {
    let mut c = job(8);
    let stop = false;
    c.on(
        0,
        Event::Request {
            client: None,
            cause: Cause::Rank,
            stop,
            patience: None,
        },
    );
    c.on(0, Event::Prepared(1, Ok(partial())));
    let clocks = || FromRank::Clocks {
        epoch: 1,
        clocks: vec![],
    };
    for rank in 1..3 {
        c.on(0, Event::Message(rank, clocks()));
    }
    let limit = Config::new(8).drain_limit;
    let over = c.on(limit + 1, Event::Tick);
    let late = over.iter().find_map(|action| match action {
        Action::Send(ToRank::Resume { outcome, .. }) => Some(outcome),
        _ => None,
    });
    let Some(Outcome::Abandoned { reason, late }) = late else {
        panic!("{over:?}");
    };
    assert_eq!(late.iter().collect::<Vec<_>>(), [0, 3, 4, 5]);
    assert!(reason.contains("stasis status --trace"), "{reason}");
}

#[test]
fn a_query_for_more_details_replaces_the_one_in_progress() {
    let details = |events, stacks| Details {
        events,
        stacks,
        ..Details::default()
    };
    let asks = |client, details| Event::AskStatus { client, details };
    let tells = |rank, question| {
        let doing = Doing {
            what: "computing".to_owned(),
            events: vec!["parked".to_owned()],
            ..Doing::default()
        };
        Event::Message(rank, FromRank::Doing { question, doing })
    };
    let mut c = job(1);
    c.on(0, asks(5, details(0, WantedStacks::All)));
    let tell = |question, details| Action::Send(ToRank::Tell { question, details });
    let both = details(40, WantedStacks::All);
    assert_eq!(
        c.on(10, asks(6, details(40, WantedStacks::None))),
        [tell(2, both)]
    );
    let fewer = details(10, WantedStacks::None);
    assert_eq!(c.on(20, asks(7, fewer)), [], "it gets more than it needs");
    assert_eq!(c.on(30, tells(0, 1)), [], "an answer to the older question");
    let answered = c.on(40, tells(0, 2));
    let clients = answered.iter().map(|action| match action {
        Action::Reply(client, ToClient::Status(_)) => *client,
        other => panic!("{other:?}"),
    });
    assert_eq!(clients.collect::<Vec<_>>(), [5, 6, 7]);
}

#[test]
fn the_status_reports_the_reason_for_a_wait() {
    let mut c = job(2);
    to_saving(&mut c, 2);
    saved(&mut c, 0, None);
    let status = c.status(BTreeMap::new());
    let waiting = status.waiting.unwrap_or_default();
    assert!(waiting.starts_with("rank 1 must still write"), "{waiting}");
}
