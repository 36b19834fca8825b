//! Reading one rank's image: verification first, then the content.

pub(crate) mod chain;
pub(crate) mod expect;
pub(crate) mod image;
pub(crate) mod load;
pub(crate) mod stored;
pub(crate) mod tables;
pub(crate) mod verify;
