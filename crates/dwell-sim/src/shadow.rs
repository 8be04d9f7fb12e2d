//! What must be true: the model, who waits, and what each crash must leave.
//!
//! The engine takes turns; in each it first lets time pass, then does what it was asked. A frame of its journal ends
//! after one of the two. So the shadow keeps the model as it was at each of these moments, with the sequence the store
//! had come to, and after a crash takes the one that the store has read back: exactly that must be there, and it must
//! not be older than anything that was answered.

use std::collections::{BTreeSet, VecDeque};

use dwell_core::{
    Job, LeaseFrom, LeaseRequest, LeaseToken, Line, ListQuery, Settle, State, Timestamp, TopicName, TopicPolicy,
    TopicsQuery, Verdict,
};
use dwell_store_testkit::Model;

use crate::request::{Reply, Request, ask_model};

/// A call, by its place among all calls.
pub type CallId = u64;

/// The model and what surrounds it.
#[derive(Clone)]
pub struct Shadow {
    /// What the store must look like.
    pub model: Model,
    /// The store's time.
    pub now: Timestamp,
    waiting: VecDeque<Waiting>,
    /// Who has gone away.
    gone: BTreeSet<CallId>,
    moments: VecDeque<Moment>,
    /// How many moments have been forgotten.
    forgotten: u64,
    /// The moment that everything answered so far needs.
    needed: u64,
    /// Whether a power cut may take the store back to before that.
    pub remembers_all: bool,
}

#[derive(Clone)]
struct Waiting {
    call: CallId,
    request: LeaseRequest,
    deadline: u64,
}

#[derive(Clone)]
struct Moment {
    /// The store's last sequence then.
    sequence: u64,
    now: Timestamp,
    model: Model,
}

impl Shadow {
    /// A store without jobs.
    pub fn new(model: Model, now: Timestamp, sequence: u64) -> Self {
        let moments = VecDeque::from([Moment { sequence, now, model: model.clone() }]);
        let (waiting, gone) = (VecDeque::new(), BTreeSet::new());
        Self { model, now, waiting, gone, moments, forgotten: 0, needed: 0, remembers_all: false }
    }

    /// The first half of a turn: time passes, those who wait get what became ready, or run out of patience. What is
    /// answered to whom.
    pub fn tick(&mut self, now: Timestamp, up: Timestamp, real: u64) -> Vec<(CallId, Reply)> {
        self.now = now;
        self.model.set_fraction(up.since(now));
        self.model.pass_time(now);
        self.serve(real)
    }

    /// The half is over.
    pub fn mark(&mut self, sequence: u64) {
        self.moments.push_back(Moment { sequence, now: self.now, model: self.model.clone() });
    }

    /// The moment that was marked last.
    pub fn last_moment(&self) -> u64 {
        self.forgotten + self.moments.len() as u64 - 1
    }

    /// The store's last sequence at a moment that was marked.
    pub fn sequence_of(&self, moment: u64) -> u64 {
        let place = usize::try_from(moment - self.forgotten).unwrap_or(0);
        self.moments.get(place).map_or(0, |moment| moment.sequence)
    }

    /// Does one call; what is answered to whom: nothing yet, if it is a lease that waits.
    pub fn call(&mut self, call: CallId, request: Request, real: u64) -> Vec<(CallId, Reply)> {
        let mut answers = self.serve(real);
        if let Request::Lease(lease) = &request {
            if self.gone.contains(&call) {
                return answers;
            }
            let jobs = self.model.lease(self.now, lease);
            let waits = !lease.wait.is_zero() && !matches!(lease.from, LeaseFrom::Number(_));
            if jobs.is_empty() && waits {
                let wait = u64::try_from(lease.wait.as_millis()).unwrap_or(u64::MAX);
                self.waiting.push_back(Waiting { call, request: lease.clone(), deadline: real + wait });
                return answers;
            }
            answers.push((call, Reply::Lease(jobs)));
        } else {
            let mut reply = ask_model(&mut self.model, self.now, request);
            if let Reply::Topic(Some(info)) = &mut reply {
                info.waiting = self.waiting_for(&info.name);
            }
            let mut served = self.serve(real);
            answers.append(&mut served);
            answers.push((call, reply));
        }
        answers
    }

