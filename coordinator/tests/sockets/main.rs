//! The control plane over real sockets and threads, with pretended processes: what the pure machines
//! are proven to do reaches the ranks, the disk and the people who wait.

mod job;
mod star;
mod tree;
