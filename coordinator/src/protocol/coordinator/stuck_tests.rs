use super::tests::{job, partial};
use super::*;
use crate::protocol::messages::Activity;

const SECOND: Time = 1_000_000;

/// A checkpoint on its way, which rank 0 of two has nothing against.
fn on_its_way(client: Option<ClientId>, stop: bool, patience: Option<Time>) -> Coordinator {
    let mut c = job(2);
    c.on(
        0,
        Event::Request {
            client,
            cause: Cause::Command,
            stop,
            patience,
        },
    );
    c.on(0, Event::Prepared(1, Ok(partial())));
    for rank in 0..2 {
        let clocks = vec![];
        c.on(
            0,
            Event::Message(rank, FromRank::Clocks { epoch: 1, clocks }),
        );
    }
    c.on(0, state(0, false));
    c
}

fn state(rank: u32, held: bool) -> Event {
    let state = State {
        epoch: 1,
        version: 1,
        reached: !held && rank == 0,
        held,
        activity: Activity::Running,
    };
    Event::Message(rank, FromRank::State(state))
}

/// The question for a stack in these actions.
fn stack_question(actions: &[Action]) -> Option<u64> {
    actions.iter().find_map(|action| match action {
        Action::Tell(
            1,
            ToRank::Tell {
                question,
                details:
                    Details {
                        stacks: WantedStacks::Stuck,
                        ..
                    },
            },
        ) => Some(*question),
        _ => None,
    })
}

fn answers(question: u64) -> Event {
    let doing = Doing {
        what: "in MPI_File_write_at".into(),
        stack: vec![
            "thread 7: in the system call fcntl".into(),
            "#0 main".into(),
        ],
        ..Doing::default()
    };
    Event::Message(1, FromRank::Doing { question, doing })
}

/// The rank that is late answers every question but those for a stack, until a time.
fn alive(c: &mut Coordinator, from: Time, to: Time) -> Vec<Action> {
    let mut actions = vec![];
    for now in (from..=to).step_by(SECOND as usize) {
        let done = c.on(now, Event::Tick);
        for action in &done {
            if let Action::Tell(
                rank,
                ToRank::Tell {
                    question,
                    details:
                        Details {
                            stacks: WantedStacks::None,
                            ..
                        },
                },
            ) = action
            {
                let doing = Doing {
                    what: "computing".into(),
                    ..Doing::default()
                };
                let question = *question;
                c.on(
                    now,
                    Event::Message(*rank, FromRank::Doing { question, doing }),
                );
            }
        }
        actions.extend(done);
    }
    actions
}

/// Lets rank 1 be stuck for the whole patience; the actions at the end.
fn give_up(c: &mut Coordinator, patience: Time) -> Vec<Action> {
    c.on(SECOND, state(1, true));
    let asked = alive(c, 2 * SECOND, SECOND + patience);
    let question = stack_question(&asked).expect("the stack is asked for");
    let mut actions = c.on(SECOND + patience, answers(question));
    // The kernel has restarted the interrupted call.
    actions.extend(c.on(SECOND + patience, state(1, false)));
    actions.extend(c.on(2 * SECOND + patience, Event::Tick));
    actions
}

fn reason(actions: &[Action]) -> Option<&str> {
    actions.iter().find_map(|action| match action {
        Action::Over(Err(reason)) => Some(reason.as_str()),
        _ => None,
    })
}

#[test]
fn a_stuck_rank_is_named_with_its_call_and_stack() {
    let mut c = on_its_way(Some(5), false, None);
    let actions = give_up(&mut c, 60 * SECOND);
    let why = reason(&actions).expect("it is given up").to_owned();
    for words in [
        "rank 1 (process 101 on n) has been stuck in MPI_File_write_at for 60 s",
        "\n    thread 7: in the system call fcntl\n    #0 main\n",
        "--patience",
    ] {
        assert!(why.contains(words), "{why}");
    }
    let failed = Action::Reply(5, ToClient::Late(why.clone()));
    assert!(actions.contains(&failed));
    let resumed = |action: &Action| matches!(action, Action::Send(ToRank::Resume { epoch: 1, .. }));
    assert!(actions.iter().any(resumed));
    // The user was told, and decides.
    assert!(!actions
        .iter()
        .any(|action| matches!(action, Action::Again { .. })));
    assert_eq!(c.status(BTreeMap::new()).failure, Some(why));
    let asks = Event::Request {
        client: Some(6),
        cause: Cause::Command,
        stop: false,
        patience: None,
    };
    assert_eq!(c.on(90 * SECOND, asks), [Action::Prepare(2)]);
}

#[test]
fn ranks_that_compute_are_waited_for() {
    let mut c = on_its_way(Some(5), false, None);
    c.on(SECOND, state(1, false));
    assert_eq!(reason(&alive(&mut c, SECOND, 600 * SECOND)), None);
    // A call that returns in time starts no count, and ends one.
    c.on(600 * SECOND, state(1, true));
    alive(&mut c, 601 * SECOND, 640 * SECOND);
    c.on(640 * SECOND, state(1, false));
    c.on(641 * SECOND, state(1, true));
    assert_eq!(reason(&alive(&mut c, 642 * SECOND, 699 * SECOND)), None);
}

#[test]
fn a_rank_that_does_not_answer_is_stuck() {
    let mut c = on_its_way(Some(5), false, Some(8 * SECOND));
    c.on(SECOND, state(1, false));
    let mut actions = vec![];
    for now in 2..12 {
        actions.extend(c.on(now * SECOND, Event::Tick));
    }
    let why = reason(&actions).expect("it is given up");
    assert!(
        why.contains("rank 1 (process 101 on n) has not answered for 9 s"),
        "{why}"
    );
    assert_eq!(stack_question(&actions), None);
}

#[test]
fn what_no_command_waits_for_is_tried_again() {
    let mut c = on_its_way(None, false, None);
    let actions = give_up(&mut c, 60 * SECOND);
    assert!(actions.contains(&Action::Again { stop: false }));
    // A request that ends the job keeps its command.
    let mut c = on_its_way(Some(5), true, Some(3 * SECOND));
    let actions = give_up(&mut c, 3 * SECOND);
    assert!(actions.contains(&Action::Again { stop: true }));
    let noted = |action: &Action| matches!(action, Action::Reply(5, ToClient::Note(_)));
    assert!(actions.iter().any(noted));
    assert_eq!(c.stage(), crate::protocol::state::Stage::Idle);
    let again = Event::Request {
        client: None,
        cause: Cause::Rank,
        stop: true,
        patience: None,
    };
    assert_eq!(c.on(20 * SECOND, again), [Action::Prepare(2)]);
    let lost = c.on(21 * SECOND, Event::Lost(1));
    let failed = |action: &Action| matches!(action, Action::Reply(5, ToClient::Failed(_)));
    assert!(lost.iter().any(failed));
}
