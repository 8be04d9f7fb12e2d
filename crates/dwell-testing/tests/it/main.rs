//! What a test can rely on when it brings its own Dwell, and what the worker makes of time that it sees pass.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dwell_client::wire::Duration as Millis;
use dwell_client::wire::job::State;
use dwell_client::wire::lease::LeaseRequest;
use dwell_client::wire::put::PutJob;
use dwell_client::wire::retry::{Backoff, LooseDuration, Retry as RetryPolicy};
use dwell_client::worker::Tally;
use dwell_client::{Client, Guard, Retry, Work, Worker};
use dwell_testing::TestDwell;
use tokio::sync::{Notify, mpsc, oneshot};

const HOUR: u64 = 3_600_000;

/// What has not happened by then does not happen.
async fn within(test: impl Future<Output = ()>) {
    let done = tokio::time::timeout(Duration::from_mins(2), test).await;
    assert!(done.is_ok(), "something was waited for and did not come");
}

async fn put(client: &Client, id: &str, delay: u64) {
    let job = PutJob { delay: Some(Millis(delay)), ..PutJob::default() };
    client.put("t", id, &job, Guard::default()).await.unwrap();
}

async fn leased(client: &Client, wait: u64) -> Vec<String> {
    let topics = Some(vec!["t".into()]);
    let wanted = LeaseRequest { topics, wait: Some(Millis(wait)), max: Some(10), ..LeaseRequest::default() };
    client.lease(&wanted).await.unwrap().into_iter().map(|job| job.id).collect()
}

/// A handler that says which jobs it was given, and a worker with it; and what stops it.
struct Team {
    said: mpsc::UnboundedReceiver<(String, u32)>,
    stop: oneshot::Sender<()>,
    run: tokio::task::JoinHandle<Result<Tally, dwell_client::Error>>,
}

