//! Topics, their jobs and their dead letters.

use dwell_wire::delivery::{TestDelivered, TestDelivery};
use dwell_wire::job::State;
use dwell_wire::topic::{Jobs, Pause, Policy, Purged, Redrive, Redriven, Timeline, Topic, Topics};
use dwell_wire::{Duration, Instant};
use reqwest::Method;

use crate::call::Path;
use crate::client::Client;
use crate::error::Error;

/// Which topics.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopicsQuery<'a> {
    /// Only those whose names start so.
    pub prefix: Option<&'a str>,
    /// At most so many, up to 1,000; 100 if not said.
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<&'a str>,
}

/// Which jobs of a topic.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobsQuery<'a> {
    /// Only those in this state.
    pub state: Option<State>,
    /// At most so many, up to 1,000; 100 if not said.
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    pub cursor: Option<&'a str>,
}

/// Which stretch of the future.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimelineQuery<'a> {
    /// Of one topic; of all if not said.
    pub topic: Option<&'a str>,
    /// From when on; now if not said.
    pub from: Option<Instant>,
    /// Until when; a day later if not said.
    pub until: Option<Instant>,
    /// How long one bucket is, in whole minutes; an hour if not said.
    pub step: Option<Duration>,
}

impl Client {
    /// A page of topics, by name.
    pub async fn topics(&self, query: TopicsQuery<'_>) -> Result<Topics, Error> {
        let call = self.call(Method::GET, Path::new("topics"));
        call.query("prefix", query.prefix).query("limit", query.limit).query("cursor", query.cursor).answer().await
    }

    /// One topic.
    pub async fn topic(&self, topic: &str) -> Result<Topic, Error> {
        self.call(Method::GET, topic_path(topic)).answer().await
    }

    /// Deletes a topic: its jobs, leases and policy.
    pub async fn delete_topic(&self, topic: &str) -> Result<(), Error> {
        self.call(Method::DELETE, topic_path(topic)).done().await
    }

    /// Replaces what a topic says for all its jobs; the policy as it is then. Makes the topic if there is none.
    pub async fn set_policy(&self, topic: &str, policy: &Policy) -> Result<Policy, Error> {
        self.call(Method::PUT, topic_path(topic).word("policy")).json(policy).answer().await
    }

    /// Sends a sample to the topic's target, or to another, as a job would be pushed.
    pub async fn test_delivery(&self, topic: &str, sample: &TestDelivery<'_>) -> Result<TestDelivered, Error> {
        self.call(Method::POST, topic_path(topic).word("test-delivery")).json(sample).answer().await
    }

    /// A page of a topic's jobs, in due order within a state; without a state: delayed and ready, leased, buried.
    pub async fn jobs(&self, topic: &str, query: JobsQuery<'_>) -> Result<Jobs, Error> {
        let call = self.call(Method::GET, topic_path(topic).word("jobs")).query("state", query.state.map(word));
        call.query("limit", query.limit).query("cursor", query.cursor).answer().await
    }

    /// Drops all jobs of a topic that are in this state; how many. Those that consumers hold need `force`.
    pub async fn purge(&self, topic: &str, state: State, force: bool) -> Result<u64, Error> {
        let call = self.call(Method::DELETE, topic_path(topic).word("jobs")).query("state", Some(word(state)));
        let purged: Purged = call.query("force", force.then_some(true)).answer().await?;
        Ok(purged.purged)
    }

    /// Brings dead letters back with fresh attempts, oldest first.
    pub async fn redrive(&self, topic: &str, wanted: &Redrive<'_>) -> Result<Redriven, Error> {
        self.call(Method::POST, topic_path(topic).word("redrive")).json(wanted).answer().await
    }

    /// Stops hand-outs, for a while or until resumed.
    pub async fn pause(&self, topic: &str, pause: Pause) -> Result<Topic, Error> {
        self.call(Method::POST, topic_path(topic).word("pause")).json(&pause).answer().await
    }

    /// Starts hand-outs again.
    pub async fn resume(&self, topic: &str) -> Result<Topic, Error> {
        self.call(Method::POST, topic_path(topic).word("resume")).answer().await
    }

    /// How many delayed and ready jobs are due when.
    pub async fn timeline(&self, query: TimelineQuery<'_>) -> Result<Timeline, Error> {
        let path = match query.topic {
            Some(topic) => topic_path(topic).word("timeline"),
            None => Path::new("timeline"),
        };
        let call = self.call(Method::GET, path).query("from", query.from).query("until", query.until);
        call.query("step", query.step.map(|step| step.0)).answer().await
    }
}

/// A state, as it is asked for. What is done is no live job's state, and the server says so.
fn word(state: State) -> &'static str {
    State::LIVE.iter().find(|(_, live)| *live == state).map_or("done", |(name, _)| name)
}

fn topic_path(topic: &str) -> Path {
    Path::new("topics").name("topic", topic)
}
