//! `dwell bench`.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::world::{Server, command, ended, interrupt, run};

/// A run short enough for a test.
const SHORT: [&str; 6] = ["--for", "1s", "--warm-up", "200ms", "--connections", "4"];

fn bench(server: &Server, args: &[&str]) -> Value {
    server.json(&[&["bench"], args, &SHORT].concat()).object()
}

fn series<'a>(report: &'a Value, name: &str) -> &'a Value {
    let all = report["series"].as_array().unwrap();
    all.iter().find(|series| series["name"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

fn names(report: &Value) -> Vec<&str> {
    report["series"].as_array().unwrap().iter().map(|series| series["name"].as_str().unwrap()).collect()
}

#[test]
fn a_rate_is_kept_and_nothing_stays() {
    let server = Server::start();
    for (args, wanted) in [
        (&["put", "--rate", "200"][..], &["put", "put_service"][..]),
        (&["put", "--rate", "1000", "--batch", "20"], &["put", "put_service"]),
        (&["put-lease-ack", "--rate", "200", "--consumers", "2"], &["put", "put_service", "handed_over", "ack"]),
        (&["put-lease-ack", "--rate", "1000", "--batch", "20"], &["put", "put_service", "handed_over", "ack"]),
        (&["delayed", "--rate", "100", "--delay", "300ms"], &["put", "put_service", "lateness", "ack"]),
    ] {
        let report = bench(&server, args);
        assert_eq!(names(&report), wanted, "{report}");
        assert_eq!((&report["mode"], &report["protocol"]), (&"open_loop".into(), &"http".into()), "{report}");
        let rate: u64 = args[2].parse().unwrap();
        // One second of measuring: what was meant to leave in it is counted, however late it left.
        let batch = report["batch"].as_u64().unwrap();
        let counted = series(&report, "put")["count"].as_u64().unwrap();
        assert!(counted.abs_diff(rate) <= batch, "{counted} of {rate}: {report}");
        for last in &wanted[2..] {
            assert_eq!(series(&report, last)["count"], counted, "{report}");
        }
        for series in report["series"].as_array().unwrap() {
            let of = |name: &str| series[name].as_u64().unwrap();
            let rising = [of("p50_us"), of("p90_us"), of("p99_us"), of("p999_us"), of("max_us")];
            assert!(rising.is_sorted() && rising[0] > 0, "{series}");
        }
        assert_eq!((&report["failed"], &report["not_taken"]), (&0.into(), &0.into()), "{report}");
        assert_eq!(server.json(&["topics"]).objects(), [""; 0], "{args:?} left something");
    }
}

#[test]
fn without_a_schedule_it_says_so() {
    let server = Server::start();
    let report = bench(&server, &["put-lease-ack", "--max-throughput", "--batch", "10"]);
    assert_eq!((&report["mode"], report.get("rate")), (&"max_throughput".into(), None), "{report}");
    assert!(report["rate_reached"].as_f64().unwrap() > 0.0 && report["never_sent"] == 0, "{report}");
    let said = server.dwell(&[&["bench", "--max-throughput"][..], &SHORT].concat()).good();
    assert!(said.starts_with("put over http, as many as there can be, one job a request, 4 connections"), "{said}");
    assert!(said.contains("\nput ") && said.ends_with("this says how much, not how long under load.\n"), "{said}");
    assert_eq!(server.json(&["topics"]).objects(), [""; 0]);
}

#[test]
fn it_speaks_beanstalk() {
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}/b", directory.path().display());
    let server = Server::start_with(&["--beanstalk", &socket]);
    for args in [
        &["put", "--rate", "500", "--batch", "10"][..],
        &["put-lease-ack", "--rate", "200"],
        &["delayed", "--rate", "100", "--delay", "1s"],
    ] {
        let report = bench(&server, &[args, &["--beanstalk", &socket]].concat());
        assert_eq!((&report["protocol"], &report["failed"]), (&"beanstalk".into(), &0.into()), "{report}");
        assert_eq!(report["not_taken"], 0, "{report}");
        assert_eq!(report["left"], "the topic stays, empty: over beanstalk it cannot be deleted");
    }
    for topic in server.json(&["topics"]).objects() {
        let counts = &topic["counts"];
        assert_eq!(counts.as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>(), 0, "{topic}");
    }
}

#[test]
fn being_interrupted_leaves_nothing_behind() {
    let server = Server::start();
    let child = server.command(&["bench", "--rate", "100", "--for", "1h"]).spawn().unwrap();
    while server.json(&["topics"]).objects().is_empty() {}
    interrupt(&child);
    let ran = ended(child);
    assert_eq!((ran.code, ran.err.as_str()), (1, "dwell: interrupted\n"));
    assert_eq!(server.json(&["topics"]).objects(), [""; 0]);
}

#[test]
fn who_is_not_there_is_unreachable() {
    let http = run(&mut command(&["bench", "--url", "http://127.0.0.1:1"])).bad(6);
    assert!(http.starts_with("dwell: cannot reach http://127.0.0.1:1: connection refused"), "{http}");
    for address in ["127.0.0.1:1", "unix:/nowhere/at/all"] {
        let said = run(&mut command(&["bench", "--beanstalk", address])).bad(6);
        assert!(said.starts_with(&format!("dwell: cannot reach {address}: ")), "{said}");
    }
    for (args, wanted) in [
        (&["--rate", "0"][..], "\"0\" is not a rate; try 1000, jobs a second"),
        (&["--rate", "5", "--max-throughput"], "cannot be used with"),
        (&["--beanstalk", "127.0.0.1:1", "--delay", "1500ms"], "must be whole seconds"),
        (&["fly"], "put-lease-ack"),
    ] {
        let said = run(command(&["bench"]).args(args)).bad(2);
        assert!(said.contains(wanted), "{args:?}: {said}");
    }
}

/// What does not speak the protocol is told from who is not there.
#[test]
fn another_protocol_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answered = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        stream
    });
    let said = run(&mut command(&["bench", "--beanstalk", &address])).bad(1);
    assert_eq!(said, format!("dwell: {address}: it does not speak the beanstalk protocol\n"));
    answered.join().unwrap();
}

