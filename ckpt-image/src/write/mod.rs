//! Writing one rank's image.

pub(crate) mod compress;
pub(crate) mod write_behind;
pub(crate) mod writer;
