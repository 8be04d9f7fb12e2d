//! How many waiting jobs are due in each minute.

use std::collections::BTreeMap;
use std::ops::Range;

use dwell_core::{Timestamp, limits};

/// Waiting jobs by the minute they are due in; minutes without any are not there.
#[derive(Debug, Default)]
pub(super) struct Minutes(BTreeMap<u64, u64>);

impl FromIterator<(u64, u64)> for Minutes {
    fn from_iter<T: IntoIterator<Item = (u64, u64)>>(minutes: T) -> Self {
        Self(minutes.into_iter().collect())
    }
}

impl Minutes {
    pub(super) fn add(&mut self, due_at: Timestamp, jobs: u64) {
        *self.0.entry(minute(due_at)).or_default() += jobs;
    }

    /// The same for many jobs, in the order they are due.
    pub(super) fn add_sorted<'a, T: 'a>(&mut self, jobs: &'a [T], due_at: impl Fn(&T) -> Timestamp) {
        let same = jobs.chunk_by(|a, b| minute(due_at(a)) == minute(due_at(b)));
        let counted = same.map(|jobs| (minute(due_at(&jobs[0])), jobs.len() as u64));
        if self.0.is_empty() {
            self.0 = counted.collect();
        } else {
            counted.for_each(|(minute, jobs)| *self.0.entry(minute).or_default() += jobs);
        }
    }

    pub(super) fn remove(&mut self, due_at: Timestamp) {
        self.remove_many(minute(due_at), 1);
    }

    /// So many are no longer due in this minute.
    pub(super) fn remove_many(&mut self, minute: u64, jobs: u64) {
        if let Some(count) = self.0.get_mut(&minute) {
            *count = count.saturating_sub(jobs);
            if *count == 0 {
                self.0.remove(&minute);
            }
        }
    }

    /// The minutes of this range, with how many are due in each.
    pub(super) fn between(&self, minutes: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        self.0.range(minutes).map(|(minute, count)| (*minute, *count))
    }
}

/// Which minute since 1970 an instant lies in.
pub(crate) fn minute(at: Timestamp) -> u64 {
    at.as_millis() / limits::MINUTE
}
