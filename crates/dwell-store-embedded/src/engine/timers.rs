//! What happens because time passes: promotions, leases and ttls that end, pauses that are over.

use std::time::Duration;

use dwell_core::state;
use dwell_core::{Rules, Timestamp, limits};
use timing_wheel::Pop;

use super::cold::ColdCopy;
use super::index::Indexed;
use super::slots::Index;
use super::topic::Place;
use super::transition::Changed;
use super::{Engine, totals};
use crate::format::record::{self, Cause, GoneCause, GoneRecord, PhaseKind, TopicId};
use crate::sim_bugs::{self, Bug};

/// What the wheel wakes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
    /// Time does something to this job beside making it due.
    Job(Index),
    /// A delayed job of this topic is due.
    Due(TopicId),
    /// This topic may hand out again.
    Topic(TopicId),
    /// Something of this topic that is in the cold tier is soon due, or is.
    ColdTier(TopicId),
}

impl Engine {
    /// Runs timers that are due, up to a bound. Whether there are more.
    pub(super) fn run_timers(&mut self, mut budget: usize) -> bool {
        let now = self.now.at.as_millis();
        loop {
            match self.wheel.pop(now, &mut budget) {
                Pop::Expired(timer) => match timer.value {
                    Timer::Job(index) => self.wake_job(index),
                    Timer::Due(topic) => self.promote_due(topic, &mut budget),
                    Timer::Topic(topic) => self.wake_topic(topic),
                    Timer::ColdTier(topic) => self.wake_cold_tier(topic),
                },
                Pop::Nothing => break,
                Pop::OutOfBudget => {
                    self.serve();
                    return true;
                }
            }
        }
        self.serve();
        false
    }

    /// Looks for work without having been woken: whatever else is lost, nobody waits longer than this.
    pub(super) fn sweep(&mut self) {
        if self.now.real < self.swept_at + Duration::from_millis(limits::SWEEP) {
            return;
        }
        self.swept_at = self.now.real;
        self.waiters.mark_all(&self.names, &self.pushing);
        self.forget_done();
        self.retry_passages();
        // What a command waits for may have been purged before it was read.
        self.retry_for_slices();
        self.serve();
    }

    fn wake_job(&mut self, index: Index) {
        self.slots.get_mut(index).timer = None;
        if self.refresh(index) {
            self.set_timer(index);
        }
    }

    /// Promotes a topic's delayed jobs that are due, as far as the budget goes, and sets its timer to the next one.
    fn promote_due(&mut self, id: TopicId, budget: &mut usize) {
        let Some(topic) = self.topics.get_mut(&id) else { return };
        let Some((from, _)) = topic.promotion.take() else { return };
        let mut places = topic.waiting.range(from..);
        let mut due = Vec::new();
        let mut next = places.next();
        let now = self.now.at.as_millis();
        while let Some(((due_at, _), index)) = next
            && due_at <= self.now.at.plus(u64::from(sim_bugs::is(Bug::EarlyByOne)))
            && due.len() < *budget
        {
            self.gauges.promoted.note(Duration::from_millis(now.saturating_sub(due_at.as_millis())));
            due.push(index);
            next = places.next();
        }
        drop(places);
        *budget -= due.len();
        if let Some((place, _)) = next {
            self.promote_at(id, place);
        }
        for index in due {
            if self.refresh(index) && self.slots.get(index).indexed == Indexed::Delayed {
                self.promote(index);
            }
        }
    }

    /// Makes sure that a topic looks for due jobs from this place on when the first of them is due, or before.
    pub(super) fn promote_at(&mut self, id: TopicId, place: Place) {
        let topic = self.topics.get_mut(&id).expect("every job has a topic");
        let at = place.0.as_millis() - u64::from(sim_bugs::is(Bug::EarlyByOne));
        let key = match topic.promotion {
            Some((earlier, _)) if earlier <= place => return,
            Some((_, key)) => {
                self.wheel.reschedule(key, at);
                key
            }
            None => self.wheel.insert(at, Timer::Due(id)),
        };
        topic.promotion = Some((place, key));
    }

