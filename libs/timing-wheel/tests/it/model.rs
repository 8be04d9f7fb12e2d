//! Random calls on the wheel and on a sorted map, which must agree after every one of them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use timing_wheel::{Expired, Key, Progress, TimingWheel};

/// Times are offsets from the wheel's now, so that shrinking keeps them meaningful.
#[derive(Clone, Copy, Debug)]
enum When {
    Ago(u64),
    In(u64),
    Exactly(u64),
}

#[derive(Clone, Debug)]
enum Call {
    Insert(When),
    InsertMany(When, u64),
    Cancel(prop::sample::Index),
    Reschedule(prop::sample::Index, When),
    Advance(When, usize),
    /// Past everything that is near, a little at a time.
    Finish(When, usize),
}

fn when() -> impl Strategy<Value = When> {
    let magnitude = (0_u32..64, any::<u64>()).prop_map(|(shift, any)| any >> shift);
    prop_oneof![
        8 => magnitude.clone().prop_map(When::In),
        4 => (0_u64..5_000).prop_map(When::In),
        2 => (0_u64..3).prop_map(When::In),
        1 => (0_u64..3).prop_map(When::Ago),
        1 => magnitude.prop_map(When::Ago),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(u64::MAX - 1)].prop_map(When::Exactly),
    ]
}

