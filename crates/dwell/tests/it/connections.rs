//! Connections: HTTP/1.1 and HTTP/2, kept alive, bounded in number and time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::job_path;
use crate::server::{Server, timed, until};

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header as HPACK writes it without any table: a name that is in the static table by its index, or in full.
fn literal(index: u8, name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    if index > 0 { [vec![index], text(value)].concat() } else { [vec![0], text(name), text(value)].concat() }
}

/// Reads frames until so many streams have ended; answers the first byte of each stream's head, and its data.
fn read_streams(stream: &mut TcpStream, count: usize) -> Vec<(u32, u8, Vec<u8>)> {
    let (mut streams, mut ended): (Vec<(u32, u8, Vec<u8>)>, usize) = (Vec::new(), 0);
    while ended < count {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).unwrap();
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match head[3] {
            0 => streams.iter_mut().find(|(known, _, _)| *known == id).unwrap().2.extend(payload),
            1 => streams.push((id, payload[0], Vec::new())),
            4 if head[4] & 1 == 0 => stream.write_all(&frame(4, 1, 0, &[])).unwrap(),
            3 | 7 => panic!("the server gave up: {payload:?}"),
            _ => continue,
        }
        ended += usize::from(head[3] < 2 && head[4] & 1 == 1);
    }
    streams
}

#[test]
fn http2_is_spoken_by_prior_knowledge() {
    let server = Server::new();
    let mut stream = server.connect();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).unwrap();
    // Indexed: GET is 2, PUT has no index; http is 6. Names: authority 1, method 2, path 4, content-type 31 (in full here).
    let get = |path: &str| [vec![0x82, 0x86], literal(4, "", path), literal(1, "", "localhost")].concat();
    stream.write_all(&frame(1, 5, 1, &get("/v1/info"))).unwrap();
    stream.write_all(&frame(1, 5, 3, &get("/healthz"))).unwrap();
    let put = [
        literal(2, "", "PUT"),
        vec![0x86],
        literal(4, "", "/v1/topics/t/jobs/a"),
        literal(1, "", "localhost"),
        literal(0, "content-type", "application/json"),
    ];
    stream.write_all(&frame(1, 4, 5, &put.concat())).unwrap();
    stream.write_all(&frame(0, 1, 5, b"{\"delay\": \"1h\", \"body\": 2}")).unwrap();
    let streams = read_streams(&mut stream, 3);
    let json = |wanted: u32| -> Value {
        let (_, _, data) = streams.iter().find(|(id, _, _)| *id == wanted).unwrap();
        serde_json::from_slice(data).unwrap()
    };
    let status_200 = 0x88;
    assert!(streams.iter().filter(|(id, first, _)| *id < 5 && *first == status_200).count() == 2, "{streams:?}");
    assert_eq!((&json(1)["limits"]["batch"], &json(3)["status"]), (&json!(10_000), &json!("ok")));
    assert_eq!(json(5)["outcome"], "created");
    assert_eq!(server.job("t", "a")["body"], 2);
}

#[test]
fn a_connection_is_kept_alive() {
    let server = Server::new();
    let mut stream = server.connect();
    for _ in 0..3 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = [0; 1_024];
        let length = stream.read(&mut answer).unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..length]));
    }
    // A refusal does not end it either.
    stream.write_all(b"PUT /v1/topics/-/jobs/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}").unwrap();
    let mut answer = [0; 1_024];
    let length = stream.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer[..length]));
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let length = stream.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..length]));
}

#[test]
fn a_head_must_arrive_within_fifteen_seconds() {
    let server = Server::new();
    let mut stream = server.connect();
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    stream.write_all(b"GET /v1/info HTTP/1.1\r\nhost: localhost\r\n").unwrap();
    // One that sends a little every now and then gets no longer.
    let ((), took) = timed(|| {
        for _ in 0..60 {
            if stream.write_all(b"x: y\r\n").is_err() {
                return;
            }
            match stream.read(&mut [0; 512]) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        panic!("the connection is still there");
    });
    assert!((Duration::from_secs(13)..Duration::from_secs(25)).contains(&took), "{took:?}");
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_connection_too_many_is_told_to_come_again() {
    let server = Server::with(&["--max-connections", "2"]);
    let mut kept: Vec<TcpStream> = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        assert!(stream.read(&mut [0; 512]).unwrap() > 0);
        kept.push(stream);
    }
    let answer = server.raw(b"");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.to_lowercase().contains("retry-after:") && answer.contains("\"overloaded\""), "{answer}");
    kept.clear();
    until("there is room again", || server.get("/healthz").status == 200);
    server.put(&job_path("t", "a"), json!({})).ok(201);
}

#[test]
fn a_crowd_of_parked_slow_and_broken_clients_holds_nobody_up() {
    let server = Server::new();
    server.put("/v1/topics/t/policy", json!({})).ok(200);
    let lease = "POST /v1/topics/t/lease HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 content-length: 15\r\n\r\n{\"wait\": \"60s\"}";
    let mut crowd = Vec::new();
    for _ in 0..300 {
        let mut stream = server.connect();
        stream.write_all(lease.as_bytes()).unwrap();
        crowd.push(stream);
    }
    server.parked("t", 300);
    let memory = || {
        let text = server.get("/metrics").body();
        let line =
            text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes ")).unwrap().to_owned();
        line.parse::<f64>().unwrap()
    };
    let before = memory();
    for number in 0..200 {
        let mut stream = server.connect();
        let sent: &[u8] = match number % 4 {
            // Half a head; a body that never comes; nonsense; and, below, answers that nobody reads.
            0 => b"POST /v1/jobs HTTP/1.1\r\nhost: local",
            1 => {
                b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                   content-length: 60000000\r\n\r\n{\"jobs\": ["
            }
            2 => &[0x16, 3, 1, 0, 200, 255, 0, 13, 10, 13, 10],
            _ => b"",
        };
        // One that is refused at once may be closed before all is written.
        drop(stream.write_all(sent));
        if number % 4 == 3 {
            stream.set_nonblocking(true).unwrap();
            let asking = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200);
            drop(stream.write(asking.as_bytes()));
        }
        crowd.push(stream);
    }
    for number in 0..100 {
        let id = number.to_string();
        server.put_job("own", &id, json!({"body": id}));
        let job = server.lease_one("own");
        assert_eq!(job["body"], id.as_str());
        server.settle(&job, "ack", json!({})).ok(200);
    }
    let grown = memory() - before;
    assert!(grown < 64e6, "200 clients that misbehave took {grown} bytes");
    // All who wait are served.
    let jobs: Vec<_> = (0..300).map(|_| json!({"topic": "t"})).collect();
    server.post("/v1/jobs", json!({ "jobs": jobs })).ok(200);
    for stream in &mut crowd[..300] {
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
    }
    server.parked("t", 0);
}

#[test]
fn bodies_that_are_announced_and_do_not_come_keep_nobody_out() {
    let server = Server::new();
    // Four of these would be all the room there is, had they sent what they announce.
    let head = "PUT /v1/topics/t/jobs/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 67108864\r\n\r\n{";
    let mut idle: Vec<TcpStream> = (0..8).map(|_| server.connect()).collect();
    for stream in &mut idle {
        stream.write_all(head.as_bytes()).unwrap();
    }
    // They are being read by the time that requests sent after them are answered, each on its own connection.
    for _ in 0..20 {
        let (_, took) = timed(|| server.put_job("t", "good", json!({})));
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    drop(idle);
}
