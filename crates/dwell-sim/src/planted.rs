//! Bugs put in on purpose: a simulation that has never found one has shown nothing.

use dwell_store_embedded::{Bug, plant};

use crate::event::life;
use crate::named::life_of;
use crate::world::{WITH_COLD_TIER, Wrong, live_caught};

/// How many lives it takes to find a bug, and what gave it away; `None` if that many were not enough. One that hardly any
/// life shows is looked for in the one that is known to show it.
pub fn find(bug: Bug, most: u64) -> Option<(u64, Wrong)> {
    plant(Some(bug));
    if let Some((seed, events)) = life_of(bug) {
        let wrong = live_caught(seed, &events).err();
        plant(None);
        return wrong.map(|wrong| (1, wrong));
    }
    let first = if bug.is_of_the_cold_tier() { WITH_COLD_TIER } else { 0 };
    let found = (0..most).find_map(|life_of| {
        let seed = first | life_of;
        live_caught(seed, &life(seed)).err().map(|wrong| (life_of + 1, wrong))
    });
    plant(None);
    found
}
