//! The client's worker and a real server that is killed, stopped and started again under it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dwell_client::wire::Duration as Millis;
use dwell_client::wire::job::State;
use dwell_client::wire::put::{PutJob, PutJobs};
use dwell_client::worker::{Event, Tally};
use dwell_client::{Client, Guard, Retry, Work, Worker};
use tokio::sync::{mpsc, oneshot};

use crate::world::command;

/// A server with a directory, which can be killed and started again where it was.
struct Durable {
    directory: tempfile::TempDir,
    child: Child,
    address: String,
}

impl Durable {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (child, address) = serve(&directory, "127.0.0.1:0");
        Self { directory, child, address }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn start_again(&mut self) {
        (self.child, _) = serve(&self.directory, &self.address);
    }

    fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.address), None).unwrap()
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn serve(directory: &tempfile::TempDir, listen: &str) -> (Child, String) {
    let mut serve = command(&["serve", "--listen", listen, "--data-dir"]);
    let mut child = serve.arg(directory.path()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| line.unwrap().trim().strip_prefix("address").map(str::to_owned));
    let address = address.expect("the server says where it listens");
    // The pipe is read to its end, so that the server can go on printing.
    std::thread::spawn(move || lines.count());
    let address = address.split_whitespace().next().unwrap().strip_prefix("http://").unwrap().to_owned();
    (child, address)
}

/// What a worker told of, as it came.
type Events = Arc<Mutex<Vec<Event>>>;

/// A worker under way: which jobs it was given, and what stops it.
struct Running {
    given: mpsc::UnboundedReceiver<(String, u32)>,
    stop: oneshot::Sender<()>,
    run: tokio::task::JoinHandle<Result<Tally, dwell_client::Error>>,
    events: Events,
}

fn start<F>(worker: Worker, handler: impl Fn(Work) -> F + Send + Sync + 'static) -> Running
where
    F: Future<Output = Result<(), Retry>> + Send + 'static,
{
    let (give, given) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel();
    let events = Events::default();
    let heard = Arc::clone(&events);
    let worker = worker.on_event(move |event| heard.lock().unwrap().push(event.clone()));
    let told = move |work: Work| {
        give.send((work.id.clone(), work.attempt)).unwrap();
        handler(work)
    };
    let run = tokio::spawn(worker.run(told, async { stopped.await.unwrap_or(()) }));
    Running { given, stop, run, events }
}

impl Running {
    async fn end(self) -> (Tally, Vec<Event>) {
        self.stop.send(()).unwrap();
        let tally = self.run.await.unwrap().unwrap();
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        (tally, events)
    }

    /// Waits until the worker has told of a server that is away.
    async fn away(&self) {
        while !self.events.lock().unwrap().iter().any(|event| matches!(event, Event::Away { .. })) {
            tokio::task::yield_now().await;
        }
    }
}

/// What has not happened by then does not happen.
async fn within(test: impl Future<Output = ()>) {
    let done = tokio::time::timeout(Duration::from_mins(2), test).await;
    assert!(done.is_ok(), "something was waited for and did not come");
}

async fn put(client: &Client, ids: std::ops::Range<u32>) {
    let job = |id: u32| PutJob { topic: Some("t".into()), id: Some(id.to_string().into()), ..PutJob::default() };
    client.put_many(&PutJobs { jobs: ids.map(job).collect() }).await.unwrap();
}

/// Every job that was put is done, whatever happens to the server; a job is given twice only if its ack was not heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_comes_back_finds_its_workers() {
    within(async {
        let mut server = Durable::start();
        let client = server.client();
        put(&client, 0..200).await;
        let mut running = start(Worker::new(client.clone(), ["t"]).concurrency(8), |_| async { Ok(()) });
        let mut given = Vec::new();
        for round in 1..=3_u32 {
            for _ in 0..20 {
                given.push(running.given.recv().await.unwrap().0);
            }
            server.kill();
            running.events.lock().unwrap().clear();
            running.away().await;
            server.start_again();
            put(&client, 200 * round..200 * (round + 1)).await;
        }
        while client.topic("t").await.unwrap().counts.ready > 0 {}
        while client.topic("t").await.unwrap().counts.leased > 0 {
            // What was leased when the server was killed, and never reached the worker, is still held: nobody has to wait
            // for that in a test.
            for job in client.jobs("t", dwell_client::JobsQuery::default()).await.unwrap().jobs {
                if !given.contains(&job.id) && job.state == State::Leased {
                    let now = dwell_client::wire::change::ChangeJob { delay: Some(Millis(0)), ..Default::default() };
                    drop(client.change("t", &job.id, &now, Guard { force: true, if_match: None }).await);
                }
            }
            while let Ok((id, _)) = running.given.try_recv() {
                given.push(id);
            }
        }
        while let Ok((id, _)) = running.given.try_recv() {
            given.push(id);
        }
        let (tally, _) = running.end().await;
        given.sort_by_key(|id| id.parse::<u32>().unwrap());
        given.dedup();
        assert_eq!(given.len(), 800, "every job was given to the worker");
        assert!(tally.acked + tally.lost >= 800, "{tally:?}");
        let counts = client.topic("t").await.unwrap().counts;
        assert_eq!((counts.ready, counts.leased, counts.buried, counts.delayed), (0, 0, 0, 0));
    })
    .await;
}

