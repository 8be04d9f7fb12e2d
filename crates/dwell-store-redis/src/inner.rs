//! What all calls of one store share, and the two steps most of them are made of: read, and move by version.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dwell_core::state::{self, Moment, Passage};
use dwell_core::{
    Defaults, DoneJob, Job, JobId, JobRef, JobView, Now, Phase, Rules, StoreError, Timestamp, TopicName, TopicPolicy,
    Version, limits,
};
use redis::Value;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::dice::Dice;
use crate::keys::Keys;
use crate::link::{Call, Link, Trouble, out_of_reach};
use crate::record::{self, number_bytes, version_bytes};
use crate::reply::Reply;
use crate::script::{self, Script};
use crate::status::Health;
use crate::verbs::{Acks, Puts};
use crate::waiters::{Looks, Waiters};

/// Jobs of one call of a script: more would keep the engine from others for too long.
pub(crate) const CALL_JOBS: usize = 100;
/// Bytes of one call, or of its answer, beyond its first job.
pub(crate) const CALL_BYTES: usize = 1 << 20;
/// How often a change is tried again without anything having been done, before its caller is told to come later.
const ROUNDS: usize = 50;

/// What all calls share.
pub(crate) struct Inner {
    pub(crate) link: Link,
    pub(crate) keys: Keys,
    pub(crate) clock: Arc<Clock>,
    pub(crate) dice: Dice,
    pub(crate) defaults: Defaults,
    pub(crate) max_topics: usize,
    pub(crate) waiters: Waiters,
    pub(crate) looks: Looks,
    pub(crate) puts: Puts,
    pub(crate) acks: Acks,
    pub(crate) health: Health,
    pub(crate) closed: AtomicBool,
    /// The largest count seen, of whichever partition.
    greatest: AtomicU64,
    /// The store's time, and when that was.
    seen: Mutex<(Timestamp, Instant)>,
}

/// What a look at a job finds.
#[derive(Debug)]
pub(crate) enum Looked {
    Nothing,
    Live(Box<Live>),
    Done(DoneJob),
}

/// A live job, with what it takes to change it.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) job: Job,
    pub(crate) policy: Arc<TopicPolicy>,
    /// The blob as read: what it says of its put stays.
    stamp: Vec<u8>,
    /// The version as read.
    version: Version,
}

impl Live {
    pub(crate) fn new(job: Job, policy: Arc<TopicPolicy>, stamp: Vec<u8>) -> Self {
        Self { version: job.version, job, policy, stamp }
    }
}

/// What becomes of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It stays as it is.
    Leave,
    /// It is changed; its blob too, if so said.
    Set { blob: bool },
    /// It goes.
    Remove,
}

