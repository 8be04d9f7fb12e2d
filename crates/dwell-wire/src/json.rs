//! Requests read strictly: one pass over the text, values borrowed from it, every mistake named.
//!
//! A derived struct would take `[]` for an object, stop at the first mistake and lose the exact text of a body, so
//! requests are read field by field instead: [`read_object`] splits a text into the fields of an object, [`Fields`]
//! hands them out by name and notes what is wrong with each, and [`Fields::done`] refuses what nobody asked for.

mod array;
mod depth;
mod fields;
mod object;

pub use array::read_array;
pub use fields::{FieldError, Fields, unknown};
pub(crate) use fields::{shown, string};
pub use object::{Malformed, read_list, read_object};

#[cfg(test)]
mod tests;
