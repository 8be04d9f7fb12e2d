//! The embedded store: one directory, one process, nothing else to install.
//!
//! ```text
//!  calls ─▶ [engine thread]  memory changes, records batch up ──frame──▶ [journal thread]  write, sync
//!              ▲  answers leave when their batch is durable ◀──synced──┘
//! ```
//!
//! - [`store`] is what others see: the [`dwell_core::Store`] trait on top of two threads.
//! - `runner` is the engine's thread, `journal` the journal's; both are thin shells.
//! - `engine` has all state and does no I/O.
//! - `format` says what the files look like, `recovery` reads them back at start, `check` looks at them.
//! - `timeline` is the store's own time; [`clock`] is where it comes from.
//! - [`storage`] is the one door to files.

mod backup;
mod check;
mod dice;
mod engine;
mod format;
mod gauges;
mod journal;
mod planted;
mod recovery;
mod repair;
mod reserve;
mod runner;
mod shelf;
mod stepper;
mod timeline;

pub mod clock;
pub mod config;
pub mod storage;
pub mod store;

pub use backup::{Backup, BackupError, backup};
pub use check::{Checked, check, check_directory};
pub use config::{Config, Durability, Place};
pub use recovery::OpenError;
pub use repair::{Dropped, Repair, RepairError, RepairOptions, Repaired, repair, repair_directory};
pub use store::EmbeddedStore;
pub use timeline::ClockBehind;

#[doc(hidden)]
pub use format::fuzzing;
#[doc(hidden)]
pub use planted::Bug;
#[cfg(feature = "planted")]
#[doc(hidden)]
pub use planted::plant;
#[doc(hidden)]
pub use stepper::Stepper;
