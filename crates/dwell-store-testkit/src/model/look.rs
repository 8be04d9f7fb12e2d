//! What is only looked at: jobs, pages, timelines.

use dwell_core::{
    Cursor, Existing, Found, Job, JobRef, ListQuery, Lookup, Page, Phase, Section, State, TimelineQuery, Timestamp,
    TopicError, TopicName,
};

use super::Model;

impl Model {
    /// See [`dwell_core::Store::get`].
    pub fn get(&mut self, now: Timestamp, items: &[Lookup]) -> Vec<Option<Found>> {
        self.pass_time(now);
        items.iter().map(|item| self.get_one(now, item)).collect()
    }

    fn get_one(&self, now: Timestamp, item: &Lookup) -> Option<Found> {
        let live = |job: &Job| Found::Live(Box::new(self.view(job, now)));
        match item {
            Lookup::Job(JobRef::Named(topic, id)) => match self.existing(topic, id)? {
                Existing::Live(job) => Some(live(job)),
                Existing::Done(done) => Some(Found::Done(done.clone())),
            },
            Lookup::Job(JobRef::Number(number)) => self.jobs.get(number).map(live),
            Lookup::Next(topic, state) => self.next(now, topic, *state).map(live),
        }
    }

    fn next(&self, now: Timestamp, topic: &TopicName, state: State) -> Option<&Job> {
        let jobs = self.jobs.values().filter(|job| &job.topic == topic && job.state(now) == state);
        match state {
            State::Ready => jobs.filter(|job| job.options.deliver_to.is_none()).min_by_key(|job| job.order()),
            State::Leased => jobs.min_by_key(|job| match &job.phase {
                Phase::Leased(lease) => (lease.expires_at, job.number),
                Phase::Waiting | Phase::Buried(_) => unreachable!("only leased jobs are looked at"),
            }),
            State::Delayed | State::Buried => jobs.min_by_key(|job| (job.due_at, job.number)),
        }
    }

    /// See [`dwell_core::Store::list`].
    pub fn list(&mut self, now: Timestamp, query: &ListQuery) -> Result<Page, TopicError> {
        self.pass_time(now);
        if !self.topics.contains_key(&query.topic) {
            return Err(TopicError::NotFound);
        }
        let wanted = |job: &&Job| job.topic == query.topic && query.wants(job.state(now));
        let mut jobs: Vec<&Job> = self.jobs.values().filter(wanted).collect();
        jobs.sort_by_key(|job| Cursor::at(job, now));
        jobs.retain(|job| query.after.is_none_or(|after| Cursor::at(job, now) > after));
        let mut page = Page::default();
        let mut bytes = 0;
        for job in jobs {
            bytes += job.body.len();
            let full = page.jobs.len() >= query.limit as usize || (bytes > query.max_bytes && !page.jobs.is_empty());
            if full {
                page.next = page.jobs.last().map(|view| Cursor::at(&view.job, now));
                break;
            }
            page.jobs.push(self.view(job, now));
        }
        Ok(page)
    }

    /// See [`dwell_core::Store::timeline`].
    pub fn timeline(&mut self, now: Timestamp, query: &TimelineQuery) -> Result<Vec<u64>, TopicError> {
        self.pass_time(now);
        if query.topic().is_some_and(|topic| !self.topics.contains_key(topic)) {
            return Err(TopicError::NotFound);
        }
        let mut buckets = vec![0; query.buckets() as usize];
        for job in self.jobs.values().filter(|job| query.topic().is_none_or(|topic| &job.topic == topic)) {
            if Section::of(job.state(now)) == Section::Waiting
                && let Some(bucket) = query.bucket_of(job.due_at)
            {
                buckets[bucket] += 1;
            }
        }
        Ok(buckets)
    }
}