/// An act, and what its topic counts of it.
pub(crate) type Decision = (Act, Vec<(&'static str, u64)>);

/// A change to be made if nobody made another since.
struct Change {
    item: usize,
    looked: Box<Live>,
    act: Act,
    totals: Vec<(&'static str, u64)>,
}

/// Where a job is looked for.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Named(TopicName, JobId),
    Number(dwell_core::Number),
}

impl From<JobRef> for Place {
    fn from(job: JobRef) -> Self {
        match job {
            JobRef::Named(topic, id) => Self::Named(topic, id),
            JobRef::Number(number) => Self::Number(number),
        }
    }
}

impl Inner {
    pub(crate) fn new(
        link: Link,
        keys: Keys,
        clock: Arc<Clock>,
        defaults: Defaults,
        max_topics: usize,
        health: Health,
    ) -> Self {
        Self {
            link,
            keys,
            clock,
            dice: Dice::new(),
            defaults,
            max_topics,
            waiters: Waiters::default(),
            looks: Looks::none(),
            puts: Puts::default(),
            acks: Acks::default(),
            health,
            closed: AtomicBool::new(false),
            greatest: AtomicU64::new(0),
            seen: Mutex::new((Timestamp::EPOCH, Instant::now())),
        }
    }

    // ---- calling ----

    /// A call of a script in a partition.
    pub(crate) fn call(&self, script: &'static Script, partition: usize) -> Call {
        let seen = self.greatest.load(Ordering::SeqCst);
        let mut clock = seen.to_be_bytes()[1..].to_vec();
        clock.extend_from_slice(self.clock.argument().as_bytes());
        Call::new(script, self.keys.base(partition), clock)
    }

    /// Notes the largest count that an answer has shown: none is given out again should the engine forget it, and what is
    /// put later has a larger number, in whichever partition.
    pub(crate) fn counted(&self, count: u64) {
        self.greatest.fetch_max(count, Ordering::SeqCst);
    }

    pub(crate) async fn run(&self, call: Call) -> Result<Value, Trouble> {
        self.link.run(call).await
    }

    pub(crate) async fn ask(&self, call: Call) -> Result<Reply, StoreError> {
        Ok(Reply::new(self.run(call).await?)?)
    }

    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::SeqCst) { Err(StoreError::Closed) } else { Ok(()) }
    }

    // ---- time ----

    /// Notes the store's time.
    pub(crate) fn saw(&self, now: Timestamp) {
        let mut seen = self.seen.lock().expect("nobody panics while holding it");
        *seen = (now, Instant::now());
    }

    /// About what time it is in the store.
    pub(crate) fn about_now(&self) -> Timestamp {
        let (at, when) = *self.seen.lock().expect("nobody panics while holding it");
        let run = if self.clock.is_frozen() { 0 } else { when.elapsed().as_millis() };
        at.plus(u64::try_from(run).unwrap_or(u64::MAX))
    }

    // ---- rules ----

    pub(crate) fn rules<'a>(&'a self, policy: &'a TopicPolicy) -> Rules<'a> {
        Rules { policy, defaults: &self.defaults }
    }

    /// The moment at which a command is applied. The script gives the version.
    pub(crate) fn moment<'a>(&'a self, now: Now, policy: &'a TopicPolicy) -> Moment<'a> {
        let version = Version::new(0).expect("zero is small");
        Moment { now, version, random: self.dice.roll(), rules: self.rules(policy) }
    }

    pub(crate) fn view(&self, live: Live, now: Timestamp) -> JobView {
        JobView::new(live.job, now, &self.rules(&live.policy))
    }

    // ---- reading ----

    /// Looks jobs of one partition up, all of them at one instant if they fit one call.
    async fn read(
        &self,
        partition: usize,
        places: &[Place],
        bodies: bool,
    ) -> Result<(Now, Vec<Option<Looked>>), StoreError> {
        let room = if bodies { CALL_BYTES } else { 0 };
        let mut call = self.call(&script::READ, partition).int(room as u64);
        for place in places {
            match place {
                Place::Named(topic, id) => {
                    call.push(topic.as_str());
                    call.push(id.as_str());
                }
                Place::Number(number) => {
                    call.push("");
                    call.push(number_bytes(*number));
                }
            }
        }
        let mut reply = self.ask(call).await?;
        let now = Now { at: reply.time()?, up: reply.time()? };
        self.saw(now.at);
        let mut policies = Policies::default();
        let mut named = reply.list()?.into_iter();
        while let (Some(topic), Some(policy)) = (named.next(), named.next()) {
            policies.know(crate::reply::bytes(topic)?, &crate::reply::bytes(policy)?)?;
        }
        let rows = reply.rows()?.into_iter().zip(places);
        let looked: Result<Vec<_>, StoreError> =
            rows.map(|(row, place)| read_one(row, place, &policies, bodies)).collect();
        Ok((now, looked?))
    }

    /// Reads jobs, lets time pass for each, lets `decide` say what becomes of it, and does that if nobody changed it
    /// since; if somebody did, again. Items on one job are done in order. Answers what each looks like afterwards.
    ///
    /// `decide` may be asked more than once about an item; its last word counts.
    pub(crate) async fn update(
        &self,
        partition: usize,
        items: Vec<(usize, Place)>,
        bodies: bool,
        decide: &mut (dyn FnMut(usize, &mut Looked, Now) -> Decision + Send),
    ) -> Result<Vec<(usize, Looked, Now)>, StoreError> {
        let mut settled = Vec::with_capacity(items.len());
        let mut left = items;
        let mut idle = 0;
        while !left.is_empty() {
            let batch: Vec<(usize, Place)> = left.drain(..left.len().min(CALL_JOBS)).collect();
            let places: Vec<Place> = batch.iter().map(|(_, place)| place.clone()).collect();
            let (now, looked) = self.read(partition, &places, bodies).await?;
            let (mut changes, mut again) = (Vec::new(), Vec::new());
            for ((item, place), looked) in batch.into_iter().zip(looked) {
                let Some(mut looked) = looked else {
                    again.push((item, place));
                    continue;
                };
                let (act, totals) = self.judge(item, &mut looked, now, decide);
                match looked {
                    Looked::Live(looked) if act != Act::Leave => {
                        changes.push((place, Change { item, looked, act, totals }));
                    }
                    looked => settled.push((item, looked, now)),
                }
            }
            let before = settled.len();
            let refused = self.make(partition, changes, now, &mut settled).await?;
            idle = if settled.len() > before || refused.is_empty() { 0 } else { idle + 1 };
            if idle > ROUNDS {
                return Err(StoreError::Overloaded);
            }
            again.extend(refused);
            again.extend(left);
            left = again;
            left.sort_by_key(|(item, _)| *item);
        }
        Ok(settled)
    }

    /// Lets time pass, then asks what becomes of the job.
    fn judge(
        &self,
        item: usize,
        looked: &mut Looked,
        now: Now,
        decide: &mut (dyn FnMut(usize, &mut Looked, Now) -> Decision + Send),
    ) -> Decision {
        let passage = match looked {
            Looked::Live(live) => self.pass(live, now),
            Looked::Nothing | Looked::Done(_) => Passage::default(),
        };
        if passage.gone {
            let mut nothing = Looked::Nothing;
            decide(item, &mut nothing, now);
            return (Act::Remove, totals_of(passage));
        }
        let (act, mut totals) = decide(item, looked, now);
        totals.extend(totals_of(passage));
        let act = if act == Act::Leave && passage.changed() { Act::Set { blob: false } } else { act };
        (act, totals)
    }

    /// Does to a job what time alone does.
    pub(crate) fn pass(&self, live: &mut Live, now: Now) -> Passage {
        let policy = Arc::clone(&live.policy);
        state::pass_time(&mut live.job, &self.moment(now, &policy))
    }

    /// Makes changes; what was refused because somebody was faster. What was done goes to `settled`.
    async fn make(
        &self,
        partition: usize,
        changes: Vec<(Place, Change)>,
        now: Now,
        settled: &mut Vec<(usize, Looked, Now)>,
    ) -> Result<Vec<(usize, Place)>, StoreError> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = self.call(&script::MOVE, partition).flag(false);
        for (_, change) in &changes {
            self.push_change(&mut call, change);
        }
        let answers = self.ask(call).await?;
        let mut refused = Vec::new();
        for ((place, change), mut answer) in changes.into_iter().zip(rows(answers)?) {
            if answer.int()? != 1 {
                refused.push((change.item, place));
                continue;
            }
            let mut live = change.looked;
            if change.act == Act::Remove {
                settled.push((change.item, Looked::Nothing, now));
                continue;
            }
            live.job.version = record::read_version(&answer.bytes()?)?;
            self.counted(live.job.version.get());
            if let Phase::Leased(lease) = &mut live.job.phase
                && lease.token.version.get() == 0
            {
                lease.token.version = live.job.version;
            }
            settled.push((change.item, Looked::Live(live), now));
        }
        Ok(refused)
    }

    fn push_change(&self, call: &mut Call, change: &Change) {
        let job = &change.looked.job;
        call.push(number_bytes(job.number));
        call.push(version_bytes(change.looked.version));
        let (state, blob) = match change.act {
            Act::Remove | Act::Leave => (Vec::new(), None),
            Act::Set { blob } => {
                let blob = blob.then(|| record::whole_blob(job, &change.looked.stamp));
                (record::write_state(job, self.dice.roll()), blob)
            }
        };
        call.push(state);
        let blob = blob.unwrap_or(record::Parts { blob: Vec::new(), body: Vec::new() });
        call.push(blob.blob);
        call.push(blob.body);
        let totals: Vec<String> = change.totals.iter().map(|(name, by)| format!("{name}={by}")).collect();
        call.push(totals.join(","));
    }

    // ---- what time does ----

    /// Sees to what time has done in a topic, in up to `batches` calls; whether that was all.
    pub(crate) async fn pass_topic(&self, topic: &TopicName, batches: usize) -> Result<bool, StoreError> {
        let partition = self.keys.of_topic(topic);
        for _ in 0..batches {
            let call = self.call(&script::OVERDUE, partition).arg(topic.as_str()).int(CALL_JOBS as u64);
            let mut reply = self.ask(call).await?;
            let now = Now { at: reply.time()?, up: reply.time()? };
            self.saw(now.at);
            let policy = reply.bytes()?;
            let rows = reply.rows()?;
            if rows.is_empty() {
                return Ok(true);
            }
            let policy = Arc::new(record::read_policy(&policy)?);
            let mut changes = Vec::new();
            for (item, mut row) in rows.into_iter().enumerate() {
                let (number, blob, state) = (row.number()?, row.bytes()?, row.bytes()?);
                let job = record::read_job(number, &blob, &state, None)?;
                let mut looked = Box::new(Live::new(job, Arc::clone(&policy), blob));
                let passage = self.pass(&mut looked, now);
                let act = if passage.gone { Act::Remove } else { Act::Set { blob: false } };
                if passage.changed() {
                    changes.push((Place::Number(number), Change { item, looked, act, totals: totals_of(passage) }));
                }
            }
            // Whoever was faster has seen to it.
            self.make(partition, changes, now, &mut Vec::new()).await?;
        }
        Ok(false)
    }

    /// Sees to all that time has done in a topic, within reason: what is over is left to the sweep.
    pub(crate) async fn pass_all(&self, topic: &TopicName) -> Result<(), StoreError> {
        self.pass_topic(topic, limits::MAX_BATCH / CALL_JOBS).await.map(|_| ())
    }
}

