//! Very many overdue jobs in a topic that nobody consumes, and what other topics feel of them.
//!
//! The same load runs in one store before the topic is filled and after it, when the store has come to rest; the rounds
//! after it take turns with rounds in a fresh store, which show what the machine itself does meanwhile.

use std::sync::Arc;

use dwell_bench::memory;
use dwell_bench::program::progress;
use dwell_core::Store;

use super::figure::Figure;
use super::load::{self, Load};
use super::world::{MEBI, World, job, median, now, rate, taken, topic};
use super::{disk, parallel};

/// How many are put at a time.
const BATCH: u64 = 512;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// How often the load runs before, after and in a fresh store
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

pub(crate) fn measure(world: &World, args: Args) -> Vec<Figure> {
    let (store, fresh) = (world.store("stalled"), world.store("fresh"));
    let round = |name: &str, number: u32, store: &Arc<dyn Store>| {
        progress(&format!("{name}, round {number}"));
        load::round(world, store)
    };
    // What runs for the first time is slower.
    load::round(world, &store);
    let before: Vec<Load> = (0..args.rounds).map(|number| round("before", number, &store)).collect();
    let begun = now();
    world.runtime.block_on(fill(world, &store));
    let filled = rate(world.jobs, begun.elapsed());
    let rested = world.runtime.block_on(disk::rest(&*store, &world.path("stalled")));
    load::round(world, &fresh);
    let (mut after, mut beside) = (Vec::new(), Vec::new());
    for number in 0..args.rounds {
        after.push(round("after", number, &store));
        beside.push(round("fresh", number, &fresh));
    }
    progress("");
    let overdue = world.runtime.block_on(store.topic(topic("stalled"))).expect("topic answers");
    assert_eq!(overdue.map(|topic| topic.counts.live()), Some(world.jobs as u64), "nobody consumes them");
    let mut figures = vec![
        Figure::new("overdue jobs that nobody consumes", world.jobs as f64, "jobs"),
        Figure::new("put at", filled, "jobs/s"),
        Figure::new("at rest after", rested.as_secs_f64(), "s"),
        Figure::new("memory, at most", memory::peak_bytes() as f64 / MEBI, "MiB"),
    ];
    figures.extend(compared(&before, &after, &beside));
    figures
}

/// Medians of all rounds, and what is asked of them.
fn compared(before: &[Load], after: &[Load], fresh: &[Load]) -> Vec<Figure> {
    let cycles = [before, after, fresh].map(|rounds| median(rounds.iter().map(|load| load.cycles)));
    let late = [before, after, fresh].map(|rounds| median(rounds.iter().map(|load| load.late_p99)));
    let mut figures = Vec::new();
    for (at, when) in ["before", "after", "fresh store, in turn with after"].into_iter().enumerate() {
        figures.push(Figure::new(format!("other topics' put + lease + ack, {when}"), cycles[at], "jobs/s"));
        figures.push(Figure::new(format!("other topics' lateness p99, {when}"), late[at], "ms"));
    }
    let percent = |of: f64, to: f64| of / to * 100.0;
    figures.extend([
        Figure::new("throughput after : before", percent(cycles[1], cycles[0]), "%").at_least(80.0),
        Figure::new("throughput after : fresh store", percent(cycles[1], cycles[2]), "%").at_least(80.0),
        Figure::new("throughput fresh store : before, the machine's own drift", percent(cycles[2], cycles[0]), "%"),
        Figure::new("lateness p99 after : before", percent(late[1], late[0]), "%").at_most(120.0),
        Figure::new("lateness p99 after : fresh store", percent(late[1], late[2]), "%").at_most(120.0),
        Figure::new("lateness p99 fresh store : before, the machine's own drift", percent(late[2], late[0]), "%"),
    ]);
    figures
}

async fn fill(world: &World, store: &Arc<dyn Store>) {
    let (store, body) = (Arc::clone(store), world.body.clone());
    let name = topic("stalled");
    parallel::batches(0..world.jobs as u64, BATCH, move |batch| {
        let (store, body, name) = (Arc::clone(&store), body.clone(), name.clone());
        async move {
            let jobs = batch.map(|id| job(&name, id, 0, &body)).collect();
            let answers = store.put(jobs).await.expect("put answers");
            taken(&answers);
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(after: Load) -> Vec<Option<bool>> {
        let usual = Load { cycles: 100.0, late_p99: 2.0 };
        let figures = compared(&[usual; 3], &[after; 3], &[usual; 3]);
        figures.iter().filter(|figure| figure.is_met().is_some()).map(Figure::is_met).collect()
    }

    #[test]
    fn a_fifth_less_or_later_is_allowed_and_no_more() {
        assert_eq!(verdicts(Load { cycles: 81.0, late_p99: 2.39 }), [Some(true); 4]);
        let slow = [Some(false), Some(false), Some(true), Some(true)];
        assert_eq!(verdicts(Load { cycles: 79.0, late_p99: 2.0 }), slow);
        let late = [Some(true), Some(true), Some(false), Some(false)];
        assert_eq!(verdicts(Load { cycles: 100.0, late_p99: 2.41 }), late);
    }
}
