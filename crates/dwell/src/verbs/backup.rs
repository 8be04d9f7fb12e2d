//! `dwell backup`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::exit::Exit;
use crate::output;

/// Copy a server's data directory, while the server runs
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell backup /backups/monday                     of ./dwell-data
  dwell backup /backups/monday --data-dir /var/lib/dwell

Run it on the server's machine, as the same user. What was answered before it
began is in the copy, and the copy was read as a start would read it. To go
back to it, start a server with it as --data-dir. On one file system most of
it takes no room of its own.")]
pub(crate) struct Backup {
    /// Directory to make and copy into
    #[arg(value_name = "INTO")]
    into: PathBuf,
    /// Directory that the server keeps its jobs in
    #[arg(long, value_name = "DIR", default_value = "./dwell-data", env = "DWELL_DATA_DIR")]
    data_dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub(super) fn run(self) -> Result<(), Exit> {
        let copied = dwell_store_embedded::backup(&self.data_dir, &self.into).map_err(Exit::failure)?;
        if self.json {
            return output::object(&json!({ "jobs": copied.jobs, "files": copied.files, "bytes": copied.bytes }));
        }
        let mebi = copied.bytes.div_ceil(1 << 20);
        let (jobs, files) = (output::counted(copied.jobs, "job"), output::counted(copied.files, "file"));
        output::line(&format!("{}: {jobs}, {files}, {mebi} MiB", self.into.display()))
    }
}
