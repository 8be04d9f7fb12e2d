//! What a check has at hand: a store, its clock, and the few phrases checks are made of.

use std::sync::Arc;
use std::time::Duration;

use dwell_core::{
    CancelError, CancelItem, Change, ChangeError, ChangeItem, Delay, Found, IfExists, JobId, JobRef, JobView,
    LeaseLost, LeaseRequest, LeaseToken, LeasedJob, ListQuery, Lookup, NewJob, Number, PutError, PutOutcome, Receipt,
    Settle, State, Store, Timestamp, TopicInfo, TopicName, TopicPolicy, Verdict, When,
};

use crate::{MakeStore, Setup, Subject, TestClock};

/// How far from a boundary a check stays when the store's clock runs by itself.
const MARGIN: u64 = 30_000;

/// How long a check looks for what must come about.
const SOON: Duration = Duration::from_secs(10);

/// A store and its clock, in a check's hands.
#[derive(Clone)]
pub struct Bench {
    /// The store.
    pub store: Arc<dyn Store>,
    clock: Arc<dyn TestClock>,
    make: MakeStore,
}

/// A topic, built from a literal.
pub(super) fn topic(name: &str) -> TopicName {
    TopicName::new(name).expect("a good topic")
}

/// An id, built from a literal.
pub(super) fn id(name: &str) -> JobId {
    JobId::new(name).expect("a good id")
}

/// A delay in milliseconds.
pub(super) fn millis(millis: u64) -> Delay {
    Delay::from_millis(millis).expect("a good delay")
}

/// A delay in seconds.
pub(super) fn secs(secs: u64) -> Delay {
    millis(secs * 1_000)
}

/// A job of topic `t`, due at once.
pub(super) fn job(name: &str) -> NewJob {
    NewJob::new(topic("t"), id(name), When::NOW)
}

/// A job of topic `t`, due after `delay`.
pub(super) fn later(name: &str, delay: Delay) -> NewJob {
    NewJob { when: When::In(delay), ..job(name) }
}

/// Names a job of topic `t`.
pub(super) fn named(name: &str) -> JobRef {
    JobRef::Named(topic("t"), id(name))
}

/// The ids of leased jobs, in order.
pub(super) fn ids(jobs: &[LeasedJob]) -> Vec<&str> {
    jobs.iter().map(|job| job.view.job.id.as_str()).collect()
}

/// The token of a leased job.
pub(super) fn token(job: &LeasedJob) -> LeaseToken {
    job.token.expect("a lease has a token")
}

/// A nack as the retry policy says.
pub(super) const NACK: Verdict = Verdict::Nack { error: None, delay: None };
/// A release that keeps its place.
pub(super) const RELEASE: Verdict = Verdict::Release { delay: None, priority: None };
/// A burial without a reason.
pub(super) const BURY: Verdict = Verdict::Bury { reason: None, priority: None };
/// An extension by the lease's own ttr.
pub(super) const EXTEND: Verdict = Verdict::Extend { ttr: None };

impl Bench {
    /// A bench with a fresh store of the usual setup.
    pub(super) async fn new(make: MakeStore) -> Self {
        let Subject { store, clock, .. } = make(Setup::default()).await;
        Self { store, clock, make }
    }

    /// A bench with a fresh store of another setup.
    pub(super) async fn with(&self, setup: Setup) -> Self {
        let Subject { store, clock, .. } = (self.make)(setup).await;
        Self { store, clock, make: MakeStore::clone(&self.make) }
    }

    // ---- time ----

    /// The store's time.
    pub(super) async fn now(&self) -> Timestamp {
        self.store.status().await.expect("status always answers").now
    }

    /// Moves the store's time on, to where what a call began that long ago is over: delays count from the millisecond
    /// after the call, and a running clock may still be within the one before.
    pub(super) fn advance(&self, by: Delay) {
        let rounding = u64::from(!self.clock.is_frozen());
        self.clock.advance(by.as_millis() + rounding);
    }

