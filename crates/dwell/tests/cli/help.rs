//! `--help`.

use crate::world::{command, run};

const VERBS: [&str; 16] = [
    "put", "get", "move", "cancel", "lease", "ack", "nack", "tail", "topics", "jobs", "timeline", "redrive", "pause",
    "resume", "try", "doctor",
];

#[test]
fn every_verb_has_help_with_an_example() {
    let all = run(&mut command(&["--help"])).good();
    for verb in VERBS {
        assert!(all.contains(&format!("\n  {verb} ")), "{verb} is not in the list");
        let help = run(&mut command(&[verb, "--help"])).good();
        let (_, example) = help.split_once("Example").unwrap();
        assert!(example.contains(&format!("dwell {verb}")), "{help}");
        assert!(help.contains("--json") && help.contains("--url") && help.contains("--token"), "{help}");
        assert!(run(&mut command(&["help", verb])).good().contains("Example"));
    }
}

#[test]
fn the_program_says_what_it_is_for() {
    let help = run(&mut command(&["--help"])).good();
    assert!(help.starts_with("A durable delay queue"), "{help}");
    assert!(help.contains("7 nothing leased in time"), "{help}");
}
