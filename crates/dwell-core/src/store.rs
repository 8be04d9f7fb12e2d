//! The `Store` trait: the contract that every store keeps and every protocol relies on.
//!
//! The executable form of this page is the suite in `dwell-store-testkit`; where the two disagree, one of them has
//! a bug.
//!
//! # What holds for every method
//!
//! - **Atomic per job.** Each item of a batch is judged and done on its own, in order, and has its own answer. Two
//!   calls on one job happen one after the other, whoever made them.
//! - **Durable.** Success is answered only once it will survive what the store promises to survive; so is what a read
//!   shows. An error of the whole call ([`StoreError`]) that is not "nothing was done" means the outcome is unknown.
//! - **On the store's own time.** A store reads one clock, its own, which never goes back. Delays count from when the
//!   store takes the call. A job is never handed out while that clock is before its due time.
//! - **Time has passed.** Every call sees each job it touches as [`crate::state::pass_time`] leaves it: a lease that
//!   has run out is a failed attempt, a job past its ttl is buried, whether or not a sweep has been there. Only
//!   [`TopicInfo::counts`] may lag, by jobs whose ttl or `keep_buried` has just run out, until the next sweep.
//! - **Never stuck.** Whatever wakes waiting consumers may be lost; a sweep at least every [`crate::limits::SWEEP`]
//!   finds due work all the same.
//! - **Never blocked by a caller.** A future that is dropped before it answers leaves nothing behind: a waiting lease
//!   gives up its place, and jobs leased for it are released uncounted.
//! - **Bounded.** Batches of at most [`crate::limits::MAX_BATCH`]; the caller checks.

use std::future::Future;
use std::pin::Pin;

use crate::error::{CancelError, ChangeError, LeaseLost, PutError, StoreError, TopicError};
use crate::job::{Change, JobView, NewJob, Number, Version};
use crate::lease::{LeaseRequest, LeasedJob, Settle};
use crate::list::{ListQuery, Page, TimelineQuery};
use crate::names::{JobId, TopicName};
use crate::policy::TopicPolicy;
use crate::put::{Found, PutOutcome};
use crate::state::State;
use crate::time::Timestamp;
use crate::topic::{Purge, Redrive, Redriven, SetPause, TopicInfo, TopicsQuery};

/// What a store method returns: a future, boxed so that the trait can be an object. One allocation a batch.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Where jobs are kept. See the [module's page](self) for what holds for every method.
pub trait Store: Send + Sync + 'static {
    /// Puts jobs. [`crate::put::plan`] says what each does to a job that is there already; a topic that is not there
    /// yet is created. Each new job, a replacing one too, gets a number that no job of this store ever had, larger
    /// than those put before it. Items of one batch see each other: the second of two with one id meets the first.
    fn put(&self, jobs: Vec<NewJob>) -> Answer<'_, Vec<Result<PutOutcome, PutError>>>;

    /// Hands out ready jobs, each under a lease of its own, until it is settled or runs out.
    ///
    /// In order: within one (topic, line) by priority, then due time, then number; over several, the best head wins.
    /// As soon as there is at least one it answers with what is there then, up to `max` jobs and
    /// [`crate::limits::MAX_ANSWER_BYTES`] of bodies (one job always fits); it never waits to fill up. With none
    /// there it waits up to `wait` of real time and then answers with none. Those who wait are served first come,
    /// first served, among those the job is for. Topics that do not exist are waited for.
    ///
    /// Not handed out: jobs of a paused topic, jobs past their ttl, jobs over the topic's `max_in_flight` or
    /// `max_rate`, whose burst is full again after a start. A job that is held has exactly one lease; each lease raises its version, which is part of the
    /// token. Leases, with the attempts they count, are as durable as puts.
    fn lease(&self, request: LeaseRequest) -> Answer<'_, Vec<LeasedJob>>;

    /// Does what the holders of leases say. A token that is not that of a job's live lease changes nothing and is
    /// answered [`LeaseLost`]. An acked job is remembered if its topic's `keep_done` says so.
    fn settle(&self, items: Vec<Settle>) -> Answer<'_, Vec<Result<(), LeaseLost>>>;

    /// Changes or moves live jobs and answers what they look like afterwards. A version, if given, is judged before
    /// anything else. Of a leased job only by force, which revokes the lease and leaves the attempt counted.
    fn change(&self, items: Vec<ChangeItem>) -> Answer<'_, Vec<Result<JobView, ChangeError>>>;

    /// Removes live jobs. After success the job is never handed out: no lease that comes later, or that waits now,
    /// gets it. A version, if given, is judged first; of a leased job only by force.
    fn cancel(&self, items: Vec<CancelItem>) -> Answer<'_, Vec<Result<(), CancelError>>>;

    /// Looks jobs up. `None`: no such live job, and none remembered.
    fn get(&self, items: Vec<Lookup>) -> Answer<'_, Vec<Option<Found>>>;

    /// A page of a topic's jobs, ordered by [`crate::list::Section`], then due time, then number. Following
    /// [`Page::next`] to the end shows each job that does not change meanwhile exactly once, also over restarts.
    fn list(&self, query: ListQuery) -> Answer<'_, Result<Page, TopicError>>;

    /// A page of topics, by name.
    fn topics(&self, query: TopicsQuery) -> Answer<'_, Vec<TopicInfo>>;

    /// One topic; `None` if it was never seen or was deleted.
    fn topic(&self, name: TopicName) -> Answer<'_, Option<TopicInfo>>;

    /// Replaces a topic's policy, creating the topic if need be. Holds at once for jobs that are already there.
    fn set_policy(&self, name: TopicName, policy: TopicPolicy) -> Answer<'_, Result<(), TopicError>>;

    /// Stops or restarts a topic's hand-outs. A pause creates the topic if need be; the end of one does not. While it
    /// holds, puts work, due jobs become ready, held leases settle, and those who wait go on waiting.
    fn pause(&self, name: TopicName, pause: SetPause) -> Answer<'_, Result<(), TopicError>>;

    /// Brings dead letters back with fresh attempts, by due time, then number. Of a number that is neither buried nor
    /// delayed, or not there: 0 redriven.
    fn redrive(&self, what: Redrive) -> Answer<'_, Result<Redriven, TopicError>>;

    /// Removes all jobs in one state, or the whole topic, and answers how many jobs went. Their leases are lost.
    fn purge(&self, name: TopicName, what: Purge) -> Answer<'_, Result<u64, TopicError>>;

    /// How many delayed and ready jobs are due in each bucket. Costs by buckets, not by jobs.
    fn timeline(&self, query: TimelineQuery) -> Answer<'_, Result<Vec<u64>, TopicError>>;

    /// What the store is, promises and suffers from. Goes on answering after the store has failed.
    fn status(&self) -> Answer<'_, Status>;

    /// Stops the store: answers those who wait with nothing, finishes what is under way, makes it durable. Calls that
    /// come later are answered [`StoreError::Closed`].
    fn close(&self) -> Answer<'_, ()>;
}