    /// Moves the store's time to `at`.
    pub(super) async fn advance_to(&self, at: Timestamp) {
        self.clock.advance(at.since(self.now().await));
        assert!(self.now().await >= at, "the clock did not move");
    }

    /// Moves the store's time to the last millisecond before `at`, or as near as a running clock allows.
    pub(super) async fn advance_to_before(&self, at: Timestamp) {
        let margin = if self.clock.is_frozen() { 1 } else { MARGIN };
        self.clock.advance(at.since(self.now().await).saturating_sub(margin));
    }

    /// Asserts that `instant` is `delay` after a call that was made after `before` and has just returned.
    pub(super) async fn assert_counts_from_call(&self, before: Timestamp, delay: Delay, instant: Timestamp) {
        let after = self.now().await;
        let (first, last) = (before.plus(delay.as_millis()), after.plus(delay.as_millis()).plus(1));
        let last = if self.clock.is_frozen() { first } else { last };
        assert!((first..=last).contains(&instant), "{instant:?} is not {delay} after the call ({first:?}..={last:?})");
    }

    // ---- verbs, one job at a time ----

    /// Puts one job.
    pub(super) async fn try_put(&self, new: NewJob) -> Result<PutOutcome, PutError> {
        one(self.store.put(vec![new]).await.expect("put answers"))
    }

    /// Puts one job that must be created.
    pub(super) async fn put(&self, new: NewJob) -> Receipt {
        match self.try_put(new.clone()).await {
            Ok(PutOutcome::Created(receipt)) => receipt,
            other => panic!("{new:?} was not created: {other:?}"),
        }
    }

    /// Puts one job that must replace another.
    pub(super) async fn replace(&self, new: NewJob) -> Receipt {
        match self.try_put(NewJob { if_exists: IfExists::Replace, ..new.clone() }).await {
            Ok(PutOutcome::Replaced(receipt)) => receipt,
            other => panic!("{new:?} did not replace: {other:?}"),
        }
    }

    /// Leases without waiting.
    pub(super) async fn lease_with(&self, request: LeaseRequest) -> Vec<LeasedJob> {
        // A store that always answers at once would never let the check's time run out.
        tokio::task::yield_now().await;
        self.store.lease(request).await.expect("lease answers")
    }

    /// Leases up to `max` jobs of a topic without waiting.
    pub(super) async fn lease_up_to(&self, from: &str, max: u32) -> Vec<LeasedJob> {
        self.lease_with(LeaseRequest::of(topic(from)).up_to(max)).await
    }

    /// Leases one job of topic `t`, if one is ready.
    pub(super) async fn try_lease(&self) -> Option<LeasedJob> {
        self.lease_up_to("t", 1).await.pop()
    }

    /// Leases one job of topic `t` that must be ready.
    pub(super) async fn lease(&self) -> LeasedJob {
        self.try_lease().await.expect("a job is ready")
    }

    /// Puts one job that is due at once and leases it.
    pub(super) async fn put_and_lease(&self, new: NewJob) -> LeasedJob {
        let number = self.put(new).await.number;
        let leased = self.lease().await;
        assert_eq!(leased.view.job.number, number, "the job just put is handed out");
        leased
    }

    /// Settles one lease.
    pub(super) async fn try_settle(&self, token: LeaseToken, verdict: Verdict) -> Result<(), LeaseLost> {
        one(self.store.settle(vec![Settle::new(token, verdict)]).await.expect("settle answers"))
    }

    /// Settles one lease that must be live.
    pub(super) async fn settle(&self, job: &LeasedJob, verdict: Verdict) {
        assert_eq!(self.try_settle(token(job), verdict.clone()).await, Ok(()), "{verdict:?} of a live lease");
    }

    /// Changes one job.
    pub(super) async fn try_change(&self, item: ChangeItem) -> Result<JobView, ChangeError> {
        one(self.store.change(vec![item]).await.expect("change answers"))
    }

