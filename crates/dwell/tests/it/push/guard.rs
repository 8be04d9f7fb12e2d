//! What may not be called is not called.

use serde_json::json;

use super::push;
use super::receiver::Receiver;
use crate::client::job_path;
use crate::server::{Server, dwell, run, start, until};

#[test]
fn private_targets_are_refused_when_they_are_put_wherever_that_is() {
    let server = Server::new();
    server.put_job("t", "there", json!({}));
    for target in [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://[::ffff:10.0.0.1]/",
        "http://localhost/",
        "http://169.254.169.254/",
    ] {
        let job = json!({ "deliver_to": target });
        server.put(&job_path("t", "a"), job.clone()).wrong("deliver_to");
        server.post("/v1/topics/t/jobs", job.clone()).wrong("deliver_to");
        server.patch(&job_path("t", "there"), job.clone()).wrong("deliver_to");
        server.put("/v1/topics/t/policy", job.clone()).wrong("deliver_to");
        server.post("/v1/topics/t/test-delivery", job).wrong("deliver_to");
    }
    server.get(&job_path("t", "a")).problem(404, "not_found");
    assert_eq!(server.job("t", "there").get("deliver_to"), None, "nothing has changed");
    let why = server.put(&job_path("t", "a"), json!({"deliver_to": "http://127.1/"})).wrong("deliver_to");
    assert_eq!(why, "is 127.0.0.1, a loopback address; --allow-private-targets would allow it");
}

#[test]
fn some_targets_are_refused_whatever_is_allowed() {
    let server = Server::with(&["--allow-private-targets", "--target-networks", "0.0.0.0/0"]);
    for target in
        ["http://169.254.169.254/", "http://0.0.0.0/", "http://224.0.0.1/", "http://[fe80::1]/", "http://[::]/"]
    {
        server.put(&job_path("t", "a"), json!({ "deliver_to": target })).wrong("deliver_to");
    }
}

#[test]
fn a_name_is_judged_when_it_is_called() {
    // A name that is not this machine's own, but means it: what a rebinding resolver would answer.
    let name = std::fs::read_to_string("/etc/hostname").unwrap_or_default().trim().to_owned();
    let means_private = std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 80)).is_ok_and(|mut found| {
        found.any(|address| match address.ip() {
            std::net::IpAddr::V4(four) => four.is_private() || four.is_loopback(),
            std::net::IpAddr::V6(six) => six.is_loopback() || six.is_unique_local(),
        })
    });
    if name.is_empty() || !means_private {
        println!("this machine's name means nothing private here: nothing to try");
        return;
    }
    let server = Server::new();
    push(&server, "a", &format!("http://{name}/"), json!({}));
    until("it is buried", || server.job("t", "a")["state"] == "buried");
    let dead = server.job("t", "a");
    assert_eq!(dead["buried_reason"], "target_refused");
    assert!(dead["attempts"][0]["error"].as_str().unwrap().contains("--allow-private-targets"), "{dead}");
}

#[test]
fn what_was_allowed_once_is_judged_again() {
    let receiver = Receiver::always(200);
    let mut server = Server::with(&["--allow-private-targets"]);
    push(&server, "a", &receiver.url("/"), json!({"delay": "1h"}));
    server.terminate();
    server.end();
    server.start_again_with(&[]);
    server.advance("1h");
    until("it is buried", || server.job("t", "a")["state"] == "buried");
    assert_eq!(server.job("t", "a")["buried_reason"], "target_refused");
    assert!(receiver.rest().is_empty());
}

#[test]
fn networks_and_ports_are_what_the_configuration_says() {
    let receiver = Receiver::always(200);
    let port = receiver.address.port().to_string();
    let server = Server::with(&["--target-networks", "127.0.0.0/8", "--target-ports", &port, "--target-ports", "443"]);
    push(&server, "a", &receiver.url("/"), json!({}));
    assert_eq!(receiver.next().job(), "a");
    let why = server.put(&job_path("t", "b"), json!({"deliver_to": "http://127.0.0.1:9/"})).wrong("deliver_to");
    assert_eq!(why, "has port 9, which this server may not call; see target_ports");
    server.put(&job_path("t", "b"), json!({"deliver_to": "https://10.0.0.1/"})).wrong("deliver_to");

    for (flag, value, wanted) in [
        ("--target-networks", "10.0.0.1/8", "has bits set after its first 8"),
        ("--target-networks", "private", "is not a network"),
        ("--target-ports", "http", "is not a port from 1 to 65535"),
        ("--target-ports", "0", "is not a port from 1 to 65535"),
    ] {
        let ended = run(&mut dwell(&["serve", "--store", "memory:", "--listen", "127.0.0.1:0", flag, value]));
        assert_eq!(ended.code, Some(78), "{ended:?}");
        assert!(ended.stderr.contains(wanted), "{ended:?}");
    }
}

#[test]
fn dwell_dev_calls_this_machine_and_no_other() {
    let receiver = Receiver::always(200);
    let (mut child, address, _) = start(&mut dwell(&["dev", "--listen", "127.0.0.1:0"]));
    let client = crate::client::Client::new(address);
    client.put_job("t", "a", json!({"deliver_to": receiver.url("/")}));
    assert_eq!(receiver.next().job(), "a");
    client.put(&job_path("t", "b"), json!({"deliver_to": "http://10.0.0.1/"})).wrong("deliver_to");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_proxy_of_the_environment_is_not_used() {
    let (proxy, receiver) = (Receiver::always(502), Receiver::always(200));
    let proxy_url = proxy.url("");
    let mut command = dwell(&["dev", "--listen", "127.0.0.1:0"]);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, &proxy_url);
    }
    let (mut child, address, _) = start(&mut command);
    let client = crate::client::Client::new(address);
    client.put_job("t", "a", json!({"deliver_to": receiver.url("/")}));
    assert_eq!(receiver.next().job(), "a");
    assert!(proxy.rest().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
}
