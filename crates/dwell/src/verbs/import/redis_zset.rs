//! `dwell import redis-zset`: a delay queue that was made by hand from sorted sets in Redis.
//!
//! `old` is the queue as it lies in Redis, `alone` keeps a second import out, `entry` one job of it and what becomes of it here, `survey` what is shown before
//! anything is moved, `moving` the move. A job is put here first, and taken out there once that is answered and only if it
//! has not changed: whatever breaks in between, it is in one place at least, and a second run finds it in both and goes on.

mod alone;
mod entry;
mod moving;
mod old;
mod survey;

use clap::{Args, ValueEnum};
use dwell_wire::Duration;

use self::moving::Moving;
use self::old::{Layout, Old};
use super::super::parse;
use super::super::server::{self, Server};
use crate::exit::{Code, Exit};
use crate::output;

/// From a delay queue made by hand of Redis sorted sets
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell import redis-zset redis://127.0.0.1:6379 --unit seconds
      shows what is there, and changes nothing
  dwell import redis-zset redis://127.0.0.1:6379 --unit seconds --run
      moves it; what is due within a minute is left to the old consumers
  dwell import redis-zset redis://127.0.0.1:6379 --unit seconds --run --all
      moves the rest, once the old consumers are stopped

It may be stopped at any moment and run again.")]
pub(crate) struct RedisZset {
    /// Where the old queue is: redis://host:port/db, rediss:// for TLS
    #[arg(value_name = "REDIS", env = "DWELL_IMPORT_REDIS", hide_env_values = true)]
    redis: String,
    /// What the scores count since 1970
    #[arg(long, value_name = "UNIT")]
    unit: Unit,
    /// Move the jobs; without it they are only looked at
    #[arg(long)]
    run: bool,
    /// Move what is due, too: the old consumers are stopped
    #[arg(long, conflicts_with = "margin")]
    all: bool,
    /// Leave to the old consumers what is due within this
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, default_value = "1m")]
    margin: Duration,
    /// sets: a sorted set of jobs and a hash of bodies for each kind;
    /// pool: one hash of jobs, sorted sets of their ids, ready lists for each topic
    #[arg(long, value_name = "LAYOUT", default_value = "sets", hide_possible_values = true)]
    layout: LayoutName,
    /// Only this kind; may be repeated (layout sets)
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// The sorted sets (layout sets)
    #[arg(long, value_name = "PATTERN", default_value = "delay:queue:{kind}", value_parser = with_kind)]
    queues: String,
    /// The hashes of bodies by member (layout sets)
    #[arg(long, value_name = "PATTERN", default_value = "delay:body:{kind}", value_parser = with_kind)]
    bodies: String,
    /// The topics here (layout sets)
    #[arg(long, value_name = "PATTERN", default_value = "{kind}", value_parser = with_kind)]
    topic: String,
    /// The hash of jobs by id, in JSON with topic and body (layout pool)
    #[arg(long, value_name = "KEY", default_value = "delay:pool")]
    pool: String,
    /// The sorted sets of ids; * stands for anything (layout pool)
    #[arg(long, value_name = "PATTERN", default_value = "delay:bucket:*")]
    buckets: String,
    /// The lists of ids that are due (layout pool)
    #[arg(long, value_name = "PATTERN", default_value = "delay:ready:*")]
    ready: String,
    #[command(flatten)]
    server: Server,
}

/// What a score counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Unit {
    Seconds,
    Milliseconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LayoutName {
    Sets,
    Pool,
}

fn with_kind(text: &str) -> Result<String, String> {
    match text.matches("{kind}").count() {
        1 => Ok(text.to_owned()),
        _ => Err("needs {kind} in it, once".to_owned()),
    }
}

impl RedisZset {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let now = server::now(&client).await?;
        let mut old = Old::open(&self.redis, self.layout()).await?;
        let margin = (!self.all).then_some(self.margin.0);
        let survey = survey::take(&mut old, self.unit, now, margin).await?;
        if !self.run {
            return if self.server.json { output::object(&survey.json()) } else { survey.print() };
        }
        if let Some(warning) = survey.warning() {
            return Err(Exit::new(Code::Usage, format!("{warning}; nothing was moved")));
        }
        let mut moving = Moving::new(client, old, self.unit, margin, survey.to_move());
        let moved = moving.run(&survey.places).await?;
        for complaint in &moved.complaints {
            output::warn(complaint);
        }
        if self.server.json { output::object(&moved.json()) } else { output::line(&moved.text()) }?;
        if moved.refused > 0 {
            return Err(Exit::failure(format!("{} jobs were refused and are where they were", moved.refused)));
        }
        Ok(())
    }

    fn layout(&self) -> Layout {
        match self.layout {
            LayoutName::Sets => Layout::Sets {
                queues: self.queues.clone(),
                bodies: self.bodies.clone(),
                topic: self.topic.clone(),
                kinds: self.kinds.clone(),
            },
            LayoutName::Pool => {
                Layout::Pool { pool: self.pool.clone(), buckets: self.buckets.clone(), ready: self.ready.clone() }
            }
        }
    }
}
