//! The embedded store: one directory, one process, nothing else to install.
//!
//! ```text
//!  calls ─▶ [engine thread]  memory changes, records batch up ──frame──▶ [journal thread]  write, sync (write-ahead log)
//!              ▲  │  ▲            answers leave when their batch is durable ◀──synced──┘
//!   rows read  │  │  └── run written ── [compactor thread]  flush, compaction   (cold tier: an LSM tree)
//!              └─ [reader thread]
//! ```
//!
//! - [`store`]: the [`dwell_core::Store`] trait; starts the threads. [`config`]: its settings.
//! - `runner`: the engine thread's loop. `stepper`: the same without threads, one step at a time, for the simulator.
//! - `engine`: all state, no I/O. `gauges`: what is measured there.
//! - `journal`: the journal thread: the write-ahead log, its segments, the manifest.
//! - `cold`: the cold tier's files, and the compactor.
//! - `format`: the layout of every file. `storage`: the one door to files. `disk_space`: what happens when the disk is full.
//! - `recovery`: a start. `check`: looks at a directory. `repair`: salvages a damaged one. `backup`: copies one in use.
//! - `timeline`: the store's own time. [`clock`]: where it comes from. `dice`: random numbers.
//! - `sim_bugs`: bugs that the simulator plants to show that it finds them.

mod backup;
mod check;
mod cold;
mod dice;
mod disk_space;
mod engine;
mod format;
mod gauges;
mod journal;
mod recovery;
mod repair;
mod runner;
mod sim_bugs;
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
pub use sim_bugs::Bug;
#[cfg(feature = "planted")]
#[doc(hidden)]
pub use sim_bugs::plant;
#[doc(hidden)]
pub use stepper::Stepper;
