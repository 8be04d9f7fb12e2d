//! What watches over a server: the audit log, rates of tokens, a service manager.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};

use crate::client::{Client, job_path, text_of};
use crate::server::{Server, dwell, run, start, temporary, timed, until};

/// A server whose file has this text.
fn configured(text: &str, extra: &[&str]) -> (Server, tempfile::TempDir) {
    let directory = temporary();
    let file = directory.path().join("dwell.toml");
    std::fs::write(&file, text).unwrap();
    (Server::with(&[&["--config", file.to_str().unwrap(), "--token", "root"], extra].concat()), directory)
}

/// The lines of the audit log.
fn audit(server: &Server) -> Vec<Value> {
    let lines = server.log();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "audit").collect()
}

#[test]
fn the_audit_log_says_who_has_administered_what() {
    let some = "[[tokens]]\nname = \"shop\"\ntoken = \"the-shop\"\nscopes = [\"put\", \"consume\", \"read\"]\n";
    // However little is logged otherwise, and however it looks.
    for flags in [["--log", "error"], ["--log-format", "human"]] {
        let (server, _directory) = configured(some, &flags);
        let (root, shop) = (server.showing("root"), server.showing("the-shop"));
        root.put_job("t", "a", json!({}));
        root.lease_one("t");
        root.put("/v1/topics/t/policy", json!({"deliver_secret": "whsec_aHVzaC1odXNoLWh1c2gtaHVzaC1odXNo"})).ok(200);
        root.post("/v1/topics/t/pause", json!({})).ok(200);
        root.delete("/v1/topics/t/jobs?state=leased&force=true").ok(200);
        root.post("/v1/topics/nowhere/redrive", json!({})).problem(404, "not_found");
        shop.delete("/v1/topics/t").problem(403, "forbidden");
        root.delete("/v1/topics/t").empty();
        let told: Vec<_> = audit(&server)
            .iter()
            .map(|line| {
                assert!(text_of(&line["timestamp"]).ends_with('Z'), "{line}");
                let text = |name: &str| text_of(&line[name]).to_owned();
                (text("who"), text("call"), text("path"), line["status"].as_u64().unwrap(), text("outcome"))
            })
            .collect();
        let wanted = [
            ("token-1", "PUT /v1/topics/{topic}/policy", "/v1/topics/t/policy", 200, "done"),
            ("token-1", "POST /v1/topics/{topic}/pause", "/v1/topics/t/pause", 200, "done"),
            ("token-1", "DELETE /v1/topics/{topic}/jobs", "/v1/topics/t/jobs?state=leased&force=true", 200, "done"),
            ("token-1", "POST /v1/topics/{topic}/redrive", "/v1/topics/nowhere/redrive", 404, "refused"),
            ("shop", "DELETE /v1/topics/{topic}", "/v1/topics/t", 403, "refused"),
            ("token-1", "DELETE /v1/topics/{topic}", "/v1/topics/t", 204, "done"),
        ];
        let wanted = wanted.map(|(who, call, path, status, outcome)| {
            (who.to_owned(), call.to_owned(), path.to_owned(), status, outcome.to_owned())
        });
        assert_eq!(told, wanted);
        assert!(!server.log().contains("whsec_") && !server.log().contains("the-shop"), "no secrets");
    }
}

#[test]
fn on_a_server_without_tokens_everyone_is_audited() {
    let server = Server::new();
    server.post("/v1/topics/t/pause", json!({})).ok(200);
    server.get("/v1/topics/t").ok(200);
    let told = audit(&server);
    assert_eq!(told.len(), 1, "reading is nothing to tell: {told:?}");
    assert_eq!((&told[0]["who"], &told[0]["level"]), (&json!("everyone"), &json!("INFO")));
}

