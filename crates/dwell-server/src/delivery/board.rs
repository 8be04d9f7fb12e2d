//! What is under way to whom, and so what may be leased next. Plain bookkeeping: it is told the time and touches nothing.
//!
//! A store hands out pushed jobs by queue: a line of all topics, or a topic that pushes all it has. Most queues are of one
//! target, but some hundred targets share lines, since there are only 1,023. So a queue is closed only while none of the
//! targets known on it has room; and jobs that come from it all the same, for a target that has none, are put back: in
//! their place if the queue is closed now, a little later if it stays open for others.
//!
//! Nobody may wait behind a target that is down and is the only one known on its line: every second, a few closed queues
//! are *sifted*: looked into, and what is for the target that is down is moved out of the way.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use dwell_core::{Line, PushLines, TopicName};
use tokio::time::Instant;

use super::courier::Landing;
use super::origin::{Breaker, Origin, START, Turn};

/// Jobs of one call: a store looks at the heads of all lines for each of them, and has others to serve.
const MOST_A_CALL: u32 = 256;
/// Jobs of one queue in one call where there is no room for [`START`] of them.
const SOME: usize = 4;
/// How often closed queues are sifted, how many of them, and how many jobs of each.
const SIFT_EVERY: Duration = Duration::from_secs(1);
const SIFTED: usize = 8;
const SIFT_DEPTH: usize = 64;
/// How much later a job is looked at again whose target has no room just now.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// Jobs of one queue that are moved a second, so that a backlog is not rewritten over and over.
const MOST_MOVED: u32 = 256;
/// Queues that are known at once, and topics of a line that are told apart: what is more is put back and comes later.
const MOST_KNOWN: usize = 4_096;
const MOST_TOPICS: usize = 64;
/// What is not heard of for this long is forgotten.
const FORGET: Duration = Duration::from_mins(1);

/// Where a store hands pushed jobs out from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Queue {
    /// A line, in whatever topic.
    Line(Line),
    /// A topic that pushes all its jobs.
    Topic(TopicName),
}

/// How much may be under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// Deliveries.
    pub(super) total: usize,
    /// Deliveries to one target.
    pub(super) each: usize,
    /// Bytes of bodies.
    pub(super) bytes: usize,
}

/// What to do with a job that was leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Deliver it.
    Go,
    /// Release it: to its place, or so much later.
    Back(Option<Duration>),
}

/// One lease call to make.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) max: u32,
    pub(super) lines: PushLines,
}

/// The calls to make now, and when to look again.
#[derive(Debug)]
pub(super) struct Plan {
    /// Not to be waited in.
    pub(super) now: Vec<Call>,
    /// To be waited in once the others gave nothing; `None` while there is no room at all.
    pub(super) park: Option<Call>,
    /// When time alone changes something.
    pub(super) wake: Option<Instant>,
}

/// A queue, as far as it is known.
#[derive(Debug)]
struct Known {
    origins: BTreeSet<Arc<str>>,
    /// Topics that a line was met in; one call may bring jobs of each.
    topics: BTreeSet<TopicName>,
    closed_since: Option<Instant>,
    moved: u32,
}

/// The board.
#[derive(Debug)]
pub(super) struct Board {
    caps: Caps,
    origins: HashMap<Arc<str>, Origin>,
    queues: BTreeMap<Queue, Known>,
    in_flight: usize,
    bytes: usize,
    /// Targets that may close a queue: they have something under way, are down, or have several queues or topics. Of all
    /// others there may be thousands, and none of them needs a look.
    busy: BTreeSet<Arc<str>>,
    /// Queues that are closed by the last plan.
    closed: BTreeSet<Queue>,
    /// Queues that had their turn while not all could be served.
    served: BTreeSet<Queue>,
    /// Turns the order of a target's queues, so that each is first once.
    turn: usize,
    sifted_at: Instant,
    swept_at: Instant,
}

