//! The embedded store against the suite that defines a store, on memory and on real files.

mod conformance;
mod subject;
