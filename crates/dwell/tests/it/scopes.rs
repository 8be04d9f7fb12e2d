//! What each token may do: scopes, and topics by the start of their names.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Client, ids, job_path, text_of};
use crate::server::{Server, dwell, run, temporary};

const SCOPES: [&str; 5] = ["put", "consume", "read", "operate", "admin"];

/// Which scopes each call takes; `*`: any token, `-`: none is needed. `admin` is always enough.
const CALLS: &[(&str, &str)] = &[
    ("putJob", "put"),
    ("createJob", "put"),
    ("putJobs", "put"),
    ("getJob", "read"),
    ("changeJob", "put"),
    ("cancelJob", "put"),
    ("cancelJobs", "put"),
    ("lease", "consume"),
    ("leaseMany", "consume"),
    ("settle", "consume"),
    ("settleLease", "consume"),
    ("listTopics", "read"),
    ("getTopic", "read"),
    ("deleteTopic", "admin"),
    ("setPolicy", "admin"),
    ("pauseTopic", "operate"),
    ("resumeTopic", "operate"),
    ("listJobs", "read"),
    ("purgeJobs", "operate"),
    ("getTopicTimeline", "read"),
    ("getTimeline", "read"),
    ("redrive", "operate"),
    ("testDelivery", "operate"),
    ("getInfo", "*"),
    ("getHealth", "-"),
    ("getReadiness", "-"),
    ("getMetrics", "read"),
    ("getClock", "*"),
    ("advanceClock", "admin"),
];

/// A server whose file has these tokens, in a directory that must outlive it.
fn server(tokens: &str) -> (Server, TempDir) {
    let directory = temporary();
    let file = directory.path().join("dwell.toml");
    std::fs::write(&file, tokens).unwrap();
    (Server::with(&["--config", file.to_str().unwrap(), "--token", "root"]), directory)
}

/// One token a scope, each called as its scope and showing `the-<scope>`.
fn one_a_scope() -> (Server, TempDir) {
    let mut tokens = String::new();
    for scope in SCOPES {
        write!(tokens, "[[tokens]]\nname = \"{scope}\"\ntoken = \"the-{scope}\"\nscopes = [\"{scope}\"]\n").unwrap();
    }
    server(&tokens)
}

/// Every call that the server describes: its operation, method and path.
fn described(server: &Server) -> Vec<(String, String, String)> {
    let document = server.showing("root").get("/openapi.json").ok(200);
    let mut calls = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if let Some(id) = operation["operationId"].as_str() {
                calls.push((id.to_owned(), method.to_uppercase(), path.clone()));
            }
        }
    }
    calls
}

fn try_it(client: &Client, method: &str, path: &str) -> u16 {
    let path = path.replace("{topic}", "t").replace("{id}", "a").replace("{token}", "x").replace("{verb}", "ack");
    let path = if method == "DELETE" && path.ends_with("/jobs") { format!("{path}?state=buried") } else { path };
    let answer = match method {
        "GET" | "DELETE" => client.send(method, &path, &[], None),
        // Read as far as it goes: what matters is whether it was let in.
        _ => client.text(method, &path, "{\"no_such_field\": 1}"),
    };
    if answer.status == 403 {
        answer.problem(403, "forbidden");
    }
    answer.status
}

#[test]
fn every_call_takes_its_scope_and_no_other() {
    let (server, _directory) = one_a_scope();
    let table: BTreeMap<_, _> = CALLS.iter().copied().collect();
    let calls = described(&server);
    for (id, method, path) in &calls {
        let needed = table.get(id.as_str()).unwrap_or_else(|| panic!("{id} has no row: which scope does it take?"));
        for scope in SCOPES {
            let status = try_it(&server.showing(&format!("the-{scope}")), method, path);
            let is_allowed = matches!(*needed, "*" | "-") || *needed == scope || scope == "admin";
            assert_eq!(status != 403, is_allowed, "{scope} for {id}, which takes {needed}: {status}");
            assert_ne!(status, 401, "{id}");
        }
        let status = try_it(&server, method, path);
        assert_eq!(status != 401, *needed == "-", "{id} without a token: {status}");
    }
    assert_eq!(calls.len(), CALLS.len(), "a row is about a call that is not there");
}

