//! Handing out: which jobs a lease call gets, and when those who wait get theirs.

use std::collections::{BTreeMap, BTreeSet};

use dwell_core::state::{Command, Grant};
use dwell_core::{
    LeaseFrom, LeaseRequest, LeaseToken, LeasedJob, Line, Phase, PushLines, Rules, Settle, StoreError, TopicName,
    Verdict, limits,
};

use super::Engine;
use super::answers::Reply;
use super::slots::Index;
use super::topic::Rank;
use super::waiters::{Waiter, WaiterId};
use crate::format::record::{Cause, GoneCause, PhaseKind, TopicId};
use crate::sim_bugs::{self, Bug};

/// A line of a topic that a call may have jobs of.
struct Queue {
    topic: TopicId,
    line: Line,
    /// How many it has had.
    given: u32,
}

impl Engine {
    /// Answers with what is ready, or lets the caller wait.
    pub(super) fn lease_or_wait(&mut self, request: LeaseRequest, reply: Reply<Vec<LeasedJob>>) {
        self.note_asked(&request.from);
        // Those who came before go first, also where what is ready for them is still on its way from the cold tier.
        self.serve();
        // Nothing is handed out to somebody who is known to have gone away.
        if reply.is_closed() && !sim_bugs::is(Bug::GoneStillServed) {
            return;
        }
        let leased = if self.waiters.is_behind(&request.from) { None } else { self.lease(&request) };
        let held_up = leased.is_none();
        let jobs = leased.unwrap_or_default();
        let waits = !request.wait.is_zero() && !matches!(request.from, LeaseFrom::Number(_));
        if !held_up && (!jobs.is_empty() || !waits) {
            return self.answer_lease(reply, jobs);
        }
        if self.waiters.is_full() {
            drop(reply.send(Err(StoreError::Overloaded)));
            return;
        }
        let deadline = self.now.real + request.wait;
        self.open_later(&request.from);
        let from = request.from.clone();
        self.waiters.park(Waiter { request, deadline, answer: reply, held_up: false }, held_up);
        self.prefetch_for(&from);
    }

    fn answer_lease(&mut self, reply: Reply<Vec<LeasedJob>>, jobs: Vec<LeasedJob>) {
        self.answers.hold_lease(self.batch.last_sequence(), reply, jobs);
        let lost = self.answers.release(self.batch.durable());
        debug_assert!(lost.is_empty(), "a lease is never durable before it is synced");
    }

    /// Gives jobs to those who wait, wherever something has changed; sends home those whose time is over.
    pub(super) fn serve(&mut self) {
        loop {
            let marked = self.waiters.take_marked();
            if marked.is_empty() {
                break;
            }
            self.serve_consumers(&marked);
            self.serve_couriers();
            for topic in marked {
                self.set_topic_timer(topic);
            }
        }
        for id in self.waiters.expired(self.now.real) {
            if self.waiters.is_behind_held_up(id) {
                // There may be something for it, too, that goes to it once it has its turn.
                self.waiters.hold_up(id, true);
                continue;
            }
            let waiter = self.waiters.take(id);
            self.answer_lease(waiter.answer, Vec::new());
        }
    }

    /// First come, first served, over all these topics together: who waits for two of them must not be overtaken by
    /// whoever waits for the one that is looked at first.
    fn serve_consumers(&mut self, topics: &BTreeSet<TopicId>) {
        let names: Vec<TopicName> = topics.iter().filter_map(|id| Some(self.topics.get(id)?.name.clone())).collect();
        let mut next: BTreeSet<(WaiterId, usize)> = BTreeSet::new();
        for (index, name) in names.iter().enumerate() {
            next.extend(self.waiters.next_consumer(name, None).map(|id| (id, index)));
        }
        while let Some((id, index)) = next.pop_first() {
            let behind = match self.serve_one(id) {
                Served::HeldUp => continue,
                // A consumer that gets nothing here shows that no other one would: none of them is held up any more.
                Served::Nothing => self.waiters.next_held_up(&names[index], id),
                Served::Gone => self.waiters.next_consumer(&names[index], Some(id)),
            };
            next.extend(behind.map(|id| (id, index)));
        }
    }