#[test]
fn a_token_is_held_to_its_rate_and_no_other_suffers() {
    let slow = "[[tokens]]\nname = \"slow\"\ntoken = \"the-slow\"\nscopes = [\"read\"]\nrate = 1\n\
                [[tokens]]\nname = \"fast\"\ntoken = \"the-fast\"\nscopes = [\"put\"]\nrate = 100000\n";
    let (server, _directory) = configured(slow, &[]);
    let client = server.showing("the-slow");
    client.get("/v1/info").ok(200);
    let refused = client.get("/v1/info");
    let problem = refused.problem(429, "rate_limited");
    assert!(text_of(&problem["detail"]).contains("\"slow\""), "{problem}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // Health is nobody's.
    for _ in 0..5 {
        client.get("/healthz").ok(200);
    }
    let fast = server.showing("the-fast");
    for number in 0..50 {
        fast.put_job("t", &number.to_string(), json!({}));
        server.showing("root").get("/v1/info").ok(200);
    }
    let ((), took) = timed(|| until("it may again", || client.get("/v1/info").status == 200));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn what_is_refused_for_its_rate_is_not_done_and_all_tokens_can_have_one() {
    let server = Server::with(&["--token", "secret", "--token", "other", "--token-rate", "2"]);
    let client = server.showing("secret");
    let statuses: Vec<_> = (0..20).map(|id| client.put(&job_path("t", &id.to_string()), json!({})).status).collect();
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert!(statuses[..2] == [201, 201] && count(429) > 0, "{statuses:?}");
    assert_eq!(count(201) + count(429), 20, "{statuses:?}");
    assert_eq!(server.showing("other").topic("t")["counts"]["ready"], count(201));
    for wrong in ["0", "-1", "1000001", "many", ""] {
        let rate = format!("--token-rate={wrong}");
        let ended = run(&mut dwell(&["serve", "--store", "memory:", "--token", "a", &rate]));
        assert!(ended.code == Some(78) && ended.stderr.contains("requests a second"), "{ended:?}");
    }
}

/// A socket as a service manager has it, and the next thing that it is told.
fn heard(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

#[test]
fn a_service_manager_is_told_of_start_life_and_end() {
    let directory = temporary();
    let path = directory.path().join("notify");
    let hidden = format!("dwell-test-{}", std::process::id());
    let by_path = UnixDatagram::bind(&path).unwrap();
    let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&hidden).unwrap()).unwrap();
    for (socket, name) in [(by_path, path.to_str().unwrap().to_owned()), (by_name, format!("@{hidden}"))] {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut command = dwell(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:"]);
        command.env("NOTIFY_SOCKET", &name).env("WATCHDOG_USEC", "300000").stderr(Stdio::null());
        let (mut child, _, _) = start(&mut command);
        assert_eq!(heard(&socket), "READY=1");
        for _ in 0..3 {
            assert_eq!(heard(&socket), "WATCHDOG=1");
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        until("it says that it stops", || heard(&socket) == "STOPPING=1");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn signs_of_life_that_another_process_is_asked_for_are_not_given() {
    let directory = temporary();
    let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = dwell(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:"]);
    command.env("NOTIFY_SOCKET", directory.path().join("notify")).stderr(Stdio::null());
    let other = std::process::id().to_string();
    let (mut child, _, _) = start(command.env("WATCHDOG_USEC", "30000").env("WATCHDOG_PID", other));
    assert_eq!(heard(&socket), "READY=1");
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(socket.recv(&mut [0; 64]).is_err(), "silence");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(heard(&socket), "STOPPING=1");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_whose_store_has_failed_gives_no_sign_of_life() {
    let directory = temporary();
    let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let flags = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"];
    // A limit on the size of files makes every write fail; the signal that comes with it is ignored from the start.
    let mut command = std::process::Command::new("bash");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_dwell")]).args(flags);
    command.env("NOTIFY_SOCKET", directory.path().join("notify")).env("WATCHDOG_USEC", "150000");
    let (mut child, address, _) = start(command.current_dir(directory.path()).stderr(Stdio::null()));
    assert_eq!((heard(&socket), heard(&socket)), ("READY=1".to_owned(), "WATCHDOG=1".to_owned()));
    let client = Client::new(address);
    let limit = Rlimit { current: Some(0), maximum: Some(0) };
    prlimit(Some(Pid::from_child(&child)), Resource::Fsize, limit).unwrap();
    client.put(&job_path("t", "lost"), json!({})).problem(503, "storage_failed");
    // What was said before the failure may still be there; then there is silence.
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut buffer = [0; 64];
    let mut signs = 0;
    while socket.recv(&mut buffer).is_ok() {
        signs += 1;
        assert!(signs < 1_000, "it goes on");
    }
    assert_eq!(client.get("/healthz").status, 200, "it is up, and says why it does nothing");
    child.kill().unwrap();
    child.wait().unwrap();
}
