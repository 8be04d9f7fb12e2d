//! Instants and durations: every form, every limit, and never "now" by mistake.

use serde_json::{Value, json};

use crate::client::{job_path, millis, number_of};
use crate::server::Server;

const DAY: i64 = 86_400_000;
const MOST: i64 = 3_650 * DAY;

/// How far ahead of the put a job is due.
#[track_caller]
fn ahead(server: &Server, delay: &Value) -> i64 {
    let before = server.now();
    let job = server.post("/v1/topics/t/jobs", json!({ "delay": delay })).ok(201);
    let created = millis(&job["created_at"]);
    assert!((before..=server.now()).contains(&created), "{job}");
    // Within its millisecond the put was a part later than `created_at`, and due times round up.
    let ahead = millis(&job["due_at"]) - created;
    ahead - ahead % 10
}

#[test]
fn durations_are_read_in_all_their_forms() {
    let server = Server::new();
    for (delay, expected) in [
        (json!("90s"), 90_000),
        (json!("5000ms"), 5_000),
        (json!("1h30m"), 5_400_000),
        (json!("2d"), 2 * DAY),
        (json!("1w"), 7 * DAY),
        (json!("1w2d3h4m5s6000ms"), 9 * DAY + 11_051_000),
        (json!("1h0m0s"), 3_600_000),
        (json!("007s"), 7_000),
        (json!("120m"), 7_200_000),
        (json!("3650d"), MOST),
        (json!(60_000), 60_000),
        (json!(MOST), MOST),
    ] {
        assert_eq!(ahead(&server, &delay), expected, "{delay}");
    }
    for now in [json!("0s"), json!("0ms"), json!(0), json!("0d0h")] {
        let job = server.put_job("t", "a", json!({ "delay": now }));
        assert_eq!(job["state"], "ready", "{now}");
        assert!((millis(&job["due_at"]) - millis(&job["created_at"])) <= 1, "{job}");
    }
    let job = server.put_job("t", "a", json!({"delay": "250ms"}));
    assert!((250..=251).contains(&(millis(&job["due_at"]) - millis(&job["created_at"]))), "{job}");
}

#[test]
fn no_other_duration_is_read_as_now() {
    let server = Server::new();
    let long = "9".repeat(400);
    let texts = [
        "",
        " ",
        "soon",
        "30",
        "30 s",
        " 30s",
        "30s ",
        "-1s",
        "+1s",
        "1.5h",
        "1m1h",
        "1s1s",
        "1s1m",
        "1ms1s",
        "500us",
        "1M",
        "1S",
        "s",
        "1h30",
        "1y",
        "PT1H",
        "1h 30m",
        "1h,30m",
        "٣s",
        "1e3s",
        "0x1s",
        "1_000s",
        "3651d",
        "87601h",
        "522w",
        "315360000001ms",
        "99999999999999999999s",
        "18446744073709551616ms",
        "18446744073709551615w",
        "1w1w",
        "9999999999999999999999999999d",
    ];
    for text in texts.into_iter().chain([&*format!("{long}s")]) {
        let answer = server.put(&job_path("t", "a"), json!({ "delay": text }));
        assert_eq!(answer.status, 400, "{text}: {}", answer.body());
        answer.wrong("delay");
    }
    for text in ["-1", "1.5", "1e3", "1E2", "-0", "315360000001", "18446744073709551616", "1e400", "true", &long] {
        server.text("PUT", &job_path("t", "a"), &format!("{{\"delay\": {text}}}")).wrong("delay");
    }
    server.get("/v1/topics/t").problem(404, "not_found");
}

