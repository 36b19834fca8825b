//! The installed parts of Stasis: fronts, lower halves and sources.

pub mod layout;
pub mod lower_registry;
pub mod standard_library;