/// What names a live job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRef {
    /// Its topic and id.
    Named(TopicName, JobId),
    /// Its number, whatever its topic.
    Number(Number),
}

/// One job to change.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeItem {
    /// Which.
    pub job: JobRef,
    /// To what.
    pub change: Change,
    /// Only if it has this version.
    pub if_match: Option<Version>,
    /// Even if it is leased.
    pub force: bool,
}

impl ChangeItem {
    /// A change whatever the version, unless the job is leased.
    pub fn new(job: JobRef, change: Change) -> Self {
        Self { job, change, if_match: None, force: false }
    }
}

/// One job to cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelItem {
    /// Which.
    pub job: JobRef,
    /// Only if it has this version.
    pub if_match: Option<Version>,
    /// Even if it is leased.
    pub force: bool,
}

impl CancelItem {
    /// A cancellation whatever the version, unless the job is leased.
    pub fn new(job: JobRef) -> Self {
        Self { job, if_match: None, force: false }
    }
}

/// What to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// This job.
    Job(JobRef),
    /// The job of a topic that is next in its state: the next handed out of line 0, the next due, the lease that
    /// ends next, the dead letter redriven next.
    Next(TopicName, State),
}

/// What a store says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it is: `embedded`, `redis`, `postgres`, `memory`.
    pub store: String,
    /// What an answered success survives, in the user's words.
    pub promise: String,
    /// The store's time.
    pub now: Timestamp,
    /// Why it answers nothing more until it is started again, if it has failed.
    pub failed: Option<String>,
    /// What else is not at its best, while it goes on working.
    pub troubles: Vec<String>,
    /// What it has measured of itself since it was opened.
    pub measures: Measures,
}

/// What a store has measured of itself. What it does not measure is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// From a job's due time to when it became ready.
    pub promoted: Option<Spread>,
    /// How long making changes durable took.
    pub synced: Option<Spread>,
    /// How much it holds, and where.
    pub sizes: Option<Sizes>,
}

/// How much a store with memory and files of its own holds, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Jobs in memory.
    pub near_jobs: u64,
    /// Bytes of memory that jobs take.
    pub near_bytes: u64,
    /// Bytes of memory that jobs may take.
    pub near_limit: u64,
    /// Jobs in runs, those that are in memory as well too.
    pub shelf_jobs: u64,
    /// Runs.
    pub shelf_runs: u64,
    /// Bytes of runs.
    pub shelf_bytes: u64,
    /// Segments of the journal that are still needed.
    pub journal_segments: u64,
    /// Bytes that are free on the disk, where there is one that says so.
    pub disk_free: Option<u64>,
}

/// How many of a kind took how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many took at most each of [`Spread::BOUNDS`] and more than the one before; the last ones took longer than all.
    pub counts: [u64; Self::BOUNDS.len() + 1],
    /// All together, in microseconds.
    pub sum: u64,
}

impl Spread {
    /// Microseconds, from a tenth of a millisecond to ten minutes.
    pub const BOUNDS: [u64; 16] = [
        100,
        250,
        500,
        1_000,
        2_500,
        5_000,
        10_000,
        25_000,
        50_000,
        100_000,
        250_000,
        1_000_000,
        2_500_000,
        10_000_000,
        60_000_000,
        600_000_000,
    ];
}
