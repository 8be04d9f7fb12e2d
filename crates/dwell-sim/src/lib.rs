//! Deterministic simulation of the embedded store.
//!
//! One seed is one life of a store: its engine and journal, unchanged, in one thread, on a disk that loses and fails and
//! a clock that is set, with clients that use every verb. A shadow — the testkit's model — predicts every answer and,
//! after every crash, what must be there. The same seed gives the same life, so a failing one can be looked at for as
//! long as it takes.
//!
//! - [`chance`], [`clock`], [`disk`]: where numbers, time and files come from.
//! - [`event`]: what can happen; a life is a list of events made from a seed.
//! - [`request`]: what clients ask, of the store and of the model.
//! - [`shadow`]: what must be true; [`same`]: when two answers are the same.
//! - [`world`]: lives it, and checks.
//! - [`shrink`]: makes a failing life short.
//! - [`planted`]: bugs put in on purpose, and how many lives it takes to find each; [`named`]: lives that show what few do.

pub mod chance;
pub mod clock;
pub mod disk;
pub mod event;
pub mod named;
pub mod planted;
pub mod request;
pub mod same;
pub mod shadow;
pub mod shrink;
pub mod world;
