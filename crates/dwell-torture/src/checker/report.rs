//! What a checker has found.

use std::collections::BTreeMap;
use std::fmt;

use super::Counts;

/// How a promise can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// A job whose put was answered is gone, and nobody acked or cancelled it.
    Lost,
    /// A job came back after its ack or cancel was answered.
    Resurrected,
    /// A job was handed out before it was due.
    Early,
    /// Two leases of a job at one time.
    DoubleLease,
    /// A delivery without a named cause.
    Duplicate,
    /// A job that is due is not handed out.
    Stuck,
    /// A job is there whose put was refused or never sent.
    Phantom,
    /// A body, a due time or an attempt is not what it was.
    Changed,
    /// A success after the store had failed.
    AfterFailure,
    /// The server's time went back.
    TimeFell,
    /// A job in the files is in no order, or a count is not what is there.
    Disorder,
    /// A full disk broke more than puts.
    NotGraceful,
    /// An answer that makes no sense.
    Odd,
}

/// What a store says that has failed, and what one says that has no room.
pub(crate) const FAILED: &str = "storage_failed";
pub(super) const FULL: &str = "storage_full";

/// How a refusal is written down for which the disk did not give what was asked for; the store says that it failed and
/// that nothing was done.
pub(crate) const UNREADABLE: &str = "unreadable";

/// Examples kept of each.
const EXAMPLES: usize = 5;

/// What a checker has found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// What was done and answered.
    pub(crate) done: Counts<&'static str>,
    /// Calls, or items of calls, whose outcome is unknown.
    pub(crate) unknown: Counts<&'static str>,
    /// Of these, calls that were answered with `storage_failed`.
    pub(crate) failures: u64,
    /// Refusals by code or status.
    pub(crate) refused: Counts<String>,
    /// Deliveries after the first, by cause.
    pub(crate) duplicates: Counts<&'static str>,
    pub(crate) faults: Counts<String>,
    /// What went wrong: how often, and some examples.
    pub(crate) found: BTreeMap<Wrong, (u64, Vec<String>)>,
}

impl Report {
    pub(super) fn count(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    pub(crate) fn wrong(&mut self, wrong: Wrong, what: impl FnOnce() -> String) {
        let (count, examples) = self.found.entry(wrong).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(what());
        }
    }

    /// How often this went wrong.
    pub(crate) fn times(&self, wrong: Wrong) -> u64 {
        self.found.get(&wrong).map_or(0, |(count, _)| *count)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// The disk was full: puts were refused, and that is all that came of it.
    pub(crate) fn was_full(&mut self) {
        let failures = self.failures;
        if failures > 0 {
            self.wrong(Wrong::NotGraceful, || format!("{failures} calls were answered with {FAILED}"));
        }
        if !self.refused.contains_key(FULL) {
            self.wrong(Wrong::NotGraceful, || "no put was refused: the disk was never full".to_owned());
        }
    }

    /// Reads went well: nothing may have been refused because it cannot be read.
    pub(crate) fn was_readable(&mut self) {
        if let Some(count) = self.refused.get(UNREADABLE).copied() {
            self.wrong(Wrong::Odd, || format!("{count} calls were refused as unreadable"));
        }
    }

    /// Adds what another history showed.
    pub(crate) fn add(&mut self, other: Self) {
        add(&mut self.done, other.done);
        add(&mut self.unknown, other.unknown);
        self.failures += other.failures;
        add(&mut self.refused, other.refused);
        add(&mut self.duplicates, other.duplicates);
        add(&mut self.faults, other.faults);
        for (wrong, (count, examples)) in other.found {
            let (sum, all) = self.found.entry(wrong).or_default();
            *sum += count;
            let room = EXAMPLES.saturating_sub(all.len());
            all.extend(examples.into_iter().take(room));
        }
    }
}

fn add<K: Ord>(sum: &mut Counts<K>, more: Counts<K>) {
    for (name, count) in more {
        *sum.entry(name).or_default() += count;
    }
}

fn list<K: fmt::Display>(counts: &Counts<K>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  faults      {}", list(&self.faults))?;
        writeln!(f, "  done        {}", list(&self.done))?;
        writeln!(f, "  unknown     {}; {} calls failed with the store", list(&self.unknown), self.failures)?;
        writeln!(f, "  refused     {}", list(&self.refused))?;
        writeln!(f, "  duplicates  {}", list(&self.duplicates))?;
        let zeros = [Wrong::Lost, Wrong::Resurrected, Wrong::Early, Wrong::DoubleLease, Wrong::Duplicate, Wrong::Stuck];
        let zeros: Vec<String> = zeros.iter().map(|wrong| format!("{} {wrong}", self.times(*wrong))).collect();
        write!(f, "  verdict     {}", zeros.join(", "))?;
        for (wrong, (count, examples)) in &self.found {
            write!(f, "\n  {wrong}: {count}")?;
            for example in examples {
                write!(f, "\n    {example}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "lost",
            Self::Resurrected => "resurrected",
            Self::Early => "early",
            Self::DoubleLease => "leased twice at a time",
            Self::Duplicate => "delivered again without a cause",
            Self::Stuck => "stuck",
            Self::Phantom => "there although refused",
            Self::Changed => "changed",
            Self::AfterFailure => "answered after a failure",
            Self::TimeFell => "time went back",
            Self::Disorder => "in no order, or counted wrongly",
            Self::NotGraceful => "not graceful on a full disk",
            Self::Odd => "odd answers",
        })
    }
}
