//! Slots of the functions whose calls are written with an outcome only. `build.rs` generates them from the table.

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
