//! One measurement: fill a structure and see what that, cancelling or expiring costs.

use std::fmt;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use dwell_bench::memory::resident_bytes;
use dwell_bench::random::SplitMix64;

use crate::subjects::{
    Subject, Timers, btree::ByDeadline, delay_queue::TokioUtil, hash_wheel::HashWheel, heap::Heap, timing_wheel::Ours,
};

/// What to do with a structure once it is full.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Take everything out in the order of the deadlines.
    Expire,
    /// Cancel everything in random order.
    Cancel,
    /// As `expire`, with every single call timed.
    Worst,
}

/// How often [`Task::Worst`] does everything.
const PASSES: usize = 3;

/// How deadlines are spread.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spread {
    /// Each millisecond of 24 hours is as likely as the other.
    Uniform,
    /// Each magnitude from 1 ms to 25 days is as likely as the other.
    LogUniform,
}

impl Spread {
    pub(crate) fn span_ms(self) -> u64 {
        const DAY: u64 = 24 * 60 * 60 * 1_000;
        match self {
            Self::Uniform => DAY,
            Self::LogUniform => 25 * DAY,
        }
    }

    fn deadlines(self, count: usize) -> Vec<u64> {
        let mut random = SplitMix64::new(20_261_115);
        (0..count).map(|_| self.deadline(&mut random)).collect()
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 25 days")]
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of 25 days fit")]
    fn deadline(self, random: &mut SplitMix64) -> u64 {
        match self {
            Self::Uniform => 1 + random.below(self.span_ms()),
            Self::LogUniform => (self.span_ms() as f64).powf(random.unit()) as u64,
        }
    }
}

/// What one or several measurements found. Times are nanoseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) insert: Option<f64>,
    pub(crate) cancel: Option<f64>,
    pub(crate) expire: Option<f64>,
    pub(crate) worst_insert: Option<f64>,
    pub(crate) worst_step: Option<f64>,
    pub(crate) bytes: Option<f64>,
}

impl Figures {
    /// Keeps the lower of each two.
    pub(crate) fn take_best(&mut self, other: &Self) {
        for (mine, theirs) in self.all_mut().into_iter().zip(other.all()) {
            *mine = match (*mine, theirs) {
                (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
                (mine, theirs) => mine.or(theirs),
            };
        }
    }

    /// The form in which one process tells another.
    pub(crate) fn to_line(self) -> String {
        let figures = self.all().map(|figure| figure.map_or("-".to_owned(), |it| it.to_string()));
        figures.join(" ")
    }

    pub(crate) fn from_line(line: &str) -> Result<Self, String> {
        let mut figures = Self::default();
        for (figure, text) in figures.all_mut().into_iter().zip(line.split_whitespace()) {
            if text != "-" {
                *figure = Some(text.parse().map_err(|error| format!("{text}: {error}"))?);
            }
        }
        Ok(figures)
    }

    fn all(&self) -> [Option<f64>; 6] {
        let Self { insert, cancel, expire, worst_insert, worst_step, bytes } = *self;
        [insert, cancel, expire, worst_insert, worst_step, bytes]
    }

    fn all_mut(&mut self) -> [&mut Option<f64>; 6] {
        let Self { insert, cancel, expire, worst_insert, worst_step, bytes } = self;
        [insert, cancel, expire, worst_insert, worst_step, bytes]
    }
}

pub(crate) fn run(subject: Subject, task: Task, spread: Spread, entries: usize, budget: usize) -> Figures {
    match subject {
        Subject::TimingWheel => run_on(|| Ours::new(budget), task, spread, entries),
        Subject::BtreeMap => run_on(ByDeadline::new, task, spread, entries),
        Subject::BinaryHeap => run_on(Heap::new, task, spread, entries),
        Subject::DelayQueue => run_on(TokioUtil::new, task, spread, entries),
        Subject::HashWheel => run_on(HashWheel::new, task, spread, entries),
    }
}

fn run_on<T: Timers>(make: impl Fn() -> T, task: Task, spread: Spread, entries: usize) -> Figures {
    let deadlines = spread.deadlines(entries);
    match task {
        Task::Expire => expire_all(make(), &deadlines, spread.span_ms()),
        Task::Cancel => cancel_all(make(), &deadlines),
        Task::Worst => time_each(make, &deadlines, spread.span_ms()),
    }
}

fn expire_all(mut timers: impl Timers, deadlines: &[u64], end: u64) -> Figures {
    let before = resident_bytes();
    let insert = timed(|| {
        for (&deadline, value) in deadlines.iter().zip(0..) {
            timers.insert(deadline, value);
        }
    });
    let bytes = resident_bytes().saturating_sub(before);
    let mut count = 0;
    timers.jump(end);
    let expire = timed(|| {
        while let Some(expired) = timers.step(end) {
            count += expired;
        }
    });
    assert_eq!(count, deadlines.len(), "entries taken out");
    Figures {
        insert: Some(per_entry(insert, count)),
        expire: Some(per_entry(expire, count)),
        bytes: Some(ratio(bytes, count)),
        ..Figures::default()
    }
}

fn cancel_all<T: Timers>(mut timers: T, deadlines: &[u64]) -> Figures {
    let entries = deadlines.iter().zip(0..);
    let mut keys: Vec<T::Key> = entries.map(|(&deadline, value)| timers.insert(deadline, value)).collect();
    SplitMix64::new(7).shuffle(&mut keys);
    let mut count = 0;
    let cancel = timed(|| {
        for key in keys {
            count += usize::from(timers.cancel(key));
        }
    });
    assert_eq!(count, deadlines.len(), "entries cancelled");
    Figures { cancel: Some(per_entry(cancel, count)), ..Figures::default() }
}

/// The slowest call that is slow every time. Whatever interrupts the process now and then hits other
/// calls in each pass; what a structure does itself, it does at the same call again.
fn time_each<T: Timers>(make: impl Fn() -> T, deadlines: &[u64], end: u64) -> Figures {
    let mut inserts = vec![Duration::MAX; deadlines.len()];
    let mut steps = Vec::new();
    for _ in 0..PASSES {
        let mut timers = make();
        for ((&deadline, value), least) in deadlines.iter().zip(0..).zip(&mut inserts) {
            *least = timed(|| drop(timers.insert(deadline, value))).min(*least);
        }
        timers.jump(end);
        let mut is_done = false;
        for nth in 0.. {
            let step = timed(|| is_done = timers.step(end).is_none());
            match steps.get_mut(nth) {
                None => steps.push(step),
                Some(least) => *least = step.min(*least),
            }
            if is_done {
                break;
            }
        }
    }
    Figures {
        worst_insert: inserts.into_iter().max().map(|worst| per_entry(worst, 1)),
        worst_step: steps.into_iter().max().map(|worst| per_entry(worst, 1)),
        ..Figures::default()
    }
}

#[expect(clippy::disallowed_methods, reason = "measuring time is what this program does")]
fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn per_entry(duration: Duration, count: usize) -> f64 {
    ratio(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), count)
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn ratio(total: u64, count: usize) -> f64 {
    total as f64 / count as f64
}

/// The name on the command line.
impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::subjects::name(self))
    }
}

/// The name on the command line.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::subjects::name(self))
    }
}
