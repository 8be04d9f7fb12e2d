//! `dwell put`.

use clap::Args;
use dwell_client::Guard;
use dwell_wire::put::{IfExists, Outcome, PutJob};
use dwell_wire::retry::{Backoff, LooseDuration, Retry};
use dwell_wire::{Duration, Instant};

use super::body::BodyFrom;
use super::parse;
use super::server::{self, Server};
use crate::exit::Exit;
use crate::output;

/// Put a job: due after a delay, at an instant, or now
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  dwell put orders.close order-42 --delay 30m --body '{\"order\": 42}'
  echo 'see you' | dwell put reminders --at 2027-01-01T09:00:00+08:00 --body -

An id that is live already is replaced, unless --if-exists says otherwise.")]
pub(crate) struct Put {
    /// Where it queues
    #[arg(value_parser = parse::topic)]
    topic: String,
    /// Your own name for it; the server makes one if there is none
    #[arg(value_parser = parse::id)]
    id: Option<String>,
    /// Due that long from now: 90s, 1h30m, 2d
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Due then: 2026-11-15T17:38:00Z, with a zone
    #[arg(long, value_name = "INSTANT", value_parser = parse::instant)]
    at: Option<Instant>,
    #[command(flatten)]
    body: BodyFrom,
    /// Lower goes first; 1024 if not said
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<u32>,
    /// How long a consumer may hold it; 60s if neither this nor the topic says
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    ttr: Option<Duration>,
    /// How long past its due time it is worth handing over
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    ttl: Option<Duration>,
    /// Deliveries in all; 1 buries it on the first failure
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,
    /// How long to rest after each failure: 15s,3m,10m; the last repeats
    #[arg(long, value_name = "DURATION,…", value_parser = parse::duration, value_delimiter = ',')]
    backoff: Vec<Duration>,
    /// Add a random part of this to the due time
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    jitter: Option<Duration>,
    /// What to do if the id is live already
    #[arg(long, value_name = "WHAT", value_parser = parse::if_exists())]
    if_exists: Option<IfExists>,
    /// Replace even a job that a consumer holds
    #[arg(long, requires = "id")]
    force: bool,
    /// Where the server pushes it to when it is due
    #[arg(long, value_name = "URL")]
    deliver_to: Option<String>,
    /// Travels with the job; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse::header)]
    headers: Vec<(String, String)>,
    #[command(flatten)]
    server: Server,
}

impl Put {
    pub(super) async fn run(self) -> Result<(), Exit> {
        let client = self.server.client()?;
        let backoff = self.backoff.into_iter().map(LooseDuration).collect::<Vec<_>>();
        let backoff = (!backoff.is_empty()).then_some(Backoff::Ladder(backoff));
        let retry = Retry { attempts: self.attempts, backoff };
        let carried = self.body.read()?;
        let (body, body_base64) = carried.fields();
        let job = PutJob {
            delay: self.delay,
            at: self.at,
            body,
            body_base64,
            headers: (!self.headers.is_empty()).then(|| self.headers.into_iter().collect()),
            priority: self.priority,
            ttr: self.ttr,
            retry: (retry != Retry::default()).then_some(retry),
            ttl: self.ttl,
            jitter: self.jitter,
            if_exists: self.if_exists,
            deliver_to: self.deliver_to.map(Into::into),
            ..PutJob::default()
        };
        let put = match &self.id {
            Some(id) => client.put(&self.topic, id, &job, Guard { force: self.force, if_match: None }).await?,
            None => client.create(&self.topic, &job).await?,
        };
        if self.server.json {
            return output::object(&put);
        }
        let did = match put.outcome {
            Some(Outcome::Replaced) => "replaced",
            Some(Outcome::Kept) => "kept",
            Some(Outcome::Created) | None => "put",
        };
        let due = output::when(put.due_at, server::now(&client).await?);
        output::line(&format!("{did} {} on {}, due {due}", put.id, put.topic))
    }
}
