//! What the fronts of all application ABIs share: scratch memory for converted arrays, sizes of
//! arrays that a communicator implies, translation of enumerations, and the odd function whose
//! outputs need more than a translation of their own type.

mod attribute;
mod contents;
mod convert;
mod group;
mod length;
mod numbering;
mod scratch;
mod translate;

pub use attribute::{attribute_as_integer, attribute_out, AttributeValues};
pub use contents::contents_out;
pub use convert::{f2c, map_in_place, single_status};
pub use group::LowerGroup;
pub use length::{collective_size, entries, neighbours, total};
pub use numbering::ToolFirsts;
pub use scratch::{Scratch, INLINE};
pub use translate::INVALID;

/// Error classes of the tools interface in the standard ABI.
pub mod tool {
    #![allow(missing_docs)] // the names are the standard's own

    pub const CANNOT_INIT: i32 = 1001;
    pub const NOT_ACCESSIBLE: i32 = 1002;
    pub const NOT_INITIALIZED: i32 = 1003;
    pub const NOT_SUPPORTED: i32 = 1004;
    pub const MEMORY: i32 = 1005;
    pub const INVALID: i32 = 1006;
    pub const INVALID_INDEX: i32 = 1007;
    pub const INVALID_ITEM: i32 = 1008;
    pub const INVALID_SESSION: i32 = 1009;
    pub const INVALID_HANDLE: i32 = 1010;
    pub const INVALID_NAME: i32 = 1011;
    pub const OUT_OF_HANDLES: i32 = 1012;
    pub const OUT_OF_SESSIONS: i32 = 1013;
    pub const CVAR_SET_NOT_NOW: i32 = 1014;
    pub const CVAR_SET_NEVER: i32 = 1015;
    pub const PVAR_NO_WRITE: i32 = 1016;
    pub const PVAR_NO_STARTSTOP: i32 = 1017;
    pub const PVAR_NO_ATOMIC: i32 = 1018;
}
