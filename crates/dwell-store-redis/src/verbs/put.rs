//! Putting jobs.
//!
//! A job whose id is free is put by one call. One that meets another is judged by the core's rule, on what is read of the
//! other, and put in a second step that is done only if that has not changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dwell_core::{
    Existing, Found, JobId, NewId, NewJob, Number, PutError, PutOutcome, PutPlan, Receipt, State, StoreError,
    Timestamp, TopicError, TopicName, TopicPolicy, When, limits, put,
};
use futures_util::future::try_join_all;

use crate::gather::{FEW, Gather, Part, together};
use crate::inner::{Act, CALL_BYTES, CALL_JOBS, Inner, Looked, Place};
use crate::link::Trouble;
use crate::record::{self, Sent, number_bytes, version_bytes};
use crate::reply::Reply;
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
    id: JobId,
    number: Number,
    /// Tells a put that is sent again from another one.
    request: u64,
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
        let mut topics: BTreeMap<TopicName, Vec<Item>> = BTreeMap::new();
        let first = match self.numbers.take(jobs.len(), |wanted| self.reserve(wanted)).await {
            Ok(first) => first,
            Err(Trouble::Full) => return Ok(vec![Err(PutError::StorageFull); jobs.len()]),
            Err(trouble) => return Err(trouble.into()),
        };
        for (place, new) in jobs.into_iter().enumerate() {
            if new.body.len() > limits::MAX_BODY && new.if_match.is_none() {
                answers[place] = Some(Err(PutError::TooLarge));
                continue;
            }
            let item = self.item(place, new, first + 1 + place as u64)?;
            topics.entry(item.new.topic.clone()).or_default().push(item);
        }
        let done = topics.into_iter().map(|(topic, items)| self.put_into(topic, items));
        for (place, answer) in try_join_all(done).await?.into_iter().flatten() {
            answers[place] = Some(answer);
        }
        Ok(answers.into_iter().map(|answer| answer.expect("every item is answered")).collect())
    }

    fn item(&self, place: usize, new: NewJob, count: u64) -> Result<Item, StoreError> {
        let number = self.keys.number(count, self.keys.of_topic(&new.topic));
        let number = number.ok_or_else(|| StoreError::Failed { detail: "all numbers are used up".to_owned() })?;
        let id = new.id.clone().resolve(number);
        Ok(Item { place, new, id, number, request: self.dice.roll(), random: self.dice.roll() })
    }

    /// Takes a row of numbers; the count before the first.
    async fn reserve(&self, jobs: usize) -> Result<u64, Trouble> {
        let call = crate::link::Call::new(&script::RESERVE, &self.keys.numbers(), self.clock.argument());
        let seen = self.greatest.load(Ordering::SeqCst);
        let value = self.run(call.int(jobs as u64).int(seen)).await?;
        let first = crate::reply::int(&value).ok().and_then(|first| u64::try_from(first).ok());
        let first = first.ok_or_else(|| Trouble::Failed(record::Unreadable("counter").into()))?;
        self.greatest.fetch_max(first + jobs as u64, Ordering::SeqCst);
        Ok(first)
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
        let partition = self.keys.of_topic(&item.new.topic);
        let place = Place::Named(item.new.topic.clone(), item.id.clone());
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
        let partition = self.keys.of_topic(topic);
        loop {
            let mut call = self.call(&script::PUT, partition).arg(topic.as_str());
            call = call.int(limits::MAX_DELAY).flag(false);
            for item in items {
                push_item(&mut call, item, old);
            }
            let reply = match self.run(call).await {
                Ok(value) => value,
                Err(Trouble::Full) => return Ok(Err(PutError::StorageFull)),
                Err(trouble) => return Err(trouble.into()),
            };
            let mut reply = Reply::new(reply)?;
            let now = reply.time()?;
            self.saw(now);
            let policy = reply.value()?;
            if matches!(policy, redis::Value::Nil) {
                match self.create_topic(topic).await? {
                    Ok(()) => continue,
                    Err(TopicError::TooManyTopics | TopicError::NotFound) => return Ok(Err(PutError::TooManyTopics)),
                }
            }
            let policy = crate::reply::bytes(policy)?;
            let policy = if policy.is_empty() { TopicPolicy::default() } else { record::read_policy(&policy)? };
            let rows = reply.rows()?.into_iter().zip(items);
            return rows.map(|(row, item)| self.said(row, item, now, &policy)).collect::<Result<_, _>>().map(Ok);
        }
    }

    fn said(&self, mut row: Reply, item: &Item, now: Timestamp, policy: &TopicPolicy) -> Result<Said, StoreError> {
        Ok(match row.int()? {
            1 => {
                let version = record::read_version(&row.bytes()?)?;
                let (created_at, due_at, replaced) = (row.time()?, row.time()?, row.int()? == 1);
                let options = &item.new.options;
                let expires_at = options.ttl.or(policy.ttl).map(|ttl| due_at.max(created_at).plus(ttl.as_millis()));
                let receipt = Receipt {
                    number: item.number,
                    version,
                    created_at,
                    due_at,
                    expires_at,
                    state: if due_at > now { State::Delayed } else { State::Ready },
                    ttr: options.ttr.or(policy.ttr).unwrap_or(self.defaults.ttr),
                    retry: options.retry.as_ref().or(policy.retry.as_ref()).unwrap_or(&self.defaults.retry).clone(),
                    deliver_to: options.deliver_to.as_ref().or(policy.deliver_to.as_ref()).cloned(),
                };
                Said::Put(Box::new(receipt), replaced)
            }
            2 => Said::Taken,
            _ => Said::TooFar,
        })
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

fn push_item(call: &mut crate::link::Call, item: &Item, old: &Old) {
    let NewJob { topic, priority, options, headers, body, .. } = &item.new;
    let sent = Sent { topic, id: &item.id, priority: *priority, options, headers, body };
    let parts = sent.parts(item.request, matches!(old, Old::Live(..)));
    call.push(item.id.as_str());
    call.push(number_bytes(item.number));
    call.push(parts.blob);
    call.push(parts.body);
    call.push(if matches!(item.new.id, NewId::Named(_)) { "n" } else { "f" });
    let (kind, millis) = match item.new.when {
        When::In(delay) => ("i", delay.as_millis()),
        When::At(at) => ("a", at.as_millis()),
    };
    call.push(kind);
    call.push(millis.to_string());
    call.push(share(item).to_string());
    call.push(item.new.jitter.as_millis().to_string());
    call.push(match old {
        Old::Nothing => Vec::new(),
        Old::Done => b"done".to_vec(),
        Old::Live(number, version) => [number_bytes(*number), version_bytes(*version)].concat(),
    });
}

/// The share of its jitter that a job gets: what the core's rule adds to an instant.
fn share(item: &Item) -> u64 {
    let at = Timestamp::EPOCH;
    let new = NewJob { when: When::At(at), ..item.new.clone() };
    new.due_at(at.into(), item.random).map_or(0, |due_at| due_at.since(at))
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
