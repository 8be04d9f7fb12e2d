//! What a connection has: the tube it uses, those it watches, the jobs it holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dwell_core::{Consumer, Delay, LeaseToken, Settle, TopicName, Verdict, limits};
use tokio::time::Instant;

use super::{Edge, names};

/// From when on a connection that holds a job is warned instead of waiting for another.
const MARGIN: Duration = Duration::from_secs(1);

/// What a connection has.
pub(super) struct Session {
    edge: Arc<Edge>,
    used: TopicName,
    watched: Vec<TopicName>,
    held: HashMap<u64, Held>,
    /// The first of the times in `held`; `None` if that has to be looked for.
    soonest: Option<Instant>,
    is_producer: bool,
    is_worker: bool,
    pub(super) consumer: Option<Consumer>,
}

/// A job that the connection holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) token: LeaseToken,
    /// How long each time.
    pub(super) ttr: Duration,
    /// Until about when, by [`Edge::now`]: never before the store takes it away.
    pub(super) until: Instant,
    /// It was not due yet when it was asked for by its number.
    pub(super) was_delayed: bool,
}

impl Held {
    /// The verdict that makes the job ready where it was, or due after a delay.
    pub(super) fn release(&self, delay: Delay) -> Verdict {
        // Without a delay it keeps its place, which for a job that was not due yet is the wrong one.
        let keeps_place = delay == Delay::ZERO && !self.was_delayed;
        Verdict::Release { delay: (!keeps_place).then_some(delay), priority: None }
    }
}

impl Session {
    pub(super) fn new(edge: Arc<Edge>, consumer: Option<Consumer>) -> Self {
        let default = names::default();
        edge.registry.change(&default, |tube| {
            tube.using += 1;
            tube.watching += 1;
        });
        edge.registry.connections.fetch_add(1, Ordering::Relaxed);
        edge.registry.total_connections.fetch_add(1, Ordering::Relaxed);
        Self {
            used: default.clone(),
            watched: vec![default],
            held: HashMap::new(),
            soonest: None,
            is_producer: false,
            is_worker: false,
            consumer,
            edge,
        }
    }

    /// Where puts go.
    pub(super) fn used(&self) -> &TopicName {
        &self.used
    }

    /// Where jobs come from.
    pub(super) fn watched(&self) -> &[TopicName] {
        &self.watched
    }

    pub(super) fn use_tube(&mut self, tube: TopicName) {
        // The new one first: a tube that is changed to itself must not be forgotten in between.
        self.edge.registry.change(&tube, |entry| entry.using += 1);
        self.edge.registry.change(&self.used, |entry| entry.using -= 1);
        self.used = tube;
    }

    /// Watches a tube; `false` if there are too many.
    pub(super) fn watch(&mut self, tube: TopicName) -> bool {
        if self.watched.contains(&tube) {
            return true;
        }
        if self.watched.len() == limits::MAX_WATCHED {
            return false;
        }
        self.edge.registry.change(&tube, |entry| entry.watching += 1);
        self.watched.push(tube);
        true
    }

    /// Watches a tube no more; `false` if it is the only one.
    pub(super) fn ignore(&mut self, tube: &TopicName) -> bool {
        let Some(place) = self.watched.iter().position(|watched| watched == tube) else { return true };
        if self.watched.len() == 1 {
            return false;
        }
        self.watched.remove(place);
        self.edge.registry.change(tube, |entry| entry.watching -= 1);
        true
    }

    pub(super) fn is_producer(&mut self) {
        if !std::mem::replace(&mut self.is_producer, true) {
            self.edge.registry.producers.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn is_worker(&mut self) {
        if !std::mem::replace(&mut self.is_worker, true) {
            self.edge.registry.workers.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn hold(&mut self, id: u64, held: Held) {
        if self.held.is_empty() {
            self.soonest = Some(held.until);
        }
        self.soonest = self.soonest.map(|soonest| soonest.min(held.until));
        self.held.insert(id, held);
    }

    pub(super) fn held(&self, id: u64) -> Option<Held> {
        self.held.get(&id).copied()
    }

    /// The job is out of the connection's hands.
    pub(super) fn let_go(&mut self, id: u64) -> Option<Held> {
        let held = self.held.remove(&id)?;
        if self.soonest == Some(held.until) {
            self.soonest = None;
        }
        Some(held)
    }

    /// The job is held from now on for another ttr.
    pub(super) fn touched(&mut self, id: u64, now: Instant) {
        if let Some(held) = self.let_go(id) {
            self.hold(id, Held { until: now + held.ttr, ..held });
        }
    }

    pub(super) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// How long, of the store's time, until a held job is about to be taken away. `None` if none is held.
    pub(super) fn until_deadline(&mut self, now: Instant) -> Option<Duration> {
        if self.held.is_empty() {
            return None;
        }
        if self.soonest.is_none_or(|soonest| soonest <= now) {
            // What is past its time is with others by now, but for one more ttr it may still be asked for.
            self.held.retain(|_, held| held.until + held.ttr > now);
            self.soonest = self.held.values().map(|held| held.until).filter(|until| *until > now).min();
        }
        self.soonest.map(|soonest| soonest.saturating_duration_since(now).saturating_sub(MARGIN))
    }

    /// Gives up all jobs: what settles them.
    pub(super) fn give_up(&mut self) -> Vec<Settle> {
        let held = std::mem::take(&mut self.held);
        held.into_values().map(|held| Settle::new(held.token, held.release(Delay::ZERO))).collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let registry = &self.edge.registry;
        registry.change(&self.used, |entry| entry.using -= 1);
        for tube in &self.watched {
            registry.change(tube, |entry| entry.watching -= 1);
        }
        registry.connections.fetch_sub(1, Ordering::Relaxed);
        registry.producers.fetch_sub(u64::from(self.is_producer), Ordering::Relaxed);
        registry.workers.fetch_sub(u64::from(self.is_worker), Ordering::Relaxed);
    }
}
