//! How far long work has come: a bar on standard error, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often a bar that does not move is drawn again.
const TICK: Duration = Duration::from_millis(200);

/// A bar. Without a terminal it is not there.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// So many things.
    pub(crate) fn of(total: u64, what: &'static str) -> Self {
        Self::styled(
            ProgressBar::new(total),
            &format!("{{bar:40}} {{human_pos}}/{{human_len}} {what}  {{msg}} {{eta}}"),
        )
    }

    /// So many bytes.
    pub(crate) fn of_bytes(total: u64) -> Self {
        Self::styled(ProgressBar::new(total), "{bar:40} {bytes}/{total_bytes}  {msg} {eta}")
    }

    /// Nobody knows how many.
    pub(crate) fn unknown() -> Self {
        Self::styled(ProgressBar::new_spinner(), "{spinner} {msg}  {elapsed}")
    }

    fn styled(bar: ProgressBar, template: &str) -> Self {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("##-"));
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// It has come so far.
    pub(crate) fn at(&self, position: u64, message: String) {
        self.0.set_position(position);
        self.0.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
