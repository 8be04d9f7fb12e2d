//! Which spans there are, and what they say.

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::json;

use crate::collector::{Collector, Span, attribute, hex};
use crate::receiver::Receiver;
use crate::server::{Server, until};
use crate::{PARENT, TRACE, sampled};

const PUT: &str = "PUT /v1/topics/{topic}/jobs/{id}";

/// Puts a job with a `traceparent`.
#[track_caller]
fn put(server: &Server, path: &str, trace: &str, job: &serde_json::Value) {
    let headers = [("content-type", "application/json"), ("traceparent", trace)];
    server.send("PUT", path, &headers, Some(job.to_string().as_bytes())).ok(201);
}

#[track_caller]
fn says(span: &Span, wanted: &[(&str, &str)]) {
    for (name, value) in wanted {
        assert_eq!(attribute(&span.attributes, name).as_deref(), Some(*value), "{name} of {span:?}");
    }
}

fn is_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code == i32::from(StatusCode::Error))
}

#[test]
fn a_put_and_a_delivery_are_of_the_trace_of_whoever_put() {
    let (collector, target) = (Collector::new(), Receiver::always(204));
    let server = collector.server(&[]);
    let url = target.url("/hook");
    put(&server, "/v1/topics/a%2Fb/jobs/%E8%AE%A2", &sampled(), &json!({"deliver_to": url, "delay": "10s"}));
    server.advance("12s");
    let got = target.next();
    let (put, delivery) = (collector.span(PUT), collector.span("deliver a/b"));
    for span in [&put, &delivery] {
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
        assert_eq!((span.span_id.len(), span.flags & 0xff), (8, 1), "{span:?}");
        assert_ne!(hex(&span.span_id), PARENT);
        assert!(span.start_time_unix_nano > 1_700_000_000_000_000_000, "{span:?}");
        assert!(span.end_time_unix_nano > span.start_time_unix_nano, "{span:?}");
        assert!(span.links.is_empty() && !is_error(span), "{span:?}");
    }
    assert_eq!((put.kind(), delivery.kind()), (SpanKind::Server, SpanKind::Client));
    says(
        &put,
        &[
            ("http.request.method", "PUT"),
            ("http.route", "/v1/topics/{topic}/jobs/{id}"),
            ("http.response.status_code", "201"),
            ("dwell.topic", "a/b"),
            ("dwell.job.id", "订"),
        ],
    );
    says(
        &delivery,
        &[
            ("http.request.method", "POST"),
            ("http.response.status_code", "204"),
            ("server.address", "127.0.0.1"),
            ("server.port", &target.address.port().to_string()),
            ("dwell.topic", "a/b"),
            ("dwell.job.id", "订"),
            ("dwell.attempt", "1"),
            ("dwell.origin", &format!("http://{}", target.address)),
            ("dwell.outcome", "delivered"),
            ("dwell.lateness_ms", "2000"),
        ],
    );
    assert!(attribute(&delivery.attributes, "dwell.due_at").unwrap().ends_with('Z'));
    let sent = format!("00-{TRACE}-{}-01", hex(&delivery.span_id));
    assert_eq!(got.header("traceparent"), Some(sent.as_str()), "what the target does is part of the delivery");
}

#[test]
fn every_attempt_has_a_span_that_says_what_went_wrong() {
    let (collector, target) = (Collector::new(), Receiver::always(500));
    let server = collector.server(&[]);
    let retry = json!({"attempts": 2, "backoff": ["0s"]});
    put(&server, "/v1/topics/t/jobs/a", &sampled(), &json!({"deliver_to": target.url("/"), "retry": retry}));
    for attempt in ["1", "2"] {
        let span = collector.span("deliver t");
        says(&span, &[("dwell.attempt", attempt), ("http.response.status_code", "500"), ("error.type", "500")]);
        says(&span, &[("dwell.outcome", "failed")]);
        assert!(is_error(&span), "{span:?}");
        assert_eq!(span.status.unwrap().message, "the target answered 500 Internal Server Error");
    }
    put(&server, "/v1/topics/u/jobs/a", &sampled(), &json!({"deliver_to": "http://127.0.0.1:1/"}));
    let span = collector.span("deliver u");
    says(&span, &[("dwell.outcome", "broken"), ("error.type", "broken")]);
    assert!(is_error(&span) && attribute(&span.attributes, "http.response.status_code").is_none(), "{span:?}");
}

#[test]
fn who_began_a_trace_decides_whether_it_is_sampled() {
    let (collector, target) = (Collector::new(), Receiver::always(204));
    let server = collector.server(&[]);
    let unsampled = format!("00-{TRACE}-{PARENT}-00");
    put(&server, "/v1/topics/t/jobs/a", &unsampled, &json!({"deliver_to": target.url("/")}));
    assert!(target.next().header("traceparent").unwrap().ends_with("-00"));
    until("it is acked", || server.topic("t")["totals"]["acked"] == 1);
    put(&server, "/v1/topics/t/jobs/b", &sampled(), &json!({}));
    says(&collector.span(PUT), &[("dwell.job.id", "b")]);
    let others = collector.others();
    assert!(others.iter().all(|name| name.starts_with("GET /v1/topics/{topic}")), "{others:?}");
}

