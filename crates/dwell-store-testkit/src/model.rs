//! The model: what a store does, written as plainly as possible. It is the oracle of the property test and the heart
//! of [`crate::ModelStore`].
//!
//! Everything is in `BTreeMap`s, every question is answered by looking at every job, and time is passed in: no clock,
//! no index, no cleverness. Each call first lets time pass for every job, so nothing is ever seen late.

mod handout;
mod look;
mod topics;
mod verbs;

use std::collections::{BTreeMap, VecDeque};

use dwell_core::state::{self, Moment};
use dwell_core::{
    Defaults, DoneJob, Existing, Job, JobId, JobRef, JobView, Now, Number, Pause, Phase, RateBucket, Rules, Timestamp,
    TopicError, TopicName, TopicPolicy, Totals, Version, limits,
};

use crate::Setup;

/// All that a store knows.
#[derive(Clone, Debug)]
pub struct Model {
    defaults: Defaults,
    max_topics: usize,
    topics: BTreeMap<TopicName, Topic>,
    jobs: BTreeMap<Number, Job>,
    ids: BTreeMap<(TopicName, JobId), Number>,
    done: BTreeMap<(TopicName, JobId), DoneJob>,
    sequence: u64,
    numbers: u64,
    dice: Dice,
    /// See [`Model::set_fraction`].
    fraction: u64,
    /// See [`Model::set_rooms`].
    rooms: VecDeque<bool>,
}

#[derive(Clone, Debug, Default)]
struct Topic {
    policy: TopicPolicy,
    pause: Pause,
    totals: Totals,
    bucket: Option<RateBucket>,
}

impl Model {
    /// A model without jobs.
    pub fn new(setup: &Setup) -> Self {
        Self {
            defaults: setup.defaults.clone(),
            max_topics: setup.max_topics,
            topics: BTreeMap::new(),
            jobs: BTreeMap::new(),
            ids: BTreeMap::new(),
            done: BTreeMap::new(),
            sequence: 0,
            numbers: 0,
            dice: Dice(0x9e37_79b9_7f4a_7c15),
            fraction: 0,
            rooms: VecDeque::new(),
        }
    }

    /// Says whether the times of the calls to come are whole milliseconds (0) or lie within one (1): what they count
    /// delays from is rounded up.
    pub fn set_fraction(&mut self, millis: u64) {
        self.fraction = millis;
    }

    /// Says whether there is room for each of the jobs and larger bodies to come that need some; for those beyond, there
    /// is. How much room a store has is its own business.
    pub fn set_rooms(&mut self, rooms: impl IntoIterator<Item = bool>) {
        self.rooms = rooms.into_iter().collect();
    }

    /// How many answers of [`Model::set_rooms`] nobody has needed.
    pub fn rooms_left(&self) -> usize {
        self.rooms.len()
    }

    fn has_room(&mut self) -> bool {
        self.rooms.pop_front().unwrap_or(true)
    }

    /// How many live jobs there are, how many bytes their ids and bodies have, and how many headers and pushes.
    pub fn size(&self) -> (usize, usize, usize) {
        let bytes = self.jobs.values().map(|job| job.id.as_str().len() + job.body.len());
        let more = self.jobs.values().map(|job| job.headers.iter().count() + job.deliveries.len());
        (self.jobs.len(), bytes.sum(), more.sum())
    }

    /// How many bytes the bodies of leased jobs have.
    pub fn leased_bytes(&self) -> usize {
        let leased = self.jobs.values().filter(|job| matches!(job.phase, Phase::Leased(_)));
        leased.map(|job| job.body.len()).sum()
    }

    fn both(&self, now: Timestamp) -> Now {
        Now { at: now, up: now.plus(self.fraction) }
    }

    /// Lets time pass for every job: leases run out, ttls end, dead letters and remembered acks are dropped.
    pub fn pass_time(&mut self, now: Timestamp) {
        let numbers: Vec<Number> = self.jobs.keys().copied().collect();
        for number in numbers {
            let (version, random, both) = (self.next_version(), self.dice.roll(), self.both(now));
            let job = self.jobs.get_mut(&number).expect("listed just now");
            let topic = self.topics.get_mut(&job.topic).expect("every job has a topic");
            let rules = Rules { policy: &topic.policy, defaults: &self.defaults };
            let passage = state::pass_time(job, &Moment { now: both, version, random, rules });
            topic.totals.timed_out += u64::from(passage.timed_out);
            topic.totals.buried += u64::from(passage.buried);
            topic.totals.purged += u64::from(passage.gone);
            if passage.gone {
                self.remove(number);
            }
        }
        let topics = &self.topics;
        self.done.retain(|(topic, _), done| {
            let keep = topics.get(topic).and_then(|topic| topic.policy.keep_done);
            keep.is_some_and(|keep| done.done_at.plus(keep.as_millis()) > now)
        });
    }

    /// What a start does: leases end no earlier than a minute, or their own ttr, from now, for that the store was down
    /// is not their holders' fault; and a `max_rate` begins with a full burst.
    pub fn restart(&mut self, now: Timestamp) {
        for topic in self.topics.values_mut() {
            topic.bucket = None;
        }
        for job in self.jobs.values_mut() {
            if let Phase::Leased(lease) = &mut job.phase {
                let grace = lease.ttr.as_millis().min(limits::MINUTE);
                lease.expires_at = lease.expires_at.max(now.plus(grace));
            }
        }
    }

    fn rules(&self, topic: &TopicName) -> Rules<'_> {
        Rules { policy: &self.topics[topic].policy, defaults: &self.defaults }
    }

    fn view(&self, job: &Job, now: Timestamp) -> JobView {
        JobView::new(job.clone(), now, &self.rules(&job.topic))
    }

    fn number_of(&self, job: &JobRef) -> Option<Number> {
        match job {
            JobRef::Named(topic, id) => self.ids.get(&(topic.clone(), id.clone())).copied(),
            JobRef::Number(number) => self.jobs.contains_key(number).then_some(*number),
        }
    }

    fn existing(&self, topic: &TopicName, id: &JobId) -> Option<Existing<'_>> {
        let key = (topic.clone(), id.clone());
        let live = self.ids.get(&key).map(|number| Existing::Live(&self.jobs[number]));
        live.or_else(|| self.done.get(&key).map(Existing::Done))
    }

    fn insert(&mut self, job: Job) {
        let key = (job.topic.clone(), job.id.clone());
        self.done.remove(&key);
        self.ids.insert(key, job.number);
        self.jobs.insert(job.number, job);
    }

    fn remove(&mut self, number: Number) -> Job {
        let job = self.jobs.remove(&number).expect("only live jobs are removed");
        self.ids.remove(&(job.topic.clone(), job.id.clone()));
        job
    }

    fn create_topic(&mut self, name: &TopicName) -> Result<&mut Topic, TopicError> {
        if !self.topics.contains_key(name) && self.topics.len() >= self.max_topics {
            return Err(TopicError::TooManyTopics);
        }
        Ok(self.topics.entry(name.clone()).or_default())
    }

    fn totals(&mut self, topic: &TopicName) -> &mut Totals {
        &mut self.topics.get_mut(topic).expect("every job has a topic").totals
    }

    fn next_version(&mut self) -> Version {
        self.sequence += 1;
        Version::new(self.sequence).expect("fewer than 2^53 changes")
    }

    fn next_number(&mut self) -> Number {
        self.numbers += 1;
        Number::new(self.numbers).expect("fewer than 2^53 jobs")
    }
}

/// A small generator of random numbers (splitmix64): the same run twice gives the same numbers.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
