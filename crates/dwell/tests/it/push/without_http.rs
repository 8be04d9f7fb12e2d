//! A server without HTTP pushes, too.

use std::process::Stdio;

use serde_json::json;

use super::push;
use super::receiver::{Receiver, Reply};
use crate::server::{Server, dwell, start_any, temporary};

#[test]
fn a_server_that_serves_beanstalk_alone_pushes_what_is_due() {
    let directory = temporary();
    let data = directory.path().join("data").display().to_string();
    let receiver = Receiver::new(|_| Reply::status(200));
    // Its time stands still: the job is not due while it runs.
    let mut first = Server::with(&["--store", &format!("file:{data}"), "--allow-private-targets"]);
    push(&first, "a", &receiver.url("/"), json!({"delay": "1s"}));
    first.terminate();
    first.end();
    assert!(receiver.rest().is_empty());
    let flags = ["beanstalkd", "-p", "0", "-b", &data, "--allow-private-targets", "--accept-clock"];
    let (mut child, banner) = start_any(dwell(&flags).stderr(Stdio::null()));
    assert!(!banner.contains("http://"), "{banner}");
    assert_eq!(receiver.next().job(), "a");
    child.kill().unwrap();
    child.wait().unwrap();
}
