//! `dwell try`.

use crate::world::{Server, ended, interrupt, next_line};

#[test]
fn three_jobs_come_in_time_and_leave_nothing_behind() {
    let server = Server::start();
    let seen = server.json(&["try"]).objects();
    assert_eq!(seen.iter().map(|job| &job["id"]).collect::<Vec<_>>(), ["1s", "3s", "5s"]);
    for job in &seen {
        assert!(job["due_at"].is_string() && job["lateness_ms"].is_u64(), "{job}");
    }
    assert_eq!(server.json(&["topics"]).objects(), [""; 0]);
}

#[test]
fn being_interrupted_leaves_nothing_behind_either() {
    let server = Server::start();
    let mut child = server.command(&["try"]).spawn().unwrap();
    assert!(next_line(&mut child).starts_with("Three jobs on dwell-try-"));
    let line = next_line(&mut child);
    assert!(line.starts_with("  1s  due 20") && line.ends_with(" ms late"), "{line}");
    interrupt(&child);
    let ran = ended(child);
    assert_eq!((ran.code, ran.err.as_str()), (1, "dwell: interrupted\n"));
    assert_eq!(server.json(&["topics"]).objects(), [""; 0]);
}

#[test]
fn a_server_whose_time_stands_still_cannot_be_tried() {
    let server = Server::start_with(&["--dev-clock"]);
    for words in [&["try"][..], &["bench", "delayed"]] {
        let said = server.dwell(words).bad(1);
        assert!(said.contains("time stands still until POST /v1/dev/clock moves it"), "{said}");
    }
    assert_eq!(server.json(&["topics"]).objects(), [""; 0]);
}
