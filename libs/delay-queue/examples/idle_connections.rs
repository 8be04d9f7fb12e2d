//! Closes connections that have been silent for too long, and gives up on requests that take too
//! long. Runs for about two seconds: `cargo run -p delay-queue --example idle_connections`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use delay_queue::{DelayQueue, Key};
use tokio::time::{Instant, sleep};

const IDLE: Duration = Duration::from_millis(500);
const TIME_OUT: Duration = Duration::from_millis(300);

/// What may happen unless something else happens first.
enum Event {
    CloseConnection(&'static str),
    GiveUp(&'static str),
}

struct Connection {
    name: &'static str,
    idle: Key,
}

impl Connection {
    fn open(name: &'static str, events: &DelayQueue<Event>) -> Self {
        println!("{name} connects");
        Self { name, idle: events.push(Event::CloseConnection(name), IDLE) }
    }

    /// Every word puts off the end.
    fn speak(&self, events: &DelayQueue<Event>) {
        let is_open = events.reschedule(self.idle, IDLE);
        println!("{} speaks{}", self.name, if is_open { "" } else { ", but nobody listens any more" });
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let events = DelayQueue::new();
    let start = Instant::now();
    let watcher = tokio::spawn({
        let events = events.clone();
        async move {
            while let Some(event) = events.pop().await {
                let at = start.elapsed().as_millis();
                match event {
                    Event::CloseConnection(name) => println!("{at:>5} ms: {name} was idle, closed"),
                    Event::GiveUp(request) => println!("{at:>5} ms: {request} timed out"),
                }
            }
        }
    });

    let alice = Connection::open("alice", &events);
    let bob = Connection::open("bob", &events);
    let quick = events.push(Event::GiveUp("quick request"), TIME_OUT);
    events.push(Event::GiveUp("slow request"), TIME_OUT);

    sleep(Duration::from_millis(100)).await;
    if events.cancel(quick).is_some() {
        println!("quick request is answered in time");
    }
    for _ in 0..4 {
        sleep(Duration::from_millis(300)).await;
        alice.speak(&events);
    }
    bob.speak(&events);

    events.close();
    watcher.await.expect("the watcher does not panic");
    println!("{:>5} ms: everything is closed", start.elapsed().as_millis());
}
