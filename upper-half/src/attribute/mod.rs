//! Attributes: keyvals with the application's callbacks, and what is cached under them on communicators, datatypes and
//! windows. All of it lives in the upper half.

pub(crate) mod access;
pub(crate) mod callbacks;
pub(crate) mod keyval;
pub(crate) mod predefined;

pub use crate::object::attributes::{CopyProxy, DeleteProxy, Form, Proxies, FIRST_KEYVAL};
pub use access::*;
pub use keyval::*;