#[test]
fn what_is_of_no_trace_begins_one() {
    let (collector, target) = (Collector::new(), Receiver::always(204));
    let server = collector.server(&[]);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(server.get(path).status, 200);
    }
    server.put_job("t", "a", json!({"deliver_to": target.url("/")}));
    let (put, delivery) = (collector.span(PUT), collector.span("deliver t"));
    let got = target.next();
    assert_eq!(got.header("traceparent").unwrap()[3..35], hex(&delivery.trace_id));
    assert!(got.header("traceparent").unwrap().ends_with("-01"), "its trace is sampled");
    for span in [&put, &delivery] {
        assert_eq!((span.trace_id.len(), span.span_id.len(), span.parent_span_id.len()), (16, 8, 0), "{span:?}");
    }
    assert_ne!(put.trace_id, delivery.trace_id);
    server.get("/nowhere").problem(404, "not_found");
    let lost = collector.span("GET");
    says(&lost, &[("http.response.status_code", "404")]);
    assert!(attribute(&lost.attributes, "http.route").is_none() && !is_error(&lost), "{lost:?}");
    server.post("/v1/leases/nothing/ack", json!({})).problem(409, "lease_lost");
    let settled = collector.span("POST /v1/leases/{token}/{verb}");
    assert!(!format!("{settled:?}").contains("nothing"), "tokens are not told: {settled:?}");
    assert_eq!(collector.others(), [""; 0], "who asks how the server is has no span");
    let health = server.send("GET", "/healthz", &[("traceparent", &sampled())], None);
    assert_eq!(health.status, 200);
    assert_eq!(hex(&collector.span("GET /healthz").trace_id), TRACE, "unless it says so");
}

#[test]
fn a_share_of_what_is_of_no_trace_can_be_chosen() {
    let (collector, target) = (Collector::new(), Receiver::always(204));
    let server = collector.server(&["--otlp-ratio", "0"]);
    for number in 0..20 {
        server.put_job("t", &number.to_string(), json!({"deliver_to": target.url("/")}));
        assert!(target.next().header("traceparent").unwrap().ends_with("-00"));
    }
    put(&server, "/v1/topics/t/jobs/b", &sampled(), &json!({}));
    says(&collector.span(PUT), &[("dwell.job.id", "b")]);
    assert_eq!(collector.others(), [""; 0]);
}

#[test]
fn a_lease_is_linked_to_what_put_its_jobs() {
    let collector = Collector::new();
    let server = collector.server(&["--otlp-ratio", "0"]);
    put(&server, "/v1/topics/t/jobs/a", &sampled(), &json!({}));
    server.put_job("t", "b", json!({}));
    for (path, body) in [("/v1/topics/t/lease", json!({"max": 5})), ("/v1/lease", json!({"topics": ["t"]}))] {
        let consumer = "00-11111111111111111111111111111111-2222222222222222-01";
        let headers = [("content-type", "application/json"), ("traceparent", consumer)];
        let leased = server.send("POST", path, &headers, Some(body.to_string().as_bytes())).ok(200);
        let leased = leased["jobs"].as_array().unwrap().clone();
        let span = collector.span(&format!("POST {}", path.replace("/t/", "/{topic}/")));
        assert_eq!(hex(&span.parent_span_id), "2222222222222222");
        says(&span, &[("dwell.jobs", &leased.len().to_string())]);
        let links: Vec<_> = span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect();
        let wanted = if leased.is_empty() { vec![] } else { vec![(TRACE.to_owned(), PARENT.to_owned())] };
        assert_eq!((leased.len(), links), (wanted.len() * 2, wanted));
    }
}

#[test]
fn what_the_server_cannot_do_is_an_error_and_a_wrong_request_is_none() {
    let collector = Collector::new();
    let server = collector.server(&["--store", "memory:", "--memory", "1MiB"]);
    server.put("/v1/topics/t/jobs/a", json!({"delya": "1s"})).problem(400, "invalid_request");
    let span = collector.span(PUT);
    assert!(!is_error(&span) && attribute(&span.attributes, "error.type").is_none(), "{span:?}");
    says(&span, &[("http.response.status_code", "400")]);
    let job = json!({"body": "x".repeat(100 << 10)});
    until("it is full", || server.post("/v1/topics/t/jobs", job.clone()).status == 507);
    let mut span = collector.span("POST /v1/topics/{topic}/jobs");
    while attribute(&span.attributes, "http.response.status_code").as_deref() != Some("507") {
        span = collector.span("POST /v1/topics/{topic}/jobs");
    }
    says(&span, &[("error.type", "507"), ("dwell.topic", "t")]);
    assert!(is_error(&span), "{span:?}");
}