/// What a topic counts of a passage.
fn totals_of(passage: Passage) -> Vec<(&'static str, u64)> {
    let counted = [("timed_out", passage.timed_out), ("buried", passage.buried), ("purged", passage.gone)];
    counted.into_iter().filter(|(_, happened)| *happened).map(|(name, _)| (name, 1)).collect()
}

/// The items of an answer that is a list of lists.
pub(crate) fn rows(reply: Reply) -> Result<Vec<Reply>, StoreError> {
    Ok(reply.into_rows()?)
}

/// Policies by topic, as they came with an answer.
#[derive(Default)]
struct Policies(HashMap<Vec<u8>, Arc<TopicPolicy>>);

impl Policies {
    fn know(&mut self, topic: Vec<u8>, policy: &[u8]) -> Result<(), StoreError> {
        self.0.insert(topic, Arc::new(record::read_policy(policy)?));
        Ok(())
    }

    fn of(&self, topic: &TopicName) -> Result<Arc<TopicPolicy>, StoreError> {
        self.0.get(topic.as_str().as_bytes()).cloned().ok_or_else(|| out_of_reach("a job came without its topic"))
    }
}

/// Reads one answer; `None` if it did not fit and is to be asked for again.
fn read_one(mut row: Reply, place: &Place, policies: &Policies, bodies: bool) -> Result<Option<Looked>, StoreError> {
    match row.int()? {
        1 => {
            let (number, blob, state, body) = (row.number()?, row.bytes()?, row.bytes()?, row.bytes()?);
            let job = record::read_job(number, &blob, &state, bodies.then_some(&*body))?;
            let policy = policies.of(&job.topic)?;
            Ok(Some(Looked::Live(Box::new(Live::new(job, policy, blob)))))
        }
        2 => match place {
            Place::Named(topic, id) => Ok(Some(Looked::Done(record::read_done(topic, id, &row.bytes()?)?))),
            Place::Number(_) => Ok(Some(Looked::Nothing)),
        },
        3 => Ok(None),
        _ => Ok(Some(Looked::Nothing)),
    }
}

/// An answer that is a list of whole numbers.
pub(crate) fn rows_of_ints(value: Value) -> Result<Vec<i64>, StoreError> {
    let values = crate::reply::list(value)?;
    Ok(values.iter().map(crate::reply::int).collect::<Result<_, _>>()?)
}
