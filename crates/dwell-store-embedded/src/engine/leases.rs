//! Handing out: which jobs a lease call gets, and when those who wait get theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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
use crate::planted::{self, Bug};

/// How much longer somebody waits at the most for a job that is ready and not in memory.
const PATIENCE: Duration = Duration::from_secs(5);

/// Jobs already given in this call, by queue.
type Given = BTreeMap<(TopicId, Line), u32>;

impl Engine {
    /// Answers with what is ready, or lets the caller wait.
    pub(super) fn lease_or_wait(&mut self, request: LeaseRequest, reply: Reply<Vec<LeasedJob>>) {
        // Those who came before go first.
        self.serve();
        let jobs = self.lease(&request);
        let waits = !request.wait.is_zero() && !matches!(request.from, LeaseFrom::Number(_));
        if jobs.is_empty() && waits {
            if self.waiters.is_full() {
                drop(reply.send(Err(StoreError::Overloaded)));
                return;
            }
            let deadline = self.now.real + request.wait;
            self.open_later(&request.from);
            let from = request.from.clone();
            self.waiters.park(Waiter { request, deadline, answer: reply });
            return self.bring_ahead_for(&from);
        }
        self.answer_lease(reply, jobs);
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
        for (deadline, id) in self.waiters.expired(self.now.real) {
            // What is ready for it may be on its way from the shelf.
            let request = self.waiters.request(id).cloned();
            let in_time = self.now.real < deadline + PATIENCE;
            if in_time && request.is_some_and(|request| self.is_short(&request)) {
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
            if let Some(request) = self.waiters.request(id).cloned() {
                let jobs = self.lease(&request);
                if jobs.is_empty() {
                    if self.is_short(&request) {
                        self.shelf.held_up.extend(topics);
                    }
                    // A consumer that gets nothing here shows that no other one would.
                    continue;
                }
                let waiter = self.waiters.take(id);
                self.answer_lease(waiter.answer, jobs);
            }
            next.extend(self.waiters.next_consumer(&names[index], Some(id)).map(|id| (id, index)));
        }
    }

    fn serve_couriers(&mut self) {
        let mut after = None;
        while let Some(id) = self.waiters.next_courier(after) {
            after = Some(id);
            let Some(request) = self.waiters.request(id).cloned() else { continue };
            let jobs = self.lease(&request);
            if jobs.is_empty() && self.is_short(&request) {
                self.shelf.held_up.extend(&self.pushing);
            }
            if !jobs.is_empty() {
                let waiter = self.waiters.take(id);
                self.answer_lease(waiter.answer, jobs);
            }
        }
    }

    /// What can be leased right now.
    fn lease(&mut self, request: &LeaseRequest) -> Vec<LeasedJob> {
        let mut leased: Vec<LeasedJob> = Vec::new();
        if self.is_short(request) {
            return leased;
        }
        let mut given = Given::new();
        let mut bytes = 0;
        while leased.len() < request.max as usize {
            let Some(index) = self.best(&request.from, &given) else { break };
            if !self.can_go(index, &request.from) {
                continue;
            }
            bytes += self.open(index).body.len();
            if bytes > limits::MAX_ANSWER_BYTES && !leased.is_empty() {
                break;
            }
            let slot = self.slots.get(index);
            *given.entry((slot.topic, slot.brief.line)).or_default() += 1;
            leased.push(self.hand_out(index, request));
            if matches!(request.from, LeaseFrom::Number(_)) {
                break;
            }
        }
        leased
    }

    /// Whether a job that looked ready still is once time has passed for it.
    fn can_go(&mut self, index: Index, from: &LeaseFrom) -> bool {
        let before = self.slots.get(index).indexed;
        let stays = self.refresh(index) && self.slots.get(index).indexed == before;
        stays || matches!(from, LeaseFrom::Number(_))
    }

    fn best(&mut self, from: &LeaseFrom, given: &Given) -> Option<Index> {
        match from {
            LeaseFrom::Number(number) => {
                let index = self.slots.by_number(*number)?;
                (given.is_empty() && self.refresh(index) && self.is_leasable_by_number(index)).then_some(index)
            }
            LeaseFrom::Pull(topics) => {
                let heads = topics.iter().filter_map(|name| self.names.get(name).copied());
                let heads: Vec<TopicId> = heads.collect();
                self.best_head(heads.into_iter().map(|topic| (topic, Line::PULL)), false)
            }
            LeaseFrom::Push(lines) => {
                let pushing = self.pushing.iter().filter_map(|id| self.topics.get(id));
                let open = pushing.flat_map(|topic| {
                    let name = &topic.name;
                    let pushed = topic.pushed_lines(self.now.at).into_iter();
                    pushed.filter(|line| !is_blocked(lines, name, *line)).map(|line| (topic.id, line))
                });
                let share = if planted::is(Bug::SharesIgnored) { u32::MAX } else { lines.per_line.max(1) };
                let open: Vec<_> = open.filter(|queue| given.get(queue).is_none_or(|n| *n < share)).collect();
                self.best_head(open.into_iter(), true)
            }
        }
    }

    fn best_head(&mut self, queues: impl Iterator<Item = (TopicId, Line)>, pushed: bool) -> Option<Index> {
        let mut best: Option<(Rank, Index)> = None;
        for (id, line) in queues {
            let Some(topic) = self.topics.get_mut(&id) else { continue };
            let whole_topic_is_pushed = line == Line::PULL && topic.policy.deliver_to.is_some();
            if whole_topic_is_pushed != pushed && line == Line::PULL && !planted::is(Bug::PushedIsPulled) {
                continue;
            }
            let Some(head) = topic.head(line) else { continue };
            if best.is_none_or(|(rank, _)| head.0 < rank) && topic.hands_out(self.now.at) {
                best = Some(head);
            }
        }
        best.map(|(_, index)| index)
    }

    fn is_leasable_by_number(&self, index: Index) -> bool {
        let slot = self.slots.get(index);
        let rules = Rules { policy: &self.topics[&slot.topic].policy, defaults: &self.settings.defaults };
        let past_ttl = rules.expires_at(&self.job(index)).is_some_and(|at| at <= self.now.at);
        slot.brief.phase != PhaseKind::Leased && !past_ttl
    }

    fn hand_out(&mut self, index: Index, request: &LeaseRequest) -> LeasedJob {
        let grant = Grant {
            ttr: request.ttr,
            secret: self.roll(),
            consumer: request.consumer.clone(),
            // By its number a job can be had before it is due.
            by_number: matches!(request.from, LeaseFrom::Number(_)) || planted::is(Bug::EarlyByOne),
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

    /// Releases a lease that nobody received; the attempt is uncounted.
    pub(super) fn give_back(&mut self, token: LeaseToken) {
        if self.failed.is_some() {
            return;
        }
        let release = Verdict::Release { delay: None, priority: None };
        // A lease that is lost by now has been given back by its end.
        if self.settle_one(Settle::new(token, release)).is_ok() {
            self.serve();
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

fn is_blocked(lines: &PushLines, topic: &TopicName, line: Line) -> bool {
    if planted::is(Bug::BlockedLinesIgnored) {
        false
    } else if line == Line::PULL {
        lines.blocked_topics.contains(topic)
    } else {
        lines.blocked_lines.contains(&line)
    }
}
