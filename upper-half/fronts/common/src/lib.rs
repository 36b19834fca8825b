//! Code that the fronts of all application ABIs share: the module of generated functions, the library's constructor,
//! scratch memory for converted arrays, lengths of arrays that a communicator implies, translation of enumerations,
//! and the unit tests of a front's conversions.

mod array_length;
mod attribute;
mod convert;
mod data_symbol;
mod error_class;
mod library;
mod lower_group;
mod scratch;
pub mod shared_values;
mod special_values;
mod testing;
mod tool_values;
mod translate;
mod type_contents;
mod world;

pub use array_length::{block, collective_size, entries, listed_block, neighbours, total};
pub use attribute::{attribute_as_integer, attribute_out, AttributeValues};
pub use convert::{f2c, map_in_place, single_status};
pub use data_symbol::DataSymbol;
pub use error_class::{class_out, tool};
pub use library::on_unload;
pub use lower_group::LowerGroup;
pub use scratch::{Scratch, INLINE};
pub use tool_values::ToolFirsts;
pub use translate::INVALID;
pub use type_contents::contents_out;
pub use world::{raise_type, world};
