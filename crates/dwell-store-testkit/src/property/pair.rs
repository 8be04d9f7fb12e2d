//! The store and the model, taken through the same steps.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use dwell_core::{
    CancelItem, Change, ChangeItem, Cursor, Defaults, Delay, Edit, IfExists, JobId, JobRef, Ladder, LeaseFrom,
    LeaseRequest, LeaseToken, LeasedJob, Lookup, NewJob, Number, Options, Priority, Purge, PutOutcome, Redrive,
    RedriveTopic, SetPause, Settle, State, Store, Timestamp, TopicName, TopicPolicy, Ttl, Ttr, Verdict, Version, When,
};

use super::TOLERANCE;
use super::compare::{Same, same};
use super::step::{Due, IDS, Match, Name, Step, TOPICS, Verb};
use crate::{Ending, MakeStore, Model, Restart, Setup, Subject, TestClock};

/// What a step found to be wrong.
pub(super) type Outcome = Result<(), String>;

/// Takes a fresh store and a fresh model through the steps.
pub(super) async fn run(make: MakeStore, steps: Vec<Step>) -> Outcome {
    let mut pair = Pair::new(&make).await;
    for step in steps {
        pair.take(&step).await.map_err(|wrong| format!("{step}: {wrong}"))?;
    }
    pair.look().await.map_err(|wrong| format!("at the end: {wrong}"))
}

pub(super) struct Pair {
    pub(super) store: Arc<dyn Store>,
    clock: Arc<dyn TestClock>,
    restart: Option<Restart>,
    pub(super) model: Model,
    /// The model's time; the store's is the same, or a little later where its clock runs.
    pub(super) now: Timestamp,
    /// When the case began.
    pub(super) start: Timestamp,
    pub(super) same: Same,
    /// Every lease ever given: the model's token and the store's.
    leases: Vec<(LeaseToken, LeaseToken)>,
    /// The first version of each name: the model's and the store's.
    first_versions: BTreeMap<Name, (Version, Version)>,
    /// Where the store's pages ended, by the store's number of the last job.
    pub(super) store_cursors: BTreeMap<Number, Cursor>,
}

impl Pair {
    async fn new(make: &MakeStore) -> Self {
        // No jitter: both sides must come to the same due times.
        let retry = Ladder::new(&[Delay::ZERO; 3]).expect("three steps").into_policy();
        let defaults = Defaults { retry, ..Defaults::default() };
        let setup = Setup { defaults, ..Setup::default() };
        let Subject { store, clock, restart } = make(setup.clone()).await;
        let start = store.status().await.expect("status answers").now;
        let tolerance = if clock.is_frozen() { 0 } else { TOLERANCE };
        Self {
            store,
            clock,
            restart,
            model: Model::new(&setup),
            now: start,
            start,
            same: Same::new(tolerance),
            leases: Vec::new(),
            first_versions: BTreeMap::new(),
            store_cursors: BTreeMap::new(),
        }
    }

    /// Milliseconds of one unit.
    pub(super) fn unit(&self) -> u64 {
        if self.clock.is_frozen() { 1_000 } else { 3_600_000 }
    }

    async fn take(&mut self, step: &Step) -> Outcome {
        if !self.clock.is_frozen() {
            // Tells the times of two steps apart by more than the clock can drift, and keeps them apart from the ends of
            // leases of a minute: 24 s do not divide it.
            self.pass(TOLERANCE + 9_000);
        }
        match step {
            Step::Put { .. } => self.put(step).await,
            Step::Lease { topic, max, ttr, auto_ack } => {
                let topics = if *topic < TOPICS { vec![topic_name(*topic)] } else { all_topics() };
                let request = LeaseRequest::from(LeaseFrom::Pull(topics)).up_to((*max).into());
                self.lease(LeaseRequest { ttr: ttr.map(|ttr| self.ttr(ttr)), auto_ack: *auto_ack, ..request }).await
            }
            Step::LeaseNumber { job } => self.lease_number(*job).await,
            Step::Settle { lease, verb } => self.settle(*lease, verb).await,
            Step::Change { .. } => self.change(step).await,
            Step::Cancel { job, if_match, force } => self.cancel(*job, *if_match, *force).await,
            Step::Redrive { .. } | Step::Purge { .. } | Step::Pause { .. } | Step::Policy { .. } => {
                self.whole_topic(step).await
            }
            Step::Advance { units } => {
                self.pass(u64::from(*units) * self.unit());
                Ok(())
            }
            Step::Restart { killed } => self.start_again(*killed).await,
            Step::Look => self.look().await,
        }
    }

    async fn start_again(&mut self, killed: bool) -> Outcome {
        // What has happened by then has happened before: time passes for a store that is up.
        self.look().await?;
        let Some(restart) = &self.restart else { return Ok(()) };
        self.store = restart(if killed { Ending::Killed } else { Ending::Closed }).await;
        self.model.restart(self.now);
        Ok(())
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now.plus(millis);
        // Delays count from the millisecond after a call: a running clock may still be within the one before.
        let rounding = u64::from(!self.clock.is_frozen());
        self.clock.advance(millis + rounding);
    }

