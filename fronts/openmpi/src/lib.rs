//! The application's MPI library in the ABI of openmpi.
