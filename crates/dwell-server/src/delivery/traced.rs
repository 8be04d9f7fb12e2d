//! The span of a delivery, on a server that traces.

use dwell_core::JobView;

use super::courier::Landing;
use super::outcome::{self, Outcome};
use crate::trace::{Ended, Kind, Started, Value};

/// The delivery is over; one without a landing was given back because the server stops. `late` is in milliseconds.
pub(super) fn end(started: Started, view: &JobView, origin: &str, late: u64, landing: Option<&Landing>) {
    let job = &view.job;
    let mut attributes = vec![
        ("http.request.method", Value::from("POST")),
        ("dwell.topic", job.topic.as_str().into()),
        ("dwell.job.id", job.id.as_str().into()),
        ("dwell.attempt", job.attempt.into()),
        ("dwell.origin", origin.into()),
        ("dwell.due_at", dwell_wire::Instant(job.due_at.as_millis()).to_string().as_str().into()),
        ("dwell.lateness_ms", late.into()),
    ];
    if let Some((address, port)) = host_and_port(origin) {
        attributes.extend([("server.address", address.into()), ("server.port", port.into())]);
    }
    let name = landing.map_or("given_back", |landing| Outcome::of(landing).name());
    attributes.push(("dwell.outcome", name.into()));
    if let Some(Landing::Answered { status, .. }) = landing {
        attributes.push(("http.response.status_code", u32::from(*status).into()));
    }
    let error = landing.map_or_else(|| Some("given back: the server stops".to_owned()), outcome::error);
    if error.is_some() {
        let kind = match landing {
            Some(Landing::Answered { status, .. }) => status.to_string().as_str().into(),
            _ => name.into(),
        };
        attributes.push(("error.type", kind));
    }
    let name = format!("deliver {}", job.topic);
    started.end(Ended { name, kind: Kind::Client, attributes, links: Vec::new(), error });
}

/// Of `https://example.com:443`.
fn host_and_port(origin: &str) -> Option<(&str, u32)> {
    let (host, port) = origin.split_once("://")?.1.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}
