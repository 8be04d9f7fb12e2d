//! What is sent wrong, and what is too long.

use super::talk::{Talk, converse};
use super::{server, server_with};

#[test]
fn mistakes_have_their_words() {
    let server = server();
    let mut talk = Talk::to(&server);
    let bad = [
        "put",
        "PUT 1 1 1 1",
        "",
        "bogus",
        "reserve x",
        "reserve-with-timeout x",
        "delete",
        "delete x",
        "delete 1 ",
        "put 1 2 3 x",
        "put -1 2 3 4",
        "put 4294967296 0 1 1",
        "use",
        "use ",
        "use -x",
        "use a b",
        "watch -x",
        "use .",
        "use $own",
        "kick x",
        "kick -1",
        "touch 1x",
        "release 1 1",
        "bury 1",
        "stats-tube",
        "stats-job x",
        "pause-tube x",
        "pause-tube -x 1",
        "list-tubes now",
        "peek-ready please",
    ];
    for line in bad {
        let wanted = match line {
            "put" | "PUT 1 1 1 1" | "" | "bogus" | "delete" | "use" => "UNKNOWN_COMMAND",
            _ => "BAD_FORMAT",
        };
        if line != "PUT 1 1 1 1" {
            assert_eq!(talk.ask(line), wanted, "{line}");
        }
    }
    assert_eq!(talk.ask("list-tube-used"), "USING default", "nothing of that changed anything");
}

#[test]
fn a_line_has_224_bytes_at_the_most() {
    let server = server();
    let mut talk = Talk::to(&server);
    let name = "x".repeat(200);
    assert_eq!(talk.ask(&format!("use {name}")), format!("USING {name}"));
    assert_eq!(talk.ask(&format!("use {name}x")), "BAD_FORMAT");
    assert_eq!(talk.ask(&format!("peek {}1", "0".repeat(216))), "NOT_FOUND", "224 with its end");
    assert_eq!(talk.ask(&format!("peek {}1", "0".repeat(217))), "BAD_FORMAT", "225 with its end");
    assert_eq!(talk.ask(&"x".repeat(1 << 20)), "BAD_FORMAT");
    assert_eq!(talk.ask("list-tube-used"), format!("USING {name}"), "the rest is read as ever");
}

#[test]
fn a_job_too_big_is_swallowed_and_the_connection_goes_on() {
    let server = server_with(&["--max-body", "100KiB"]);
    let mut talk = Talk::to(&server);
    let (fits, large) = ("x".repeat(102_400), "stats\r\n".repeat(100_000));
    talk.put("0 0 60", &fits);
    talk.send(format!("put 0 0 60 {}\r\n{large}\r\nlist-tube-used\r\n", large.len()));
    assert_eq!([talk.reply(), talk.reply()], ["JOB_TOO_BIG", "USING default"]);
    assert_eq!(talk.document("stats")["max-job-size"], "102400");
    assert_eq!(talk.document("stats-tube default")["total-jobs"], "1");
}

#[test]
fn a_body_that_does_not_end_is_refused() {
    converse(
        &server(),
        "A> put 0 0 60 3
         A> abcde
         A< EXPECTED_CRLF
         A< UNKNOWN_COMMAND
         A> put 0 0 60 3
         A> abc
         A< INSERTED {a}",
    );
}

/// A delay that no store takes would otherwise be cut, and the job come early. Its body is no command.
#[test]
fn what_lies_further_ahead_than_ten_years_is_refused() {
    converse(
        &server(),
        "A> put 0 315360001 60 5
         A> stats
         A< BAD_FORMAT
         A> put 0 315360000 60 5
         A> stats
         A< INSERTED {a}
         A> reserve-job {a}
         A< RESERVED {a} 5
         A> stats
         A> release {a} 0 315360001
         A< BAD_FORMAT
         A> pause-tube default 315360001
         A< BAD_FORMAT
         A> delete {a}
         A< DELETED",
    );
}

#[test]
fn bytes_may_come_one_by_one() {
    let server = server();
    let mut talk = Talk::to(&server);
    for byte in b"put 0 0 60 3\r\na\r\n\r\nreserve\r\n" {
        talk.send([*byte]);
    }
    let reply = talk.reply();
    let id = reply.strip_prefix("INSERTED ").unwrap();
    assert_eq!(talk.reply(), format!("RESERVED {id} 3\na\r\n"));
}

/// A page in a browser can make it send requests to any port of this machine: none of it must be taken for a command.
#[test]
fn http_requests_are_hung_up_on() {
    let server = server();
    let put = "put 0 0 60 1\r\nx\r\n";
    for head in ["POST / HTTP/1.1\r\n", "GET /", "Host: localhost\r\n", "PUT /a HTTP/1.1\r\nhost: a\r\n\r\n"] {
        let mut talk = Talk::to(&server);
        talk.send(format!("{head}{put}"));
        assert!(talk.is_closed(), "{head}");
    }
    assert_eq!(Talk::to(&server).document("stats")["cmd-put"], "0");
}
