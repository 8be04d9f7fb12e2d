//! Three servers on one Redis, killed and frozen at random while jobs are put, leased, nacked, left and acked.
//!
//! What must hold: every job whose put was answered is acked in the end (nothing lost); no lease begins before its job
//! is due (nothing early); no lease begins while another of the same job lives (at most one); nothing that was acked
//! comes back. Longer with `DWELL_TORTURE_SECONDS`.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use ureq::Agent;

use crate::client::{millis, text_of};
use crate::redis_server::Server as Redis;
use crate::server::Server;

const SERVERS: usize = 3;
/// Milliseconds of every lease.
const TTR: i64 = 1_500;

/// What is known of the jobs.
#[derive(Default)]
struct Book {
    /// Those whose put was answered.
    put: HashSet<String>,
    acked: HashSet<String>,
    /// Ends of leases that we hold and have not tried to settle.
    held: HashMap<String, i64>,
    leases: u64,
    wrong: Vec<String>,
}

struct World {
    book: Mutex<Book>,
    addresses: Mutex<Vec<std::net::SocketAddr>>,
    stop: AtomicBool,
    agent: Agent,
    rolls: AtomicU64,
    key: RandomState,
}

impl World {
    /// Chance, different in each run.
    fn roll(&self, sides: u64) -> u64 {
        self.key.hash_one(self.rolls.fetch_add(1, Ordering::Relaxed)) % sides
    }

    /// Asks any server; `None` if no answer came.
    fn ask(&self, path: &str, value: &Value) -> Option<(u16, Value)> {
        let servers = self.addresses.lock().unwrap().clone();
        let server = servers[usize::try_from(self.roll(SERVERS as u64)).unwrap()];
        let url = format!("http://{server}{path}");
        let body = value.to_string();
        let request = self.agent.post(url).header("content-type", "application/json");
        let mut answer = request.send(body.as_bytes()).ok()?;
        let bytes = answer.body_mut().read_to_vec().ok()?;
        Some((answer.status().as_u16(), serde_json::from_slice(&bytes).ok()?))
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn put_jobs(&self, putter: usize) {
        for batch in 0.. {
            if self.is_over() {
                return;
            }
            let jobs: Vec<Value> = (0..10)
                .map(|k| {
                    let (id, delay) = (format!("{putter}-{batch}-{k}"), self.roll(400));
                    json!({"topic": "t", "id": id, "delay": delay, "body": {"id": id}})
                })
                .collect();
            // Of a put whose answer was lost nothing is known: the jobs may or may not be there.
            let Some((200, answer)) = self.ask("/v1/jobs", &json!({ "jobs": jobs })) else { continue };
            let results = answer["results"].as_array().cloned().unwrap_or_default();
            let created = jobs.iter().zip(&results).filter(|(_, result)| result["status"] == 201);
            let created = created.map(|(job, _)| text_of(&job["id"]).to_owned());
            self.book.lock().unwrap().put.extend(created);
        }
    }

    fn work(&self, until_empty: bool) {
        let mut empty = 0;
        while !self.is_over() && empty < 5 {
            let request = json!({"max": 10, "wait": "300ms", "ttr": TTR});
            let Some((200, answer)) = self.ask("/v1/topics/t/lease", &request) else { continue };
            let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
            empty = if jobs.is_empty() && until_empty { empty + 1 } else { 0 };
            for job in jobs {
                self.take(&job);
                self.settle(&job, until_empty);
            }
        }
    }

    /// Writes a lease into the book, and what is wrong with it.
    fn take(&self, job: &Value) {
        let id = text_of(&job["id"]).to_owned();
        let ends = millis(&job["lease_expires_at"]);
        let begun = ends - TTR;
        let mut book = self.book.lock().unwrap();
        book.leases += 1;
        if begun < millis(&job["due_at"]) {
            book.wrong.push(format!("{id} was leased before it was due: {job}"));
        }
        if book.acked.contains(&id) {
            book.wrong.push(format!("{id} was acked and came back: {job}"));
        }
        if book.held.get(&id).is_some_and(|other| *other > begun) {
            book.wrong.push(format!("{id} was leased twice at a time: {job}"));
        }
        book.held.insert(id, ends);
    }

    fn settle(&self, job: &Value, always_ack: bool) {
        let id = text_of(&job["id"]);
        let verb = match self.roll(20) {
            0 if !always_ack => return,
            1 | 2 if !always_ack => "nack",
            _ => "ack",
        };
        // From now on the lease may be over, whether or not we hear of it.
        self.book.lock().unwrap().held.remove(id);
        let path = format!("/v1/leases/{}/{verb}", text_of(&job["token"]));
        if let Some((200, _)) = self.ask(&path, &json!({}))
            && verb == "ack"
        {
            self.book.lock().unwrap().acked.insert(id.to_owned());
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it goes on for as long as it is told")]
fn nothing_is_lost_early_or_held_twice_whatever_happens_to_the_servers() {
    let seconds = std::env::var("DWELL_TORTURE_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(8);
    let redis = Redis::start();
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| super::on(&redis.url())).collect();
    super::impatient(&servers[0]);
    let agent = Agent::config_builder().timeout_global(Some(Duration::from_secs(8))).http_status_as_error(false);
    let world = Arc::new(World {
        book: Mutex::default(),
        addresses: Mutex::new(servers.iter().map(|server| server.address).collect()),
        stop: AtomicBool::new(false),
        agent: agent.build().into(),
        rolls: AtomicU64::new(0),
        key: RandomState::new(),
    });
    let mut threads = Vec::new();
    for putter in 0..2 {
        let world = Arc::clone(&world);
        threads.push(thread::spawn(move || world.put_jobs(putter)));
    }
    for _ in 0..4 {
        let world = Arc::clone(&world);
        threads.push(thread::spawn(move || world.work(false)));
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(200 + world.roll(500)));
        let k = usize::try_from(world.roll(SERVERS as u64)).unwrap();
        if world.roll(3) == 0 {
            servers[k].signal(Signal::STOP);
            thread::sleep(Duration::from_secs(2));
            servers[k].signal(Signal::CONT);
        } else {
            servers[k].crash_and_start();
            world.addresses.lock().unwrap()[k] = servers[k].address;
        }
    }
    world.stop.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    // What is left: leases run out, everything is handed out and acked.
    world.stop.store(false, Ordering::SeqCst);
    crate::server::until("everything is acked", || {
        world.work(true);
        servers[0].topic("t")["counts"].as_object().is_some_and(|counts| counts.values().all(|count| *count == 0))
    });
    let book = world.book.lock().unwrap();
    println!("{} jobs, {} leases", book.put.len(), book.leases);
    assert!(book.wrong.is_empty(), "{:#?}", book.wrong);
    assert!(book.put.len() > 100, "hardly anything was put: {}", book.put.len());
    // Of some we do not know that they were put or acked, for the answer was lost; the topic counts them all.
    let totals = &servers[0].topic("t")["totals"];
    let put = totals["put"].as_u64().unwrap();
    assert_eq!(totals["acked"].as_u64(), Some(put), "every job that was put was acked once: {totals}");
    assert!(put >= book.put.len() as u64, "{totals}");
}