impl Board {
    pub(super) fn new(caps: Caps, now: Instant) -> Self {
        Self {
            caps,
            origins: HashMap::new(),
            queues: BTreeMap::new(),
            in_flight: 0,
            bytes: 0,
            busy: BTreeSet::new(),
            closed: BTreeSet::new(),
            served: BTreeSet::new(),
            turn: 0,
            sifted_at: now,
            swept_at: now,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether a target takes one more.
    pub(super) fn has_room(&self, origin: &str, now: Instant) -> bool {
        let room = |known: &Origin| known.room(self.share(), now) > 0;
        self.origins.get(origin).is_none_or(room) && self.in_flight < self.caps.total
    }

    /// What to ask the store for.
    pub(super) fn plan(&mut self, now: Instant) -> Plan {
        self.forget(now);
        let free = self.caps.total.saturating_sub(self.in_flight);
        if free == 0 || self.bytes >= self.caps.bytes {
            return Plan { now: Vec::new(), park: None, wake: None };
        }
        self.turn = self.turn.wrapping_add(1);
        let max = u32::try_from(free).unwrap_or(u32::MAX).min(MOST_A_CALL);
        let (many, some, one) = (self.closed(START, now), self.closed(SOME, now), self.closed(1, now));
        let with_turns: BTreeSet<Queue> = many.union(&self.served).cloned().collect();
        let mut calls = vec![call(max, START, &with_turns)];
        // What has room for some but not for many at once; for what has room for one, the call to wait in will do.
        if some != many {
            calls.push(call(max, SOME, &some));
        }
        let sift = self.sift(&one, now);
        if !sift.is_empty() {
            let all: BTreeSet<Queue> = self.queues.keys().filter(|queue| !sift.contains(*queue)).cloned().collect();
            calls.push(call(max, SIFT_DEPTH, &all));
        }
        let wake = self.wake(&one, now);
        Plan { now: calls, park: Some(call(max, 1, &one)), wake }
    }

    /// Queues that must not give `each` jobs a topic now, since no target known on them has room for that.
    fn closed(&self, each: usize, now: Instant) -> BTreeSet<Queue> {
        let share = self.share();
        let (mut closed, mut open) = (BTreeSet::new(), BTreeSet::new());
        for origin in self.busy.iter().filter_map(|origin| self.origins.get(origin)) {
            let mut room = origin.room(share, now);
            let count = origin.queues.len().max(1);
            for queue in origin.queues.iter().cycle().skip(self.turn % count).take(origin.queues.len()) {
                let Some(known) = self.queues.get(queue) else { continue };
                let need = need(origin, known, each);
                let is_open = room >= need && (each == 1 || origin.breaker == Breaker::Closed);
                room -= if is_open { need } else { 0 };
                let is_open = is_open || known.origins.iter().any(|origin| !self.busy.contains(origin));
                if is_open && known.moved < MOST_MOVED { &mut open } else { &mut closed }.insert(queue.clone());
            }
        }
        closed.retain(|queue| !open.contains(queue));
        closed
    }

    /// Deliveries that one target may have under way: all that it takes, while there is room for everybody.
    fn share(&self) -> usize {
        let half = self.caps.total / 2;
        if self.in_flight < half {
            return self.caps.each;
        }
        let busy = self.busy.iter().filter_map(|origin| self.origins.get(origin));
        let active = busy.filter(|origin| origin.in_flight > 0).count();
        (half / active.max(1)).clamp(1, self.caps.each)
    }

    /// Notes which queues are closed, and picks those to look into.
    fn sift(&mut self, closed: &BTreeSet<Queue>, now: Instant) -> BTreeSet<Queue> {
        for opened in self.closed.difference(closed) {
            if let Some(known) = self.queues.get_mut(opened) {
                known.closed_since = None;
            }
        }
        for queue in closed {
            if let Some(known) = self.queues.get_mut(queue) {
                known.closed_since.get_or_insert(now);
            }
        }
        self.closed.clone_from(closed);
        if now < self.sifted_at + SIFT_EVERY {
            return BTreeSet::new();
        }
        self.sifted_at = now;
        self.queues.values_mut().for_each(|known| known.moved = 0);
        let is_long = |queue: &&Queue| self.queues[*queue].closed_since.is_some_and(|at| at + SIFT_EVERY <= now);
        let long: Vec<&Queue> = closed.iter().filter(is_long).collect();
        let start = self.turn % long.len().max(1);
        long.iter().cycle().skip(start).take(long.len().min(SIFTED)).map(|queue| (*queue).clone()).collect()
    }

    fn wake(&self, closed: &BTreeSet<Queue>, now: Instant) -> Option<Instant> {
        let busy = self.busy.iter().filter_map(|origin| self.origins.get(origin));
        let probes = busy.filter_map(|origin| match origin.breaker {
            Breaker::Open { until, .. } if until > now => Some(until),
            Breaker::Open { .. } | Breaker::Closed | Breaker::Probing { .. } => None,
        });
        let sift = (!closed.is_empty()).then_some(self.sifted_at + SIFT_EVERY);
        probes.chain(sift).min()
    }

    /// What an answer tells about the order of turns: one that is full leaves others out, who come first then.
    pub(super) fn answered(&mut self, queues: impl Iterator<Item = Queue>, is_full: bool) {
        if is_full {
            self.served.extend(queues);
        } else {
            self.served.clear();
        }
    }

    /// Decides on a job of `queue` for `origin` with a body of so many bytes.
    pub(super) fn place(
        &mut self,
        queue: &Queue,
        topic: &TopicName,
        origin: &Arc<str>,
        bytes: usize,
        now: Instant,
    ) -> Place {
        self.learn(queue, topic, origin, now);
        let share = self.share();
        let known = self.origins.entry(Arc::clone(origin)).or_insert_with(|| Origin::new(now));
        if known.room(share, now) > 0 && self.in_flight < self.caps.total {
            known.take(now);
            self.in_flight += 1;
            self.bytes += bytes;
            self.note_busy(origin);
            return Place::Go;
        }
        let breaker = known.breaker;
        // One queue too many to be known: it cannot be closed, so its jobs come back later.
        let Some(queue) = self.queues.get_mut(queue) else { return Place::Back(Some(SOON)) };
        if queue.origins.len() == 1 && queue.closed_since.is_none() {
            return Place::Back(None);
        }
        queue.moved += 1;
        let wait = match breaker {
            Breaker::Open { until, .. } => until.saturating_duration_since(now).max(SOON),
            Breaker::Closed | Breaker::Probing { .. } => SOON,
        };
        Place::Back(Some(wait))
    }

    /// Remembers where a target's jobs come from.
    fn learn(&mut self, queue: &Queue, topic: &TopicName, origin: &Arc<str>, now: Instant) {
        if self.queues.len() >= MOST_KNOWN && !self.queues.contains_key(queue) {
            return;
        }
        let known = self.queues.entry(queue.clone()).or_insert_with(|| Known {
            origins: BTreeSet::new(),
            topics: BTreeSet::new(),
            closed_since: None,
            moved: 0,
        });
        if known.topics.len() < MOST_TOPICS {
            known.topics.insert(topic.clone());
        }
        if matches!(queue, Queue::Topic(_)) && !known.origins.contains(origin) {
            // A topic has one target; this is its new one.
            for old in std::mem::take(&mut known.origins) {
                if let Some(old) = self.origins.get_mut(&old) {
                    old.queues.remove(queue);
                }
            }
        }
        known.origins.insert(Arc::clone(origin));
        let entry = self.origins.entry(Arc::clone(origin)).or_insert_with(|| Origin::new(now));
        entry.used_at = now;
        entry.queues.insert(queue.clone());
        self.note_busy(origin);
    }

    /// Notes whether a target needs a look at every plan.
    fn note_busy(&mut self, origin: &str) {
        let Some((name, known)) = self.origins.get_key_value(origin) else { return };
        let topics = |queue: &Queue| self.queues.get(queue).map_or(0, |known| known.topics.len());
        let is_wide = known.queues.len() > 1 || known.queues.iter().any(|queue| topics(queue) > 1);
        if known.in_flight > 0 || known.breaker != Breaker::Closed || is_wide {
            self.busy.insert(Arc::clone(name));
        } else {
            self.busy.remove(name);
        }
    }

    /// A delivery has ended, and its target has room again; with no landing if it was given up. Says what the breaker
    /// did, and whether to plan anew. The job itself is under way until it is [`Board::settled`].
    pub(super) fn ended(&mut self, origin: &str, landing: Option<&Landing>, now: Instant) -> (Option<Turn>, bool) {
        let share = self.share();
        let Some(known) = self.origins.get_mut(origin) else { return (None, false) };
        let turn = if let Some(landing) = landing {
            known.landed(landing, self.caps.each, now)
        } else {
            known.give_up(now);
            None
        };
        let room = known.room(share, now);
        let is_news = if known.limit >= 2 * START { room > 0 && room.is_multiple_of(START) } else { room > 0 };
        let is_news = turn.is_some() || is_news || known.in_flight == 0;
        self.note_busy(origin);
        (turn, is_news)
    }

    /// A delivery is over and done with. Says whether to plan anew.
    pub(super) fn settled(&mut self, bytes: usize) -> bool {
        let was_full = self.in_flight >= self.caps.total || self.bytes >= self.caps.bytes;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        was_full
    }

    /// Forgets what has not been heard of for long, so that nothing grows with the number of targets ever met.
    fn forget(&mut self, now: Instant) {
        if now < self.swept_at + FORGET {
            return;
        }
        self.swept_at = now;
        self.origins.retain(|_, origin| {
            // One that is down is remembered for longer.
            let patience = if origin.breaker == Breaker::Closed { FORGET } else { 10 * FORGET };
            origin.in_flight > 0 || origin.used_at + patience > now
        });
        let origins = &self.origins;
        self.queues.retain(|_, known| {
            known.origins.retain(|origin| origins.contains_key(origin));
            !known.origins.is_empty()
        });
        for origin in self.origins.values_mut() {
            origin.queues.retain(|queue| self.queues.contains_key(queue));
        }
        self.busy.retain(|origin| self.origins.contains_key(origin));
        self.closed.retain(|queue| self.queues.contains_key(queue));
    }
}

/// How much room a target must have for a queue of its own to be open.
fn need(origin: &Origin, known: &Known, each: usize) -> usize {
    if origin.breaker != Breaker::Closed {
        return 1;
    }
    // A line brings so many from each topic; where even one of each is more than there will ever be room for, half of the
    // room is enough.
    let need = each * known.topics.len().max(1);
    let need = if each == 1 { need.min((origin.limit / 2).max(1)) } else { need };
    // One that takes many at once is not worth a call for one.
    if origin.limit >= 2 * START { need.max(START) } else { need }
}

fn call(max: u32, per_line: usize, closed: &BTreeSet<Queue>) -> Call {
    let mut lines = PushLines { per_line: u32::try_from(per_line).unwrap_or(1), ..PushLines::default() };
    for queue in closed {
        match queue {
            Queue::Line(line) => lines.blocked_lines.push(*line),
            Queue::Topic(topic) => lines.blocked_topics.push(topic.clone()),
        }
    }
    Call { max, lines }
}

#[cfg(test)]
mod tests;
