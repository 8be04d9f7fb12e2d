//! Doing again what the journal says was done.

use std::collections::BTreeMap;

use dwell_core::{Phase, Timestamp, limits};

use super::index::Indexed;
use super::minutes::minute;
use super::slots::{self, Index, Slot};
use super::topic::{Place, Topic};
use super::{Engine, totals};
use crate::format::record::{BodyPart, Cause, GoneRecord, JobRecord, Record, TopicId, TopicRecord};

/// A record that does not fit what came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplayError {
    /// A job's record without a body, of a job that has none anywhere.
    #[error("a job's record names a body that no other record has")]
    NoBody,
    /// A job of a topic that is not there.
    #[error("a job's record names a topic that no earlier record has")]
    NoTopic,
}

impl Engine {
    /// The name of a topic that has been replayed.
    pub(crate) fn topic_name(&self, id: TopicId) -> Option<dwell_core::TopicName> {
        self.topics.get(&id).map(|topic| topic.name.clone())
    }

    /// Does one record again. Indexes and timers come later, with [`Engine::begin`]. With `topics_known` the topics are
    /// already as they were after it: it says nothing about them, and a job of a topic that is not there is no more.
    pub(crate) fn replay(&mut self, record: Record, segment: u64, topics_known: bool) -> Result<(), ReplayError> {
        match record {
            Record::Job(job) if topics_known && !self.topics.contains_key(&job.topic) => {}
            Record::Done(record) if topics_known && !self.topics.contains_key(&record.topic) => {}
            Record::Topic(_) if topics_known => {}
            Record::Job(job) => return self.replay_job(job, segment, topics_known),
            Record::Gone(gone) => self.replay_gone(&gone, topics_known),
            Record::Done(record) => self.done.insert(record.topic, record.done, segment),
            Record::Topic(topic) => self.replay_topic(topic),
            Record::TopicGone(id) => {
                if self.topics.contains_key(&id) && !topics_known {
                    self.forget_replayed_topic(id);
                }
            }
        }
        Ok(())
    }

    fn replay_job(&mut self, record: JobRecord, segment: u64, counted: bool) -> Result<(), ReplayError> {
        let JobRecord { topic, cause, mut job, body } = record;
        let of_topic = self.topics.get_mut(&topic).ok_or(ReplayError::NoTopic)?;
        let is_buried = matches!(job.phase, Phase::Buried(_));
        self.next_number = self.next_number.max(job.number.get() + 1);
        // A job that was just put cannot be there already.
        let known = if cause == Cause::Put { None } else { self.slots.by_number(job.number) };
        let Some(index) = known else {
            if body == BodyPart::Kept {
                // Its body was in a segment that is gone: it has been logged again since, or it has ended.
                self.orphans.insert(job.number);
                return Ok(());
            }
            self.orphans.remove(&job.number);
            if !counted {
                totals::count(&mut of_topic.totals, cause, false, is_buried);
            }
            self.done.remove(topic, &job.id);
            let weight = slots::weight(&job);
            self.slots.insert(Slot { job, topic, indexed: Indexed::None, timer: None, home: segment, weight });
            return Ok(());
        };
        let slot = self.slots.get_mut(index);
        let was_buried = matches!(slot.job.phase, Phase::Buried(_));
        if !counted {
            totals::count(&mut of_topic.totals, cause, was_buried, is_buried);
        }
        match body {
            BodyPart::Here => slot.home = segment,
            BodyPart::Kept => job.body = std::mem::take(&mut slot.job.body),
        }
        slot.job = job;
        self.slots.weigh(index);
        Ok(())
    }

    fn replay_gone(&mut self, gone: &GoneRecord, counted: bool) {
        // A job whose records have been cleaned away may still have its end on record.
        self.orphans.remove(&gone.number);
        let Some(index) = self.slots.by_number(gone.number) else { return };
        let slot = self.slots.remove(index);
        if let Some(topic) = self.topics.get_mut(&slot.topic)
            && !counted
        {
            totals::count_gone(&mut topic.totals, gone.cause);
        }
    }

    fn replay_topic(&mut self, record: TopicRecord) {
        let TopicRecord { id, name, policy, pause, totals } = record;
        self.next_topic = self.next_topic.max(id.0 + 1);
        self.names.insert(name.clone(), id);
        self.sorted_names.insert(name.clone());
        let topic = self.topics.entry(id).or_insert_with(|| Topic::new(id, name));
        topic.policy = policy;
        topic.pause = pause;
        topic.totals = totals;
    }

    fn forget_replayed_topic(&mut self, id: TopicId) {
        if let Some(topic) = self.topics.remove(&id) {
            self.names.remove(&topic.name);
            self.sorted_names.remove(&topic.name);
        }
        self.done.remove_topic(id);
        // Its jobs go all at once at the end, with those of other such topics.
        self.dead_topics.insert(id);
    }

    fn forget_jobs_of_dead_topics(&mut self) {
        if self.dead_topics.is_empty() {
            return;
        }
        for index in 0..self.slots.places() {
            if self.slots.peek(index).is_some_and(|slot| self.dead_topics.contains(&slot.topic)) {
                self.slots.remove(index);
            }
        }
        self.dead_topics.clear();
    }

    /// Whether everything fits together once all of it has been read.
    pub(crate) fn check_replayed(&self) -> Result<(), ReplayError> {
        if self.orphans.is_empty() { Ok(()) } else { Err(ReplayError::NoBody) }
    }

    /// Everything has been replayed: builds the indexes and sets the timers. Leases end no earlier than a minute (or
    /// their own ttr) from now: that the store was down is not their holders' fault.
    pub(super) fn replayed(&mut self) {
        self.forget_jobs_of_dead_topics();
        let now = self.now.at;
        let mut delayed: BTreeMap<TopicId, Vec<(Place, Index)>> = BTreeMap::new();
        for index in 0..self.slots.places() {
            if self.slots.peek(index).is_none() {
                continue;
            }
            let slot = self.slots.get_mut(index);
            match &mut slot.job.phase {
                Phase::Waiting if slot.job.due_at > now => {
                    let place = (slot.job.due_at, slot.job.number);
                    delayed.entry(slot.topic).or_default().push((place, index));
                    slot.indexed = Indexed::Delayed;
                    self.set_timer(index);
                }
                Phase::Leased(lease) => {
                    let grace = lease.ttr.as_millis().min(limits::MINUTE);
                    lease.expires_at = lease.expires_at.max(now.plus(grace));
                    self.index(index);
                }
                Phase::Waiting | Phase::Buried(_) => self.index(index),
            }
        }
        // Most jobs are delayed: sorted all at once they cost a fraction of what they cost one by one.
        for (id, mut places) in delayed {
            places.sort_unstable();
            let topic = self.topics.get_mut(&id).expect("every job has a topic");
            for minute in places.chunk_by(|((a, _), _), ((b, _), _)| minute(*a) == minute(*b)) {
                topic.minutes.add(minute[0].0.0, minute.len() as u64);
                self.minutes.add(minute[0].0.0, minute.len() as u64);
            }
            let first = places.first().map(|(place, _)| *place);
            topic.waiting.append(&mut places.into_iter().collect());
            if let Some(place) = first {
                self.promote_at(id, place);
            }
        }
        let topics: Vec<TopicId> = self.topics.keys().copied().collect();
        for topic in topics {
            self.set_topic_timer(topic);
        }
    }

    /// The last instant the timeline is known to have reached.
    pub(crate) fn now(&self) -> Timestamp {
        self.now.at
    }
}
