//! Looking: single jobs, pages, timelines.

use std::sync::Arc;

use dwell_core::{
    Cursor, Found, JobRef, JobView, ListQuery, Lookup, Now, Number, Page, Section, State, StoreError, TimelineQuery,
    TopicError, TopicName,
};
use futures_util::future::try_join_all;

use crate::inner::{Act, CALL_BYTES, CALL_JOBS, Inner, Live, Looked, Place, rows_of_ints};
use crate::record;
use crate::reply::Reply;
use crate::script;

/// What scripts call a state.
pub(super) fn word(state: State) -> &'static str {
    match state {
        State::Delayed => "delayed",
        State::Ready => "ready",
        State::Leased => "leased",
        State::Buried => "buried",
    }
}

/// Where a page begins, and how much may be on it.
struct Rest {
    after: Option<Cursor>,
    jobs: usize,
    bytes: usize,
}

/// What one call read of a page.
pub(super) struct Chunk {
    pub(super) jobs: Vec<Live>,
    pub(super) now: Now,
    pub(super) more: bool,
}

impl Inner {
    pub(crate) async fn get(&self, items: Vec<Lookup>) -> Result<Vec<Option<Found>>, StoreError> {
        let mut answers: Vec<Option<Found>> = Vec::new();
        answers.resize_with(items.len(), || None);
        let (mut places, mut jobs) = (Vec::new(), Vec::new());
        for (place, item) in items.into_iter().enumerate() {
            match item {
                Lookup::Job(job) => {
                    places.push(place);
                    jobs.push(job);
                }
                Lookup::Next(topic, state) => answers[place] = self.next(&topic, state).await?,
            }
        }
        let partitions = self.by_partition(jobs, |job| job);
        let found = partitions.into_iter().map(|(partition, jobs)| self.get_in(partition, jobs));
        for (k, found) in try_join_all(found).await?.into_iter().flatten() {
            answers[places[k]] = found;
        }
        Ok(answers)
    }

    async fn get_in(
        &self,
        partition: usize,
        jobs: Vec<(usize, JobRef)>,
    ) -> Result<Vec<(usize, Option<Found>)>, StoreError> {
        let places = jobs.into_iter().map(|(k, job)| (k, Place::from(job))).collect();
        let mut decide = |_: usize, _: &mut Looked, _| (Act::Leave, Vec::new());
        let looked = self.update(partition, places, true, &mut decide).await?;
        let found = |(k, looked, now): (usize, Looked, Now)| match looked {
            Looked::Live(live) => (k, Some(Found::Live(Box::new(self.view(*live, now.at))))),
            Looked::Done(done) => (k, Some(Found::Done(done))),
            Looked::Nothing => (k, None),
        };
        Ok(looked.into_iter().map(found).collect())
    }

    /// The next job of a state. Between finding and reading it, it may move on: then we look again.
    async fn next(&self, topic: &TopicName, state: State) -> Result<Option<Found>, StoreError> {
        let mut anyway = false;
        loop {
            let call = self.call(&script::NEXT, self.keys.of_topic(topic)).arg(topic.as_str()).arg(word(state));
            let mut reply = self.ask(call.flag(anyway)).await?;
            if reply.int()? == 1 {
                anyway = !self.pass_topic(topic, 10).await?;
                continue;
            }
            let number = reply.bytes()?;
            if number.is_empty() {
                return Ok(None);
            }
            let number: Number = record::read_number(&number)?;
            let found = self.get_in(self.keys.of_number(number), vec![(0, JobRef::Number(number))]).await?.pop();
            match found.and_then(|(_, found)| found) {
                Some(Found::Live(view)) if view.state == state => return Ok(Some(Found::Live(view))),
                _ => {}
            }
        }
    }

    pub(crate) async fn list(&self, query: &ListQuery) -> Result<Result<Page, TopicError>, StoreError> {
        let sections = [
            (Section::Waiting, &[State::Delayed, State::Ready][..], "waiting"),
            (Section::Leased, &[State::Leased][..], "leased"),
            (Section::Buried, &[State::Buried][..], "buried"),
        ];
        let mut page = Page::default();
        let mut bytes = 0;
        for (section, states, whole) in sections {
            let begun = query.after.is_none_or(|after| after.section <= section);
            if !begun || !states.iter().any(|state| query.wants(*state)) {
                continue;
            }
            let words = query.state.map_or(whole, word);
            let mut after = query.after.filter(|after| after.section == section);
            loop {
                // One more than fits tells whether there is another page.
                let room = (query.limit as usize).saturating_sub(page.jobs.len());
                let rest = Rest { after, jobs: room.max(1), bytes: query.max_bytes.saturating_sub(bytes) };
                let Some(chunk) = self.page(&query.topic, words, &rest).await? else {
                    return Ok(Err(TopicError::NotFound));
                };
                let full = chunk.jobs.first().is_some_and(|live| {
                    room == 0 || (!page.jobs.is_empty() && bytes + live.job.body.len() > query.max_bytes)
                });
                if full {
                    page.next = page.jobs.last().map(place_of);
                    return Ok(Ok(page));
                }
                let more = chunk.more;
                for live in chunk.jobs {
                    bytes += live.job.body.len();
                    let view = self.view(live, chunk.now.at);
                    after = Some(place_of(&view));
                    page.jobs.push(view);
                }
                if !more {
                    break;
                }
            }
        }
        Ok(Ok(page))
    }

