//! Commands as people type them, one after the other in one shell, against a server of their own.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::world::Server;

const DWELL: &str = env!("CARGO_BIN_EXE_dwell");

/// What stands between the outputs of two commands.
const MARK: &str = "\u{1}next";

/// What a command said, on both its outputs, and the number at its end.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) code: String,
}

/// Runs commands in one shell, in a directory of their own, with the program on the path.
pub(crate) fn play(server: &Server, commands: &[String]) -> Vec<Said> {
    let place = tempfile::tempdir().unwrap();
    symlink(DWELL, place.path().join("dwell")).unwrap();
    let step = |command: &String| format!("{{ {command}\n}} 2>&1; code=$?; printf '{MARK} %s\\n' $code\n");
    let script: String = commands.iter().map(step).collect();
    let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(place.path()).env("PATH", path).env("DWELL_URL", &server.url);
    let ran = bash.env_remove("DWELL_TOKEN").env("COLUMNS", "100").output().unwrap();
    let mut said = Vec::new();
    let mut rest = String::from_utf8(ran.stdout).unwrap();
    while let Some((text, after)) = rest.split_once(MARK) {
        let (code, next) = after.split_once('\n').unwrap();
        said.push(Said { text: text.to_owned(), code: code.trim().to_owned() });
        rest = next.to_owned();
    }
    assert_eq!(said.len(), commands.len(), "the shell ended before its time: {}", String::from_utf8_lossy(&ran.stderr));
    said
}

/// Two spaces between columns at the most, none at the end.
pub(crate) fn spaced(line: &str) -> String {
    let mut out = line.to_owned();
    while out.contains("   ") {
        out = out.replace("   ", "  ");
    }
    out.trim_end().to_owned()
}

/// How far away things are, and how late, by name.
pub(crate) fn spans(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_span = |word: &str| {
        let word = word.trim_start_matches('(').trim_end_matches([')', ',', ';']);
        word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with(['s', 'm', 'h', 'd', 'w'])
    };
    let mut out = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let after_in = index > 0 && words[index - 1].trim_start_matches('(') == "in";
        let before_ago = words.get(index + 1).is_some_and(|next| next.starts_with("ago"));
        let late = words.get(index + 1) == Some(&"ms") && words.get(index + 2) == Some(&"late");
        if (after_in || before_ago) && is_span(word) {
            let open = if word.starts_with('(') { "(" } else { "" };
            let close: String = word.chars().rev().take_while(|c| [')', ',', ';'].contains(c)).collect();
            out.push(format!("{open}<span>{close}"));
        } else if *word == "(now)" {
            out.push("(<span> ago)".to_owned());
        } else if late {
            out.push("<span>".to_owned());
        } else {
            out.push((*word).to_owned());
        }
    }
    out.join(" ")
}
