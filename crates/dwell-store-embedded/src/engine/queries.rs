//! Queries: get, list, topics, topic, timeline. They change nothing but what time has done to the jobs they look at.

#![expect(clippy::needless_pass_by_value, reason = "a command hands over what it carries")]

use std::ops::Bound;

use dwell_core::{
    Cursor, Found, JobRef, Line, ListQuery, Lookup, Number, Page, Phase, Section, State, TimelineQuery, Timestamp,
    TopicError, TopicInfo, TopicName, TopicsQuery, limits,
};

use super::Engine;
use super::cold::ColdSlice;
use super::due_histogram::DueHistogram;
use super::slots::Index;
use super::topic::{Place, Topic, after};
use crate::format::key::{Slice, after_place, first_place};

impl Engine {
    pub(super) fn get(&mut self, items: Vec<Lookup>) -> Vec<Option<Found>> {
        items.into_iter().map(|item| self.get_one(&item)).collect()
    }

    fn get_one(&mut self, item: &Lookup) -> Option<Found> {
        let index = match item {
            Lookup::Job(job) => match self.find(job) {
                Some(index) => index,
                None => return self.find_done(job),
            },
            Lookup::Next(topic, state) => self.next_in(topic, *state)?,
        };
        Some(Found::Live(Box::new(self.view(index))))
    }

    fn find_done(&self, job: &JobRef) -> Option<Found> {
        let JobRef::Named(name, id) = job else { return None };
        let topic = *self.names.get(name)?;
        let done = self.done.get(topic, id, &self.topics[&topic].policy, self.now.at)?;
        Some(Found::Done(done.clone()))
    }

    fn next_in(&mut self, name: &TopicName, state: State) -> Option<Index> {
        loop {
            let topic = &self.topics[self.names.get(name)?];
            let index = match state {
                State::Ready => topic.head(Line::PULL).map(|(_, index)| index),
                State::Delayed => topic.waiting.range(after(self.now.at)..).next().map(|(_, index)| index),
                State::Buried => topic.buried.first().map(|(_, index)| index),
                State::Leased => topic.leased.slots().min_by_key(|index| self.lease_end(*index)),
            }?;
            let before = self.slots.get(index).indexed;
            if self.refresh(index) && self.slots.get(index).indexed == before {
                return Some(index);
            }
        }
    }

    fn lease_end(&self, index: Index) -> (Option<Timestamp>, Number) {
        let job = self.job(index);
        let end = if let Phase::Leased(lease) = &job.phase { Some(lease.expires_at) } else { None };
        (end, job.number)
    }

    pub(super) fn list(&mut self, query: ListQuery) -> Result<Page, TopicError> {
        let id = *self.names.get(&query.topic).ok_or(TopicError::NotFound)?;
        loop {
            let topic = &self.topics[&id];
            // One more than a page, to know whether there is another.
            let indexes: Vec<Index> = places(topic, &query, self.now.at).take(query.limit as usize + 1).collect();
            // Time may have moved a job elsewhere since its timer was set; then the page is made again.
            let before: Vec<_> = indexes.iter().map(|&index| self.slots.get(index).indexed).collect();
            let stays = indexes.iter().zip(before).all(|(&index, indexed)| {
                let same = self.slots.peek(index).is_some_and(|slot| slot.indexed == indexed);
                same && self.refresh(index) && self.slots.get(index).indexed == indexed
            });
            if stays {
                return Ok(self.page(&query, &indexes));
            }
        }
    }

    fn page(&self, query: &ListQuery, indexes: &[Index]) -> Page {
        let mut page = Page::default();
        let mut bytes = 0;
        for &index in indexes {
            let view = self.view(index);
            bytes += view.job.body.len();
            let full = page.jobs.len() >= query.limit as usize || (bytes > query.max_bytes && !page.jobs.is_empty());
            if full {
                page.next = page.jobs.last().map(|view| Cursor::at(&view.job, self.now.at));
                break;
            }
            page.jobs.push(view);
        }
        page
    }

    pub(super) fn topics(&mut self, query: TopicsQuery) -> Vec<TopicInfo> {
        self.named(&query).map(|name| self.info(name)).collect()
    }

    /// The names of a page of topics.
    pub(super) fn named(&self, query: &TopicsQuery) -> impl Iterator<Item = &TopicName> {
        // From the prefix on, or from the cursor if that is later, for as long as the prefix holds.
        let from = match &query.after {
            Some(after) if after.as_str() >= query.prefix.as_str() => Bound::Excluded(after.as_str()),
            _ => Bound::Included(query.prefix.as_str()),
        };
        let names = self.sorted_names.range::<str, _>((from, Bound::Unbounded));
        let names = names.take_while(|name| name.as_str().starts_with(&query.prefix));
        names.take(query.limit as usize)
    }

    pub(super) fn topic(&mut self, name: TopicName) -> Option<TopicInfo> {
        self.names.contains_key(&name).then(|| self.info(&name))
    }

    fn info(&self, name: &TopicName) -> TopicInfo {
        let topic = &self.topics[&self.names[name]];
        let (mut ready, mut urgent) = (0, 0);
        for (slice, of) in topic.cold_slices(false) {
            let jobs = self.ready_in_cold_tier(slice, of);
            ready += jobs;
            // Those that share a lane are not looked at one by one.
            urgent += slice.lane.place().filter(|place| topic.lanes[*place].is_urgent()).map_or(0, |_| jobs);
        }
        topic.info(self.now.at, self.waiters.count(name), (ready, urgent))
    }

