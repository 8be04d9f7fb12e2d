//! Stores that break one promise each, so that the suite can show that it notices.
//!
//! Each is an honest store behind a wrapper that lies in one way. None of them is a caricature: every flaw is one that
//! real queues have had.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dwell_core::{
    Answer, CancelError, CancelItem, ChangeError, ChangeItem, Delay, Found, JobRef, JobView, LeaseFrom, LeaseLost,
    LeaseRequest, LeasedJob, ListQuery, Lookup, NewId, NewJob, Page, Purge, PushLines, PutError, PutOutcome, Redrive,
    Redriven, SetPause, Settle, State, Status, Store, TimelineQuery, Timestamp, TopicError, TopicInfo, TopicName,
    TopicPolicy, TopicsQuery, Verdict, When,
};

use crate::Subject;

/// How a store is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Hands jobs out a millisecond before their due time.
    Early,
    /// Forgets every fifth job it has acknowledged.
    Lost,
    /// Hands the same job to two consumers.
    DoubleLease,
    /// Says yes to a settle with a stale token.
    StaleAckAccepted,
    /// Says that a delayed job is cancelled, and delivers it.
    LyingCancel,
    /// Never wakes a consumer that waits.
    StuckWaiter,
    /// Answers jobs in another order than theirs.
    WrongOrder,
    /// Does not count failed attempts.
    ForgottenAttempt,
    /// Loses the jobs of a consumer that went away while it waited.
    DeafToHangUp,
    /// Goes on handing out while paused.
    LeakyPause,
    /// Overwrites whatever the version.
    IgnoredVersion,
    /// Loses a job at the end of each page.
    ShortPage,
    /// Counts jobs into the bucket before theirs.
    ShiftedTimeline,
    /// Gives one push target more than its share.
    UnfairShare,
    /// Knows no bound on what is in flight.
    UnboundedFlight,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Early,
        Self::Lost,
        Self::DoubleLease,
        Self::StaleAckAccepted,
        Self::LyingCancel,
        Self::StuckWaiter,
        Self::WrongOrder,
        Self::ForgottenAttempt,
        Self::DeafToHangUp,
        Self::LeakyPause,
        Self::IgnoredVersion,
        Self::ShortPage,
        Self::ShiftedTimeline,
        Self::UnfairShare,
        Self::UnboundedFlight,
    ];

    /// The check that must catch it.
    pub fn caught_by(self) -> &'static str {
        match self {
            Self::Early => "time::is_never_early",
            Self::Lost => "cancel::what_was_cancelled_never_comes",
            Self::DoubleLease => "lease::hands_out_once",
            Self::StaleAckAccepted => "fencing::a_stale_token_changes_nothing",
            Self::LyingCancel => "cancel::removes_in_every_waiting_state",
            Self::StuckWaiter => "waiting::a_put_wakes_one",
            Self::WrongOrder => "order::by_priority_then_due_then_put",
            Self::ForgottenAttempt => "retry::attempts_survive_until_they_are_exhausted",
            Self::DeafToHangUp => "waiting::a_dropped_consumer_loses_nothing",
            Self::LeakyPause => "pause::stops_hand_outs_and_nothing_else",
            Self::IgnoredVersion => "cancel::honours_if_match",
            Self::ShortPage => "list::pages_show_each_job_once",
            Self::ShiftedTimeline => "timeline::counts_waiting_jobs_by_minute",
            Self::UnfairShare => "push::no_line_takes_more_than_its_share",
            Self::UnboundedFlight => "limits::in_flight_is_bounded",
        }
    }
}

/// An honest store, made to break one promise.
pub struct BrokenStore {
    inner: Arc<dyn Store>,
    flaw: Flaw,
    puts: AtomicU64,
    sleepers: AtomicU64,
    last_leased: Mutex<Option<LeasedJob>>,
}

