//! A histogram of due times: how many waiting jobs are due in each minute.

use std::ops::Range;

use dwell_core::{Timestamp, limits};
use foldhash::fast::RandomState as FastHash;
use hashbrown::HashMap;

/// Waiting jobs by the minute they are due in; minutes without any are not there.
///
/// Every put and every flush changes it for each job, in no order; it is asked for ranges only now and then. So it is a
/// table, and whoever needs the minutes in order sorts them.
#[derive(Debug, Default)]
pub(super) struct DueHistogram(HashMap<u64, u64, FastHash>);

impl FromIterator<(u64, u64)> for DueHistogram {
    fn from_iter<T: IntoIterator<Item = (u64, u64)>>(minutes: T) -> Self {
        Self(minutes.into_iter().collect())
    }
}

impl DueHistogram {
    pub(super) fn add(&mut self, due_at: Timestamp, jobs: u64) {
        *self.0.entry(minute(due_at)).or_default() += jobs;
    }

    /// The same for many jobs, in the order they are due.
    pub(super) fn add_sorted<T>(&mut self, jobs: &[T], due_at: impl Fn(&T) -> Timestamp) {
        for jobs in jobs.chunk_by(|a, b| minute(due_at(a)) == minute(due_at(b))) {
            self.add(due_at(&jobs[0]), jobs.len() as u64);
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
                self.give_back();
            }
        }
    }

    /// What was large once does not stay so: whoever asks for all of it would pay for that.
    fn give_back(&mut self) {
        if self.0.capacity() > 64 && self.0.len() < self.0.capacity() / 8 {
            self.0.shrink_to(2 * self.0.len());
        }
    }

    /// The minutes of this range, in no order, with how many are due in each.
    pub(super) fn between(&self, minutes: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        // Whichever is less: to ask for each minute, or to look at all there are.
        let each = minutes.end - minutes.start <= self.0.len() as u64;
        let asked = if each { minutes.clone() } else { 0..0 };
        let asked = asked.filter_map(|minute| Some((minute, *self.0.get(&minute)?)));
        let all = (!each).then_some(&self.0).into_iter().flatten().map(|(minute, count)| (*minute, *count));
        asked.chain(all.filter(move |(minute, _)| minutes.contains(minute)))
    }

    /// All minutes, in order.
    pub(super) fn sorted(&self) -> Vec<(u64, u64)> {
        let mut minutes: Vec<(u64, u64)> = self.0.iter().map(|(minute, count)| (*minute, *count)).collect();
        minutes.sort_unstable();
        minutes
    }
}

/// Which minute since 1970 an instant lies in.
pub(crate) fn minute(at: Timestamp) -> u64 {
    at.as_millis() / limits::MINUTE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: u64) -> Timestamp {
        Timestamp::from_millis(minute * limits::MINUTE + 7).unwrap()
    }

    fn between(minutes: &DueHistogram, range: Range<u64>) -> Vec<(u64, u64)> {
        let mut found: Vec<_> = minutes.between(range).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_stretch_is_the_same_whichever_way_it_is_looked_through() {
        let mut minutes = DueHistogram::default();
        for minute in 0..300 {
            minutes.add(at(minute * 10), 1 + minute);
        }
        let expected: Vec<_> = (3..7).map(|minute| (minute * 10, 1 + minute)).collect();
        assert_eq!(between(&minutes, 30..61), expected, "minute by minute");
        assert_eq!(between(&minutes, 2_930..2_000_000), (293..300).map(|m| (m * 10, 1 + m)).collect::<Vec<_>>());
        assert_eq!(between(&minutes, 5_000..5_001), []);
        assert_eq!(minutes.sorted(), (0..300).map(|minute| (minute * 10, 1 + minute)).collect::<Vec<_>>());
    }

    #[test]
    fn minutes_without_jobs_are_forgotten_and_give_their_room_back() {
        let mut minutes = DueHistogram::default();
        (0..10_000).for_each(|minute| minutes.add(at(minute), 2));
        let most = minutes.0.capacity();
        for minute in 10..10_000 {
            minutes.remove(at(minute));
            minutes.remove_many(minute, 1);
        }
        minutes.remove(at(3));
        minutes.remove(at(77_777));
        assert_eq!(minutes.sorted(), (0..10).map(|m| (m, if m == 3 { 1 } else { 2 })).collect::<Vec<_>>());
        assert!(minutes.0.capacity() < most / 8, "{} of {most}", minutes.0.capacity());
    }
}
