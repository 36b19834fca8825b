//! Properties of a rank that a debugger needs: its process, and the program's files in its memory.

pub mod link_map;
