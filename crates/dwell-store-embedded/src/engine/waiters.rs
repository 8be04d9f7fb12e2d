//! Consumers that wait (long polling), in the order they came.

use std::collections::BTreeSet;
use std::time::Duration;

use dwell_core::{LeaseFrom, LeaseRequest, LeasedJob, StoreError, TopicName};
use foldhash::fast::RandomState as FastHash;
use hashbrown::HashMap;

use super::answers::Reply;
use crate::format::record::TopicId;
use crate::sim_bugs::{self, Bug};

/// How many may wait at once: a few hundred bytes each.
const MAX_WAITERS: usize = 1_000_000;

/// How much longer somebody waits at the most for a job that is ready and not in memory.
const READ_GRACE: Duration = Duration::from_secs(5);

/// A place in the queue; smaller came earlier.
pub(super) type WaiterId = u64;

/// One who waits.
pub(super) struct Waiter {
    pub(super) request: LeaseRequest,
    /// In real time.
    pub(super) deadline: Duration,
    pub(super) answer: Reply<Vec<LeasedJob>>,
    /// Whether there is something for it, and what goes first is still in the cold tier.
    pub(super) held_up: bool,
}

impl Waiter {
    /// When it is sent home.
    fn until(&self) -> Duration {
        if self.held_up { self.deadline + READ_GRACE } else { self.deadline }
    }
}

/// Those who wait for one thing.
#[derive(Default)]
struct Queue {
    all: BTreeSet<WaiterId>,
    /// Those of them who are held up.
    held_up: BTreeSet<WaiterId>,
}

/// All who wait, and the topics where something has changed for them.
#[derive(Default)]
pub(super) struct Waiters {
    next: WaiterId,
    all: HashMap<WaiterId, Waiter, FastHash>,
    by_topic: HashMap<TopicName, Queue, FastHash>,
    couriers: Queue,
    by_deadline: BTreeSet<(Duration, WaiterId)>,
    marked: BTreeSet<TopicId>,
}

impl Waiters {
    /// Lets one wait, behind all who do.
    pub(super) fn park(&mut self, waiter: Waiter, held_up: bool) {
        let id = self.next;
        self.next += 1;
        match &waiter.request.from {
            LeaseFrom::Pull(topics) => {
                for topic in topics {
                    self.by_topic.entry(topic.clone()).or_default().all.insert(id);
                }
            }
            LeaseFrom::Push(_) => drop(self.couriers.all.insert(id)),
            LeaseFrom::Number(_) => {}
        }
        self.by_deadline.insert((waiter.until(), id));
        self.all.insert(id, waiter);
        self.hold_up(id, held_up);
    }

    /// Takes one out of the queue.
    pub(super) fn take(&mut self, id: WaiterId) -> Waiter {
        self.hold_up(id, false);
        let waiter = self.all.remove(&id).expect("only those who wait are taken");
        self.by_deadline.remove(&(waiter.until(), id));
        match &waiter.request.from {
            LeaseFrom::Pull(topics) => {
                for topic in topics {
                    if let Some(queue) = self.by_topic.get_mut(topic) {
                        queue.all.remove(&id);
                        if queue.all.is_empty() {
                            self.by_topic.remove(topic);
                        }
                    }
                }
            }
            LeaseFrom::Push(_) => drop(self.couriers.all.remove(&id)),
            LeaseFrom::Number(_) => {}
        }
        waiter
    }

    /// Notes whether one is held up: then it is not sent home before what it waits for could be read. Whether it was.
    pub(super) fn hold_up(&mut self, id: WaiterId, held_up: bool) -> bool {
        let waiter = self.all.get_mut(&id).expect("only those who wait are held up");
        if waiter.held_up == held_up {
            return held_up;
        }
        self.by_deadline.remove(&(waiter.until(), id));
        waiter.held_up = held_up;
        self.by_deadline.insert((waiter.until(), id));
        let note = |queue: &mut Queue| if held_up { queue.held_up.insert(id) } else { queue.held_up.remove(&id) };
        match &waiter.request.from {
            LeaseFrom::Pull(topics) => {
                for topic in topics {
                    self.by_topic.get_mut(topic).map(note);
                }
            }
            LeaseFrom::Push(_) => drop(note(&mut self.couriers)),
            LeaseFrom::Number(_) => {}
        }
        !held_up
    }