    fn serve_couriers(&mut self) {
        let mut after = None;
        while let Some(id) = self.waiters.next_courier(after) {
            after = Some(id);
            if self.serve_one(id) == Served::HeldUp {
                break;
            }
        }
    }

    /// Gives one who waits what there is.
    fn serve_one(&mut self, id: WaiterId) -> Served {
        let Some(request) = self.waiters.request(id).cloned() else { return Served::Gone };
        let leased = self.lease(&request);
        let was_held_up = self.waiters.hold_up(id, leased.is_none());
        if was_held_up && leased.is_some() {
            self.mark_behind(&request.from);
        }
        match leased {
            None => Served::HeldUp,
            Some(jobs) if jobs.is_empty() => Served::Nothing,
            Some(jobs) => {
                let waiter = self.waiters.take(id);
                self.answer_lease(waiter.answer, jobs);
                Served::Gone
            }
        }
    }

    /// A consumer is not held up any more: those who were behind it wait for any of its topics, not just the one where
    /// something has changed.
    fn mark_behind(&mut self, from: &LeaseFrom) {
        let LeaseFrom::Pull(topics) = from else { return };
        for topic in topics.iter().filter_map(|name| self.names.get(name)) {
            self.waiters.mark(*topic);
        }
    }

    /// What can be leased right now; nothing at all is said while what goes first is still in the cold tier.
    fn lease(&mut self, request: &LeaseRequest) -> Option<Vec<LeasedJob>> {
        if let LeaseFrom::Number(number) = request.from {
            let index = self.slots.by_number(number).filter(|index| self.refresh(*index));
            let index = index.filter(|index| self.is_leasable_by_number(*index));
            return Some(index.map(|index| self.hand_out(index, request)).into_iter().collect());
        }
        if self.is_short(request) {
            return None;
        }
        let mut queues = self.queues(&request.from);
        let share = match &request.from {
            LeaseFrom::Push(lines) if !sim_bugs::is(Bug::SharesIgnored) => lines.per_line.max(1),
            _ => u32::MAX,
        };
        let ready: usize = queues.iter().map(|queue| self.ready_on(queue)).sum();
        let mut leased: Vec<LeasedJob> = Vec::with_capacity(ready.min(request.max as usize));
        let mut bytes = 0;
        while leased.len() < request.max as usize {
            let Some((queue, index)) = self.best(&mut queues, share) else { break };
            if !self.can_go(index) {
                continue;
            }
            bytes += self.open(index).body.len();
            if bytes > limits::MAX_ANSWER_BYTES && !leased.is_empty() {
                break;
            }
            queue.given += 1;
            leased.push(self.hand_out(index, request));
        }
        Some(leased)
    }

    /// Whether a job that looked ready still is once time has passed for it.
    fn can_go(&mut self, index: Index) -> bool {
        let before = self.slots.get(index).indexed;
        self.refresh(index) && self.slots.get(index).indexed == before
    }

    /// Where the jobs for a call may come from. While it is served no other queue gets a job.
    fn queues(&self, from: &LeaseFrom) -> Vec<Queue> {
        let queue = |topic, line| Queue { topic, line, given: 0 };
        match from {
            LeaseFrom::Number(_) => Vec::new(),
            LeaseFrom::Pull(names) => {
                let topics = names.iter().filter_map(|name| self.topics.get(self.names.get(name)?));
                let pulled =
                    topics.filter(|topic| topic.policy.deliver_to.is_none() || sim_bugs::is(Bug::PushedIsPulled));
                pulled.map(|topic| queue(topic.id, Line::PULL)).collect()
            }
            LeaseFrom::Push(lines) => {
                let pushing = self.pushing.iter().filter_map(|id| self.topics.get(id));
                // What a topic lets go, consumers have first, also one whose job is still being read.
                let free = pushing.filter(|topic| !(topic.is_limited() && self.waiters.holds_up(&topic.name)));
                let open = free.flat_map(|topic| {
                    let pushed = topic.pushed_lines(self.now.at).into_iter();
                    let open = pushed.filter(|line| !is_blocked(lines, &topic.name, *line));
                    open.map(|line| queue(topic.id, line))
                });
                open.collect()
            }
        }
    }

