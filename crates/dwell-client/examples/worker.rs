//! A worker that closes orders nobody paid for. Start a server (`dwell dev`), then this, and put something:
//!
//! ```sh
//! dwell put orders.close order-42 --delay 5s --body '{"order": 42}'
//! ```
//!
//! It goes on until it is interrupted, and then finishes what it has begun.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example is there to be watched")]

use std::time::Duration;

use dwell_client::{Client, Retry, Work, Worker};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DWELL_URL").unwrap_or_else(|_| "http://127.0.0.1:3935".to_owned());
    let token = std::env::var("DWELL_TOKEN").ok();
    let client = Client::new(&url, token.as_deref())?;
    let worker = Worker::new(client, ["orders.close"])
        .concurrency(10)
        .ttr(Duration::from_secs(30))
        .consumer("examples/worker")
        .on_event(|event| eprintln!("{event}"));
    println!("waiting for orders; ctrl-c ends it");
    let tally = worker.run(close, async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await?;
    println!("{tally:?}");
    Ok(())
}

#[derive(serde::Deserialize)]
struct Order {
    order: u64,
}

async fn close(work: Work) -> Result<(), Retry> {
    // A body that makes no sense makes none the next time either: put it aside for a person.
    let order: Order = work.read().map_err(Retry::never)?;
    if order.order % 2 == 1 && work.attempt == 1 {
        return Err(Retry::after(Duration::from_secs(3), "the till is busy"));
    }
    println!("closed order {}, attempt {}", order.order, work.attempt);
    Ok(())
}
