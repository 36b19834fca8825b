//! Errors: classes and their texts, and error handlers. The handlers run here, in the upper half; in the lower half
//! every communicator returns its errors.

pub(crate) mod class;
pub(crate) mod errhandler;
pub(crate) mod raise;

pub use class::*;
pub use errhandler::*;
pub use raise::*;
