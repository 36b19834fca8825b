//! The parts of the control plane that run in this process.

use std::sync::OnceLock;

use coordinator::agent::Agent;
use coordinator::net::relay::Relay;
use coordinator::server::Server;

/// The coordinator, in rank 0.
pub static SERVER: OnceLock<Server> = OnceLock::new();
/// The relay, in some ranks of a large job.
pub static RELAY: OnceLock<Relay> = OnceLock::new();
/// The agent, in every rank that is connected.
pub static AGENT: OnceLock<Agent> = OnceLock::new();
