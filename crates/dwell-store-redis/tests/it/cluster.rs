//! A real cluster of three masters and three replicas, and what a store on it does when a master dies.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dwell_core::{Delay, JobId, LeaseRequest, NewJob, PutOutcome, Settle, State, Store, TopicName, Verdict, When};
use dwell_store_redis::{Address, Clock, Config, RedisStore};
use dwell_store_testkit::property::property;
use dwell_store_testkit::{exercise, make_store};

use tokio::time::Instant;

use crate::server::Server;
use crate::subject::{prefix, standing, subject};

/// Six nodes; the first three become masters.
struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    fn start() -> Self {
        let flags = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--appendonly", "yes"];
        let nodes: Vec<Server> = (0..6).map(|_| Server::with_bus(&flags)).collect();
        let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(&addresses)
            .args(["--cluster-replicas", "1", "--cluster-yes"])
            .output()
            .expect("redis-cli is installed with redis-server");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let cluster = Self { nodes };
        cluster.wait_until_ready();
        cluster
    }

    /// Every node must know that the cluster is whole, and every master must have its replica.
    fn wait_until_ready(&self) {
        crate::server::until("the cluster is whole", || {
            self.nodes.iter().all(|node| {
                node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
                    && node.ask(&["CLUSTER", "INFO"]).contains("cluster_known_nodes:6")
                    && (node.ask(&["INFO", "replication"]).contains("connected_slaves:1")
                        || node.ask(&["INFO", "replication"]).contains("master_link_status:up"))
            })
        });
    }

    fn url(&self) -> String {
        format!("redis-cluster://127.0.0.1:{},127.0.0.1:{}", self.nodes[0].port, self.nodes[5].port)
    }

    fn config(&self) -> Config {
        Config { prefix: prefix(), ..Config::new(Address::parse(&self.url()).unwrap()) }
    }

    /// Kills a master that has slots.
    fn kill_a_master(&mut self) {
        let is_master = |node: &Server| node.ask(&["ROLE"]).starts_with("master");
        let master = self.nodes.iter().position(is_master).expect("there are masters");
        self.nodes[master].kill();
        self.nodes.remove(master);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_a_store_on_a_cluster() {
    let cluster = Cluster::start();
    let url = cluster.url();
    exercise(move |setup| {
        let url = url.clone();
        async move { subject(&url, 12, Clock::engine(), setup).await }
    })
    .await;
}

#[test]
fn does_what_the_model_does_on_a_cluster() {
    let cluster = Cluster::start();
    let url = cluster.url();
    let make = make_store(move |setup| {
        let url = url.clone();
        async move { subject(&url, 12, standing(), setup).await }
    });
    property(&make, crate::conformance::cases(40), 60);
}

fn topic(k: usize) -> TopicName {
    TopicName::new(&format!("topic-{k}")).unwrap()
}

/// Topics that the jobs are spread over, so that every master has some.
const TOPICS: usize = 16;

/// Puts jobs until told to stop; those whose put was answered, and when.
async fn put_all_the_while(putter: usize, store: Arc<dyn Store>, stop: Arc<AtomicBool>) -> BTreeMap<String, Instant> {
    let mut put = BTreeMap::new();
    for round in 0_usize.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let id = format!("{putter}-{round}");
        let new = NewJob::new(topic((putter + round) % TOPICS), JobId::new(&id).unwrap(), When::In(Delay::ZERO));
        // An answer that did not come leaves open whether the job is there.
        if let Ok(answers) = store.put(vec![new]).await
            && matches!(answers[0], Ok(PutOutcome::Created(_)))
        {
            put.insert(id, Instant::now());
        }
    }
    put
}

