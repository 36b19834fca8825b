//! What a debugger needs to know about a rank of a job: its process, and the program's files in its memory.

pub mod link_map;
pub mod rank_process;
