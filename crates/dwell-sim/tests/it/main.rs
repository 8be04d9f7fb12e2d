//! What the simulation promises of itself, and the lives that once went wrong.

mod found;

use dwell_sim::event::{Event, life};
use dwell_sim::planted::find;
use dwell_sim::shrink::shrink;
use dwell_sim::world::{WITH_COLD_TIER, live, live_caught};
use dwell_store_embedded::{Bug, plant};

#[test]
fn the_same_seed_lives_the_same_life() {
    for seed in 0..60 {
        let (once, twice) = (live(seed, &life(seed)), live(seed, &life(seed)));
        assert_eq!(once, twice, "seed {seed}");
        assert!(once.is_ok_and(|tally| tally.answers > 0 && tally.trace != 0));
    }
}

#[test]
fn with_a_cold_tier_the_same_seed_lives_the_same_life() {
    for seed in (0..60).map(|seed| seed | WITH_COLD_TIER) {
        let (once, twice) = (live(seed, &life(seed)), live(seed, &life(seed)));
        assert_eq!(once, twice, "seed {seed}");
        assert!(once.is_ok_and(|tally| tally.answers > 0 && tally.trace != 0));
    }
}

#[test]
fn two_seeds_live_two_lives() {
    assert_ne!(live(1, &life(1)).unwrap().trace, live(2, &life(2)).unwrap().trace);
}

#[test]
fn every_planted_bug_is_found() {
    for bug in Bug::ALL {
        assert!(find(*bug, 1_000).is_some(), "{bug:?} was not found");
    }
}

#[test]
fn a_job_handed_out_early_is_called_early() {
    let (_, wrong) = find(Bug::EarlyByOne, 1_000).unwrap();
    assert!(wrong.0.contains("early: "), "{wrong:?}");
}

#[test]
fn a_failing_life_is_made_short_and_still_fails() {
    plant(Some(Bug::SkippedSync));
    let (seed, events) =
        (0..100).map(|seed| (seed, life(seed))).find(|(seed, events)| live_caught(*seed, events).is_err()).unwrap();
    let (short, wrong) = shrink(seed, events.clone()).unwrap();
    plant(None);
    assert!(short.len() <= 6 && short.len() < events.len(), "{short:?}");
    assert!(short.iter().any(|event| matches!(event, Event::Cut(_))), "a skipped sync needs a power cut to show");
    assert!(wrong.0.contains("lost") || wrong.0.contains("start"), "{wrong:?}");
}
