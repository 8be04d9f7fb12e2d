//! Putting jobs.
//!
//! A job whose id is free is put by one call. One that meets another is judged by the core's rule, on what is read of the
//! other, and put in a second step that is done only if that has not changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use dwell_core::{
    Existing, Found, NewId, NewJob, Number, PutError, PutOutcome, PutPlan, Receipt, State, StoreError, Timestamp,
    TopicError, TopicName, TopicPolicy, When, limits, put,
};
use futures_util::future::try_join_all;

use crate::gather::{FEW, Gather, Part, together};
use crate::inner::{Act, CALL_BYTES, CALL_JOBS, Inner, Looked, Place};
use crate::link::{Call, Trouble};
use crate::record::{self, Reader, Sent, Writer, number_bytes, version_bytes};
use crate::script;

type Answer = Result<PutOutcome, PutError>;

/// Puts on their way, by topic.
pub(crate) type Puts = Gather<TopicName, Item, PutAnswer>;

/// The jobs of a caller, and what was said of them.
type PutAnswer = (Vec<Item>, Result<Result<Vec<Said>, PutError>, StoreError>);

/// A job on its way in.
pub(crate) struct Item {
    place: usize,
    new: NewJob,
    /// Uniform; for its jitter.
    random: u64,
}

/// What a put may take the place of.
enum Old {
    Nothing,
    Live(Number, dwell_core::Version),
    Done,
}

/// What a call of the script said of one job.
pub(crate) enum Said {
    Put(Box<Receipt>, bool),
    Taken,
    TooFar,
}

impl Inner {
    pub(crate) async fn put(self: &Arc<Self>, jobs: Vec<NewJob>) -> Result<Vec<Answer>, StoreError> {
        let mut answers: Vec<Option<Answer>> = Vec::new();
        answers.resize_with(jobs.len(), || None);
        let mut items = Vec::with_capacity(jobs.len());
        for (place, new) in jobs.into_iter().enumerate() {
            if new.body.len() > limits::MAX_BODY && new.if_match.is_none() {
                answers[place] = Some(Err(PutError::TooLarge));
                continue;
            }
            items.push(Item { place, new, random: self.dice.roll() });
        }
        for (place, answer) in self.put_items(items).await? {
            answers[place] = Some(answer);
        }
        Ok(answers.into_iter().map(|answer| answer.expect("every item is answered")).collect())
    }

    /// Puts jobs of several topics: topic by topic at a time, but jobs that are named by their numbers in their order, so
    /// that the numbers are in it, too.
    async fn put_items(self: &Arc<Self>, items: Vec<Item>) -> Result<Vec<(usize, Answer)>, StoreError> {
        if items.iter().any(|item| matches!(item.new.id, NewId::FromNumber)) {
            let mut answers = Vec::with_capacity(items.len());
            let mut left = items.into_iter().peekable();
            while let Some(first) = left.next() {
                let topic = first.new.topic.clone();
                let mut row = vec![first];
                row.extend(std::iter::from_fn(|| left.next_if(|item| item.new.topic == topic)));
                answers.extend(self.put_into(topic, row).await?);
            }
            return Ok(answers);
        }
        let mut topics: BTreeMap<TopicName, Vec<Item>> = BTreeMap::new();
        for item in items {
            topics.entry(item.new.topic.clone()).or_default().push(item);
        }
        let done = topics.into_iter().map(|(topic, items)| self.put_into(topic, items));
        Ok(try_join_all(done).await?.into_iter().flatten().collect())
    }

    async fn put_into(
        self: &Arc<Self>,
        topic: TopicName,
        items: Vec<Item>,
    ) -> Result<Vec<(usize, Answer)>, StoreError> {
        let mut answers = Vec::with_capacity(items.len());
        let mut slow = Vec::new();
        let mut fast = Vec::new();
        for item in items {
            if item.new.if_match.is_some() { slow.push(item) } else { fast.push(item) }
        }
        for chunk in chunks(fast) {
            let (chunk, said) = self.put_new(&topic, chunk).await;
            let said = match said? {
                Ok(said) => said,
                Err(error) => {
                    answers.extend(chunk.iter().map(|item| (item.place, Err(error))));
                    continue;
                }
            };
            for (item, said) in chunk.into_iter().zip(said) {
                match said {
                    Said::Put(receipt, replaced) => answers.push((item.place, Ok(outcome(*receipt, replaced)))),
                    Said::TooFar => answers.push((item.place, Err(too_far()))),
                    Said::Taken => slow.push(item),
                }
            }
        }
        slow.sort_by_key(|item| item.place);
        for item in slow {
            answers.push((item.place, self.put_over(&topic, item).await?));
        }
        Ok(answers)
    }

    /// Puts jobs whose ids are likely to be free: a few together with others of their topic that come meanwhile.
    async fn put_new(self: &Arc<Self>, topic: &TopicName, items: Vec<Item>) -> PutAnswer {
        if items.len() > FEW {
            let said = self.put_chunk(topic, &items, &Old::Nothing).await;
            return (items, said);
        }
        let bytes = items.iter().map(|item| item.new.body.len()).sum();
        let answer = together(self, |inner| &inner.puts, topic.clone(), (items, bytes), Self::put_parts).await;
        answer.unwrap_or_else(|| (Vec::new(), Err(StoreError::Closed)))
    }

