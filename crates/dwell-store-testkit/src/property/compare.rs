//! When two answers are the same: numbers, versions and tokens are the stores' own, instants may be a little apart.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use dwell_core::{
    Cursor, DoneJob, Found, JobView, ListQuery, Lookup, Number, Page, Pause, Phase, Receipt, TimelineQuery, Timestamp,
    TopicInfo, TopicName, Version,
};

use super::pair::{Outcome, Pair, all_jobs, all_topics};

/// How long counts may lag behind: two sweeps and a little.
const LAG: Duration = Duration::from_secs(3);

/// `Ok` if both are equal, else both in words.
pub(super) fn same<T: Debug + PartialEq>(what: &str, expected: &T, found: &T) -> Outcome {
    if expected == found { Ok(()) } else { Err(format!("{what}\n  expected {expected:?}\n  found    {found:?}")) }
}

/// What is known to belong together: the model's numbers and versions, and the store's.
pub(super) struct Same {
    tolerance: u64,
    numbers: BTreeMap<Number, Number>,
    versions: BTreeMap<Version, Version>,
    newest: BTreeMap<Number, Version>,
}

impl Same {
    pub(super) fn new(tolerance: u64) -> Self {
        Self { tolerance, numbers: BTreeMap::new(), versions: BTreeMap::new(), newest: BTreeMap::new() }
    }

    /// The store's number of a job the model knows.
    pub(super) fn number_in_store(&self, number: Number) -> Result<Number, String> {
        self.numbers.get(&number).copied().ok_or_else(|| format!("number {number} was never answered"))
    }

    pub(super) fn receipt(&mut self, expected: &Receipt, mut found: Receipt) -> Outcome {
        if self.numbers.values().any(|number| *number >= found.number) {
            return Err(format!("number {} is not larger than all before it", found.number));
        }
        self.numbers.insert(expected.number, found.number);
        self.identity(expected.number, expected.version, &mut found.number, &mut found.version)?;
        self.instant(expected.created_at, &mut found.created_at);
        self.instant(expected.due_at, &mut found.due_at);
        self.maybe(expected.expires_at, &mut found.expires_at);
        same("receipt", expected, &found)
    }

    pub(super) fn found(&mut self, expected: &Found, found: Found) -> Outcome {
        match (expected, found) {
            (Found::Live(expected), Found::Live(found)) => self.view(expected, *found),
            (Found::Done(expected), Found::Done(found)) => self.done(expected, found),
            (expected, found) => same("look-up", expected, &found),
        }
    }

    fn done(&mut self, expected: &DoneJob, mut found: DoneJob) -> Outcome {
        self.identity(expected.number, expected.version, &mut found.number, &mut found.version)?;
        self.instant(expected.created_at, &mut found.created_at);
        self.instant(expected.due_at, &mut found.due_at);
        self.instant(expected.done_at, &mut found.done_at);
        same("done job", expected, &found)
    }

    pub(super) fn view(&mut self, expected: &JobView, mut found: JobView) -> Outcome {
        let job = &mut found.job;
        self.identity(expected.job.number, expected.job.version, &mut job.number, &mut job.version)?;
        self.instant(expected.job.created_at, &mut job.created_at);
        self.instant(expected.job.due_at, &mut job.due_at);
        self.instant(expected.job.ttl_from, &mut job.ttl_from);
        match (&expected.job.phase, &mut job.phase) {
            (Phase::Leased(expected), Phase::Leased(found)) => {
                found.token = expected.token;
                self.instant(expected.expires_at, &mut found.expires_at);
            }
            (Phase::Buried(expected), Phase::Buried(found)) => self.instant(expected.at, &mut found.at),
            _ => {}
        }
        self.maybe(expected.expires_at, &mut found.expires_at);
        same("job", expected, &found)
    }

    fn topic(&self, expected: &TopicInfo, mut found: TopicInfo) -> Outcome {
        self.maybe(expected.next_due_at, &mut found.next_due_at);
        self.maybe(expected.oldest_ready_at, &mut found.oldest_ready_at);
        if let (Pause::Until(expected), Pause::Until(found)) = (expected.pause, &mut found.pause) {
            self.instant(expected, found);
        }
        same("topic", expected, &found)
    }

