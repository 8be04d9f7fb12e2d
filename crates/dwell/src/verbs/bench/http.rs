//! Load over HTTP.

use dwell_client::Client;
use dwell_wire::Duration;
use dwell_wire::job::Job;
use dwell_wire::lease::LeaseRequest;
use dwell_wire::put::{PutJob, PutJobs};
use dwell_wire::settle::{SettleItem, SettleItems, Terms, Verb};
use serde_json::value::RawValue;

use super::load::{Plan, Taken};
use crate::verbs::clock::Clock;

/// How long a consumer waits for a job before it asks again.
const WAIT: Duration = Duration(1_000);

/// A server.
#[derive(Clone)]
pub(super) struct Door {
    pub(super) client: Client,
    pub(super) clock: Clock,
}

impl Door {
    /// Puts a batch, all jobs with the same body.
    pub(super) async fn put(&self, plan: &Plan, body: &str) -> Result<(), String> {
        // Letters and digits in quotes.
        let body = RawValue::from_string(format!("\"{body}\"")).map_err(|error| error.to_string())?;
        let job = PutJob { delay: Some(plan.delay), body: Some(&body), ..PutJob::default() };
        if plan.batch == 1 {
            return self.client.create(&plan.topic, &job).await.map(drop).map_err(|error| error.to_string());
        }
        let job = PutJob { topic: Some(plan.topic.as_str().into()), ..job };
        let jobs = (0..plan.batch).map(|_| job.clone()).collect();
        let results = self.client.put_many(&PutJobs { jobs }).await.map_err(|error| error.to_string())?;
        match results.into_iter().find_map(|result| Some((result.code?, result.detail))) {
            Some((code, detail)) => Err(detail.unwrap_or_else(|| code.title().to_owned())),
            None => Ok(()),
        }
    }

    /// Jobs that are due; none if there were none for a while.
    pub(super) async fn take(&self, plan: &Plan) -> Result<(Vec<Job>, Vec<Taken>), String> {
        let wanted = LeaseRequest {
            topics: Some(vec![plan.topic.as_str().into()]),
            max: Some(plan.batch),
            wait: Some(WAIT),
            ..LeaseRequest::default()
        };
        let jobs = self.client.lease(&wanted).await.map_err(|error| error.to_string())?;
        let now = self.clock.micros();
        let taken = |job: &Job| Taken {
            body: job.body.as_ref().map(|body| body.get().trim_matches('"').to_owned()).unwrap_or_default(),
            lateness: Some(now.saturating_sub(job.due_at.0.saturating_mul(1_000))),
        };
        let taken = jobs.iter().map(taken).collect();
        Ok((jobs, taken))
    }

    pub(super) async fn ack(&self, jobs: &[Job]) -> Result<(), String> {
        let token = |job: &Job| job.token.clone().unwrap_or_default();
        if let [job] = jobs {
            return self.client.ack(&token(job)).await.map_err(|error| error.to_string());
        }
        let item = |job: &Job| SettleItem { token: token(job).into(), verb: Verb::Ack, terms: Terms::default() };
        let results = self.client.settle(&SettleItems { items: jobs.iter().map(item).collect() }).await;
        let results = results.map_err(|error| error.to_string())?;
        match results.into_iter().find_map(|result| Some((result.code?, result.detail))) {
            Some((code, detail)) => Err(detail.unwrap_or_else(|| code.title().to_owned())),
            None => Ok(()),
        }
    }
}