    /// Reads some jobs of a section; `None` if there is no such topic.
    async fn page(&self, topic: &TopicName, section: &str, rest: &Rest) -> Result<Option<Chunk>, StoreError> {
        let room = rest.bytes.min(CALL_BYTES);
        self.chunk(topic, section, rest.after, rest.jobs, &room.to_string()).await
    }

    /// The same; `room` is what the script takes for it.
    pub(super) async fn chunk(
        &self,
        topic: &TopicName,
        section: &str,
        after: Option<Cursor>,
        jobs: usize,
        room: &str,
    ) -> Result<Option<Chunk>, StoreError> {
        let mut anyway = false;
        loop {
            let call = self.call(&script::PAGE, self.keys.of_topic(topic)).arg(topic.as_str()).arg(section);
            let call = match after {
                Some(after) => call.int(after.due_at.as_millis()).int(after.number.get()),
                None => call.arg("-1").arg("0"),
            };
            let call = call.int(jobs.min(CALL_JOBS) as u64).arg(room).flag(anyway);
            let mut reply = self.ask(call).await?;
            let now = Now { at: reply.time()?, up: reply.time()? };
            self.saw(now.at);
            match reply.int()? {
                1 => {
                    anyway = !self.pass_topic(topic, 10).await?;
                    continue;
                }
                2 => return Ok(None),
                _ => {}
            }
            let policy = Arc::new(record::read_policy(&reply.bytes()?)?);
            let bodies = room != "-1";
            let read = |mut row: Reply| {
                let (number, blob, state, body) = (row.number()?, row.bytes()?, row.bytes()?, row.bytes()?);
                let job = record::read_job(number, &blob, &state, bodies.then_some(&*body))?;
                Ok::<_, StoreError>(Live::new(job, Arc::clone(&policy), blob))
            };
            let jobs = reply.rows()?.into_iter().map(read).collect::<Result<_, _>>()?;
            return Ok(Some(Chunk { jobs, now, more: reply.int()? == 1 }));
        }
    }

    pub(crate) async fn timeline(&self, query: &TimelineQuery) -> Result<Result<Vec<u64>, TopicError>, StoreError> {
        if let Some(topic) = query.topic() {
            let counts = self.count_due(query, self.keys.of_topic(topic), std::slice::from_ref(topic)).await?;
            return Ok(counts.ok_or(TopicError::NotFound));
        }
        let all = (0..self.keys.partitions()).map(|partition| self.count_all_due(query, partition));
        let mut sums = vec![0; query.buckets() as usize];
        for counts in try_join_all(all).await? {
            add(&mut sums, &counts);
        }
        Ok(Ok(sums))
    }

    /// Counts what is due in all topics of a partition, some topics a call.
    async fn count_all_due(&self, query: &TimelineQuery, partition: usize) -> Result<Vec<u64>, StoreError> {
        let mut sums = vec![0; query.buckets() as usize];
        let mut from = "-".to_owned();
        loop {
            let call = self.call(&script::TOPICS, partition).arg(from.as_str()).arg("+").arg("20");
            let names = super::topics::read_names(self.run(call).await?)?;
            let Some(last) = names.last() else { return Ok(sums) };
            from = format!("({last}");
            if let Some(counts) = self.count_due(query, partition, &names).await? {
                add(&mut sums, &counts);
            }
        }
    }

    async fn count_due(
        &self,
        query: &TimelineQuery,
        partition: usize,
        topics: &[TopicName],
    ) -> Result<Option<Vec<u64>>, StoreError> {
        let mut anyway = false;
        loop {
            let call = self.call(&script::TIMELINE, partition).int(query.from().as_millis()).int(query.step());
            let mut call = call.int(query.buckets().into()).flag(anyway);
            for topic in topics {
                call.push(topic.as_str());
            }
            let mut reply = self.ask(call).await?;
            if reply.int()? == 1 {
                for topic in topics {
                    anyway |= !self.pass_topic(topic, 10).await?;
                }
                continue;
            }
            return match reply.value()? {
                redis::Value::Nil => Ok(None),
                counts => {
                    let counts = rows_of_ints(counts)?.into_iter();
                    Ok(Some(counts.map(|count| u64::try_from(count).unwrap_or(0)).collect()))
                }
            };
        }
    }
}

fn add(sums: &mut [u64], counts: &[u64]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// A job's place in a list.
fn place_of(view: &JobView) -> Cursor {
    Cursor { section: Section::of(view.state), due_at: view.job.due_at, number: view.job.number }
}