    /// Whether somebody who is held up goes before whoever comes now and asks for this.
    pub(super) fn is_behind(&self, from: &LeaseFrom) -> bool {
        let held_up = |queue: &Queue| !queue.held_up.is_empty();
        match from {
            LeaseFrom::Pull(topics) => topics.iter().any(|topic| self.by_topic.get(topic).is_some_and(held_up)),
            LeaseFrom::Push(_) => held_up(&self.couriers),
            LeaseFrom::Number(_) => false,
        }
    }

    /// Whether a consumer of this topic is held up.
    pub(super) fn holds_up(&self, topic: &TopicName) -> bool {
        self.by_topic.get(topic).is_some_and(|queue| !queue.held_up.is_empty())
    }

    /// Whether somebody who came before and is held up keeps this one from its turn, and it is not held up itself.
    pub(super) fn is_behind_held_up(&self, id: WaiterId) -> bool {
        let waiter = &self.all[&id];
        let held_up = |queue: &Queue| queue.held_up.first().is_some_and(|first| *first < id);
        let is_behind = match &waiter.request.from {
            LeaseFrom::Pull(topics) => topics.iter().any(|topic| self.by_topic.get(topic).is_some_and(held_up)),
            LeaseFrom::Push(_) => held_up(&self.couriers),
            LeaseFrom::Number(_) => false,
        };
        is_behind && !waiter.held_up
    }

    /// What one asks for, if it still waits.
    pub(super) fn request(&self, id: WaiterId) -> Option<&LeaseRequest> {
        self.all.get(&id).map(|waiter| &waiter.request)
    }

    /// The next consumer that waits for this topic and is still there.
    pub(super) fn next_consumer(&mut self, topic: &TopicName, after: Option<WaiterId>) -> Option<WaiterId> {
        self.next_there(after, |waiters, from| {
            let mut waiting = waiters.by_topic.get(topic)?.all.range(from..);
            let next = if sim_bugs::is(Bug::LastComeFirstServed) { waiting.next_back() } else { waiting.next() };
            next.copied()
        })
    }

    /// The next consumer after this one that waits for this topic and is held up.
    pub(super) fn next_held_up(&self, topic: &TopicName, after: WaiterId) -> Option<WaiterId> {
        self.by_topic.get(topic)?.held_up.range(after + 1..).next().copied()
    }

    /// The next courier that is still there; couriers wait for all topics.
    pub(super) fn next_courier(&mut self, after: Option<WaiterId>) -> Option<WaiterId> {
        self.next_there(after, |waiters, from| waiters.couriers.all.range(from..).next().copied())
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
            if !self.all[&id].answer.is_closed() || sim_bugs::is(Bug::GoneStillServed) {
                return Some(id);
            }
            self.take(id);
        }
    }

    /// Something has changed in this topic.
    pub(super) fn mark(&mut self, topic: TopicId) {
        if !self.all.is_empty() && !sim_bugs::is(Bug::LostWakeUp) {
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
        if !self.couriers.all.is_empty() {
            self.marked.extend(pushing);
        }
    }

    /// The topics where something has changed.
    pub(super) fn take_marked(&mut self) -> BTreeSet<TopicId> {
        std::mem::take(&mut self.marked)
    }

    /// Those whose time is over.
    pub(super) fn expired(&self, now: Duration) -> Vec<WaiterId> {
        if sim_bugs::is(Bug::WaitsForEver) {
            return Vec::new();
        }
        self.by_deadline.iter().take_while(|(until, _)| *until <= now).map(|(_, id)| *id).collect()
    }

    /// When the first one's time is over.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// How many wait for a topic.
    pub(super) fn count(&self, topic: &TopicName) -> u64 {
        let waiting = self.by_topic.get(topic).into_iter().flat_map(|queue| &queue.all);
        waiting.filter(|id| !self.all[*id].answer.is_closed()).count() as u64
    }

    /// Whether anybody waits for a topic.
    pub(super) fn is_waited_for(&self, topic: &TopicName) -> bool {
        self.by_topic.contains_key(topic)
    }

    /// Whether any courier waits.
    pub(super) fn has_couriers(&self) -> bool {
        !self.couriers.all.is_empty()
    }

    /// Whether nobody more may wait.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= MAX_WAITERS
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