    fn wake_topic(&mut self, id: TopicId) {
        if let Some(topic) = self.topics.get_mut(&id) {
            topic.timer = None;
            self.waiters.mark(id);
        }
    }

    /// Does to a job what time alone has done to it. Whether it is still there.
    pub(super) fn refresh(&mut self, index: Index) -> bool {
        if self.passage_at(index).is_none_or(|at| at > self.now.at) {
            return true;
        }
        let was_buried = self.slots.get(index).meta.phase == PhaseKind::Buried;
        let (passage, stale) = self.transition(index, false, |job, moment| {
            let passage = state::pass_time(job, moment);
            debug_assert!(passage.changed(), "its passage was due");
            let cause = if passage.timed_out { Cause::Timeout } else { Cause::Expire };
            // A dead letter whose time is over is only logged as gone.
            let is_logged = passage.timed_out || !was_buried;
            Changed { result: passage, cause: is_logged.then_some(cause) }
        });
        if passage.gone {
            self.slots.changed(index);
            self.log_gone_over(index, GoneCause::KeepOver, stale);
            self.remove(index);
            return false;
        }
        self.index(index);
        true
    }

    /// When time will next do something to a job beside making it due, if ever.
    pub(super) fn passage_at(&self, index: Index) -> Option<Timestamp> {
        let slot = self.slots.get(index);
        let topic = &self.topics[&slot.topic];
        let may_be = match slot.meta.phase {
            PhaseKind::Waiting => slot.meta.own_ttl || topic.policy.ttl.is_some(),
            PhaseKind::Leased => true,
            PhaseKind::Buried => topic.policy.keep_buried.is_some(),
        };
        // Only then is the job looked at as a whole.
        let rules = Rules { policy: &topic.policy, defaults: &self.settings.defaults };
        may_be.then(|| state::next_passage_at(&self.slots.job(index, &topic.name), &rules)).flatten()
    }

    /// Logs that a job is no more, and counts it.
    pub(super) fn log_gone(&mut self, index: Index, cause: GoneCause) {
        let stale = self.copy_of(index);
        self.log_gone_over(index, cause, stale);
    }

    fn log_gone_over(&mut self, index: Index, cause: GoneCause, stale: Option<ColdCopy>) {
        let slot = self.slots.get(index);
        let gone = GoneRecord { number: slot.meta.number, cause, version: self.batch.version(), at: self.now.at };
        let topic = self.topics.get_mut(&slot.topic).expect("every job has a topic");
        totals::count_gone(&mut topic.totals, cause);
        self.batch.log_over(stale.and_then(ColdCopy::record), |out| record::encode_gone(out, &gone));
        self.add_tombstone(stale);
    }

    /// Sets a job's timer to the next thing time will do to it, beside making it due.
    pub(super) fn set_timer(&mut self, index: Index) {
        let at = self.passage_at(index).map(Timestamp::as_millis);
        let slot = self.slots.get_mut(index);
        match (at, slot.timer) {
            (Some(at), Some(timer)) => {
                self.wheel.reschedule(timer, at);
            }
            (Some(at), None) => slot.timer = Some(self.wheel.insert(at, Timer::Job(index))),
            (None, Some(timer)) => {
                self.wheel.cancel(timer);
                slot.timer = None;
            }
            (None, None) => {}
        }
    }

    /// Sets a topic's timer to when it may hand out again, if only time is in the way.
    pub(super) fn set_topic_timer(&mut self, id: TopicId) {
        let Some(topic) = self.topics.get_mut(&id) else { return };
        if let Some(timer) = topic.timer.take() {
            self.wheel.cancel(timer);
        }
        topic.timer = topic.opens_at(self.now.at).map(|at| self.wheel.insert(at.as_millis(), Timer::Topic(id)));
    }
}
