//! The README's first minute, as it is printed.

use std::process::Command;

use crate::server::Server;

const README: &str = include_str!("../../../../README.md");

#[test]
fn the_first_minute_works_as_printed() {
    let (_, rest) = README.split_once("## The first minute").unwrap();
    let script = rest.split("```").nth(1).unwrap().strip_prefix("sh\n").unwrap();
    assert!(
        script.matches("localhost:3935").count() >= 6,
        "the lines talk to the server that the first command starts"
    );
    let server = Server::in_real_time(&[]);
    let directory = tempfile::tempdir().unwrap();
    let script = script.replace("localhost:3935", &server.address.to_string());
    let ran = Command::new("bash").args(["-euc", &script]).current_dir(directory.path()).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let mut rest = said.as_str();
    for wanted in [
        "\"id\":\"order-42\"",
        "\"outcome\":\"created\"",
        "HTTP/1.1 204",
        "\"id\":\"order-43\"",
        "\"version\":",
        "\"state\":\"leased\",\"body\":{\"order\": 43}",
        "\"token\":",
        "{\"status\":200}",
    ] {
        let at = rest.find(wanted).unwrap_or_else(|| panic!("{wanted} is missing in what was said:\n{said}"));
        rest = &rest[at + wanted.len()..];
    }
}
