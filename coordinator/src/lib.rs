//! The checkpoint protocol as pure state machines, and the control plane that carries it.
