//! What clients ask, of the store and of the model, and what either answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use dwell_core::{
    CancelError, CancelItem, ChangeError, ChangeItem, Found, JobView, LeaseLost, LeaseRequest, LeasedJob, ListQuery,
    Lookup, NewJob, Page, Purge, PutError, PutOutcome, Redrive, Redriven, SetPause, Settle, Store, StoreError,
    TimelineQuery, Timestamp, TopicError, TopicInfo, TopicName, TopicPolicy,
};
use dwell_store_testkit::Model;

/// A call under way.
pub type Pending = Pin<Box<dyn Future<Output = Result<Reply, StoreError>>>>;

/// One call of the `Store` trait.
#[derive(Clone, Debug)]
pub enum Request {
    /// `put`
    Put(Vec<NewJob>),
    /// `lease`
    Lease(LeaseRequest),
    /// `settle`
    Settle(Vec<Settle>),
    /// `change`
    Change(Vec<ChangeItem>),
    /// `cancel`
    Cancel(Vec<CancelItem>),
    /// `get`
    Get(Vec<Lookup>),
    /// `list`
    List(ListQuery),
    /// `topic`
    Topic(TopicName),
    /// `timeline`
    Timeline(TimelineQuery),
    /// `redrive`
    Redrive(Redrive),
    /// `purge`
    Purge(TopicName, Purge),
    /// `pause`
    Pause(TopicName, SetPause),
    /// `set_policy`
    Policy(TopicName, TopicPolicy),
}

/// What it answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To `put`.
    Put(Vec<Result<PutOutcome, PutError>>),
    /// To `lease`.
    Lease(Vec<LeasedJob>),
    /// To `settle`.
    Settle(Vec<Result<(), LeaseLost>>),
    /// To `change`.
    Change(Vec<Result<JobView, ChangeError>>),
    /// To `cancel`.
    Cancel(Vec<Result<(), CancelError>>),
    /// To `get`.
    Get(Vec<Option<Found>>),
    /// To `list`.
    List(Result<Page, TopicError>),
    /// To `topic`.
    Topic(Option<Box<TopicInfo>>),
    /// To `timeline`.
    Timeline(Result<Vec<u64>, TopicError>),
    /// To `redrive`.
    Redrive(Result<Redriven, TopicError>),
    /// To `purge`.
    Purge(Result<u64, TopicError>),
    /// To `pause` and `set_policy`.
    Done(Result<(), TopicError>),
}

impl Reply {
    /// Whether the call has changed anything.
    pub fn has_effect(&self) -> bool {
        match self {
            Self::Put(items) => {
                items.iter().any(|item| matches!(item, Ok(PutOutcome::Created(_) | PutOutcome::Replaced(_))))
            }
            Self::Lease(jobs) => !jobs.is_empty(),
            Self::Settle(items) => items.iter().any(Result::is_ok),
            Self::Change(items) => items.iter().any(Result::is_ok),
            Self::Cancel(items) => items.iter().any(Result::is_ok),
            Self::Redrive(done) => done.is_ok_and(|done| done.redriven > 0),
            Self::Purge(done) => done.is_ok_and(|purged| purged > 0),
            Self::Done(done) => done.is_ok(),
            Self::Get(_) | Self::List(_) | Self::Topic(_) | Self::Timeline(_) => false,
        }
    }
}

/// Asks the store.
pub fn ask_store(store: Arc<dyn Store>, request: Request) -> Pending {
    Box::pin(async move {
        Ok(match request {
            Request::Put(jobs) => Reply::Put(store.put(jobs).await?),
            Request::Lease(request) => Reply::Lease(store.lease(request).await?),
            Request::Settle(items) => Reply::Settle(store.settle(items).await?),
            Request::Change(items) => Reply::Change(store.change(items).await?),
            Request::Cancel(items) => Reply::Cancel(store.cancel(items).await?),
            Request::Get(items) => Reply::Get(store.get(items).await?),
            Request::List(query) => Reply::List(store.list(query).await?),
            Request::Topic(name) => Reply::Topic(store.topic(name).await?.map(Box::new)),
            Request::Timeline(query) => Reply::Timeline(store.timeline(query).await?),
            Request::Redrive(what) => Reply::Redrive(store.redrive(what).await?),
            Request::Purge(name, what) => Reply::Purge(store.purge(name, what).await?),
            Request::Pause(name, pause) => Reply::Done(store.pause(name, pause).await?),
            Request::Policy(name, policy) => Reply::Done(store.set_policy(name, policy).await?),
        })
    })
}

/// Asks the model; a lease does not wait.
pub fn ask_model(model: &mut Model, now: Timestamp, request: Request) -> Reply {
    match request {
        Request::Put(jobs) => Reply::Put(model.put(now, jobs)),
        Request::Lease(request) => Reply::Lease(model.lease(now, &request)),
        Request::Settle(items) => Reply::Settle(model.settle(now, items)),
        Request::Change(items) => Reply::Change(model.change(now, items)),
        Request::Cancel(items) => Reply::Cancel(model.cancel(now, items)),
        Request::Get(items) => Reply::Get(model.get(now, &items)),
        Request::List(query) => Reply::List(model.list(now, &query)),
        Request::Topic(name) => Reply::Topic(model.topic(now, &name).map(Box::new)),
        Request::Timeline(query) => Reply::Timeline(model.timeline(now, &query)),
        Request::Redrive(what) => Reply::Redrive(model.redrive(now, &what)),
        Request::Purge(name, what) => Reply::Purge(model.purge(now, &name, what)),
        Request::Pause(name, pause) => Reply::Done(model.pause(now, &name, pause)),
        Request::Policy(name, policy) => Reply::Done(model.set_policy(now, &name, policy)),
    }
}
