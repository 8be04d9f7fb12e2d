//! The verbs of the store, one file a family.

mod change;
mod lease;
mod look;
mod put;
mod redrive;
mod settle;
mod topics;

pub(crate) use lease::Attempt;
pub(crate) use put::Puts;
pub(crate) use settle::Acks;
pub(crate) use topics::read_names;
