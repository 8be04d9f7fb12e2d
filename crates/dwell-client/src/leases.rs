//! Leasing jobs and settling leases.

use std::time::Duration;

use dwell_wire::job::Job;
use dwell_wire::lease::{LeaseAnswer, LeaseRequest};
use dwell_wire::settle::{ItemResult, ItemResults, SettleItems, Terms, Verb};
use reqwest::Method;

use crate::call::Path;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Jobs that are due, best first, each with the token that settles it; none if none was there in time. The future
    /// may be dropped while it waits: the server then gives to others what it may have had for you.
    pub async fn lease(&self, wanted: &LeaseRequest<'_>) -> Result<Vec<Job>, Error> {
        let wait = Duration::from_millis(wanted.wait.map_or(0, |wait| wait.0));
        let call = self.call(Method::POST, Path::new("lease")).json(wanted).wait(wait);
        let answer: LeaseAnswer = call.answer().await?;
        Ok(answer.jobs)
    }

    /// Settles many leases, each judged on its own; what became of each, in order.
    pub async fn settle(&self, items: &SettleItems<'_>) -> Result<Vec<ItemResult>, Error> {
        let answer: ItemResults = self.call(Method::POST, Path::new("settle")).json(items).answer().await?;
        Ok(answer.results)
    }

    /// Done: the job is gone.
    pub async fn ack(&self, token: &str) -> Result<(), Error> {
        self.settle_one(token, Verb::Ack, &Terms::default()).await
    }

    /// Failed: the retry policy, or `delay`, says when it is due again, or buries it. Takes `delay` and `error`.
    pub async fn nack(&self, token: &str, terms: &Terms<'_>) -> Result<(), Error> {
        self.settle_one(token, Verb::Nack, terms).await
    }

    /// Given back without blame. Takes `delay` and `priority`.
    pub async fn release(&self, token: &str, terms: &Terms<'_>) -> Result<(), Error> {
        self.settle_one(token, Verb::Release, terms).await
    }

    /// Put aside until someone redrives, moves or cancels it. Takes `reason` and `priority`.
    pub async fn bury(&self, token: &str, terms: &Terms<'_>) -> Result<(), Error> {
        self.settle_one(token, Verb::Bury, terms).await
    }

    /// Held for longer: the lease ends that much after now. Takes `ttr`.
    pub async fn extend(&self, token: &str, terms: &Terms<'_>) -> Result<(), Error> {
        self.settle_one(token, Verb::Extend, terms).await
    }

    async fn settle_one(&self, token: &str, verb: Verb, terms: &Terms<'_>) -> Result<(), Error> {
        let path = Path::new("leases").name("token", token).word(verb.name());
        self.call(Method::POST, path).json(terms).done().await
    }
}