    /// How many ready jobs of a slice are in the cold tier only.
    fn ready_in_cold_tier(&self, slice: Slice, of: &ColdSlice) -> u64 {
        let known = &self.cold_reads.known;
        let due = known.ranks.get(&(slice, known.at)).copied().unwrap_or(0);
        due.saturating_sub(of.tombstones_until(known.at) + of.ready).min(of.away())
    }

    pub(super) fn timeline(&mut self, query: TimelineQuery) -> Result<Vec<u64>, TopicError> {
        let mut buckets = vec![0; query.buckets() as usize];
        let Some(name) = query.topic() else {
            count_minutes(&self.minutes, &query, &mut buckets);
            count_minutes(&self.cold.minutes, &query, &mut buckets);
            return Ok(buckets);
        };
        let id = self.names.get(name).ok_or(TopicError::NotFound)?;
        let topic = &self.topics[id];
        count_minutes(&topic.minutes, &query, &mut buckets);
        for (slice, of) in topic.cold_slices(false) {
            self.count_slice(slice, of, &query, &mut buckets);
        }
        for bucket in self.flying(topic.id).filter_map(|meta| query.bucket_of(meta.due_at)) {
            buckets[bucket] += 1;
        }
        Ok(buckets)
    }
}

impl Engine {
    /// Counts what of a slice is in the cold tier and due in each bucket.
    fn count_slice(&self, slice: Slice, of: &ColdSlice, query: &TimelineQuery, buckets: &mut [u64]) {
        let known = &self.cold_reads.known;
        let ranks = edges(query).map(|edge| known.ranks.get(&(slice, edge)).copied().unwrap_or(0));
        let ranks: Vec<u64> = ranks.collect();
        for (bucket, edges) in buckets.iter_mut().zip(ranks.windows(2)) {
            *bucket += edges[1] - edges[0];
        }
        for ((due_at, _), _) in of.stale.iter() {
            if let Some(bucket) = query.bucket_of(*due_at) {
                buckets[bucket] -= 1;
            }
        }
    }
}

/// The last instant before each bucket, and that of the last one.
pub(super) fn edges(query: &TimelineQuery) -> impl Iterator<Item = Timestamp> {
    let first = query.from().as_millis() / limits::MINUTE * limits::MINUTE;
    let step = query.step();
    (0..=u64::from(query.buckets())).map(move |bucket| {
        let edge = first.saturating_add(bucket * step).saturating_sub(1);
        Timestamp::from_millis(edge).unwrap_or(Timestamp::MAX)
    })
}

fn count_minutes(minutes: &DueHistogram, query: &TimelineQuery, buckets: &mut [u64]) {
    let first = query.from().as_millis() / limits::MINUTE;
    let end = first + query.step() / limits::MINUTE * u64::from(query.buckets());
    for (minute, count) in minutes.between(first..end) {
        let at = Timestamp::from_millis(minute * limits::MINUTE).ok();
        if let Some(bucket) = at.and_then(|at| query.bucket_of(at)) {
            buckets[bucket] += count;
        }
    }
}

/// The places of a list, from its cursor on.
pub(super) fn places<'a>(topic: &'a Topic, query: &'a ListQuery, now: Timestamp) -> impl Iterator<Item = Index> + 'a {
    let sections =
        [(Section::Waiting, &topic.waiting), (Section::Leased, &topic.leased), (Section::Buried, &topic.buried)];
    sections
        .into_iter()
        .filter(|(section, _)| wants(query, *section))
        .flat_map(move |(section, places)| places.range(range(query, section, now)).map(|(_, index)| index))
}

pub(super) fn wants(query: &ListQuery, section: Section) -> bool {
    let state = query.state.is_none_or(|state| Section::of(state) == section);
    state && query.after.is_none_or(|after| after.section <= section)
}

/// Where a list begins in a section.
pub(super) fn begin(query: &ListQuery, section: Section, now: Timestamp) -> Place {
    match range(query, section, now).0 {
        Bound::Included(place) => place,
        Bound::Excluded(place) => after_place(place),
        Bound::Unbounded => first_place(),
    }
}

/// The part of a section that a list shows: what comes after its cursor, and of waiting jobs those in its state.
fn range(query: &ListQuery, section: Section, now: Timestamp) -> (Bound<Place>, Bound<Place>) {
    let cursor = query.after.filter(|after| after.section == section);
    let cursor = cursor.map(|after| (after.due_at, after.number));
    let not_due = (section == Section::Waiting).then(|| after(now));
    let start = match (cursor, not_due, query.state) {
        (Some(cursor), Some(not_due), Some(State::Delayed)) if cursor < not_due => Bound::Included(not_due),
        (Some(cursor), _, _) => Bound::Excluded(cursor),
        (None, Some(not_due), Some(State::Delayed)) => Bound::Included(not_due),
        (None, _, _) => Bound::Unbounded,
    };
    let end = match (not_due, query.state) {
        // A range must not end before it begins.
        (Some(not_due), Some(State::Ready)) => Bound::Excluded(cursor.map_or(not_due, |cursor| cursor.max(not_due))),
        _ => Bound::Unbounded,
    };
    match (start, end) {
        (Bound::Excluded(start), Bound::Excluded(end)) if start >= end => (Bound::Included(end), Bound::Excluded(end)),
        bounds => bounds,
    }
}
