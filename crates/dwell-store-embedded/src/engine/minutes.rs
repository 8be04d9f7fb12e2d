//! How many waiting jobs are due in each minute.

use std::collections::BTreeMap;
use std::ops::Range;

use dwell_core::{Timestamp, limits};

/// Waiting jobs by the minute they are due in; minutes without any are not there.
#[derive(Debug, Default)]
pub(super) struct Minutes(BTreeMap<u64, u64>);

impl Minutes {
    pub(super) fn add(&mut self, due_at: Timestamp, jobs: u64) {
        *self.0.entry(minute(due_at)).or_default() += jobs;
    }

    pub(super) fn remove(&mut self, due_at: Timestamp) {
        let minute = minute(due_at);
        if let Some(count) = self.0.get_mut(&minute) {
            *count -= 1;
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
pub(super) fn minute(at: Timestamp) -> u64 {
    at.as_millis() / limits::MINUTE
}
