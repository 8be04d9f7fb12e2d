//! Whether a target can be called and takes what is sent.

use std::collections::BTreeSet;

use dwell_core::Body;
use dwell_server::delivery::{Sample, Sampled, secret};
use dwell_server::{DeliveryConfig, Guard};

use super::Finding;

/// Checks a target as a server on this machine would meet it.
pub(super) async fn check(address: &str, private: bool, key: Option<&str>) -> Vec<Finding> {
    let guard = Guard { private, ..Guard::default() };
    let mut findings = Vec::new();
    let read = guard.read(address).map(|target| target.origin().to_owned());
    findings.push(Finding::of("address", read.map_err(|refused| format!("{address} {refused}"))));
    let secrets = match key.map(secret).transpose() {
        Ok(secret) => secret.into_iter().collect::<Vec<_>>(),
        Err(error) => {
            findings.push(Finding::of("secret", Err(format!("--secret {error}"))));
            Vec::new()
        }
    };
    if findings.iter().any(Finding::is_wrong) {
        return findings;
    }
    let found = guard.addresses(address).map(|found| {
        let found: BTreeSet<String> = found.iter().map(ToString::to_string).collect();
        found.into_iter().collect::<Vec<_>>().join(", ")
    });
    findings.push(Finding::of("name", found));
    if findings.iter().any(Finding::is_wrong) {
        return findings;
    }
    if secrets.is_empty() {
        findings.push(Finding::note("signature", "the sample is not signed; --secret signs it".to_owned()));
    }
    let config = DeliveryConfig { guard, ..DeliveryConfig::default() };
    let (address, topic) = (address.to_owned(), "dwell.doctor".to_owned());
    let sample = Sample { address, topic, body: Body::default(), secrets };
    findings.push(Finding::of("answer", said(&sample.send(&config).await)));
    findings
}

fn said(sampled: &Sampled) -> Result<String, String> {
    let answer = String::from_utf8_lossy(&sampled.answer);
    let answer = if answer.trim().is_empty() { String::new() } else { format!(": {}", answer.trim()) };
    let took = sampled.took.as_millis();
    match (&sampled.error, sampled.status) {
        (None, status) => Ok(format!("{} in {took} ms; a job would be acked{answer}", status.unwrap_or_default())),
        (Some(error), _) => Err(format!("{error} ({took} ms){answer}")),
    }
}
