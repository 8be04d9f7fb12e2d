//! Starting, stopping, and who may come in.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::talk::{Talk, address};
use super::{server, server_with};
use crate::server::{Server, dwell, run, start, temporary, timed, until};

#[test]
fn it_is_off_unless_it_is_asked_for() {
    let server = Server::new();
    assert!(!server.banner.contains("beanstalk"), "{}", server.banner);
}

#[test]
fn port_0_is_any_free_one_and_is_printed() {
    let server = server();
    assert!(!address(&server.banner).ends_with(":0"), "{}", server.banner);
    assert_eq!(Talk::to(&server).ask("list-tube-used"), "USING default");
}

#[test]
fn a_socket_in_the_file_system_serves_too_and_goes_with_the_server() {
    let directory = temporary();
    let path = directory.path().join("dwell.sock");
    let place = format!("unix:{}", path.display());
    let mut server = Server::with(&["--beanstalk", &place]);
    assert_eq!(address(&server.banner), place);
    let mut talk = Talk::to(&server);
    let id = talk.put("0 0 60", "x");
    assert_eq!(talk.ask("reserve"), format!("RESERVED {id} 1\nx"));
    let ended = run(&mut dwell(&["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--beanstalk", &place]));
    assert!(ended.code == Some(1) && ended.stderr.contains(&place), "it is taken: {ended:?}");
    drop(talk);
    server.crash_and_start();
    assert_eq!(Talk::to(&server).ask("list-tube-used"), "USING default", "what a crash left is no obstacle");
    server.terminate();
    assert_eq!(server.end().code(), Some(0));
    assert!(!path.exists());
}

#[test]
fn other_machines_are_served_only_on_demand() {
    for place in ["0.0.0.0:0", "[::]:0"] {
        let flags = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--beanstalk", place];
        let ended = run(&mut dwell(&flags));
        assert_eq!(ended.code, Some(78), "{ended:?}");
        let fixed = format!("dwell serve --beanstalk {place} --beanstalk-insecure");
        assert!(ended.stderr.contains(&fixed), "the line that mends it: {ended:?}");
    }
    let server = Server::with(&["--beanstalk", "0.0.0.0:0", "--beanstalk-insecure"]);
    let port = address(&server.banner).rsplit(':').next().unwrap().to_owned();
    assert_eq!(Talk::at(&format!("127.0.0.1:{port}")).ask("list-tube-used"), "USING default");
    assert!(server.banner.contains("no credentials"), "{}", server.banner);
}

#[test]
fn an_address_that_is_none_is_refused() {
    for wrong in ["", "11300", "localhost", "unix:", "127.0.0.1:99999"] {
        let ended = run(&mut dwell(&["serve", "--store", "memory:", "--beanstalk", wrong]));
        assert_eq!(ended.code, Some(78), "{wrong}: {ended:?}");
        assert!(ended.stderr.contains("--beanstalk"), "{ended:?}");
    }
}

#[test]
fn a_dev_server_speaks_it() {
    let directory = temporary();
    let mut command = dwell(&["dev", "--listen", "127.0.0.1:0", "--beanstalk", "127.0.0.1:0"]);
    let command = command.env("TMPDIR", directory.path()).stderr(Stdio::null());
    let (mut child, _, banner) = start(command);
    assert_eq!(Talk::at(&address(&banner)).ask("list-tube-used"), "USING default");
    child.kill().unwrap();
    child.wait().unwrap();
    // Without being told where: on the usual port, or on any other if that one is taken.
    for _ in 0..2 {
        let (child, _, banner) = start(dwell(&["dev", "--listen", "127.0.0.1:0"]).stderr(Stdio::null()));
        let child = Ending(child);
        assert_eq!(Talk::at(&address(&banner)).ask("list-tube-used"), "USING default");
        drop(child);
    }
}

struct Ending(std::process::Child);

