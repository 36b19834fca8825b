//! Brings an upper half back into a fresh lower half.
