//! Unpaid orders are closed after a while, unless they are paid first: a durable delay queue inside a program.
//!
//! Run it twice: what the first run leaves in `dwell-data` is there for the second.

#![expect(clippy::print_stdout, reason = "an example is something to watch")]

use std::time::Duration;

use dwell_core::{
    CancelItem, Change, ChangeItem, Delay, IfExists, JobId, JobRef, LeaseRequest, NewJob, Settle, Store, TopicName,
    Verdict, When,
};
use dwell_store_embedded::{Config, EmbeddedStore};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = EmbeddedStore::open(&Config::in_directory("dwell-data"))?;
    let topic = TopicName::new("orders.close")?;
    let order = |name: &str| Ok::<_, Box<dyn std::error::Error>>(JobRef::Named(topic.clone(), JobId::new(name)?));

    // Each answer comes after the job is on disk. In real life the delay is half an hour.
    for (name, delay) in [("order-1", 1_000), ("order-2", 1_000), ("order-3", 60_000)] {
        let when = When::In(Delay::from_millis(delay)?);
        let job = NewJob { if_exists: IfExists::Replace, ..NewJob::new(topic.clone(), JobId::new(name)?, when) };
        store.put(vec![job]).await?;
        println!("{name} is to be closed in {} s", delay / 1_000);
    }

    store.cancel(vec![CancelItem::new(order("order-2")?)]).await?;
    println!("order-2 is paid: cancelled");
    let sooner = Change { when: Some(When::In(Delay::from_millis(1_500)?)), ..Change::default() };
    store.change(vec![ChangeItem::new(order("order-3")?, sooner)]).await?;
    println!("order-3 is moved: 1.5 s from now");

    let request = LeaseRequest::of(topic).waiting(Duration::from_secs(3));
    loop {
        let due = store.lease(request.clone()).await?;
        let Some(job) = due.first() else { break };
        let now = store.status().await?.now;
        println!("closing {}, {} ms after it was due", job.view.job.id, now.since(job.view.job.due_at));
        store.settle(job.token.map(|token| Settle::new(token, Verdict::Ack)).into_iter().collect()).await?;
    }
    println!("nothing more is due");
    store.close().await?;
    Ok(())
}
