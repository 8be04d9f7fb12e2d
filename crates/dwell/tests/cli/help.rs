//! `--help`.

use crate::world::{command, run};

/// Verbs that see to files and ask no server.
const FILES: [&str; 2] = ["backup", "repair"];

const VERBS: [&str; 21] = [
    "put", "get", "move", "cancel", "lease", "ack", "nack", "tail", "topics", "jobs", "timeline", "redrive", "pause",
    "resume", "try", "bench", "export", "import", "doctor", "backup", "repair",
];

#[test]
fn every_verb_has_help_with_an_example() {
    let all = run(&mut command(&["--help"])).good();
    for verb in VERBS {
        assert!(all.contains(&format!("\n  {verb} ")), "{verb} is not in the list");
        let help = run(&mut command(&[verb, "--help"])).good();
        let (_, example) = help.split_once("Example").unwrap();
        assert!(example.contains(&format!("dwell {verb}")), "{help}");
        assert!(help.contains("--json"), "{help}");
        let asks = !FILES.contains(&verb);
        assert!(help.contains("--url") == asks && help.contains("--token") == asks, "{help}");
        assert!(run(&mut command(&["help", verb])).good().contains("Example"));
    }
}

#[test]
fn every_source_of_an_import_has_help_with_an_example() {
    assert!(run(&mut command(&["--help"])).good().contains("\n  import "));
    let help = run(&mut command(&["import", "redis-zset", "--help"])).good();
    assert!(help.contains("Examples:\n  dwell import redis-zset "), "{help}");
    assert!(help.contains("--json") && help.contains("--url") && help.contains("--token"), "{help}");
}

#[test]
fn the_program_says_what_it_is_for() {
    let help = run(&mut command(&["--help"])).good();
    assert!(help.starts_with("A durable delay queue"), "{help}");
    assert!(help.contains("7 nothing leased in time"), "{help}");
}

#[test]
fn shells_and_manuals_know_every_verb() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&mut command(&["completions", shell])).good();
        for verb in VERBS {
            assert!(script.contains(verb), "{shell} does not know {verb}");
        }
    }
    let page = run(&mut command(&["man"])).good();
    assert!(page.contains(".TH dwell 1") && page.contains("Exit codes: 0 ok"), "{page}");
    for verb in VERBS {
        assert!(page.contains(verb), "the page does not have {verb}");
        let own = run(&mut command(&["man", verb])).good();
        assert!(own.contains(&format!("dwell\\-{verb}")) && own.contains("Example"), "{own}");
    }
    assert_eq!(run(&mut command(&["man", "fly"])).bad(2), "dwell: there is no command fly\n");
    run(&mut command(&["completions", "fly"])).bad(2);
}