impl BrokenStore {
    /// Breaks a store under test.
    pub fn subject(flaw: Flaw, honest: Subject) -> Subject {
        let store = Self {
            inner: honest.store,
            flaw,
            puts: AtomicU64::new(0),
            sleepers: AtomicU64::new(0),
            last_leased: Mutex::new(None),
        };
        Subject { store: Arc::new(store), clock: honest.clock, restart: None }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// Puts what is due a millisecond early and says otherwise.
    async fn put_early(
        &self,
        mut jobs: Vec<NewJob>,
    ) -> Result<Vec<Result<PutOutcome, PutError>>, dwell_core::StoreError> {
        for new in &mut jobs {
            if let When::In(delay) = new.when {
                new.when = When::In(Delay::saturating(delay.as_millis().saturating_sub(1)));
            }
        }
        let mut answers = self.inner.put(jobs).await?;
        for receipt in answers.iter_mut().flatten() {
            if let PutOutcome::Created(receipt) | PutOutcome::Replaced(receipt) = receipt {
                receipt.due_at = receipt.due_at.plus(1);
            }
        }
        Ok(answers)
    }

    /// Puts, answers, and forgets every fifth.
    async fn put_and_forget(
        &self,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Result<PutOutcome, PutError>>, dwell_core::StoreError> {
        let names: Vec<_> = jobs.iter().map(|new| (new.topic.clone(), new.id.clone())).collect();
        let answers = self.inner.put(jobs).await?;
        for (topic, id) in names {
            if self.puts.fetch_add(1, Ordering::SeqCst) % 5 == 4
                && let NewId::Named(id) = id
            {
                self.inner.cancel(vec![CancelItem::new(JobRef::Named(topic, id))]).await?;
            }
        }
        Ok(answers)
    }

    /// Hands out what is ready, else what it has handed out before.
    async fn lease_twice(&self, request: LeaseRequest) -> Result<Vec<LeasedJob>, dwell_core::StoreError> {
        let jobs = self.inner.lease(request).await?;
        let mut last = self.last_leased.lock().expect("nobody panics here");
        match jobs.last() {
            Some(job) => *last = Some(job.clone()),
            None => return Ok(last.clone().into_iter().collect()),
        }
        Ok(jobs)
    }

    /// Looks once, and then sleeps through everything.
    async fn lease_asleep(&self, request: LeaseRequest) -> Result<Vec<LeasedJob>, dwell_core::StoreError> {
        let wait = request.wait;
        let jobs = self.inner.lease(LeaseRequest { wait: Duration::ZERO, ..request.clone() }).await?;
        if !jobs.is_empty() || wait.is_zero() {
            return Ok(jobs);
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(wait).await;
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.inner.lease(LeaseRequest { wait: Duration::ZERO, ..request }).await
    }

    /// Goes on waiting when its caller has hung up, and takes jobs nobody receives.
    async fn lease_deaf(&self, request: LeaseRequest) -> Result<Vec<LeasedJob>, dwell_core::StoreError> {
        let inner = Arc::clone(&self.inner);
        let task = tokio::spawn(async move { inner.lease(request).await });
        task.await.expect("the honest store does not panic")
    }

    /// Says yes to cancelling a delayed job, and does nothing.
    async fn cancel_and_lie(
        &self,
        items: Vec<CancelItem>,
    ) -> Result<Vec<Result<(), CancelError>>, dwell_core::StoreError> {
        let mut answers = Vec::new();
        for item in items {
            let found = self.inner.get(vec![Lookup::Job(item.job.clone())]).await?.pop().flatten();
            let delayed = found.and_then(Found::live).is_some_and(|view| view.state == State::Delayed);
            answers.extend(if delayed { vec![Ok(())] } else { self.inner.cancel(vec![item]).await? });
        }
        Ok(answers)
    }
}

impl Store for BrokenStore {
    fn put(&self, mut jobs: Vec<NewJob>) -> Answer<'_, Vec<Result<PutOutcome, PutError>>> {
        if self.has(Flaw::IgnoredVersion) {
            for new in &mut jobs {
                new.if_match = None;
            }
        }
        match self.flaw {
            Flaw::Early => Box::pin(self.put_early(jobs)),
            Flaw::Lost => Box::pin(self.put_and_forget(jobs)),
            _ => self.inner.put(jobs),
        }
    }

    fn lease(&self, mut request: LeaseRequest) -> Answer<'_, Vec<LeasedJob>> {
        if let LeaseFrom::Push(PushLines { per_line, .. }) = &mut request.from
            && self.has(Flaw::UnfairShare)
        {
            *per_line = u32::MAX;
        }
        match self.flaw {
            Flaw::DoubleLease => Box::pin(self.lease_twice(request)),
            Flaw::StuckWaiter => Box::pin(self.lease_asleep(request)),
            Flaw::DeafToHangUp => Box::pin(self.lease_deaf(request)),
            Flaw::WrongOrder => Box::pin(async move {
                let mut jobs = self.inner.lease(request).await?;
                jobs.reverse();
                Ok(jobs)
            }),
            _ => self.inner.lease(request),
        }
    }

    fn settle(&self, mut items: Vec<Settle>) -> Answer<'_, Vec<Result<(), LeaseLost>>> {
        if self.has(Flaw::ForgottenAttempt) {
            for item in &mut items {
                if let Verdict::Nack { delay, .. } = item.verdict {
                    item.verdict = Verdict::Release { delay: delay.or(Some(Delay::ZERO)), priority: None };
                }
            }
        }
        let answer = self.inner.settle(items);
        let forgiving = self.has(Flaw::StaleAckAccepted);
        Box::pin(async move {
            let answers = answer.await?;
            Ok(if forgiving { answers.into_iter().map(|_| Ok(())).collect() } else { answers })
        })
    }

