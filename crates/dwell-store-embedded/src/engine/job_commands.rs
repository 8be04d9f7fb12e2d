//! Commands on single jobs: put, settle, change, cancel.

use dwell_core::put;
use dwell_core::state::{self, Command, Effect, Refusal};
use dwell_core::{
    CancelError, CancelItem, ChangeError, ChangeItem, DoneJob, Existing, Found, Job, JobId, JobRef, JobView, LeaseLost,
    NewId, NewJob, Number, Phase, PutError, PutOutcome, PutPlan, Receipt, Rules, Settle, TopicError, TopicName,
    Verdict, Version,
};

use super::slots::{Home, Index, PREFETCH_BATCH};
use super::topic::Topic;
use super::transition::Changed;
use super::{Engine, totals};
use crate::format::record::{self, BodyPart, Cause, GoneCause, JobMeta, PhaseKind, TopicId};
use crate::sim_bugs::{self, Bug};

impl Engine {
    pub(super) fn put(&mut self, jobs: Vec<NewJob>) -> Vec<Result<PutOutcome, PutError>> {
        jobs.into_iter().map(|new| self.put_one(new)).collect()
    }

    fn put_one(&mut self, new: NewJob) -> Result<PutOutcome, PutError> {
        let existing = match (&new.id, self.names.get(&new.topic)) {
            (NewId::Named(id), Some(&topic)) => self.live(topic, id),
            _ => None,
        };
        let plan = {
            let live = existing.map(|index| self.job(index));
            let met = live.as_deref().map(Existing::Live);
            let met = met.or_else(|| self.remembered(&new).map(Existing::Done));
            put::plan(&new, met)?
        };
        if plan == PutPlan::Keep {
            let kept = match existing {
                Some(index) => Found::Live(Box::new(self.view(index))),
                None => Found::Done(self.remembered(&new).expect("only what exists is kept").clone()),
            };
            return Ok(PutOutcome::Kept(kept));
        }
        new.due_at(self.now.core(), 0)?;
        if !self.has_room() {
            return Err(PutError::StorageFull);
        }
        let topic = self.create_topic(&new.topic).map_err(|_| PutError::TooManyTopics)?;
        if let Some(old) = existing {
            self.batch.join_next();
            self.log_gone(old, GoneCause::Replaced);
            self.remove(old);
        }
        let receipt = self.create(topic, new)?;
        Ok(if plan == PutPlan::Replace { PutOutcome::Replaced(receipt) } else { PutOutcome::Created(receipt) })
    }

    fn create(&mut self, topic: TopicId, new: NewJob) -> Result<Receipt, PutError> {
        let number = Number::new(self.next_number).expect("numbers are reserved below 2^53");
        let (version, random) = (self.batch.version(), self.roll());
        let job = Job::create(new, number, version, self.now.core(), random)?;
        self.next_number += 1;
        self.done.remove(topic, job.id.as_str());
        let of_topic = self.topics.get_mut(&topic).expect("created just now");
        totals::count(&mut of_topic.totals, Cause::Put, false, false);
        let rules = Rules { policy: &of_topic.policy, defaults: &self.settings.defaults };
        let receipt = Receipt::new(&job, self.now.at, &rules);
        let home = Home::journal(self.batch.next_sequence());
        let record = self.batch.log(|out| record::encode_job(out, topic, Cause::Put, &job, BodyPart::Here));
        // What is not ready is not needed soon.
        let index = if job.due_at > self.now.at {
            self.slots.insert_packed(topic, JobMeta::of(&job), job.id.as_str(), record, home)
        } else {
            let id = self.slots.hash_of(topic, job.id.as_str());
            self.slots.insert_open(topic, Box::new(job), id, home)
        };
        self.index(index);
        Ok(receipt)
    }

    /// The topic of that name, created if it is not there.
    pub(super) fn create_topic(&mut self, name: &TopicName) -> Result<TopicId, TopicError> {
        if let Some(&id) = self.names.get(name) {
            return Ok(id);
        }
        if self.topics.len() >= self.settings.max_topics {
            return Err(TopicError::TooManyTopics);
        }
        let id = TopicId(self.next_topic);
        self.next_topic += 1;
        self.names.insert(name.clone(), id);
        self.sorted_names.insert(name.clone());
        self.topics.insert(id, Topic::new(id, name.clone()));
        self.log_topic(id);
        Ok(id)
    }

    /// Logs a topic as it is.
    pub(super) fn log_topic(&mut self, id: TopicId) {
        let Topic { name, policy, pause, totals, forgotten, .. } = &self.topics[&id];
        self.batch.log(|out| record::encode_topic(out, id, name, policy, *pause, totals, *forgotten));
    }

    pub(super) fn settle(&mut self, items: Vec<Settle>) -> Vec<Result<(), LeaseLost>> {
        let mut outcomes = Vec::with_capacity(items.len());
        let mut items = items.into_iter();
        while items.len() > 0 {
            let next = items.as_slice().iter().take(PREFETCH_BATCH);
            self.slots.prefetch_numbers(next.map(|item| item.token.number));
            outcomes.extend(items.by_ref().take(PREFETCH_BATCH).map(|item| self.settle_one(item)));
        }
        outcomes
    }

