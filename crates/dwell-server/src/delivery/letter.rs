//! What a request to a target says in its headers.

use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use dwell_core::Body;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use super::courier::Parcel;
use super::sign::signature;

/// What is not left to a job: the connection's own, and Dwell's.
const KEPT: [&str; 11] = [
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authorization",
];
const KEPT_PREFIXES: [&str; 3] = ["webhook-", "dwell-", "ce-"];

/// Unreserved characters of URLs stay.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What the HTTP binding of `CloudEvents` has encoded: all that is not printable ASCII, and these.
const CLOUD_EVENT: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// All headers of a request. `timestamp` is in seconds since 1970, by the clock that receivers compare with theirs.
pub(super) fn headers(parcel: &Parcel, timestamp: u64, cloud_events: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(&parcel.body)));
    for (name, value) in &parcel.headers {
        if let Some((name, value)) = own(name, value) {
            headers.insert(name, value);
        }
    }
    set(&mut headers, "traceparent", &parcel.span.to_string());
    set(&mut headers, "webhook-id", &parcel.id);
    set(&mut headers, "webhook-timestamp", &timestamp.to_string());
    if let Some(signature) = signature(&parcel.secrets, &parcel.id, timestamp, parcel.body.as_bytes()) {
        set(&mut headers, "webhook-signature", &signature);
    }
    set(&mut headers, "dwell-topic", &parcel.topic);
    set(&mut headers, "dwell-job-id", &utf8_percent_encode(&parcel.job_id, ENCODED).to_string());
    set(&mut headers, "dwell-attempt", &parcel.attempt.to_string());
    if cloud_events {
        set(&mut headers, "ce-specversion", "1.0");
        set(&mut headers, "ce-id", &parcel.id);
        set(&mut headers, "ce-source", &format!("/dwell/topics/{}", utf8_percent_encode(&parcel.topic, ENCODED)));
        set(&mut headers, "ce-type", &parcel.topic);
        set(&mut headers, "ce-subject", &utf8_percent_encode(&parcel.job_id, CLOUD_EVENT).to_string());
        set(&mut headers, "ce-time", &parcel.due_at);
    }
    headers
}

fn content_type(body: &Body) -> &'static str {
    match body {
        Body::Json(_) => "application/json",
        Body::Bytes(_) => "application/octet-stream",
    }
}

/// A header of the job's own, if it may be one and can be one.
fn own(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let kept = KEPT.contains(&name.as_str()) || KEPT_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix));
    if kept { None } else { Some((name, HeaderValue::from_str(value).ok()?)) }
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    // All of ours are ASCII that prints.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Context;

    const SPAN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parcel(headers: &[(&str, &str)]) -> Parcel {
        Parcel {
            address: "https://example.com/hook".to_owned(),
            id: "msg_1".to_owned(),
            topic: "orders/close".to_owned(),
            job_id: "订单 42".to_owned(),
            attempt: 3,
            due_at: "2026-11-15T17:38:00.250Z".to_owned(),
            span: Context::parse(SPAN).unwrap(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: Body::default(),
            secrets: Vec::new(),
        }
    }

    fn get<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
        headers.get(name).map(|value| value.to_str().unwrap())
    }

    #[test]
    fn a_letter_says_what_it_is() {
        let headers = headers(&parcel(&[]), 7, false);
        for (name, value) in [
            ("content-type", Some("application/json")),
            ("webhook-id", Some("msg_1")),
            ("webhook-timestamp", Some("7")),
            ("webhook-signature", None),
            ("dwell-topic", Some("orders/close")),
            ("dwell-job-id", Some("%E8%AE%A2%E5%8D%95%2042")),
            ("dwell-attempt", Some("3")),
            ("ce-id", None),
        ] {
            assert_eq!(get(&headers, name), value, "{name}");
        }
        assert_eq!(get(&headers, "traceparent"), Some(SPAN));
    }

    #[test]
    fn a_jobs_headers_travel_but_for_those_that_are_not_its_own() {
        let own = [
            ("X-Api-Key", "k"),
            ("content-type", "text/plain"),
            ("Host", "evil.example"),
            ("content-length", "0"),
            ("Transfer-Encoding", "chunked"),
            ("webhook-id", "forged"),
            ("Dwell-Attempt", "99"),
            ("ce-id", "forged"),
            ("bad name", "x"),
            ("x-bad-value", "a\r\nb: c"),
        ];
        let headers = headers(&parcel(&own), 7, false);
        assert_eq!((get(&headers, "x-api-key"), get(&headers, "content-type")), (Some("k"), Some("text/plain")));
        assert_eq!((get(&headers, "webhook-id"), get(&headers, "dwell-attempt")), (Some("msg_1"), Some("3")));
        for absent in ["host", "content-length", "transfer-encoding", "ce-id", "x-bad-value"] {
            assert_eq!(get(&headers, absent), None, "{absent}");
        }
    }

    #[test]
    fn a_span_is_the_attempts_own_and_not_the_jobs() {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-1111111111111111-01";
        let sent = headers(&parcel(&[("Traceparent", given)]), 7, false);
        assert_eq!(get(&sent, "traceparent"), Some(SPAN));
    }

    #[test]
    fn a_cloud_event_is_one() {
        let headers = headers(&parcel(&[]), 7, true);
        for (name, value) in [
            ("ce-specversion", "1.0"),
            ("ce-id", "msg_1"),
            ("ce-source", "/dwell/topics/orders%2Fclose"),
            ("ce-type", "orders/close"),
            ("ce-subject", "%E8%AE%A2%E5%8D%95%2042"),
            ("ce-time", "2026-11-15T17:38:00.250Z"),
        ] {
            assert_eq!(get(&headers, name), Some(value), "{name}");
        }
    }
}
