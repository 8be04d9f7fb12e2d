//! Running a command whose output is both shown as it comes and read.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::Context;

/// Runs `command`, passes its standard output through and gives each line to `on_line`.
pub(crate) fn run(command: &mut Command, mut on_line: impl FnMut(&str)) -> anyhow::Result<ExitStatus> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let output = child.stdout.take().context("the command has no standard output")?;
    pass_through(BufReader::new(output), &mut on_line)?;
    Ok(child.wait()?)
}

fn pass_through(mut output: impl BufRead, on_line: &mut impl FnMut(&str)) -> io::Result<()> {
    let mut line = Vec::new();
    // Bytes, not `lines()`: what a test prints need not be UTF-8.
    while output.read_until(b'\n', &mut line)? > 0 {
        io::stdout().lock().write_all(&line)?;
        on_line(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(())
}