/// Carries bytes to a server, and once, after so many pieces, carries none for a while, in neither direction.
struct Proxy {
    address: String,
}

struct Gate {
    seen: AtomicU64,
    shut: Mutex<bool>,
    opened: Condvar,
}

const PIECES: u64 = 60;
const STALL: Duration = Duration::from_millis(1_500);

impl Gate {
    #[expect(clippy::disallowed_methods, reason = "a server that stalls does so for a time")]
    fn pass(&self) {
        if self.seen.fetch_add(1, Ordering::Relaxed) == PIECES {
            *self.shut.lock().unwrap() = true;
            thread::sleep(STALL);
            *self.shut.lock().unwrap() = false;
            self.opened.notify_all();
        }
        drop(self.opened.wait_while(self.shut.lock().unwrap(), |shut| *shut).unwrap());
    }
}

impl Proxy {
    fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let to = server.url.strip_prefix("http://").unwrap().to_owned();
        let gate = Arc::new(Gate { seen: AtomicU64::new(0), shut: Mutex::new(false), opened: Condvar::new() });
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(&to).unwrap();
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    let gate = Arc::clone(&gate);
                    thread::spawn(move || {
                        let mut buffer = vec![0; 65_536];
                        while let Ok(count @ 1..) = from.read(&mut buffer) {
                            gate.pass();
                            if to.write_all(&buffer[..count]).is_err() {
                                return;
                            }
                        }
                    });
                }
            }
        });
        Self { address }
    }
}

/// A server that stalls for a second and a half out of three seconds makes about half of the requests late: those that
/// were meant to leave meanwhile, too, not only the few that were under way.
#[test]
fn requests_that_could_not_leave_count_as_late() {
    let server = Server::start();
    let proxy = Proxy::before(&server);
    let mut bench =
        command(&["bench", "--rate", "100", "--for", "3s", "--warm-up", "0s", "--connections", "2", "--json"]);
    let report = run(bench.args(["--url", &format!("http://{}", proxy.address)])).object();
    let (put, service) = (series(&report, "put"), series(&report, "put_service"));
    assert_eq!((&put["count"], &service["count"]), (&300.into(), &300.into()), "{report}");
    // Of 300 requests about 150 met the stall; the tenth that waited longest waited for more than a second.
    assert!(put["p90_us"].as_u64().unwrap() > 1_000_000, "{report}");
    assert!(service["max_us"].as_u64().unwrap() > 1_000_000, "the stall was there: {report}");
    assert!(service["p90_us"].as_u64().unwrap() < 1_000_000, "only those under way were slow to be served: {report}");
}

/// A server that cannot keep up is said not to, and what it never got is not forgotten.
#[test]
fn a_server_that_does_not_keep_up_is_found_out() {
    let server = Server::start();
    let args = ["bench", "put", "--rate", "1000000", "--for", "1s", "--warm-up", "0s", "--connections", "1"];
    let report = server.json(&args).object();
    let (put, done) = (series(&report, "put")["count"].as_u64().unwrap(), report["rate_reached"].as_f64().unwrap());
    assert_eq!(put, 1_000_000, "{report}");
    assert!(report["never_sent"].as_u64().unwrap() > 500_000 && done < 500_000.0, "{report}");
    assert!(series(&report, "put")["p50_us"].as_u64().unwrap() > 1_000_000, "{report}");
}
