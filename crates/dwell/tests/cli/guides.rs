//! The guides: what they print as `$ command` is run, and must say what is printed below it. `…` stands for whatever
//! differs from run to run, and how far away things are is not compared; a server whose clock can be moved keeps anyone from waiting.

use std::fs;
use std::path::Path;

use crate::bash::{play, spaced, spans};
use crate::world::Server;

/// A command of a guide, and what it is to say.
#[derive(Debug)]
struct Step {
    line: usize,
    command: String,
    wanted: Vec<String>,
}

#[test]
fn what_guides_print_is_what_happens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides");
    let (mut played, mut wrong) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let steps = steps(&fs::read_to_string(&path).unwrap());
        if steps.is_empty() {
            continue;
        }
        let name = path.file_name().unwrap().display().to_string();
        let server = Server::start_with(&["--dev-clock"]);
        let commands: Vec<String> = steps.iter().map(|step| step.command.clone()).collect();
        for (step, said) in steps.iter().zip(play(&server, &commands)) {
            let mut lines: Vec<String> = said.text.lines().map(plainly).collect();
            if said.code != "0" {
                lines.push(format!("[{}]", said.code));
            }
            let fits =
                lines.len() == step.wanted.len() && lines.iter().zip(&step.wanted).all(|(is, wanted)| fits(is, wanted));
            if !fits {
                let (wanted, is) = (step.wanted.join("\n"), lines.join("\n"));
                wrong.push(format!("{name}:{}: {}\n--- wanted\n{wanted}\n--- said\n{is}", step.line, step.command));
            }
        }
        played.push(name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(played.len() >= 5, "{played:?}");
}

/// The commands of a guide: what begins with `$ ` in its blocks marked `console`.
fn steps(guide: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (index, line) in guide.lines().enumerate() {
        match line.strip_prefix("$ ") {
            _ if line.starts_with("```") => inside = line == "```console",
            Some(command) if inside => {
                steps.push(Step { line: index + 1, command: command.to_owned(), wanted: Vec::new() });
            }
            None if inside => steps.last_mut().unwrap().wanted.push(plainly(line)),
            _ => {}
        }
    }
    steps
}

/// A line without what a slow machine changes: by how much a table is spaced, and what is left of half an hour.
fn plainly(line: &str) -> String {
    spaced(&spans(line))
}

/// Whether a line is as it was wanted, with anything where `…` stands.
fn fits(line: &str, wanted: &str) -> bool {
    let Some((start, more)) = wanted.split_once('…') else { return line == wanted };
    let Some(rest) = line.strip_prefix(start) else { return false };
    (0..=rest.len()).filter(|at| rest.is_char_boundary(*at)).any(|at| fits(&rest[at..], more))
}

#[test]
fn dots_stand_for_anything_and_nothing_else_does() {
    for (line, wanted, is) in [
        ("due 12, in 5m", "due …, in 5m", true),
        ("due 12, in 5m", "due …", true),
        ("due 12", "due …, in 5m", false),
        ("a", "a", true),
        ("ab", "a", false),
        ("x a y b z", "…a…b…", true),
    ] {
        assert_eq!(fits(line, wanted), is, "{line} {wanted}");
    }
}
