//! Which jobs a lease call gets.

use std::collections::BTreeMap;

use dwell_core::limits;
use dwell_core::state::{Command, Grant};
use dwell_core::{
    Job, LeaseFrom, LeaseRequest, LeaseToken, LeasedJob, Line, Number, Phase, PushLines, RateBucket, State, Timestamp,
    TopicName,
};

use super::Model;

/// Jobs already given in this call, by queue.
type Given = BTreeMap<(TopicName, Line), u32>;

impl Model {
    /// See [`dwell_core::Store::lease`]: what it would answer now, without waiting.
    pub fn lease(&mut self, now: Timestamp, request: &LeaseRequest) -> Vec<LeasedJob> {
        self.pass_time(now);
        let mut leased: Vec<LeasedJob> = Vec::new();
        let mut given = Given::new();
        let mut bytes = 0;
        while leased.len() < request.max as usize {
            let Some(number) = self.best(now, &request.from, &given) else { break };
            let job = &self.jobs[&number];
            bytes += job.body.len();
            if bytes > limits::MAX_ANSWER_BYTES && !leased.is_empty() {
                break;
            }
            *given.entry((job.topic.clone(), job.line())).or_default() += 1;
            leased.push(self.hand_out(now, number, request));
        }
        leased
    }

    fn best(&mut self, now: Timestamp, from: &LeaseFrom, given: &Given) -> Option<Number> {
        if let LeaseFrom::Number(number) = from {
            let leasable = |job: &Job| {
                let past_ttl = self.rules(&job.topic).expires_at(job).is_some_and(|at| at <= now);
                !matches!(job.phase, Phase::Leased(_)) && !past_ttl
            };
            return self.jobs.get(number).filter(|job| leasable(job)).map(|job| job.number);
        }
        let open: Vec<TopicName> = self.topics.keys().cloned().collect();
        let open: Vec<TopicName> = open.into_iter().filter(|topic| self.hands_out(topic, now)).collect();
        let ready = self.jobs.values().filter(|job| job.state(now) == State::Ready && open.contains(&job.topic));
        let wanted = ready.filter(|job| match from {
            LeaseFrom::Pull(topics) => topics.contains(&job.topic) && !self.is_pushed(job),
            LeaseFrom::Push(lines) => self.is_pushed(job) && takes(lines, job, given),
            LeaseFrom::Number(_) => unreachable!("answered above"),
        });
        wanted.min_by_key(|job| job.order()).map(|job| job.number)
    }

    /// Whether the topic's pause, `max_in_flight` and `max_rate` let one more job go.
    fn hands_out(&mut self, name: &TopicName, now: Timestamp) -> bool {
        let held = self.jobs.values().filter(|job| &job.topic == name && matches!(job.phase, Phase::Leased(_))).count();
        let topic = self.topics.get_mut(name).expect("listed just now");
        let in_flight = topic.policy.max_in_flight.is_none_or(|max| held < max.get() as usize);
        let rate = topic.policy.max_rate.is_none_or(|rate| {
            let bucket = topic.bucket.get_or_insert_with(|| RateBucket::full(rate, now));
            bucket.available(rate, now) > 0
        });
        !topic.pause.holds_at(now) && in_flight && rate
    }

    fn is_pushed(&self, job: &Job) -> bool {
        self.rules(&job.topic).deliver_to(job).is_some()
    }

    fn hand_out(&mut self, now: Timestamp, number: Number, request: &LeaseRequest) -> LeasedJob {
        let grant = Grant {
            ttr: request.ttr,
            secret: self.dice.roll(),
            consumer: request.consumer.clone(),
            by_number: matches!(request.from, LeaseFrom::Number(_)),
        };
        self.apply(now, number, Command::Lease(grant)).expect("the best job can be leased");
        let view = self.view(&self.jobs[&number], now);
        let topic = self.topics.get_mut(&view.job.topic).expect("every job has a topic");
        topic.totals.leased += 1;
        if let Some(rate) = topic.policy.max_rate {
            topic.bucket.get_or_insert_with(|| RateBucket::full(rate, now)).take(rate, now, 1);
        }
        if request.auto_ack {
            topic.totals.acked += 1;
            self.finish(now, number);
            return LeasedJob { view, token: None };
        }
        let token = lease_token(&view.job);
        LeasedJob { view, token }
    }
}

/// Whether a courier that asks for `lines` takes this job.
fn takes(lines: &PushLines, job: &Job, given: &Given) -> bool {
    let line = job.line();
    let blocked = if line == Line::PULL {
        lines.blocked_topics.contains(&job.topic)
    } else {
        lines.blocked_lines.contains(&line)
    };
    let share = given.get(&(job.topic.clone(), line)).copied().unwrap_or(0);
    !blocked && share < lines.per_line.max(1)
}

fn lease_token(job: &Job) -> Option<LeaseToken> {
    if let Phase::Leased(lease) = &job.phase { Some(lease.token) } else { None }
}
