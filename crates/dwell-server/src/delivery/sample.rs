//! A delivery that is no job's: to see whether a target takes what Dwell sends.

use std::time::{Duration, SystemTime};

use dwell_core::{Body, Secret, limits};
use tokio::time::Instant;
use uuid::Uuid;

use super::courier::{Landing, Parcel};
use super::{Couriers, DeliveryConfig, outcome, sign};
use crate::trace::Context;

/// What to send where.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The target's address.
    pub address: String,
    /// The topic it says it is of.
    pub topic: String,
    /// What it carries.
    pub body: Body,
    /// What it is signed with, newest first.
    pub secrets: Vec<Secret>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Its `webhook-id`.
    pub webhook_id: String,
    /// Whether a job would have been acked.
    pub delivered: bool,
    /// What the target answered, if it did.
    pub status: Option<u16>,
    /// The first bytes of its answer.
    pub answer: Vec<u8>,
    /// What went wrong.
    pub error: Option<String>,
    /// How long it took.
    pub took: Duration,
}

impl Couriers {
    /// Sends a sample; a target that may not be called is an outcome like others.
    pub(crate) async fn sample(&self, sample: Sample, due_at: String) -> Sampled {
        let parcel = Parcel {
            address: sample.address,
            id: sign::sample_id(&Uuid::now_v7().to_string()),
            topic: sample.topic,
            job_id: "sample".to_owned(),
            attempt: 1,
            due_at,
            span: Context::root(),
            headers: Vec::new(),
            body: sample.body,
            secrets: sample.secrets,
        };
        let start = Instant::now();
        let landing = self.deliver(&parcel).await;
        let took = start.elapsed();
        let (webhook_id, error) = (parcel.id, outcome::error(&landing));
        let (status, answer) = match landing {
            Landing::Answered { status, answer, .. } => (Some(status), answer),
            _ => (None, Vec::new()),
        };
        debug_assert!(answer.len() <= limits::MAX_DELIVERY_ANSWER, "cut as it was read");
        Sampled { webhook_id, delivered: error.is_none(), status, answer, error, took }
    }
}

impl Sample {
    /// Sends it from here, as a server that was told `config` would.
    pub async fn send(self, config: &DeliveryConfig) -> Sampled {
        let now = super::http::wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let due_at = dwell_wire::Instant(u64::try_from(now.as_millis()).unwrap_or(0)).to_string();
        Couriers::new(config).sample(self, due_at).await
    }
}