#[test]
fn instants_are_read_in_all_their_forms() {
    let server = Server::new();
    let due = |at: Value| server.put_job("t", "a", json!({ "at": at }))["due_at"].clone();
    for (at, expected) in [
        (json!("2030-11-15T17:38:00.250Z"), "2030-11-15T17:38:00.250Z"),
        (json!("2030-11-15T17:38:00Z"), "2030-11-15T17:38:00.000Z"),
        (json!("2030-11-15T17:38:00+08:00"), "2030-11-15T09:38:00.000Z"),
        (json!("2030-11-15T17:38:00-00:30"), "2030-11-15T18:08:00.000Z"),
        (json!("2030-11-15t17:38:00z"), "2030-11-15T17:38:00.000Z"),
        (json!("2032-02-29T23:59:59.999Z"), "2032-02-29T23:59:59.999Z"),
        (json!(1_900_000_000_123_i64), "2030-03-17T17:46:40.123Z"),
        // Due times round up to the next millisecond: never early.
        (json!("2030-11-15T17:38:00.0001Z"), "2030-11-15T17:38:00.001Z"),
        (json!("2030-11-15T17:38:00.250000001Z"), "2030-11-15T17:38:00.251Z"),
        (json!("2030-12-31T23:59:59.9999Z"), "2031-01-01T00:00:00.000Z"),
        (json!("2030-11-15T17:38:00.250000Z"), "2030-11-15T17:38:00.250Z"),
    ] {
        assert_eq!(due(at.clone()), expected, "{at}");
    }
}

#[test]
fn an_instant_in_the_past_is_ready_at_once_and_kept_as_given() {
    let server = Server::new();
    for (at, expected) in [
        (json!(0), "1970-01-01T00:00:00.000Z"),
        (json!(1), "1970-01-01T00:00:00.001Z"),
        (json!("1970-01-01T00:00:00Z"), "1970-01-01T00:00:00.000Z"),
        (json!("2001-09-09T01:46:40Z"), "2001-09-09T01:46:40.000Z"),
    ] {
        let job = server.put_job("t", "a", json!({ "at": at }));
        assert_eq!((&job["due_at"], &job["state"]), (&json!(expected), &json!("ready")), "{at}");
        assert_eq!(server.job("t", "a")["due_at"], expected);
    }
    assert_eq!(server.lease_one("t")["due_at"], "2001-09-09T01:46:40.000Z");
}

#[test]
fn no_other_instant_is_read() {
    let server = Server::new();
    let texts = [
        "",
        "now",
        "2030-11-15",
        "2030-11-15T17:38:00",
        "2030-11-15 17:38:00Z",
        "2030-11-15T17:38Z",
        "2030-11-15T17:38:00+08",
        "2030-11-15T17:38:00+0800",
        "2030-11-15T17:38:00.Z",
        "2030-02-30T00:00:00Z",
        "2030-13-01T00:00:00Z",
        "2030-11-15T24:00:00Z",
        "2030-11-15T17:60:00Z",
        "2030-11-15T17:38:61Z",
        "30-11-15T17:38:00Z",
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:00:00+00:01",
        "+002030-11-15T17:38:00Z",
        "1900000000000",
        "10000-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "2030-11-15T17:38:00Z[UTC]",
        "2030-W46-5T17:38:00Z",
        "0000-00-00T00:00:00Z",
    ];
    for text in texts {
        let answer = server.put(&job_path("t", "a"), json!({ "at": text }));
        assert_eq!(answer.status, 400, "{text}: {}", answer.body());
        answer.wrong("at");
    }
    for text in ["-1", "1.5", "1e12", "253402300800000", "1900000000000000", "18446744073709551616", "null", "[]"] {
        server.text("PUT", &job_path("t", "a"), &format!("{{\"at\": {text}}}")).wrong("at");
    }
    server.get("/v1/topics/t").problem(404, "not_found");
}

#[test]
fn nothing_reaches_further_than_ten_years() {
    let server = Server::new();
    let now = server.now();
    let job = server.put_job("t", "a", json!({"at": now + MOST}));
    assert_eq!(millis(&job["due_at"]), now + MOST);
    for at in [now + MOST + 60_000, now + 2 * MOST] {
        server.put(&job_path("t", "b"), json!({ "at": at })).wrong("at");
        server.patch(&job_path("t", "a"), json!({ "at": at })).wrong("at");
    }
    server.patch(&job_path("t", "a"), json!({"delay": MOST + 1})).wrong("delay");
    let batch = server
        .post("/v1/jobs", json!({"jobs": [{"topic": "t", "at": now + 2 * MOST}, {"topic": "t", "delay": "4000d"}]}));
    for result in batch.list("results") {
        assert_eq!((&result["status"], &result["code"]), (&json!(400), &json!("invalid_request")), "{result}");
    }
    // The limit goes with the clock.
    server.advance("2d");
    server.put(&job_path("t", "b"), json!({"at": now + MOST + DAY})).ok(201);
}