#[test]
fn what_is_refused_is_not_done_and_says_what_is_missing() {
    let (server, _directory) = one_a_scope();
    let root = server.showing("root");
    root.put_job("t", "a", json!({"delay": "1h"}));
    let before = root.job("t", "a");
    let reader = server.showing("the-read");
    let problem = reader.put(&job_path("t", "a"), json!({"body": 1})).problem(403, "forbidden");
    let detail = text_of(&problem["detail"]);
    assert!(detail.contains("\"put\"") && detail.contains("\"read\"") && !detail.contains("the-read"), "{detail}");
    reader.delete(&job_path("t", "a")).problem(403, "forbidden");
    server.showing("the-operate").delete("/v1/topics/t").problem(403, "forbidden");
    assert_eq!(root.job("t", "a"), before);
    // HEAD is judged as GET is.
    assert_eq!(server.showing("the-put").send("HEAD", &job_path("t", "a"), &[], None).status, 403);
    assert_eq!(reader.send("HEAD", &job_path("t", "a"), &[], None).status, 200);
    assert!(!server.log().contains("the-"), "tokens are never printed");
}

const SOME_TOPICS: &str = r#"
    [[tokens]]
    name = "orders"
    token = "the-orders"
    scopes = ["put", "consume", "read", "operate"]
    topics = ["orders.", "mail"]

    [[tokens]]
    name = "chief"
    token = "the-chief"
    scopes = ["admin"]
    topics = ["orders."]
"#;

#[test]
fn a_token_for_some_topics_opens_no_other_by_its_path() {
    let (server, _directory) = server(SOME_TOPICS);
    let (root, orders, chief) = (server.showing("root"), server.showing("the-orders"), server.showing("the-chief"));
    root.put_job("other", "there", json!({}));
    orders.put_job("orders.close", "a", json!({}));
    orders.put_job("mailing", "a", json!({}));
    assert_eq!(orders.job("orders.close", "a")["state"], "ready");
    for (_, method, path) in described(&server).iter().filter(|(_, _, path)| path.contains("{topic}")) {
        for topic in ["other", "nowhere", "orders", "order%73", "Orders.x"] {
            // Alike for topics that are there and that are not.
            let path = path.replace("{topic}", topic);
            assert_eq!(try_it(&chief, method, &path), 403, "{method} {path}");
        }
    }
    // However its name is spelled.
    assert_eq!(orders.job("%6Frders.close", "a")["topic"], "orders.close");
    assert_eq!(root.job("other", "there")["state"], "ready");
    let problem = orders.get(&job_path("other", "there")).problem(403, "forbidden");
    assert_eq!(problem["detail"], orders.get(&job_path("other", "nowhere")).problem(403, "forbidden")["detail"]);
    // What is about all topics is not for it.
    for path in ["/v1/timeline", "/metrics"] {
        orders.get(path).problem(403, "forbidden");
        assert_eq!(root.get(path).status, 200);
    }
    chief.post("/v1/dev/clock", json!({"advance": "1h"})).problem(403, "forbidden");
    chief.delete("/v1/topics/orders.close").empty();
    chief.get("/v1/info").ok(200);
}

#[test]
fn items_of_a_batch_are_judged_one_by_one() {
    let (server, _directory) = server(SOME_TOPICS);
    let (root, orders) = (server.showing("root"), server.showing("the-orders"));
    root.put_job("other", "there", json!({}));
    let statuses = |answer: Vec<Value>| answer.iter().map(|result| result["status"].clone()).collect::<Vec<_>>();
    let jobs = json!({"jobs": [{"topic": "orders.a", "id": "1"}, {"topic": "other", "id": "2"}, {"topic": "other", "id": "there"}]});
    let results = orders.post("/v1/jobs", jobs).list("results");
    assert_eq!(results[1]["code"], "forbidden");
    assert_eq!(statuses(results), [201, 403, 403], "not 409 for one that is there");
    let jobs = json!({"jobs": [{"topic": "other", "id": "there"}, {"topic": "orders.a", "id": "1"}, {"topic": "other", "id": "2"}]});
    assert_eq!(statuses(orders.post("/v1/cancel", jobs).list("results")), [403, 204, 403]);
    assert_eq!(root.topic("other")["counts"]["ready"], 1);
    orders.post("/v1/lease", json!({"topics": ["orders.a", "other"]})).problem(403, "forbidden");
    orders.post("/v1/lease", json!({"topics": ["orders.a", "mail"]})).ok(200);
}

