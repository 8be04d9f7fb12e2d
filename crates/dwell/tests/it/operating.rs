//! What the server says of itself: info, health, metrics, its own description.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::client::{millis, text_of};
use crate::server::{Server, until};

#[test]
fn info_says_what_the_server_is_and_allows() {
    let server = Server::new();
    let info = server.get("/v1/info").ok(200);
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    assert!(!text_of(&info["store"]).is_empty() && !text_of(&info["durability"]).is_empty(), "{info}");
    assert!((millis(&info["now"]) - server.now()).abs() < 5_000);
    server.advance("10d");
    assert!(millis(&server.get("/v1/info").ok(200)["now"]) - millis(&info["now"]) >= 864_000_000, "the store's time");
    let promised = json!({
        "body": 1 << 20, "request": 64 << 20, "headers": 4_096, "topic_name": 200, "job_id": 255, "batch": 10_000,
        "lease": 1_000, "lease_topics": 100, "wait_ms": 60_000, "delay_ms": 315_360_000_000_u64, "ttr_min_ms": 1_000,
        "ttr_max_ms": 86_400_000, "page": 1_000, "buckets": 1_000,
    });
    assert_eq!(info["limits"], promised);
}

#[test]
fn health_needs_no_credential() {
    let server = Server::with(&["--token", "secret"]);
    for path in ["/healthz", "/readyz"] {
        let health = server.get(path).ok(200);
        assert_eq!((&health["status"], health["reasons"].is_array()), (&json!("ok"), true), "{health}");
    }
    server.get("/v1/info").problem(401, "unauthorized");
    let elsewhere = server.raw(b"GET /healthz HTTP/1.1\r\nhost: pod-7.example\r\nconnection: close\r\n\r\n");
    assert!(elsewhere.starts_with("HTTP/1.1 200"), "{elsewhere}");
}

/// Every sample of a metrics text, after a check of its shape.
fn samples(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let (mut samples, mut typed) = (BTreeMap::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<_> = comment.splitn(3, ' ').collect();
            assert!(matches!(words[..], ["HELP" | "TYPE" | "UNIT", _, _] | ["EOF"]), "{line}");
            if words[0] == "TYPE" {
                assert!(typed.insert(words[1].to_owned()), "typed twice: {line}");
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let family = name.split('{').next().unwrap();
        let bare =
            ["_total", "_bucket", "_sum", "_count"].iter().find_map(|end| family.strip_suffix(end)).unwrap_or(family);
        let is_ours = bare.starts_with("dwell_") || bare.starts_with("process_");
        assert!(typed.contains(bare) && is_ours, "no type: {line}");
        assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "twice: {line}");
    }
    samples
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let server = Server::new();
    for id in ["a", "b", "c"] {
        server.put_job("a%2Fb", id, json!({}));
    }
    server.put_job("other", "d", json!({"delay": "1h"}));
    let job = server.lease_one("a%2Fb");
    server.settle(&job, "ack", json!({})).ok(200);
    server.lease_one("a%2Fb");
    server.get("/nothing").problem(404, "not_found");
    let answer = server.get("/metrics");
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text") || kind.starts_with("text/plain"), "{kind}");
    let samples = samples(&answer.body());
    for (name, value) in [
        ("dwell_jobs{topic=\"a/b\",state=\"ready\"}", 1.0),
        ("dwell_jobs{topic=\"a/b\",state=\"leased\"}", 1.0),
        ("dwell_jobs{topic=\"other\",state=\"delayed\"}", 1.0),
        ("dwell_job_events_total{topic=\"a/b\",event=\"put\"}", 3.0),
        ("dwell_job_events_total{topic=\"a/b\",event=\"acked\"}", 1.0),
        ("dwell_job_events_total{topic=\"a/b\",event=\"leased\"}", 2.0),
        ("dwell_http_requests_total{method=\"GET\",status=\"404\"}", 1.0),
        ("dwell_http_requests_total{method=\"PUT\",status=\"201\"}", 4.0),
        ("dwell_lateness_seconds_count{topic=\"a/b\"}", 2.0),
        ("dwell_lateness_seconds_bucket{le=\"+Inf\",topic=\"a/b\"}", 2.0),
        ("dwell_store_failed", 0.0),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name}: {samples:#?}");
    }
    assert!(samples["dwell_http_connections"] >= 1.0);
}

