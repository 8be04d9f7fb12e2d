//! What must be true: the model, who waits, and what each crash must leave.
//!
//! The engine takes turns; in each it first lets time pass, then does what it was asked. A frame of its journal ends
//! after one of the two. So the shadow keeps the model as it was at each of these moments, with the sequence the store
//! had come to, and after a crash takes the one that the store has read back: exactly that must be there, and it must
//! not be older than anything that was answered.

use std::collections::VecDeque;

use dwell_core::{LeaseFrom, LeaseRequest, Lookup, State, Timestamp, TopicName};
use dwell_store_testkit::Model;

use crate::request::{Reply, Request, ask_model};

/// A call, by its place among all calls.
pub type CallId = u64;

/// The model and what surrounds it.
pub struct Shadow {
    /// What the store must look like.
    pub model: Model,
    /// The store's time.
    pub now: Timestamp,
    waiting: VecDeque<Waiting>,
    moments: VecDeque<Moment>,
    /// How many moments have been forgotten.
    forgotten: u64,
    /// The moment that everything answered so far needs.
    needed: u64,
    /// Whether a power cut may take the store back to before that.
    pub remembers_all: bool,
}

struct Waiting {
    call: CallId,
    request: LeaseRequest,
    deadline: u64,
}

struct Moment {
    /// The store's last sequence then.
    sequence: u64,
    model: Model,
}

impl Shadow {
    /// A store without jobs.
    pub fn new(model: Model, now: Timestamp, sequence: u64) -> Self {
        let moments = VecDeque::from([Moment { sequence, model: model.clone() }]);
        Self { model, now, waiting: VecDeque::new(), moments, forgotten: 0, needed: 0, remembers_all: false }
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
        self.moments.push_back(Moment { sequence, model: self.model.clone() });
    }

    /// The moment that was marked last.
    pub fn last_moment(&self) -> u64 {
        self.forgotten + self.moments.len() as u64 - 1
    }

    /// Does one call; what is answered to whom: nothing yet, if it is a lease that waits.
    pub fn call(&mut self, call: CallId, request: Request, real: u64) -> Vec<(CallId, Reply)> {
        let mut answers = self.serve(real);
        if let Request::Lease(lease) = &request {
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
        for waiting in std::mem::take(&mut self.waiting) {
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

    /// The n-th of those who wait.
    pub fn waiter(&self, n: u64) -> Option<CallId> {
        let count = self.waiting.len() as u64;
        if count == 0 { None } else { self.waiting.get(usize::try_from(n % count).ok()?).map(|waiting| waiting.call) }
    }

    /// Someone who waits has gone away.
    pub fn hang_up(&mut self, call: CallId) {
        self.waiting.retain(|waiting| waiting.call != call);
    }

    /// How many wait for a topic.
    pub fn waiting_for(&self, topic: &TopicName) -> u64 {
        let names =
            |waiting: &&Waiting| matches!(&waiting.request.from, LeaseFrom::Pull(topics) if topics.contains(topic));
        self.waiting.iter().filter(names).count() as u64
    }

    /// When a job will be due that someone waits for and nothing else keeps from being handed out.
    pub fn next_wanted(&mut self) -> Option<Timestamp> {
        let topics: Vec<TopicName> = self
            .waiting
            .iter()
            .flat_map(|waiting| match &waiting.request.from {
                LeaseFrom::Pull(topics) => topics.clone(),
                LeaseFrom::Push(_) | LeaseFrom::Number(_) => Vec::new(),
            })
            .collect();
        topics.into_iter().filter_map(|topic| self.next_due(&topic)).min()
    }

    fn next_due(&mut self, topic: &TopicName) -> Option<Timestamp> {
        let info = self.model.topic(self.now, topic)?;
        if info.pause.holds_at(self.now) || info.policy.max_in_flight.is_some() {
            return None;
        }
        let found = self.model.get(self.now, &[Lookup::Next(topic.clone(), State::Delayed)]).remove(0);
        Some(found?.live()?.job.due_at)
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
        self.model = self.moments[first].model.clone();
        self.model.set_fraction(0);
        self.model.restart(now);
        self.now = now;
        self.waiting.clear();
        self.moments = VecDeque::from([Moment { sequence, model: self.model.clone() }]);
        self.forgotten = 0;
        self.needed = 0;
        Ok(())
    }
}
