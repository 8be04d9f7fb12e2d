//! The move, batch by batch: put here, durable, then out there.

use dwell_client::{Client, Error, Guard};
use dwell_wire::Instant;
use dwell_wire::put::{IfExists, Outcome, PutJobs, PutResult};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::Unit;
use super::entry::{Entry, Job};
use super::old::{Old, Place};
use crate::exit::Exit;
use crate::verbs::server;

/// Complaints that are shown; the rest is counted.
const COMPLAINTS: usize = 10;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// Now here and no longer there.
    jobs: u64,
    /// The same, of jobs that were here already.
    kept: u64,
    /// Changed or taken by others between being put here and taken out there; here they were cancelled again.
    taken: u64,
    /// The same, when it was too late to cancel: handed out here, and there perhaps.
    doubled: u64,
    /// Ids whose job is no longer in the pool: somebody had deleted it.
    without_job: u64,
    /// Refused by the server or by its rules, and where they were.
    pub(super) refused: u64,
    pub(super) complaints: Vec<String>,
}

pub(super) struct Moving {
    client: Client,
    old: Old,
    unit: Unit,
    margin: Option<u64>,
    moved: Moved,
    bar: ProgressBar,
}

/// A job that is here, and what the server said of it.
struct There<'a> {
    entry: &'a Entry,
    job: &'a Job,
    result: PutResult,
}

