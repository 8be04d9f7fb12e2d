//! Consumers that wait, in the order they came.

use std::collections::BTreeSet;
use std::time::Duration;

use dwell_core::{LeaseFrom, LeaseRequest, LeasedJob, StoreError, TopicName};
use foldhash::fast::RandomState as FastHash;
use hashbrown::HashMap;

use super::answers::Reply;
use crate::format::record::TopicId;
use crate::planted::{self, Bug};

/// How many may wait at once: a few hundred bytes each.
const MOST: usize = 1_000_000;

/// A place in the queue; smaller came earlier.
pub(super) type WaiterId = u64;

/// One who waits.
pub(super) struct Waiter {
    pub(super) request: LeaseRequest,
    /// In real time.
    pub(super) deadline: Duration,
    pub(super) answer: Reply<Vec<LeasedJob>>,
}

/// All who wait, and the topics where something has changed for them.
#[derive(Default)]
pub(super) struct Waiters {
    next: WaiterId,
    all: HashMap<WaiterId, Waiter, FastHash>,
    by_topic: HashMap<TopicName, BTreeSet<WaiterId>, FastHash>,
    couriers: BTreeSet<WaiterId>,
    by_deadline: BTreeSet<(Duration, WaiterId)>,
    marked: BTreeSet<TopicId>,
}

impl Waiters {
    pub(super) fn park(&mut self, waiter: Waiter) {
        let id = self.next;
        self.next += 1;
        match &waiter.request.from {
            LeaseFrom::Pull(topics) => {
                for topic in topics {
                    self.by_topic.entry(topic.clone()).or_default().insert(id);
                }
            }
            LeaseFrom::Push(_) => drop(self.couriers.insert(id)),
            LeaseFrom::Number(_) => {}
        }
        self.by_deadline.insert((waiter.deadline, id));
        self.all.insert(id, waiter);
    }

    /// Takes one out of the queue.
    pub(super) fn take(&mut self, id: WaiterId) -> Waiter {
        let waiter = self.all.remove(&id).expect("only those who wait are taken");
        self.by_deadline.remove(&(waiter.deadline, id));
        match &waiter.request.from {
            LeaseFrom::Pull(topics) => {
                for topic in topics {
                    if let Some(waiting) = self.by_topic.get_mut(topic) {
                        waiting.remove(&id);
                        if waiting.is_empty() {
                            self.by_topic.remove(topic);
                        }
                    }
                }
            }
            LeaseFrom::Push(_) => drop(self.couriers.remove(&id)),
            LeaseFrom::Number(_) => {}
        }
        waiter
    }

    /// What one asks for, if it still waits.
    pub(super) fn request(&self, id: WaiterId) -> Option<&LeaseRequest> {
        self.all.get(&id).map(|waiter| &waiter.request)
    }

    /// The next consumer that waits for this topic and is still there.
    pub(super) fn next_consumer(&mut self, topic: &TopicName, after: Option<WaiterId>) -> Option<WaiterId> {
        self.next_there(after, |waiters, from| {
            let mut waiting = waiters.by_topic.get(topic)?.range(from..);
            let next = if planted::is(Bug::LastComeFirstServed) { waiting.next_back() } else { waiting.next() };
            next.copied()
        })
    }

    /// The next courier that is still there; couriers wait for all topics.
    pub(super) fn next_courier(&mut self, after: Option<WaiterId>) -> Option<WaiterId> {
        self.next_there(after, |waiters, from| waiters.couriers.range(from..).next().copied())
    }

    /// The next that `find` finds, without those who have gone away.
    fn next_there(
        &mut self,
        after: Option<WaiterId>,
        find: impl Fn(&Self, WaiterId) -> Option<WaiterId>,
    ) -> Option<WaiterId> {
        let from = after.map_or(0, |id| id + 1);
        loop {
            let id = find(self, from)?;
            if !self.all[&id].answer.is_closed() || planted::is(Bug::GoneStillServed) {
                return Some(id);
            }
            self.take(id);
        }
    }

    /// Something has changed in this topic.
    pub(super) fn mark(&mut self, topic: TopicId) {
        if !self.all.is_empty() && !planted::is(Bug::LostWakeUp) {
            self.marked.insert(topic);
        }
    }

    /// Something may have changed in every topic someone waits for; forgets those who have gone.
    pub(super) fn mark_all(&mut self, names: &HashMap<TopicName, TopicId, FastHash>, pushing: &BTreeSet<TopicId>) {
        let gone: Vec<WaiterId> =
            self.all.iter().filter(|(_, waiter)| waiter.answer.is_closed()).map(|(id, _)| *id).collect();
        for id in gone {
            self.take(id);
        }
        self.marked.extend(self.by_topic.keys().filter_map(|name| names.get(name)));
        if !self.couriers.is_empty() {
            self.marked.extend(pushing);
        }
    }

    /// The topics where something has changed.
    pub(super) fn take_marked(&mut self) -> BTreeSet<TopicId> {
        std::mem::take(&mut self.marked)
    }

    /// Those whose time is over, each with when it was.
    pub(super) fn expired(&self, now: Duration) -> Vec<(Duration, WaiterId)> {
        if planted::is(Bug::WaitsForEver) {
            return Vec::new();
        }
        self.by_deadline.iter().take_while(|(deadline, _)| *deadline <= now).copied().collect()
    }

    /// When the first one's time is over.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// How many wait for a topic.
    pub(super) fn count(&self, topic: &TopicName) -> u64 {
        let waiting = self.by_topic.get(topic).into_iter().flatten();
        waiting.filter(|id| !self.all[*id].answer.is_closed()).count() as u64
    }

    /// Whether anybody waits for a topic.
    pub(super) fn is_waited_for(&self, topic: &TopicName) -> bool {
        self.by_topic.contains_key(topic)
    }

    /// Whether any courier waits.
    pub(super) fn has_couriers(&self) -> bool {
        !self.couriers.is_empty()
    }

    /// Whether nobody more may wait.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= MOST
    }

    /// Takes everybody out.
    pub(super) fn drain(&mut self) -> Vec<Waiter> {
        let ids: BTreeSet<WaiterId> = self.all.keys().copied().collect();
        ids.into_iter().map(|id| self.take(id)).collect()
    }

    /// Answers everybody with an error.
    pub(super) fn refuse(&mut self, error: &StoreError) {
        for waiter in self.drain() {
            drop(waiter.answer.send(Err(error.clone())));
        }
    }
}