    fn serve(&mut self, real: u64) -> Vec<(CallId, Reply)> {
        let mut answers = Vec::new();
        let mut still = VecDeque::new();
        // A job is for consumers or for couriers; where they share what a topic allows, consumers go first.
        let (couriers, consumers): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| matches!(waiting.request.from, LeaseFrom::Push(_)));
        for waiting in consumers.into_iter().chain(couriers) {
            let jobs = self.model.lease(self.now, &waiting.request);
            if !jobs.is_empty() || waiting.deadline <= real {
                answers.push((waiting.call, Reply::Lease(jobs)));
            } else {
                still.push_back(waiting);
            }
        }
        self.waiting = still;
        answers
    }

    /// The store is closing: those who wait are answered with nothing.
    pub fn close(&mut self) -> Vec<(CallId, Reply)> {
        self.waiting.drain(..).map(|waiting| (waiting.call, Reply::Lease(Vec::new()))).collect()
    }

    /// Whether a call is a lease that waits.
    pub fn is_waiting(&self, call: CallId) -> bool {
        self.waiting.iter().any(|waiting| waiting.call == call)
    }

    /// Someone has gone away: does not wait any more, and will not.
    pub fn hang_up(&mut self, call: CallId) {
        self.waiting.retain(|waiting| waiting.call != call);
        self.gone.insert(call);
    }

    /// These leases became durable, and nobody was there to receive them: what is answered to whom instead.
    pub fn give_back(&mut self, tokens: &[LeaseToken], real: u64) -> Vec<(CallId, Reply)> {
        for token in tokens {
            let release = Verdict::Release { delay: None, priority: None };
            self.model.settle(self.now, vec![Settle::new(*token, release)]);
        }
        if tokens.is_empty() { Vec::new() } else { self.serve(real) }
    }

    /// How many wait for a topic.
    pub fn waiting_for(&self, topic: &TopicName) -> u64 {
        let names =
            |waiting: &&Waiting| matches!(&waiting.request.from, LeaseFrom::Pull(topics) if topics.contains(topic));
        self.waiting.iter().filter(names).count() as u64
    }

    /// When a job will be due that someone waits for and nothing else keeps from being handed out.
    pub fn next_wanted(&mut self) -> Option<Timestamp> {
        let mut first = None;
        for info in self.model.topics(self.now, &TopicsQuery::default()) {
            let policy = &info.policy;
            if info.pause.holds_at(self.now) || policy.max_in_flight.is_some() || policy.max_rate.is_some() {
                continue;
            }
            let wanted = |job: &Job| self.waiting.iter().any(|waiting| wants(&waiting.request.from, job, policy));
            let query = ListQuery { limit: 1_000, state: Some(State::Delayed), ..ListQuery::of(info.name.clone()) };
            let delayed = self.model.list(self.now, &query).map(|page| page.jobs).unwrap_or_default();
            let due = delayed.iter().filter(|view| wanted(&view.job)).map(|view| view.job.due_at).min();
            first = first.into_iter().chain(due).min();
        }
        first
    }

    /// Something was answered that happened no later than this moment.
    pub fn answered(&mut self, moment: u64) {
        self.needed = self.needed.max(moment);
        if self.remembers_all {
            return;
        }
        let needed = usize::try_from(self.needed - self.forgotten).unwrap_or(0);
        let sequence = self.moments.get(needed).map(|moment| moment.sequence);
        // Time may fall back to when the store came to that sequence, if the wall clock was set back meanwhile.
        let first = self.moments.iter().position(|moment| Some(moment.sequence) == sequence);
        for _ in 0..first.unwrap_or(needed).min(needed) {
            self.moments.pop_front();
            self.forgotten += 1;
        }
    }

    /// The store was started again and has read back everything up to `sequence`: goes back to that moment, which is
    /// before something that was answered only if it `may_lose`.
    pub fn restart(&mut self, sequence: u64, now: Timestamp, may_lose: bool) -> Result<(), String> {
        let is_it = |moment: &Moment| moment.sequence == sequence;
        let lost = || format!("read back only up to sequence {sequence}: what was answered later is lost");
        let Some(last) = self.moments.iter().rposition(is_it) else {
            let never = || format!("read back up to sequence {sequence}, in the middle of something");
            let later = self.moments.front().is_some_and(|moment| moment.sequence > sequence);
            return Err(if later { lost() } else { never() });
        };
        if self.forgotten + (last as u64) < self.needed && !may_lose {
            return Err(lost());
        }
        // Turns that logged nothing left no trace: the store is as it was when it came to that sequence.
        let first = self.moments.iter().position(is_it).unwrap_or(last);
        let then = self.moments[first].now;
        if now < then {
            return Err(format!("the store's time fell from {then:?} to {now:?} over a start"));
        }
        self.model = self.moments[first].model.clone();
        self.model.set_fraction(0);
        self.model.restart(now);
        self.now = now;
        self.waiting.clear();
        self.gone.clear();
        self.moments = VecDeque::from([Moment { sequence, now, model: self.model.clone() }]);
        self.forgotten = 0;
        self.needed = 0;
        Ok(())
    }
}

/// Whether who leases so takes this job of a topic with this policy.
fn wants(from: &LeaseFrom, job: &Job, policy: &TopicPolicy) -> bool {
    let line = job.line();
    let pushed = line != Line::PULL || policy.deliver_to.is_some();
    match from {
        LeaseFrom::Pull(topics) => !pushed && topics.contains(&job.topic),
        LeaseFrom::Push(lines) if line == Line::PULL => pushed && !lines.blocked_topics.contains(&job.topic),
        LeaseFrom::Push(lines) => !lines.blocked_lines.contains(&line),
        LeaseFrom::Number(_) => false,
    }
}
