//! A topic: its policy, its totals, and its jobs in the orders they are asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dwell_core::{
    Counts, Line, Number, Pause, Priority, RateBucket, State, Timestamp, TopicInfo, TopicName, TopicPolicy, Totals,
};
use timing_wheel::Key;

use super::cold::{ColdSlice, ColdSlices};
use super::due_histogram::DueHistogram;
use super::due_index::DueIndex;
use super::slots::Index;
pub(super) use crate::format::key::Place;
use crate::format::record::TopicId;
use crate::sim_bugs::{self, Bug};

/// By priority, then due time, then number: the order of hand-outs.
pub(super) type Rank = (Priority, Timestamp, Number);

/// One topic.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) id: TopicId,
    pub(super) name: TopicName,
    pub(super) policy: TopicPolicy,
    pub(super) pause: Pause,
    pub(super) totals: Totals,
    /// Acked jobs up to this version are no longer remembered.
    pub(super) forgotten: u64,
    pub(super) bucket: Option<RateBucket>,
    /// Fires when a pause ends or a bucket fills.
    pub(super) timer: Option<Key>,
    /// Fires when the first delayed job is due, or before: all delayed ones are at this place or after it.
    pub(super) promotion: Option<(Place, Key)>,
    /// Priorities with lanes of their own in the cold tier.
    pub(super) lanes: Vec<Priority>,
    /// When somebody last asked for jobs of it, in real time.
    pub(super) asked: Option<Duration>,
    /// What of it is in the cold tier.
    pub(super) slices: ColdSlices,
    /// Fires when something in the cold tier is soon due, or is.
    pub(super) cold_timer: Option<(u64, Key)>,
    /// Delayed and ready, in memory; so are all below.
    pub(super) waiting: DueIndex,
    pub(super) leased: DueIndex,
    pub(super) buried: DueIndex,
    /// Ready ones, by line.
    pub(super) ready: BTreeMap<Line, BTreeMap<Rank, Index>>,
    pub(super) ready_count: u64,
    pub(super) urgent_count: u64,
    /// When waiting ones are due that are not in the cold tier.
    pub(super) minutes: DueHistogram,
}

impl Topic {
    pub(super) fn new(id: TopicId, name: TopicName) -> Self {
        Self {
            id,
            name,
            policy: TopicPolicy::default(),
            pause: Pause::Off,
            totals: Totals::default(),
            forgotten: 0,
            bucket: None,
            timer: None,
            promotion: None,
            lanes: Vec::new(),
            asked: None,
            slices: BTreeMap::new(),
            cold_timer: None,
            waiting: DueIndex::default(),
            leased: DueIndex::default(),
            buried: DueIndex::default(),
            ready: BTreeMap::new(),
            ready_count: 0,
            urgent_count: 0,
            minutes: DueHistogram::default(),
        }
    }

    /// The first ready job of a line.
    pub(super) fn head(&self, line: Line) -> Option<(Rank, Index)> {
        self.ready.get(&line)?.first_key_value().map(|(rank, index)| (*rank, *index))
    }

    /// Lines that a courier hands out, with jobs on them.
    pub(super) fn pushed_lines(&self, now: Timestamp) -> BTreeSet<Line> {
        let all = self.policy.deliver_to.is_some();
        let cold_slices = self.cold_slices(false).filter(|(_, of)| of.away() > 0 && of.first <= now);
        let lines = self.ready.keys().copied().chain(cold_slices.map(|(slice, _)| slice.line));
        lines.filter(|line| all || *line != Line::PULL).collect()
    }

    /// Whether there are any such lines. Asked for every job, so nothing is collected.
    pub(super) fn is_pushing(&self, now: Timestamp) -> bool {
        let pushed = |line: Line| self.policy.deliver_to.is_some() || line != Line::PULL;
        let due = |of: &ColdSlice| of.away() > 0 && of.first <= now;
        self.ready.keys().any(|line| pushed(*line))
            || self.cold_slices(false).any(|(slice, of)| pushed(slice.line) && due(of))
    }

    /// Whether its policy limits how many jobs go.
    pub(super) fn is_limited(&self) -> bool {
        self.policy.max_in_flight.is_some() || self.policy.max_rate.is_some()
    }

    /// Whether pause, `max_in_flight` and `max_rate` let one more job go.
    pub(super) fn hands_out(&mut self, now: Timestamp) -> bool {
        let in_flight = self.policy.max_in_flight.is_none_or(|max| self.leased.len() < max.get() as usize);
        let rate = self.policy.max_rate.is_none_or(|rate| {
            let bucket = self.bucket.get_or_insert_with(|| RateBucket::full(rate, now));
            bucket.available(rate, now) > 0
        });
        in_flight && rate && !self.pause.holds_at(now)
    }

    /// The same, as far as it can be said without counting what was handed out.
    pub(super) fn lets_go(&self, now: Timestamp) -> bool {
        let in_flight = self.policy.max_in_flight.is_none_or(|max| self.leased.len() < max.get() as usize);
        in_flight && !self.pause.holds_at(now)
    }

    /// A job goes: it counts against `max_rate`.
    pub(super) fn count_rate(&mut self, now: Timestamp) {
        if let Some(rate) = self.policy.max_rate.filter(|_| !sim_bugs::is(Bug::RateNotCounted)) {
            self.bucket.get_or_insert_with(|| RateBucket::full(rate, now)).take(rate, now, 1);
        }
    }

    /// When time alone will let jobs go again, if time is what holds them.
    pub(super) fn opens_at(&self, now: Timestamp) -> Option<Timestamp> {
        let pause = if let Pause::Until(until) = self.pause { Some(until) } else { None };
        let bucket = self.bucket.zip(self.policy.max_rate).map(|(bucket, rate)| bucket.next_at(rate));
        [pause, bucket].into_iter().flatten().filter(|&at| at > now).min()
    }

    /// What it looks like, with so many ready jobs, and urgent ones among them, that are in the cold tier only.
    pub(super) fn info(&self, now: Timestamp, waiting: u64, (ready, urgent): (u64, u64)) -> TopicInfo {
        let mut counts = Counts::default();
        counts[State::Ready] = self.ready_count + ready;
        let all = self.waiting.len() as u64 + self.away(false);
        counts[State::Delayed] = all.saturating_sub(counts[State::Ready]);
        counts[State::Leased] = self.leased.len() as u64;
        counts[State::Buried] = self.buried.len() as u64 + self.away(true);
        let first = self.waiting.first().map(|((due_at, _), _)| due_at);
        TopicInfo {
            name: self.name.clone(),
            counts,
            urgent: self.urgent_count + urgent,
            next_due_at: self.waiting.range(after(now)..).next().map(|((due_at, _), _)| due_at),
            oldest_ready_at: first.filter(|&due_at| due_at <= now),
            totals: self.totals,
            policy: self.policy.clone(),
            pause: if self.pause.holds_at(now) { self.pause } else { Pause::Off },
            waiting,
        }
    }
}

/// The first place of jobs that are due after `now`.
pub(super) fn after(now: Timestamp) -> Place {
    (now.plus(1), Number::new(0).expect("zero is a number"))
}