/// The server is away when a handler ends: what it said is sent when the server is back, because the lease lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_said_is_heard_by_a_server_that_comes_back() {
    within(async {
        let mut server = Durable::start();
        let client = server.client();
        put(&client, 0..1).await;
        let (go_on, waits) = oneshot::channel();
        let waits = Arc::new(Mutex::new(Some(waits)));
        let mut running = start(Worker::new(client.clone(), ["t"]), move |_| {
            let waits = waits.lock().unwrap().take().unwrap();
            async move { Ok(waits.await?) }
        });
        running.given.recv().await.unwrap();
        server.kill();
        go_on.send(()).unwrap();
        running.away().await;
        server.start_again();
        while client.get("t", "0").await.is_ok() {}
        let (tally, _) = running.end().await;
        assert_eq!(tally, Tally { acked: 1, ..Tally::default() });
        let totals = client.topic("t").await.unwrap().totals;
        assert_eq!((totals.acked, totals.timed_out), (1, 0));
    })
    .await;
}

/// A handler that takes three times as long as its lease keeps it: the job is nobody else's meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_lasts_as_long_as_its_handler() {
    within(async {
        let server = Durable::start();
        let client = server.client();
        put(&client, 0..1).await;
        let (go_on, waits) = oneshot::channel();
        let waits = Arc::new(Mutex::new(Some(waits)));
        let mut running =
            start(Worker::new(client.clone(), ["t"]).concurrency(2).ttr(Duration::from_secs(1)), move |_| {
                let waits = waits.lock().unwrap().take().unwrap();
                async move { Ok(waits.await?) }
            });
        running.given.recv().await.unwrap();
        // Until three leases' worth of extensions were seen.
        let first = client.get("t", "0").await.unwrap().lease_expires_at.unwrap();
        while client.get("t", "0").await.unwrap().lease_expires_at.is_none_or(|now| now.0 < first.0 + 3_000) {}
        go_on.send(()).unwrap();
        let (tally, events) = running.end().await;
        assert_eq!(tally, Tally { acked: 1, ..Tally::default() }, "{events:?}");
        assert_eq!(client.topic("t").await.unwrap().totals.timed_out, 0);
    })
    .await;
}

/// The server is away for longer than a lease lasts. The handler hears of it; the job comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ran_out_while_the_server_was_away_is_lost() {
    within(async {
        let mut server = Durable::start();
        let client = server.client();
        put(&client, 0..1).await;
        let mut running =
            start(Worker::new(client.clone(), ["t"]).concurrency(2).ttr(Duration::from_secs(1)), |work| async move {
                if work.attempt == 1 {
                    work.lost().await;
                }
                Ok(())
            });
        assert_eq!(running.given.recv().await.unwrap().1, 1);
        server.kill();
        // The handler ends when it hears that the lease is lost, with no server to ask.
        while !running.events.lock().unwrap().iter().any(|event| matches!(event, Event::LeaseLost { .. })) {
            tokio::task::yield_now().await;
        }
        server.start_again();
        assert_eq!(running.given.recv().await.unwrap().1, 2, "it comes again, one attempt later");
        let (tally, _) = running.end().await;
        assert_eq!(tally, Tally { acked: 1, lost: 1, ..Tally::default() });
    })
    .await;
}

/// A server that is told to stop answers at once, and is not asked like mad while it goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_is_not_asked_in_a_hurry() {
    within(async {
        let mut server = Durable::start();
        let client = server.client();
        client.pause("t", dwell_client::wire::topic::Pause::default()).await.unwrap();
        let running = start(Worker::new(client.clone(), ["t"]), |_| async { Ok(()) });
        while client.topic("t").await.unwrap().waiting == 0 {}
        let pid = rustix::process::Pid::from_child(&server.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        server.child.wait().unwrap();
        running.away().await;
        let (tally, events) = running.end().await;
        assert_eq!(tally, Tally::default());
        assert!(events.len() < 20, "{events:?}");
    })
    .await;
}
