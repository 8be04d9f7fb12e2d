//! Who leases jobs and settles them: most are acked, some nacked, given back, held for longer or left alone.

use std::borrow::Cow;
use std::sync::Arc;

use dwell_client::Client;
use dwell_client::wire::Duration as Millis;
use dwell_client::wire::job::Job;
use dwell_client::wire::lease::LeaseRequest;
use dwell_client::wire::settle::{self, SettleItem, SettleItems, Terms};

use super::{DRAINING, OVER, Shared};
use crate::history::{Answer, Ask, Held, Verb};
use crate::job::{ALL_TOPICS, Key, Treatment};

/// How long a consumer waits for jobs, in milliseconds.
const WAIT: u64 = 150;

/// The rest after a nack, in milliseconds.
const NACKED: u64 = 30;

/// Jobs of a lease call while all is consumed.
const DRAINED: u32 = 1_000;

pub(super) async fn run(shared: Arc<Shared>) {
    while !shared.is(OVER) {
        let Some(client) = shared.client().await else { continue };
        let jobs = lease(&shared, &client).await;
        let is_draining = shared.is(DRAINING);
        for (treatment, verb) in [
            (Treatment::ExtendThenAck, Verb::Extend),
            (Treatment::ExtendThenAck, Verb::Ack),
            (Treatment::Nack, Verb::Nack),
            (Treatment::Release, Verb::Release),
            (Treatment::Ack, Verb::Ack),
        ] {
            let wanted = |job: &&Job| treatment_of(job, is_draining) == treatment;
            let chosen: Vec<&Job> = jobs.iter().filter(wanted).collect();
            if !chosen.is_empty() {
                settle(&shared, &client, &chosen, verb).await;
            }
        }
    }
}

fn treatment_of(job: &Job, is_draining: bool) -> Treatment {
    let key = Key::parse(&job.id).filter(|_| !is_draining);
    key.map_or(Treatment::Ack, |key| key.treatment(job.version))
}

async fn lease(shared: &Shared, client: &Client) -> Vec<Job> {
    let ttr = shared.load.ttr;
    let max = if shared.is(DRAINING) { DRAINED } else { shared.load.lease };
    let wanted = LeaseRequest {
        topics: Some(ALL_TOPICS.iter().map(|topic| Cow::Borrowed(*topic)).collect()),
        max: Some(max),
        wait: Some(Millis(WAIT)),
        ttr: Some(Millis(ttr)),
        ..LeaseRequest::default()
    };
    let read = |jobs: &Vec<Job>| Answer::Leased(jobs.iter().map(held).collect());
    shared.ask(Ask::Lease { ttr }, client.lease(&wanted), read).await.unwrap_or_default()
}

fn held(job: &Job) -> Held {
    // A job that is not ours is of no round.
    let key = Key::parse(&job.id).unwrap_or(Key(u32::MAX, 0, 0));
    Held {
        job: key,
        version: job.version,
        attempt: job.attempt,
        due: job.due_at.0,
        expires: job.lease_expires_at.map_or(0, |expires| expires.0),
        whole: job.topic == key.topic() && job.body.as_ref().is_some_and(|body| body.get() == key.body()),
    }
}

async fn settle(shared: &Shared, client: &Client, jobs: &[&Job], verb: Verb) {
    let leases = jobs.iter().map(|job| (held(job).job, job.version)).collect();
    let item = |job: &&Job| SettleItem {
        token: Cow::Owned(job.token.clone().unwrap_or_default()),
        verb: match verb {
            Verb::Ack => settle::Verb::Ack,
            Verb::Nack => settle::Verb::Nack,
            Verb::Release => settle::Verb::Release,
            Verb::Extend => settle::Verb::Extend,
        },
        terms: Terms { delay: (verb == Verb::Nack).then_some(Millis(NACKED)), ..Terms::default() },
    };
    let items = SettleItems { items: jobs.iter().map(item).collect() };
    let read = |results: &Vec<settle::ItemResult>| Answer::Each(results.iter().map(|result| result.status).collect());
    shared.ask(Ask::Settle { leases, verb }, client.settle(&items), read).await;
}
