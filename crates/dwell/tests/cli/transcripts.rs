//! Every verb as people see it: what is typed, what is said, and the number at the end. One file a verb in
//! `transcripts/`, played against a server of its own; `DWELL_BLESS=1` writes them anew.
//!
//! What differs from run to run has a name instead: `<time>`, `<span>`, `<token>`, `<url>`. Tables are shown with two
//! spaces between columns.

use std::fs;
use std::path::Path;

use crate::bash::{play, spaced, spans};
use crate::world::Server;

#[test]
fn what_is_said_is_what_was_said() {
    let mut wrong = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/transcripts");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 23, "a verb has no transcript: {files:?}");
    for path in files {
        let wanted = fs::read_to_string(&path).unwrap();
        let played = played(&wanted);
        if std::env::var_os("DWELL_BLESS").is_some() {
            fs::write(&path, &played).unwrap();
        } else if played != wanted {
            let name = path.file_name().unwrap().display();
            wrong.push(format!("=== {name}\n--- wanted\n{wanted}\n--- played\n{played}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Plays a transcript: its comments and commands stay, and after each command comes what it says now.
fn played(transcript: &str) -> String {
    // Only what measures time needs some that passes.
    let flags: &[&str] = if transcript.contains("$ dwell try") { &[] } else { &["--dev-clock"] };
    let server = Server::start_with(flags);
    let kept: Vec<&str> = transcript.lines().filter(|line| line.starts_with('#') || line.starts_with("$ ")).collect();
    let commands: Vec<String> = kept.iter().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect();
    let mut outputs = play(&server, &commands).into_iter();
    let mut played = String::new();
    for line in kept {
        played.push_str(line);
        played.push('\n');
        if line.starts_with("$ ") {
            let said = outputs.next().unwrap();
            played.push_str(&normal(&said.text, &server.url));
            if said.code != "0" {
                played.extend(["[", &said.code, "]\n"]);
            }
        }
    }
    played
}

/// The same, whenever and wherever it is played.
fn normal(text: &str, url: &str) -> String {
    let text = named(&text.replace(url, "<url>"));
    text.lines().flat_map(|line| [spaced(&spans(line)), "\n".to_owned()]).collect()
}

/// Times and tokens by name.
fn named(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(end) = time(rest) {
            out.push_str("<time>");
            rest = &rest[end..];
        } else if let Some(after) = rest.strip_prefix("\"token\":\"") {
            out.push_str("\"token\":\"<token>");
            rest = &after[after.find('"').unwrap()..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// How long the time of this decade at the beginning is: `2026-11-15T17:38:00.250Z`.
fn time(text: &str) -> Option<usize> {
    const SHAPE: &str = "202#-##-##T##:##:##.###Z";
    let start = text.get(..SHAPE.len())?;
    let fits = |(shape, is): (char, char)| if shape == '#' { is.is_ascii_digit() } else { shape == is };
    SHAPE.chars().zip(start.chars()).all(fits).then_some(SHAPE.len())
}
