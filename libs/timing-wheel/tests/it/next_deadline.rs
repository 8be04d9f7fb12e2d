//! What a caller that sleeps until `next_deadline` sees.

use timing_wheel::{Progress, TimingWheel};

#[test]
fn is_exact_on_every_level() {
    for bits in 0..64 {
        let mut wheel = TimingWheel::new(1_800_000_000_123);
        let deadline = wheel.now() + (1 << bits) / 3 * 2;
        wheel.insert(deadline, ());
        wheel.insert(deadline.saturating_add(1), ());
        assert_eq!(wheel.next_deadline(), Some(deadline));
    }
}

#[test]
fn is_now_for_an_entry_that_comes_late() {
    let mut wheel = TimingWheel::new(500);
    wheel.insert(100, ());
    assert_eq!(wheel.next_deadline(), Some(500));
    assert_eq!(wheel.advance(500, 9, drop), Progress::Done);
    assert_eq!(wheel.next_deadline(), None);
}

/// The deadline of a cancelled entry may be reported once more on each level, but no more often.
#[test]
fn a_sleeper_wakes_once_a_level_for_a_cancelled_entry_and_not_late_for_the_next() {
    let mut wheel = TimingWheel::new(0);
    let (first, second) = (1 << 40, (1 << 40) + (1 << 30));
    let key = wheel.insert(first, ());
    wheel.insert(second, ());
    wheel.cancel(key);
    let mut wakes = 0;
    let mut handed_out_at = None;
    while let Some(next) = wheel.next_deadline() {
        wakes += 1;
        assert!(wakes < 10, "spins");
        assert_eq!(wheel.advance(next, 99, |_| handed_out_at = Some(next)), Progress::Done);
    }
    assert_eq!(handed_out_at, Some(second));
    assert_eq!(wakes, 2);
}

#[test]
fn is_nothing_when_all_that_was_left_of_a_cascade_is_cancelled() {
    let mut wheel = TimingWheel::new(0);
    let keys: Vec<_> = (0..50).map(|nth| wheel.insert(5_000_000 + nth, ())).collect();
    assert_eq!(wheel.advance(4_500_000, 10, drop), Progress::More);
    assert_eq!(wheel.next_deadline(), Some(wheel.now()));
    for key in keys {
        wheel.cancel(key);
    }
    assert_eq!(wheel.next_deadline(), None);
    assert_eq!(wheel.advance(4_500_000, 0, drop), Progress::Done);
}
