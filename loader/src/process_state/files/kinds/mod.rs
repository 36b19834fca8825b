//! The kinds of open files. Each file here captures one kind and creates it again.

pub mod bytes;
pub mod deleted_file;
pub mod epoll;
pub mod eventfd_signalfd;
pub mod file_lock;
pub mod local_listener;
pub mod mapped;
pub mod pipe;
pub mod regular;
pub mod reopen_by_path;
pub mod socketpair;
pub mod stdio;
pub mod timerfd;
