//! Who may talk to a server: whoever shows a token; without tokens, whoever is on this machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::client::{Answer, job_path};
use crate::server::{Server, temporary};

fn info_with(server: &Server, authorization: &str) -> Answer {
    server.send("GET", "/v1/info", &[("authorization", authorization)], None)
}

#[test]
fn a_server_with_tokens_wants_one() {
    let server = Server::with(&["--token", "secret", "--token", "other+/=."]);
    for authorization in ["Bearer secret", "bearer secret", "Bearer other+/=."] {
        info_with(&server, authorization).ok(200);
    }
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    info_with(&server, &basic(":secret")).ok(200);
    for authorization in [
        "",
        "secret",
        "Bearer",
        "Bearer ",
        "Bearer secre",
        "Bearer secrets",
        "Bearer SECRET",
        "Bearer secret other",
        "Token secret",
        "Basic secret",
    ] {
        let answer = info_with(&server, authorization);
        answer.problem(401, "unauthorized");
        assert!(answer.header("www-authenticate").unwrap().contains("Bearer"), "{answer:?}");
    }
    info_with(&server, &basic("secret:")).problem(401, "unauthorized");
    for path in ["/v1/info", "/v1/topics", "/metrics", "/openapi.json", "/docs/", "/", "/v1/dev/clock", "/nothing"] {
        let answer = server.get(path);
        answer.problem(401, "unauthorized");
        assert!(answer.header("www-authenticate").is_some(), "{path}");
    }
    server.put(&job_path("t", "a"), json!({})).problem(401, "unauthorized");
    let json = ("content-type", "application/json");
    let put = server.send("PUT", &job_path("t", "a"), &[("authorization", "Bearer secret"), json], Some(b"{}"));
    assert_eq!(put.ok(201)["outcome"], "created", "what was refused was not done");
    assert!(server.banner.contains("token") && !server.banner.contains("secret"), "{}", server.banner);
    assert!(!server.log().contains("secret"), "tokens are never printed");
}

#[test]
fn tokens_come_from_a_file_too() {
    let directory = temporary();
    let file = directory.path().join("tokens");
    std::fs::write(&file, "first\n\n  second  \n").unwrap();
    let server = Server::with(&["--token-file", file.to_str().unwrap()]);
    info_with(&server, "Bearer first").ok(200);
    info_with(&server, "Bearer second").ok(200);
    for wrong in ["Bearer third", "Bearer first\u{20}second"] {
        info_with(&server, wrong).problem(401, "unauthorized");
    }
    server.get("/v1/info").problem(401, "unauthorized");
}

/// A request with these headers, as a browser would be made to send it.
fn status(server: &Server, headers: &str) -> String {
    let request = format!("GET /v1/info HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
    server.raw(request.as_bytes()).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_server_without_tokens_is_for_this_machine() {
    let server = Server::new();
    let port = server.address.port();
    for host in ["localhost", "127.0.0.1", "[::1]", "LocalHost", "dwell.localhost"] {
        assert_eq!(status(&server, &format!("host: {host}\r\n")), "200", "{host}");
        assert_eq!(status(&server, &format!("host: {host}:{port}\r\n")), "200", "{host}");
    }
    for host in ["example.com", "127.0.0.1.example.com", "localhost.example.com", "10.0.0.1", "0.0.0.0", "[::2]"] {
        assert_eq!(status(&server, &format!("host: {host}:{port}\r\n")), "403", "{host}");
    }
    let own = format!("host: 127.0.0.1:{port}\r\n");
    assert_eq!(status(&server, &format!("{own}origin: http://127.0.0.1:{port}\r\n")), "200");
    for origin in ["http://example.com", "null", "http://127.0.0.1:1", "https://localhost"] {
        assert_eq!(status(&server, &format!("{own}origin: {origin}\r\n")), "403", "{origin}");
    }
    assert_eq!(status(&server, &format!("{own}sec-fetch-site: cross-site\r\n")), "403");
    let refused = server.send("PUT", &job_path("t", "a"), &[("origin", "http://example.com")], None);
    refused.problem(403, "forbidden");
    server.get("/v1/topics/t").problem(404, "not_found");
}

#[test]
fn a_server_with_tokens_goes_by_them_alone() {
    let server = Server::with(&["--token", "secret"]);
    let token = "authorization: Bearer secret\r\n";
    for headers in ["host: example.com\r\n", "host: example.com\r\norigin: http://elsewhere.example\r\n"] {
        assert_eq!(status(&server, &format!("{headers}{token}")), "200", "{headers}");
        assert!(status(&server, headers).starts_with('4'), "{headers}");
    }
    // A password that a browser sends by itself is no sign that its user wants this.
    let basic = format!("authorization: Basic {}\r\n", STANDARD.encode(":secret"));
    assert_eq!(status(&server, &format!("host: example.com\r\norigin: http://elsewhere.example\r\n{basic}")), "403");
    assert_eq!(status(&server, &format!("host: example.com\r\n{basic}")), "200");
}
