//! Groups, communicators and topologies: the functions of MPI. `construct` has what all constructors of communicators
//! share, `agreement` those that are collective over the new communicator's members only.

mod agreement;
mod cart;
pub(crate) mod construct;
mod dist_graph;
mod dup;
pub(crate) mod free;
mod from_group;
mod graph;
mod group;
mod intercomm;
pub(crate) mod lower_group;
pub(crate) mod numbers;
mod query;
mod split;
mod topology;

pub use cart::*;
pub use dist_graph::*;
pub use dup::*;
pub use free::{comm_disconnect, comm_free};
pub use from_group::*;
pub use graph::*;
pub use group::*;
pub use intercomm::*;
pub use query::*;
pub use split::*;
pub use topology::topo_test;