    async fn put_parts(self: Arc<Self>, topic: TopicName, parts: Vec<Part<Item, PutAnswer>>) {
        let (mut callers, mut items) = (Vec::with_capacity(parts.len()), Vec::new());
        for part in parts {
            callers.push((part.items.len(), part.answer));
            items.extend(part.items);
        }
        let said = self.put_chunk(&topic, &items, &Old::Nothing).await;
        let mut said = said.map(|said| said.map(Vec::into_iter));
        let mut items = items.into_iter();
        for (size, answer) in callers {
            let items: Vec<Item> = items.by_ref().take(size).collect();
            let said = match &mut said {
                Ok(Ok(said)) => Ok(Ok(said.by_ref().take(size).collect())),
                Ok(Err(error)) => Ok(Err(*error)),
                Err(error) => Err(error.clone()),
            };
            // Who has gone does not hear it.
            answer.send((items, said)).ok();
        }
    }

    /// Puts a job whose id may be taken.
    async fn put_over(&self, topic: &TopicName, item: Item) -> Result<Answer, StoreError> {
        let item = std::slice::from_ref(&item);
        loop {
            let old = match self.meet(&item[0]).await? {
                Ok(Met::Goes(old)) => old,
                Ok(Met::Kept(found)) => return Ok(Ok(PutOutcome::Kept(found))),
                Err(error) => return Ok(Err(error)),
            };
            let said = match self.put_chunk(topic, item, &old).await? {
                Ok(mut said) => said.pop(),
                Err(error) => return Ok(Err(error)),
            };
            match said {
                Some(Said::Put(receipt, replaced)) => return Ok(Ok(outcome(*receipt, replaced))),
                Some(Said::TooFar) => return Ok(Err(too_far())),
                // Somebody was faster: look again.
                Some(Said::Taken) | None => {}
            }
        }
    }

    /// What the core's rule says of a put and of what it meets.
    async fn meet(&self, item: &Item) -> Result<Result<Met, PutError>, StoreError> {
        let (NewId::Named(id) | NewId::Fresh(id)) = &item.new.id else {
            return Ok(put::plan(&item.new, None).map(|_| Met::Goes(Old::Nothing)));
        };
        let partition = self.keys.of_topic(&item.new.topic);
        let place = Place::Named(item.new.topic.clone(), id.clone());
        let mut plan = Ok(PutPlan::Create);
        let mut decide = |_: usize, looked: &mut Looked, _| {
            let existing = match looked {
                Looked::Nothing => None,
                Looked::Live(live) => Some(Existing::Live(&live.job)),
                Looked::Done(done) => Some(Existing::Done(done)),
            };
            plan = put::plan(&item.new, existing);
            (Act::Leave, Vec::new())
        };
        let (_, looked, now) =
            self.update(partition, vec![(0, place)], true, &mut decide).await?.pop().expect("one item, one answer");
        Ok(plan.map(|plan| match (plan, looked) {
            (PutPlan::Keep, Looked::Live(live)) => Met::Kept(Found::Live(Box::new(self.view(*live, now.at)))),
            (PutPlan::Keep, Looked::Done(done)) => Met::Kept(Found::Done(done)),
            (PutPlan::Replace, Looked::Live(live)) => Met::Goes(Old::Live(live.job.number, live.job.version)),
            (PutPlan::Create, Looked::Done(_)) => Met::Goes(Old::Done),
            (PutPlan::Create | PutPlan::Replace | PutPlan::Keep, _) => Met::Goes(Old::Nothing),
        }))
    }

    /// Puts jobs of one topic in one call, creating the topic if need be.
    async fn put_chunk(
        &self,
        topic: &TopicName,
        items: &[Item],
        old: &Old,
    ) -> Result<Result<Vec<Said>, PutError>, StoreError> {
        loop {
            let reply = match self.run(self.put_call(topic, items, old)).await {
                Ok(value) => value,
                Err(Trouble::Full) => return Ok(Err(PutError::StorageFull)),
                Err(trouble) => return Err(trouble.into()),
            };
            if matches!(reply, redis::Value::Nil) {
                match self.create_topic(topic).await? {
                    Ok(()) => continue,
                    Err(TopicError::TooManyTopics | TopicError::NotFound) => return Ok(Err(PutError::TooManyTopics)),
                }
            }
            let reply = crate::reply::bytes(reply)?;
            let mut reply = Reader::new(&reply, "answer");
            let now = reply.time()?;
            self.saw(now);
            let policy = reply.sized(4)?;
            let policy = if policy.is_empty() { TopicPolicy::default() } else { record::read_policy(policy)? };
            let said = items.iter().map(|item| self.said(&mut reply, item, now, &policy));
            let said: Vec<Said> = said.collect::<Result<_, _>>()?;
            reply.end()?;
            for number in said.iter().filter_map(Said::number) {
                self.counted(number.get());
            }
            return Ok(Ok(said));
        }
    }