fn team<F>(worker: Worker, handler: impl Fn(Work) -> F + Send + Sync + 'static) -> Team
where
    F: Future<Output = Result<(), Retry>> + Send + 'static,
{
    let (say, said) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel();
    let told = move |work: Work| {
        say.send((work.id.clone(), work.attempt)).unwrap();
        handler(work)
    };
    let run = tokio::spawn(worker.run(told, async { stopped.await.unwrap_or(()) }));
    Team { said, stop, run }
}

impl Team {
    async fn end(self) -> Tally {
        self.stop.send(()).unwrap();
        self.run.await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn time_stands_still_until_it_is_moved() {
    within(async {
        let dwell = TestDwell::start().await.unwrap();
        let client = dwell.client();
        assert_eq!(client.info().await.unwrap().now.to_string(), "2026-01-01T00:00:00.000Z");
        put(&client, "a", 15 * HOUR).await;
        dwell.advance(Duration::from_millis(15 * HOUR - 1)).await.unwrap();
        assert_eq!(leased(&client, 50).await, [""; 0], "a millisecond is left, and does not pass by itself");
        dwell.advance(Duration::from_millis(1)).await.unwrap();
        assert_eq!(leased(&client, 0).await, ["a"]);
        assert_eq!(client.info().await.unwrap().now.to_string(), "2026-01-01T15:00:00.000Z");
        dwell.advance(Duration::from_mins(1)).await.unwrap();
        assert_eq!(client.get("t", "a").await.unwrap().last_error.as_deref(), Some("lease expired"));
    })
    .await;
}

#[tokio::test]
async fn who_waits_already_is_handed_what_becomes_due() {
    within(async {
        let dwell = TestDwell::start_at(1_000).await.unwrap();
        let client = dwell.client();
        put(&client, "a", 3_650 * 24 * HOUR).await;
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { leased(&client, 60_000).await }
        });
        while client.topic("t").await.unwrap().waiting == 0 {}
        dwell.advance(Duration::from_millis(3_650 * 24 * HOUR)).await.unwrap();
        assert_eq!(waiting.await.unwrap(), ["a"]);
    })
    .await;
}

#[tokio::test]
async fn two_do_not_meet() {
    within(async {
        let (one, other) = (TestDwell::start().await.unwrap(), TestDwell::start().await.unwrap());
        put(&one.client(), "a", 0).await;
        assert_eq!(leased(&other.client(), 0).await, [""; 0]);
        let url = one.url().to_owned();
        drop(one);
        // The listener is closed by the server's own task.
        while Client::new(&url, None).unwrap().info().await.is_ok() {}
    })
    .await;
}

#[tokio::test]
async fn a_handler_says_what_becomes_of_a_job() {
    within(async {
        let dwell = TestDwell::start().await.unwrap();
        let client = dwell.client();
        for id in ["done", "fails", "later", "never", "panics"] {
            put(&client, id, HOUR).await;
        }
        let events = Arc::new(std::sync::Mutex::new(Vec::new()));
        let heard = Arc::clone(&events);
        let worker = Worker::new(client.clone(), ["t"]).concurrency(2).consumer("me");
        let worker = worker.on_event(move |event| heard.lock().unwrap().push(event.to_string()));
        let mut team = team(worker, |work| async move {
            match &*work.id {
                "done" => Ok(()),
                "fails" => Ok("x".parse::<u32>().map(drop)?),
                "later" => Err(Retry::after(Duration::from_secs(5), "busy")),
                "never" => Err(Retry::never("no such order")),
                _ => panic!("on purpose"),
            }
        });
        dwell.advance(Duration::from_millis(HOUR)).await.unwrap();
        let mut said = Vec::new();
        for _ in 0..5 {
            said.push(team.said.recv().await.unwrap());
        }
        let tally = team.end().await;
        assert_eq!(tally, Tally { acked: 1, nacked: 3, buried: 1, ..Tally::default() });
        said.sort();
        assert_eq!(
            said.iter().map(|(id, attempt)| (&**id, *attempt)).collect::<Vec<_>>(),
            [("done", 1), ("fails", 1), ("later", 1), ("never", 1), ("panics", 1)]
        );
        assert_eq!(client.get("t", "done").await.unwrap_err().code(), Some(dwell_client::wire::Code::NotFound));
        let job = |id: &'static str| {
            let client = client.clone();
            async move { client.get("t", id).await.unwrap() }
        };
        assert_eq!(job("fails").await.last_error.as_deref(), Some("invalid digit found in string"));
        let (later, now) = (job("later").await, client.info().await.unwrap().now);
        assert_eq!((later.last_error.as_deref(), later.due_at.0 - now.0), (Some("busy"), 5_000));
        let never = job("never").await;
        assert_eq!((never.state, never.buried_reason.as_deref()), (State::Buried, Some("no such order")));
        assert_eq!(job("panics").await.last_error.as_deref(), Some("the handler panicked"));
        let events = events.lock().unwrap();
        assert!(events.contains(&"later on t failed at attempt 1: busy".to_owned()), "{events:?}");
    })
    .await;
}

/// The partner's system is down: 15 s, 3 m, 10 m, 30 m, 30 m, 1 h, 2 h, 6 h, 15 h, then a person looks at it.
#[tokio::test]
async fn a_ladder_is_climbed_to_its_end_in_a_moment() {
    within(async {
        let dwell = TestDwell::start().await.unwrap();
        let client = dwell.client();
        let ladder = [15, 180, 600, 1_800, 1_800, 3_600, 7_200, 21_600, 54_000].map(|seconds| seconds * 1_000);
        let steps = ladder.iter().map(|step| LooseDuration(Millis(*step))).collect();
        let retry = Some(RetryPolicy { attempts: None, backoff: Some(Backoff::Ladder(steps)) });
        client.put("t", "a", &PutJob { retry, ..PutJob::default() }, Guard::default()).await.unwrap();
        let mut team = team(Worker::new(client.clone(), ["t"]), |_| async { Err(Retry::by_policy("down")) });
        assert_eq!(team.said.recv().await.unwrap(), ("a".to_owned(), 1));
        for (number, step) in ladder.iter().enumerate() {
            // What the handler said has been heard when the job waits again.
            while client.get("t", "a").await.unwrap().state != State::Delayed {}
            dwell.advance(Duration::from_millis(step - 1)).await.unwrap();
            assert_eq!(client.get("t", "a").await.unwrap().state, State::Delayed, "step {number}");
            dwell.advance(Duration::from_millis(1)).await.unwrap();
            assert_eq!(team.said.recv().await.unwrap().1, u32::try_from(number).unwrap() + 2);
        }
        while client.get("t", "a").await.unwrap().state != State::Buried {}
        assert_eq!(team.end().await.nacked, 10);
    })
    .await;
}

