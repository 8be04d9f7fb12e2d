//! Bugs put in on purpose: a simulation that has never found one has shown nothing.

use dwell_store_embedded::{Bug, plant};

use crate::event::life;
use crate::world::{Wrong, live_caught};

/// How many lives it takes to find a bug, and what gave it away; `None` if that many were not enough.
pub fn find(bug: Bug, most: u64) -> Option<(u64, Wrong)> {
    plant(Some(bug));
    let found = (0..most).find_map(|seed| live_caught(seed, &life(seed)).err().map(|wrong| (seed + 1, wrong)));
    plant(None);
    found
}
