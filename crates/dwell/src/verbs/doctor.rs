//! `dwell doctor`.
//!
//! A check has a name and says what it found; one file an area. The first one that fails ends its area: what follows
//! would only fail for the same reason.

mod machine;
mod server;
mod target;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::server::Server;
use crate::exit::Exit;
use crate::output;

/// See whether a server, or a target that jobs are pushed to, is as it should be
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell doctor                            the server, and this machine
  dwell doctor --data-dir /var/lib/dwell  the directory that a server here uses
  dwell doctor https://example.com/hook   a target, from this machine

A target is sent a sample as a job would be: a POST of null with the topic
dwell.doctor, signed if there is a secret. Exits with 1 if something is wrong.")]
pub(crate) struct Doctor {
    /// A target to check instead of the server
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    /// Targets on this machine and in private networks are fine, as for a server with this flag
    #[arg(long)]
    allow_private_targets: bool,
    /// What to sign the sample with: whsec_ and base64
    #[arg(long, value_name = "SECRET", env = "DWELL_DELIVER_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// The directory of a server on this machine; ./dwell-data if there is one
    #[arg(long, value_name = "DIR", env = "DWELL_DATA_DIR", conflicts_with = "target")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

/// What a check found.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    status: Status,
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Note,
    Wrong,
}

impl Finding {
    /// What is as it should be, or is not.
    fn of(check: &'static str, found: Result<String, String>) -> Self {
        match found {
            Ok(detail) => Self { check, status: Status::Ok, detail },
            Err(detail) => Self { check, status: Status::Wrong, detail },
        }
    }

    fn note(check: &'static str, detail: String) -> Self {
        Self { check, status: Status::Note, detail }
    }

    fn is_wrong(&self) -> bool {
        self.status == Status::Wrong
    }
}

impl Doctor {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let findings = if let Some(target) = &self.target {
            target::check(target, self.allow_private_targets, self.secret.as_deref()).await
        } else {
            let mut findings = server::check(&self.server).await?;
            findings.extend(machine::check(self.data_dir.as_deref()));
            findings
        };
        for finding in &findings {
            self.print(finding)?;
        }
        match findings.iter().filter(|finding| finding.is_wrong()).count() {
            0 => Ok(()),
            1 => Err(Exit::failure("something is wrong")),
            more => Err(Exit::failure(format!("{more} things are wrong"))),
        }
    }

    fn print(&self, finding: &Finding) -> Result<(), Exit> {
        if self.server.json {
            return output::object(finding);
        }
        let mark = match finding.status {
            Status::Ok => "ok",
            Status::Note => "note",
            Status::Wrong => "WRONG",
        };
        output::line(&format!("{mark:<6} {:<9} {}", finding.check, output::plain(&finding.detail)))
    }
}