#[test]
fn a_lease_is_settled_only_by_a_token_for_its_topic() {
    let (server, _directory) = server(SOME_TOPICS);
    let (root, orders) = (server.showing("root"), server.showing("the-orders"));
    for id in ["a", "b"] {
        root.put_job("other", id, json!({}));
        orders.put_job("orders.a", id, json!({}));
    }
    let foreign = root.lease_one("other");
    let own = orders.lease_one("orders.a");
    // Whoever has the very token is told; any other token is a lease that is lost, job or no job.
    orders.settle(&foreign, "ack", json!({})).problem(403, "forbidden");
    let token = text_of(&foreign["token"]);
    let last = if token.ends_with('0') { '1' } else { '0' };
    let guessed = format!("{}{last}", &token[..token.len() - 1]);
    let nowhere = format!("ffff{token}");
    for wrong in [&guessed, &nowhere] {
        let lost = orders.post(&format!("/v1/leases/{wrong}/ack"), json!({})).problem(409, "lease_lost");
        assert_eq!(lost["detail"], root.post(&format!("/v1/leases/{wrong}/ack"), json!({})).json()["detail"]);
    }
    let items = [token, &guessed, "nonsense", text_of(&own["token"]), &nowhere];
    let items: Vec<_> = items.iter().map(|token| json!({"token": token, "verb": "ack"})).collect();
    let results = orders.post("/v1/settle", json!({ "items": items })).list("results");
    let codes: Vec<_> = results.iter().map(|result| (result["status"].clone(), result["code"].clone())).collect();
    let lost = (json!(409), json!("lease_lost"));
    assert_eq!(codes, [(json!(403), json!("forbidden")), lost.clone(), lost.clone(), (json!(200), Value::Null), lost]);
    root.settle(&foreign, "ack", json!({})).ok(200);
    // Once it is settled nobody has it, and the token is lost to all.
    orders.settle(&foreign, "ack", json!({})).problem(409, "lease_lost");
}

#[test]
fn a_large_batch_of_settles_is_judged_whole() {
    let (server, _directory) = server(SOME_TOPICS);
    let (root, orders) = (server.showing("root"), server.showing("the-orders"));
    let jobs: Vec<_> = (0..300).map(|n| json!({"topic": if n % 3 == 0 { "other" } else { "orders.a" }})).collect();
    root.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    let leased = root.post("/v1/lease", json!({"topics": ["orders.a", "other"], "max": 300})).list("jobs");
    assert_eq!(leased.len(), 300);
    let items: Vec<_> = leased.iter().map(|job| json!({"token": job["token"], "verb": "ack"})).collect();
    let results = orders.post("/v1/settle", json!({ "items": items })).list("results");
    for (job, result) in leased.iter().zip(&results) {
        let wanted = if job["topic"] == "other" { 403 } else { 200 };
        assert_eq!(result["status"], wanted, "{job}");
    }
    assert_eq!(root.topic("other")["counts"]["leased"], 100);
}

#[test]
fn a_list_of_topics_shows_ones_own() {
    let (server, _directory) = server(SOME_TOPICS);
    let (root, orders) = (server.showing("root"), server.showing("the-orders"));
    for topic in ["a", "mail", "mailing", "n", "orders", "orders.a", "orders.b", "z"] {
        root.put_job(topic, "a", json!({}));
    }
    let names = |client: &Client, query: &str| {
        let page = client.get(&format!("/v1/topics{query}")).ok(200);
        let names = page["topics"].as_array().unwrap().iter().map(|topic| text_of(&topic["name"]).to_owned());
        (names.collect::<Vec<_>>(), page["next_cursor"].as_str().map(str::to_owned))
    };
    let all = ["mail", "mailing", "orders.a", "orders.b"].map(str::to_owned).to_vec();
    assert_eq!(names(&orders, ""), (all.clone(), None));
    assert_eq!(names(&orders, "?limit=4"), (all.clone(), None));
    for limit in 1..4 {
        let (mut seen, mut query) = (Vec::new(), format!("?limit={limit}"));
        while seen.len() < 10 {
            let (page, next) = names(&orders, &query);
            assert!(page.len() <= limit);
            seen.extend(page);
            let Some(next) = next else { break };
            query = format!("?limit={limit}&cursor={next}");
        }
        assert_eq!(seen, all);
    }
    for (prefix, wanted) in [
        ("orders", &["orders.a", "orders.b"][..]),
        ("orders.b", &["orders.b"]),
        ("m", &["mail", "mailing"]),
        ("maili", &["mailing"]),
        ("z", &[]),
        ("orderss", &[]),
    ] {
        assert_eq!(names(&orders, &format!("?prefix={prefix}")).0, wanted, "{prefix}");
    }
    assert_eq!(names(&root, "").0.len(), 8);
}

