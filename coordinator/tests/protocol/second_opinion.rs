//! A check of our own explorer. The model checker `stateright` visits the same states of the same machines
//! and comes to the same verdict. Ours serves for the many programs of `all_programs.rs`: it finds
//! checkpoints that go on for ever, which `stateright` does not look for. It also needs no threads and no
//! copy of the path for every state.

use crate::simulator::enumerate::{programs, Collectives, Messages, Scope};
use crate::simulator::explore::explore;
use crate::simulator::program::Program;
use crate::simulator::{Move, Variant, World};
use stateright::{Checker, Model, Property};

const SAFE: &str = "nothing goes wrong";

struct Checked {
    program: Program,
    variant: Variant,
}

impl Model for Checked {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.program, self.variant, 1).normalized(&self.program)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Move>) {
        let next = world.successors(&self.program).unwrap_or_default();
        actions.extend(next.into_iter().map(|(m, _)| m));
    }

    fn next_state(&self, world: &World, m: Move) -> Option<World> {
        world.after(&self.program, m)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(
            SAFE,
            |checked: &Checked, world: &World| world.successors(&checked.program).is_ok(),
        )]
    }
}

#[test]
fn stateright_visits_the_same_states_and_agrees() {
    let scope = Scope {
        ranks: 2,
        comms: 2,
        events: 2,
        messages: Messages::One,
        collectives: Collectives::All,
    };
    let mut wrong = 0;
    for program in programs(scope) {
        for variant in [Variant::OURS, Variant::PER_GROUP] {
            let ours = explore(&program, variant, 1);
            let program = program.clone();
            let theirs = Checked { program, variant }.checker().spawn_dfs().join();
            assert_eq!(ours.wrong.is_some(), theirs.discovery(SAFE).is_some());
            match ours.wrong {
                // Neither checker continues after a failure.
                Some(_) => wrong += 1,
                None => assert_eq!(ours.states, theirs.unique_state_count()),
            }
        }
    }
    assert!(wrong > 0, "the published variant fails somewhere");
}
