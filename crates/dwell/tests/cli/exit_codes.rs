//! The numbers that are not shown with their verbs.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::world::{Server, command, run};

#[test]
fn a_server_that_is_not_there_is_6() {
    // A port that nobody listens on; a free one could be another test's the next moment.
    let url = "http://127.0.0.1:1";
    let refused = format!("dwell: cannot reach {url}: connection refused; is a server running? try: dwell serve\n");
    for args in [&["topics"][..], &["put", "t", "a"], &["tail", "t"], &["try"], &["lease", "t", "--wait", "1s"]] {
        assert_eq!(run(command(args).args(["--url", url])).bad(6), refused, "{args:?}");
    }
}

#[test]
fn no_token_or_a_wrong_one_is_5() {
    let server = Server::start_with(&["--token", "secret-of-the-tests"]);
    let refused = "dwell: not authorised; --token or DWELL_TOKEN must be a token of this server\n";
    assert_eq!(server.dwell(&["topics"]).bad(5), refused);
    assert_eq!(server.dwell(&["topics", "--token", "wrong"]).bad(5), refused);
    server.dwell(&["topics", "--token", "secret-of-the-tests"]).good();
    run(server.command(&["topics"]).env("DWELL_TOKEN", "secret-of-the-tests")).good();
}

#[test]
fn something_that_is_not_dwell_is_1() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let refused = run(&mut command(&["topics", "--url", &url])).bad(1);
    assert_eq!(refused, format!("dwell: {url} is not a Dwell server: it answers 404 Not Found\n"));
    served.join().unwrap();
}

#[test]
fn what_makes_no_sense_is_2() {
    for args in [
        &["tidy"][..],
        &["put"],
        &["get", "t"],
        &["topics", "--jsno"],
        &["topics", "--url", "localhost:3935"],
        &["put", "-t", "a"],
        &["put", "a b", "a"],
        &["lease", "t", "--max", "0"],
    ] {
        run(&mut command(args)).bad(2);
    }
    // What only the server knows is the same number.
    let server = Server::start();
    assert_eq!(server.dwell(&["put", "t", "a", "--ttr", "1ms"]).bad(2), "dwell: \"ttr\": must be from 1s to 1d\n");
}

#[test]
fn a_bad_configuration_is_78() {
    run(&mut command(&["serve", "--store", "paper:"])).bad(78);
}
