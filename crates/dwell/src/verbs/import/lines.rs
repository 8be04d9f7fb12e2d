//! Reading what `dwell export` writes, or what people write themselves.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, stdin};
use std::path::Path;

use dwell_wire::json::{Fields, read_object};
use dwell_wire::put::{IfExists, Named, PutJob};
use dwell_wire::topic::{Pause, Policy};
use dwell_wire::{Code as Api, Duration, FieldError, Instant};

use super::batch::{Batch, Sum};
use crate::exit::{Code, Exit};
use crate::output::{self, Progress};
use crate::verbs::server;

/// Jobs of one request.
const BATCH: usize = 1_000;

/// Bytes of one request, more or less.
const BATCH_BYTES: usize = 8 << 20;

/// Bytes of a line: the largest body in base64, and all else.
const MAX_LINE: usize = 32 << 20;

/// Puts all that a file says.
pub(super) async fn import(path: Option<&Path>, mut batch: Batch) -> Result<Sum, Exit> {
    let mut lines = Lines::open(path)?;
    let now = server::now(&batch.client).await?;
    let (mut held, mut size) = (Vec::new(), 0);
    loop {
        let line = lines.next()?;
        let flush = held.len() >= BATCH || size >= BATCH_BYTES;
        let alone = line.as_ref().is_some_and(Line::is_topic);
        if flush || alone || line.is_none() {
            put(&mut batch, &held, now).await?;
            lines.progress.at(lines.read, format!("{} jobs", batch.sum.jobs()));
            (held, size) = (Vec::new(), 0);
        }
        match line {
            None => return Ok(batch.sum),
            Some(line) if alone => topic(&mut batch, &line, now).await?,
            Some(line) => {
                size += line.text.len();
                held.push(line);
            }
        }
    }
}

/// One line, and which.
struct Line {
    number: u64,
    text: Vec<u8>,
}

impl Line {
    /// Whether it is about a topic. A job that has a body like that is none: what is looked for is a field of the line.
    fn is_topic(&self) -> bool {
        read_object(&self.text).is_ok_and(|mut fields| fields.raw("policy").is_some())
    }

    fn name(&self) -> String {
        format!("line {}", self.number)
    }

    fn wrong(&self, reason: &str) -> Exit {
        Exit::new(Code::Usage, format!("line {}: {reason}", self.number))
    }

    fn fields(&self) -> Result<Fields<'_>, Exit> {
        read_object(&self.text).map_err(|error| self.wrong(&error.to_string()))
    }

    fn done(&self, fields: Fields<'_>) -> Result<(), Exit> {
        let told = |error: &FieldError| format!("\"{}\" {}", error.field, error.reason);
        match fields.done() {
            mistakes if mistakes.is_empty() => Ok(()),
            mistakes => Err(self.wrong(&mistakes.iter().map(told).collect::<Vec<_>>().join("; "))),
        }
    }

    /// The job that it says.
    fn job(&self, now: Instant) -> Result<PutJob<'_>, Exit> {
        let mut fields = self.fields()?;
        let expires_at = fields.instant("expires_at");
        let mut job = PutJob::read(&mut fields, Named::ByTopicAndId);
        if expires_at.is_some() && job.ttl.is_some() {
            fields.error("ttl", "and \"expires_at\" are both given; choose one");
        }
        self.done(fields)?;
        if let Some(expires_at) = expires_at {
            // A put counts from the due time, or from now if that is later. What has expired does so again at once.
            let from = job.at.unwrap_or(now).max(now);
            job.ttl = Some(Duration(expires_at.0.saturating_sub(from.0).max(1)));
        }
        Ok(job)
    }
}

/// Puts the jobs of some lines.
async fn put(batch: &mut Batch, lines: &[Line], now: Instant) -> Result<(), Exit> {
    let mut jobs = Vec::with_capacity(lines.len());
    let mut wrong = None;
    for line in lines {
        match line.job(now) {
            Ok(job) => jobs.push(job),
            Err(exit) => {
                wrong = Some(exit);
                break;
            }
        }
    }
    // What stands before a line that makes no sense is put: the next run goes on from there.
    let names: Vec<String> = lines[..jobs.len()].iter().map(Line::name).collect();
    batch.put(jobs, &names).await?;
    wrong.map_or(Ok(()), |exit| Err(batch.stopped(exit)))
}

/// Tells a topic what to say for all its jobs. One that says something already stays as it is, unless jobs are replaced.
async fn topic(batch: &mut Batch, line: &Line, now: Instant) -> Result<(), Exit> {
    let mut fields = line.fields()?;
    let name = fields.needed("topic", Fields::string);
    let policy = fields.needed("policy", |fields, name| fields.object(name, Policy::read));
    let (paused, until) = (fields.flag("paused").unwrap_or(false), fields.instant("paused_until"));
    line.done(fields)?;
    let (Some(name), Some(policy)) = (name, policy) else { return Err(line.wrong("names no topic")) };
    let there = match batch.client.topic(&name).await {
        Ok(topic) => topic.policy,
        Err(error) if error.code() == Some(Api::NotFound) => Policy::default(),
        Err(error) => return Err(batch.stopped(error.into())),
    };
    if there != Policy::default() && there != policy && batch.if_exists != IfExists::Replace {
        output::warn(&format!("{name} has a policy of its own, which stays; --if-exists replace would replace it"));
    } else if there != policy {
        batch.client.set_policy(&name, &policy).await.map_err(|error| batch.stopped(error.into()))?;
        batch.sum.policies += 1;
    }
    if paused && until.is_none_or(|until| until > now) {
        let length = until.map(|until| Duration(until.0 - now.0));
        batch.client.pause(&name, Pause { length }).await.map_err(|error| batch.stopped(error.into()))?;
    }
    Ok(())
}

/// The lines of a file or of standard input.
struct Lines {
    from: Box<dyn BufRead>,
    name: String,
    number: u64,
    /// Bytes so far.
    read: u64,
    progress: Progress,
}

impl Lines {
    fn open(path: Option<&Path>) -> Result<Self, Exit> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            let from = Box::new(BufReader::new(stdin()));
            return Ok(Self { from, name: "standard input".into(), number: 0, read: 0, progress: Progress::unknown() });
        };
        let name = path.display().to_string();
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (length, file) = opened.map_err(|error| Exit::failure(format!("cannot read {name}: {error}")))?;
        let from = Box::new(BufReader::with_capacity(1 << 20, file));
        Ok(Self { from, name, number: 0, read: 0, progress: Progress::of_bytes(length) })
    }

    /// The next line that says something.
    fn next(&mut self) -> Result<Option<Line>, Exit> {
        loop {
            let mut text = Vec::new();
            let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
            let read = self.from.by_ref().take(limit).read_until(b'\n', &mut text);
            let read = read.map_err(|error| Exit::failure(format!("cannot read {}: {error}", self.name)))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.read += u64::try_from(read).unwrap_or(0);
            if read == MAX_LINE && !text.ends_with(b"\n") {
                return Err(Exit::new(Code::Usage, format!("line {} of {} is too long", self.number, self.name)));
            }
            if !text.trim_ascii().is_empty() {
                return Ok(Some(Line { number: self.number, text }));
            }
        }
    }
}