/// Kills a master while jobs are put; how many puts were answered, and those of them that were lost, with how long before
/// the master died they were answered.
#[expect(clippy::print_stdout, reason = "figures, for people to read")]
async fn kill_a_master_under_load(wait: u32, says: &str) -> (usize, Vec<(String, Duration)>) {
    let mut cluster = Cluster::start();
    let config = Config { wait, ..cluster.config() };
    let store: Arc<dyn Store> = Arc::new(RedisStore::open(&config).await.unwrap());
    let promise = store.status().await.unwrap().promise;
    assert!(promise.contains(says), "{promise}");
    let stop = Arc::new(AtomicBool::new(false));
    let putter = |k| tokio::spawn(put_all_the_while(k, Arc::clone(&store), Arc::clone(&stop)));
    let putters: Vec<_> = (0..16).map(putter).collect();
    // Enough is under way on every master when one of them dies.
    loop {
        let info = store.topic(topic(TOPICS - 1)).await.unwrap();
        if info.is_some_and(|info| info.counts[State::Ready] > 20) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cluster.kill_a_master();
    let died = Instant::now();
    for k in 0..TOPICS {
        // The master that died has no replica left to confirm: its slots are read, the others written.
        while let Err(error) = store.topic(topic(k)).await {
            assert!(
                died.elapsed() < Duration::from_secs(30),
                "topic {k}: {error}; {}",
                cluster.nodes[3].ask(&["CLUSTER", "NODES"])
            );
        }
    }
    println!("every topic is in reach after {:?}", died.elapsed());
    stop.store(true, Ordering::SeqCst);
    let mut put = BTreeMap::new();
    for putter in putters {
        put.extend(putter.await.unwrap());
    }
    // The master that died had a third of the slots; its replica has taken over.
    let calm = Config { wait: 0, ..config };
    let store: Arc<dyn Store> = Arc::new(RedisStore::open(&calm).await.unwrap());
    let there = take_everything(&*store).await;
    let lost = put.iter().filter(|(id, _)| !there.contains(*id));
    let lost: Vec<_> = lost.map(|(id, answered)| (id.clone(), died.saturating_duration_since(*answered))).collect();
    println!("{} puts answered, {} jobs there, {} lost", put.len(), there.len(), lost.len());
    assert!(put.len() > TOPICS * 20, "hardly anything was put");
    for k in 0..TOPICS {
        let new = NewJob::new(topic(k), JobId::new("after").unwrap(), When::NOW);
        assert!(store.put(vec![new]).await.unwrap()[0].is_ok(), "nothing is stuck afterwards");
    }
    assert_eq!(take_everything(&*store).await.len(), 1, "each topic hands out what was put afterwards");
    (put.len(), lost)
}

/// Leases and acks until nothing is left; the ids.
async fn take_everything(store: &dyn Store) -> BTreeSet<String> {
    let mut there = BTreeSet::new();
    for k in 0..TOPICS {
        let mut got = 0;
        loop {
            let jobs = store.lease(LeaseRequest::of(topic(k)).up_to(1_000)).await.unwrap();
            if jobs.is_empty() {
                break;
            }
            got += jobs.len();
            there.extend(jobs.iter().map(|job| job.view.job.id.as_str().to_owned()));
            let acks = jobs.iter().map(|job| Settle::new(job.token.unwrap(), Verdict::Ack)).collect();
            assert!(store.settle(acks).await.unwrap().iter().all(Result::is_ok));
        }
        assert!(got > 0, "topic {k} hands out nothing");
    }
    there
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_under_load_takes_nothing_that_a_replica_confirmed() {
    let says = "a fail-over loses nothing that 1 of the replicas confirmed";
    let (_, lost) = kill_a_master_under_load(1, says).await;
    assert!(lost.is_empty(), "{lost:?}");
}

/// How far a replica may be behind on a busy machine.
const BEHIND: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_under_load_takes_only_what_no_replica_had_yet() {
    let (put, lost) = kill_a_master_under_load(0, "a fail-over loses what the replica has not got yet").await;
    assert!(lost.iter().all(|(_, before)| *before < BEHIND), "{lost:?}");
    assert!(lost.len() < put / 3, "all that a master had was lost: {} of {put}", lost.len());
}
