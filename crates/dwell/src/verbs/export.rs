//! `dwell export`.

mod line;

use std::fs::File;
use std::io::{BufWriter, Write, stdout};
use std::path::{Path, PathBuf};

use clap::Args;
use dwell_client::{Client, JobsQuery, TopicsQuery};
use dwell_wire::job::{Job, State};
use dwell_wire::topic::Topic;
use serde::Serialize;

use super::parse;
use super::server::Server;
use crate::exit::{Code, Exit};
use crate::output::{self, Progress};

/// Jobs or topics of one request.
const PAGE: u32 = 1_000;

/// Write topics and their jobs as JSON lines, for `dwell import`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell export --output jobs.jsonl
  dwell export orders.close | dwell import --url http://other:3935

A line is an item of POST /v1/jobs, or {\"topic\", \"policy\"}. Dead letters are left
out unless --buried says otherwise: an import would deliver them again. What is
not carried: attempts, last errors, leases, secrets. Jobs that change meanwhile
may be missed; stop producers and consumers, or pause topics, first.")]
pub(crate) struct Export {
    /// Which; all if not said
    #[arg(value_name = "TOPIC", value_parser = parse::topic)]
    topics: Vec<String>,
    /// Only topics whose names start so
    #[arg(long, value_name = "TEXT", conflicts_with = "topics")]
    prefix: Option<String>,
    /// Dead letters too; an import delivers them again
    #[arg(long)]
    buried: bool,
    /// Write to this file, which is there when all of it is
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    server: Server,
}

/// What was written, and what was not.
#[derive(Debug, Default, Serialize)]
struct Sum {
    topics: u64,
    jobs: u64,
    held: u64,
    buried_left_out: u64,
}

/// Where lines go.
type Lines = BufWriter<Box<dyn Write>>;

impl Export {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let topics = self.topics(&client).await?;
        let Some(path) = &self.output else {
            let sum = self.write(&client, &topics, BufWriter::new(Box::new(stdout()))).await?;
            return self.tell(&sum);
        };
        // A file that was only begun must not be taken for a whole one.
        let begun = begun(path)?;
        let file = File::create_new(&begun).map_err(|error| unwritten(&begun, &error))?;
        let written = self.write(&client, &topics, BufWriter::new(Box::new(file))).await;
        let finished = written.and_then(|sum| {
            let renamed =
                File::open(&begun).and_then(|file| file.sync_all()).and_then(|()| std::fs::rename(&begun, path));
            renamed.map(|()| sum).map_err(|error| unwritten(path, &error))
        });
        if finished.is_err() {
            // What is left of it is of no use; why it is there was said.
            drop(std::fs::remove_file(&begun));
        }
        self.tell(&finished?)
    }

    /// The topics, as they are now.
    async fn topics(&self, client: &Client) -> Result<Vec<Topic>, Exit> {
        let mut found = Vec::new();
        for topic in &self.topics {
            found.push(client.topic(topic).await?);
        }
        let mut cursor = None::<String>;
        while self.topics.is_empty() {
            let query = TopicsQuery { prefix: self.prefix.as_deref(), limit: Some(PAGE), cursor: cursor.as_deref() };
            let page = client.topics(query).await?;
            found.extend(page.topics);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }

    async fn write(&self, client: &Client, topics: &[Topic], mut lines: Lines) -> Result<Sum, Exit> {
        let waiting = |topic: &Topic| topic.counts.delayed + topic.counts.ready + topic.counts.leased;
        let progress = Progress::of(topics.iter().map(waiting).sum(), "jobs");
        let mut sum = Sum::default();
        for topic in topics {
            sum.topics += 1;
            if let Some(line) = line::of_topic(topic) {
                self.line(&mut lines, &line)?;
            }
            let mut cursor = None::<String>;
            loop {
                let query = JobsQuery { state: None, limit: Some(PAGE), cursor: cursor.as_deref() };
                let page = client.jobs(&topic.name, query).await?;
                for job in &page.jobs {
                    self.job(&mut lines, topic, job, &mut sum)?;
                }
                progress.at(sum.jobs, topic.name.clone());
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
        }
        lines.flush().map_err(|error| self.unwritten(&error))?;
        Ok(sum)
    }

    fn job(&self, lines: &mut Lines, topic: &Topic, job: &Job, sum: &mut Sum) -> Result<(), Exit> {
        match job.state {
            State::Done => return Ok(()),
            State::Buried if !self.buried => {
                sum.buried_left_out += 1;
                return Ok(());
            }
            State::Leased => sum.held += 1,
            State::Buried | State::Delayed | State::Ready => {}
        }
        sum.jobs += 1;
        self.line(lines, &line::of_job(job, &topic.policy))
    }

    fn line(&self, lines: &mut Lines, line: &impl Serialize) -> Result<(), Exit> {
        let text = output::json_line(line)?;
        writeln!(lines, "{text}").map_err(|error| self.unwritten(&error))
    }

    fn unwritten(&self, error: &std::io::Error) -> Exit {
        self.output.as_ref().map_or_else(|| output::unwritten(error), |path| unwritten(path, error))
    }

    /// Says what was written: beside it, if it went to standard output.
    fn tell(&self, sum: &Sum) -> Result<(), Exit> {
        if self.server.json && self.output.is_some() {
            return output::object(sum);
        }
        let mut said =
            format!("exported {} of {}", output::counted(sum.jobs, "job"), output::counted(sum.topics, "topic"));
        if sum.held > 0 {
            said = format!("{said}; held by consumers, who may still ack them here: {}", sum.held);
        }
        if sum.buried_left_out > 0 {
            said = format!("{said}; dead letters left out: {} (--buried exports them)", sum.buried_left_out);
        }
        if self.output.is_some() {
            return output::line(&said);
        }
        output::warn(&said);
        Ok(())
    }
}

/// What a file is called until all of it is there.
fn begun(path: &Path) -> Result<PathBuf, Exit> {
    let name = path.file_name().ok_or_else(|| Exit::new(Code::Usage, format!("{} is not a file", path.display())))?;
    let mut name = name.to_owned();
    name.push(".part");
    Ok(path.with_file_name(name))
}

fn unwritten(path: &Path, error: &std::io::Error) -> Exit {
    Exit::failure(format!("cannot write {}: {error}", path.display()))
}
