//! The stubs that take objects. Each reads the lower handles of its objects in the crossing itself. `build.rs`
//! generates them from the table.
//!
//! A function is safe if it takes nothing but objects, numbers, strings, places for handles and numbers, and arrays of
//! numbers whose length another argument says: the library below checks these itself. It gives MPI_ERR_ARG for an array
//! that is too short.
//!
//! # Safety
//! As for [`crate::crossing::stubs`].
#![allow(unsafe_code)]
#![allow(non_snake_case, missing_docs, clippy::too_many_arguments)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::{Below, Room};
use crate::argument::{Input, Output};
use crate::crossing::stubs;
use crate::object::CommBody;
use crate::object::DatatypeBody;
use crate::object::ErrhandlerBody;
use crate::object::FileBody;
use crate::object::GroupBody;
use crate::object::InfoBody;
use crate::object::MessageBody;
use crate::object::OpBody;
use crate::object::RequestBody;
use crate::object::SessionBody;
use crate::object::WinBody;
use contract::abi::{Status, ERR_ARG};
use core::ffi::{c_char, c_void, CStr};

include!(concat!(env!("OUT_DIR"), "/named.rs"));
