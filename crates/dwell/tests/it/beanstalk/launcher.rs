//! `dwell beanstalkd`: beanstalkd's own flags.

use std::process::{Child, Command, Stdio};

use super::talk::{Talk, address};
use crate::server::{dwell, run, start_any, temporary};

struct Launched {
    child: Child,
    banner: String,
}

impl Launched {
    fn new(command: &mut Command) -> Self {
        let (child, banner) = start_any(command.stderr(Stdio::null()));
        Self { child, banner }
    }

    fn talk(&self) -> Talk {
        Talk::at(&address(&self.banner))
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn it_starts_as_beanstalkd_does() {
    let directory = temporary();
    let data = directory.path().join("data");
    let data = data.to_str().unwrap();
    let flags = ["beanstalkd", "-l", "127.0.0.1", "-p0", "-b", data, "-z", "70000", "-VVf0", "-s4096", "-c", "-n"];
    let server = Launched::new(&mut dwell(&flags));
    assert!(!server.banner.contains("http://"), "HTTP only on demand: {}", server.banner);
    assert!(server.banner.contains("survives a power cut"), "{}", server.banner);
    let mut talk = server.talk();
    assert_eq!(talk.document("stats")["max-job-size"], "70000");
    let id = talk.put("0 0 60", "x");
    drop(server);
    let server = Launched::new(&mut dwell(&["beanstalkd", "-p", "0", "-b", data, "-f", "50"]));
    assert!(server.banner.contains("50 ms"), "{}", server.banner);
    assert_eq!(server.talk().ask(&format!("peek {id}")), format!("FOUND {id} 1\nx"));
    assert_eq!(server.talk().document("stats")["max-job-size"], "65535");
    drop(server);
    let server = Launched::new(&mut dwell(&["beanstalkd", "-p", "0", "-F", "-b", data, "--listen", "127.0.0.1:0"]));
    assert!(server.banner.contains("had not yet written"), "{}", server.banner);
    assert!(server.banner.contains("http://127.0.0.1:"), "{}", server.banner);
}

#[test]
fn without_a_directory_jobs_are_in_memory() {
    let directory = temporary();
    let server = Launched::new(dwell(&["beanstalkd", "-p", "0"]).current_dir(directory.path()));
    assert!(server.banner.contains("in memory"), "{}", server.banner);
    server.talk().put("0 0 60", "x");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_socket_in_the_file_system_needs_no_port() {
    let directory = temporary();
    let place = format!("unix:{}", directory.path().join("b.sock").display());
    let server = Launched::new(&mut dwell(&["beanstalkd", "-l", &place]));
    assert_eq!(server.talk().ask("list-tube-used"), "USING default");
}

#[test]
fn what_it_cannot_do_it_says() {
    let directory = temporary();
    std::fs::write(directory.path().join("binlog.7"), "").unwrap();
    let with_binlog = directory.path().to_str().unwrap();
    for (flags, says) in [
        (vec!["-b", with_binlog], "binlog"),
        (vec!["-l", "0.0.0.0", "-p", "0"], "dwell beanstalkd -l 0.0.0.0 -p 0 --beanstalk-insecure"),
        (vec!["-u", "nobody-at-all"], "User=nobody-at-all"),
        (vec!["-z", "99999999"], "16777216"),
        (vec!["-z", "0"], "16777216"),
        (vec!["-f", "60001"], "-F never syncs"),
    ] {
        let ended = run(dwell(&["beanstalkd"]).args(&flags));
        assert_eq!(ended.code, Some(78), "{flags:?}: {ended:?}");
        assert!(ended.stderr.contains(says), "{flags:?}: {ended:?}");
    }
    for flags in [vec!["-x"], vec!["-z", "many"], vec!["-p", "70000"], vec!["-f", "0", "-F"], vec!["extra"]] {
        let ended = run(dwell(&["beanstalkd"]).args(&flags));
        assert_eq!(ended.code, Some(2), "{flags:?}: {ended:?}");
    }
    for flags in [["-v"], ["-h"]] {
        assert_eq!(run(dwell(&["beanstalkd"]).args(flags)).code, Some(0), "{flags:?}");
    }
}

#[test]
fn sockets_of_systemd_are_not_taken_for_granted() {
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" beanstalkd -p 0";
    let ended = run(Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_dwell")]));
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.stderr.contains(".socket"), "{ended:?}");
}
