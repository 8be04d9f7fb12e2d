//! `dwell backup` and `dwell repair`: seeing to a server's files from the outside.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::server::{Server, dwell, temporary};

/// What a command printed, line by line as JSON, and its exit code.
fn json_of(arguments: &[&str]) -> (Vec<Value>, Option<i32>) {
    let output = dwell(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines, output.status.code())
}

#[test]
fn a_running_server_is_backed_up_and_the_backup_serves() {
    let directory = temporary();
    let data = directory.path().join("data").display().to_string();
    let copy = directory.path().join("copy").display().to_string();
    let mut server = Server::with(&["--store", &format!("file:{data}")]);
    server.put_job("orders", "a", json!({"delay": "1h", "body": {"order": 1}}));
    server.put_job("orders", "b", json!({"delay": "1h"}));
    let (said, code) = json_of(&["backup", &copy, "--data-dir", &data, "--json"]);
    assert_eq!((code, said[0]["jobs"].as_u64()), (Some(0), Some(2)), "{said:?}");
    server.put_job("orders", "later", json!({"delay": "1h"}));
    server.terminate();
    server.end();

    let other = Server::with(&["--store", &format!("file:{copy}")]);
    assert_eq!(other.job("orders", "a")["body"], json!({"order": 1}));
    assert_eq!(other.get("/v1/topics/orders/jobs/later").status, 404);
    let (_, code) = json_of(&["backup", &copy, "--data-dir", &data, "--json"]);
    assert_eq!(code, Some(1), "what is there is not written over");
}

#[test]
fn a_damaged_directory_serves_again_after_a_repair() {
    let directory = temporary();
    let data = directory.path().join("data").display().to_string();
    let mut server = Server::with(&["--store", &format!("file:{data}")]);
    for id in ["a", "b", "c"] {
        server.put_job("orders", id, json!({"delay": "1h"}));
    }
    let (_, code) = json_of(&["repair", &data, "--json"]);
    assert_eq!(code, Some(1), "a server is using it");
    server.terminate();
    server.end();
    let (said, code) = json_of(&["repair", &data, "--json"]);
    assert_eq!((code, &said[0]), (Some(0), &json!({"jobs": 3, "topics": 1, "dropped": 0, "old": null})));

    let journal = directory.path().join("data/journal-0000000000000001");
    let mut bytes = std::fs::read(&journal).unwrap();
    // The second frame has the second job.
    bytes[2 * 4096 + 70] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    let (said, code) = json_of(&["repair", &data, "--json"]);
    assert_eq!(code, Some(0), "{said:?}");
    assert_eq!((said[0]["file"].as_str(), &said[1]["jobs"]), (Some(&*journal.display().to_string()), &json!(2)));
    assert!(said[1]["old"].as_str().unwrap().ends_with("data.damaged"), "{said:?}");
    let server = Server::with(&["--store", &format!("file:{data}")]);
    assert_eq!(server.job("orders", "a")["state"], "delayed");
    assert_eq!(server.get("/v1/topics/orders/jobs/b").status, 404);
    assert_eq!(server.job("orders", "c")["state"], "delayed");
}

#[test]
fn a_check_says_whether_every_job_is_where_it_will_be_found() {
    let directory = temporary();
    let data = directory.path().join("data").display().to_string();
    let mut server = Server::with(&["--store", &format!("file:{data}")]);
    server.put_job("orders", "a", json!({"delay": "1h"}));
    let (_, code) = json_of(&["repair", &data, "--check", "--json"]);
    assert_eq!(code, Some(1), "a server is using it");
    server.terminate();
    server.end();
    let good = json!({"jobs": 1, "topics": 1, "hidden": 0, "absent": 0, "wrong": []});
    assert_eq!(json_of(&["repair", &data, "--check", "--json"]), (vec![good], Some(0)));
    let (_, code) = json_of(&["repair", "/nowhere/at/all", "--check", "--json"]);
    assert_eq!(code, Some(1));
}

/// The directory of `crates/dwell-store-embedded/tests/it/hidden_job.rs`: an earlier build had left a job out of its topic's
/// order.
#[test]
fn a_hidden_job_is_named_by_a_check_and_put_back_by_a_start() {
    let directory = temporary();
    let data = directory.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../dwell-store-embedded/tests/data/hidden-job");
    for entry in std::fs::read_dir(kept).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), data.join(entry.file_name())).unwrap();
    }
    let data = data.display().to_string();
    let (said, code) = json_of(&["repair", &data, "--check", "--json"]);
    assert_eq!((code, &said[0]["hidden"]), (Some(1), &json!(1)), "{said:?}");
    let (said, _) = json_of(&["doctor", "--data-dir", &data, "--url", "http://127.0.0.1:9", "--json"]);
    let jobs = said.iter().find(|finding| finding["check"] == "jobs").unwrap();
    assert!(jobs["status"] == "wrong" && jobs["detail"].as_str().unwrap().contains("1 job in no order"), "{jobs}");

    let mut server = Server::with(&["--store", &format!("file:{data}"), "--memory", "1MiB", "--accept-clock"]);
    assert!(server.log().contains("1 jobs were in no order and are back"), "{}", server.log());
    let listed = server.get("/v1/topics/a/jobs?limit=1000").json();
    assert!(listed["jobs"].as_array().unwrap().iter().any(|job| job["id"] == "b27"), "{listed}");
    server.terminate();
    server.end();
    assert_eq!(json_of(&["repair", &data, "--check", "--json"]).1, Some(0));
}
