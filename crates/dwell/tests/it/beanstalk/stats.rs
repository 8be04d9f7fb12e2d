//! What the server, tubes and jobs look like.

use super::server;
use super::talk::Talk;

const SERVER: &str = "current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed \
    current-jobs-buried cmd-put cmd-peek cmd-peek-ready cmd-peek-delayed cmd-peek-buried cmd-reserve \
    cmd-reserve-with-timeout cmd-delete cmd-release cmd-use cmd-watch cmd-ignore cmd-bury cmd-kick cmd-touch cmd-stats \
    cmd-stats-job cmd-stats-tube cmd-list-tubes cmd-list-tube-used cmd-list-tubes-watched cmd-pause-tube job-timeouts \
    total-jobs max-job-size current-tubes current-connections current-producers current-workers current-waiting \
    total-connections pid version rusage-utime rusage-stime uptime binlog-oldest-index binlog-current-index \
    binlog-records-migrated binlog-records-written binlog-max-size draining id hostname os platform";

const TUBE: &str = "name current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed \
    current-jobs-buried total-jobs current-using current-watching current-waiting cmd-delete cmd-pause-tube pause \
    pause-time-left";

const JOB: &str = "id tube state pri age delay ttr time-left file reserves timeouts releases buries kicks";

/// The keys of a document, in order.
fn keys(talk: &mut Talk, line: &str) -> String {
    let reply = talk.ask(line);
    let lines = reply.lines().skip(2);
    lines.map(|line| line.split(':').next().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn documents_have_all_the_keys_of_beanstalkd_in_its_order() {
    let server = server();
    let mut talk = Talk::to(&server);
    let id = talk.put("0 0 60", "x");
    assert_eq!(keys(&mut talk, "stats"), SERVER.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(keys(&mut talk, "stats-tube default"), TUBE.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(keys(&mut talk, &format!("stats-job {id}")), JOB);
    assert_eq!(talk.ask("stats-job 999999"), "NOT_FOUND");
    assert_eq!(talk.ask("stats-tube nowhere"), "NOT_FOUND");
}

#[test]
fn a_job_tells_what_happened_to_it() {
    let server = server();
    let mut talk = Talk::to(&server);
    talk.ask("use t");
    talk.ask("watch t");
    let id = talk.put("77 3600 90", "x");
    let ask = format!("stats-job {id}");
    let stats = talk.document(&ask);
    let of = |key: &str| &*stats[key];
    assert_eq!((of("id"), of("tube"), of("state")), (&*id.to_string(), "\"t\"", "delayed"));
    assert_eq!((of("pri"), of("delay"), of("ttr"), of("age"), of("file")), ("77", "3600", "90", "0", "0"));
    assert!(["3600", "3599"].contains(&of("time-left")), "{}", of("time-left"));
    server.advance("1h");
    assert!(talk.ask("reserve").starts_with("RESERVED"));
    let stats = talk.document(&ask);
    assert_eq!((&*stats["state"], &*stats["reserves"], &*stats["age"]), ("reserved", "1", "3600"));
    assert!(["90", "89", "88"].contains(&&*stats["time-left"]), "{}", stats["time-left"]);
    talk.ask(&format!("release {id} 5 0"));
    talk.ask("reserve");
    talk.ask(&format!("bury {id} 6"));
    talk.ask(&format!("kick-job {id}"));
    talk.ask("reserve");
    server.advance("91s");
    let stats = talk.document(&ask);
    let counters = ["reserves", "timeouts", "releases", "buries", "kicks", "pri", "state", "time-left"];
    assert_eq!(counters.map(|key| &*stats[key]), ["3", "1", "1", "1", "1", "6", "ready", "0"]);
}

#[test]
fn tubes_and_the_server_count_jobs_and_connections() {
    let server = server();
    let (mut producer, mut worker) = (Talk::to(&server), Talk::to(&server));
    producer.ask("use t");
    for numbers in ["0 0 60", "2000 0 60", "0 0 60", "0 0 60", "0 100 60"] {
        producer.put(numbers, "x");
    }
    worker.ask("watch t");
    let buried = worker.ask("reserve");
    let id = buried.split(' ').nth(1).unwrap();
    worker.ask(&format!("bury {id} 0"));
    let deleted = worker.ask("reserve");
    worker.ask(&format!("delete {}", deleted.split(' ').nth(1).unwrap()));
    worker.ask("reserve-with-timeout 5");
    let jobs = ["urgent", "ready", "reserved", "delayed", "buried"].map(|state| format!("current-jobs-{state}"));
    for document in ["stats-tube t", "stats"] {
        let stats = producer.document(document);
        assert_eq!(jobs.clone().map(|key| stats[&key].clone()), ["0", "1", "1", "1", "1"], "{document}");
        assert_eq!(stats["total-jobs"], "5", "{document}");
    }
    let stats = producer.document("stats-tube t");
    let counted = ["current-using", "current-watching", "cmd-delete", "current-waiting"];
    assert_eq!(counted.map(|key| &*stats[key]), ["1", "1", "1", "0"]);
    let stats = producer.document("stats");
    let counted =
        ["cmd-put", "cmd-reserve", "cmd-reserve-with-timeout", "cmd-delete", "cmd-bury", "cmd-use", "cmd-watch"];
    assert_eq!(counted.map(|key| &*stats[key]), ["5", "2", "1", "1", "1", "1", "1"]);
    let counted = ["current-connections", "total-connections", "current-producers", "current-workers", "current-tubes"];
    assert_eq!(counted.map(|key| &*stats[key]), ["2", "2", "1", "1", "2"]);
    assert_eq!((&*stats["draining"], &*stats["max-job-size"]), ("false", "1048576"));
    assert!(stats["version"].starts_with("\"1.13+dwell."), "{}", stats["version"]);
    assert!(stats["id"].len() == 16 && u64::from_str_radix(&stats["id"], 16).is_ok(), "{}", stats["id"]);
}
