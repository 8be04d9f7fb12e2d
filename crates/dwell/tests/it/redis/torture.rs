//! Two servers on one Redis, killed, frozen and cut off from it at random while jobs are put, leased, nacked, left and acked.
//!
//! What must hold: every job whose put was answered is acked in the end (nothing lost); no lease begins before its job
//! is due (nothing early); no lease begins while another of the same job lives (at most one); a job whose lease ran out
//! is handed out again within a second; nothing that was acked comes back. Longer with `DWELL_TORTURE_SECONDS`.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use ureq::Agent;

use super::proxy::Proxy;
use crate::client::{millis, text_of};
use crate::redis_server::Server as Redis;
use crate::server::Server;

const SERVERS: usize = 2;
/// Consumers of each server: whatever happens to one, the other has some.
const WORKERS: usize = 2;
/// Milliseconds of every lease.
const TTR: i64 = 1_500;
/// How often each putter puts ten jobs.
const PACE: Duration = Duration::from_millis(120);
/// Milliseconds within which a job whose lease ran out must be handed out again: a second, and what a busy machine adds.
const AGAIN: i64 = 3_000;

/// A lease.
#[derive(Clone, Copy)]
struct Held {
    begun: i64,
    ends: i64,
    attempt: u64,
}

/// What is known of the jobs.
#[derive(Default)]
struct Book {
    /// Those whose put was answered.
    put: HashSet<String>,
    /// Those whose ack was answered, and when the lease began.
    acked: HashMap<String, i64>,
    /// Leases that we hold and have not tried to settle.
    held: HashMap<String, Held>,
    leases: u64,
    /// How long after the end of a lease that was left the next one began, at the worst.
    again: i64,
    left: u64,
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

