//! `dwell completions`.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::output;

/// Print what makes a shell complete commands and flags
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell completions bash > /etc/bash_completion.d/dwell
  dwell completions zsh > \"${fpath[1]}/_dwell\"
  dwell completions fish > ~/.config/fish/completions/dwell.fish")]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, mut command: Command) -> Result<(), Exit> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command, "dwell", &mut text);
        output::line(String::from_utf8_lossy(&text).trim_end())
    }
}
