//! Calls that name jobs in the cold tier.

use std::sync::Arc;
use std::time::Duration;

use dwell_bench::program::progress;
use dwell_bench::random::SplitMix64;
use dwell_core::{CancelItem, Change, ChangeItem, Delay, Lookup, Store, When};

use super::{Args, SOONEST};
use crate::world::{now, rate};

/// Into so many classes jobs are divided: what one round cancels another does not look for.
const CLASSES: u64 = 8;

/// What callers do to jobs that wait.
#[derive(Clone, Copy)]
pub(super) enum Call {
    Get,
    Move,
    Cancel,
}

impl Call {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "look-ups",
            Self::Move => "moves",
            Self::Cancel => "cancels",
        }
    }
}

/// Who calls, how often each, and which jobs: equal rounds name equal jobs.
#[derive(Clone, Copy)]
pub(super) struct Round {
    pub(super) callers: u64,
    pub(super) calls: u64,
    pub(super) class: u64,
}

impl Round {
    fn random(self, caller: u64) -> SplitMix64 {
        SplitMix64::new(caller + 1_000 * self.class)
    }

    fn job(self, random: &mut SplitMix64, jobs: u64) -> u64 {
        random.below((jobs / CLASSES).max(1)) * CLASSES + self.class
    }
}

/// Callers, each one call after the other, of jobs chosen at random; calls a second, and how long each took.
pub(super) async fn round(
    store: &Arc<dyn Store>,
    what: Call,
    round: Round,
    jobs: u64,
    args: Args,
) -> (f64, Vec<Duration>) {
    progress(&format!("{} of {} callers", what.name(), round.callers));
    let begun = now();
    let callers: Vec<_> = (0..round.callers)
        .map(|caller| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                let mut random = round.random(caller);
                let mut took = Vec::new();
                for _ in 0..round.calls {
                    let job = round.job(&mut random, jobs);
                    let one = now();
                    call(&*store, what, args, job).await;
                    took.push(one.elapsed());
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for caller in callers {
        took.extend(caller.await.expect("no caller panics"));
    }
    let rate = rate(took.len(), begun.elapsed());
    progress("");
    (rate, took)
}

async fn call(store: &dyn Store, what: Call, args: Args, job: u64) {
    let key = args.key(job);
    match what {
        Call::Get => {
            let found = store.get(vec![Lookup::Job(key)]).await.expect("get answers");
            assert!(found.iter().all(Option::is_some), "every job is found");
        }
        Call::Move => {
            let when = When::In(Delay::from_millis(SOONEST * 2).expect("within ten years"));
            let change = Change { when: Some(when), ..Change::default() };
            let moved = store.change(vec![ChangeItem::new(key, change)]).await.expect("change answers");
            assert!(moved.iter().all(Result::is_ok), "every job is moved");
        }
        Call::Cancel => {
            // Some have been cancelled before.
            store.cancel(vec![CancelItem::new(key)]).await.expect("cancel answers");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rounds_name_equal_jobs_and_classes_do_not_meet() {
        let named = |class| {
            let round = Round { callers: 1, calls: 1, class };
            let mut random = round.random(7);
            (0..100).map(|_| round.job(&mut random, 1_003)).collect::<Vec<u64>>()
        };
        assert_eq!(named(3), named(3));
        assert!(named(3).iter().all(|job| job % CLASSES == 3 && *job < 1_003));
        assert!(named(4).iter().all(|job| job % CLASSES == 4));
    }
}
