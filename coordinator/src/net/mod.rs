//! The control plane: connections between ranks, relays, the coordinator and the commands.

pub mod addresses;
pub mod aggregate;
pub(crate) mod children;
pub mod contact;
pub mod frame;
pub(crate) mod listener;
pub mod relay;
pub(crate) mod routes;
pub(crate) mod socket;
pub mod stream;
pub mod tree;