    /// Asks a server; `None` if no answer came.
    fn ask(&self, server: usize, path: &str, value: &Value) -> Option<(u16, Value)> {
        let server = self.addresses.lock().unwrap()[server % SERVERS];
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

    /// Puts jobs, no more than consumers can do: how soon a job comes back must not depend on what waits before it.
    #[expect(clippy::disallowed_methods, reason = "jobs come at a pace")]
    fn put_jobs(&self, putter: usize) {
        for batch in 0.. {
            if self.is_over() {
                return;
            }
            thread::sleep(PACE);
            let jobs: Vec<Value> = (0..10)
                .map(|k| {
                    let (id, delay) = (format!("{putter}-{batch}-{k}"), self.roll(400));
                    json!({"topic": "t", "id": id, "delay": delay, "body": {"id": id}})
                })
                .collect();
            // Of a put whose answer was lost nothing is known: the jobs may or may not be there.
            let Some((200, answer)) = self.ask(putter, "/v1/jobs", &json!({ "jobs": jobs })) else { continue };
            let results = answer["results"].as_array().cloned().unwrap_or_default();
            let created = jobs.iter().zip(&results).filter(|(_, result)| result["status"] == 201);
            let created = created.map(|(job, _)| text_of(&job["id"]).to_owned());
            self.book.lock().unwrap().put.extend(created);
        }
    }

    fn work(&self, server: usize, until_empty: bool) {
        let mut empty = 0;
        while !self.is_over() && empty < 5 {
            let request = json!({"max": 10, "wait": "300ms", "ttr": TTR});
            let Some((200, answer)) = self.ask(server, "/v1/topics/t/lease", &request) else { continue };
            let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
            empty = if jobs.is_empty() && until_empty { empty + 1 } else { 0 };
            for job in jobs {
                self.take(&job);
                self.settle(server, &job, until_empty);
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
        // The answer of a server that stood still may come after a later lease of the same job: what counts is when it began.
        if book.acked.get(&id).is_some_and(|acked| begun > *acked) {
            book.wrong.push(format!("{id} was acked and came back: {job}"));
        }
        let attempt = job["attempt"].as_u64().unwrap();
        if let Some(other) = book.held.get(&id).copied() {
            if begun < other.ends && other.begun < ends {
                book.wrong.push(format!("{id} was leased twice at a time: {job}"));
            }
            // Of leases between the two no answer came.
            if attempt == other.attempt + 1 {
                book.left += 1;
                book.again = book.again.max(begun - other.ends);
                if begun - other.ends > AGAIN {
                    book.wrong.push(format!("{id} was left for {} ms after its lease: {job}", begun - other.ends));
                }
            }
            if begun < other.begun {
                return;
            }
        }
        book.held.insert(id, Held { begun, ends, attempt });
    }

    fn settle(&self, server: usize, job: &Value, always_ack: bool) {
        let id = text_of(&job["id"]);
        let verb = match self.roll(20) {
            0 if !always_ack => return,
            1 | 2 if !always_ack => "nack",
            _ => "ack",
        };
        // From now on the lease may be over, whether or not we hear of it.
        let begun = millis(&job["lease_expires_at"]) - TTR;
        let mut book = self.book.lock().unwrap();
        if book.held.get(id).is_some_and(|held| held.begun == begun) {
            book.held.remove(id);
        }
        drop(book);
        let path = format!("/v1/leases/{}/{verb}", text_of(&job["token"]));
        if let Some((200, _)) = self.ask(server, &path, &json!({}))
            && verb == "ack"
        {
            self.book.lock().unwrap().acked.insert(id.to_owned(), begun);
        }
    }
}

/// What was done to servers.
#[derive(Debug, Default)]
struct Faults {
    kills: u32,
    freezes: u32,
    cuts: u32,
}

impl Faults {
    /// Does something to one of the servers, and undoes it.
    #[expect(clippy::disallowed_methods, reason = "faults last for some time")]
    fn strike(&mut self, world: &World, servers: &mut [Server], ways: &[Proxy]) {
        let rest = |least, more| thread::sleep(Duration::from_millis(least + world.roll(more)));
        rest(100, 400);
        let k = usize::try_from(world.roll(SERVERS as u64)).unwrap();
        match world.roll(3) {
            0 => {
                self.freezes += 1;
                servers[k].signal(Signal::STOP);
                // Past its leases.
                rest(2_000, 500);
                servers[k].signal(Signal::CONT);
            }
            1 => {
                self.cuts += 1;
                ways[k].cut();
                // In part long enough for calls to be given up and sent again.
                rest(500, 4_000);
                ways[k].mend();
            }
            _ => {
                self.kills += 1;
                servers[k].crash_and_start();
                world.addresses.lock().unwrap()[k] = servers[k].address;
            }
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it goes on for as long as it is told")]
fn nothing_is_lost_early_or_held_twice_whatever_happens_to_the_servers() {
    let seconds = std::env::var("DWELL_TORTURE_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(12);
    let redis = Redis::start();
    let ways: Vec<Proxy> = (0..SERVERS).map(|_| Proxy::start(redis.port)).collect();
    let mut servers: Vec<Server> =
        ways.iter().map(|way| super::on(&format!("redis://127.0.0.1:{}", way.port))).collect();
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
    for server in 0..SERVERS {
        let putter = Arc::clone(&world);
        threads.push(thread::spawn(move || putter.put_jobs(server)));
        for _ in 0..WORKERS {
            let worker = Arc::clone(&world);
            threads.push(thread::spawn(move || worker.work(server, false)));
        }
    }
    let mut faults = Faults::default();
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        faults.strike(&world, &mut servers, &ways);
    }
    world.stop.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    // What is left: leases run out, everything is handed out and acked.
    world.stop.store(false, Ordering::SeqCst);
    crate::server::until("everything is acked", || {
        world.work(0, true);
        servers[0].topic("t")["counts"].as_object().is_some_and(|counts| counts.values().all(|count| *count == 0))
    });
    let book = world.book.lock().unwrap();
    println!("{seconds} s, {faults:?}: {} jobs put, {} leases", book.put.len(), book.leases);
    println!("{} left leases, handed out again after {} ms at the worst", book.left, book.again);
    assert!(book.wrong.is_empty(), "{:#?}", book.wrong);
    assert!(book.put.len() > 100 && book.left > 0, "hardly anything was tried: {faults:?}");
    // Of some we do not know that they were put or acked, for the answer was lost; the topic counts them all.
    let totals = &servers[0].topic("t")["totals"];
    let put = totals["put"].as_u64().unwrap();
    assert_eq!(totals["acked"].as_u64(), Some(put), "every job that was put was acked once: {totals}");
    assert!(put >= book.put.len() as u64, "{totals}");
}
