//! `dwell repair`.

use std::path::PathBuf;

use clap::Args;
use dwell_store_embedded::{RepairOptions, Repaired, repair_directory};
use serde_json::json;

use crate::exit::Exit;
use crate::output;

/// Make a damaged data directory usable again, with everything that can be read
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell repair ./dwell-data
  dwell repair ./dwell-data --reset-clock   the clock was once far ahead

No server may be using it. What can be read takes its place; the old files are
kept beside it, in DIR.damaged, until you remove them. What could not be read
is listed with file and place. Where an ack or a cancellation was lost, a job
may be handed out once more. If nothing is damaged, nothing is changed.")]
pub(crate) struct Repair {
    /// Directory that a server keeps its jobs in
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Forget what time the server has seen; the clock is right now
    #[arg(long)]
    reset_clock: bool,
    /// Print JSON: one object for each thing that could not be read, then one that sums up
    #[arg(long)]
    json: bool,
}

impl Repair {
    pub(super) fn run(self) -> Result<(), Exit> {
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
}