#[test]
fn fields_of_time_have_their_own_limits() {
    let server = Server::new();
    for (field, good, bad) in [
        (
            "ttr",
            vec![json!("1s"), json!(1_000), json!("24h"), json!("1d")],
            vec![json!("999ms"), json!(0), json!("86401s")],
        ),
        ("ttl", vec![json!("1ms"), json!("3650d")], vec![json!("3651d"), json!("-1s")]),
        ("jitter", vec![json!(0), json!("1d")], vec![json!("3651d"), json!(-1)]),
    ] {
        for value in good {
            server.put_job("t", "a", json!({ field: value }));
        }
        for value in bad {
            server.put(&job_path("t", "a"), json!({ field: value })).wrong(field);
        }
    }
    for (request, field) in [
        (json!({"wait": "61s"}), "wait"),
        (json!({"wait": 60_001}), "wait"),
        (json!({"ttr": "999ms"}), "ttr"),
        (json!({"ttr": "25h"}), "ttr"),
        (json!({"max": 0}), "max"),
        (json!({"max": 1_001}), "max"),
        (json!({"max": "1"}), "max"),
        (json!({"auto_ack": 1}), "auto_ack"),
        (json!({"consumer": ""}), "consumer"),
        (json!({"consumer": "a\u{7}"}), "consumer"),
        (json!({"consumer": "c".repeat(256)}), "consumer"),
    ] {
        server.post("/v1/topics/none/lease", request).wrong(field);
    }
}

#[test]
fn jitter_adds_up_to_itself() {
    let server = Server::new();
    let jobs: Vec<_> = (0..200).map(|_| json!({"topic": "t", "delay": "1h", "jitter": "1h"})).collect();
    let before = server.now();
    let results = server.post("/v1/jobs", json!({ "jobs": jobs })).list("results");
    let after = server.now();
    let dues: Vec<_> = results.iter().map(|result| millis(&result["due_at"])).collect();
    let (least, most) = (dues.iter().min().unwrap(), dues.iter().max().unwrap());
    assert!(*least >= before + 3_600_000 && *most <= after + 7_200_000, "{least} {most} {before}");
    assert!(most - least > 1_800_000, "200 dice do not all fall alike: {least} {most}");
}

#[test]
fn durations_of_answers_are_milliseconds() {
    let server = Server::new();
    let retry = json!({"attempts": 3, "backoff": ["15s", "3m"]});
    server.put_job("t", "a", json!({"ttr": "1h30m", "retry": retry, "delay": "1d"}));
    let job = server.job("t", "a");
    assert_eq!(number_of(&job["ttr_ms"]), 5_400_000);
    assert_eq!(job["retry"], json!({"attempts": 3, "backoff": [15_000, 180_000]}));
    // What was read can be sent back.
    server.put_job("t", "b", json!({"retry": job["retry"]}));
    assert_eq!(server.job("t", "b")["retry"], job["retry"]);
}

#[test]
fn a_query_takes_bare_digits_for_milliseconds() {
    let server = Server::new();
    server.put_job("t", "a", json!({"delay": "1h"}));
    let now = server.now();
    for query in [
        format!("from={now}&until={}&step=3600000", now + 2 * 3_600_000),
        format!("from={now}&step=1h"),
        format!("from={now}&step=60m"),
        "from=2030-11-15T17:38:00Z&until=2030-11-15T19:38:00Z&step=1h".to_owned(),
        "from=2030-11-15T17:38:00%2B08:00&until=2030-11-15T19:38:00%2B08:00".to_owned(),
        "from=2030-11-15T17:38:00+08:00&until=2030-11-15T19:38:00+08:00".to_owned(),
    ] {
        server.get(&format!("/v1/topics/t/timeline?{query}")).ok(200);
    }
    for (query, field) in [
        ("step=-1", "step"),
        ("step=1.5h", "step"),
        ("step=", "step"),
        ("step=90s", "step"),
        ("step=0", "step"),
        ("step=18446744073709551616", "step"),
        ("from=yesterday", "from"),
        ("from=-1", "from"),
        ("from=2030-11-15T17:38:00", "from"),
        ("until=0", "until"),
        ("until=99999999999999999999", "until"),
    ] {
        server.get(&format!("/v1/topics/t/timeline?{query}")).wrong(field);
    }
}