    fn change(&self, mut items: Vec<ChangeItem>) -> Answer<'_, Vec<Result<JobView, ChangeError>>> {
        if self.has(Flaw::IgnoredVersion) {
            for item in &mut items {
                item.if_match = None;
            }
        }
        self.inner.change(items)
    }

    fn cancel(&self, mut items: Vec<CancelItem>) -> Answer<'_, Vec<Result<(), CancelError>>> {
        if self.has(Flaw::IgnoredVersion) {
            for item in &mut items {
                item.if_match = None;
            }
        }
        if self.has(Flaw::LyingCancel) { Box::pin(self.cancel_and_lie(items)) } else { self.inner.cancel(items) }
    }

    fn get(&self, items: Vec<Lookup>) -> Answer<'_, Vec<Option<Found>>> {
        self.inner.get(items)
    }

    fn list(&self, query: ListQuery) -> Answer<'_, Result<Page, TopicError>> {
        let answer = self.inner.list(query);
        let short = self.has(Flaw::ShortPage);
        Box::pin(async move {
            let mut page = answer.await?;
            if let Ok(Page { jobs, next: Some(_) }) = &mut page
                && short
            {
                jobs.pop();
            }
            Ok(page)
        })
    }

    fn topics(&self, query: TopicsQuery) -> Answer<'_, Vec<TopicInfo>> {
        self.inner.topics(query)
    }

    fn topic(&self, name: TopicName) -> Answer<'_, Option<TopicInfo>> {
        Box::pin(async move {
            let info = self.inner.topic(name).await?;
            let sleepers = self.sleepers.load(Ordering::SeqCst);
            Ok(info.map(|info| TopicInfo { waiting: info.waiting + sleepers, ..info }))
        })
    }

    fn set_policy(&self, name: TopicName, mut policy: TopicPolicy) -> Answer<'_, Result<(), TopicError>> {
        if self.has(Flaw::UnboundedFlight) {
            policy.max_in_flight = None;
        }
        self.inner.set_policy(name, policy)
    }

    fn pause(&self, name: TopicName, pause: SetPause) -> Answer<'_, Result<(), TopicError>> {
        let leaky = self.has(Flaw::LeakyPause) && pause != SetPause::Off;
        self.inner.pause(name, if leaky { SetPause::For(Delay::ZERO) } else { pause })
    }

    fn redrive(&self, what: Redrive) -> Answer<'_, Result<Redriven, TopicError>> {
        self.inner.redrive(what)
    }

    fn purge(&self, name: TopicName, what: Purge) -> Answer<'_, Result<u64, TopicError>> {
        self.inner.purge(name, what)
    }

    fn timeline(&self, query: TimelineQuery) -> Answer<'_, Result<Vec<u64>, TopicError>> {
        if !self.has(Flaw::ShiftedTimeline) {
            return self.inner.timeline(query);
        }
        let from: Timestamp = query.from().plus(query.step());
        let shifted = TimelineQuery::new(query.topic().cloned(), from, query.step(), query.buckets());
        self.inner.timeline(shifted.expect("as good as the query it comes from"))
    }

    fn status(&self) -> Answer<'_, Status> {
        self.inner.status()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.close()
    }
}
