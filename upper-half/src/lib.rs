//! What the application sees as its MPI library: virtual objects, messages, the safe state.
