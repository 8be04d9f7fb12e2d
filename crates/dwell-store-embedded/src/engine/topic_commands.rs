//! Commands on whole topics: policy, pause, redrive, purge, delete.

#![expect(clippy::needless_pass_by_value, reason = "a command hands over what it carries")]

use dwell_core::state::Command;
use dwell_core::{
    Pause, Phase, Purge, RateBucket, Redrive, RedriveTopic, Redriven, SetPause, State, Timestamp, TopicError,
    TopicName, TopicPolicy,
};

use super::Engine;
use super::slots::{Home, Index};
use super::topic::{Topic, after};
use crate::format::record::{self, Cause, GoneCause, TopicId};
use crate::sim_bugs::{self, Bug};

impl Engine {
    pub(super) fn set_policy(&mut self, name: TopicName, policy: TopicPolicy) -> Result<(), TopicError> {
        let id = self.create_topic(&name)?;
        // What the old policy no longer remembers, the new one does not bring back.
        self.forget_done_of(id);
        let topic = self.topics.get_mut(&id).expect("created just now");
        if topic.policy.max_rate != policy.max_rate {
            topic.bucket = policy.max_rate.map(|rate| RateBucket::full(rate, self.now.at));
        }
        let retimes = (topic.policy.ttl, topic.policy.keep_buried) != (policy.ttl, policy.keep_buried);
        topic.retime_cold_tier(&policy);
        topic.policy = policy;
        self.log_topic(id);
        if retimes {
            self.retime(id);
        }
        self.note_pushing(id);
        self.waiters.mark(id);
        Ok(())
    }

    /// Time means something else to the jobs of a topic: sets their timers again, and does what is overdue.
    fn retime(&mut self, id: TopicId) {
        self.wake_for_cold_tier(id);
        let topic = &self.topics[&id];
        let jobs: Vec<Index> = topic.waiting.slots().chain(topic.buried.slots()).collect();
        for index in jobs {
            if self.refresh(index) {
                self.set_timer(index);
            }
        }
    }

    pub(super) fn pause(&mut self, name: TopicName, pause: SetPause) -> Result<(), TopicError> {
        if pause == SetPause::Off && !self.names.contains_key(&name) {
            return Err(TopicError::NotFound);
        }
        let id = self.create_topic(&name)?;
        let topic = self.topics.get_mut(&id).expect("created just now");
        topic.pause = pause.resolve(self.now.core());
        let over = topic.pause == Pause::Off;
        if !sim_bugs::is(Bug::PauseNotLogged) {
            self.log_topic(id);
        }
        self.set_topic_timer(id);
        if over {
            self.waiters.mark(id);
        }
        Ok(())
    }

    pub(super) fn redrive(&mut self, what: Redrive) -> Result<Redriven, TopicError> {
        match what {
            Redrive::Number(number) => {
                let index = self.slots.by_number(number).filter(|&index| self.refresh(index));
                let redriven = index.map_or(0, |index| self.redrive_one(index, self.now.at));
                Ok(Redriven { redriven, remaining: 0 })
            }
            Redrive::Topic(redrive) => self.redrive_topic(&redrive),
        }
    }

    fn redrive_topic(&mut self, redrive: &RedriveTopic) -> Result<Redriven, TopicError> {
        let id = *self.names.get(&redrive.topic).ok_or(TopicError::NotFound)?;
        let topic = &self.topics[&id];
        let meant = |index: &Index| {
            let job = self.job(*index);
            matches!(&job.phase, Phase::Buried(burial) if redrive.matches(&job.id, &burial.reason))
        };
        let letters: Vec<Index> = topic.buried.slots().filter(meant).collect();
        let max = redrive.max as usize;
        // All that have the reason, or one of the ids, that is asked for are in memory now.
        let away = if redrive.ids.is_none() && redrive.reason.is_none() { topic.away(true) } else { 0 };
        let remaining = (letters.len() as u64 + away).saturating_sub(max as u64);
        let chosen: Vec<Index> = if topic.buried.is_empty() && topic.away(true) == 0 && redrive.else_delayed {
            topic.waiting.range(after(self.now.at)..).map(|(_, index)| index).take(max).collect()
        } else {
            letters.into_iter().take(max).collect()
        };
        let row = chosen.into_iter().zip(0..);
        let redriven = row.map(|(index, k)| self.redrive_one(index, redrive.due_at(k, self.now.core()))).sum();
        Ok(Redriven { redriven, remaining })
    }

    fn redrive_one(&mut self, index: Index, due_at: Timestamp) -> u64 {
        u64::from(self.command(index, Command::Redrive { due_at }, Cause::Redrive).is_ok())
    }

    pub(super) fn purge(&mut self, name: TopicName, what: Purge) -> Result<u64, TopicError> {
        let id = *self.names.get(&name).ok_or(TopicError::NotFound)?;
        match what {
            Purge::Jobs(state) => Ok(self.purge_state(id, state) + self.cold_reads.known.purged),
            Purge::Topic => {
                self.batch.log(|out| record::encode_topic_gone(out, id));
                Ok(self.remove_topic(id))
            }
        }
    }

    fn purge_state(&mut self, id: TopicId, state: State) -> u64 {
        let topic = &self.topics[&id];
        let not_due = after(self.now.at);
        let jobs: Vec<Index> = match state {
            State::Delayed => topic.waiting.range(not_due..).map(|(_, index)| index).collect(),
            State::Ready => topic.waiting.range(..not_due).map(|(_, index)| index).collect(),
            State::Leased => topic.leased.slots().collect(),
            State::Buried => topic.buried.slots().collect(),
        };
        let purged = jobs.len() as u64;
        for index in jobs {
            self.log_gone(index, GoneCause::Purge);
            self.remove(index);
        }
        purged
    }

    /// Forgets a topic and everything in it; how many jobs that were.
    pub(super) fn remove_topic(&mut self, id: TopicId) -> u64 {
        let Topic { waiting, leased, buried, .. } = &self.topics[&id];
        let jobs: Vec<Index> = waiting.slots().chain(leased.slots()).chain(buried.slots()).collect();
        let away = self.topics[&id].away(false) + self.topics[&id].away(true);
        let removed = jobs.len() as u64 + away;
        for index in jobs {
            // A copy that is on its way to the cold tier may never get there, and must not be counted as if it had.
            let copy = if self.slots.get(index).home == Home::FLUSHING { self.copy_of(index) } else { None };
            self.remove(index);
            self.add_tombstone(copy);
        }
        let topic = self.topics.remove(&id).expect("looked at just now");
        let promotion = topic.promotion.map(|(_, timer)| timer);
        let timers = topic.timer.into_iter().chain(promotion).chain(topic.cold_timer.map(|(_, timer)| timer));
        for timer in timers {
            self.wheel.cancel(timer);
        }
        if !topic.slices.is_empty() {
            self.cold.gone.insert(id, topic.slices);
        }
        self.names.remove(&topic.name);
        self.sorted_names.remove(&topic.name);
        self.done.remove_topic(id);
        self.pushing.remove(&id);
        removed
    }
}
