//! Loads an unmodified program as the upper half and serves its system calls.
