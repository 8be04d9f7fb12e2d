//! `dwell doctor`.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use crate::world::{Server, command, run};

/// A target that says this to whatever comes, once.
fn target(status: &'static str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let got = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut got, mut buffer) = (Vec::new(), [0; 4_096]);
        while !got.ends_with(b"\r\n\r\nnull") {
            let length = stream.read(&mut buffer).unwrap();
            assert_ne!(length, 0, "{}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&buffer[..length]);
        }
        stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 5\r\n\r\nhello").as_bytes()).unwrap();
        String::from_utf8(got).unwrap()
    });
    (url, got)
}

#[test]
fn a_server_that_is_well_is_found_to_be() {
    let server = Server::start();
    let said = server.dwell(&["doctor"]).good();
    assert!(said.contains("ok     server    Dwell ") && said.contains("note   store     memory"), "{said}");
    let unreachable = run(&mut command(&["doctor", "--url", "http://127.0.0.1:9"]));
    assert_eq!(unreachable.code, 1);
    assert!(unreachable.out.starts_with("WRONG  server"), "{unreachable:?}");
}

#[test]
fn a_target_is_sent_a_signed_sample() {
    let (url, got) = target("200 OK");
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let said = run(&mut command(&["doctor", &url, "--allow-private-targets", "--secret", secret])).good();
    let got = got.join().unwrap().to_lowercase();
    assert!(got.starts_with("post /hook ") && got.contains("webhook-signature: v1,"), "{got}");
    assert!(got.contains("dwell-topic: dwell.doctor"), "{got}");
    assert!(said.contains("a job would be acked: hello") && said.contains("ok     name      127.0.0.1"), "{said}");
    assert!(!said.contains("MfKQ"), "{said}");
}

#[test]
fn what_is_wrong_with_a_target_is_said() {
    let (url, got) = target("500 Oops");
    let ran = run(&mut command(&["doctor", &url, "--allow-private-targets", "--json"]));
    got.join().unwrap();
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains(r#""check":"answer","status":"wrong","detail":"the target answered 500"#), "{ran:?}");
    for (arguments, wanted) in [
        (&["doctor", "http://127.0.0.1/"][..], "a loopback address; --allow-private-targets would allow it"),
        (&["doctor", "example.com"], "must begin with http:// or https://"),
        (&["doctor", "https://example.com/", "--secret", "hush!"], "is not a secret"),
        (&["doctor", "http://nowhere.invalid/"], "its name does not resolve"),
    ] {
        let ran = run(&mut command(arguments));
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.out.contains("WRONG") && ran.out.contains(wanted), "{ran:?}");
    }
}

/// A server that is ahead of this machine, one that needs a token, and one that is not there.
#[test]
fn what_is_wrong_with_a_server_is_said_with_its_cure() {
    let server = Server::start_with(&["--dev-clock"]);
    let ask = |body: &str| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-s", "-H", "content-type: application/json", "-d", body])
            .arg(format!("{}/v1/dev/clock", server.url));
        assert!(curl.output().unwrap().status.success());
    };
    ask("{\"advance\": \"1h\"}");
    let ran = server.dwell(&["doctor"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "dwell: something is wrong\n"), "{ran:?}");
    assert!(ran.out.contains("WRONG  clock ") && ran.out.contains("ahead of this machine; set the clocks"), "{ran:?}");
    let guarded = Server::start_with(&["--token", "secret"]);
    let refused = guarded.dwell(&["doctor"]);
    assert!(refused.code == 1 && refused.out.starts_with("WRONG  server"), "{refused:?}");
    let known = guarded.dwell(&["doctor", "--token", "secret"]).good();
    assert!(known.contains("ok     exposure  it needs a token"), "{known}");
}
