//! Step `receivers`: the receivers of webhooks in `docs/guides/webhooks.md`, run exactly as they are printed there.
//!
//! Each has to take what a real server signs with its secret, also while that is rotated, and to refuse what is signed with
//! another or not at all.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver as Lines};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::packages::{self, succeed};
use super::server::Server;
use super::tally::Tally;
use crate::workspace::Workspace;

const GUIDE: &str = "docs/guides/webhooks.md";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const BODY: &str = "{\"payment\": 42, \"name\": \"Jürgen\"}";

/// A receiver takes this long to start, at the most: some are compiled first.
const PATIENCE: u32 = 600;

/// One language.
struct Language {
    /// What its block in the guide is marked with.
    mark: &'static str,
    /// What the file must be called.
    file: &'static str,
    /// A program it needs, and the package that has it.
    needs: (&'static str, &'static str),
    /// What has to be done before it is run.
    prepare: Option<&'static [&'static str]>,
    run: &'static [&'static str],
}

const LANGUAGES: [Language; 4] = [
    Language {
        mark: "python",
        file: "receiver.py",
        needs: ("python3", "python3"),
        prepare: None,
        run: &["python3", "receiver.py"],
    },
    Language {
        mark: "javascript",
        file: "receiver.js",
        needs: ("node", "nodejs"),
        prepare: None,
        run: &["node", "receiver.js"],
    },
    Language {
        mark: "go",
        file: "main.go",
        needs: ("go", "golang-go"),
        prepare: Some(&["go", "build", "-o", "receiver", "main.go"]),
        run: &["./receiver"],
    },
    Language {
        mark: "java",
        file: "Receiver.java",
        needs: ("javac", "default-jdk-headless"),
        prepare: Some(&["javac", "Receiver.java"]),
        run: &["java", "Receiver"],
    },
];

pub(crate) fn run(workspace: &Workspace, _tally: &mut Tally) -> anyhow::Result<()> {
    let guide = std::fs::read_to_string(workspace.root().join(GUIDE)).context(GUIDE)?;
    let server = Server::start(workspace, &["--allow-private-targets"])?;
    for language in LANGUAGES {
        println!("--- {}", language.mark);
        let place = workspace.metadata.target_directory.join("receivers").join(language.mark).into_std_path_buf();
        check(&language, &guide, &server, &place).with_context(|| format!("the receiver in {}", language.mark))?;
    }
    Ok(())
}

fn check(language: &Language, guide: &str, server: &Server, place: &Path) -> anyhow::Result<()> {
    packages::need_all(&[language.needs])?;
    std::fs::create_dir_all(place)?;
    std::fs::write(place.join(language.file), block(guide, language.mark)?)?;
    if let Some(prepare) = language.prepare {
        succeed(command(prepare, place)?.env("GOTOOLCHAIN", "local"))?;
    }
    let receiver = Receiver::start(language, place)?;
    let policy = format!("/v1/topics/{}/policy", language.mark);
    let test = format!("/v1/topics/{}/test-delivery", language.mark);
    let sample = format!("{{\"body\": {BODY}}}");
    for (secret, wanted) in [
        (format!("\"{SECRET}\""), true),
        (format!("[\"{OTHER}\", \"{SECRET}\"]"), true),
        (format!("[\"{SECRET}\", \"{OTHER}\"]"), true),
        (format!("\"{OTHER}\""), false),
        ("null".to_owned(), false),
    ] {
        let target = format!("http://127.0.0.1:{}/hook", receiver.port);
        ask(server, "PUT", &policy, &format!("{{\"deliver_to\": \"{target}\", \"deliver_secret\": {secret}}}"))?;
        let said = ask(server, "POST", &test, &sample)?;
        ensure!(said.contains(&format!("\"delivered\":{wanted}")), "signed with {secret}: {said}");
        ensure!(said.contains(if wanted { "\"status\":204" } else { "\"status\":401" }), "{said}");
        if wanted {
            let line = receiver.lines.recv_timeout(Duration::from_secs(10)).context("it printed nothing")?;
            ensure!(line.starts_with("received msg_") && line.ends_with(BODY), "it printed: {line}");
        }
    }
    ensure!(receiver.lines.try_recv().is_err(), "it believed what it should not have");
    Ok(())
}

/// The block of a guide that is marked so; there is exactly one.
fn block<'a>(guide: &'a str, mark: &str) -> anyhow::Result<&'a str> {
    let fence = format!("\n```{mark}\n");
    let mut found = guide.match_indices(&fence).map(|(at, _)| &guide[at + fence.len()..]);
    let (Some(start), None) = (found.next(), found.next()) else { bail!("{GUIDE} must have one block of {mark}") };
    let end = start.find("\n```\n").context("the block does not end")?;
    Ok(&start[..=end])
}

fn command(words: &[&str], place: &Path) -> anyhow::Result<Command> {
    let (program, arguments) = words.split_first().context("a command has words")?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(place).stdin(Stdio::null());
    Ok(command)
}

/// A receiver that runs. It ends with this value.
struct Receiver {
    process: Child,
    port: u16,
    lines: Lines<String>,
}

impl Receiver {
    fn start(language: &Language, place: &Path) -> anyhow::Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = command(language.run, place)?;
        command.env("PORT", port.to_string()).env("WEBHOOK_SECRET", SECRET).stdout(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("cannot start {}", language.run.join(" ")))?;
        let output = process.stdout.take().context("it has no standard output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut receiver = Self { process, port, lines };
        receiver.wait()?;
        Ok(receiver)
    }

    #[expect(clippy::disallowed_methods, reason = "another process gives no signal when it listens")]
    fn wait(&mut self) -> anyhow::Result<()> {
        for _ in 0..PATIENCE {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            ensure!(self.process.try_wait()?.is_none(), "it has ended");
            thread::sleep(Duration::from_millis(50));
        }
        bail!("it does not listen")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Asks the server something; answers what it said, which must be a success.
fn ask(server: &Server, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
    let host = server.url.strip_prefix("http://").context("a server has an address")?;
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{method} {path}: {answer}");
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_found_by_its_mark() {
        let guide = "text\n\n```sh\nno\n```\n\n```go\npackage main\n\nfunc\n```\n";
        assert_eq!(block(guide, "go").unwrap(), "package main\n\nfunc\n");
        assert!(block(guide, "java").is_err(), "there is none");
        assert!(block(&format!("{guide}{guide}"), "go").is_err(), "there are two");
    }
}
