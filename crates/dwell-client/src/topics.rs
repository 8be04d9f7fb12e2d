//! Topics, their jobs and their dead letters.

use dwell_wire::job::State;
use dwell_wire::topic::{Jobs, Pause, Redrive, Redriven, Timeline, Topic, Topics};
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

    /// A page of a topic's jobs, in due order within a state; without a state: delayed and ready, leased, buried.
    pub async fn jobs(&self, topic: &str, query: JobsQuery<'_>) -> Result<Jobs, Error> {
        let named = |state| State::LIVE.iter().find(|(_, live)| *live == state).map(|(name, _)| *name);
        let call = self.call(Method::GET, topic_path(topic).word("jobs"));
        let call = call.query("state", query.state.map(|state| named(state).unwrap_or("done")));
        call.query("limit", query.limit).query("cursor", query.cursor).answer().await
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

fn topic_path(topic: &str) -> Path {
    Path::new("topics").name("topic", topic)
}