    fn ready_on(&self, queue: &Queue) -> usize {
        self.topics.get(&queue.topic).and_then(|topic| topic.ready.get(&queue.line)).map_or(0, BTreeMap::len)
    }

    /// The job that goes first, of all queues that have not given their share.
    fn best<'a>(&mut self, queues: &'a mut [Queue], share: u32) -> Option<(&'a mut Queue, Index)> {
        let mut best: Option<(Rank, Index, &mut Queue)> = None;
        for queue in queues.iter_mut().filter(|queue| queue.given < share) {
            let Some(topic) = self.topics.get_mut(&queue.topic) else { continue };
            let Some((rank, index)) = topic.head(queue.line) else { continue };
            if best.as_ref().is_none_or(|(first, ..)| rank < *first) && topic.hands_out(self.now.at) {
                best = Some((rank, index, queue));
            }
        }
        best.map(|(_, index, queue)| (queue, index))
    }

    fn is_leasable_by_number(&self, index: Index) -> bool {
        let slot = self.slots.get(index);
        let rules = Rules { policy: &self.topics[&slot.topic].policy, defaults: &self.settings.defaults };
        let past_ttl = rules.expires_at(&self.job(index)).is_some_and(|at| at <= self.now.at);
        slot.meta.phase != PhaseKind::Leased && !past_ttl
    }

    fn hand_out(&mut self, index: Index, request: &LeaseRequest) -> LeasedJob {
        let grant = Grant {
            ttr: request.ttr,
            secret: self.roll(),
            consumer: request.consumer.clone(),
            // By its number a job can be had before it is due.
            by_number: matches!(request.from, LeaseFrom::Number(_)) || sim_bugs::is(Bug::EarlyByOne),
        };
        self.command(index, Command::Lease(grant), Cause::Lease).expect("it was found to be leasable");
        let view = self.view(index);
        let id = self.slots.get(index).topic;
        let topic = self.topics.get_mut(&id).expect("every job has a topic");
        topic.count_rate(self.now.at);
        if request.auto_ack {
            self.finish(index, GoneCause::Ack);
            return LeasedJob { view, token: None };
        }
        let token = if let Phase::Leased(lease) = &view.job.phase { Some(lease.token) } else { None };
        LeasedJob { view, token }
    }

    /// Releases leases that nobody received; the attempts are uncounted. Who waits gets its jobs once all are back.
    pub(super) fn give_back(&mut self, tokens: Vec<LeaseToken>) {
        if self.failed.is_some() || tokens.is_empty() {
            return;
        }
        for token in tokens {
            let release = Verdict::Release { delay: None, priority: None };
            // A lease that is lost by now has been given back by its end.
            self.settle_one(Settle::new(token, release)).ok();
        }
        self.serve();
    }

    /// Somebody asks for jobs of these topics.
    fn note_asked(&mut self, from: &LeaseFrom) {
        let LeaseFrom::Pull(names) = from else { return };
        for name in names {
            if let Some(topic) = self.names.get(name).and_then(|id| self.topics.get_mut(id)) {
                topic.asked = Some(self.now.real);
            }
        }
    }

    /// Sets the timers of topics that only time keeps from handing out to someone who begins to wait.
    fn open_later(&mut self, from: &LeaseFrom) {
        let topics: Vec<TopicId> = match from {
            LeaseFrom::Pull(topics) => topics.iter().filter_map(|name| self.names.get(name).copied()).collect(),
            LeaseFrom::Push(_) => self.pushing.iter().copied().collect(),
            LeaseFrom::Number(_) => Vec::new(),
        };
        for topic in topics {
            self.set_topic_timer(topic);
        }
    }
}

/// What became of one who waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// It does not wait any more.
    Gone,
    /// There is nothing for it.
    Nothing,
    /// There is something, and what goes first is still in the cold tier.
    HeldUp,
}

/// Whether a courier wants nothing of this line.
pub(super) fn is_blocked(lines: &PushLines, topic: &TopicName, line: Line) -> bool {
    if sim_bugs::is(Bug::BlockedLinesIgnored) {
        false
    } else if line == Line::PULL {
        lines.blocked_topics.contains(topic)
    } else {
        lines.blocked_lines.contains(&line)
    }
}