    fn put_call(&self, topic: &TopicName, items: &[Item], old: &Old) -> Call {
        let partition = self.keys.of_topic(topic);
        let (mut heads, mut blobs, mut bodies) = (Writer::default(), Vec::with_capacity(items.len()), Vec::new());
        heads.uint(self.keys.partitions() as u64, 2).uint(partition as u64, 2);
        for item in items {
            item.write_head(&mut heads);
            let parts = item.parts();
            blobs.push(parts.blob);
            bodies.extend(Some(parts.body).filter(|body| !body.is_empty()));
        }
        let old = match old {
            Old::Nothing => Vec::new(),
            Old::Done => b"done".to_vec(),
            Old::Live(number, version) => [number_bytes(*number), version_bytes(*version)].concat(),
        };
        // Tells a put that is sent again from another one.
        let request = self.dice.roll().to_be_bytes();
        let call = self.call(&script::PUT, partition).arg(request).arg(topic.as_str()).int(limits::MAX_DELAY);
        let mut call = call.arg(old).arg(heads.into_bytes());
        call.arguments.extend(blobs.into_iter().chain(bodies));
        call
    }

    fn said(
        &self,
        reply: &mut Reader<'_>,
        item: &Item,
        now: Timestamp,
        policy: &TopicPolicy,
    ) -> Result<Said, StoreError> {
        let (code, number, created_at, due_at) = (reply.u8()?, reply.number()?, reply.time()?, reply.time()?);
        let options = &item.new.options;
        Ok(match code {
            1 | 2 => {
                let expires_at = options.ttl.or(policy.ttl).map(|ttl| due_at.max(created_at).plus(ttl.as_millis()));
                let receipt = Receipt {
                    number,
                    version: record::first_version(number),
                    created_at,
                    due_at,
                    expires_at,
                    state: if due_at > now { State::Delayed } else { State::Ready },
                    ttr: options.ttr.or(policy.ttr).unwrap_or(self.defaults.ttr),
                    retry: options.retry.as_ref().or(policy.retry.as_ref()).unwrap_or(&self.defaults.retry).clone(),
                    deliver_to: options.deliver_to.as_ref().or(policy.deliver_to.as_ref()).cloned(),
                };
                Said::Put(Box::new(receipt), code == 2)
            }
            3 => Said::Taken,
            _ => Said::TooFar,
        })
    }
}

impl Said {
    fn number(&self) -> Option<Number> {
        match self {
            Self::Put(receipt, _) => Some(receipt.number),
            Self::Taken | Self::TooFar => None,
        }
    }
}

/// What a put that met something does.
enum Met {
    Goes(Old),
    Kept(Found),
}

fn outcome(receipt: Receipt, replaced: bool) -> PutOutcome {
    if replaced { PutOutcome::Replaced(receipt) } else { PutOutcome::Created(receipt) }
}

fn too_far() -> PutError {
    PutError::Time(dwell_core::time::TimeError::TooFar)
}

/// What the script is told of a job beside its blob.
const NAMED: u64 = 1;
const INSTANT: u64 = 2;
const JITTER: u64 = 4;
const NUMBERED: u64 = 8;

impl Item {
    fn write_head(&self, heads: &mut Writer) {
        let name = match self.new.id {
            NewId::Named(_) => NAMED,
            NewId::Fresh(_) => 0,
            NewId::FromNumber => NUMBERED,
        };
        let (kind, millis) = match self.new.when {
            When::In(delay) => (0, delay.as_millis()),
            When::At(at) => (INSTANT, at.as_millis()),
        };
        let jitter = self.new.jitter.as_millis();
        if jitter == 0 {
            heads.uint(name | kind, 1).uint(millis, 6);
        } else {
            heads.uint(name | kind | JITTER, 1).uint(millis, 6).uint(self.share(), 6).uint(jitter, 6);
        }
    }

    /// The share of its jitter that a job gets: what the core's rule adds to an instant.
    fn share(&self) -> u64 {
        let at = Timestamp::EPOCH;
        let new = NewJob { when: When::At(at), ..self.new.clone() };
        new.due_at(at.into(), self.random).map_or(0, |due_at| due_at.since(at))
    }

    fn parts(&self) -> record::Parts {
        let NewJob { topic, priority, options, headers, body, .. } = &self.new;
        let id = match &self.new.id {
            NewId::Named(id) | NewId::Fresh(id) => Some(id),
            NewId::FromNumber => None,
        };
        Sent { topic, id, priority: *priority, options, headers, body }.parts()
    }
}

/// Cuts items so that each call is short.
fn chunks(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut chunks: Vec<Vec<Item>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        bytes += item.new.body.len();
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < CALL_JOBS && bytes <= CALL_BYTES => chunk.push(item),
            _ => {
                bytes = item.new.body.len();
                chunks.push(vec![item]);
            }
        }
    }
    chunks
}