impl Drop for Ending {
    fn drop(&mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn sigusr1_refuses_new_jobs_and_nothing_else() {
    let server = server();
    let mut talk = Talk::to(&server);
    let id = talk.put("0 0 60", "x");
    server.signal(Signal::USR1);
    until("it drains", || talk.document("stats")["draining"] == "true");
    talk.send("put 0 0 60 5\r\nstats\r\n");
    assert_eq!(talk.reply(), "DRAINING");
    assert_eq!(talk.ask("reserve"), format!("RESERVED {id} 1\nx"));
    assert_eq!(talk.ask(&format!("delete {id}")), "DELETED");
}

#[test]
fn sigterm_answers_who_waits_and_lets_holders_settle() {
    let mut server = server();
    let (mut worker, mut waiting, mut idle) = (Talk::to(&server), Talk::to(&server), Talk::to(&server));
    let id = worker.put("0 0 60", "x");
    assert!(worker.ask("reserve").starts_with("RESERVED"));
    waiting.send("reserve\r\n");
    until("it waits", || idle.document("stats")["current-waiting"] == "1");
    let (status, took) = timed(|| {
        server.terminate();
        assert_eq!(waiting.reply(), "TIMED_OUT");
        assert!(waiting.is_closed() && idle.is_closed());
        worker.send("put 0 0 60 5\r\nstats\r\n");
        assert_eq!(worker.reply(), "DRAINING");
        assert_eq!(worker.ask("reserve"), "TIMED_OUT");
        assert_eq!(worker.ask(&format!("delete {id}")), "DELETED");
        assert!(worker.is_closed(), "it holds nothing more");
        server.end()
    });
    assert_eq!(status.code(), Some(0));
    assert!(took < Duration::from_secs(8), "{took:?}");
    server.start_again();
    assert_eq!(Talk::to(&server).ask(&format!("peek {id}")), "NOT_FOUND");
}

#[test]
fn what_is_still_held_at_the_end_is_given_back() {
    let mut server = server();
    let mut worker = Talk::to(&server);
    let id = worker.put("0 0 3600", "x");
    assert!(worker.ask("reserve").starts_with("RESERVED"));
    let (status, took) = timed(|| {
        server.terminate();
        server.end()
    });
    assert_eq!(status.code(), Some(0));
    assert!((Duration::from_secs(8)..Duration::from_secs(20)).contains(&took), "{took:?}");
    server.start_again();
    assert_eq!(Talk::to(&server).document(&format!("stats-job {id}"))["state"], "ready");
}

#[test]
fn a_connection_too_many_is_closed() {
    let server = server_with(&["--max-connections", "2"]);
    let (mut one, mut two) = (Talk::to(&server), Talk::to(&server));
    assert_eq!([one.ask("list-tube-used"), two.ask("list-tube-used")], ["USING default", "USING default"]);
    assert!(Talk::to(&server).is_closed());
    drop(one);
    until("there is room again", || {
        let mut talk = Talk::to(&server);
        talk.send("list-tube-used\r\n");
        !talk.is_closed()
    });
}

#[test]
fn a_store_that_failed_is_an_internal_error() {
    let directory = temporary();
    let flags = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--beanstalk", "127.0.0.1:0"];
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_dwell")]).args(flags);
    let (child, _, banner) = start(command.env_clear().current_dir(directory.path()).stderr(Stdio::null()));
    let child = Ending(child);
    let mut talk = Talk::at(&address(&banner));
    let id = talk.put("0 0 60", "x");
    let limit = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::prlimit(Some(Pid::from_child(&child.0)), rustix::process::Resource::Fsize, limit).unwrap();
    talk.send("put 0 0 60 5\r\nstats\r\n");
    assert_eq!(talk.reply(), "INTERNAL_ERROR");
    for line in ["reserve", "stats", "peek-ready", "kick 1", "list-tubes", &format!("delete {id}")] {
        assert_eq!(talk.ask(line), "INTERNAL_ERROR", "{line}");
    }
    assert_eq!(talk.ask("list-tube-used"), "USING default");
}