    pub(super) fn settle_one(&mut self, item: Settle) -> Result<(), LeaseLost> {
        let index = self.slots.by_number(item.token.number).ok_or(LeaseLost)?;
        if !self.refresh(index) {
            return Err(LeaseLost);
        }
        let cause = match item.verdict {
            Verdict::Ack => Cause::Change,
            Verdict::Nack { .. } => Cause::Nack,
            Verdict::Release { .. } => Cause::Release,
            Verdict::Bury { .. } => Cause::Bury,
            Verdict::Extend { .. } => Cause::Extend,
        };
        let mut token = item.token;
        if sim_bugs::is(Bug::StaleTokenAccepted)
            && let Phase::Leased(lease) = &self.job(index).phase
        {
            token = lease.token;
        }
        let command = Command::Settle { token, verdict: item.verdict, delivery: item.delivery };
        match self.command(index, command, cause).map_err(|_| LeaseLost)? {
            Effect::Acked => self.finish(index, GoneCause::Ack),
            Effect::Lives | Effect::Cancelled => {}
        }
        Ok(())
    }

    /// Takes an acked job out, remembering it if its topic says so.
    pub(super) fn finish(&mut self, index: Index, cause: GoneCause) {
        let topic = self.slots.get(index).topic;
        let keeps = self.keeps_done(topic);
        if keeps {
            self.batch.join_next();
        }
        self.log_gone(index, cause);
        let done = keeps.then(|| DoneJob::new(&self.job(index), self.batch.version(), self.now.at));
        self.remove(index);
        if let Some(done) = done {
            self.remember_done(topic, done);
        }
    }

    pub(super) fn change(&mut self, items: Vec<ChangeItem>) -> Vec<Result<JobView, ChangeError>> {
        items.into_iter().map(|item| self.change_one(item)).collect()
    }

    fn change_one(&mut self, item: ChangeItem) -> Result<JobView, ChangeError> {
        let index = self.find(&item.job).ok_or(ChangeError::NotFound)?;
        if !self.matches(index, item.if_match) {
            return Err(ChangeError::VersionMismatch);
        }
        let grows = item.change.body.as_ref().is_some_and(|body| body.len() > self.job(index).body.len());
        if grows && !self.has_room() {
            return Err(ChangeError::StorageFull);
        }
        self.command(index, Command::Change { change: Box::new(item.change), force: item.force }, Cause::Change)?;
        Ok(self.view(index))
    }

    pub(super) fn cancel(&mut self, items: Vec<CancelItem>) -> Vec<Result<(), CancelError>> {
        items.into_iter().map(|item| self.cancel_one(&item)).collect()
    }

    fn cancel_one(&mut self, item: &CancelItem) -> Result<(), CancelError> {
        let index = self.find(&item.job).ok_or(CancelError::NotFound)?;
        if !self.matches(index, item.if_match) {
            return Err(CancelError::VersionMismatch);
        }
        if self.slots.get(index).meta.phase == PhaseKind::Leased && !item.force {
            return Err(CancelError::JobLeased);
        }
        if sim_bugs::is(Bug::CancelLies) && self.job(index).state(self.now.at) == dwell_core::State::Ready {
            return Ok(());
        }
        self.log_gone(index, GoneCause::Cancel);
        self.remove(index);
        Ok(())
    }

    /// Applies a command to a job that has been refreshed. What lives on is logged and indexed anew.
    pub(super) fn command(&mut self, index: Index, command: Command, cause: Cause) -> Result<Effect, Refusal> {
        let carries_body = matches!(&command, Command::Change { change, .. } if change.body.is_some());
        let (result, _) = self.transition(index, carries_body, |job, moment| {
            let result = state::apply(job, command, moment);
            let lives = result == Ok(Effect::Lives);
            if lives && sim_bugs::is(Bug::AttemptAtNack) {
                count_attempt_late(job, cause);
            }
            Changed { result, cause: lives.then_some(cause) }
        });
        // An acked job is about to go.
        if result != Ok(Effect::Acked) {
            self.index(index);
        }
        result
    }

    /// A live job by reference, refreshed.
    pub(super) fn find(&mut self, job: &JobRef) -> Option<Index> {
        let index = match job {
            JobRef::Named(topic, id) => return self.live(*self.names.get(topic)?, id),
            JobRef::Number(number) => self.slots.by_number(*number)?,
        };
        self.refresh(index).then_some(index)
    }

    /// A live job by name, refreshed.
    pub(super) fn live(&mut self, topic: TopicId, id: &JobId) -> Option<Index> {
        let index = self.slots.by_id(topic, id.as_str())?;
        self.refresh(index).then_some(index)
    }

    fn remembered(&self, new: &NewJob) -> Option<&DoneJob> {
        let topic = *self.names.get(&new.topic)?;
        let NewId::Named(id) = &new.id else { return None };
        self.done.get(topic, id, &self.topics[&topic].policy, self.now.at)
    }

    fn matches(&self, index: Index, wanted: Option<Version>) -> bool {
        wanted.is_none_or(|wanted| self.job(index).version == wanted)
    }
}

/// See [`Bug::AttemptAtNack`].
fn count_attempt_late(job: &mut Job, cause: Cause) {
    match cause {
        Cause::Lease => job.attempt -= 1,
        Cause::Nack => job.attempt += 1,
        _ => {}
    }
}
