//! `kill -9` in a loop: nothing that was acknowledged is lost, nothing that was acked comes back.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use dwell_core::{LeaseRequest, Settle, Verdict};
use dwell_store_embedded::{Config, EmbeddedStore};

use crate::subject::fresh_directory;
use crate::world::{find, new_job, topic};

const DIRECTORY: &str = "DWELL_TEST_KILL_DIRECTORY";
const ROUNDS: usize = 8;

fn config(directory: &Path) -> Config {
    Config { segment: 256 << 10, ..Config::in_directory(directory) }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_however_often_it_is_killed() {
    let directory = fresh_directory();
    let (mut put, mut acked) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for line in run_and_kill(&directory, round) {
            match line.split_once(' ') {
                Some(("put", name)) => put.push(name.to_owned()),
                Some(("ack", name)) => acked.push(name.to_owned()),
                // Leased and perhaps acked: the answer was on its way.
                Some(("try", name)) => put.retain(|other| other != name),
                _ => {}
            }
        }
        let store = EmbeddedStore::open(&config(&directory)).expect("a restart recovers");
        for name in put.iter().filter(|name| !acked.contains(name)) {
            let job = find(&store, name).await.unwrap_or_else(|| panic!("{name} is lost in round {round}"));
            assert_eq!(job.job.body.as_bytes(), name.as_bytes());
        }
        for name in &acked {
            assert_eq!(find(&store, name).await, None, "{name} came back in round {round}");
        }
    }
    assert!(
        put.len() > ROUNDS && acked.len() > ROUNDS,
        "{} put, {} acked: too little to mean anything",
        put.len(),
        acked.len()
    );
    std::fs::remove_dir_all(directory).unwrap();
}

/// Runs this very test program as a writer until it has said enough, and kills it in the middle of things.
fn run_and_kill(directory: &Path, round: usize) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::writer", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .env("DWELL_TEST_KILL_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    while lines.len() < 150 + round * 37 {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "the writer ended by itself after {lines:?}");
        lines.push(line.trim().to_owned());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    // A last line without its end was not said.
    lines.extend(rest.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|line| line.trim().to_owned()));
    lines
}

#[tokio::test]
#[ignore = "the other half of nothing_acknowledged_is_lost_however_often_it_is_killed"]
async fn writer() {
    use dwell_core::Store;
    let directory = std::env::var(DIRECTORY).expect("run by the other test");
    let round = std::env::var("DWELL_TEST_KILL_ROUND").expect("run by the other test");
    let store = EmbeddedStore::open(&config(Path::new(&directory))).unwrap();
    let say = |word: &str, name: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{word} {name}").unwrap();
        out.flush().unwrap();
    };
    for k in 0.. {
        let names: Vec<String> = (0..5).map(|j| format!("{round}-{k}-{j}")).collect();
        let answers = store.put(names.iter().map(|name| new_job(name)).collect()).await.unwrap();
        assert!(answers.iter().all(Result::is_ok));
        for name in &names {
            say("put", name);
        }
        let held = store.lease(LeaseRequest::of(topic()).up_to(2)).await.unwrap();
        for job in held {
            let name = job.view.job.id.as_str().to_owned();
            say("try", &name);
            let settled = store.settle(vec![Settle::new(job.token.unwrap(), Verdict::Ack)]).await.unwrap();
            if settled[0].is_ok() {
                say("ack", &name);
            }
        }
    }
}