#[test]
fn metrics_tell_how_late_and_how_long() {
    let server = Server::on_files();
    server.put_job("t", "old", json!({"at": "2020-01-01T00:00:00Z"}));
    server.put_job("t", "soon", json!({"delay": "1h"}));
    server.put_job("u", "far", json!({"delay": "30d"}));
    server.advance("90m");
    server.parked("t", 0);
    let waiting = server.later("/v1/topics/u/lease", json!({"wait": "30s"}));
    server.parked("u", 1);
    // Sizes are looked at once a second.
    let metrics = || samples(&server.get("/metrics").body());
    until("three jobs are in memory", || metrics()["dwell_near_jobs"] > 2.5);
    let now = metrics();
    let between = |name: &str, least: f64, most: f64| {
        let value = now.get(name).unwrap_or_else(|| panic!("no {name}: {now:#?}"));
        assert!((least..=most).contains(value), "{name}: {value}");
    };
    // Six years and more.
    between("dwell_oldest_ready_seconds{topic=\"t\"}", 1.8e8, 1e10);
    between("dwell_oldest_ready_seconds{topic=\"u\"}", 0.0, 0.0);
    between("dwell_waiting_consumers{topic=\"u\"}", 1.0, 1.0);
    // The clock was moved an hour and a half ahead, so the job that was due in between was half an hour late.
    between("dwell_clock_gap_seconds", 5_395.0, 5_460.0);
    between("dwell_promotion_seconds_count", 1.0, 1.0);
    between("dwell_promotion_seconds_sum", 1_800.0, 1_860.0);
    between("dwell_promotion_seconds_bucket{le=\"600.0\"}", 0.0, 0.0);
    between("dwell_promotion_seconds_bucket{le=\"+Inf\"}", 1.0, 1.0);
    between("dwell_sync_seconds_count", 3.0, 1_000.0);
    between("dwell_sync_seconds_sum", 1e-6, 60.0);
    between("dwell_near_bytes", 300.0, 1e7);
    between("dwell_near_limit_bytes", 1e8, 1e13);
    for none in ["dwell_shelf_jobs", "dwell_shelf_runs", "dwell_shelf_bytes"] {
        between(none, 0.0, 0.0);
    }
    between("dwell_journal_segments", 1.0, 2.0);
    between("dwell_disk_free_bytes", 1e6, 1e16);
    between("process_resident_memory_bytes", 1e6, 1e10);
    between("process_cpu_seconds_total", 0.0, 1e5);
    between("process_open_fds", 5.0, 1e5);
    between("process_max_fds", 256.0, 1e10);
    between("process_threads", 2.0, 1e4);
    between("process_start_time_seconds", 1.7e9, 1e11);
    server.put_job("u", "now", json!({}));
    assert_eq!(waiting.join().unwrap().list("jobs").len(), 1);
    // Promoted late as it was, it is handed out later still.
    server.lease("t", json!({"max": 2}));
    let after = samples(&server.get("/metrics").body());
    assert_eq!(after.get("dwell_lateness_seconds_count{topic=\"t\"}"), Some(&2.0));
    assert!(after["dwell_sync_seconds_count"] > now["dwell_sync_seconds_count"]);
}

/// The names of a Markdown table's first column that are set as code.
fn named(table: &str) -> BTreeSet<String> {
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.flat_map(|row| row.split('|').next().unwrap().split('`').step_by(2).map(str::to_owned)).collect()
}

#[test]
fn every_metric_is_in_the_docs_and_every_one_there_is_a_metric() {
    let server = Server::with(&["--durability", "sync", "--allow-private-targets"]);
    server.put_job("t", "a", json!({}));
    server.lease_one("t");
    // A target that nobody is at, until it is left alone.
    for number in 0..20 {
        let job = json!({"deliver_to": "http://127.0.0.1:1/", "retry": {"attempts": 50, "backoff": ["0s"]}});
        server.put_job("pushed", &number.to_string(), job);
    }
    until("the target is left alone", || server.get("/metrics").body().contains("dwell_targets_down{"));
    let text = server.get("/metrics").body();
    let shown = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let shown: BTreeSet<_> = shown
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() })
        .collect();
    assert_eq!(named(include_str!("../../../../docs/metrics.md")), shown);
}

