//! Jobs: put, get, change, cancel.

use dwell_wire::cancel::CancelJobs;
use dwell_wire::change::ChangeJob;
use dwell_wire::job::Job;
use dwell_wire::put::{PutJob, PutJobs, PutJobsAnswer, PutResult};
use dwell_wire::settle::{ItemResult, ItemResults};
use reqwest::Method;
use reqwest::header::IF_MATCH;

use crate::call::{Call, Path};
use crate::client::Client;
use crate::error::Error;

/// On what terms a job that is there may be replaced, changed or cancelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Even if a consumer holds it; the lease is then lost.
    pub force: bool,
    /// Only if it has this version.
    pub if_match: Option<u64>,
}

impl Client {
    /// Puts a job under your own id; a live one of that id is replaced, unless `if_exists` says otherwise. The answer
    /// has neither body nor headers.
    pub async fn put(&self, topic: &str, id: &str, job: &PutJob<'_>, guard: Guard) -> Result<Job, Error> {
        guarded(self.call(Method::PUT, job_path(topic, id)), guard).json(job).answer().await
    }

    /// Puts a job under the id that it names, or under one that the server makes. A live one of that id refuses it,
    /// unless `if_exists` says otherwise.
    pub async fn create(&self, topic: &str, job: &PutJob<'_>) -> Result<Job, Error> {
        self.call(Method::POST, Path::new("topics").name("topic", topic).word("jobs")).json(job).answer().await
    }

    /// Puts many jobs, durable together, each judged on its own; what became of each, in order.
    pub async fn put_many(&self, jobs: &PutJobs<'_>) -> Result<Vec<PutResult>, Error> {
        let answer: PutJobsAnswer = self.call(Method::POST, Path::new("jobs")).json(jobs).answer().await?;
        Ok(answer.results)
    }

    /// A job, with all that it carries.
    pub async fn get(&self, topic: &str, id: &str) -> Result<Job, Error> {
        self.call(Method::GET, job_path(topic, id)).answer().await
    }

    /// Changes or moves a job; what is not named stays.
    pub async fn change(&self, topic: &str, id: &str, change: &ChangeJob<'_>, guard: Guard) -> Result<Job, Error> {
        guarded(self.call(Method::PATCH, job_path(topic, id)), guard).json(change).answer().await
    }

    /// Cancels a job: afterwards it will not be delivered.
    pub async fn cancel(&self, topic: &str, id: &str, guard: Guard) -> Result<(), Error> {
        guarded(self.call(Method::DELETE, job_path(topic, id)), guard).done().await
    }

    /// Cancels many jobs, each judged on its own; what became of each, in order.
    pub async fn cancel_many(&self, jobs: &CancelJobs<'_>) -> Result<Vec<ItemResult>, Error> {
        let answer: ItemResults = self.call(Method::POST, Path::new("cancel")).json(jobs).answer().await?;
        Ok(answer.results)
    }
}

fn job_path(topic: &str, id: &str) -> Path {
    Path::new("topics").name("topic", topic).word("jobs").name("id", id)
}

fn guarded(call: Call<'_>, guard: Guard) -> Call<'_> {
    let version = guard.if_match.map(|version| format!("\"{version}\""));
    call.query("force", guard.force.then_some(true)).header(IF_MATCH, version)
}