    /// Checks that numbers and versions belong together, and puts the model's in place of the store's.
    fn identity(
        &mut self,
        number: Number,
        version: Version,
        found: &mut Number,
        found_version: &mut Version,
    ) -> Outcome {
        same("number", &self.number_in_store(number)?, found)?;
        let known = *self.versions.entry(version).or_insert(*found_version);
        same("version: it changes with every change and only then", &known, found_version)?;
        let newest = self.newest.entry(number).or_insert(*found_version);
        if *found_version < *newest {
            return Err(format!("version {found_version} after {newest}"));
        }
        *newest = *found_version;
        (*found, *found_version) = (number, version);
        Ok(())
    }

    /// Puts the model's instant in place of the store's if they are close enough.
    fn instant(&self, expected: Timestamp, found: &mut Timestamp) {
        if expected.since(*found).max(found.since(expected)) <= self.tolerance {
            *found = expected;
        }
    }

    fn maybe(&self, expected: Option<Timestamp>, found: &mut Option<Timestamp>) {
        if let (Some(expected), Some(found)) = (expected, found) {
            self.instant(expected, found);
        }
    }
}

impl Pair {
    /// Compares everything that can be seen.
    pub(super) async fn look(&mut self) -> Outcome {
        for job in all_jobs() {
            let lookup = Lookup::Job(job);
            let expected = self.model.get(self.now, std::slice::from_ref(&lookup)).remove(0);
            let found = self.store.get(vec![lookup]).await.expect("get answers").remove(0);
            match (&expected, found) {
                (Some(expected), Some(found)) => self.same.found(expected, found)?,
                (expected, found) => same("look-up", expected, &found)?,
            }
        }
        for topic in all_topics() {
            self.look_at_topic(&topic).await?;
            self.look_at_list(&topic).await?;
            self.look_at_timeline(Some(topic)).await?;
        }
        self.look_at_timeline(None).await
    }

    async fn look_at_topic(&mut self, name: &TopicName) -> Outcome {
        let expected = self.model.topic(self.now, name);
        let patience = tokio::time::Instant::now() + LAG;
        loop {
            let found = self.store.topic(name.clone()).await.expect("topic answers");
            let outcome = match (&expected, found) {
                (Some(expected), Some(found)) => self.same.topic(expected, found),
                (expected, found) => same("topic", expected, &found),
            };
            if outcome.is_ok() || tokio::time::Instant::now() > patience || self.same.tolerance == 0 {
                return outcome;
            }
            // Counts may lag until the next sweep.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn look_at_list(&mut self, name: &TopicName) -> Outcome {
        let mut query = ListQuery { limit: 3, ..ListQuery::of(name.clone()) };
        loop {
            let expected = self.model.list(self.now, &query);
            let store_query = ListQuery { after: self.cursor_in_store(query.after)?, ..query.clone() };
            let found = self.store.list(store_query).await.expect("list answers");
            let (expected, found) = match (expected, found) {
                (Ok(expected), Ok(found)) => (expected, found),
                (expected, found) => return same("list", &expected, &found),
            };
            self.same_page(&expected, found)?;
            let Some(next) = expected.next else { return Ok(()) };
            query.after = Some(next);
        }
    }

    fn same_page(&mut self, expected: &Page, found: Page) -> Outcome {
        same("jobs on a page", &expected.jobs.len(), &found.jobs.len())?;
        same("another page", &expected.next.is_some(), &found.next.is_some())?;
        for (expected, found) in expected.jobs.iter().zip(found.jobs) {
            self.same.view(expected, found)?;
        }
        if let Some(next) = found.next {
            self.store_cursors.insert(next.number, next);
        }
        Ok(())
    }

    /// The store's own cursor for the place the model's names.
    fn cursor_in_store(&self, cursor: Option<Cursor>) -> Result<Option<Cursor>, String> {
        let Some(cursor) = cursor else { return Ok(None) };
        let number = self.same.number_in_store(cursor.number)?;
        let known = self.store_cursors.get(&number).copied();
        known.map(Some).ok_or_else(|| format!("the store's page ended elsewhere than at {number}"))
    }

    async fn look_at_timeline(&mut self, topic: Option<TopicName>) -> Outcome {
        let hour = 3_600_000;
        let from = self.start.as_millis() - hour / 2;
        let from = Timestamp::from_millis(from).expect("long after 1970");
        let step = if self.unit() < hour { 60_000 } else { hour };
        let query = TimelineQuery::new(topic, from, step, 200).expect("a good query");
        let expected = self.model.timeline(self.now, &query);
        same("timeline", &expected, &self.store.timeline(query).await.expect("timeline answers"))
    }
}
