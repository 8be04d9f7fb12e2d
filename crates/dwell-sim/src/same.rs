//! When two answers are the same: numbers, versions and tokens are each side's own, but belong together.

use std::collections::{BTreeMap, BTreeSet};

use dwell_core::{DoneJob, Found, JobView, LeaseToken, LeasedJob, Number, Phase, PutOutcome, Receipt, Version};

use crate::request::Reply;

/// What is known to belong together: the model's and the store's.
#[derive(Clone, Debug, Default)]
pub struct Same {
    numbers: BTreeMap<Number, Number>,
    versions: BTreeMap<Version, Version>,
    /// Every number the store ever gave, in all its runs.
    given: BTreeSet<Number>,
    /// Number and version of the newest job that was answered to its producer.
    newest: Option<(Number, Version)>,
    /// Leases that were answered, oldest first.
    pub leases: Vec<(LeaseToken, LeaseToken)>,
    /// The last version of each name that was seen.
    pub seen: BTreeMap<String, (Version, Version)>,
}

/// What is wrong, if anything.
pub type Verdict = Result<(), String>;

impl Same {
    /// The model has been taken back to what a restart found: what belonged together is learned anew.
    pub fn forget(&mut self) {
        self.numbers.clear();
        self.versions.clear();
        self.seen.clear();
    }

    /// The store's number of a job of the model's.
    pub fn number(&self, number: Number) -> Option<Number> {
        self.numbers.get(&number).copied()
    }

    /// Whether the store answered as the model did.
    pub fn reply(&mut self, expected: Reply, found: Reply) -> Verdict {
        match (expected, found) {
            (Reply::Put(expected), Reply::Put(found)) => {
                pairs(expected, found, |expected, found| self.put(expected, found))
            }
            (Reply::Lease(expected), Reply::Lease(found)) => {
                pairs(expected, found, |expected, found| self.leased(&expected, found))
            }
            (Reply::Change(expected), Reply::Change(found)) => {
                pairs(expected, found, |expected, found| match (expected, found) {
                    (Ok(expected), Ok(found)) => self.view(&expected, found),
                    (expected, found) => same(&expected, &found),
                })
            }
            (Reply::Get(expected), Reply::Get(found)) => {
                pairs(expected, found, |expected, found| match (expected, found) {
                    (Some(expected), Some(found)) => self.found(expected, found),
                    (expected, found) => same(&expected, &found),
                })
            }
            (Reply::List(Ok(expected)), Reply::List(Ok(found))) => {
                same(&expected.next.is_some(), &found.next.is_some())?;
                pairs(expected.jobs, found.jobs, |expected, found| self.view(&expected, found))
            }
            (expected, found) => same(&expected, &found),
        }
    }

    fn put(
        &mut self,
        expected: Result<PutOutcome, dwell_core::PutError>,
        found: Result<PutOutcome, dwell_core::PutError>,
    ) -> Verdict {
        match (expected, found) {
            (Ok(PutOutcome::Created(expected)), Ok(PutOutcome::Created(found)))
            | (Ok(PutOutcome::Replaced(expected)), Ok(PutOutcome::Replaced(found))) => self.receipt(&expected, found),
            (Ok(PutOutcome::Kept(expected)), Ok(PutOutcome::Kept(found))) => self.found(expected, found),
            (expected, found) => same(&expected, &found),
        }
    }

    fn receipt(&mut self, expected: &Receipt, mut found: Receipt) -> Verdict {
        let newest = (found.number, found.version);
        if self.newest.is_some_and(|(number, version)| number >= found.number || version >= found.version) {
            return Err(format!("number and version of a new job, {newest:?}, do not follow {:?}", self.newest));
        }
        // A consumer may have heard of the job before its producer did.
        if self.given.contains(&found.number) && self.numbers.get(&expected.number) != Some(&found.number) {
            return Err(format!("the number {} was given before", found.number));
        }
        self.newest = Some(newest);
        self.identity(expected.number, expected.version, &mut found.number, &mut found.version)?;
        same(expected, &found)
    }

    fn leased(&mut self, expected: &LeasedJob, found: LeasedJob) -> Verdict {
        match (expected.token, found.token) {
            (Some(model), Some(store)) => self.leases.push((model, store)),
            (model, store) => same(&model, &store)?,
        }
        self.view(&expected.view, found.view)
    }

    fn found(&mut self, expected: Found, found: Found) -> Verdict {
        match (expected, found) {
            (Found::Live(expected), Found::Live(found)) => self.view(&expected, *found),
            (Found::Done(expected), Found::Done(found)) => self.done(&expected, found),
            (expected, found) => same(&expected, &found),
        }
    }

    fn done(&mut self, expected: &DoneJob, mut found: DoneJob) -> Verdict {
        self.identity(expected.number, expected.version, &mut found.number, &mut found.version)?;
        same(expected, &found)
    }

    fn view(&mut self, expected: &JobView, mut found: JobView) -> Verdict {
        let name = format!("{}/{}", found.job.topic, found.job.id);
        self.seen.insert(name, (expected.job.version, found.job.version));
        let job = &mut found.job;
        self.identity(expected.job.number, expected.job.version, &mut job.number, &mut job.version)?;
        if let (Phase::Leased(expected), Phase::Leased(found)) = (&expected.job.phase, &mut job.phase) {
            found.token = expected.token;
        }
        if expected.job.body.as_bytes() != found.job.body.as_bytes() {
            return Err(format!("the body of {}/{} is another", found.job.topic, found.job.id));
        }
        same(expected, &found)
    }

    /// Checks that numbers and versions belong together, and puts the model's in place of the store's.
    fn identity(
        &mut self,
        number: Number,
        version: Version,
        found: &mut Number,
        found_version: &mut Version,
    ) -> Verdict {
        self.given.insert(*found);
        let known = *self.numbers.entry(number).or_insert(*found);
        same(&("number", known), &("number", *found))?;
        let known = *self.versions.entry(version).or_insert(*found_version);
        same(&("version", known), &("version", *found_version))?;
        (*found, *found_version) = (number, version);
        Ok(())
    }
}

/// Fine if both are equal; else both in words.
pub fn same<T: std::fmt::Debug + PartialEq>(expected: &T, found: &T) -> Verdict {
    if expected == found { Ok(()) } else { Err(format!("\n  expected {expected:?}\n  found    {found:?}")) }
}

fn pairs<T>(expected: Vec<T>, found: Vec<T>, mut check: impl FnMut(T, T) -> Verdict) -> Verdict {
    if expected.len() != found.len() {
        return Err(format!("{} expected, {} found", expected.len(), found.len()));
    }
    expected.into_iter().zip(found).try_for_each(|(expected, found)| check(expected, found))
}
