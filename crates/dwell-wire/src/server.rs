//! What a server says of itself.

use serde::{Deserialize, Serialize};

use crate::json::Fields;
use crate::{Duration, Instant};

/// What a server is, promises and allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Info {
    /// The server's version.
    pub version: String,
    /// Where jobs are kept: `embedded`, `memory`, `redis`, `postgres`.
    pub store: String,
    /// What an answered success survives.
    pub durability: String,
    /// What is allowed.
    pub limits: Limits,
    /// The store's time.
    pub now: Instant,
}

/// What is allowed; durations in milliseconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Limits {
    /// Bytes of a body.
    pub body: u64,
    /// Bytes of a request.
    pub request: u64,
    /// Bytes of all headers of a job.
    pub headers: u64,
    /// Bytes of a topic's name.
    pub topic_name: u64,
    /// Bytes of a job's id.
    pub job_id: u64,
    /// Items of a batch.
    pub batch: u64,
    /// Jobs of one lease call.
    pub lease: u64,
    /// Topics of one lease call.
    pub lease_topics: u64,
    /// The longest wait of a lease call.
    pub wait_ms: u64,
    /// The longest delay.
    pub delay_ms: u64,
    /// The shortest time-to-run.
    pub ttr_min_ms: u64,
    /// The longest time-to-run.
    pub ttr_max_ms: u64,
    /// Jobs or topics of one page.
    pub page: u64,
    /// Buckets of a timeline.
    pub buckets: u64,
}

/// Whether the server does its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`, or `failing`.
    pub status: HealthStatus,
    /// Why, or what else is not at its best.
    pub reasons: Vec<String>,
}

/// Whether the server does its work, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum HealthStatus {
    /// It does.
    Ok,
    /// It does not.
    Failing,
}

/// The store's time, on a server whose clock can be moved for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Clock {
    /// The store's time.
    pub now: Instant,
}

/// How far to move a test server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdvanceClock {
    /// That long ahead.
    pub advance: Duration,
}

impl AdvanceClock {
    /// Reads how far.
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.needed("advance", Fields::duration).map(|advance| Self { advance })
    }
}
