//! The proxy MPI program: the real MPI library, the checkpoint agent, and the upper half's host.

fn main() {}
