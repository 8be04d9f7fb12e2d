//! What is done to single jobs: put, settle, change, cancel.

use dwell_core::put;
use dwell_core::state::{self, Command, Effect, Moment, Refusal};
use dwell_core::{
    CancelError, CancelItem, ChangeError, ChangeItem, DoneJob, Existing, Found, Job, JobView, LeaseLost, NewId, NewJob,
    Number, Phase, PutError, PutOutcome, PutPlan, Receipt, Rules, Settle, Timestamp, Verdict,
};

use super::Model;

impl Model {
    /// See [`dwell_core::Store::put`].
    pub fn put(&mut self, now: Timestamp, jobs: Vec<NewJob>) -> Vec<Result<PutOutcome, PutError>> {
        self.pass_time(now);
        jobs.into_iter().map(|new| self.put_one(now, new)).collect()
    }

    fn put_one(&mut self, now: Timestamp, new: NewJob) -> Result<PutOutcome, PutError> {
        let existing = match &new.id {
            NewId::Named(id) => self.existing(&new.topic, id),
            NewId::Fresh(_) | NewId::FromNumber => None,
        };
        let plan = put::plan(&new, existing)?;
        if plan == PutPlan::Keep {
            let kept = match existing.expect("only what exists is kept") {
                Existing::Live(job) => Found::Live(Box::new(self.view(job, now))),
                Existing::Done(done) => Found::Done(done.clone()),
            };
            return Ok(PutOutcome::Kept(kept));
        }
        new.due_at(self.both(now), 0)?;
        if !self.has_room() {
            return Err(PutError::StorageFull);
        }
        self.create_topic(&new.topic).map_err(|_| PutError::TooManyTopics)?;
        let (number, version, random) = (self.next_number(), self.next_version(), self.dice.roll());
        let job = Job::create(new, number, version, self.both(now), random)?;
        if plan == PutPlan::Replace {
            let old = self.ids[&(job.topic.clone(), job.id.clone())];
            self.remove(old);
        }
        self.totals(&job.topic).put += 1;
        let receipt = Receipt::new(&job, now, &self.rules(&job.topic));
        self.insert(job);
        Ok(if plan == PutPlan::Replace { PutOutcome::Replaced(receipt) } else { PutOutcome::Created(receipt) })
    }

    /// See [`dwell_core::Store::settle`].
    pub fn settle(&mut self, now: Timestamp, items: Vec<Settle>) -> Vec<Result<(), LeaseLost>> {
        self.pass_time(now);
        items.into_iter().map(|item| self.settle_one(now, item)).collect()
    }

    fn settle_one(&mut self, now: Timestamp, item: Settle) -> Result<(), LeaseLost> {
        let number = item.token.number;
        let topic = self.jobs.get(&number).ok_or(LeaseLost)?.topic.clone();
        let verdict = item.verdict.clone();
        let command = Command::Settle { token: item.token, verdict: item.verdict, delivery: item.delivery };
        let effect = self.apply(now, number, command).map_err(|_| LeaseLost)?;
        let totals = self.totals(&topic);
        match verdict {
            Verdict::Ack => totals.acked += 1,
            Verdict::Nack { .. } => totals.nacked += 1,
            Verdict::Release { .. } => totals.released += 1,
            Verdict::Bury { .. } | Verdict::Extend { .. } => {}
        }
        if effect == Effect::Acked {
            self.finish(now, number);
        }
        Ok(())
    }

    /// Takes an acked job out, remembering it if its topic says so.
    pub(super) fn finish(&mut self, now: Timestamp, number: Number) {
        let job = self.remove(number);
        if self.topics[&job.topic].policy.keep_done.is_some_and(|keep| keep.as_millis() > 0) {
            let done = DoneJob::new(&job, self.next_version(), now);
            self.done.insert((job.topic, job.id), done);
        }
    }

    /// See [`dwell_core::Store::change`].
    pub fn change(&mut self, now: Timestamp, items: Vec<ChangeItem>) -> Vec<Result<JobView, ChangeError>> {
        self.pass_time(now);
        items.into_iter().map(|item| self.change_one(now, item)).collect()
    }

    fn change_one(&mut self, now: Timestamp, item: ChangeItem) -> Result<JobView, ChangeError> {
        let number = self.number_of(&item.job).ok_or(ChangeError::NotFound)?;
        if item.if_match.is_some_and(|wanted| self.jobs[&number].version != wanted) {
            return Err(ChangeError::VersionMismatch);
        }
        let grows = item.change.body.as_ref().is_some_and(|body| body.len() > self.jobs[&number].body.len());
        if grows && !self.has_room() {
            return Err(ChangeError::StorageFull);
        }
        self.apply(now, number, Command::Change { change: Box::new(item.change), force: item.force })?;
        Ok(self.view(&self.jobs[&number], now))
    }

    /// See [`dwell_core::Store::cancel`].
    pub fn cancel(&mut self, now: Timestamp, items: Vec<CancelItem>) -> Vec<Result<(), CancelError>> {
        self.pass_time(now);
        items.into_iter().map(|item| self.cancel_one(now, &item)).collect()
    }

    fn cancel_one(&mut self, now: Timestamp, item: &CancelItem) -> Result<(), CancelError> {
        let number = self.number_of(&item.job).ok_or(CancelError::NotFound)?;
        if item.if_match.is_some_and(|wanted| self.jobs[&number].version != wanted) {
            return Err(CancelError::VersionMismatch);
        }
        self.apply(now, number, Command::Cancel { force: item.force }).map_err(|_| CancelError::JobLeased)?;
        let job = self.remove(number);
        self.totals(&job.topic).cancelled += 1;
        Ok(())
    }

    /// Applies a command to a live job; a job that ends up buried is counted.
    pub(super) fn apply(&mut self, now: Timestamp, number: Number, command: Command) -> Result<Effect, Refusal> {
        let (version, random, both) = (self.next_version(), self.dice.roll(), self.both(now));
        let job = self.jobs.get_mut(&number).expect("only live jobs get commands");
        let topic = self.topics.get_mut(&job.topic).expect("every job has a topic");
        let rules = Rules { policy: &topic.policy, defaults: &self.defaults };
        let was_buried = matches!(job.phase, Phase::Buried(_));
        let effect = state::apply(job, command, &Moment { now: both, version, random, rules })?;
        topic.totals.buried += u64::from(!was_buried && matches!(job.phase, Phase::Buried(_)));
        Ok(effect)
    }
}
