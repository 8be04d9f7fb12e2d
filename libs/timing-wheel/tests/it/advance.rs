//! Handing out what is due: in order, in time, and never too much at once.

use std::collections::BTreeSet;

use timing_wheel::{Pop, Progress, TimingWheel};

fn run(wheel: &mut TimingWheel<u64>, now: u64) -> Vec<u64> {
    let mut values = Vec::new();
    assert_eq!(wheel.advance(now, usize::MAX, |entry| values.push(entry.value)), Progress::Done);
    values
}

/// The example of the crate's documentation, one level a deadline.
#[test]
fn three_levels_come_out_in_deadline_order() {
    let mut wheel = TimingWheel::new(0);
    for deadline in [5_000_000, 2_500, 7] {
        wheel.insert(deadline, deadline);
    }
    assert_eq!(run(&mut wheel, 6), []);
    assert_eq!(run(&mut wheel, 2_499), [7]);
    assert_eq!(run(&mut wheel, 2_500), [2_500]);
    assert_eq!(run(&mut wheel, 4_999_999), []);
    assert_eq!(run(&mut wheel, 5_000_000), [5_000_000]);
}

#[test]
fn entries_of_one_millisecond_come_out_in_the_order_they_went_in() {
    let mut wheel = TimingWheel::new(0);
    for value in 0..100_000 {
        wheel.insert(9_999_999, value);
    }
    assert!(run(&mut wheel, 10_000_000).into_iter().eq(0..100_000));
}

#[test]
fn an_entry_that_comes_late_is_due_at_once() {
    let mut wheel = TimingWheel::new(100);
    wheel.insert(0, 1);
    wheel.insert(99, 2);
    wheel.insert(100, 3);
    wheel.insert(101, 4);
    assert_eq!(run(&mut wheel, 100), [1, 2, 3]);
}

#[test]
fn time_does_not_run_backwards() {
    let mut wheel = TimingWheel::new(100);
    wheel.insert(90, 1);
    assert_eq!(run(&mut wheel, 99), []);
    assert_eq!(wheel.now(), 100);
    assert_eq!(run(&mut wheel, 100), [1]);
}

/// From one end of time to the other there are as many stops as levels.
#[test]
fn empty_stretches_cost_nothing() {
    let mut wheel = TimingWheel::new(0);
    wheel.insert(u64::MAX, ());
    let mut budget = 100;
    assert!(matches!(wheel.pop(u64::MAX, &mut budget), Pop::Expired(_)));
    assert!(100 - budget <= 11, "{} units", 100 - budget);
    assert_eq!(wheel.pop(u64::MAX, &mut budget), Pop::Nothing);
}

/// Each of the entries is moved twice and handed out once, which is three units.
#[test]
fn a_call_does_no_more_than_its_budget() {
    const ENTRIES: usize = 10_000;
    const BUDGET: usize = 100;
    let mut wheel = TimingWheel::new(0);
    for nth in 0..ENTRIES {
        wheel.insert(5_000_000 + nth as u64 % 1_000, ());
    }
    let mut calls_before_the_first = 0;
    let mut calls = 0;
    let mut handed_out = 0;
    loop {
        let before = handed_out;
        let progress = wheel.advance(u64::MAX, BUDGET, |_| handed_out += 1);
        assert!(handed_out - before <= BUDGET);
        calls += 1;
        calls_before_the_first += usize::from(handed_out == 0);
        if progress == Progress::Done {
            break;
        }
    }
    assert_eq!(handed_out, ENTRIES);
    assert!(calls_before_the_first >= ENTRIES / BUDGET, "{calls_before_the_first} calls");
    assert!((3 * ENTRIES / BUDGET..=4 * ENTRIES / BUDGET).contains(&calls), "{calls} calls");
}

#[test]
fn a_budget_of_nothing_does_nothing() {
    let mut wheel = TimingWheel::new(0);
    wheel.insert(5, 1);
    assert_eq!(wheel.advance(9, 0, |_| panic!("handed out for free")), Progress::More);
    assert_eq!(wheel.advance(4, 0, |_| panic!("handed out for free")), Progress::Done);
    assert_eq!(run(&mut wheel, 5), [1]);
}

/// Half of a slot has been moved down when entries are added, cancelled and moved on both sides.
#[test]
fn a_cascade_can_be_interrupted_by_anything() {
    let mut wheel = TimingWheel::new(0);
    let keys: Vec<_> = (0..100).map(|nth| wheel.insert(5_000_000 + nth, nth)).collect();
    assert_eq!(wheel.advance(4_999_999, 51, |_| panic!("early")), Progress::More);
    for nth in [10, 90] {
        assert_eq!(wheel.cancel(keys[nth]), Some(nth as u64));
    }
    for (nth, deadline) in [(20, 5_000_099), (80, 5_000_000), (30, 9_000_000), (70, 1)] {
        assert!(wheel.reschedule(keys[nth], deadline));
    }
    wheel.insert(5_000_050, 1_000);
    wheel.insert(0, 1_001);
    assert_eq!(run(&mut wheel, 4_999_999), [70, 1_001]);
    let others = run(&mut wheel, 5_000_099);
    assert_eq!(others[..2], [0, 80]);
    assert!(others[95..] == [20, 99] || others[95..] == [99, 20]);
    let expected = (0..100).filter(|nth| ![10, 90, 30, 70].contains(nth)).chain([1_000]);
    assert!(others.iter().copied().collect::<BTreeSet<_>>().into_iter().eq(expected));
    assert_eq!(run(&mut wheel, u64::MAX), [30]);
}
