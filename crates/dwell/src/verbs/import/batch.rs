//! Putting many jobs, and counting what became of them.

use std::fmt::Write as _;

use dwell_client::Client;
use dwell_wire::Code as Api;
use dwell_wire::put::{IfExists, Outcome, PutJob, PutJobs, PutResult};
use serde::Serialize;

use crate::exit::{Exit, of_problem};
use crate::output;

/// Refusals that are told; the others are counted.
const TOLD: usize = 10;

/// Puts jobs.
pub(super) struct Batch {
    pub(super) client: Client,
    pub(super) if_exists: IfExists,
    pub(super) sum: Sum,
}

/// What became of all jobs so far.
#[derive(Debug, Default, Serialize)]
pub(super) struct Sum {
    created: u64,
    replaced: u64,
    kept: u64,
    refused: u64,
    /// Topics that were told what to say for all their jobs.
    pub(super) policies: u64,
    #[serde(skip)]
    first: Option<Api>,
    #[serde(skip)]
    told: Vec<String>,
}

impl Batch {
    pub(super) fn new(client: Client, if_exists: IfExists) -> Self {
        Self { client, if_exists, sum: Sum::default() }
    }

    /// Puts jobs; each with what it is called when it is refused, such as its line.
    pub(super) async fn put(&mut self, mut jobs: Vec<PutJob<'_>>, names: &[String]) -> Result<(), Exit> {
        if jobs.is_empty() {
            return Ok(());
        }
        for job in &mut jobs {
            job.if_exists = job.if_exists.or(Some(self.if_exists));
        }
        let results = self.client.put_many(&PutJobs { jobs }).await.map_err(|error| self.stopped(error.into()))?;
        for (result, name) in results.iter().zip(names) {
            self.sum.count(result, name);
        }
        Ok(())
    }

    /// Why an import ends before its time, and what is in by then.
    pub(super) fn stopped(&self, exit: Exit) -> Exit {
        exit.and(&format!("\ndwell: {} before that; run it again to go on", self.sum.done()))
    }
}

impl Sum {
    fn count(&mut self, result: &PutResult, name: &str) {
        match (result.code, result.outcome) {
            (None, Some(Outcome::Kept)) => self.kept += 1,
            (None, Some(Outcome::Replaced)) => self.replaced += 1,
            (None, _) => self.created += 1,
            (Some(code), _) => {
                self.refused += 1;
                self.first = self.first.or(Some(code));
                if self.told.len() < TOLD {
                    self.told.push(format!("{name}: {}", result.detail.as_deref().unwrap_or(code.title())));
                }
            }
        }
    }

    /// Jobs that were seen.
    pub(super) fn jobs(&self) -> u64 {
        self.created + self.replaced + self.kept + self.refused
    }

    fn done(&self) -> String {
        let mut said = format!("put {}", output::counted(self.created + self.replaced, "job"));
        for (count, what) in [(self.replaced, "in another's place"), (self.kept, "already there")] {
            if count > 0 {
                // Writing to a string cannot fail.
                let _ = write!(said, "; {what}: {count}");
            }
        }
        if self.policies > 0 {
            // Writing to a string cannot fail.
            let _ = write!(said, "; set the policy of {}", output::counted(self.policies, "topic"));
        }
        said
    }

    /// Says what became of them. Fails if one was refused.
    pub(super) fn tell(&self, json: bool) -> Result<(), Exit> {
        if json {
            output::object(self)?;
        } else {
            output::line(&self.done())?;
        }
        let Some(first) = self.first else { return Ok(()) };
        let mut told = self.told.join("\ndwell: ");
        let more = usize::try_from(self.refused).unwrap_or(usize::MAX) - self.told.len();
        if more > 0 {
            // Writing to a string cannot fail.
            let _ = write!(told, "\ndwell: … and {more} more were refused");
        }
        Err(Exit::new(of_problem(first), told))
    }
}
