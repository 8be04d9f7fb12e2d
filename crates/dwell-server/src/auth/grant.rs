//! What a request may do.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dwell_core::TopicName;
use governor::clock::{Clock as _, MonotonicClock};
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::{Scope, Scopes, Token};

/// What whoever shows a token may do.
#[derive(Debug)]
pub struct Grant {
    name: String,
    scopes: Scopes,
    /// How the names of its topics start, in order, none of them the start of another; `None`: all topics.
    topics: Option<Vec<String>>,
    limiter: Option<Limiter>,
}

/// One state a token: what is kept is bounded by how many tokens there are.
type Limiter = RateLimiter<NotKeyed, InMemoryState, MonotonicClock>;

impl Grant {
    pub(super) fn new(token: Token) -> Self {
        let topics = token.topics.map(|mut topics| {
            topics.sort();
            // What starts with the one before is part of it already.
            topics.dedup_by(|next, before| next.starts_with(before.as_str()));
            topics
        });
        let limiter = token.rate.map(|rate| Limiter::direct_with_clock(Quota::per_second(rate), MonotonicClock));
        Self { name: token.name, scopes: token.scopes, topics, limiter }
    }

    /// What everyone may do on a server without tokens.
    pub(crate) fn of_everyone() -> Arc<Self> {
        static EVERYONE: OnceLock<Arc<Grant>> = OnceLock::new();
        Arc::clone(EVERYONE.get_or_init(|| Arc::new(Self::new(Token::for_everything("everyone", "")))))
    }

    /// What logs call whoever has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is for this.
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.has(scope)
    }

    /// Whether it is for this topic.
    pub fn covers(&self, topic: &TopicName) -> bool {
        self.topics.as_ref().is_none_or(|starts| starts.iter().any(|start| topic.as_str().starts_with(start)))
    }

    /// Counts a request; how long to wait if that is one too many for now.
    pub(crate) fn count(&self) -> Result<(), Duration> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        limiter.check().map_err(|until| until.wait_time_from(limiter.clock().now()))
    }

    /// How the names of its topics start, in order and without overlap; `None`: all topics.
    pub(crate) fn topics(&self) -> Option<&[String]> {
        self.topics.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_go_by_the_start_of_their_names() {
        let starts = ["orders.", "mail", "orders.eu.", "mail"].map(str::to_owned).to_vec();
        let grant = Grant::new(Token { topics: Some(starts), ..Token::for_everything("n", "s") });
        assert_eq!(grant.topics().unwrap(), ["mail", "orders."]);
        for (topic, is) in [("orders.close", true), ("orders", false), ("mailing", true), ("Mail", false), ("x", false)]
        {
            assert_eq!(grant.covers(&TopicName::new(topic).unwrap()), is, "{topic}");
        }
        assert!(Grant::of_everyone().covers(&TopicName::new("x").unwrap()));
    }
}
