//! Keys: what they open, and for how long.

use timing_wheel::{Key, Progress, TimingWheel};

#[test]
fn a_key_opens_its_entry_until_the_entry_is_handed_out() {
    let mut wheel = TimingWheel::new(0);
    let key = wheel.insert(10, 'a');
    *wheel.get_mut(key).unwrap() = 'b';
    assert_eq!((wheel.get(key), wheel.deadline(key)), (Some(&'b'), Some(10)));
    let mut handed_out = None;
    assert_eq!(wheel.advance(10, 9, |entry| handed_out = Some(entry.key)), Progress::Done);
    assert_eq!(handed_out, Some(key));
    assert_eq!((wheel.get(key), wheel.deadline(key)), (None, None));
    assert_eq!(wheel.get_mut(key), None);
}

#[test]
fn a_stale_key_does_nothing_to_the_entry_that_took_its_place() {
    let mut wheel = TimingWheel::new(0);
    let old = wheel.insert(10, 'a');
    assert_eq!(wheel.cancel(old), Some('a'));
    let new = wheel.insert(20, 'b');
    assert_eq!(wheel.cancel(old), None);
    assert!(!wheel.reschedule(old, 5));
    assert_eq!((wheel.get(old), wheel.deadline(old)), (None, None));
    assert_eq!((wheel.get(new), wheel.deadline(new)), (Some(&'b'), Some(20)));
}

#[test]
fn a_key_of_a_larger_wheel_is_stale_here() {
    let mut large = TimingWheel::new(0);
    let keys: Vec<Key> = (0..10_000).map(|deadline| large.insert(deadline, ())).collect();
    let mut small = TimingWheel::new(0);
    small.insert(0, ());
    assert_eq!(small.cancel(keys[9_999]), None);
    assert_eq!(small.get(keys[9]), None);
}

#[test]
fn a_key_survives_being_rescheduled() {
    let mut wheel = TimingWheel::new(1_000);
    let key = wheel.insert(2_000, 'a');
    for deadline in [u64::MAX, 0, 1_001, 50_000_000, 1_000] {
        assert!(wheel.reschedule(key, deadline));
        assert_eq!((wheel.get(key), wheel.deadline(key)), (Some(&'a'), Some(deadline)));
    }
    assert_eq!(wheel.cancel(key), Some('a'));
    assert!(wheel.is_empty());
}

#[test]
fn a_key_is_eight_bytes_with_room_for_none() {
    assert_eq!(size_of::<Option<Key>>(), 8);
}

/// More entries than lie together in memory: those at the end go first, then others come.
#[test]
fn a_slot_that_was_cut_short_grows_again() {
    let mut wheel = TimingWheel::new(0);
    let keys: Vec<Key> = (0..100).map(|nth| wheel.insert(9_000, nth)).collect();
    for key in keys[20..].iter().rev() {
        assert!(wheel.cancel(*key).is_some());
    }
    for nth in 20..60 {
        wheel.insert(9_000, nth);
    }
    let mut values = Vec::new();
    assert_eq!(wheel.advance(9_000, 1_000, |entry| values.push(entry.value)), Progress::Done);
    assert!(values.into_iter().eq(0..60));
}