#[tokio::test]
async fn so_many_are_under_way_and_no_more() {
    within(async {
        let dwell = TestDwell::start().await.unwrap();
        let client = dwell.client();
        for number in 0..50 {
            put(&client, &number.to_string(), 0).await;
        }
        let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let seen = Arc::clone(&most);
        let mut team = team(Worker::new(client, ["t"]).concurrency(7), move |_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        });
        for _ in 0..50 {
            team.said.recv().await.unwrap();
        }
        assert_eq!(team.end().await.acked, 50);
        assert!((2..=7).contains(&seen.load(Ordering::SeqCst)), "{seen:?}");
    })
    .await;
}

/// What is under way when the worker is told to stop is finished and acked; nothing else is begun, and nothing is held.
#[tokio::test]
async fn a_shutdown_finishes_what_is_under_way_and_begins_nothing() {
    within(async {
        let dwell = TestDwell::start().await.unwrap();
        let client = dwell.client();
        put(&client, "under way", 0).await;
        let go_on = Arc::new(Notify::new());
        let waits = Arc::clone(&go_on);
        let mut team = team(Worker::new(client.clone(), ["t"]).concurrency(2), move |_| {
            let waits = Arc::clone(&waits);
            async move {
                waits.notified().await;
                Ok(())
            }
        });
        team.said.recv().await.unwrap();
        // The second place is free, and the worker asks for it.
        while client.topic("t").await.unwrap().waiting == 0 {}
        team.stop.send(()).unwrap();
        put(&client, "too late", 0).await;
        // It reaches the question that is still open, and is given back.
        let is_back = || async { client.get("t", "too late").await.unwrap().version > 3 };
        while !is_back().await {}
        while client.get("t", "too late").await.unwrap().state != State::Ready {}
        assert_eq!(client.get("t", "under way").await.unwrap().state, State::Leased);
        go_on.notify_one();
        let tally = team.run.await.unwrap().unwrap();
        assert_eq!(tally, Tally { acked: 1, released: 1, ..Tally::default() });
        let late = client.get("t", "too late").await.unwrap();
        assert_eq!((late.state, late.attempt), (State::Ready, 0), "given back uncounted");
        assert!(team.said.try_recv().is_err(), "it was not begun");
    })
    .await;
}

/// Someone takes the job away by force: the handler hears of it, and what it says is not sent.
#[tokio::test]
async fn a_handler_hears_that_its_lease_is_lost() {
    within(async {
        let dwell = TestDwell::start().await.unwrap();
        let client = dwell.client();
        put(&client, "a", 0).await;
        let (heard, mut hears) = mpsc::unbounded_channel();
        let mut team = team(Worker::new(client.clone(), ["t"]).ttr(Duration::from_secs(1)), move |work| {
            let heard = heard.clone();
            async move {
                assert!(!work.is_lost());
                work.lost().await;
                heard.send(work.is_lost())?;
                Ok(())
            }
        });
        team.said.recv().await.unwrap();
        let later = PutJob { delay: Some(Millis(HOUR)), ..PutJob::default() };
        client.put("t", "a", &later, Guard { force: true, if_match: None }).await.unwrap();
        assert_eq!(hears.recv().await, Some(true));
        assert_eq!(team.end().await, Tally { lost: 1, ..Tally::default() });
        let job = client.get("t", "a").await.unwrap();
        assert_eq!((job.state, job.last_error), (State::Delayed, None), "the worker did not touch the new job");
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_is_refused_says_why() {
    within(async {
        let dwell = TestDwell::start().await.unwrap();
        let never = |_| async { Ok(()) };
        let refused = Worker::new(dwell.client(), ["-"]).run(never, std::future::pending()).await.unwrap_err();
        assert_eq!(refused.code(), Some(dwell_client::wire::Code::InvalidRequest));
    })
    .await;
}