impl Moving {
    pub(super) fn new(client: Client, old: Old, unit: Unit, margin: Option<u64>, jobs: u64) -> Self {
        // It is drawn on standard error, if that is a terminal.
        let bar = ProgressBar::new(jobs);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} jobs, {per_sec}, {eta} left")
        {
            bar.set_style(style);
        }
        Self { client, old, unit, margin, moved: Moved::default(), bar }
    }

    pub(super) async fn run(&mut self, places: &[Place]) -> Result<&Moved, Exit> {
        self.old.begin().await?;
        for place in places {
            // What is due in a list is due to whoever takes it.
            if !place.is_list || self.margin.is_none() {
                self.run_place(place).await?;
            }
        }
        self.bar.finish_and_clear();
        self.old.end().await?;
        Ok(&self.moved)
    }

    /// Goes through a place until a whole pass moves nothing: producers may be at work.
    async fn run_place(&mut self, place: &Place) -> Result<(), Exit> {
        loop {
            let before = (self.moved.refused, self.moved.without_job);
            let (mut over, mut has_moved) = (0, false);
            loop {
                let least = match self.margin {
                    Some(margin) => {
                        let now = server::now(&self.client).await?;
                        Some(self.unit.score(Instant(now.0.saturating_add(margin))))
                    }
                    None => None,
                };
                let entries = self.old.read(place, least, over).await?;
                if entries.is_empty() {
                    break;
                }
                let gone = self.run_batch(place, &entries).await?;
                over += entries.len() - gone;
                has_moved |= gone > 0;
                self.bar.inc(gone as u64);
            }
            if !has_moved {
                return Ok(());
            }
            // What stayed is met again in the next pass.
            (self.moved.refused, self.moved.without_job) = before;
        }
    }

    /// Moves some jobs; how many are no longer where they were.
    async fn run_batch(&mut self, place: &Place, entries: &[Entry]) -> Result<usize, Exit> {
        let mut jobs: Vec<(&Entry, Job)> = Vec::with_capacity(entries.len());
        for entry in entries {
            // A list may name a job twice: whatever is left of it comes next.
            if place.is_list && jobs.iter().any(|(other, _)| other.member == entry.member) {
                continue;
            }
            if place.topic.is_none() && entry.value.is_none() {
                self.moved.without_job += 1;
                continue;
            }
            match entry.job(place, self.unit) {
                Ok(job) => jobs.push((entry, job)),
                Err(reason) => self.refuse(place, entry, &reason),
            }
        }
        let puts = PutJobs { jobs: jobs.iter().map(|(_, job)| job.put(IfExists::Keep)).collect() };
        let results = if puts.jobs.is_empty() { Vec::new() } else { self.client.put_many(&puts).await? };
        let mut there = Vec::with_capacity(jobs.len());
        for ((entry, job), result) in jobs.iter().zip(results) {
            match self.settle(job, result).await? {
                Ok(result) => there.push(There { entry, job, result }),
                Err(reason) => self.refuse(place, entry, &reason),
            }
        }
        let entries: Vec<&Entry> = there.iter().map(|there| there.entry).collect();
        let taken = self.old.take(place, &entries).await?;
        for (there, taken) in there.iter().zip(&taken) {
            match (taken, there.result.outcome) {
                (true, Some(Outcome::Kept)) => self.moved.kept += 1,
                (true, _) => self.moved.jobs += 1,
                (false, _) => self.undo(there).await?,
            }
        }
        Ok(there.len())
    }

    /// What a put came to, or why it was refused. A job that an earlier run put here, and that was changed there since, is
    /// changed here, too.
    async fn settle(&self, job: &Job, result: PutResult) -> Result<Result<PutResult, String>, Exit> {
        if result.code.is_some() {
            let mut reasons: Vec<String> =
                result.errors.iter().map(|error| format!("{} {}", error.field, error.reason)).collect();
            reasons.extend(result.detail.filter(|_| reasons.is_empty()));
            return Ok(Err(reasons.join("; ")));
        }
        if result.outcome != Some(Outcome::Kept) || !self.is_earlier(job).await? {
            return Ok(Ok(result));
        }
        let guard = Guard { force: false, if_match: result.version };
        let mut put = job.put(IfExists::Replace);
        (put.topic, put.id) = (None, None);
        match self.client.put(&job.topic, &job.id, &put, guard).await {
            Ok(put) => Ok(Ok(PutResult { outcome: Some(Outcome::Replaced), version: Some(put.version), ..result })),
            // It has been handed out or changed since: it is its consumer's.
            Err(Error::Problem(_)) => Ok(Ok(result)),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the job that is here is an earlier state of this one.
    async fn is_earlier(&self, job: &Job) -> Result<bool, Exit> {
        match self.client.get(&job.topic, &job.id).await {
            Ok(found) => Ok(job.is_later_than(&found.headers)),
            Err(Error::Problem(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Cancels a job that somebody took or changed there meanwhile. If it is still there, the next pass meets it again.
    async fn undo(&mut self, there: &There<'_>) -> Result<(), Exit> {
        let There { job, result, .. } = there;
        // What was here before is not ours to cancel; if an earlier run put it, it may be done twice, but never lost.
        if result.outcome == Some(Outcome::Kept) {
            self.moved.kept += 1;
            return Ok(());
        }
        let guard = Guard { force: false, if_match: result.version };
        match self.client.cancel(&job.topic, &job.id, guard).await {
            Ok(()) => self.moved.taken += 1,
            Err(Error::Problem(_)) => self.moved.doubled += 1,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn refuse(&mut self, place: &Place, entry: &Entry, reason: &str) {
        self.moved.refused += 1;
        if self.moved.complaints.len() < COMPLAINTS {
            let complaint = format!("{} of {}: {reason}", entry.shown(), place.name());
            if !self.moved.complaints.contains(&complaint) {
                self.moved.complaints.push(complaint);
            }
        }
    }
}

impl Moved {
    pub(super) fn json(&self) -> Value {
        json!({
            "dry_run": false,
            "moved": self.jobs,
            "kept": self.kept,
            "taken": self.taken,
            "doubled": self.doubled,
            "without_job": self.without_job,
            "refused": self.refused,
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("moved {}", self.jobs);
        for (count, what) in [
            (self.kept, "were here already"),
            (self.taken, "were taken or changed there meanwhile, and not moved"),
            (self.doubled, "were taken there meanwhile and handed out here, too"),
            (self.without_job, "ids had no job in the pool"),
            (self.refused, "were refused"),
        ] {
            if count > 0 {
                text = format!("{text}; {count} {what}");
            }
        }
        text
    }
}
