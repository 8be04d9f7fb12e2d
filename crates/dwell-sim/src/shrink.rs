//! Making a failing life short.

use crate::event::Event;
use crate::world::{Wrong, live_caught as live};

/// Lives that are tried at most.
const TRIES: usize = 4_000;

/// The shortest list of events found that still goes wrong under this seed, and how it does.
pub fn shrink(seed: u64, events: Vec<Event>) -> Option<(Vec<Event>, Wrong)> {
    let mut wrong = live(seed, &events).err()?;
    let mut events = events;
    let mut tries = 0;
    let mut chunk = events.len().div_ceil(2);
    while chunk > 0 && tries < TRIES {
        let mut start = 0;
        let mut shorter = false;
        while start < events.len() && tries < TRIES {
            let mut fewer = events.clone();
            fewer.drain(start..(start + chunk).min(events.len()));
            tries += 1;
            match live(seed, &fewer) {
                Err(still) => {
                    (events, wrong, shorter) = (fewer, still, true);
                }
                Ok(_) => start += chunk,
            }
        }
        if !shorter {
            chunk /= 2;
        }
    }
    Some((events, wrong))
}
