//! The set of all ranks' images: its directory, its manifest, and the directory of all sets.

pub(crate) mod archive;
pub(crate) mod attempts;
mod claim;
pub(crate) mod compact;
pub(crate) mod image_set;
pub(crate) mod lineage;
pub(crate) mod list;
pub(crate) mod local_storage;
pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod retention;
pub(crate) mod seal;
pub(crate) mod set_writer;