/// Every `$ref` of a document.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn the_openapi_document_describes_every_call() {
    let server = Server::new();
    let document = server.get("/openapi.json").ok(200);
    assert!(text_of(&document["openapi"]).starts_with("3."), "{}", document["openapi"]);
    let mut operations = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        assert!(!path.contains("schedule") && !path.contains("push"), "{path}");
        for (method, operation) in item.as_object().unwrap().iter().filter(|(_, value)| value["responses"].is_object())
        {
            let call = format!("{} {path}", method.to_uppercase());
            assert!(operations.insert(text_of(&operation["operationId"]).to_owned(), call).is_none(), "{operation}");
        }
    }
    for (id, call) in [
        ("putJob", "PUT /v1/topics/{topic}/jobs/{id}"),
        ("createJob", "POST /v1/topics/{topic}/jobs"),
        ("putJobs", "POST /v1/jobs"),
        ("getJob", "GET /v1/topics/{topic}/jobs/{id}"),
        ("changeJob", "PATCH /v1/topics/{topic}/jobs/{id}"),
        ("cancelJob", "DELETE /v1/topics/{topic}/jobs/{id}"),
        ("cancelJobs", "POST /v1/cancel"),
        ("lease", "POST /v1/topics/{topic}/lease"),
        ("leaseMany", "POST /v1/lease"),
        ("settle", "POST /v1/settle"),
    ] {
        assert_eq!(operations.get(id).map(String::as_str), Some(call));
    }
    for call in [
        "POST /v1/leases/{token}/{verb}",
        "GET /v1/topics",
        "GET /v1/topics/{topic}",
        "DELETE /v1/topics/{topic}",
        "PUT /v1/topics/{topic}/policy",
        "POST /v1/topics/{topic}/pause",
        "POST /v1/topics/{topic}/resume",
        "GET /v1/topics/{topic}/jobs",
        "DELETE /v1/topics/{topic}/jobs",
        "GET /v1/topics/{topic}/timeline",
        "GET /v1/timeline",
        "POST /v1/topics/{topic}/redrive",
        "GET /v1/info",
        "GET /healthz",
        "GET /readyz",
        "GET /metrics",
        "GET /v1/dev/clock",
        "POST /v1/dev/clock",
    ] {
        assert!(operations.values().any(|known| known == call), "{call} is not described");
    }
}

#[test]
fn the_openapi_document_holds_together() {
    let server = Server::new();
    let document = server.get("/openapi.json").ok(200);
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for reference in &found {
        let target = document.pointer(reference.trim_start_matches('#'));
        assert!(target.is_some(), "{reference} is nowhere");
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in ["Duration", "Instant", "Problem", "Job"] {
        assert!(found.contains(&format!("#/components/schemas/{name}")), "nobody uses {name}");
    }
    let alike = |part: &str| schemas.keys().filter(|name| name.contains(part)).cloned().collect::<Vec<_>>();
    assert_eq!((alike("Duration"), alike("Instant")), (vec!["Duration".to_owned()], vec!["Instant".to_owned()]));
    let codes: BTreeSet<_> = schemas["Code"]["enum"].as_array().unwrap().iter().map(text_of).collect();
    let promised = [
        "invalid_request",
        "unauthorized",
        "forbidden",
        "not_found",
        "method_not_allowed",
        "job_exists",
        "job_leased",
        "lease_lost",
        "limit_reached",
        "version_mismatch",
        "too_large",
        "unsupported_media_type",
        "rate_limited",
        "overloaded",
        "storage_full",
        "storage_failed",
        "internal",
    ];
    assert_eq!(codes, promised.into_iter().collect());
    // A secret is only ever sent in.
    let secret = &document["components"]["schemas"]["Policy"]["properties"]["deliver_secret"];
    assert_eq!(secret["writeOnly"], true, "{secret}");
}

/// What a page or a style sheet or a script of a page loads.
fn loaded(text: &str) -> Vec<&str> {
    let after =
        |start: &'static str, end: char| text.split(start).skip(1).filter_map(move |rest| rest.split(end).next());
    after("src=\"", '"').chain(after("href=\"", '"')).collect()
}

#[test]
fn the_pages_load_nothing_from_outside() {
    let server = Server::new();
    assert_eq!(server.get("/docs").header("location"), Some("/docs/"));
    for page in ["/docs/", "/"] {
        let answer = server.get(page);
        assert!(answer.header("content-type").unwrap().starts_with("text/html"), "{page}");
        let html = answer.body();
        let links = loaded(&html);
        assert!(!links.is_empty(), "{html}");
        for link in links {
            assert!(!link.contains("//"), "{page} loads {link}");
            let path = if link.starts_with('/') {
                link.to_owned()
            } else {
                format!("/docs/{}", link.trim_start_matches("./"))
            };
            assert_eq!(server.get(&path).status, 200, "{page} loads {link}");
        }
    }
    let script = server.get("/docs/swagger-initializer.js").body();
    assert!(script.contains("\"/openapi.json\"") && !script.contains("://"), "{script}");
    for style in ["swagger-ui.css", "index.css"] {
        let style = server.get(&format!("/docs/{style}")).body();
        assert!(!style.contains("@import") && !style.contains("url(http") && !style.contains("url(//"));
    }
    // The badge of the standalone layout is an image from elsewhere.
    assert!(script.contains("\"BaseLayout\""), "{script}");
}