    async fn put(&mut self, step: &Step) -> Outcome {
        let Step::Put { job, when, priority, if_exists, if_match, force, ladder, ttl, ttr } = step else {
            unreachable!("called for puts only")
        };
        let retry = ladder.as_ref().map(|steps| {
            let steps: Vec<Delay> = steps.iter().map(|&units| self.delay(units)).collect();
            Ladder::new(&steps).expect("one to three steps").into_policy()
        });
        let (ttl, ttr) = (ttl.map(|ttl| self.ttl(ttl)), ttr.map(|ttr| self.ttr(ttr)));
        let new = NewJob {
            priority: rank(*priority),
            options: Options { ttr, retry, ttl, deliver_to: None },
            if_exists: [IfExists::Replace, IfExists::Keep, IfExists::Reject][usize::from(*if_exists)],
            force: *force,
            ..NewJob::new(topic_name(job.0), id(job.1), self.when(*when))
        };
        let (model_match, store_match) = self.versions(*job, *if_match).await;
        let expected = self.model.put(self.now, vec![NewJob { if_match: model_match, ..new.clone() }]).remove(0);
        let found = self.store.put(vec![NewJob { if_match: store_match, ..new }]).await.expect("put answers").remove(0);
        match (expected, found) {
            (Ok(PutOutcome::Created(expected)), Ok(PutOutcome::Created(found)))
            | (Ok(PutOutcome::Replaced(expected)), Ok(PutOutcome::Replaced(found))) => {
                self.first_versions.entry(*job).or_insert((expected.version, found.version));
                self.same.receipt(&expected, found)
            }
            (Ok(PutOutcome::Kept(expected)), Ok(PutOutcome::Kept(found))) => self.same.found(&expected, found),
            (expected, found) => same("put", &expected, &found),
        }
    }

    async fn lease(&mut self, request: LeaseRequest) -> Outcome {
        let expected = self.model.lease(self.now, &request);
        let found = self.store.lease(request).await.expect("lease answers");
        self.leased(expected, found)
    }

    async fn lease_number(&mut self, job: Name) -> Outcome {
        let named = |number| LeaseRequest::from(LeaseFrom::Number(number));
        let Some(number) = self.number(job) else { return Ok(()) };
        let expected = self.model.lease(self.now, &named(number));
        let found = self.store.lease(named(self.same.number_in_store(number)?)).await.expect("lease answers");
        self.leased(expected, found)
    }

    fn leased(&mut self, expected: Vec<LeasedJob>, found: Vec<LeasedJob>) -> Outcome {
        let names = |jobs: &[LeasedJob]| -> Vec<String> {
            jobs.iter().map(|leased| format!("{}/{}", leased.view.job.topic, leased.view.job.id)).collect()
        };
        same("leased jobs", &names(&expected), &names(&found))?;
        for (expected, found) in expected.into_iter().zip(found) {
            match (expected.token, found.token) {
                (Some(model), Some(store)) => self.leases.push((model, store)),
                (model, store) => same("token", &model, &store)?,
            }
            self.same.view(&expected.view, found.view)?;
        }
        Ok(())
    }

    async fn settle(&mut self, lease: u8, verb: &Verb) -> Outcome {
        let Some(&(model, store)) = self.leases.iter().rev().nth(lease.into()) else { return Ok(()) };
        let verdict = match verb {
            Verb::Ack => Verdict::Ack,
            Verb::Nack(delay) => Verdict::Nack { error: None, delay: delay.map(|units| self.delay(units)) },
            Verb::Release(delay, priority) => {
                Verdict::Release { delay: delay.map(|units| self.delay(units)), priority: priority.map(rank) }
            }
            Verb::Bury(priority) => Verdict::Bury { reason: None, priority: priority.map(rank) },
            Verb::Extend(ttr) => Verdict::Extend { ttr: ttr.map(|ttr| self.ttr(ttr)) },
        };
        let expected = self.model.settle(self.now, vec![Settle::new(model, verdict.clone())]);
        let found = self.store.settle(vec![Settle::new(store, verdict)]).await.expect("settle answers");
        same("settle", &expected, &found)
    }

    async fn change(&mut self, step: &Step) -> Outcome {
        let Step::Change { job, when, priority, ttl, if_match, force } = step else {
            unreachable!("called for changes only")
        };
        let change = Change {
            when: when.map(|when| self.when(when)),
            priority: priority.map(rank),
            ttl: match ttl {
                None => Edit::Keep,
                Some(0) => Edit::Clear,
                Some(units) => Edit::Set(self.ttl(*units)),
            },
            ..Change::default()
        };
        let (model_match, store_match) = self.versions(*job, *if_match).await;
        let item = ChangeItem { force: *force, ..ChangeItem::new(job_ref(*job), change) };
        let expected =
            self.model.change(self.now, vec![ChangeItem { if_match: model_match, ..item.clone() }]).remove(0);
        let found =
            self.store.change(vec![ChangeItem { if_match: store_match, ..item }]).await.expect("change answers");
        match (expected, found.into_iter().next().expect("one answer")) {
            (Ok(expected), Ok(found)) => self.same.view(&expected, found),
            (expected, found) => same("change", &expected, &found),
        }
    }

