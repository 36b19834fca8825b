//! The control plane over real sockets and threads, with simulated processes. The actions of the pure
//! machines reach the ranks, the disk and the waiting users.

mod job;
mod star;
mod tree;
