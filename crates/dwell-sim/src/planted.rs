//! Bugs put in on purpose: a simulation that has never found one has shown nothing.

use dwell_store_embedded::{Bug, plant};

use crate::event::life;
use crate::world::{ON_SHELF, Wrong, live_caught};

/// How many lives it takes to find a bug, and what gave it away; `None` if that many were not enough.
pub fn find(bug: Bug, most: u64) -> Option<(u64, Wrong)> {
    plant(Some(bug));
    let first = if bug.is_of_the_shelf() { ON_SHELF } else { 0 };
    let found = (0..most).find_map(|life_of| {
        let seed = first | life_of;
        live_caught(seed, &life(seed)).err().map(|wrong| (life_of + 1, wrong))
    });
    plant(None);
    found
}
