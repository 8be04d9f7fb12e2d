//! `kill -9` while jobs move to the cold tier: each round has a directory of its own, little memory and large bodies, and
//! ends within milliseconds after jobs of a new priority were put and one of them was moved.

use std::borrow::Cow;
use std::time::Duration;

use dwell_client::wire::Duration as Millis;
use dwell_client::wire::change::ChangeJob;
use dwell_client::wire::put::{PutJob, PutJobs};
use dwell_client::{Client, Guard, JobsQuery};
use dwell_store_embedded::check_directory;
use serde_json::value::RawValue;
use tokio::time::sleep;

use crate::Outcome;
use crate::job::scramble;
use crate::run::Options;
use crate::server::Recipe;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many rounds
    #[arg(long, default_value_t = 60)]
    pub(crate) count: u32,
}

/// Jobs of a batch, and bytes of a body.
const BATCH: u32 = 40;
const BODY: usize = 9_000;

/// The topic they are put into.
const TOPIC: &str = "t";

/// How long flushes are given between the batches.
const PAUSE: Duration = Duration::from_millis(150);

/// An hour.
const DELAY: u64 = 3_600_000;

pub(crate) async fn run(args: &Args, options: &Options) -> Outcome<bool> {
    println!("{} kills while jobs move to the cold tier", args.count);
    let mut wrong = 0;
    for round in 0..args.count {
        let place = tempfile::Builder::new().prefix("dwell-torture-").tempdir_in(options.place())?;
        let recipe = options.recipe(place.path(), "1MiB")?;
        if let Err(what) = one(&recipe, round).await? {
            println!("  round {round}: {what}");
            wrong += 1;
        }
    }
    let verdict = if wrong == 0 { "ok".to_owned() } else { format!("FAILED: {wrong} rounds went wrong") };
    println!("  {} kills while jobs move to the cold tier: {verdict}", args.count);
    Ok(wrong == 0)
}

async fn one(recipe: &Recipe, round: u32) -> Outcome<Result<(), String>> {
    let mut server = recipe.start()?.map_err(|refused| refused.said)?;
    for priority in 1..=3 {
        put(&server.client, priority).await?;
    }
    sleep(PAUSE).await;
    put(&server.client, 4).await?;
    let moved = ChangeJob { delay: Some(Millis(2 * DELAY)), ..ChangeJob::default() };
    server.client.change(TOPIC, "4-7", &moved, Guard::default()).await?;
    sleep(Duration::from_micros(scramble(round.into()) % 12_000)).await;
    server.process.kill()?;
    let checked = check_directory(&recipe.data)?;
    if !checked.is_good() {
        return Ok(Err(format!("{checked:?}")));
    }
    let mut server = recipe.start()?.map_err(|refused| refused.said)?;
    let counted = server.client.topic(TOPIC).await?.counts.delayed;
    let listed = server.client.jobs(TOPIC, JobsQuery { limit: Some(1_000), ..JobsQuery::default() }).await?.jobs.len();
    server.process.kill()?;
    let put = usize::try_from(4 * BATCH)?;
    let right = counted == u64::from(4 * BATCH) && listed == put;
    Ok(if right { Ok(()) } else { Err(format!("of {put} jobs {counted} are counted and {listed} listed")) })
}

async fn put(client: &Client, priority: u32) -> Outcome<()> {
    let body = RawValue::from_string(format!("\"{}\"", "x".repeat(BODY)))?;
    let job = |k| PutJob {
        topic: Some(Cow::Borrowed(TOPIC)),
        id: Some(Cow::Owned(format!("{priority}-{k}"))),
        delay: Some(Millis(DELAY)),
        priority: Some(priority),
        body: Some(&body),
        ..PutJob::default()
    };
    let results = client.put_many(&PutJobs { jobs: (0..BATCH).map(job).collect() }).await?;
    let refused = results.iter().find(|result| result.status != 201);
    refused.map_or(Ok(()), |refused| Err(format!("a put was answered with {}", refused.status).into()))
}
