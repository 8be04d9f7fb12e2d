//! What is asked of whole topics.

use dwell_core::state::Command;
use dwell_core::{
    Counts, Job, Number, Phase, Purge, RateBucket, Redrive, RedriveTopic, Redriven, SetPause, State, Timestamp,
    TopicError, TopicInfo, TopicName, TopicPolicy, TopicsQuery,
};

use super::Model;

impl Model {
    /// See [`dwell_core::Store::topics`]. The model knows no waiting consumers; [`crate::ModelStore`] counts them.
    pub fn topics(&mut self, now: Timestamp, query: &TopicsQuery) -> Vec<TopicInfo> {
        self.pass_time(now);
        let wanted = |name: &&TopicName| {
            name.as_str().starts_with(&query.prefix) && query.after.as_ref().is_none_or(|after| *name > after)
        };
        let names: Vec<TopicName> = self.topics.keys().filter(wanted).take(query.limit as usize).cloned().collect();
        names.into_iter().filter_map(|name| self.topic(now, &name)).collect()
    }

    /// See [`dwell_core::Store::topic`].
    pub fn topic(&mut self, now: Timestamp, name: &TopicName) -> Option<TopicInfo> {
        self.pass_time(now);
        let topic = self.topics.get(name)?;
        let mut counts = Counts::default();
        let mut urgent = 0;
        for job in self.jobs.values().filter(|job| &job.topic == name) {
            counts[job.state(now)] += 1;
            urgent += u64::from(job.state(now) == State::Ready && job.priority.is_urgent());
        }
        let first_due = |state| self.in_state(now, name, state).into_iter().next().map(|(due_at, _)| due_at);
        Some(TopicInfo {
            name: name.clone(),
            counts,
            urgent,
            next_due_at: first_due(State::Delayed),
            oldest_ready_at: first_due(State::Ready),
            totals: topic.totals,
            policy: topic.policy.clone(),
            pause: if topic.pause.holds_at(now) { topic.pause } else { dwell_core::Pause::Off },
            waiting: 0,
        })
    }

    /// See [`dwell_core::Store::set_policy`].
    pub fn set_policy(&mut self, now: Timestamp, name: &TopicName, policy: TopicPolicy) -> Result<(), TopicError> {
        self.pass_time(now);
        let topic = self.create_topic(name)?;
        if topic.policy.max_rate != policy.max_rate {
            topic.bucket = policy.max_rate.map(|rate| RateBucket::full(rate, now));
        }
        topic.policy = policy;
        Ok(())
    }

    /// See [`dwell_core::Store::pause`].
    pub fn pause(&mut self, now: Timestamp, name: &TopicName, pause: SetPause) -> Result<(), TopicError> {
        self.pass_time(now);
        if pause == SetPause::Off && !self.topics.contains_key(name) {
            return Err(TopicError::NotFound);
        }
        let pause = pause.resolve(self.both(now));
        self.create_topic(name)?.pause = pause;
        Ok(())
    }

    /// See [`dwell_core::Store::redrive`].
    pub fn redrive(&mut self, now: Timestamp, what: &Redrive) -> Result<Redriven, TopicError> {
        self.pass_time(now);
        match what {
            Redrive::Number(number) => Ok(Redriven { redriven: self.redrive_one(now, *number, now), remaining: 0 }),
            Redrive::Topic(redrive) => self.redrive_topic(now, redrive),
        }
    }

    fn redrive_topic(&mut self, now: Timestamp, redrive: &RedriveTopic) -> Result<Redriven, TopicError> {
        if !self.topics.contains_key(&redrive.topic) {
            return Err(TopicError::NotFound);
        }
        let buried = self.in_state(now, &redrive.topic, State::Buried);
        let meant = |job: &Job| match &job.phase {
            Phase::Buried(burial) => redrive.matches(&job.id, &burial.reason),
            Phase::Waiting | Phase::Leased(_) => false,
        };
        let letters: Vec<Number> = buried.iter().map(|&(_, n)| n).filter(|n| meant(&self.jobs[n])).collect();
        let remaining = letters.len().saturating_sub(redrive.max as usize) as u64;
        let chosen = if buried.is_empty() && redrive.else_delayed {
            self.in_state(now, &redrive.topic, State::Delayed).into_iter().map(|(_, number)| number).collect()
        } else {
            letters
        };
        let row = chosen.into_iter().take(redrive.max as usize).zip(0..);
        let both = self.both(now);
        let redriven = row.map(|(number, k)| self.redrive_one(now, number, redrive.due_at(k, both))).sum();
        Ok(Redriven { redriven, remaining })
    }

    fn redrive_one(&mut self, now: Timestamp, number: Number, due_at: Timestamp) -> u64 {
        let Some(topic) = self.jobs.get(&number).map(|job| job.topic.clone()) else { return 0 };
        if self.apply(now, number, Command::Redrive { due_at }).is_err() {
            return 0;
        }
        self.totals(&topic).redriven += 1;
        1
    }

    /// See [`dwell_core::Store::purge`].
    pub fn purge(&mut self, now: Timestamp, name: &TopicName, what: Purge) -> Result<u64, TopicError> {
        self.pass_time(now);
        if !self.topics.contains_key(name) {
            return Err(TopicError::NotFound);
        }
        let meant = |job: &&Job| {
            let state = match what {
                Purge::Jobs(state) => job.state(now) == state,
                Purge::Topic => true,
            };
            &job.topic == name && state
        };
        let numbers: Vec<Number> = self.jobs.values().filter(meant).map(|job| job.number).collect();
        let purged = numbers.len() as u64;
        for number in numbers {
            self.remove(number);
        }
        self.totals(name).purged += purged;
        if what == Purge::Topic {
            self.topics.remove(name);
            self.done.retain(|(topic, _), _| topic != name);
        }
        Ok(purged)
    }

    /// The jobs of a topic that are in one state, by due time, then number.
    fn in_state(&self, now: Timestamp, topic: &TopicName, state: State) -> Vec<(Timestamp, Number)> {
        let jobs = self.jobs.values().filter(|job| &job.topic == topic && job.state(now) == state);
        let mut places: Vec<_> = jobs.map(|job| (job.due_at, job.number)).collect();
        places.sort_unstable();
        places
    }
}
