//! Acked jobs that are remembered for as long as their topic's `keep_done` says.

use std::collections::BTreeMap;

use dwell_core::{DoneJob, JobId, Timestamp, TopicPolicy, Version};

use super::Engine;
use crate::format::record::{self, TopicId};

/// Remembered jobs, by name, and in the order they are to be forgotten.
#[derive(Default)]
pub(super) struct DoneJobs {
    by_topic: BTreeMap<TopicId, DoneTopic>,
    weight: usize,
}

#[derive(Default)]
struct DoneTopic {
    by_id: BTreeMap<JobId, Remembered>,
    /// Oldest first, whatever order their records came in: old ones are logged again after younger ones.
    by_version: BTreeMap<Version, JobId>,
}

struct Remembered {
    done: DoneJob,
    home: u64,
}

impl DoneJobs {
    pub(super) fn insert(&mut self, topic: TopicId, done: DoneJob, home: u64) {
        self.remove(topic, done.id.as_str());
        let of_topic = self.by_topic.entry(topic).or_default();
        self.weight += weight(done.id.as_str());
        of_topic.by_version.insert(done.version, done.id.clone());
        of_topic.by_id.insert(done.id.clone(), Remembered { done, home });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_topic.is_empty()
    }

    /// Bytes they are reckoned to take.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// A job that is remembered at `now`.
    pub(super) fn get(&self, topic: TopicId, id: &JobId, policy: &TopicPolicy, now: Timestamp) -> Option<&DoneJob> {
        let remembered = &self.by_topic.get(&topic)?.by_id.get(id)?.done;
        is_kept(remembered, policy, now).then_some(remembered)
    }

    pub(super) fn remove(&mut self, topic: TopicId, id: &str) {
        if let Some(of_topic) = self.by_topic.get_mut(&topic)
            && let Some(Remembered { done, .. }) = of_topic.by_id.remove(id)
        {
            of_topic.by_version.remove(&done.version);
            self.weight -= weight(id);
        }
    }

    pub(super) fn remove_topic(&mut self, topic: TopicId) {
        let forgotten = self.by_topic.remove(&topic).into_iter().flat_map(|of_topic| of_topic.by_id);
        self.weight -= forgotten.map(|(id, _)| weight(id.as_str())).sum::<usize>();
    }

    /// Those whose record comes before this sequence.
    pub(super) fn at_home_before(&mut self, sequence: u64) -> impl Iterator<Item = (TopicId, &DoneJob, &mut u64)> {
        let all = self.by_topic.iter_mut().flat_map(|(topic, of_topic)| {
            of_topic.by_id.values_mut().map(|remembered| (*topic, &remembered.done, &mut remembered.home))
        });
        all.filter(move |(_, _, home)| **home < sequence)
    }

    /// Forgets those of a topic whose time is over; the version of the last one, 0 if there is none.
    fn forget(&mut self, topic: TopicId, policy: &TopicPolicy, now: Timestamp) -> u64 {
        self.forget_while(topic, |done| !is_kept(done, policy, now))
    }

    /// Forgets those of a topic up to this version.
    pub(super) fn forget_through(&mut self, topic: TopicId, version: u64) {
        self.forget_while(topic, |done| done.version.get() <= version);
    }

    fn forget_while(&mut self, topic: TopicId, over: impl Fn(&DoneJob) -> bool) -> u64 {
        let mut last = 0;
        let Some(of_topic) = self.by_topic.get_mut(&topic) else { return last };
        while let Some(oldest) = of_topic.by_version.first_entry() {
            if !over(&of_topic.by_id[oldest.get()].done) {
                return last;
            }
            last = oldest.key().get();
            let id = oldest.remove();
            of_topic.by_id.remove(&id);
            self.weight -= weight(id.as_str());
        }
        self.by_topic.remove(&topic);
        last
    }
}

/// Bytes one of them is reckoned to take.
fn weight(id: &str) -> usize {
    size_of::<Remembered>() + 2 * id.len() + 128
}

fn is_kept(done: &DoneJob, policy: &TopicPolicy, now: Timestamp) -> bool {
    policy.keep_done.is_some_and(|keep| done.done_at.plus(keep.as_millis()) > now)
}

impl Engine {
    /// Remembers a job that was acked.
    pub(super) fn remember_done(&mut self, topic: TopicId, done: DoneJob) {
        let home = self.batch.next_sequence();
        self.batch.log(|out| record::encode_done(out, topic, &done));
        self.done.insert(topic, done, home);
    }

    /// Whether a topic's acked jobs are remembered.
    pub(super) fn keeps_done(&self, topic: TopicId) -> bool {
        self.topics[&topic].policy.keep_done.is_some_and(|keep| keep.as_millis() > 0)
    }

    /// Forgets those whose time is over.
    pub(super) fn forget_done(&mut self) {
        let topics: Vec<TopicId> = self.done.by_topic.keys().copied().collect();
        for topic in topics {
            self.forget_done_of(topic);
        }
    }

    /// Forgets those of a topic whose time is over, and notes how far that is: the topic's next record says so, lest
    /// a restart under another policy bring them back.
    pub(super) fn forget_done_of(&mut self, id: TopicId) {
        if let Some(topic) = self.topics.get_mut(&id) {
            let forgotten = self.done.forget(id, &topic.policy, self.now.at);
            topic.forgotten = topic.forgotten.max(forgotten);
        }
    }
}

#[cfg(test)]
mod tests {
    use dwell_core::{Number, TopicName};

    use super::*;

    fn done(id: &str, version: u64) -> DoneJob {
        let at = Timestamp::EPOCH;
        DoneJob {
            topic: TopicName::new("t").unwrap(),
            id: JobId::new(id).unwrap(),
            number: Number::new(version).unwrap(),
            version: Version::new(version).unwrap(),
            created_at: at,
            due_at: at,
            attempt: 1,
            done_at: at,
        }
    }

    #[test]
    fn what_was_logged_again_is_still_the_oldest() {
        let (topic, keep) = (TopicId(1), dwell_core::Delay::from_millis(1_000).ok());
        let policy = TopicPolicy { keep_done: keep, ..TopicPolicy::default() };
        let mut jobs = DoneJobs::default();
        jobs.insert(topic, done("younger", 20), 20);
        // A flush has logged it again, and freed the segment where it was before.
        jobs.insert(topic, done("older", 10), 30);
        jobs.forget_through(topic, 10);
        let found = |id: &str| jobs.get(topic, &JobId::new(id).unwrap(), &policy, Timestamp::EPOCH).is_some();
        assert_eq!((found("older"), found("younger")), (false, true));
        assert_eq!(jobs.weight(), weight("younger"));
    }
}