    async fn cancel(&mut self, job: Name, if_match: Match, force: bool) -> Outcome {
        let (model_match, store_match) = self.versions(job, if_match).await;
        let item = CancelItem { force, ..CancelItem::new(job_ref(job)) };
        let expected = self.model.cancel(self.now, vec![CancelItem { if_match: model_match, ..item.clone() }]);
        let found =
            self.store.cancel(vec![CancelItem { if_match: store_match, ..item }]).await.expect("cancel answers");
        same("cancel", &expected, &found)
    }

    async fn whole_topic(&mut self, step: &Step) -> Outcome {
        match *step {
            Step::Redrive { topic, max, delay, else_delayed } => {
                let all = RedriveTopic::all(topic_name(topic));
                let delay = self.delay(delay);
                let what = Redrive::Topic(RedriveTopic { max: max.into(), delay, else_delayed, ..all });
                let expected = self.model.redrive(self.now, &what);
                same("redrive", &expected, &self.store.redrive(what).await.expect("redrive answers"))
            }
            Step::Purge { topic, state } => {
                let what = State::ALL.get(usize::from(state)).map_or(Purge::Topic, |state| Purge::Jobs(*state));
                let expected = self.model.purge(self.now, &topic_name(topic), what);
                same("purge", &expected, &self.store.purge(topic_name(topic), what).await.expect("purge answers"))
            }
            Step::Pause { topic, units } => {
                let pause = match units {
                    0 => SetPause::Off,
                    1 => SetPause::On,
                    units => SetPause::For(self.delay(units)),
                };
                let expected = self.model.pause(self.now, &topic_name(topic), pause);
                same("pause", &expected, &self.store.pause(topic_name(topic), pause).await.expect("pause answers"))
            }
            Step::Policy { topic, max_in_flight, ttl, keep_buried, keep_done } => {
                let given = |units: u8| (units > 0).then(|| self.delay(units));
                let policy = TopicPolicy {
                    max_in_flight: NonZeroU32::new(max_in_flight.into()),
                    ttl: (ttl > 0).then(|| self.ttl(ttl)),
                    keep_buried: given(keep_buried),
                    keep_done: given(keep_done),
                    ..TopicPolicy::default()
                };
                let expected = self.model.set_policy(self.now, &topic_name(topic), policy.clone());
                let found = self.store.set_policy(topic_name(topic), policy).await.expect("set_policy answers");
                same("policy", &expected, &found)
            }
            _ => unreachable!("called for whole topics only"),
        }
    }

    /// The version an `If-Match` names, the model's and the store's.
    async fn versions(&mut self, job: Name, wanted: Match) -> (Option<Version>, Option<Version>) {
        let lookup = Lookup::Job(job_ref(job));
        match wanted {
            Match::Any => (None, None),
            Match::First => self.first_versions.get(&job).copied().unzip(),
            Match::Current => {
                let version = |found: Option<dwell_core::Found>| Some(found?.live()?.job.version);
                let expected = version(self.model.get(self.now, std::slice::from_ref(&lookup)).remove(0));
                let found = version(self.store.get(vec![lookup]).await.expect("get answers").remove(0));
                expected.zip(found).unzip()
            }
        }
    }

    fn number(&mut self, job: Name) -> Option<Number> {
        let found = self.model.get(self.now, &[Lookup::Job(job_ref(job))]).remove(0);
        Some(found?.live()?.job.number)
    }

    fn when(&self, due: Due) -> When {
        match due {
            Due::In(units) => When::In(self.delay(units)),
            Due::At(units) => When::At(self.start.plus(u64::from(units) * self.unit())),
        }
    }

    fn delay(&self, units: u8) -> Delay {
        Delay::saturating(u64::from(units) * self.unit())
    }

    fn ttr(&self, units: u8) -> Ttr {
        Ttr::from_millis(u64::from(units) * self.unit()).expect("one to five units")
    }

    fn ttl(&self, units: u8) -> Ttl {
        Ttl::from_millis(u64::from(units) * self.unit()).expect("one to five units")
    }
}

pub(super) fn all_topics() -> Vec<TopicName> {
    (0..TOPICS).map(topic_name).collect()
}

pub(super) fn all_jobs() -> Vec<JobRef> {
    (0..TOPICS).flat_map(|topic| (0..IDS).map(move |id| job_ref(Name(topic, id)))).collect()
}

fn job_ref(Name(topic, name): Name) -> JobRef {
    JobRef::Named(topic_name(topic), id(name))
}

fn topic_name(index: u8) -> TopicName {
    TopicName::new(&format!("topic-{index}")).expect("a good topic")
}

fn id(index: u8) -> JobId {
    JobId::new(&format!("job-{index}")).expect("a good id")
}

/// The last small number stands for the last priority there is.
fn rank(small: u8) -> Priority {
    Priority(if small == u8::MAX { u32::MAX } else { small.into() })
}