/// Deadlines are of all magnitudes. The wheel moves in smaller steps, or it would soon be at the
/// end of time.
fn step() -> impl Strategy<Value = When> {
    let magnitude = (28_u32..64, any::<u64>()).prop_map(|(shift, any)| any >> shift);
    prop_oneof![
        40 => magnitude.prop_map(When::In),
        20 => (0_u64..3_000).prop_map(When::In),
        4 => (0_u64..3).prop_map(When::Ago),
        1 => (40_u32..63).prop_map(|bits| When::In(1 << bits)),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let small_budget = prop_oneof![0_usize..4, 0_usize..40, Just(1000)];
    prop_oneof![
        6 => when().prop_map(Call::Insert),
        3 => (when(), 0_u64..60).prop_map(|(when, count)| Call::InsertMany(when, count)),
        3 => any::<prop::sample::Index>().prop_map(Call::Cancel),
        3 => (any::<prop::sample::Index>(), when()).prop_map(|(key, when)| Call::Reschedule(key, when)),
        6 => (step(), small_budget).prop_map(|(when, budget)| Call::Advance(when, budget)),
        2 => (step(), 1_usize..50).prop_map(|(when, budget)| Call::Finish(when, budget)),
    ]
}

/// The wheel beside a map that says what it should hold.
struct Pair {
    wheel: TimingWheel<u64>,
    /// By key: the deadline, the time at which the entry counts as due, the value.
    live: BTreeMap<Key, (u64, u64, u64)>,
    due: BTreeSet<(u64, Key)>,
    /// Every key ever made.
    keys: Vec<Key>,
}

impl Pair {
    fn new(now: u64) -> Self {
        let wheel = TimingWheel::new(now);
        Self { wheel, live: BTreeMap::new(), due: BTreeSet::new(), keys: Vec::new() }
    }

    fn time(&self, when: When) -> u64 {
        match when {
            When::Ago(ms) => self.wheel.now().saturating_sub(ms),
            When::In(ms) => self.wheel.now().saturating_add(ms),
            When::Exactly(ms) => ms,
        }
    }

    fn call(&mut self, call: &Call) {
        match *call {
            Call::Insert(when) => self.insert(self.time(when)),
            Call::InsertMany(when, count) => {
                for nth in 0..count {
                    self.insert(self.time(when).saturating_add(nth / 4));
                }
            }
            Call::Cancel(key) if !self.keys.is_empty() => self.cancel(*key.get(&self.keys)),
            Call::Reschedule(key, when) if !self.keys.is_empty() => {
                self.reschedule(*key.get(&self.keys), self.time(when));
            }
            Call::Cancel(_) | Call::Reschedule(..) => {}
            Call::Advance(when, budget) => {
                let _ = self.advance(self.time(when), budget);
            }
            Call::Finish(when, budget) => {
                let now = self.time(when);
                while self.advance(now, budget) == Progress::More {}
            }
        }
        self.check();
    }

    fn insert(&mut self, deadline: u64) {
        let value = self.keys.len() as u64;
        let key = self.wheel.insert(deadline, value);
        assert!(!self.keys.contains(&key), "{key:?} is used twice");
        self.keys.push(key);
        self.enter(key, deadline, value);
    }

    fn enter(&mut self, key: Key, deadline: u64, value: u64) {
        let due = deadline.max(self.wheel.now());
        self.live.insert(key, (deadline, due, value));
        self.due.insert((due, key));
    }

    fn leave(&mut self, key: Key) -> Option<u64> {
        let (_, due, value) = self.live.remove(&key)?;
        self.due.remove(&(due, key));
        Some(value)
    }

    fn cancel(&mut self, key: Key) {
        assert_eq!(self.wheel.cancel(key), self.leave(key));
    }

    fn reschedule(&mut self, key: Key, deadline: u64) {
        let value = self.leave(key);
        assert_eq!(self.wheel.reschedule(key, deadline), value.is_some());
        if let Some(value) = value {
            self.enter(key, deadline, value);
        }
    }

    fn advance(&mut self, now: u64, budget: usize) -> Progress {
        let before = self.wheel.now();
        let mut expired = Vec::new();
        let progress = self.wheel.advance(now, budget, |entry| expired.push(entry));
        assert!(expired.len() <= budget);
        for Expired { key, deadline, value } in expired {
            let &(due, _) = self.due.first().expect("an entry that the map has not");
            let (expected_deadline, expected_due, _) = self.live[&key];
            assert_eq!(expected_due, due, "out of order");
            assert!(due <= now, "early");
            assert_eq!(deadline, expected_deadline);
            assert_eq!(self.leave(key), Some(value));
        }
        match progress {
            Progress::Done if now >= before => {
                assert_eq!(self.wheel.now(), now);
                assert!(self.due.first().is_none_or(|&(due, _)| due > now), "missed");
                assert!(self.wheel.next_deadline().is_none_or(|next| next > now), "spins");
            }
            Progress::Done => assert_eq!(self.wheel.now(), before, "turned back"),
            Progress::More => {
                assert!(now >= before && (before..=now).contains(&self.wheel.now()));
            }
        }
        progress
    }

    fn check(&self) {
        assert_eq!(self.wheel.len(), self.live.len());
        assert_eq!(self.wheel.is_empty(), self.live.is_empty());
        let earliest = self.due.first().map(|&(due, _)| due);
        let next = self.wheel.next_deadline();
        assert_eq!(next.is_some(), earliest.is_some());
        assert!(next <= earliest, "{next:?} is later than {earliest:?}");
        let mut all: Vec<_> = self.wheel.iter().map(|(key, deadline, &value)| (key, deadline, value)).collect();
        all.sort_unstable();
        let expected = self.live.iter().map(|(&key, &(deadline, _, value))| (key, deadline, value));
        assert!(all.into_iter().eq(expected), "iterates over something else");
        for key in self.keys.iter().step_by(1 + self.keys.len() / 16) {
            let live = self.live.get(key);
            assert_eq!(self.wheel.get(*key), live.map(|(_, _, value)| value));
            assert_eq!(self.wheel.deadline(*key), live.map(|&(deadline, _, _)| deadline));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_sorted_map(
        start in prop_oneof![Just(0), Just(1_800_000_000_000), any::<u64>()],
        calls in prop::collection::vec(call(), 1..120),
    ) {
        let mut pair = Pair::new(start);
        for call in &calls {
            pair.call(call);
        }
        while pair.advance(u64::MAX, 7) == Progress::More {}
        pair.check();
        prop_assert!(pair.live.is_empty());
    }

    /// As long as nothing is taken out ahead of time, and no call stops half-way.
    #[test]
    fn next_deadline_is_exact_while_entries_leave_only_when_due(
        inserts in prop::collection::vec((when(), step()), 1..80),
    ) {
        let mut pair = Pair::new(1_800_000_000_000);
        for (when, step) in inserts {
            pair.insert(pair.time(when));
            let now = pair.time(step);
            prop_assert_eq!(pair.advance(now, usize::MAX), Progress::Done);
            let earliest = pair.due.first().map(|&(due, _)| due);
            prop_assert_eq!(pair.wheel.next_deadline(), earliest);
        }
    }
}
