//! `dwell repair`.

use std::path::PathBuf;

use clap::Args;
use dwell_store_embedded::{Checked, RepairOptions, Repaired, check_directory, repair_directory};
use serde_json::json;

use crate::exit::Exit;
use crate::output;

/// Make a damaged data directory usable again, with everything that can be read
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell repair ./dwell-data
  dwell repair ./dwell-data --check         look, and change nothing
  dwell repair ./dwell-data --reset-clock   the clock was once far ahead

No server may be using it. What can be read takes its place; the old files are
kept beside it, in DIR.damaged, until you remove them. What could not be read
is listed with file and place. Where an ack or a cancellation was lost, a job
may be handed out once more. If nothing is damaged, nothing is changed.

--check reads everything as a start would and sees whether every job is in
exactly one order and every count is what is there. Exits with 1 if not.")]
pub(crate) struct Repair {
    /// Directory that a server keeps its jobs in
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only look: whether it can be read, and whether every job is where it will be found
    #[arg(long, conflicts_with = "reset_clock")]
    check: bool,
    /// Forget what time the server has seen; the clock is right now
    #[arg(long)]
    reset_clock: bool,
    /// Print JSON: one object for each thing that could not be read, then one that sums up
    #[arg(long)]
    json: bool,
}

impl Repair {
    pub(super) fn run(self) -> Result<(), Exit> {
        if self.check {
            return self.check();
        }
        let options = RepairOptions { reset_clock: self.reset_clock };
        let Repaired { found, old } = repair_directory(&self.dir, options).map_err(Exit::failure)?;
        let old = old.map(|old| old.display().to_string());
        if self.json {
            for dropped in &found.dropped {
                output::object(&json!({ "file": dropped.file, "dropped": dropped.what }))?;
            }
            let dropped = found.dropped.len();
            let (jobs, topics) = (found.jobs, found.topics);
            return output::object(&json!({ "jobs": jobs, "topics": topics, "dropped": dropped, "old": old }));
        }
        for dropped in &found.dropped {
            output::line(&format!("dropped  {dropped}"))?;
        }
        let kept = format!("{} of {}", output::counted(found.jobs, "job"), output::counted(found.topics, "topic"));
        match old {
            None => output::line(&format!("nothing is damaged: {kept}")),
            Some(old) => {
                output::line(&format!("kept     {kept}"))?;
                output::line(&format!("old      {old}"))
            }
        }
    }

    fn check(&self) -> Result<(), Exit> {
        let checked = check_directory(&self.dir).map_err(Exit::failure)?;
        let Checked { jobs, topics, hidden, absent, wrong } = &checked;
        if self.json {
            let found = json!({ "jobs": jobs, "topics": topics, "hidden": hidden, "absent": absent, "wrong": wrong });
            output::object(&found)?;
        } else {
            for what in wrong {
                output::line(&format!("wrong    {what}"))?;
            }
            let looked = format!("{} of {}", output::counted(*jobs, "job"), output::counted(*topics, "topic"));
            output::line(&match what_is_wrong(&checked) {
                None => format!("good     {looked}, each in exactly one order"),
                Some(_) => format!("looked   at {looked}"),
            })?;
        }
        what_is_wrong(&checked).map_or(Ok(()), |what| Err(Exit::failure(what)))
    }
}

/// What a check has found to be wrong, in a line.
pub(super) fn what_is_wrong(checked: &Checked) -> Option<String> {
    let Checked { hidden, absent, wrong, .. } = checked;
    if checked.is_good() {
        return None;
    }
    if wrong.is_empty() {
        let hidden = output::counted(*hidden, "job");
        return Some(format!(
            "{hidden} in no order and {absent} counted that are not there; the next start sets it right"
        ));
    }
    let more = if wrong.len() > 1 { format!(", and {} more", wrong.len() - 1) } else { String::new() };
    Some(format!("{}{more}", wrong[0]))
}
