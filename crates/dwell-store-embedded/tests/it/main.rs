//! The embedded store against the suite that defines a store, and against what disks and operators do to it.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

mod ahead;
mod backup;
mod bad_places;
mod conformance;
mod corruption;
mod crashes;
mod damage;
mod failing;
mod failing_reads;
mod faulty;
mod full_disk;
mod hidden_job;
mod kill;
mod overtaking;
mod pressure;
mod promotions;
mod refusals;
mod restart;
mod sizes;
mod stalled;
mod stuck_disk;
mod subject;
mod world;
