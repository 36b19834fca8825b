//! The layout of an image: header, sections, and the tables in them. `docs/image-format.md` describes every byte.

pub(crate) mod bytes;
pub(crate) mod chunk;
pub(crate) mod file_identity;
pub(crate) mod guard_pages;
pub(crate) mod header;
pub(crate) mod ids;
pub(crate) mod machine;
pub(crate) mod parent_pages;
pub(crate) mod region;
pub(crate) mod section;
pub(crate) mod shared_object;
pub(crate) mod zero_runs;
