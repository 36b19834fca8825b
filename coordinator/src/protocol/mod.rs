//! The checkpoint protocol: its messages, and the two pure state machines.

pub mod coordinator;
pub(crate) mod messages;
pub mod rank;
pub mod rank_set;
pub mod region_assignment;
pub(crate) mod state;
pub(crate) mod unpark;
pub(crate) mod waits;
pub(crate) mod wording;

pub use messages::*;
pub use state::{RankState, Stage};
pub use waits::{Entered, RankWaits, Tag, ThreadWaits, Unasked, Wait};