    /// Moves a job of topic `t` that must be there.
    pub(super) async fn move_to(&self, name: &str, when: When) -> JobView {
        let change = Change { when: Some(when), ..Change::default() };
        self.try_change(ChangeItem::new(named(name), change)).await.expect("the job can be moved")
    }

    /// Cancels one job.
    pub(super) async fn try_cancel(&self, item: CancelItem) -> Result<(), CancelError> {
        one(self.store.cancel(vec![item]).await.expect("cancel answers"))
    }

    /// Cancels a job of topic `t`.
    pub(super) async fn cancel(&self, name: &str) -> Result<(), CancelError> {
        self.try_cancel(CancelItem::new(named(name))).await
    }

    /// Sets the policy of topic `t`.
    pub(super) async fn policy(&self, policy: TopicPolicy) {
        let answer = self.store.set_policy(topic("t"), policy).await.expect("set_policy answers");
        assert_eq!(answer, Ok(()));
    }

    // ---- looking ----

    /// Looks one thing up.
    pub(super) async fn look(&self, lookup: Lookup) -> Option<Found> {
        one(self.store.get(vec![lookup]).await.expect("get answers"))
    }

    /// A live job of topic `t`, if there is one.
    pub(super) async fn find(&self, name: &str) -> Option<JobView> {
        self.look(Lookup::Job(named(name))).await.and_then(Found::live)
    }

    /// A live job of topic `t` that must be there.
    pub(super) async fn get(&self, name: &str) -> JobView {
        self.find(name).await.unwrap_or_else(|| panic!("job {name} is live"))
    }

    /// A live job by number.
    pub(super) async fn find_number(&self, number: Number) -> Option<JobView> {
        self.look(Lookup::Job(JobRef::Number(number))).await.and_then(Found::live)
    }

    /// The state of a live job of topic `t`.
    pub(super) async fn state(&self, name: &str) -> State {
        self.get(name).await.state
    }

    /// A topic that must be there.
    pub(super) async fn topic(&self, name: &str) -> TopicInfo {
        let info = self.store.topic(topic(name)).await.expect("topic answers");
        info.unwrap_or_else(|| panic!("topic {name} is there"))
    }

    /// The ids of a list, following cursors to the end.
    pub(super) async fn list_ids(&self, query: ListQuery) -> Vec<String> {
        let mut found = Vec::new();
        let mut query = query;
        loop {
            let page = self.store.list(query.clone()).await.expect("list answers").expect("the topic is there");
            assert!(page.jobs.len() <= query.limit as usize, "a page keeps to its limit");
            found.extend(page.jobs.into_iter().map(|view| view.job.id.as_str().to_owned()));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return found,
            }
        }
    }

    // ---- waiting ----

    /// Leases of topic `t` in a task of its own, waiting far longer than the check.
    pub(super) fn spawn_lease(&self, request: LeaseRequest) -> tokio::task::JoinHandle<Vec<LeasedJob>> {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move { store.lease(request.waiting(Duration::from_mins(1))).await.expect("lease answers") })
    }

    /// Waits until so many consumers wait for a topic.
    pub(super) async fn until_waiting(&self, name: &str, consumers: u64) {
        self.until(name, "consumers wait", |info| info.waiting == consumers).await;
    }

    /// Waits until a topic looks as it must.
    pub(super) async fn until(&self, name: &str, what: &str, holds: impl Fn(&TopicInfo) -> bool + Send) {
        let look = async {
            while !holds(&self.topic(name).await) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        assert!(tokio::time::timeout(SOON, look).await.is_ok(), "not within {SOON:?}: {what}");
    }
}

/// Awaits a task that must end soon: its consumer has been given what it waits for.
pub(super) async fn soon<T>(task: tokio::task::JoinHandle<T>) -> T {
    let answer = tokio::time::timeout(SOON, task).await;
    answer.unwrap_or_else(|_| panic!("still waiting after {SOON:?}")).expect("the task does not panic")
}

fn one<T>(mut answers: Vec<T>) -> T {
    assert_eq!(answers.len(), 1, "one item, one answer");
    answers.pop().expect("counted just now")
}