#[test]
fn tokens_that_make_no_sense_are_refused_without_being_shown() {
    let good = "name = \"n\"\ntoken = \"hush-hush\"\nscopes = [\"put\"]\n";
    for (text, reason) in [
        ("[[tokens]]\ntoken = \"hush-hush\"\nscopes = [\"put\"]\n".to_owned(), "needs a name"),
        ("[[tokens]]\nname = \"n\"\nscopes = [\"put\"]\n".to_owned(), "needs \"token\" or \"token_file\""),
        ("[[tokens]]\nname = \"n\"\ntoken = \"hush-hush\"\n".to_owned(), "needs scopes"),
        ("[[tokens]]\nname = \"n\"\ntoken = \"hush-hush\"\nscopes = []\n".to_owned(), "some of put, consume"),
        ("[[tokens]]\nname = \"n\"\ntoken = \"hush-hush\"\nscopes = [\"write\"]\n".to_owned(), "some of put, consume"),
        ("[[tokens]]\nname = \"n\"\ntoken = \"hush-hush\"\nscopes = \"put\"\n".to_owned(), "list of strings"),
        ("[[tokens]]\nname = \"a b\"\ntoken = \"hush-hush\"\nscopes = [\"put\"]\n".to_owned(), "1 to 64 of"),
        ("[[tokens]]\nname = \"n\"\ntoken = \"hush hush\"\nscopes = [\"put\"]\n".to_owned(), "no header can carry"),
        ("[[tokens]]\nname = \"n\"\ntoken = \"\"\nscopes = [\"put\"]\n".to_owned(), "let everyone in"),
        (format!("[[tokens]]\n{good}token_file = \"x\"\n"), "choose one"),
        ("[[tokens]]\nname = \"n\"\ntoken_file = \"/nowhere\"\nscopes = [\"put\"]\n".to_owned(), "cannot be read"),
        (format!("[[tokens]]\n{good}topics = []\n"), "how names of topics start"),
        (format!("[[tokens]]\n{good}topics = [\"\"]\n"), "how names of topics start"),
        (format!("[[tokens]]\n{good}topics = [\"or ders\"]\n"), "how names of topics start"),
        (format!("[[tokens]]\n{good}scope = [\"put\"]\n"), "\"scope\" is unknown"),
        ("[[tokens]]\nname = \"n\"\ntokn = \"hush-hush\"\nscopes = [\"put\"]\n".to_owned(), "\"tokn\" is unknown"),
        ("tokens = [{name = \"n\", token = \"hush-hush\", scopes = [\"x\"]}]\n".to_owned(), "some of put, consume"),
        ("tokens = \"hush-hush\"\n".to_owned(), "[[tokens]]"),
        ("tokens = [\"hush-hush\"]\n".to_owned(), "[[tokens]]"),
        (format!("[[tokens]]\n{good}[[tokens]]\n{good}"), "two tokens have the name \"n\""),
        (format!("token = \"hush-hush\"\n[[tokens]]\n{good}"), "\"token-1\" and \"n\" are the same"),
    ] {
        let directory = temporary();
        let file = directory.path().join("dwell.toml");
        std::fs::write(&file, &text).unwrap();
        let ended = run(&mut dwell(&["serve", "--store", "memory:", "--config", file.to_str().unwrap()]));
        assert_eq!(ended.code, Some(78), "{text}: {ended:?}");
        assert!(ended.stderr.contains(reason), "{text}: {}", ended.stderr);
        assert!(!ended.stderr.contains("hush"), "{text}: {}", ended.stderr);
    }
}

#[test]
fn a_token_may_come_from_a_file_of_its_own() {
    let secrets = temporary();
    let file = secrets.path().join("secret");
    std::fs::write(&file, "from-a-file\n").unwrap();
    let described =
        format!("[[tokens]]\nname = \"n\"\ntoken_file = {:?}\nscopes = [\"put\"]\n", file.to_str().unwrap());
    let (server, _directory) = server(&described);
    let client = server.showing("from-a-file");
    client.put_job("t", "a", json!({}));
    client.get(&job_path("t", "a")).problem(403, "forbidden");
    let jobs = server.showing("root").lease("t", json!({}));
    assert_eq!(ids(&jobs), ["a"]);
}
