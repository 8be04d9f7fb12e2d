//! Where the output goes.

use std::process::Stdio;

use crate::world::{Server, ended};

/// As after `dwell topics | head -1`.
#[test]
fn a_reader_that_went_away_is_no_error() {
    let server = Server::start();
    server.dwell(&["put", "t", "a"]).good();
    for args in [&["topics"][..], &["topics", "--json"], &["get", "t", "a"], &["jobs", "t"], &["timeline"]] {
        let mut child = server.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let ran = ended(child);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let server = Server::start();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = ended(server.command(&["topics"]).stdout(Stdio::from(full)).spawn().unwrap());
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("dwell: cannot write to standard output: No space left"), "{ran:?}");
}

/// What other people put into a job cannot take over a terminal.
#[test]
fn bodies_and_errors_do_not_move_the_cursor() {
    let server = Server::start();
    server.dwell(&["put", "t", "a", "--body", "x\u{9b}2J"]).good();
    let token = server.token("t");
    server.dwell(&["nack", &token, "--error", "\u{1b}[2J", "--delay", "1h"]).good();
    for args in [&["get", "t", "a"][..], &["jobs", "t"]] {
        let shown = server.dwell(args).good();
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    }
}
